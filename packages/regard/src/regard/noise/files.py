"""The noise model as a commented TOML file; every mistake in it is reported at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from regard.array_types import Real
from regard.arrays import load_array
from regard.errors import InputError
from regard.noise.model import Magnitude, ModelError, NoiseModel, Spread
from regard.toml import read_toml

EXAMPLE = """\
# A noise model: k = magnitude * mean + Gaussian noise. The parts below add; leave out what you do not need.
# Keys are counted from 0. A matrix is written as rows, or as the name of a .npy, .npz, .csv or .safetensors file
# (relative to this one).

orthonormal = 10          # the means are the first 10 unit vectors; or:  means = "means.npy",  means = [[1, 0], [0, 1]]
isotropic = 0.01          # the variance a of a I, one number for all keys or a list with one per key

[[spread]]                # Sigma_0 = a I + (1/2) mu_0 mu_0^T: one line of the coursework
key = 0
variance = 0.5
along = "mean"            # or a vector, used as it is (not normalised)

# [[magnitude]]           # the mean of key 0 comes multiplied by 1/2 or 3/2
# key = 0
# values = [0.5, 1.5]
# probabilities = [0.5, 0.5]

# [[covariance]]          # a full covariance for one key
# key = 3
# matrix = "sigma3.npy"

# [joint]                 # keys that move together: the covariance of all keys stacked, (n d) x (n d)
# matrix = "joint.npy"
"""

_KEYS = {
    "": {"orthonormal", "means", "isotropic", "spread", "magnitude", "covariance", "joint"},
    "spread": {"key", "variance", "along"},
    "magnitude": {"key", "values", "probabilities"},
    "covariance": {"key", "matrix"},
    "joint": {"matrix"},
}
_NEEDED = {
    "spread": {"key", "variance"},
    "magnitude": {"key", "values", "probabilities"},
    "covariance": {"key", "matrix"},
    "joint": {"matrix"},
}


def read_model(path: str | os.PathLike[str]) -> NoiseModel:
    """A noise model from a TOML file (``regard noise example`` prints one with every key explained).

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "model.toml")
    ...     _ = file.write_text(EXAMPLE)
    ...     read_model(file).keys
    10
    """
    file = Path(path)
    try:
        raw = read_toml(file, like="what `regard noise example` prints")
    except FileNotFoundError:
        raise InputError(
            f"The noise model {file} does not exist; check the path, or begin with: regard noise example > {file.name}"
        ) from None
    wrong = _shape_mistakes(raw)
    try:
        model = _model(_readable(raw), file.parent)
    except ModelError as error:
        wrong += error.mistakes
    except InputError as error:  # about one matrix
        wrong.append(str(error).rstrip("."))
    if wrong:
        count = "a mistake" if len(wrong) == 1 else f"{len(wrong)} mistakes"
        raise InputError(f"The noise model {file} has {count}: {'; '.join(wrong)}.")
    return model


def _shape_mistakes(raw: dict[str, Any]) -> list[str]:
    """Unknown and missing keys, and tables that are not tables."""
    wrong = [f"unknown key {name!r}" for name in raw if name not in _KEYS[""]]
    if ("orthonormal" in raw) == ("means" in raw):
        wrong.append("it needs either means or orthonormal")
    if "orthonormal" in raw and not _is_count(raw["orthonormal"]):
        wrong.append(f"orthonormal must be a whole number from 1 to 10000, not {raw['orthonormal']!r}")
    for name in _NEEDED:
        for table in _tables(raw, name):
            wrong += _table_mistakes(table, name)
    named = [table["key"] for table in _tables(raw, "covariance") if _is_whole(table, "covariance")]
    wrong += [f"key {key} has two covariances, write their sum" for key in sorted(set(named)) if named.count(key) > 1]
    return wrong


def _table_mistakes(table: Any, name: str) -> list[str]:
    if not isinstance(table, dict):
        return [f"{name} must be a table, written [joint]" if name == "joint" else f"{name} must be written [[{name}]]"]
    wrong = [f"unknown key {key!r} in {name}" for key in table if key not in _KEYS[name]]
    wrong += [f"{name} lacks {key!r}" for key in sorted(_NEEDED[name] - set(table))]
    if "key" in _NEEDED[name] & set(table) and not isinstance(table["key"], int):
        wrong.append(f"the key of a {name} must be a whole number, not {table['key']!r}")
    return wrong


def _tables(raw: dict[str, Any], name: str) -> list[Any]:
    """The tables of a name as a list; None stands for what is none."""
    given = raw.get(name, [])
    if name == "joint":
        return [given] if name in raw else []
    return given if isinstance(given, list) else [None]


def _is_count(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 10_000


def _is_whole(table: Any, name: str) -> bool:
    """Whether a table has all it needs, so that its values can be looked at."""
    return isinstance(table, dict) and _NEEDED[name] <= set(table) and isinstance(table.get("key", 0), int)


def _readable(raw: dict[str, Any]) -> dict[str, Any]:
    """The part that has the right shape, so that wrong values are found beside wrong names in one go."""
    kept: dict[str, Any] = {name: raw[name] for name in ("orthonormal", "means", "isotropic") if name in raw}
    if "means" in kept or not _is_count(kept.get("orthonormal")):
        kept.pop("orthonormal", None)
    for name in _NEEDED:
        tables = [
            {k: table[k] for k in _KEYS[name] & set(table)} for table in _tables(raw, name) if _is_whole(table, name)
        ]
        kept |= {name: tables[0] if name == "joint" else tables} if tables else {}
    return kept


def _model(raw: dict[str, Any], folder: Path) -> NoiseModel:
    if "orthonormal" not in raw and "means" not in raw:
        raise ModelError([])  # said already; without means, nothing more can be
    means = np.eye(raw["orthonormal"]) if "orthonormal" in raw else _matrix(raw["means"], folder, "means")
    joint = raw.get("joint")
    return NoiseModel(
        means=means,
        isotropic=raw.get("isotropic", 0.0),
        spreads=[Spread(**table) for table in raw.get("spread", [])],
        magnitudes=[Magnitude(**table) for table in raw.get("magnitude", [])],
        covariances={t["key"]: _matrix(t["matrix"], folder, "a covariance") for t in raw.get("covariance", [])},
        joint=None if joint is None else _matrix(joint["matrix"], folder, "the joint covariance"),
    )


def _matrix(given: Any, folder: Path, what: str) -> Real:
    if isinstance(given, str):
        spec = given if Path(given).is_absolute() else str(folder / given)
        return np.asarray(load_array(spec, what=what, ndim=2).array, dtype=float)
    return given  # type: ignore[no-any-return]  # checked by the model, which says what is wrong with it

"""The noise model as a commented TOML file; every mistake in it is reported at once."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from regard.arrays import load_array
from regard.errors import InputError
from regard.noise.model import Array, Magnitude, NoiseModel, Spread

EXAMPLE = """\
# A noise model: k = magnitude * mean + Gaussian noise. The parts below add; leave out what you do not need.
# Keys are counted from 0. A matrix is written as rows, or as the name of a .npy, .npz, .csv or .safetensors file
# (relative to this one).

orthonormal = 10          # the means are the first 10 unit vectors; or:  means = "means.npy",  means = [[1, 0], [0, 1]]
isotropic = 0.01          # the variance a of a I, one number for all keys or a list with one a key

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
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"The noise model {file} does not exist; check the path.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"The noise model {file} is not TOML: {error}.") from None
    wrong = _shape_mistakes(raw)
    if wrong:
        raise InputError(f"The noise model {file} has {_count(wrong)}: {'; '.join(wrong)}.")
    return _model(raw, file.parent)


def _count(wrong: list[str]) -> str:
    return "a mistake" if len(wrong) == 1 else f"{len(wrong)} mistakes"


def _shape_mistakes(raw: dict[str, Any]) -> list[str]:
    """Unknown and missing keys, and tables that are not tables."""
    wrong = [f"unknown key {name!r}" for name in raw if name not in _KEYS[""]]
    if ("orthonormal" in raw) == ("means" in raw):
        wrong.append("it needs either means or orthonormal")
    count = raw.get("orthonormal", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10_000:
        wrong.append(f"orthonormal must be a whole number from 1 to 10000, not {count!r}")
    for name in ("spread", "magnitude", "covariance", "joint"):
        given = raw.get(name, {} if name == "joint" else [])
        tables = [given] if name == "joint" and "joint" in raw else ([] if name == "joint" else given)
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            wrong.append(
                f"{name} must be a table, written [{name}]" if name == "joint" else f"{name} must be written [[{name}]]"
            )
            continue
        for table in tables:
            wrong += [f"unknown key {key!r} in {name}" for key in table if key not in _KEYS[name]]
            wrong += [f"{name} lacks {key!r}" for key in sorted(_NEEDED[name] - set(table))]
    return wrong


def _model(raw: dict[str, Any], folder: Path) -> NoiseModel:
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


def _matrix(given: Any, folder: Path, what: str) -> Array:
    if isinstance(given, str):
        spec = given if Path(given).is_absolute() else str(folder / given)
        return np.asarray(load_array(spec, what=what, ndim=2).array, dtype=float)
    return given  # type: ignore[no-any-return]  # checked by the model, which says what is wrong with it

"""The noise model as a commented TOML file; every mistake in it is reported at once."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.array_types import Real
from regard.arrays import load_array
from regard.declared_tables import Mistakes, entry, read_table, read_tables
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


@dataclass(frozen=True, kw_only=True)
class _SpreadTable:
    key: int = entry(about="the key that varies more, counted from 0")
    variance: Any = entry(about="the extra variance")
    along: Any = entry("mean", 'a vector, or "mean"')


@dataclass(frozen=True, kw_only=True)
class _MagnitudeTable:
    key: int = entry(about="the key whose mean is multiplied, counted from 0")
    values: Any = entry(about="what it may be multiplied by")
    probabilities: Any = entry(about="how likely each of the values is")


@dataclass(frozen=True, kw_only=True)
class _CovarianceTable:
    key: int = entry(about="the key that has this covariance, counted from 0")
    matrix: Any = entry(about="rows, or the name of a file")


@dataclass(frozen=True, kw_only=True)
class _JointTable:
    matrix: Any = entry(about="rows, or the name of a file")


@dataclass(frozen=True, kw_only=True)
class _ModelTable:
    """The whole file. What a matrix or a variance must be is checked by the model, which knows the other parts."""

    orthonormal: int | None = entry(None, "how many unit vectors the means are", least=1, most=10_000)
    means: Any = entry(None, "rows, or the name of a file")
    isotropic: Any = entry(0.0, "the variance of all keys, or a list with one per key")
    spread: Any = entry([])
    magnitude: Any = entry([])
    covariance: Any = entry([])
    joint: dict[str, Any] | None = entry(None, form="a table, written [joint]")


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
    mistakes = Mistakes(f"The noise model {file}")
    model = _model(raw, file.parent, mistakes)
    if model is None or mistakes.sentences:  # no model comes with a mistake
        raise mistakes.error()
    return model


def _model(raw: dict[str, Any], folder: Path, mistakes: Mistakes) -> NoiseModel | None:
    """The model of what has the right shape, so that wrong values are found beside wrong names in one go."""
    table = read_table(_ModelTable, raw, mistakes) or _ModelTable()
    spreads = read_tables(_SpreadTable, table.spread, "spread", mistakes)
    magnitudes = read_tables(_MagnitudeTable, table.magnitude, "magnitude", mistakes)
    covariances = read_tables(_CovarianceTable, table.covariance, "covariance", mistakes)
    joint = None if table.joint is None else read_table(_JointTable, table.joint, mistakes, where="joint: ")
    for key, count in sorted(Counter(one.key for one in covariances).items()):
        if count > 1:
            mistakes.add(f"key {key} has two covariances, write their sum.")
    if ("orthonormal" in raw) == ("means" in raw):
        mistakes.add("it needs either means or orthonormal.")
    if table.means is None and table.orthonormal is None:
        return None  # without means, nothing more can be said
    try:
        return NoiseModel(
            means=_matrix(table.means, folder, "means") if table.means is not None else np.eye(table.orthonormal or 1),
            isotropic=table.isotropic,
            spreads=[Spread(**vars(one)) for one in spreads],
            magnitudes=[Magnitude(**vars(one)) for one in magnitudes],
            covariances={one.key: _matrix(one.matrix, folder, "a covariance") for one in covariances},
            joint=None if joint is None else _matrix(joint.matrix, folder, "the joint covariance"),
        )
    except ModelError as error:
        for mistake in error.mistakes:
            mistakes.add(f"{mistake}.")
    except InputError as error:  # about one matrix
        mistakes.add(str(error))
    return None


def _matrix(given: Any, folder: Path, what: str) -> Real:
    if isinstance(given, str):
        spec = given if Path(given).is_absolute() else str(folder / given)
        return np.asarray(load_array(spec, what=what, ndim=2).array, dtype=float)
    return given  # type: ignore[no-any-return]  # checked by the model, which says what is wrong with it

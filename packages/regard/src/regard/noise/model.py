"""Random keys: what is known about them, and what a set of queries makes of it.

k_l = c_l mu_l + e_l, with a random magnitude c_l (1 unless said otherwise) and a Gaussian e_l of covariance

    Sigma_l = a_l I + sum over spreads of variance * direction direction^T + covariance_l,

plus, where keys move together, a joint covariance of all keys stacked. The parts add.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from regard.array_types import Real
from regard.arrays import as_array, check_array, load_array
from regard.declared_tables import Mistakes, entry, read_table, read_tables
from regard.errors import InputError
from regard.toml import read_toml
from regard.written_numbers import is_whole


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """Extra variance of one key along one direction: Sigma_key gains variance * along along^T.

    ``along`` is a vector, used as it is (not normalised), or ``"mean"`` for the key's own mean.
    """

    key: int
    variance: float
    along: ArrayLike | str = "mean"


@dataclass(frozen=True, kw_only=True, eq=False)
class Magnitude:
    """The mean of one key comes multiplied by one of finitely many values, each with its probability."""

    key: int
    values: Sequence[float] = (0.5, 1.5)
    probabilities: Sequence[float] = (0.5, 0.5)


class ModelError(InputError):
    """Every mistake in a noise model, in one sentence and one by one."""

    def __init__(self, mistakes: list[str]) -> None:
        count = "is wrong" if len(mistakes) == 1 else f"has {len(mistakes)} mistakes"
        super().__init__(f"The noise model {count}: {'; '.join(mistakes)}.")
        self.mistakes = mistakes


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseModel:
    """The law of n random keys in R^d; every mistake in it is reported at once.

    Use it for keys that are Gaussian, or finite mixtures through their magnitudes; heavier tails are not in it.

    means: n x d, the mean (before its magnitude) of every key.
    isotropic: the variance a, one for all keys or one per key.
    spreads: extra variance along chosen directions. magnitudes: finitely many lengths of a mean.
    covariances: a full d x d covariance for chosen keys. joint: an (n d) x (n d) covariance of all keys stacked.

    The coursework's Sigma_a = a I + (1/2) mu_a mu_a^T is one line:

    >>> model = NoiseModel(means=np.eye(3), isotropic=0.01, spreads=[Spread(key=0, variance=0.5)])
    >>> model.covariance(0).diagonal().tolist()
    [0.51, 0.01, 0.01]
    """

    means: Real
    isotropic: ArrayLike = 0.0
    spreads: Sequence[Spread] = ()
    magnitudes: Sequence[Magnitude] = ()
    covariances: Mapping[int, ArrayLike] = field(default_factory=dict)
    joint: ArrayLike | None = None

    def __post_init__(self) -> None:
        # first and alone: without keys no other part can be judged; all other mistakes are collected
        means = check_array(self.means, what="means").copy()
        object.__setattr__(self, "means", means)
        wrong = [*_isotropic_mistakes(self), *_part_mistakes(self), *_covariance_mistakes(self)]
        if wrong:
            raise ModelError(wrong)
        object.__setattr__(self, "isotropic", np.broadcast_to(np.asarray(self.isotropic, float), len(means)))
        object.__setattr__(self, "covariances", {k: np.asarray(m, float) for k, m in self.covariances.items()})
        object.__setattr__(self, "joint", None if self.joint is None else np.asarray(self.joint, float))

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return int(self.means.shape[0])

    @property
    def dimension(self) -> int:
        """The length of a key."""
        return int(self.means.shape[1])

    def magnitude(self, key: int) -> tuple[Real, Real]:
        """The values and probabilities of a key's magnitude; one value, 1, where nothing was said.

        >>> NoiseModel(means=np.eye(2)).magnitude(1)
        (array([1.]), array([1.]))
        """
        for part in self.magnitudes:
            if part.key == key:
                return np.asarray(part.values, float), np.asarray(part.probabilities, float)
        return np.ones(1), np.ones(1)

    def direction(self, spread: Spread) -> Real:
        """The vector a spread runs along."""
        return self.means[spread.key] if isinstance(spread.along, str) else np.asarray(spread.along, float)

    def covariance(self, key: int) -> Real:
        """Sigma_key as a d x d matrix, the joint part included, the random magnitude not."""
        return self.score_covariance(np.eye(self.dimension), key)

    def score_covariance(self, queries: Real, key: int) -> Real:
        """Q Sigma_key Q^T for H queries (H x d)."""
        return self.times_covariance(queries, key) @ queries.T

    def times_covariance(self, queries: Real, key: int) -> Real:
        """Q Sigma_key for H queries (H x d), without forming Sigma_key unless it was given in full.

        What overflows is infinite here; :func:`regard.noise.score_laws` refuses it.
        """
        total: Real = np.asarray(self.isotropic)[key] * queries
        for spread in self.spreads:
            if spread.key == key:
                along = self.direction(spread)
                total = total + spread.variance * np.outer(queries @ along, along)
        if key in self.covariances:
            total = total + queries @ np.asarray(self.covariances[key])
        if self.joint is not None:
            block = slice(key * self.dimension, (key + 1) * self.dimension)
            total = total + queries @ np.asarray(self.joint)[block, block]
        return total

    def full_covariance(self) -> Real:
        """The covariance of all keys stacked, (n d) x (n d), every part included."""
        n, d = self.means.shape
        full = np.zeros((n, d, n, d)) if self.joint is None else np.array(self.joint).reshape(n, d, n, d)
        for key in range(n):
            # set, not added: covariance(key) has the joint part's own block in it already
            full[key, :, key, :] = self.covariance(key)
        return full.reshape(n * d, n * d)


def _numbers(given: Any) -> Real | None:
    try:
        stored = as_array(given, "the noise model")
        array = stored.astype(float)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        return None
    return array if stored.dtype.kind in "iuf" and np.isfinite(array).all() else None  # true is no variance


def _isotropic_mistakes(model: NoiseModel) -> list[str]:
    a = _numbers(model.isotropic)
    if a is None or a.shape not in ((), (len(model.means),)):
        return [f"isotropic must be one finite number or {len(model.means)}, one for every key"]
    return [f"isotropic is a variance and must not be negative, but it is {a.min():g}"] if (a < 0).any() else []


def _part_mistakes(model: NoiseModel) -> list[str]:
    wrong = []
    for spread in model.spreads:
        wrong += _key_mistake(model, spread.key, "spread")
        variance = _numbers(spread.variance)
        if variance is None or variance.shape != () or variance < 0:
            wrong.append(f"a spread's variance must be a number >= 0, not {spread.variance!r}")
        if isinstance(spread.along, str):
            if spread.along != "mean":
                wrong.append(f'a spread runs along a vector or "mean", not {spread.along!r}')
            continue
        along = _numbers(spread.along)
        if along is None or along.shape != (model.means.shape[1],):
            wrong.append(f"a spread's direction needs {model.means.shape[1]} finite numbers")
    seen: set[int] = set()
    for magnitude in model.magnitudes:
        wrong += _key_mistake(model, magnitude.key, "magnitude") + _magnitude_mistakes(magnitude)
        if magnitude.key in seen:
            wrong.append(f"key {magnitude.key} has two magnitudes, write one with all its values")
        seen.add(magnitude.key)
    return wrong


def _magnitude_mistakes(part: Magnitude) -> list[str]:
    values, chances = _numbers(part.values), _numbers(part.probabilities)
    if values is None or chances is None or values.ndim != 1 or values.shape != chances.shape or not len(values):
        return ["a magnitude needs as many finite values as probabilities, and at least one"]
    if (chances < 0).any() or abs(chances.sum() - 1) > 1e-12:
        return [f"the probabilities of a magnitude must be >= 0 and sum to 1, but they sum to {chances.sum():g}"]
    return []


def _key_mistake(model: NoiseModel, key: Any, what: str) -> list[str]:
    n = len(model.means)
    if is_whole(key) and 0 <= key < n:
        return []
    return [f"a {what} names key {key!r}, but keys are counted from 0 to {n - 1}"]


def _covariance_mistakes(model: NoiseModel) -> list[str]:
    n, d = model.means.shape
    wrong = []
    for key, matrix in model.covariances.items():
        wrong += _key_mistake(model, key, "covariance") + psd_mistake(matrix, d, f"the covariance of key {key}")
    if model.joint is not None:
        wrong += psd_mistake(model.joint, n * d, "the joint covariance")
    return wrong


def psd_mistake(given: ArrayLike, size: int, name: str) -> list[str]:
    """What keeps a matrix from being a covariance, as a list of at most one remark.

    >>> psd_mistake([[1, 2], [2, 1]], 2, "S")
    ['S must be positive semidefinite, but its smallest eigenvalue is -1']
    """
    matrix = _numbers(given)
    if matrix is None or matrix.shape != (size, size):
        came = "something else" if matrix is None else f"shape {matrix.shape}"
        return [f"{name} must be {size} x {size} and finite, not {came}"]
    scale = float(np.abs(matrix).max(initial=0.0))
    # a covariance that was worked out as a product is symmetric and semidefinite up to rounding only
    if np.abs(matrix - matrix.T).max(initial=0.0) > 1e-10 * scale:
        return [f"{name} must be symmetric"]
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -1e-10 * scale:
        return [f"{name} must be positive semidefinite, but its smallest eigenvalue is {smallest:.6g}"]
    return []


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
            means=_read_matrix(table.means, folder, "means")
            if table.means is not None
            else np.eye(table.orthonormal or 1),
            isotropic=table.isotropic,
            spreads=[Spread(**vars(one)) for one in spreads],
            magnitudes=[Magnitude(**vars(one)) for one in magnitudes],
            covariances={one.key: _read_matrix(one.matrix, folder, "a covariance") for one in covariances},
            joint=None if joint is None else _read_matrix(joint.matrix, folder, "the joint covariance"),
        )
    except ModelError as error:
        for mistake in error.mistakes:
            mistakes.add(f"{mistake}.")
    except InputError as error:  # about one matrix
        mistakes.add(str(error))
    return None


def _read_matrix(given: Any, folder: Path, what: str) -> Real:
    if isinstance(given, str):
        spec = given if Path(given).is_absolute() else str(folder / given)
        return np.asarray(load_array(spec, what=what, ndim=2).array, dtype=float)
    return given  # type: ignore[no-any-return]  # checked by the model, which says what is wrong with it

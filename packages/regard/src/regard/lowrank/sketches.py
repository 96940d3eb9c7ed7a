"""What a sketch of a huge matrix knows, and the one more reading that checks it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from regard.array_types import Array, Float
from regard.arrays import refuse_rounded
from regard.errors import InputError
from regard.lowrank.decompose import spectrum
from regard.lowrank.singular import RankForError, Spectrum, Truncation, check_rank, smallest_rank
from regard.notation import readable
from regard.progress import Counter, Progress
from regard.results import Result
from regard.rigor import check_arithmetic
from regard.rigor.floats import U
from regard.rigor.matrices import PAY, difference, gamma, norm_above, squares
from regard.written_numbers import at_least, at_most, between, in_full, is_whole

Matrix = Array  # any real type, memory-mapped or not; blocks of it become float64
BLOCK = 2**21  # numbers read at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Sketch(Result):
    """``A ~ Y Q^T`` with Q of few orthonormal columns and Y = A Q, and bounds on all that was left out.

    ``residual`` holds for certain; ``probable_residual`` fails with at most ``failure_probability`` over the
    draw of the probes (NumPy's normal deviates taken as Gaussian).
    """

    name: str
    shape: tuple[int, int]
    columns: int
    passes: int  # how often the matrix was read
    seed: int
    singular_values: Float  # as many as columns, as the next two
    lower: Float  # <= sigma_i(A)
    upper: Float  # >= sigma_i(A)
    frobenius: float
    residual: float  # >= ||A - Y Q^T||_F, hence >= ||A - Y Q^T||_2
    residual_by: str  # "identity" or "direct measurement"
    probable_residual: float  # >= ||A - Y Q^T||_2 unless the draw was unlucky
    residual_below: float  # <= ||A - Y Q^T||_2
    probes: int
    failure_probability: float
    _core: Spectrum = field(repr=False)  # of Y, m x columns
    _basis: Float = field(repr=False)  # Q, n x columns
    _skew: float = field(repr=False)  # >= ||Q^T Q - I||
    _drift: float = field(repr=False)  # >= what rounding in Y and skewness of Q can add

    def spectral_error(self, rank: int) -> tuple[float, float]:
        """Certain bounds: no approximation of the rank errs less, this sketch's errs at most the second."""
        return self.truncate(rank).best_spectral_error

    def probable_spectral_error(self, rank: int) -> float:
        """As ``spectral_error(rank)[1]`` but from the probes: wrong with at most ``failure_probability``."""
        inner = self._inner(self._core.truncate(self._check_rank(rank)), spectral=True)
        return math.hypot(self.probable_residual, inner) * PAY

    def truncate(self, rank: int) -> Truncation:
        """The sketch's approximation of a rank as two thin factors; the stated errors hold for certain."""
        core = self._core.truncate(self._check_rank(rank))
        # only a lower bound of the best error: the sketch does not know the values behind its last column
        left_out = self.lower[rank:]
        spectral = math.hypot(self.residual, self._inner(core, spectral=True)) * PAY
        frobenius = math.hypot(self.residual, self._inner(core, spectral=False)) * PAY
        return Truncation(
            name=self.name,
            rank=rank,
            shape=self.shape,
            best_spectral_error=(float(np.max(left_out, initial=0.0)), spectral),
            best_frobenius_error=(float(np.linalg.norm(left_out)) / PAY, frobenius),
            spectral_error_above=spectral,
            frobenius_error_above=frobenius,
            left=core.left,
            right=self._basis @ core.right,
            probable_spectral_error=min(spectral, self.probable_spectral_error(rank)),
            failure_probability=self.failure_probability,
        )

    def rank_for_error(self, error: float, *, norm: str = "spectral", relative: bool = False) -> RankForError:
        """The smallest rank of this sketch that is certain to err by at most ``error``; raises if none is."""
        whole = self.frobenius / PAY, self.frobenius * PAY
        if norm == "spectral":
            whole = float(self.lower[0]), float(self.upper[0])
        cuts = [self.truncate(k) for k in range(1, self.columns + 1)]
        pairs = [cut.best_spectral_error if norm == "spectral" else cut.best_frobenius_error for cut in cuts]
        return smallest_rank([whole, *pairs], error, norm=norm, unit=whole if relative else None)

    def check(self, matrix: Matrix, *, progress: Progress | None = None) -> SketchCheck:
        """Read the matrix once more and measure ``||A - Y Q^T||_F`` directly, without the identity."""
        if matrix.shape != self.shape:
            raise InputError(f"The matrix to check has shape {matrix.shape}, the sketch {self.shape}.")
        measured = direct_residual(matrix, self._core._source[0], self._basis, progress)
        return SketchCheck(measured=measured, stated=self.residual)

    def _inner(self, core: Truncation, *, spectral: bool) -> float:
        """At least ||A P - B|| for P the projector on the basis: the sketch's own truncation and its rounding."""
        above = core.spectral_error_above if spectral else core.frobenius_error_above
        forming = 2 * gamma(self.columns + 1) * self.columns * self.frobenius
        return (above * math.sqrt(1 + self._skew) + 2 * self._drift + forming) * PAY

    def _check_rank(self, rank: int) -> int:
        where = f", the columns of this sketch of {self.name}"
        return check_rank(rank, self.columns, where, fix="; sketch with a larger rank")

    def _probable_bound(self) -> str:
        if not self.probes:
            return ""
        return (
            f", spectral norm at least {at_least(self.residual_below, 4)} (certain) and at most "
            f"{at_most(self.probable_residual, 6)} (from {self.probes} probes, false with probability at most "
            f"{in_full(self.failure_probability)})"
        )

    def __str__(self) -> str:
        m, n = self.shape
        s = ", ".join(f"{value:.6g}" for value in self.singular_values[:8])
        return (
            f"{self.name}: {m} x {n}, sketched with {self.columns} columns in {self.passes} passes (seed "
            f"{self.seed}); Frobenius norm {self.frobenius:.6g}.\n"
            f"Largest singular values, about: {s}{', ...' if len(self.singular_values) > 8 else ''}; σ₁ is "
            f"{between(self.lower[0], self.upper[0], 6)}.\n"
            f"What the sketch leaves out has Frobenius norm at most {at_most(self.residual, 6)} (certain, by the "
            f"{self.residual_by}){self._probable_bound()}."
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class SketchCheck(Result):
    """The residual measured directly beside the stated one."""

    measured: tuple[float, float]
    stated: float

    @property
    def answer(self) -> bool:
        """False when the direct measurement contradicts the stated bound."""
        return self.measured[0] <= self.stated

    def __str__(self) -> str:
        word = "at most" if self.answer else "NOT"
        low, high = self.measured
        return readable(f"$||A - Y Q^T||_F$ is {between(low, high, 6)}: {word} the stated {in_full(self.stated)}.")


def blocks(matrix: Matrix, step: Counter) -> Iterator[tuple[slice, Float]]:
    rows = max(1, BLOCK // matrix.shape[1])
    for start in range(0, len(matrix), rows):
        block = np.asarray(matrix[start : start + rows], dtype=np.float64)
        yield slice(start, start + len(block)), block
        step.add(len(block))


def refuse_nonfinite(block: Float, image: Float, rows: slice, name: str) -> None:
    """Gaussian vectors meet every entry of the block, so a bad one shows in their few images."""
    if np.isfinite(image).all():
        return
    row, column = np.argwhere(~np.isfinite(block))[0] if not np.isfinite(block).all() else (0, 0)
    raise InputError(
        f"{name}: row {rows.start + row}, column {column} (counted from 0) is {block[row, column]}; every number "
        "must be finite and of moderate size, so remove, replace or rescale it."
    )


def direct_residual(matrix: Matrix, image: Float, basis: Float, progress: Progress | None) -> tuple[float, float]:
    """Bounds on ||A - Y Q^T||_F, entry by entry in one reading."""
    check_arithmetic()
    step, parts = Counter(progress, len(matrix)), []
    for rows, block in blocks(matrix, step):
        parts.append(squares(block - image[rows] @ basis.T))
    slack = gamma(basis.shape[1] + 2) * norm_above(image) * norm_above(basis)
    middle, wide = math.sqrt(math.fsum(parts)), 1 + gamma(matrix.shape[1] + 8)
    return max(0.0, middle / wide - slack) / PAY, (middle * wide + slack) * PAY


def sketch(
    matrix: Matrix,
    *,
    rank: int,
    seed: int,
    oversample: int = 10,
    passes: int = 2,
    probes: int = 10,
    probe_passes: int = 2,
    failure_probability: float = 1e-10,
    name: str = "matrix",
    progress: Progress | None = None,
) -> Sketch:
    """A low-rank approximation of a matrix too large to decompose, and certain and probable bounds on its error.

    Q is an orthonormal basis of (A^T A)^p Omega, Omega Gaussian with rank + oversample columns, p = passes - 1,
    and Y = A Q. For exactly orthonormal Q, ||A - Y Q^T||_F^2 = ||A||_F^2 - ||Y||_F^2: certain and free. Where
    too much of it cancels, one more pass measures it directly. And with E = A - A Q Q^T, Gaussian probes w_j,

        ||E||_2^2 <= (alpha sqrt(2/pi) max_j ||(E^T E)^t w_j||)^(1/t),  false with probability <= alpha^(-probes),

    t = probe_passes, the first of which rides on the last pass: for t = 1/2 this is the bound of Halko,
    Martinsson and Tropp (2011, lemma 4.1); larger t makes it sharper. Memory: (m + 2 n) (rank + oversample) numbers and
    one block of rows. Weak where singular values hardly decay: then raise ``passes``.

    ``matrix``: m x n, any real type, memory-mapped if you like. ``seed``: of everything random here.
    ``probes`` = 0 leaves only the certain bound.

    >>> a = np.outer([1.0, 2.0, 2.0], [0.0, 4.0, 3.0])
    >>> result = sketch(a, rank=1, seed=0, oversample=1)
    >>> result.singular_values[:1].round(9).tolist(), result.residual < 1e-6
    ([15.0], True)
    """
    _refuse(matrix, rank, oversample, passes, probes, probe_passes, failure_probability, name)
    rng = np.random.default_rng(seed)
    columns = min(rank + oversample, *matrix.shape)
    step = Counter(progress, len(matrix) * (passes + probe_passes - 1))
    # the first basis is not made orthonormal: _twice and QR of the first pass do that, and ``passes`` is at least 2
    basis = rng.standard_normal((matrix.shape[1], columns))
    for _ in range(passes - 1):
        basis = np.linalg.qr(_gram_product(matrix, basis, step, name))[0]
    # drawn after the basis and never used for it: probes that had shaped the basis would flatter it
    vectors = rng.standard_normal((matrix.shape[1], probes))
    image, total, chain = _last_pass(matrix, basis, vectors, step)
    kept = _CertifiedBasis.of(matrix, basis, image, total, name)
    for _ in range(probe_passes - 1):
        chain.append(_project_out(basis, _gram_product(matrix, chain[-1], step, name)))
    # The Gram matrix knows errors down to 1e-8 of the norm; where less is left out, that is too blunt.
    core = spectrum(image, name="sketch", method="auto" if kept.residual > 1e-4 * kept.frobenius else "full")
    above, below = _probe_bounds(chain, kept, failure_probability)
    return Sketch(
        name=name,
        **vars(kept),
        columns=columns,
        passes=passes + probe_passes - 1 + (kept.residual_by != "identity"),
        seed=seed,
        singular_values=core.singular_values,
        # sigma_i(A Q) <= ||Q|| sigma_i(A), and sigma_i(A)^2 <= sigma_i(A Q)^2 + ||A - A Q Q^T||^2 for orthonormal Q
        lower=np.maximum((core.lower - kept._drift) / math.sqrt(1 + kept._skew) * (1 - 8 * U), 0.0),
        upper=np.hypot((core.upper + kept._drift) / math.sqrt(1 - kept._skew), kept.residual) * (1 + 8 * U),
        probable_residual=min(above, kept.residual),
        residual_below=min(below, kept.residual),
        probes=probes,
        failure_probability=failure_probability,
        _core=core,
    )


@dataclass(frozen=True, eq=False)
class _CertifiedBasis:
    """The basis and what is certain about A - Y Q^T, under the names that a sketch has for them."""

    shape: tuple[int, int]
    frobenius: float
    residual: float
    residual_by: str
    _basis: Float
    _skew: float
    _drift: float

    @staticmethod
    def of(matrix: Matrix, basis: Float, image: Float, total: float, name: str) -> _CertifiedBasis:
        if total != 0 and not 1e-150 < total < 1e150:
            raise InputError(f"{name}: its norm must lie between 1e-75 and 1e75 to be sketched; rescale it.")
        n, columns = basis.shape
        gap, slack = difference(np.eye(columns), basis, basis)
        skew = norm_above(gap) + slack
        norm = math.sqrt(total)
        rounding = gamma(n + 1) * norm * math.sqrt(columns) * PAY**2
        least = max(0.0, math.sqrt(squares(image)) / (1 + gamma(n + 4)) - rounding)
        square = total * (1 + gamma(n + 8)) - (1 - skew) * least**2
        by, residual = "identity", math.sqrt(max(square, 0.0)) * PAY + 2 * rounding
        if square < 1e-8 * total:  # cancelled: the identity knows too few digits
            by, residual = "direct measurement", direct_residual(matrix, image, basis, None)[1]
        shape = (matrix.shape[0], matrix.shape[1])
        return _CertifiedBasis(shape, norm, residual, by, basis, skew, rounding + 2 * skew * norm)


def _probe_bounds(chain: list[Float], kept: _CertifiedBasis, failure: float) -> tuple[float, float]:
    """Bounds on ||E||_2: probable from above by (E^T E)^t w, certain from below by a Rayleigh quotient.

    ``chain`` holds w, E^T E w, (E^T E)^2 w, ...; an application rounds by at most ``noise`` times the vector,
    and the next one stretches that by at most ||E||^2.
    """
    columns, power = kept._basis.shape[1], len(chain) - 1
    if chain[0].shape[1] == 0:
        return math.inf, 0.0
    noise = 8 * math.sqrt(columns) * gamma(sum(kept.shape) + columns + 8) * kept.frobenius**2
    sizes = [np.linalg.norm(vectors, axis=0) * PAY for vectors in chain]
    error = np.zeros_like(sizes[0])
    for size in sizes[:-1]:
        error = kept.residual**2 * error + noise * (size + error)
    # all probes must be unlucky at once: alpha^-probes = failure
    alpha = failure ** (-1 / len(error))
    above = (alpha * math.sqrt(2 / math.pi) * float(np.max(sizes[-1] + error)) * PAY) ** (1 / power)
    quotient = sizes[-1] / np.where(sizes[-2] > 0, sizes[-2], np.inf) / PAY - noise
    below = math.sqrt(max(0.0, float(np.max(quotient)))) / PAY
    return math.hypot(math.sqrt(above), 2 * kept._drift) * PAY, below


def _gram_product(matrix: Matrix, vectors: Float, step: Counter, name: str) -> Float:
    """A^T A X in one pass."""
    total = np.zeros_like(vectors)
    with np.errstate(all="ignore"):  # what overflows is refused by name
        for rows, block in blocks(matrix, step):
            image = block @ vectors
            refuse_nonfinite(block, image, rows, name)
            total += block.T @ image
    return total


def _project_out(basis: Float, vectors: Float) -> Float:
    """The part of the vectors at right angles to the basis; twice, so that rounding leaves nothing behind."""
    for _ in range(2):
        vectors = vectors - basis @ (basis.T @ vectors)
    return vectors


def _last_pass(matrix: Matrix, basis: Float, probes: Float, step: Counter) -> tuple[Float, float, list[Float]]:
    """A Q, ||A||_F^2, and the probes with E^T E applied to them, in one reading."""
    columns, outside = basis.shape[1], _project_out(basis, probes)
    both = np.hstack([basis, outside])
    image, back, parts = np.empty((len(matrix), columns)), np.zeros_like(probes), []
    for rows, block in blocks(matrix, step):
        product = block @ both
        image[rows] = product[:, :columns]
        # E = A (I - Q Q^T): projecting the probes before and the result after applies E^T E without forming E
        back += block.T @ product[:, columns:]
        parts.append(squares(block))
    return image, math.fsum(parts), [probes, _project_out(basis, back)]


def _refuse(
    matrix: object, rank: int, oversample: int, passes: int, probes: int, probe_passes: int, failure: float,
    name: str,
) -> None:  # fmt: skip
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "iuf":
        shape = getattr(matrix, "shape", type(matrix).__name__)
        raise InputError(f"{name} must be a real NumPy array with 2 dimensions and at least one entry, not {shape}.")
    refuse_rounded(matrix, name)
    check_rank(rank, min(matrix.shape), f" for {name}")
    wanted = {
        "oversample": (oversample, 0),
        "passes": (passes, 2),
        "probes": (probes, 0),
        "probe_passes": (probe_passes, 1),
    }
    for what, (value, least) in wanted.items():
        if not is_whole(value) or value < least:
            raise InputError(f"{what} must be a whole number of at least {least}, not {value}.")
    if not 0 < failure < 1:
        raise InputError(f"failure_probability must lie between 0 and 1, not {failure}.")

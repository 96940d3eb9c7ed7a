"""What a sketch of a huge matrix knows, and the one more reading that checks it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import InputError
from regard.lowrank.singular import RankForError, Spectrum, smallest_rank
from regard.lowrank.truncation import Truncation
from regard.progress import Progress
from regard.results import Result
from regard.rigor import check_arithmetic
from regard.rigor.matrices import PAY, gamma, norm_above, squares
from regard.written_numbers import at_least, at_most, between, in_full

Matrix = npt.NDArray[Any]  # any real type, memory-mapped or not; blocks of it become float64
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
        if norm not in ("spectral", "frobenius"):
            raise InputError(f"norm must be 'spectral' or 'frobenius', not {norm!r}.")
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
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 1 <= rank <= self.columns:
            raise InputError(
                f"rank must be a whole number from 1 to {self.columns}, the columns of this sketch of {self.name}, "
                f"not {rank}; sketch with a larger rank."
            )
        return int(rank)

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
            f"Largest singular values, about: {s}{', ...' if len(self.singular_values) > 8 else ''}; sigma_1 is "
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
        return f"||A - Y Q^T||_F is {between(low, high, 6)}: {word} the stated {in_full(self.stated)}."


class Steps:
    """Rows read so far, told to whoever listens."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, rows: int) -> None:
        self.done += rows
        if self.progress is not None:
            self.progress(self.done, self.total)


def blocks(matrix: Matrix, step: Steps) -> Iterator[tuple[slice, Float]]:
    rows = max(1, BLOCK // matrix.shape[1])
    for start in range(0, len(matrix), rows):
        block = np.asarray(matrix[start : start + rows], dtype=np.float64)
        yield slice(start, start + len(block)), block
        step(len(block))


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
    step, parts = Steps(progress, len(matrix)), []
    for rows, block in blocks(matrix, step):
        parts.append(squares(block - image[rows] @ basis.T))
    slack = gamma(basis.shape[1] + 2) * norm_above(image) * norm_above(basis)
    middle, wide = math.sqrt(math.fsum(parts)), 1 + gamma(matrix.shape[1] + 8)
    return max(0.0, middle / wide - slack) / PAY, (middle * wide + slack) * PAY

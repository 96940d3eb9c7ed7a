"""One question about one matrix, a product, or all the matrices of a file, answered whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import InputError
from regard.lowrank.decompose import SURE, product_spectrum, spectrum
from regard.lowrank.effect import SoftmaxEffect, softmax_effect
from regard.lowrank.singular import RankForError, Spectrum, SpectrumCheck, draw_spectrum
from regard.lowrank.sketches import Matrix, Sketch, SketchCheck, sketch
from regard.lowrank.truncation import Truncation
from regard.notation import readable
from regard.progress import Progress
from regard.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class Study(Result):
    """A spectrum, and whichever of these was asked: a rank for an error, an approximation, its effect, a check."""

    spectrum: Spectrum | Sketch
    smallest: RankForError | None = None
    truncation: Truncation | None = None
    effect: SoftmaxEffect | None = None
    checked: SpectrumCheck | SketchCheck | None = None

    @property
    def answer(self) -> bool:
        """False when the bounds were recomputed and did not hold."""
        return self.checked is None or self.checked.answer

    def __str__(self) -> str:
        parts = (self.smallest, self.truncation, self.effect, self.checked, self.spectrum)  # what was asked for first
        return "\n\n".join(str(part) for part in parts if part is not None)

    def figure(self) -> Figure | None:
        """The spectrum with the cut marked, as a matplotlib figure; None for a sketch, which knows only its top."""
        if not isinstance(self.spectrum, Spectrum):
            return None
        return draw_spectrum(self.spectrum, rank=None if self.truncation is None else self.truncation.rank)


def study(
    matrix: npt.ArrayLike,
    *,
    rank: int | None = None,
    error: float | None = None,
    norm: str = "spectral",
    relative: bool = False,
    inputs: npt.ArrayLike | None = None,
    scale: float = 1.0,
    tolerance: float = SURE,
    name: str = "matrix",
) -> Study:
    """The spectrum of a matrix; with ``rank`` (or the smallest one for ``error``) its best approximation; with
    ``inputs`` what that approximation does to the weights softmax(scale X M X^T).

    >>> answer = study([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]], error=2.5)
    >>> answer.smallest.rank, answer.truncation.rank
    (1, 1)
    """
    known = spectrum(matrix, tolerance=tolerance, name=name)
    return _study(known, rank, error, norm, relative, inputs, scale)


def study_product(
    left: npt.ArrayLike,
    right: npt.ArrayLike,
    *,
    rank: int | None = None,
    error: float | None = None,
    norm: str = "spectral",
    relative: bool = False,
    inputs: npt.ArrayLike | None = None,
    scale: float | None = None,
    name: str = "product",
) -> Study:
    """As :func:`study` for ``A B^T``, A (m x k) and B (n x k).

    ``scale`` is 1 / sqrt(columns of A) unless given, as attention has it.

    >>> study_product([[1.0], [2.0]], [[2.0], [1.0]], rank=1).spectrum.singular_values.round(12).tolist()
    [5.0]
    """
    known = product_spectrum(left, right, name=name)
    inner = np.shape(left)[1]
    return _study(known, rank, error, norm, relative, inputs, inner**-0.5 if scale is None else scale)


def study_sketch(
    matrix: Matrix,
    *,
    rank: int,
    seed: int,
    error: float | None = None,
    norm: str = "spectral",
    relative: bool = False,
    oversample: int = 10,
    passes: int = 2,
    name: str = "matrix",
    progress: Progress | None = None,
) -> Study:
    """As :func:`study` for a matrix too large to decompose: a sketch of ``rank``, and within it the answers.

    >>> study_sketch(np.outer([1.0, 2.0, 2.0], [0.0, 4.0, 3.0]), rank=1, seed=0, error=1e-3).smallest.rank
    1
    """
    known = sketch(matrix, rank=rank, seed=seed, oversample=oversample, passes=passes, name=name, progress=progress)
    smallest = None if error is None else known.rank_for_error(error, norm=norm, relative=relative)
    cut = rank if smallest is None else max(1, smallest.rank)
    return Study(spectrum=known, smallest=smallest, truncation=known.truncate(cut))


def _study(
    known: Spectrum, rank: int | None, error: float | None, norm: str, relative: bool,
    inputs: npt.ArrayLike | None, scale: float,
) -> Study:  # fmt: skip
    if rank is not None and error is not None:
        raise InputError("Give a rank or an error, not both: an error asks for the rank.")
    smallest = None if error is None else known.rank_for_error(error, norm=norm, relative=relative)
    # rank 0 is the zero matrix: the error allows it, and there is nothing to truncate to
    if smallest is not None and smallest.rank > 0:
        rank = smallest.rank
    truncation = None if rank is None else known.truncate(rank)
    if inputs is None:
        return Study(spectrum=known, smallest=smallest, truncation=truncation)
    if rank is None:
        raise InputError("The effect on the weights needs an approximation: give a rank, or an error above 0.")
    effect = softmax_effect(known, rank=rank, inputs=inputs, scale=scale)
    return Study(spectrum=known, smallest=smallest, truncation=truncation, effect=effect)


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Result):
    """One line per matrix."""

    rank: int | None
    rows: tuple[Row, ...]
    not_finite: tuple[NotFinite, ...] = ()

    def __str__(self) -> str:
        lines: list[Row | NotFinite] = [*self.rows, *self.not_finite]
        width = max(4, *(len(row.name) for row in lines))
        largest, smallest, bound = readable(["$sigma_1$", "$sigma_n$", f"$||A||_F/sqrt({(self.rank or 0) + 1})$"])
        head = f"{'name':{width}}  {'shape':>12}  {largest:>8}  {smallest:>10}  {'effective':>9}  {'stable':>6}"
        if self.rank is not None:
            head += f"   {f'error of rank {self.rank}':>15}   {bound:>15}   {'energy kept':>11}"
        return "\n".join([head, *(row.line(width) for row in lines)])


@dataclass(frozen=True, kw_only=True, eq=False)
class NotFinite:
    """A matrix with an entry that is nan or infinite, and so without singular values."""

    name: str
    shape: tuple[int, int]
    first: tuple[int, int]  # row and column of the first such entry, counted from 0

    def line(self, width: int) -> str:
        """Padded to the table's columns."""
        size = f"{self.shape[0]} x {self.shape[1]}"
        return f"{self.name:{width}}  {size:>12}  not finite: row {self.first[0]}, column {self.first[1]} (from 0)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Row:
    """A spectrum in a line."""

    name: str
    shape: tuple[int, int]
    largest: float
    smallest: float
    error_bound: float
    effective_rank: float
    stable_rank: float
    rank: int | None
    spectral_error: tuple[float, float] | None
    bound: float | None
    energy: float | None
    singular_values: Float = field(repr=False)

    def line(self, width: int) -> str:
        """Padded to the table's columns."""
        size = f"{self.shape[0]} x {self.shape[1]}"
        text = (
            f"{self.name:{width}}  {size:>12}  {self.largest:8.4g}  {self.smallest:10.4g}"
            f"  {self.effective_rank:9.4g}  {self.stable_rank:6.4g}"
        )
        if self.spectral_error is None or self.energy is None or self.bound is None:
            return text + ("" if self.rank is None else "   (rank beyond its size)")
        return f"{text}   {self.spectral_error[1]:15.6g}   {self.bound:15.6g}   {100 * self.energy:9.3f} %"


def table(matrices: Iterable[tuple[str, npt.ArrayLike]], *, rank: int | None = None) -> Table:
    """The spectrum of every matrix given, one line each; those too small for ``rank``, or not finite, say so.

    >>> print(table([("a", np.diag([3.0, 4.0])), ("b", np.eye(3))], rank=1).rows[0].spectral_error[1].__round__(6))
    3.0
    """
    rows: list[Row] = []
    wrong: list[NotFinite] = []
    for name, matrix in matrices:
        bad = _not_finite(name, matrix)
        if bad is not None:
            wrong.append(bad)
            continue
        rows.append(_row(spectrum(matrix, name=name), rank))
    if not rows and not wrong:
        raise InputError("There is no matrix here: give at least one array with 2 dimensions.")
    if rows and rank is not None and all(row.spectral_error is None for row in rows):
        most = max(len(row.singular_values) for row in rows)
        raise InputError(f"rank must be a whole number from 1 to {most} for these matrices, not {rank}.")
    return Table(rank=rank, rows=tuple(rows), not_finite=tuple(wrong))


def _not_finite(name: str, matrix: npt.ArrayLike) -> NotFinite | None:
    array = np.asarray(matrix)
    if array.ndim != 2 or array.dtype.kind != "f" or np.isfinite(array).all():
        return None
    i, j = np.argwhere(~np.isfinite(array))[0]
    return NotFinite(name=name, shape=(array.shape[0], array.shape[1]), first=(int(i), int(j)))


def _row(known: Spectrum, rank: int | None) -> Row:
    s = known.singular_values
    fits = rank is not None and 1 <= rank <= len(s)
    return Row(
        name=known.name,
        shape=known.shape,
        largest=float(s[0]),
        smallest=float(s[-1]),
        error_bound=known.error_bound,
        effective_rank=known.effective_rank,
        stable_rank=known.stable_rank,
        rank=rank,
        spectral_error=known.spectral_error(rank) if fits and rank else None,
        # the error of rank r is sigma_{r+1}, and r + 1 values of that size or more make up the norm
        bound=known.frobenius / (rank + 1) ** 0.5 if fits and rank else None,
        energy=float(known.energy[rank - 1]) if fits and rank else None,
        singular_values=s,
    )

"""One question about one matrix, a product, or all the matrices of a file, answered whole.

What an error in the scores does to the weights after the softmax: tight bounds, and the truth beside them.

The coursework's three statements about singular values, on a given matrix, and the matrices that attain them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import as_array, check_array
from regard.attention import softmax
from regard.errors import InputError
from regard.lowrank.decompose import SURE, spectrum
from regard.lowrank.singular import RankForError, Spectrum, SpectrumCheck, Truncation, draw_spectrum
from regard.lowrank.sketches import Sketch, SketchCheck
from regard.notation import readable
from regard.pictures import Figure
from regard.results import Result
from regard.rigor import check_arithmetic
from regard.rigor.matrices import PAY, gamma, squares
from regard.written_numbers import at_most, between


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
    matrix: npt.ArrayLike | Spectrum | Sketch,
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

    What is known already is taken as it is: the spectrum of a product (:func:`product_spectrum`), or the sketch of a
    matrix too large to decompose (:func:`sketch`), which knows nothing of the weights.

    >>> answer = study([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]], error=2.5)
    >>> answer.smallest.rank, answer.truncation.rank
    (1, 1)
    """
    known = matrix if isinstance(matrix, Spectrum | Sketch) else spectrum(matrix, tolerance=tolerance, name=name)
    if rank is not None and error is not None:
        raise InputError("Give a rank or an error, not both: an error asks for the rank.")
    smallest = None if error is None else known.rank_for_error(error, norm=norm, relative=relative)
    # rank 0 is the zero matrix: the error allows it, and there is nothing to truncate to
    if smallest is not None and smallest.rank > 0:
        rank = smallest.rank
    truncation = None if rank is None else known.truncate(rank)
    if inputs is None:
        return Study(spectrum=known, smallest=smallest, truncation=truncation)
    if rank is None or not isinstance(known, Spectrum):
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


def weight_change(error: float) -> tuple[float, float]:
    """Scores off by at most e each: the largest factor on a weight, exp(2e), and total variation, tanh(e/2).

    With d = s' - s in [-e, e]: w'_i / w_i = exp(d_i) / sum_l w_l exp(d_l), between exp(-2e) and exp(2e). For
    a set S of keys with weight p, w'(S) is largest at d = e on S and -e off it, where it is
    p t / (1 - p + p t), t = exp(2e). Its excess over p is largest at p = 1 / (1 + exp(e)), and there it is
    (exp(e) - 1) / (exp(e) + 1) = tanh(e/2). Two keys with scores (-e/2, e/2) moved to (e/2, -e/2) attain it.
    The first is approached, not attained, when a weight is nearly 0. Weights do not feel a shift of all
    scores, so e may be half the spread max d - min d.

    >>> factor, variation = weight_change(0.1)
    >>> round(factor, 4), round(variation, 4)
    (1.2214, 0.05)
    """
    if not error >= 0:
        raise InputError(f"error must be a number, 0 or more, not {error}.")
    # e^700 is the last that float64 holds
    return (math.exp(2 * error) if error < 350 else math.inf), math.tanh(error / 2)


def variation_bound(error: npt.ArrayLike, largest_weight: npt.ArrayLike) -> Float:
    """Total variation possible where the largest weight is known: less than tanh(e/2) once one key dominates.

    A set of keys weighs at most 1 - p or at least p, p the largest weight; the excess
    f(x) = x t / (1 - x + x t) - x of :func:`weight_change` rises up to x = 1 / (1 + exp(e)) and falls after.

    >>> float(variation_bound(0.1, 0.5).round(4)), float(variation_bound(0.1, 0.99).round(4))
    (0.05, 0.0022)
    """
    e, p = np.asarray(error, dtype=np.float64), np.asarray(largest_weight, dtype=np.float64)
    peak = np.tanh(e / 2)
    one_minus = 1 - p
    free = one_minus * (1 + np.exp(np.minimum(e, 700.0))) >= 1  # the best set is within reach
    fixed = np.maximum(_excess(one_minus, e), _excess(p, e))
    return np.where(free, peak, np.minimum(fixed, peak))


def _excess(x: Float, e: Float) -> Float:
    # numerator and denominator times e^{-2e}: nothing overflows for large errors
    shrink = np.exp(-2 * e)
    denominator = x + (1 - x) * shrink
    return np.where(denominator > 0, x * (1 - x) * -np.expm1(-2 * e) / np.where(denominator > 0, denominator, 1), 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftmaxEffect(Result):
    """Row by row of the queries: what the approximation can do to the weights (proved), and what it does."""

    rank: int
    scale: float
    spectral_error: float
    score_bound: Float  # half the spread of a row's score errors is at most this
    variation_bound: Float  # so its weights change by at most this in total variation
    score_error: Float  # the half spread that was found
    variation: Float  # the total variation that was found

    def __str__(self) -> str:
        worst = int(np.argmax(self.variation_bound))
        return (
            f"Softmax of the scores (scale {self.scale:.6g}) with the rank-{self.rank} approximation, spectral "
            f"error at most {at_most(self.spectral_error, 6)}, over {len(self.variation)} queries.\n"
            f"Proved: no score is off by more than {at_most(self.score_bound.max(), 4)} (up to a shift of its row), no "
            f"weight by more than a factor {at_most(weight_change(float(self.score_bound.max()))[0], 4)}, no row by "
            f"more than {at_most(self.variation_bound[worst], 4)} in total variation (row {worst}, counted from 0).\n"
            f"Found: scores off by at most {at_most(self.score_error.max(), 4)}, rows by at most "
            f"{at_most(self.variation.max(), 4)}, and by {self.variation.mean():.4g} on average."
        )


def softmax_effect(
    spectrum: Spectrum,
    *,
    rank: int,
    inputs: npt.ArrayLike,
    key_inputs: npt.ArrayLike | None = None,
    scale: float = 1.0,
) -> SoftmaxEffect:
    """How far the weights softmax(scale X M Y^T) move when M is cut to its best approximation of ``rank``.

    With E the error and c any centre, scores differ, up to a shift of the row, by at most
    scale ||x|| ||E||_2 max_i ||y_i - c|| (Cauchy-Schwarz; the shift x^T E c changes no weight). Here c is
    the mean of the y or 0, whichever is better; then :func:`variation_bound`. The bounds cover exact
    arithmetic; what is found is computed in double precision.

    ``spectrum``: of M, or of a product such as W_Q W_K^T. ``inputs``: X, one row per query.
    ``key_inputs``: Y, the same X if left out. ``scale``: usually 1 / sqrt(head width).

    >>> from regard.lowrank import spectrum
    >>> effect = softmax_effect(spectrum(np.diag([3.0, 0.5])), rank=1, inputs=np.eye(2))
    >>> effect.score_bound.round(4).tolist(), effect.variation.round(4).tolist()
    ([0.3536, 0.3536], [0.0, 0.1225])
    """
    check_arithmetic()
    x = check_array(inputs, what="inputs")
    y = x if key_inputs is None else check_array(key_inputs, what="key inputs")
    _refuse(spectrum.shape, x, y, scale)
    cut = spectrum.truncate(rank)
    true = scale * spectrum.bilinear(x, y)
    near = scale * ((x @ cut.left) @ (y @ cut.right).T)
    weights, moved = softmax(true), softmax(near)
    lengths = np.linalg.norm(x, axis=1)
    reach = min(_longest(y), _longest(y - y.mean(axis=0)))
    bound = abs(scale) * cut.spectral_error_above * lengths * reach * PAY
    # The largest weight was computed from rounded scores; what it is at least:
    rounding = abs(scale) * gamma(sum(spectrum.shape) + 64) * spectrum.size * lengths * _longest(y)
    largest = weights.max(axis=1) * np.exp(-2 * rounding) / PAY
    return SoftmaxEffect(
        rank=rank,
        scale=scale,
        spectral_error=cut.spectral_error_above,
        score_bound=bound,
        variation_bound=np.minimum(variation_bound(bound, largest) * PAY, 1.0),
        score_error=np.ptp(near - true, axis=1) / 2,
        variation=np.abs(weights - moved).sum(axis=1) / 2,
    )


def _longest(rows: Float) -> float:
    return float(np.max(np.linalg.norm(rows, axis=1)))


def _refuse(shape: tuple[int, int], x: Float, y: Float, scale: float) -> None:
    if x.shape[1] != shape[0] or y.shape[1] != shape[1]:
        raise InputError(
            f"The inputs need rows of {shape[0]} and {shape[1]} numbers to meet a matrix of shape {shape}, "
            f"but have shapes {x.shape} and {y.shape}."
        )
    as_array(scale, "scale")
    if not math.isfinite(scale):
        raise InputError(f"scale must be a finite number such as 0.125, not {scale}.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Statements(Result):
    """Each statement on one matrix: the two sides as proved intervals, for k = 1 .. min(m, n)."""

    energy: tuple[float, float]  # sum of sigma_i^2 lies between these
    squared_norm: tuple[float, float]  # and ||A||_F^2, summed from the entries, between these
    tail: Float  # sigma_k sqrt(k) / ||A||_F, at most 1
    tail_margin: Float  # how much of it is proved: the upper end
    error: Float  # the best rank k-1 has at most this spectral error
    bound: Float  # ||A||_F / sqrt(k)

    @property
    def answer(self) -> bool:
        """False when some statement is refuted on this matrix: its two sides are proved to be apart."""
        meet = self.energy[0] <= self.squared_norm[1] and self.squared_norm[0] <= self.energy[1]
        # tail is made of lower ends, so only a proved excess could pass 1; 1e-9 is for the division and the root
        return bool(meet and np.all(self.tail <= 1 + 1e-9))

    def __str__(self) -> str:
        k = int(np.argmax(self.tail)) + 1
        strict = int(np.count_nonzero(self.tail_margin < 1))
        return readable(
            f"$sum sigma_i^2$ is {between(*self.energy, 12)}, $||A||_F^2$ "
            f"is {between(*self.squared_norm, 12)}: {'equal' if self.answer else 'NOT equal'} "
            f"within the bounds. $sigma_k <= ||A||_F / sqrt(k)$ for k = 1 .. {len(self.tail)}, strictly at {strict} of "
            f"them; nearest to equality at k = {k}, where $sigma_k$ is {self.tail[k - 1]:.4g} of it."
        )


def statements(matrix: npt.ArrayLike) -> Statements:
    """Singular-energy, singular-tail and low-rank-error on one matrix.

    sum_i sigma_i^2 = ||A||_F^2;  k sigma_k^2 <= sigma_1^2 + ... + sigma_k^2 <= ||A||_F^2;
    and the truncation to rank k-1 has spectral error sigma_k <= ||A||_F / sqrt(k).

    The left sides come from the spectrum (with bounds), the right from the entries themselves.

    >>> found = statements([[3.0, 0.0], [0.0, 4.0]])
    >>> found.answer, [round(x) for x in found.energy], found.tail.round(6).tolist()
    (True, [25, 25], [0.8, 0.848528])
    """
    a = check_array(matrix, what="matrix")
    known, total = spectrum(a), squares(a)
    norm = math.sqrt(total)
    wide = gamma(len(known.lower) + a.shape[1] + 4)
    k = np.arange(1, len(known.lower) + 1)
    unit = norm if norm > 0 else 1.0
    return Statements(
        energy=(float(known.lower @ known.lower) * (1 - wide), float(known.upper @ known.upper) * (1 + wide)),
        squared_norm=(total * (1 - wide), total * (1 + wide)),
        tail=known.lower * np.sqrt(k) / unit,
        tail_margin=known.upper * np.sqrt(k) / unit,
        error=known.upper,
        bound=norm / np.sqrt(k),
    )


def attaining(k: int, shape: tuple[int, int]) -> Float:
    """A matrix with sigma_k = ||A||_F / sqrt(k): k equal singular values and no others, the only kind there is.

    Equality in k sigma_k^2 <= sigma_1^2 + ... + sigma_k^2 <= ||A||_F^2 needs sigma_1 = ... = sigma_k and
    nothing after them.

    >>> attaining(2, (3, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    if not 1 <= k <= min(shape):
        raise InputError(f"k must be a whole number from 1 to {min(shape)} for shape {shape}, not {k}.")
    matrix = np.zeros(shape)
    matrix[np.arange(k), np.arange(k)] = 1.0
    return matrix

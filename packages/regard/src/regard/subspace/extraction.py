"""A vector out of a sum: the matrix M with M (v_a + v_b) = v_a for all v_a in span(A) and v_b in span(B).

It exists exactly when the two spans meet only in 0. For orthonormal bases of orthogonal spans it is the
coursework's M = A A^T; for any other bases it is the oblique projector onto span(A) along span(B), and it
amplifies noise by its spectral norm, 1 / sin(smallest principal angle).

Basis vectors are the *columns* of A and B, as in the coursework. They need not be independent, orthogonal or of
length 1: the span is what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.errors import CouldNotFindOut, InputError
from regard.pictures import BLUE, GREEN, GREY, ORANGE, Figure
from regard.pictures import figure as new_figure
from regard.results import Result
from regard.rigor import check_arithmetic, exact
from regard.written_numbers import at_most, in_full

DELICATE = 1e-5  # sines and singular values below this cost float64 too many digits: exact arithmetic, if affordable
USELESS = 1e-6  # errors of M A = A and M B = 0 from here on make M worthless
SMALL = 6  # up to so many columns exact arithmetic costs nothing: M is then the true one, rounded once


@dataclass(frozen=True, kw_only=True, eq=False)
class Witness:
    """A vector in both spans, which no matrix can send both to itself and to 0."""

    vector: Float  # its largest entry is 1
    from_a: Float  # coefficients: A @ from_a is the vector
    from_b: Float  # and so is B @ from_b
    residual: float  # largest entry of A @ from_a - B @ from_b; 0 where the coefficients are exact
    exact_from_a: tuple[str, ...] = ()  # the coefficients as fractions, where the decision was exact
    exact_from_b: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Extraction(Result):
    """What :func:`extract` found; ``answer`` is False where the spans intersect."""

    exists: bool
    matrix: Float | None  # M; zero on whatever is orthogonal to both spans
    dimension: int  # of the space the vectors live in
    ranks: tuple[int, int]  # dimensions of span(A), span(B)
    common: int  # dimension of their intersection
    angles: Float  # principal angles in radians, smallest first
    amplification: float  # the spectral norm of M: the most by which noise can grow
    residual: float  # largest entry of M A - A and M B, for columns of length 1
    witness: Witness | None
    tolerance: float | None  # None: ranks and intersection decided exactly on the stored numbers
    coursework: bool  # orthonormal bases of orthogonal spans: M = A A^T

    @property
    def answer(self) -> bool:
        return self.exists

    def __str__(self) -> str:
        how = (
            "Decided in exact arithmetic on the stored numbers."
            if self.tolerance is None
            else f"Decided in float64: what is below {in_full(self.tolerance)} counts as zero, which is not a proof."
        )
        return "\n".join([self._yes() if self.exists else self._no(), how])

    def details(self) -> str:
        """The two spans, and how nearly M does it in float64."""
        a, b = self.ranks
        spans = f"A spans {a} and B spans {b} of {self.dimension} dimensions."
        if not self.exists:
            return spans
        return f"{spans} Largest error of M A = A and M B = 0 in float64: {self.residual:.2g}."

    def _yes(self) -> str:
        formula = " It is A A^T, the coursework's." if self.coursework else ""
        if self.dimension <= 4 and self.matrix is not None:
            formula += f" M = {np.array2string(self.matrix + 0.0, precision=6, separator=', ').replace(chr(10), '')}."
        angle = f", smallest angle {np.degrees(self.angles[0]):.6g} degrees" if len(self.angles) else ""
        sentence = (
            f"Yes: M recovers v_a from v_a + v_b.{formula} It amplifies noise by at most "
            f"{at_most(self.amplification, 6)}{angle}."
        )
        if self.residual < USELESS:
            return sentence
        return (
            f"{sentence} This M is of no practical use: the spans all but intersect, and M A = A and M B = 0 fail by "
            f"{self.residual:.2g} in float64."
        )

    def _no(self) -> str:
        shared = f"No: the spans share {self.common} dimension{'s' * (self.common != 1)}"
        if self.witness is None:
            return f"{shared}."
        vector = np.array2string(self.witness.vector, precision=6, threshold=8, edgeitems=3)
        return f"{shared}, among them {vector}, which M would have to send both to itself and to 0."

    def figure(self) -> Figure | None:
        """The plane of the smallest angle: a sum, its two parts, and what M does to a disc of noise.

        None where there is no angle to draw: the spans intersect, or one of them is zero.
        """
        return sketch(self) if self.exists and len(self.angles) else None


def extract(A: npt.ArrayLike, B: npt.ArrayLike, *, tolerance: float | None = None) -> Extraction:
    """The matrix that recovers v_a from v_a + v_b, or the common vector that rules it out.

        M = U (W^T W)^-1 W^T,   W = (I - P_B) U,   U an orthonormal basis of span(A), P_B the projector on span(B)

    ``A`` is (d, m) and ``B`` (d, p), basis vectors as columns (a 1-D array is one column). By default ranks and
    intersection are decided exactly on the stored numbers; a deficient rank in more than 128 columns falls back to
    a tolerance, and the result says so. With ``tolerance`` given, singular values (of columns scaled to length 1)
    and sines of angles up to it count as zero: use it for measured data.

    >>> found = extract([[1], [0], [0]], [[1], [1], [0]])
    >>> found.matrix.tolist()  # (3, 2, 0) = 1 (1, 0, 0) + 2 (1, 1, 0)
    [[1.0, -1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    >>> round(found.amplification, 6)  # 1 / sin 45 degrees
    1.414214
    >>> extract(np.eye(3)[:, :2], np.eye(3)[:, 1:]).witness.vector.tolist()
    [0.0, 1.0, 0.0]
    """
    check_arithmetic()
    a, b = checked_basis(A, "A"), checked_basis(B, "B")
    if len(a) != len(b):
        raise InputError(
            f"A's columns have {len(a)} entries and B's have {len(b)}; both must lie in one space "
            "(basis vectors are columns, so transpose if yours are rows)."
        )
    if tolerance is not None and not 0 < tolerance < 1:
        raise InputError(f"tolerance must lie between 0 and 1 but is {tolerance}; leave it out to decide exactly.")
    if tolerance is None:
        ranks = exact.rank(a), exact.rank(b), exact.rank(np.hstack([a, b]))
        if ranks[0] is not None and ranks[1] is not None and ranks[2] is not None:
            return _extract_exactly(a, b, (ranks[0], ranks[1]), ranks[2])
    # four times the usual size * eps: three decompositions follow each other
    return _extract_by_tolerance(a, b, tolerance or max(*a.shape, *b.shape) * 2.0**-50)


def checked_basis(basis: npt.ArrayLike, name: str) -> Float:
    """Finite numbers, basis vectors as columns; a 1-D array is one column."""
    array = check_array(basis, what=name, ndim=(1, 2))
    return array[:, None] if array.ndim == 1 else array


def _extract_exactly(a: Float, b: Float, ranks: tuple[int, int], together: int) -> Extraction:
    common = sum(ranks) - together
    if not common:
        return _yes(a, b, ranks, tolerance=None)
    if a.shape[1] + b.shape[1] > exact.DECIDED_COLUMNS:  # counting proves it; the vector itself is rounded
        return _no(a, b, ranks, common, _rounded_witness(a, b, ranks), tolerance=None)
    return _no(a, b, ranks, common, _exact_witness(a, b), tolerance=None)


def _extract_by_tolerance(a: Float, b: Float, tolerance: float) -> Extraction:
    ranks = (_rank(a, tolerance), _rank(b, tolerance))
    angles = _angles(a, b, ranks)
    # the second: two spans with more dimensions than the space must meet, however the angles were rounded
    common = max(int((np.sin(angles) <= tolerance).sum()), sum(ranks) - len(a))
    if common:
        return _no(a, b, ranks, common, _rounded_witness(a, b, ranks), tolerance=tolerance)
    return _yes(a, b, ranks, tolerance=tolerance)


def _yes(a: Float, b: Float, ranks: tuple[int, int], *, tolerance: float | None) -> Extraction:
    angles = _angles(a, b, ranks)
    delicate = min(_thinnest(a, ranks[0]), _thinnest(b, ranks[1]), *np.sin(angles)) < DELICATE
    affordable = exact.INVERTED_COLUMNS if delicate else SMALL
    if tolerance is None and ranks[0] and sum(ranks) <= affordable:
        matrix = exact.projector(a, b)
    else:
        matrix = _projector(_basis(a, ranks[0]), _basis(b, ranks[1]))
        _refuse_blurred(matrix, a, b)
    amplification = float(np.linalg.norm(matrix, 2))
    if delicate and len(angles):
        # the matrix knows the smallest angle better than the bases, from which float64 has lost its digits
        angles[0] = np.arcsin(min(1.0, 1 / amplification))
    return Extraction(
        exists=True,
        matrix=matrix,
        dimension=len(a),
        ranks=ranks,
        common=0,
        angles=angles,
        amplification=amplification,
        residual=_residual(matrix, a, b),
        witness=None,
        tolerance=tolerance,
        coursework=_orthonormal(np.hstack([a, b])),
    )


def _no(
    a: Float, b: Float, ranks: tuple[int, int], common: int, witness: Witness, *, tolerance: float | None
) -> Extraction:
    angles = _angles(a, b, ranks)
    angles[:common] = 0.0
    return Extraction(
        exists=False,
        matrix=None,
        dimension=len(a),
        ranks=ranks,
        common=common,
        angles=angles,
        amplification=np.inf,
        residual=np.inf,
        witness=witness,
        tolerance=tolerance,
        coursework=False,
    )


def _exact_witness(a: Float, b: Float) -> Witness:
    common = exact.common_vector(a, b)
    if common is None:  # the ranks said otherwise, exactly
        raise ArithmeticError("exact ranks and exact null space disagree")
    x, y = common
    return Witness(
        vector=_floats(exact.combine(a, x)),
        from_a=_floats(x),
        from_b=_floats(y),
        residual=0.0,
        exact_from_a=tuple(map(exact.spell, x)),
        exact_from_b=tuple(map(exact.spell, y)),
    )


def _rounded_witness(a: Float, b: Float, ranks: tuple[int, int]) -> Witness:
    """The pair of closest directions, by their bisector."""
    U, V = _basis(a, ranks[0]), _basis(b, ranks[1])
    left, _, right = np.linalg.svd(U.T @ V)
    vector = U @ left[:, 0] + V @ right[0]
    vector /= np.abs(vector).max()
    x, y = (np.linalg.lstsq(basis, vector, rcond=None)[0] for basis in (a, b))
    residual = float(np.abs(a @ x - b @ y).max())
    return Witness(vector=vector, from_a=x, from_b=y, residual=residual)


def _projector(U: Float, V: Float) -> Float:
    """Onto span(U) along span(V), zero on the rest; U and V have orthonormal columns."""
    if not U.shape[1]:
        return np.zeros((len(U), len(U)))
    W = U - V @ (V.T @ U)
    W -= V @ (V.T @ W)  # once more: the first pass leaves rounding errors along V, relative to a small W
    Q, R = np.linalg.qr(W)
    return np.asarray(U @ np.linalg.solve(R, Q.T))


def _refuse_blurred(matrix: Float, a: Float, b: Float) -> None:
    if not (residual := _residual(matrix, a, b)) < USELESS:  # NaN is no better
        raise CouldNotFindOut(
            f"The spans meet only in 0, but so nearly that float64 cannot hold the matrix (error {residual:.2g}); "
            f"pass a tolerance to treat them as intersecting, or at most {exact.INVERTED_COLUMNS} columns."
        )


def _directions(basis: Float) -> Float:
    """Columns scaled to length 1, so that their sizes do not matter; zero columns stay."""
    largest = np.abs(basis).max(axis=0)
    scaled = basis / np.where(largest == 0, 1.0, largest)  # first, so that no square over- or underflows
    length = np.linalg.norm(scaled, axis=0)
    return np.asarray(scaled / np.where(length == 0, 1.0, length))


def _rank(basis: Float, tolerance: float) -> int:
    values = np.linalg.svd(_directions(basis), compute_uv=False)
    return int((values > tolerance * values[0]).sum())


def _basis(basis: Float, rank: int) -> Float:
    return np.asarray(np.linalg.svd(_directions(basis), full_matrices=False)[0][:, :rank])


def _thinnest(basis: Float, rank: int) -> float:
    """The smallest singular value that counts: how firmly the columns fix their span."""
    return float(np.linalg.svd(_directions(basis), compute_uv=False)[rank - 1]) if rank else 1.0


def _angles(a: Float, b: Float, ranks: tuple[int, int]) -> Float:
    """Principal angles, smallest first: small ones from their sines, large ones from their cosines.

    (scipy.linalg.subspace_angles mixes up the two when both kinds occur, and loses half the digits of small ones.)
    """
    if not min(ranks):
        return np.zeros(0)
    U, V = _basis(a, ranks[0]), _basis(b, ranks[1])
    # V is the smaller span: as many sines as there are angles
    if ranks[0] < ranks[1]:
        U, V = V, U
    cosines = np.linalg.svd(U.T @ V, compute_uv=False)
    sines = np.linalg.svd(V - U @ (U.T @ V), compute_uv=False)[::-1]
    # 0.7: each is taken on its side of 45 degrees, where its slope does not vanish
    return np.asarray(np.where(sines < 0.7, np.arcsin(np.clip(sines, 0, 1)), np.arccos(np.clip(cosines, 0, 1))))


def _residual(matrix: Float, a: Float, b: Float) -> float:
    a, b = _directions(a), _directions(b)
    return float(max(np.abs(matrix @ a - a).max(), np.abs(matrix @ b).max()))


def _orthonormal(columns: Float) -> bool:
    with np.errstate(all="ignore"):  # huge columns overflow, and are not orthonormal
        return bool(np.abs(columns.T @ columns - np.eye(columns.shape[1])).max() < 1e-12)


def _floats(numbers: list[Fraction]) -> Float:
    return np.array([_float(x) for x in numbers])


def _float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:  # a coefficient of a tiny column; the exact one is in the witness
        return float(np.inf if x > 0 else -np.inf)


# The picture ---------------------------------------------------------------------------------------------------------


def sketch(extraction: Extraction) -> Figure:
    """The picture as a matplotlib figure."""
    figure = new_figure(6.4, 4.4)
    axes = figure.add_subplot()
    angle, factor = float(extraction.angles[0]), extraction.amplification
    a, b = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])
    part_a, part_b = 1.2 * a, 1.0 * b
    radius, middle = 0.25, part_a + part_b
    reach = radius * factor
    # Beyond a few lengths the band simply runs off both sides: its width is in the legend.
    left, right = max(-2.2, min(-0.6, part_a[0] - reach - 0.3)), min(4.6, max(middle[0] + 0.6, part_a[0] + reach + 0.3))
    for direction, colour, name in [(a, BLUE, "span(A)"), (b, ORANGE, "span(B)")]:
        axes.axline((0, 0), tuple(direction), color=colour, lw=1, alpha=0.7, label=name)
    labels = [(part_a, BLUE, "$v_a$", (0, -20)), (part_b, ORANGE, "$v_b$", (-22, 4))]
    for vector, colour in [(part_a, BLUE), (part_b, ORANGE), (middle, GREY)]:
        axes.annotate(
            "", tuple(vector), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkB": 0}
        )
    top = middle + np.array([0, radius])  # above the circle
    for vector, colour, name, offset in [*labels, (top, GREY, "$v_a + v_b$", (0, 6))]:
        axes.annotate(name, vector, xytext=offset, textcoords="offset points", color=colour, ha="center")
    turn = np.linspace(0, 2 * np.pi, 121)
    axes.plot(middle[0] + radius * np.cos(turn), middle[1] + radius * np.sin(turn), color=GREEN, lw=1.5, label="noise")
    axes.plot([part_a[0] - reach, part_a[0] + reach], [0, 0], color=GREEN, lw=6, alpha=0.45, solid_capstyle="butt",
              label=f"noise after M: {factor:.3g} times as wide")  # fmt: skip
    axes.plot([middle[0], part_a[0]], [middle[1], 0], color=GREY, lw=1, ls=":")
    axes.set(xlim=(left, right), ylim=(-0.45, middle[1] + radius + 0.4), aspect="equal", xticks=[], yticks=[])
    axes.set_title(f"Smallest angle {np.degrees(angle):.4g}°: M slides along span(B) onto span(A)", fontsize=10)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=2, frameon=False, fontsize=9)
    return figure

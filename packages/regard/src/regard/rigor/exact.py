"""Stored floats without any rounding: every float64 is a whole number times a power of two.

What is decided here is a fact about the numbers in the file, not about the ones they were rounded from. Scores are
compared as whole numbers; spans, ranks and projectors come from exact elimination, for which each column is first
scaled by a power of two to whole numbers (only its direction matters).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Float
from regard.errors import CouldNotFindOut
from regard.rigor.floats import finite

PRIME = 2**61 - 1  # elimination modulo it is quick; independent there is independent over the rationals
DECIDED_COLUMNS = 128  # up to here an intersection is proved exactly, within a second or two
INVERTED_COLUMNS = 32  # up to here a projector is computed exactly, within half a second


def integers(x: ArrayLike) -> tuple[NDArray[np.object_], int]:
    """Python integers N and one exponent e with x = N 2^e exactly.

    >>> integers([0.5, 3.0])
    (array([1, 6], dtype=object), -1)
    """
    x = finite(x, "the numbers")
    mantissa, exponent = np.frexp(x)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    shift = exponent.astype(np.int64) - 53
    if not whole.any():
        return np.zeros(x.shape, dtype=object), 0
    spare = np.where(whole == 0, 0, _trailing_zeros(whole))
    whole, shift = whole >> spare, shift + spare
    least = int(shift[whole != 0].min())
    up = np.where(whole == 0, 0, shift - least)
    return np.left_shift(whole.astype(object), up.astype(object)), least


def _trailing_zeros(whole: NDArray[np.int64]) -> NDArray[np.int64]:
    lowest = whole & -whole
    return np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1


def is_whole(q: Any) -> bool:
    """Whether these are Python integers, of any size, to be taken exactly."""
    return isinstance(q, (list, tuple)) and all(type(x) is int for x in q)


def exact_products(K: Float, q: Any) -> tuple[NDArray[np.object_], int]:
    """Kq as Python integers N and one exponent e: Kq = N 2^e. q: d floats, or Python integers."""
    if is_whole(q):
        whole_q, q_exp = np.array([*q, 0], dtype=object)[:-1], 0
    else:
        whole_q, q_exp = integers(q)
    whole_k, k_exp = integers(K)
    if not len(whole_q):
        return np.zeros(len(K), dtype=object), 0
    return whole_k @ whole_q, k_exp + q_exp


def whole_columns(matrix: Float) -> tuple[list[list[int]], list[int]]:
    """Rows of whole numbers and exponents e with matrix[:, j] = whole[:, j] * 2^e_j, exactly.

    >>> rows, exponents = whole_columns(np.array([[0.5, 3.0], [0.25, 0.0]]))
    >>> [[x * 2.0**e for x, e in zip(row, exponents)] for row in rows]
    [[0.5, 3.0], [0.25, 0.0]]
    """
    columns = [integers(column) for column in matrix.T]
    rows = zip(*(whole.tolist() for whole, _ in columns), strict=True) if columns else ([] for _ in matrix)
    return [list(row) for row in rows], [exponent for _, exponent in columns]


def rank(matrix: Float) -> int | None:
    """The exact rank; None where it is deficient and the matrix has more than DECIDED_COLUMNS columns.

    The rank modulo a prime never exceeds the true one, so full rank there is a proof, and quick at any size.

    >>> rank(np.array([[0.1, 0.2], [0.3, 0.6]])), rank(np.array([[0.1, 0.3], [0.3, 0.9]]))
    (1, 2)
    """
    rows, _ = whole_columns(matrix)
    entries = [x for row in rows for x in row]
    modular: int = flint.nmod_mat(*matrix.shape, [x % PRIME for x in entries], PRIME).rank()
    if modular == min(matrix.shape):
        return modular
    if min(matrix.shape) > DECIDED_COLUMNS:
        return None
    return int(flint.fmpz_mat(*matrix.shape, entries).rank())


def common_vector(A: Float, B: Float) -> tuple[list[Fraction], list[Fraction]] | None:
    """Coefficients x, y with A x = B y, not zero, exactly; None where the spans meet only in 0.

    Scaled so that the largest entry of A x is 1.
    """
    rows, exponents = whole_columns(np.hstack([A, -B]))
    basis, nullity = flint.fmpz_mat(rows).nullspace()
    for n in range(nullity):
        scaled = [Fraction(int(basis[i, n])) / Fraction(2) ** e for i, e in enumerate(exponents)]
        x, y = scaled[: A.shape[1]], scaled[A.shape[1] :]
        if largest := max(combine(A, x), key=abs):
            return [c / largest for c in x], [c / largest for c in y]
    return None


def spell(x: Fraction) -> str:
    """``p/q`` in decimal, however long (Python itself stops at 4300 digits)."""
    return f"{flint.fmpz(x.numerator)}/{flint.fmpz(x.denominator)}"


def read(text: str) -> Fraction:
    """What :func:`spell` wrote.

    >>> read(spell(Fraction(-3, 7)))
    Fraction(-3, 7)
    """
    top, _, bottom = text.partition("/")
    return Fraction(int(flint.fmpz(top)), int(flint.fmpz(bottom)))


def combine(matrix: Float, coefficients: list[Fraction]) -> list[Fraction]:
    """matrix @ coefficients, exactly."""
    return [
        sum((Fraction(m) * c for m, c in zip(row, coefficients, strict=True) if c), Fraction(0))
        for row in matrix.tolist()
    ]


def projector(A: Float, B: Float) -> Float:
    """The projector onto span(A) along span(B), zero on the rest, each entry rounded once.

    M = [A 0] (C^T C)^-1 C^T with C = [A B], from columns that are independent; the spans must meet only in 0.

    >>> projector(np.array([[1.0], [0.0]]), np.array([[1.0], [1.0]])).tolist()
    [[1.0, -1.0], [0.0, 0.0]]
    """
    first, second = _independent(A), _independent(B)
    C = flint.fmpz_mat([a + b for a, b in zip(first, second, strict=True)])
    solution = (C.transpose() * C).solve(C.transpose())
    top = flint.fmpq_mat(solution.tolist()[: len(first[0])])
    try:
        return np.array(
            [[_nearest_float(x) for x in row] for row in (flint.fmpq_mat(flint.fmpz_mat(first)) * top).tolist()]
        )
    except OverflowError:
        raise CouldNotFindOut("The matrix exists, but its entries exceed the range of float64 (1e308).") from None


def _independent(matrix: Float) -> list[list[int]]:
    """Rows of whole numbers whose columns are the pivot columns of ``matrix``, a basis of its span."""
    rows, _ = whole_columns(matrix)
    reduced, _, rank = flint.fmpz_mat(rows).rref()
    return [[row[j] for j in pivots(reduced, rank)] for row in rows]


def pivots(reduced: Any, rank: int) -> list[int]:
    """The pivot columns of a matrix in reduced row echelon form: of each row, where its first entry is.

    >>> pivots(flint.fmpz_mat([[1, 2, 0], [0, 0, 3]]), 2)
    [0, 2]
    """
    places, column = [], 0
    for row in range(rank):
        while reduced[row, column] == 0:
            column += 1
        places.append(column)
    return places


def _nearest_float(x: flint.fmpq) -> float:
    return float(Fraction(int(x.p), int(x.q)))

"""Linear algebra on stored floats without any rounding: every float64 is a rational number.

What is decided here is a fact about the numbers in the file, not about the ones they were rounded from.
Only spans matter here, so each column is first scaled by a power of two to whole numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from regard.errors import CouldNotFindOut

Float = npt.NDArray[np.float64]

PRIME = 2**61 - 1
DECIDED_COLUMNS = 128  # up to here an intersection is proved exactly, within a second or two
INVERTED_COLUMNS = 32  # up to here a projector is computed exactly, within half a second


def whole_columns(matrix: Float) -> tuple[list[list[int]], list[int]]:
    """Rows of whole numbers and exponents e with matrix[:, j] = whole[:, j] * 2^e_j, exactly.

    >>> rows, exponents = whole_columns(np.array([[0.5, 3.0], [0.25, 0.0]]))
    >>> [[x * 2.0**e for x, e in zip(row, exponents)] for row in rows]
    [[0.5, 3.0], [0.25, 0.0]]
    """
    fraction, exponent = np.frexp(matrix)
    mantissa = (fraction * 2.0**53).astype(np.int64)  # exact: a float64 has 53 bits
    exponent = np.where(mantissa == 0, 2000, exponent - 53)
    lowest = exponent.min(axis=0)
    shift = np.where(mantissa == 0, 0, exponent - lowest)
    rows = [[m << s for m, s in zip(*row, strict=True)] for row in zip(mantissa.tolist(), shift.tolist(), strict=True)]
    return rows, np.where(lowest == 2000, 0, lowest).tolist()


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
        return np.array([[_rounded(x) for x in row] for row in (flint.fmpq_mat(flint.fmpz_mat(first)) * top).tolist()])
    except OverflowError:
        raise CouldNotFindOut("The matrix exists, but its entries exceed the range of float64 (1e308).") from None


def _independent(matrix: Float) -> list[list[int]]:
    """Rows of whole numbers whose columns are the pivot columns of ``matrix``, a basis of its span."""
    rows, _ = whole_columns(matrix)
    reduced, _, found = flint.fmpz_mat(rows).rref()
    table = reduced.tolist()
    pivots = [next(j for j, x in enumerate(table[i]) if x) for i in range(found)]
    return [[row[j] for j in pivots] for row in rows]


def _rounded(x: Any) -> float:
    return float(Fraction(int(x.p), int(x.q)))

"""Rechecking an extraction from the inputs alone, with code that shares nothing with the one that found it.

Its exact arithmetic (fractions, elimination by Bareiss) is its own on purpose: what `regard.rigor` had wrong, this
would find.
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm

import flint
import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.rigor import check_arithmetic
from regard.subspace.extraction import Extraction, Witness, checked_basis

COUNTED = 64  # up to here ranks are counted exactly, by elimination in whole numbers


def check(extraction: Extraction, A: npt.ArrayLike, B: npt.ArrayLike) -> bool:
    """Whether the result is right about A and B.

    "No": the common vector is recomputed from its coefficients, in fractions where they are exact, and is not 0.
    "Yes": M A = A, M B = 0 and the norm of M are recomputed, M vanishes off the spans (as far as float64 can
    tell), and a common vector is ruled out: by the residuals, since w = A x = B y means w = M B y - (M A - A) x;
    where they are too large for that, by counting ranks exactly (up to 64 columns).

    >>> from regard.subspace import extract
    >>> A, B = np.eye(2)[:, :1], np.ones((2, 1))
    >>> check(extract(A, B), A, B), check(extract(A, B), A, A)
    (True, False)
    """
    check_arithmetic()
    a, b = checked_basis(A, "A"), checked_basis(B, "B")
    if not len(a) == len(b) == extraction.dimension:
        return False
    if extraction.witness is not None:
        return not extraction.exists and _is_common(extraction.witness, a, b)
    return extraction.exists and extraction.matrix is not None and _recovers(extraction, extraction.matrix, a, b)


def _is_common(witness: Witness, a: Float, b: Float) -> bool:
    if len(witness.from_a) != a.shape[1] or len(witness.from_b) != b.shape[1]:
        return False
    if witness.exact_from_a:
        if len(witness.exact_from_a) != a.shape[1] or len(witness.exact_from_b) != b.shape[1]:
            return False
        exact = _combine(a, witness.exact_from_a)
        agree = exact == _combine(b, witness.exact_from_b)
        return agree and any(exact) and [float(x) for x in exact] == witness.vector.tolist()
    left, right = a @ witness.from_a, b @ witness.from_b
    off = max(np.abs(left - right).max(), np.abs(left - witness.vector).max())
    return bool(np.abs(witness.vector).max() > 0.5 and off <= 2 * witness.residual + 1e-12)


def _combine(matrix: Float, coefficients: tuple[str, ...]) -> list[Fraction]:
    # flint reads numbers of any length; Python's own int() stops at 4300 digits
    parts = [text.split("/") for text in coefficients]
    numbers = [Fraction(int(flint.fmpz(top)), int(flint.fmpz(bottom))) for top, bottom in parts]
    return [sum((Fraction(m) * c for m, c in zip(row, numbers, strict=True)), Fraction(0)) for row in matrix.tolist()]


def _recovers(extraction: Extraction, M: Float, a: Float, b: Float) -> bool:
    unit_a, unit_b = _unit(a), _unit(b)
    wrong_a, wrong_b = M @ unit_a - unit_a, M @ unit_b
    worst = max(np.abs(wrong_a).max(initial=0.0), np.abs(wrong_b).max(initial=0.0))
    norm = _norm(M)
    slack = 1e-12 * max(1.0, norm)  # rounding of the products themselves
    # 1.001: the same sums in another order
    if worst > 1.001 * extraction.residual + slack or abs(norm - extraction.amplification) > 1e-6 * norm + 1e-12:
        return False
    if not _vanishes_off(M, np.hstack([unit_a, unit_b]), sum(extraction.ranks)):
        return False
    ranks = _visible_rank(unit_a), _visible_rank(unit_b)
    room = _reach(wrong_a, unit_a, ranks[0]) + _reach(wrong_b, unit_b, ranks[1])
    # a common w would be at most room |w| long: below 1 there is none, and one half leaves place for rounding
    if ranks == extraction.ranks and room < 0.5:
        return True
    return extraction.tolerance is None and _ranks_add_up(extraction.ranks, a, b)


def _unit(basis: Float) -> Float:
    basis = basis[:, basis.any(axis=0)]
    basis = basis / np.abs(basis).max(axis=0, initial=0.0)
    return np.asarray(basis / np.sqrt((basis * basis).sum(axis=0)))


def _norm(M: Float) -> float:
    largest = float(np.abs(M).max()) or 1.0
    return largest * float(np.sqrt(max(np.linalg.eigvalsh((M / largest).T @ (M / largest))[-1], 0.0)))


def _vanishes_off(M: Float, both: Float, rank: int) -> bool:
    """M is 0 on what is orthogonal to both spans, as far as float64 can tell where the last direction is."""
    if not rank:
        return not M.any()
    left, values, _ = np.linalg.svd(both, full_matrices=False)
    if rank > len(values):
        return False
    if values[rank - 1] < 1e-10:
        return True
    inside = left[:, :rank]
    return bool(np.abs(M - (M @ inside) @ inside.T).max() <= 1e-9 * max(1.0, np.abs(M).max()))


def _visible_rank(basis: Float) -> int:
    return int((np.linalg.svd(basis, compute_uv=False) > 1e-12).sum()) if basis.size else 0


def _reach(wrong: Float, basis: Float, rank: int) -> float:
    """At least the largest |wrong x| for |basis x| = 1."""
    return float(np.sqrt((wrong * wrong).sum()) / np.linalg.svd(basis, compute_uv=False)[rank - 1]) if rank else 0.0


def _ranks_add_up(ranks: tuple[int, int], a: Float, b: Float) -> bool:
    """The ranks are right and add up, by exact elimination: so the spans meet only in 0."""
    if a.shape[1] + b.shape[1] > COUNTED:
        return False
    return ranks == (_exact_rank(a), _exact_rank(b)) and _exact_rank(np.hstack([a, b])) == sum(ranks)


def _exact_rank(matrix: Float) -> int:
    """The exact rank, by fraction-free elimination (Bareiss) in Python's whole numbers."""
    rows = [_whole(row) for row in matrix.tolist()]
    rank, previous = 0, 1
    for column in range(matrix.shape[1]):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        top = rows[rank]
        for i in range(rank + 1, len(rows)):
            factor = rows[i][column]
            # the entries are minors of the matrix, so this division is exact, and they stay as short as minors are
            rows[i] = [(top[column] * x - factor * y) // previous for x, y in zip(rows[i], top, strict=True)]
        rank, previous = rank + 1, top[column]
    return rank


def _whole(row: list[float]) -> list[int]:
    fractions = [Fraction(x) for x in row]
    common = lcm(*(x.denominator for x in fractions))
    return [int(x * common) for x in fractions]

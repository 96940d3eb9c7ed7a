"""Weights that balance exactly: linear systems solved with proof, by enclosure or in rationals.

A float combination of keys never balances to the last digit. Here it is shown that exact weights near the float ones
do: some of them (the basis) are solved for, and the solution is enclosed or computed without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Float
from regard.rigor.exact import PRIME, integers, pivots
from regard.rigor.floats import SLACK, TINY, U, dot_enclosure, exact_differences, finite, product_bound

POOL = 1_000_000  # numbers among which a basis is looked for: the heaviest points alone may all lie on one line


def solve_enclosure(A: ArrayLike, b: ArrayLike | tuple[ArrayLike, ArrayLike]) -> tuple[Float, Float] | None:
    """Enclosure (mid, rad) of the solution of Ax = b, proving A invertible on the way; None where it cannot.

    With an approximate inverse R and ||I - RA||_inf <= a < 1, |x - x~| <= |Rr| + a/(1-a) ||Rr||_inf for the
    residual r = b - Ax~, computed with compensated sums. Weak for condition numbers near 10^14 and above.

    A: m x m. b: m numbers, or (mid, rad) when the right side is itself only enclosed.

    >>> mid, rad = solve_enclosure([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    >>> mid, bool((rad < 1e-15).all())
    (array([0.5 , 0.25]), True)
    """
    A = finite(A, "the matrix")
    centre, width = b if isinstance(b, tuple) else (b, np.zeros(len(A)))
    centre, width = finite(centre, "the right side"), finite(width, "the right side's radius")
    equations = np.concatenate([A, centre[:, None]], axis=1)
    return _solve(A, lambda x: dot_enclosure(equations, np.append(-x, 1.0), refine=True), width)


def _solve(A: Float, residual: Callable[[Float], tuple[Float, Float]], width: Float) -> tuple[Float, Float] | None:
    """The enclosure, given a rigorous residual b - Ax as a function of x."""
    m = len(A)
    try:
        R: Float = np.linalg.inv(A).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    if not np.isfinite(R).all():
        return None
    x = np.zeros(m)
    for _ in range(3):  # iterative refinement: the residual is exact enough to gain digits each time
        x = x + R @ residual(x)[0]
    gap = _distance_from_identity(R, A)
    if not (np.isfinite(x).all() and gap < 0.5):
        return None
    r_mid, r_rad = residual(x)
    step = np.abs(R @ r_mid) + product_bound(m) * (np.abs(R) @ np.abs(r_mid)) + m * TINY
    step = SLACK * (step + np.abs(R) @ (r_rad + width))
    return x, SLACK * (step + gap / (1 - gap) * step.max(initial=0)) + TINY


def _distance_from_identity(R: Float, A: Float) -> float:
    """A bound of ||I - RA||_inf; the rounding of RA is at most gamma |R||A|, its row sums two products."""
    m = len(A)
    seen = np.abs(R @ A - np.eye(m)).sum(axis=1)
    rounding = product_bound(m) * (np.abs(R) @ np.abs(A).sum(axis=1)) + (m + 1) ** 2 * TINY
    bound = float((SLACK * (seen + SLACK * rounding) + 4 * U * m).max(initial=0))
    return bound if math.isfinite(bound) else math.inf


def choose_basis(points: ArrayLike, target: ArrayLike, weights: ArrayLike) -> NDArray[np.intp]:
    """Which weights to solve for when a combination is made exact: heavy ones, and well-conditioned together.

    QR with pivoting on the columns sqrt(w_i) (p_i - t, 1), each row scaled to unit size; at most d + 1 of them,
    fewer where the points span less. Not rigorous and need not be.

    >>> choose_basis([[0.0], [1.0], [2.0]], [1.0], [0.4, 0.2, 0.4]).tolist()
    [0, 2]
    """
    from scipy.linalg import qr

    P, t, w = finite(points, "the points"), finite(target, "the target"), finite(weights, "the weights")
    pool = np.argsort(-w, kind="stable")[: max(8 * (P.shape[1] + 1), POOL // (P.shape[1] + 1))]
    columns = np.concatenate([P[pool] - t, np.ones((len(pool), 1))], axis=1) * np.sqrt(w[pool, None])
    size = np.abs(columns).max(axis=0, initial=0)
    columns = columns[:, size > 0] / size[size > 0]
    r, order = qr(columns.T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(r))
    rank = int((diagonal > 1e-11 * diagonal.max(initial=0)).sum())
    return np.sort(pool[order[:rank]])


def enclose_combination(
    points: ArrayLike, target: ArrayLike, weights: ArrayLike, basis: NDArray[np.integer[Any]]
) -> tuple[Float, Float] | None:
    """Proves that exact weights w* > 0 with sum 1 and sum w*_i p_i = t exist near the given floats.

    The weights outside `basis` stay as they are; the d + 1 inside solve the d + 1 equations, by enclosure.
    Returns (mid, rad) of all of them, or None where that does not prove it (a smaller weight than the
    enclosure is wide, or fewer than d + 1 independent points: then :func:`exact_combination` may).

    >>> mid, rad = enclose_combination([[0.0], [1.0], [2.0]], [1.0], [0.4, 0.2, 0.4], np.array([0, 2]))
    >>> mid, bool((rad < 1e-14).all())
    (array([0.4, 0.2, 0.4]), True)
    """
    P, t, w = finite(points, "the points"), finite(target, "the target"), finite(weights, "the weights")
    if len(basis) != P.shape[1] + 1 or bool((w < 0).any()):
        return None
    A = _equations(P, t)
    if A is None:
        return None
    fixed = np.ones(len(w), dtype=bool)
    fixed[basis] = False

    def residual(x: Float) -> tuple[Float, Float]:
        full = w.copy()
        full[basis] = x
        mid, rad = dot_enclosure(A, np.append(full, -1.0), refine=True)
        return -mid, rad

    with np.errstate(over="ignore", invalid="ignore"):  # what leaves the range proves nothing
        solved = _solve(A[:, basis], residual, np.zeros(len(A)))
    if solved is None or not bool((solved[0] > solved[1]).all()) or not bool((w[fixed] > 0).all()):
        return None
    mid, rad = w.copy(), np.zeros(len(w))
    mid[basis], rad[basis] = solved
    return mid, rad


def _equations(P: Float, t: Float) -> Float | None:
    """A with A (w, -1) = 0 for sum w p = t and sum w = 1, each row divided by a power of two to size 1.

    Where every p - t is a float itself, the differences stand for the points: far better conditioned. None
    where the division is not exact.
    """
    D = exact_differences(P, t)
    left, right = (P, t) if D is None else (D, np.zeros_like(t))
    rows = np.append(left, right[None, :], axis=0).T
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0))[1][:, None]
    scaled: Float = np.ldexp(rows, -exponents)
    if not np.array_equal(np.ldexp(scaled, exponents), rows):
        return None
    return np.append(scaled, np.ones((1, len(P) + 1)), axis=0)


def exact_combination(
    points: ArrayLike, target: ArrayLike, weights: ArrayLike, basis: NDArray[np.integer[Any]]
) -> list[flint.fmpq] | None:
    """The same in exact rationals: weights w* >= 0 with sum 1 and sum w*_i p_i = t, or None.

    Works for points on a line or a face too: it solves for the basis and then checks every equation. About
    two seconds for 385 weights, and cubic in their number.

    >>> exact_combination([[0.0, 0.0], [3.0, 3.0]], [1.0, 1.0], [0.6, 0.4], np.array([0, 1]))
    [2/3, 1/3]
    """
    P, t, w = finite(points, "the points"), finite(target, "the target"), finite(weights, "the weights")
    exact = [flint.fmpq(*float(x).as_integer_ratio()) for x in w]
    whole, _ = integers(np.concatenate([P, t[None, :]]))  # P and t over one common power of two
    rows = [[int(x) for x in row] for row in whole.T] + [[1] * len(whole)]
    inside = {int(i) for i in basis}
    outside = [i for i in range(len(w)) if i not in inside and w[i] != 0]
    right = [row[-1] - sum((exact[i] * row[i] for i in outside), flint.fmpq(0)) for row in rows]
    solved = _solve_exactly([[row[i] for i in basis] for row in rows], right)
    if solved is None or any(x < 0 for x in solved) or bool((w < 0).any()):
        return None
    for i, x in zip(basis, solved, strict=True):
        exact[int(i)] = x
    return exact


def _solve_exactly(A: list[list[int]], b: list[flint.fmpq]) -> list[flint.fmpq] | None:
    """The unique rational solution of a tall consistent system; None if there is none or more than one."""
    m = len(A[0])
    denominator = 1
    for x in b:
        denominator = math.lcm(denominator, int(x.q))
    right = [int(x.p) * (denominator // int(x.q)) for x in b]
    keep = _independent_rows(A, m)
    if keep is None:
        return None
    square = flint.fmpz_mat([A[i] for i in keep])
    x = square.solve(flint.fmpz_mat([[right[i]] for i in keep]))
    tall = flint.fmpq_mat(flint.fmpz_mat(A)) * x
    if any(tall[i, 0] != right[i] for i in range(len(A))):
        return None
    return [x[i, 0] / denominator for i in range(m)]


def _independent_rows(A: list[list[int]], m: int) -> list[int] | None:
    """Indices of m rows that are independent modulo a large prime, hence independent; None if too few."""
    reduced, rank = flint.nmod_mat(flint.fmpz_mat(A).transpose(), PRIME).rref()
    return None if rank < m else pivots(reduced, m)

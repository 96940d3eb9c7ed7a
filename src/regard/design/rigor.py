"""Statements about stored numbers that hold in exact arithmetic, whatever rounding did on the way.

Three tiers, each called only where the one before cannot decide: a BLAS product with its a-priori bound
|fl(Kq) - Kq| <= gamma_d |K||q|, a compensated product (Dekker's and Knuth's error-free transformations, about
32 digits), and exact integers. The bounds assume IEEE arithmetic (round to nearest, gradual underflow) and a
matrix product that adds the d products in any order, fused or not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import flint
import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.errors import InputError

Floats = NDArray[np.float64]

U = 2.0**-53  # half the distance from 1 to the next float64
TINY = 2.0**-1018  # far more than any error that gradual underflow can make
SLACK = 1.01  # covers the rounding of the bounds themselves, for up to 10^12 terms
CHUNK = 1 << 17  # elements that a compensated product works on at once: 1 MB, so that it stays in cache


def dot_enclosure(K: ArrayLike, q: ArrayLike, *, refine: bool = False) -> tuple[Floats, Floats]:
    """Midpoints and radii that enclose the exact real product Kq.

    |mid - Kq| <= rad, elementwise. `refine` uses compensated sums: the radius is then near one rounding of
    the result even under heavy cancellation, at a few times the cost. For K^T w pass ``K.T``.

    K: n x d finite numbers. q: d finite numbers.

    >>> mid, rad = dot_enclosure([[1e16, 1.0, -1e16]], [1.0, 1.0, 1.0], refine=True)
    >>> float(mid[0]), bool(rad[0] < 1e-14)
    (1.0, True)
    """
    K, q = _finite(K, "the matrix"), _finite(q, "the vector")
    if K.ndim != 2 or q.shape != K.shape[1:]:
        raise InputError(f"a product needs an n x d matrix and d numbers, but got {K.shape} and {q.shape}")
    (K, q), exponent = _in_range(K, q)
    if not refine:
        return _scaled_back(*_plain_product(K, q), exponent)
    hi, lo, rad = _dot_pair(K, q)
    mid = hi + lo
    return _scaled_back(mid, SLACK * (rad + U * np.abs(mid)) + TINY, exponent)


def _plain_product(K: Floats, q: Floats, *, blur: float = 0.0) -> tuple[Floats, Floats]:
    """The BLAS product and its a-priori radius; `blur` is a relative uncertainty of q itself."""
    bound = product_bound(K.shape[1]) + SLACK * blur
    return K @ q, bound * (np.abs(K) @ np.abs(q)) + (K.shape[1] + 1) * TINY


def product_bound(terms: int, *, unit: float = U) -> float:
    """A factor g with |fl(x.y) - x.y| <= g fl(|x|.|y|), for sums of that many products in any order.

    >>> product_bound(100) < 1.2e-14
    True
    """
    if terms * unit > 1e-3:
        return math.inf
    return SLACK * (terms + 4) * unit


def margins(K: ArrayLike, key: ArrayLike, q: ArrayLike) -> tuple[Floats, Floats]:
    """Enclosure (mid, rad) of (key - k_i).q for every row k_i, in about 32 digits of the scores.

    Unlike a difference of two enclosures of scores, it does not lose a lead that is small beside the scores.

    >>> mid, rad = margins([[1.0, 0.0]], [1.0, 2.0**-80], [1.0, 1.0])
    >>> bool(mid[0] == 2.0**-80), bool(rad[0] < 1e-30)
    (True, True)
    """
    K, key, q = _finite(K, "the matrix"), _finite(key, "the key"), _finite(q, "the vector")
    (K, q), exponent = _in_range(np.concatenate([K, key[None, :]]), q)
    hi, lo, rad = _dot_pair(K, q)
    own_hi, own_lo, own_rad = hi[-1], lo[-1], rad[-1]
    hi, lo, rad = hi[:-1], lo[:-1], rad[:-1]
    lead, lost = two_sum(own_hi, -hi)
    low = own_lo - lo
    rest = lost + low
    mid = lead + rest
    rad = SLACK * (rad + own_rad + U * (np.abs(low) + np.abs(rest) + np.abs(mid))) + TINY
    return _scaled_back(mid, rad, exponent)


Query = ArrayLike | Sequence[int]  # floats, or Python integers where floats have too few digits


def strictly_wins(K: ArrayLike, j: int, q: Query, *, rows: NDArray[np.integer[Any]] | None = None) -> bool:
    """Does k_j.q > k_i.q hold in exact arithmetic for every i != j (or every other i in `rows`)?

    Always decides: what neither bound settles goes to exact integers. A query of Python integers of any size
    is taken exactly: directions that need more digits than floats have.

    >>> strictly_wins([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], 2, [1.0, 1.0])
    False
    """
    return not any(len(found) for found in _rivals(K, j, q, rows))


def rivals(K: ArrayLike, j: int, q: Query) -> NDArray[np.intp]:
    """The rows i != j with k_i.q >= k_j.q in exact arithmetic: all that keep key j from winning.

    >>> rivals([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], 2, [1.0, 0.5])
    array([0])
    """
    return np.concatenate([np.zeros(0, dtype=np.intp), *_rivals(K, j, q, None)])


def _rivals(K: ArrayLike, j: int, q: Query, rows: NDArray[np.integer[Any]] | None) -> Iterator[NDArray[np.intp]]:
    """Chunk by chunk, so that a memory-mapped matrix never has to fit in memory as float64."""
    K = np.asarray(K)
    own = _finite(K[j], "the key")
    rounded, blur = _rounded(q)
    which = np.arange(len(K)) if rows is None else np.asarray(rows)
    for part in _row_chunks(len(which), K.shape[1], 8 * CHUNK):
        index = which[part]
        index = index[index != j]
        chunk = _finite(K[part] if rows is None and len(index) == part.stop - part.start else K[index], "the matrix")
        yield index[_beats(chunk, own, q, rounded, blur)]


def _beats(chunk: Floats, own: Floats, q: Query, rounded: Floats | None, blur: float) -> NDArray[np.bool_]:
    """Which rows score at least as much as `own`: by bounds, then compensated sums, then exact integers."""
    lost, unsure = np.zeros(len(chunk), dtype=np.bool_), np.arange(len(chunk))
    if rounded is not None:
        lost, unsure = _beats_by_bounds(chunk, own, rounded, blur)
    for part in _row_chunks(len(unsure), len(own)):
        scores, _ = _exact_products(np.concatenate([own[None, :], chunk[unsure[part]]]), q)
        lost[unsure[part]] = [s >= scores[0] for s in scores[1:]]
    return lost


def _beats_by_bounds(chunk: Floats, own: Floats, q: Floats, blur: float) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    (keys, query), _ = _in_range(np.concatenate([chunk, own[None, :]]), q)
    mid, rad = _plain_product(keys, query, blur=blur)
    lead = mid[-1] - mid[:-1]
    doubt = SLACK * (rad[-1] + rad[:-1]) + 4 * U * (np.abs(mid[:-1]) + np.abs(mid[-1]))
    lost: NDArray[np.bool_] = lead < -doubt
    unsure = np.flatnonzero(~(np.abs(lead) > doubt))
    if len(unsure) and not blur:
        mid, rad = margins(chunk[unsure], own, q)
        lost[unsure[mid < -rad]] = True
        unsure = unsure[~(np.abs(mid) > rad)]
    return lost, unsure


def _rounded(q: Any) -> tuple[Floats | None, float]:
    """The query as floats (up to a power of two for integers), and how far each entry is off, relatively."""
    if not _whole(q):
        return _finite(q, "the query"), 0.0
    bits = [abs(x).bit_length() for x in q]
    top = max(bits, default=0)
    if top - min((b for b in bits if b), default=top) > 900:
        return None, 0.0  # too wide a range for floats: only integers will do
    return np.array([x / (1 << top) for x in q], dtype=np.float64), 2 * U


def _whole(q: Query) -> bool:
    return isinstance(q, (list, tuple)) and all(type(x) is int for x in q)


def exact_scores(K: ArrayLike, q: ArrayLike | Sequence[int]) -> list[flint.fmpq]:
    """Kq as exact rationals.

    >>> exact_scores([[0.5, 0.25]], [1.0, 3.0])
    [5/4]
    """
    scores, exponent = _exact_products(_finite(K, "the matrix"), q)
    return [flint.fmpq(int(s)) * _power_of_two(exponent) for s in scores]


def integers(x: ArrayLike) -> tuple[NDArray[np.object_], int]:
    """Python integers N and one exponent e with x = N 2^e exactly.

    >>> integers([0.5, 3.0])
    (array([1, 6], dtype=object), -1)
    """
    x = _finite(x, "the numbers")
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


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """s = fl(a + b) and its error, exactly: s + e = a + b (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_prod(a: Any, b: Any) -> tuple[Any, Any]:
    """p = fl(ab) and its error, exactly where nothing underflows (Dekker, Veltkamp's splitting)."""
    (a1, a2), (b1, b2) = _split(a), _split(b)
    p = a * b
    return p, a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)


def _split(a: Any) -> tuple[Any, Any]:
    c = 134217729.0 * a  # 2^27 + 1
    high = c - (c - a)
    return high, a - high


def _dot_pair(X: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """hi, lo, rad with |hi + lo - Xy| <= rad.

    Every product and every sum is split into its float and its error, so hi plus all the errors is exact; the
    errors are added in plain floating point, which costs gamma of twice the terms times their absolute sum.
    """
    n, terms = X.shape
    out = np.zeros((3, n))
    for rows in _row_chunks(n, terms):
        out[:, rows] = _dot_pair_chunk(np.asarray(X[rows]), y)
    hi, lo, spread = out
    return hi, lo, product_bound(2 * terms) * spread + (terms + 1) * TINY


def _dot_pair_chunk(X: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    total, error = two_prod(X, y[None, :])
    lo, spread = error.sum(axis=1), np.abs(error).sum(axis=1)
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        rest = total[:, 2 * half :]
        total, error = two_sum(total[:, :half], total[:, half : 2 * half])
        lo, spread = lo + error.sum(axis=1), spread + np.abs(error).sum(axis=1)
        total = np.concatenate([total, rest], axis=1) if rest.shape[1] else total
    hi = total[:, 0] if total.shape[1] else np.zeros(len(X))
    return hi, lo, spread


def _row_chunks(n: int, terms: int, size: int = CHUNK) -> Iterator[slice]:
    step = max(1, size // max(terms, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _exact_products(K: Floats, q: Any) -> tuple[NDArray[np.object_], int]:
    if _whole(q):
        whole_q, q_exp = np.array([*q, 0], dtype=object)[:-1], 0
    else:
        whole_q, q_exp = integers(q)
    whole_k, k_exp = integers(K)
    if not len(whole_q):
        return np.zeros(len(K), dtype=object), 0
    return whole_k @ whole_q, k_exp + q_exp


def _power_of_two(exponent: int) -> flint.fmpq:
    return flint.fmpq(2) ** exponent


def _trailing_zeros(whole: NDArray[np.int64]) -> NDArray[np.int64]:
    lowest = whole & -whole
    return np.frexp(lowest.astype(np.float64))[1].astype(np.int64) - 1


def _finite(x: ArrayLike, what: str) -> Floats:
    array = np.asarray(x, dtype=np.float64)
    if not np.isfinite(array).all():
        raise InputError(f"{what} must hold finite numbers, but has NaN or infinity: remove those entries")
    return array


def _in_range(K: Floats, q: Floats) -> tuple[tuple[Floats, Floats], int]:
    """K and q as they are, or both divided by powers of two to a largest entry near 1, and the exponent.

    In the middle of the range nothing can overflow and underflow costs less than TINY. Outside, what the
    division itself makes underflow is below 2^-1022 of the largest entry, and TINY pays for that too.
    """
    tops = [float(np.abs(x).max(initial=0)) for x in (K, q)]
    if all(top == 0 or 2.0**-300 < top < 2.0**300 for top in tops):
        return (K, q), 0
    k_exp, q_exp = (int(np.frexp(top)[1]) for top in tops)
    with np.errstate(under="ignore"):
        return (np.ldexp(K, -k_exp), np.ldexp(q, -q_exp)), k_exp + q_exp


def _scaled_back(mid: Floats, rad: Floats, exponent: int) -> tuple[Floats, Floats]:
    if not exponent:
        return mid, rad
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mid, rad = np.ldexp(mid, exponent), np.ldexp(rad, exponent) * SLACK + TINY
    fits = np.isfinite(mid)
    return np.where(fits, mid, 0.0), np.where(fits, rad, math.inf)


def solve_enclosure(A: ArrayLike, b: ArrayLike | tuple[ArrayLike, ArrayLike]) -> tuple[Floats, Floats] | None:
    """Enclosure (mid, rad) of the solution of Ax = b, proving A invertible on the way; None where it cannot.

    With an approximate inverse R and ||I - RA||_inf <= a < 1, |x - x~| <= |Rr| + a/(1-a) ||Rr||_inf for the
    residual r = b - Ax~, computed with compensated sums. Weak for condition numbers near 10^14 and above.

    A: m x m. b: m numbers, or (mid, rad) when the right side is itself only enclosed.

    >>> mid, rad = solve_enclosure([[2.0, 0.0], [0.0, 4.0]], [1.0, 1.0])
    >>> mid, bool((rad < 1e-15).all())
    (array([0.5 , 0.25]), True)
    """
    A = _finite(A, "the matrix")
    centre, width = b if isinstance(b, tuple) else (b, np.zeros(len(A)))
    centre, width = _finite(centre, "the right side"), _finite(width, "the right side's radius")
    equations = np.concatenate([A, centre[:, None]], axis=1)
    return _solve(A, lambda x: dot_enclosure(equations, np.append(-x, 1.0), refine=True), width)


def _solve(
    A: Floats, residual: Callable[[Floats], tuple[Floats, Floats]], width: Floats
) -> tuple[Floats, Floats] | None:
    """The enclosure, given a rigorous residual b - Ax as a function of x."""
    m = len(A)
    try:
        R: Floats = np.linalg.inv(A).astype(np.float64, copy=False)
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


def _distance_from_identity(R: Floats, A: Floats) -> float:
    """A bound of ||I - RA||_inf; the rounding of RA is at most gamma |R||A|, its row sums two products."""
    m = len(A)
    seen = np.abs(R @ A - np.eye(m)).sum(axis=1)
    rounding = product_bound(m) * (np.abs(R) @ np.abs(A).sum(axis=1)) + (m + 1) ** 2 * TINY
    bound = float((SLACK * (seen + SLACK * rounding) + 4 * U * m).max(initial=0))
    return bound if math.isfinite(bound) else math.inf


def choose_basis(points: ArrayLike, target: ArrayLike, weights: ArrayLike) -> NDArray[np.intp]:
    """Which weights to solve for when a combination is made exact: heavy ones, and well-conditioned together.

    QR with pivoting on the columns w_i (p_i - t, 1), each row scaled to unit size; at most d + 1 of them,
    fewer where the points span less. Not rigorous and need not be.

    >>> choose_basis([[0.0], [1.0], [2.0]], [1.0], [0.4, 0.2, 0.4]).tolist()
    [0, 2]
    """
    from scipy.linalg import qr

    P, t, w = _finite(points, "the points"), _finite(target, "the target"), _finite(weights, "the weights")
    pool = np.argsort(-w, kind="stable")[: 8 * (P.shape[1] + 1)]
    columns = np.concatenate([P[pool] - t, np.ones((len(pool), 1))], axis=1) * w[pool, None]
    size = np.abs(columns).max(axis=0, initial=0)
    columns = columns[:, size > 0] / size[size > 0]
    r, order = qr(columns.T, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(r))
    rank = int((diagonal > 1e-11 * diagonal.max(initial=0)).sum())
    return np.sort(pool[order[:rank]])


def enclose_combination(
    points: ArrayLike, target: ArrayLike, weights: ArrayLike, basis: NDArray[np.integer[Any]]
) -> tuple[Floats, Floats] | None:
    """Proves that exact weights w* > 0 with sum 1 and sum w*_i p_i = t exist near the given floats.

    The weights outside `basis` stay as they are; the d + 1 inside solve the d + 1 equations, by enclosure.
    Returns (mid, rad) of all of them, or None where that does not prove it (a smaller weight than the
    enclosure is wide, or fewer than d + 1 independent points: then :func:`exact_combination` may).

    >>> mid, rad = enclose_combination([[0.0], [1.0], [2.0]], [1.0], [0.4, 0.2, 0.4], np.array([0, 2]))
    >>> mid, bool((rad < 1e-14).all())
    (array([0.4, 0.2, 0.4]), True)
    """
    P, t, w = _finite(points, "the points"), _finite(target, "the target"), _finite(weights, "the weights")
    if len(basis) != P.shape[1] + 1 or bool((w < 0).any()):
        return None
    A = _equations(P, t)
    if A is None:
        return None
    fixed = np.ones(len(w), dtype=bool)
    fixed[basis] = False

    def residual(x: Floats) -> tuple[Floats, Floats]:
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


def _equations(P: Floats, t: Floats) -> Floats | None:
    """A with A (w, -1) = 0 for sum w p = t and sum w = 1, each row divided by a power of two to size 1.

    Where every p - t is a float itself, the differences stand for the points: far better conditioned. None
    where the division is not exact.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        D, lost = two_sum(P, -t)
    left, right = (D, np.zeros_like(t)) if np.isfinite(D).all() and not lost.any() else (P, t)
    rows = np.append(left, right[None, :], axis=0).T
    exponents = np.frexp(np.abs(rows).max(axis=1, initial=0))[1][:, None]
    scaled: Floats = np.ldexp(rows, -exponents)
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
    P, t, w = _finite(points, "the points"), _finite(target, "the target"), _finite(weights, "the weights")
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
    prime = (1 << 61) - 1
    reduced, pivots = flint.nmod_mat(flint.fmpz_mat(A).transpose(), prime).rref()
    if pivots < m:
        return None
    lead, rows = 0, []
    for k in range(m):
        while reduced[k, lead] == 0:
            lead += 1
        rows.append(lead)
    return rows


def entropy_bounds(mid: ArrayLike, rad: ArrayLike) -> tuple[float, float]:
    """Lower and upper bounds of H(w) = -sum w_i ln w_i, for exact weights in [0, 1] known by an enclosure.

    >>> low, high = entropy_bounds([0.5, 0.5], [0.0, 0.0])
    >>> low <= 0.6931471805599453 <= high and high - low < 1e-14
    True
    """
    low, high = flint.arb(0), flint.arb(0)
    for m, r in zip(_finite(mid, "the weights"), _finite(rad, "the radii"), strict=True):
        a, b = _surprise_bounds(float(m), float(r))
        low, high = low + a, high + b
    return _float_below(low), -_float_below(-high)


def _surprise_bounds(m: float, r: float) -> tuple[flint.arb, flint.arb]:
    """-w ln w over [m - r, m + r] cut to [0, 1]; it rises up to 1/e and falls after."""
    lower, upper = flint.arb(m) - flint.arb(r), flint.arb(m) + flint.arb(r)
    ends = [_surprise(lower if lower > 0 else flint.arb(0)), _surprise(upper if upper < 1 else flint.arb(1))]
    low = ends[0].min(ends[1])
    inside = not (upper < 0.3678 or lower > 0.3679)
    return low, (flint.arb(-1).exp() if inside else ends[0].max(ends[1]))


def _surprise(w: flint.arb) -> flint.arb:
    return flint.arb(0) if w == 0 else -w * w.log()


def _float_below(x: flint.arb) -> float:
    below = float(x.lower())
    return float(np.nextafter(np.nextafter(below, -math.inf), -math.inf))

"""Enclosures in float64: midpoints and radii that hold in exact arithmetic, whatever rounding did on the way.

Two tiers, the second called only where the first cannot decide: a BLAS product with its a-priori bound
|fl(Kq) - Kq| <= gamma_d |K||q|, and a compensated product (Dekker's and Knuth's error-free transformations, about
32 digits). The bounds assume IEEE arithmetic (round to nearest, gradual underflow), which `check_arithmetic` tries out
before a proof, and a matrix product that adds the d products in any order, fused or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Array, Float
from regard.errors import CouldNotFindOut, InputError

U = 2.0**-53  # half the distance from 1 to the next float64
TINY = 2.0**-1018  # far more than any error that gradual underflow can make
SLACK = 1.01  # covers the rounding of the bounds themselves, for up to 10^12 terms
FEW = 1 << 9  # numbers that math.fsum adds faster than anything clever
MOST_LAYERS = 40  # of a sum, after which math.fsum takes what is left
LAYERED = 1 << 14  # numbers that are added in layers at once, so that they stay in cache
CHUNK = 1 << 17  # elements that a compensated product works on at once: 1 MB, so that it stays in cache
STRETCH = 1 << 9  # terms of a plain product that are added in one go: the bound counts the roundings of one stretch

# what `check_arithmetic` tries, in vectors that are longer than any register and do not fill the last one
_LANES = 19
_LEAST, _HALF, _NORMAL = (  # 2^-1074, 2^-1023, 2^-1022, by their bits
    np.full(_LANES, bits, dtype=np.int64).view(np.float64) for bits in (1, 1 << 51, 1 << 52)
)
_ONES, _SMALL = np.ones(_LANES), np.full(_LANES, 2.0**-7)
_SIGNED = np.resize([1.0, -1.0, 1.0], _LANES)
_ADDED = np.resize([2.0**-60, -(2.0**-60), 0.75 * 2.0**-52], _LANES)
_NEAREST = np.resize([1.0, -1.0, 1.0 + 2.0**-52], _LANES)


def check_arithmetic() -> None:
    """Raise CouldNotFindOut where this thread flushes tiny numbers to zero, or does not round to nearest.

    Libraries can switch either on for everything that runs after them, and every bound here would then be false.
    Tried in NumPy's kernels, in its BLAS and in Python's own floats, in some millionths of a second: once per proof.
    """
    least, normal = _LEAST.item(0), _NORMAL.item(0)
    with np.errstate(under="ignore"):  # bytes are compared, since comparing numbers would flush them too
        vectors = _same_bits(_LEAST * _ONES, _LEAST) and _same_bits(_NORMAL * 0.5, _HALF)
        products = _LEAST @ _ONES > 0 and _NORMAL @ _SMALL > 0
    if not (vectors and products and least * 1.0 > 0 and normal * 0.5 > 0):
        raise CouldNotFindOut(
            "Nothing can be proved here: this process takes numbers below 2.2e-308 for zero. Switch that off with "
            "torch.set_flush_denormal(False), or start Python anew without the library that switched it on."
        )
    scalars = zip(_SIGNED[:3].tolist(), _ADDED[:3].tolist(), _NEAREST[:3].tolist(), strict=True)
    if not _same_bits(_SIGNED + _ADDED, _NEAREST) or any(a + b != c for a, b, c in scalars):
        raise CouldNotFindOut(
            "Nothing can be proved here: this process does not round to the nearest number. Start Python anew "
            "without the library that changed its rounding."
        )


def _same_bits(x: Float, y: Float) -> bool:
    return x.tobytes() == y.tobytes()


def dot_enclosure(
    K: ArrayLike, q: ArrayLike, *, refine: bool = False, top: float | None = None, enough: float = 0.0
) -> tuple[Float, Float]:
    """Midpoints and radii that enclose the exact real product Kq.

    |mid - Kq| <= rad, elementwise. `refine` uses compensated sums: the radius is then near one rounding of
    the result even under heavy cancellation, at a few times the cost. For K^T w pass ``K.T``.

    K: n x d finite numbers. q: d finite numbers. top: `largest(K)`, from a caller that multiplies by K several times.
    enough: a radius that serves the caller as well as a smaller one: where `top` alone proves it, K is read only once.

    >>> mid, rad = dot_enclosure([[1e16, 1.0, -1e16]], [1.0, 1.0, 1.0], refine=True)
    >>> float(mid[0]), bool(rad[0] < 1e-14)
    (1.0, True)
    """
    K, k_top = _finite_and_largest(K, "the matrix") if top is None else (np.asarray(K, dtype=np.float64), top)
    q, q_top = _finite_and_largest(q, "the vector")
    if K.ndim != 2 or q.shape != K.shape[1:]:
        raise InputError(f"a product needs an n x d matrix and d numbers, but got {K.shape} and {q.shape}")
    (K, q), exponent = in_range(K, q, tops=(k_top, q_top))
    if not refine:
        return scale_back(*plain_product(K, q, top=None if exponent else top, enough=enough), exponent)
    hi, lo, rad = _dot_pair(K, q)
    mid = hi + lo
    return scale_back(mid, SLACK * (rad + U * np.abs(mid)) + TINY, exponent)


def dot_enclosures(K: Float, vectors: Float, *, top: float, enough: float = 0.0) -> tuple[Float, Float]:
    """`dot_enclosure` of K with every row of `vectors`, in plain products: K is read once for all of them.

    >>> K = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> dot_enclosures(K, np.array([[1.0, 1.0], [1.0, -1.0]]), top=4.0)[0].tolist()
    [[3.0, 7.0], [-1.0, -1.0]]
    """
    vectors = finite(vectors, "the vectors")
    sizes = np.abs(vectors)
    if not _is_mid_range(top, *sizes.max(axis=1, initial=0.0).tolist()):
        alone = [dot_enclosure(K, q, top=top, enough=enough) for q in vectors]
        return np.stack([mid for mid, _ in alone]), np.stack([rad for _, rad in alone])
    products, roundings = _product_in_stretches(vectors, K.T)
    bound, tiny = product_bound(roundings), (K.shape[1] + 1) * TINY
    if K.size > CHUNK:
        quick = bound * top * np.array(exact_sums(sizes)) + tiny
        if quick.max() <= enough:
            return products, np.broadcast_to(quick[:, None], products.shape)
    return products, bound * _absolute_product(K, sizes.T).T + tiny


def plain_product(
    K: Float, q: Float, *, blur: float = 0.0, top: float | None = None, enough: float = 0.0
) -> tuple[Float, Float]:
    """The BLAS product and its a-priori radius; `blur` is a relative uncertainty of q itself.

    The radius is gamma |K||q|, or gamma top sum|q| where that is `enough`.
    """
    product, roundings = _product_in_stretches(K, q)
    bound, tiny = product_bound(roundings) + SLACK * blur, (K.shape[1] + 1) * TINY
    if top is not None and K.size > CHUNK:
        rad = bound * top * exact_sum(np.abs(q)) + tiny
        if rad <= enough:
            return product, np.full(len(product), rad)
    return product, bound * _absolute_product(K, np.abs(q)) + tiny


def _product_in_stretches(K: Float, q: Float) -> tuple[Float, int]:
    """Kq, and how many roundings a term can go through: those of its own stretch, and of adding the stretches up.

    q: one vector, or several as columns.
    """
    terms = K.shape[1]
    if terms <= 2 * STRETCH:
        return K @ q, terms
    product = np.zeros((len(K), *q.shape[1:]))
    for start in range(0, terms, STRETCH):
        product += K[:, start : start + STRETCH] @ q[start : start + STRETCH]
    return product, STRETCH + -(-terms // STRETCH)


def _absolute_product(K: Float, q: Float) -> Float:
    """|K| q in blocks along the longer way of the memory: a copy of all of K would cost more than the product.

    q: one vector, or several as columns.
    """
    most = CHUNK if K.size > CHUNK else CHUNK // 4  # a copy of few rows is small, but not beside them
    if K.size <= most:
        return np.asarray(np.abs(K) @ q)
    n, d = K.shape
    if K.flags.f_contiguous and not K.flags.c_contiguous:
        parts = (np.abs(K[:, some]) @ q[some] for some in row_chunks(d, n, most))
        return np.asarray(sum(parts, np.zeros((n, *q.shape[1:]))))
    product = np.empty((n, *q.shape[1:]))
    for rows in row_chunks(n, d, most):
        product[rows] = np.abs(K[rows]) @ q
    return product


def product_bound(terms: int, *, unit: float = U) -> float:
    """A factor g with |fl(x.y) - x.y| <= g fl(|x|.|y|), for sums of that many products in any order.

    >>> product_bound(100) < 1.2e-14
    True
    """
    if terms * unit > 1e-3:
        return math.inf
    return SLACK * (terms + 4) * unit


def margins(K: ArrayLike, key: ArrayLike, q: ArrayLike) -> tuple[Float, Float]:
    """Enclosure (mid, rad) of (key - k_i).q for every row k_i, in about 32 digits of the scores.

    Unlike a difference of two enclosures of scores, it does not lose a lead that is small beside the scores.

    >>> mid, rad = margins([[1.0, 0.0]], [1.0, 2.0**-80], [1.0, 1.0])
    >>> bool(mid[0] == 2.0**-80), bool(rad[0] < 1e-30)
    (True, True)
    """
    K, key, q = finite(K, "the matrix"), finite(key, "the key"), finite(q, "the vector")
    (K, q), exponent = in_range(np.concatenate([K, key[None, :]]), q)
    hi, lo, rad = _dot_pair(K, q)
    own_hi, own_lo, own_rad = hi[-1], lo[-1], rad[-1]
    hi, lo, rad = hi[:-1], lo[:-1], rad[:-1]
    lead, lost = two_sum(own_hi, -hi)
    low = own_lo - lo
    rest = lost + low
    mid = lead + rest
    rad = SLACK * (rad + own_rad + U * (np.abs(low) + np.abs(rest) + np.abs(mid))) + TINY
    return scale_back(mid, rad, exponent)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """s = fl(a + b) and its error, exactly: s + e = a + b (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def exact_differences(rows: Float, origin: Float) -> Float | None:
    """rows - origin where every difference is a float; None otherwise, mostly after a look at a few rows.

    >>> exact_differences(np.array([[3.0], [2.5]]), np.array([2.0])).tolist()
    [[1.0], [0.5]]
    >>> exact_differences(np.array([[3.0], [1e-30]]), np.array([2.0])) is None
    True
    """
    shifted = np.empty_like(rows)
    with np.errstate(over="ignore", invalid="ignore"):  # what leaves the range is NaN in what is lost
        for some in row_chunks(len(rows), rows.shape[1]):
            shifted[some], lost = two_sum(rows[some], -origin)
            if not (lost == 0).all():
                return None
    return shifted


def two_prod(a: Any, b: Any) -> tuple[Any, Any]:
    """p = fl(ab) and its error, exactly where nothing underflows (Dekker, Veltkamp's splitting)."""
    (a1, a2), (b1, b2) = _split(a), _split(b)
    p = a * b
    return p, a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)


def _split(a: Any) -> tuple[Any, Any]:
    c = 134217729.0 * a  # 2^27 + 1
    high = c - (c - a)
    return high, a - high


def _dot_pair(X: Float, y: Float) -> tuple[Float, Float, Float]:
    """hi, lo, rad with |hi + lo - Xy| <= rad.

    Every product and every sum is split into its float and its error, so hi plus all the errors is exact; the
    errors are added in plain floating point, which costs gamma of twice the terms times their absolute sum.
    """
    n, terms = X.shape
    out = np.zeros((3, n))
    for rows in row_chunks(n, terms):
        out[:, rows] = _dot_pair_chunk(np.asarray(X[rows]), y)
    hi, lo, spread = out
    return hi, lo, product_bound(2 * terms) * spread + (terms + 1) * TINY


def _dot_pair_chunk(X: Float, y: Float) -> tuple[Float, Float, Float]:
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


def exact_sum(x: Float) -> float:
    """The float nearest to the exact sum, as `math.fsum` gives it, many times faster for many numbers.

    >>> exact_sum(np.array([1e16, 1.0, -1e16]))
    1.0
    """
    return exact_sums(np.asarray(x, dtype=np.float64)[None])[0]


def exact_sums(rows: Float) -> list[float]:
    """`exact_sum` of every row, all at once.

    Layer by layer, from the leading bits down: of all numbers only as many bits are taken as their sum has room for, so
    that adding them is exact in any order; what is left of each is exact too (Rump, Ogita and Oishi).
    """
    count, n = rows.shape
    if n <= FEW:
        return [math.fsum(row) for row in rows.tolist()]
    layers: list[Float] = []
    rests: list[Float] = []
    unknown = np.zeros(count)
    for some in row_chunks(n, count, LAYERED):
        first, rest, bound = _first_layers(rows[:, some])
        layers += first
        rests.append(rest)
        unknown += bound
    sums = []
    for place, (row, missing) in enumerate(zip(np.stack(layers, axis=1).tolist(), unknown.tolist(), strict=True)):
        # rounding keeps the order: where both ends of what is unknown round to one float, so does the exact sum
        low, high = math.fsum([*row, -SLACK * missing]), math.fsum([*row, SLACK * missing])
        sums.append(low if low == high else math.fsum([*row, *(x for rest in rests for x in _layers(rest[place]))]))
    return sums


def _first_layers(rows: Float) -> tuple[list[Float], Float, Float]:
    """Two layers, what they leave of each number, and a bound on the sum of that: nearly always they are enough."""
    tops, n = np.abs(rows).max(axis=1), rows.shape[1]
    room = (n + 2).bit_length()
    if not (tops < 2.0**900).all():
        return [np.zeros(len(rows))], rows, np.full(len(rows), math.inf)
    above = np.ldexp(1.0, np.frexp(tops)[1] + room)  # as in `_layers`
    layers = []
    for _ in range(2):
        leading = rows + above[:, None]
        leading -= above[:, None]
        layers.append(leading.sum(axis=1))
        rows = rows - leading  # each at most 2^-53 of `above`: the next layer need not look how large they are
        above = np.ldexp(above, room - 53)
    return layers, rows, n * np.ldexp(above, -room)


def _layers(left: Float) -> list[float]:
    """A few numbers with the same exact sum as these."""
    layers = []
    for _ in range(MOST_LAYERS):
        top = largest(left)
        if len(left) <= FEW or not top < 2.0**900:
            break
        # a power of two above (n + 2) |x_i|: rounding to its last bit, by adding and taking it away, loses nothing
        above = math.ldexp(1.0, math.frexp(top)[1] + (len(left) + 2).bit_length())
        leading = left + above
        leading -= above
        layers.append(float(leading.sum()))
        left = left - leading
        left = left[left != 0]
    return [*layers, *left.tolist()]


def next_up(x: Float) -> Float:
    """np.nextafter(x, inf), several times faster for many numbers; infinity may become NaN.

    Floats of one sign are ordered like their bits, taken as whole numbers: the next of a positive one has one more.

    >>> next_up(np.array([1.0, -1.0, -0.0])).tolist()
    [1.0000000000000002, -0.9999999999999999, 5e-324]
    """
    if x.size <= FEW:
        return np.asarray(np.nextafter(x, math.inf))
    bits = (x + 0.0).view(np.int64)  # -0.0 becomes 0.0
    bits += np.where(x < 0, -1, 1)
    return np.asarray(bits.view(np.float64))


def row_blocks(rows: Array, chosen: NDArray[np.integer[Any]]) -> Iterator[tuple[slice, Array]]:
    """The chosen rows, some at a time, each with its place among them; a view of the rows where they lie together."""
    for some in row_chunks(len(chosen), rows.shape[1]):
        first, last = int(chosen[some.start]), int(chosen[some.stop - 1])
        together = last - first == some.stop - some.start - 1 and bool((np.diff(chosen[some]) == 1).all())
        yield some, rows[first : last + 1] if together else rows[chosen[some]]


def row_chunks(n: int, terms: int, size: int | None = None) -> Iterator[slice]:
    step = max(1, (size or CHUNK) // max(terms, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def largest(x: Float) -> float:
    """The largest absolute value, 0 of nothing, NaN where one is in it; in blocks, so that nothing is copied.

    >>> largest(np.array([[1.0, -3.0]])), largest(np.array([1.0, np.nan]))
    (3.0, nan)
    """
    if x.size <= FEW:
        return float(np.abs(x).max(initial=0.0))
    across = x.T if x.flags.f_contiguous else x
    top = 0.0
    for some in row_chunks(len(across), across[:1].size):
        ends = float(across[some].max()), -float(across[some].min())
        if math.isnan(ends[0]):
            return math.nan
        top = max(top, *ends)
    return top


def finite(x: ArrayLike, what: str) -> Float:
    return _finite_and_largest(x, what)[0]


def _finite_and_largest(x: ArrayLike, what: str) -> tuple[Float, float]:
    """Finite numbers, and the largest absolute value."""
    array = np.asarray(x, dtype=np.float64)
    top = largest(array)
    if not math.isfinite(top):
        raise InputError(f"{what} must hold finite numbers, but has NaN or infinity: remove those entries")
    return array, top


def in_range(K: Float, q: Float, *, tops: tuple[float, float] | None = None) -> tuple[tuple[Float, Float], int]:
    """K and q as they are, or both divided by powers of two to a largest entry near 1, and the exponent.

    In the middle of the range nothing can overflow and underflow costs less than TINY. Outside, what the
    division itself makes underflow is below 2^-1022 of the largest entry, and TINY pays for that too.
    """
    tops = (largest(K), largest(q)) if tops is None else tops
    if _is_mid_range(*tops):
        return (K, q), 0
    k_exp, q_exp = (int(np.frexp(top)[1]) for top in tops)
    with np.errstate(under="ignore"):
        return (np.ldexp(K, -k_exp), np.ldexp(q, -q_exp)), k_exp + q_exp


def _is_mid_range(*tops: float) -> bool:
    return all(top == 0 or 2.0**-300 < top < 2.0**300 for top in tops)


def scale_back(mid: Float, rad: Float, exponent: int) -> tuple[Float, Float]:
    if not exponent:
        return mid, rad
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mid, rad = np.ldexp(mid, exponent), np.ldexp(rad, exponent) * SLACK + TINY
    fits = np.isfinite(mid)
    return np.where(fits, mid, 0.0), np.where(fits, rad, math.inf)

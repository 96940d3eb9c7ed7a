"""The four quantities that certificates are made of, each bounded from the safe side.

`sum_exp`, `entropy`, `norm_above` and `slack_above` take stored float64 numbers and return a number (or a ball) that is
proved to be on the stated side of the exact value. With ``strict`` sums of exponentials and logarithms run in
arbitrary-precision balls (python-flint's Arb): nothing is assumed but IEEE arithmetic. Without it they run in NumPy,
which is a hundred times faster for long vectors and assumes that its exp and log are within 8 units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import flint
import numpy as np
from numpy.typing import NDArray

from regard.array_types import Float
from regard.rigor import (
    SLACK,
    TINY,
    U,
    dot_enclosure,
    dot_enclosures,
    exact_sum,
    exact_sums,
    largest,
    next_up,
    row_chunks,
)
from regard.rigor.balls import above as above
from regard.rigor.balls import below as below

Rows = NDArray[np.intp]

COLUMNS = 1 << 20  # numbers copied at once where columns are added with care: 8 MB
WIDE = 1e-11  # share of rounding in a length: beyond it the narrower radii are worth reading the keys once more
LIBRARY_ULPS = 8  # what the quick tier grants NumPy's exp and log


def sum_exp(mid: Float, rad: Float, *, strict: bool) -> flint.arb:
    """A number at or above sum_i exp(x_i) for all x_i in [mid_i - rad_i, mid_i + rad_i].

    >>> 2.0 <= above(sum_exp(np.zeros(2), np.zeros(2), strict=True)) < 2.0 + 1e-14
    True
    """
    highest = next_up(mid + rad)
    if np.isnan(highest).any():
        return flint.arb(math.inf)  # the enclosure overflowed: nothing is known
    if strict:
        return sum((flint.arb(float(x)).exp() for x in highest), flint.arb(0))
    return flint.arb(_sums_of_exp(highest[None])[0])


def _sums_of_exp(highest: Float) -> list[float]:
    """Numbers at or above the sums of exp of each row, from NumPy's exp; infinite where they could overflow."""
    over = ~(highest.max(axis=1, initial=-math.inf) <= 600)
    sums = exact_sums(np.exp(np.where(over[:, None], 0.0, highest) if over.any() else highest))
    most, count = 1 + 2 * (LIBRARY_ULPS + 2) * U, highest.shape[1]
    return [math.inf if no else one * most + count * 1e-300 for one, no in zip(sums, over.tolist(), strict=True)]


def entropy(weights: Float, *, strict: bool) -> flint.arb:
    """A number at or below the entropy of weights / sum(weights): ln W - (sum w ln w) / W with W = sum w.

    >>> 1.0986122886 < below(entropy(np.ones(3), strict=False)) <= math.log(3)
    True
    """
    positive = weights[weights > 0]
    if not len(positive):
        return flint.arb(-math.inf)  # nothing competes
    return entropy_ball(positive) if strict else entropy_floats(positive).lower()


def entropy_floats(positive: Float) -> flint.arb:
    """The entropy of positive weights / their sum, enclosed, from NumPy's logarithms."""
    return _entropies(positive[None], [exact_sum(positive)])[0]


def _entropies(weights: Float, totals: list[float]) -> list[flint.arb]:
    """The entropy of each row of non-negative weights / its total, enclosed; what is 0 adds nothing."""
    whole, n = np.array(totals), weights.shape[1]
    logs = np.log(np.maximum(weights / whole[:, None], 1e-300))  # what is less than that counts for less than 1e-297
    sums = exact_sums(weights * logs)
    sizes = (weights * (np.abs(logs) + 1)).sum(axis=1) / whole * (1 + n * 2 * U)  # of positive numbers
    errors = 2 * (LIBRARY_ULPS + 6) * U * sizes + n * 1e-297
    return [flint.arb(-x / w, r) for x, w, r in zip(sums, totals, errors.tolist(), strict=True)]


def entropy_ball(weights: Iterable[float | flint.fmpq]) -> flint.arb:
    """The entropy of non-negative weights / their sum, enclosed; some are positive."""
    balls = [flint.arb(weight) for weight in weights if weight > 0]
    total = sum(balls, flint.arb(0))
    return total.log() - sum((ball * ball.log() for ball in balls), flint.arb(0)) / total


def mean_above(shares: Float, mid: Float, rad: Float) -> flint.arb:
    """A number at or above sum_i p_i x_i / sum_i p_i for positive p and all x_i in [mid_i - rad_i, mid_i + rad_i]."""
    products, errors = shares * mid, shares * rad
    if not math.isfinite(largest(products) + largest(errors)):
        return flint.arb(math.inf)  # the enclosure overflowed: nothing is known
    middle, whole = exact_sum(products), exact_sum(shares)
    rounding = exact_sum(errors) * (1 + 4 * U) + 2 * U * exact_sum(np.abs(products)) + len(shares) * 1e-300
    return ((flint.arb(middle, 2 * U * abs(middle)) + flint.arb(rounding)) / flint.arb(whole, U * whole)).upper()


def norm_above(vector: Float) -> float:
    """An upper bound of the Euclidean length; exact sums, so only a few roundings to allow for."""
    return norms_above(vector[None])[0]


def norms_above(rows: Float) -> list[float]:
    """`norm_above` of every row."""
    tops = np.abs(rows).max(axis=1, initial=0.0)
    units = np.ldexp(1.0, np.frexp(tops)[1] - 1)  # powers of two, so that scaling is exact and nothing overflows
    sums = exact_sums((rows / units[:, None]) ** 2)
    return [
        unit * math.sqrt(one) * (1 + 8 * U) + 1e-323 if top else 0.0
        for unit, one, top in zip(units.tolist(), sums, tops.tolist(), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class CopyFigures:
    """What the check of one copying query needs, from the safe side; `slack` is None where it takes more care."""

    norm: float
    total: flint.arb  # sum_i exp(s_i - s_j), from above
    entropy: flint.arb  # of the weights, from below
    slack: float | None  # || keys^T w / W - k_j ||, from above
    scores: Float  # k.q of all keys
    blur: float  # as of a `Level`


def copy_figures(
    keys: Float, chosen: Rows, queries: Float, weights: Float, *, scale: float, top: float, enough: float
) -> list[CopyFigures] | None:
    """The four quantities for several keys to copy, in plain products: the keys are read once for all of them.

    queries: one row for every chosen key. weights: so too, over all keys, 0 for the chosen one. top: the largest
    absolute value among the keys. enough: as in `dot_enclosure`. None where something leaves the range of floats.
    """
    totals = exact_sums(weights)
    if not all(1e-100 < total < 1e100 for total in totals):
        return None
    places = np.arange(len(chosen))
    scores, errors = dot_enclosures(keys, queries, top=top, enough=enough)
    if not (np.isfinite(scores).all() and np.isfinite(errors).all()):
        return None
    lead = scores[places, chosen][:, None] - scores
    rad = (errors + errors[places, chosen][:, None]) * (1 + 4 * U) + 2 * U * np.abs(lead)
    if scale != 1:
        lead = scale * lead
        rad = (scale * rad + 2 * U * np.abs(lead)) * (1 + 4 * U) + TINY
    rad[places, chosen] = 0.0
    blurs = 2 * rad.max(axis=1)
    rad -= lead
    rad[places, chosen] = -math.inf  # a key does not compete with itself
    sums = _sums_of_exp(next_up(rad))
    slacks = _plain_slacks(keys, weights, np.array(totals), keys[chosen], top)
    rows = zip(norms_above(queries), sums, _entropies(weights, totals), slacks, scores, blurs.tolist(), strict=True)
    return [CopyFigures(n, flint.arb(x), h.lower(), s, k, b) for n, x, h, s, k, b in rows]


def _plain_slacks(keys: Float, weights: Float, totals: Float, anchors: Float, top: float) -> list[float | None]:
    """|| keys^T w / W - a || from above for rows of weights w and anchors a; None where rounding is too much of it."""
    added, errors = dot_enclosures(keys.T, weights, top=top, enough=math.inf)
    less = totals[:, None] * anchors
    mid = np.abs(added - less)
    rad = (errors + U * (3 * np.abs(less) + mid)) * (1 + 8 * U)
    sharp = rad.sum(axis=1) <= WIDE * mid.sum(axis=1)
    lengths = zip(norms_above(mid + rad), totals.tolist(), sharp.tolist(), strict=True)
    return [_stretch(length, total, top, keys.shape[1]) if good else None for length, total, good in lengths]


def slack_above(
    keys: Float,
    weights: Float,
    anchors: Float,
    mixture: Float,
    *,
    refine: bool,
    top: float | None = None,
    places: Rows | None = None,
) -> float:
    """An upper bound of || sum_i w_i k_i / W - sum_m mu_m a_m / M ||, with W = sum w and M = sum mu.

    mu is first brought to the total W: by a factor, and the rest (a rounding error) put on its largest entry, which
    changes the mixture within its own simplex; so the bound is that of a mixture, not necessarily the stored one.
    top: the largest absolute value among the keys, from a caller that has it. places: where the anchors stand among the
    keys, if they do: near weights and mixture then need one plain product, with their difference.
    """
    total = exact_sum(weights)
    if total == 0:
        return 0.0  # nothing competes
    top = largest(keys) if top is None else top
    if len(anchors) == 1 and not refine:  # it is the mixture, whatever the number
        return _plain_length_above(keys, weights, total, top=top, less=total * anchors[0])
    scaled = mixture * (total / exact_sum(mixture))
    rest = exact_sum(np.concatenate([weights, -scaled]))  # correctly rounded, so total = sum(scaled) + rest to 2^-106
    heaviest = int(np.argmax(scaled))
    if not scaled[heaviest] + rest > 0:
        return math.inf
    if places is not None and not refine and len(places) == len(set(places.tolist())):
        difference = weights.copy()
        difference[places] -= scaled
        own = int(places[heaviest])
        difference[own] = math.fsum([weights[own], -scaled[heaviest], -rest])
        if float(np.abs(difference).sum()) <= total:  # else two products round less
            off = 2 * U * float(np.abs(difference[places]).sum())  # rounded once each, and elsewhere not at all
            return _plain_length_above(keys, difference, total, top=top, off=off)
    parts = [(keys, weights), (anchors, -scaled), (anchors[heaviest : heaviest + 1], np.array([-rest]))]
    return _length_above(parts, total, refine=refine, top=top)


def slack_to_target_above(
    keys: Float, weights: Float, target: Float, *, refine: bool, top: float | None = None
) -> float:
    """An upper bound of || sum_i (w_i / W - p_i / P) k_i || for a prescribed distribution p; top: as in slack_above."""
    total, whole = exact_sum(weights), exact_sum(target)
    # W / P = 1 + (W - P) / P, to a few roundings of the small second part
    excess = exact_sum(np.concatenate([weights, -target])) / whole
    top = largest(keys) if top is None else top
    size = top * math.sqrt(keys.shape[1]) * max(1.0, whole / total)
    if refine:
        parts = [(keys, weights), (keys, -target), (keys, -excess * target)]
        return _length_above(parts, total, refine=True, top=top) + 8 * U * (U + abs(excess)) * size
    difference = weights - target
    difference -= excess * target
    # three roundings: U |w - p|, where |w - p| <= |difference| + |excess| p, then U |excess| p and U |difference|
    off = 4 * U * float(np.abs(difference).sum())
    return _plain_length_above(keys, difference, total, top=top, off=off) + 12 * U * (U + abs(excess)) * size


def _plain_length_above(
    keys: Float,
    coefficients: Float,
    total: float,
    *,
    top: float,
    less: Float | float = 0.0,
    off: float = 0.0,
) -> float:
    """An upper bound of || keys^T coefficients - less || / total in plain products.

    less: d numbers, each off by two roundings at most. off: what the coefficients are off by, added up. Where two sides
    are near each other, their difference has less to round than either.
    """
    for enough in (math.inf, 0.0):
        part, error = dot_enclosure(keys.T, coefficients, top=top, enough=enough)
        mid = part - less
        rad = (error + SLACK * off * top + U * (3 * np.abs(less) + np.abs(mid))) * (1 + 8 * U)
        if rad.sum() <= WIDE * np.abs(mid).sum():
            break
    return _length(mid, rad, total, top)


def compensated_sums(parts: list[tuple[Float, Float]]) -> tuple[Float, Float]:
    """sum over the parts of rows^T coefficients, enclosed in compensated sums; a few columns are copied at a time."""
    coefficients = np.concatenate([coefficients for _, coefficients in parts])
    sums = [(np.zeros(0), np.zeros(0))]  # there may be no columns at all
    for some in row_chunks(parts[0][0].shape[1], len(coefficients), COLUMNS):
        columns = np.concatenate([rows[:, some] for rows, _ in parts]).T
        sums.append(dot_enclosure(np.ascontiguousarray(columns), coefficients, refine=True))
    return np.concatenate([mid for mid, _ in sums]), np.concatenate([rad for _, rad in sums])


def _plain_sums(parts: list[tuple[Float, Float]], tops: dict[int, float], *, enough: float) -> tuple[Float, Float]:
    """sum over the parts of rows^T coefficients, enclosed in plain sums; tops: of each part's rows, by identity."""
    mid, rad = np.zeros(parts[0][0].shape[1]), np.zeros(parts[0][0].shape[1])
    for rows, coefficients in parts:
        part, error = dot_enclosure(rows.T, coefficients, top=tops[id(rows)], enough=enough)
        mid = mid + part
        rad = (rad + error) * (1 + 2 * U) + U * np.abs(mid) * (1 + 2 * U)
    return mid, rad


def _length_above(parts: list[tuple[Float, Float]], total: float, *, refine: bool, top: float | None = None) -> float:
    """An upper bound of || sum over the parts of rows^T coefficients || / total; top: of the first part, if known."""
    tops = {} if top is None else {id(parts[0][0]): top}
    for rows, _ in parts:
        if id(rows) not in tops:  # each is read once
            tops[id(rows)] = largest(rows)
    if refine:  # in one compensated sum, where cancellation between the parts costs nothing
        mid, rad = compensated_sums(parts)
    else:
        mid, rad = _plain_sums(parts, tops, enough=math.inf)
        if norm_above(rad) > WIDE * norm_above(mid):
            mid, rad = _plain_sums(parts, tops, enough=0.0)
    return _length(mid, rad, total, max(tops.values()))


def _length(mid: Float, rad: Float, total: float, size: float) -> float:
    """An upper bound of ||x|| / total for all x within rad of mid; size: of the rows; 2^-106 of them may be missing."""
    return _stretch(norm_above(np.abs(mid) + rad), total, size, len(mid))


def _stretch(length: float, total: float, size: float, dimensions: int) -> float:
    return (length + 4 * U * U * size * math.sqrt(dimensions) * total) / total * (1 + 8 * U)

"""The law of one weight: how likely it takes more than a share, its density, its quantiles.

One head: through the transform of its logit, or of its odds where scores are nearly fixed, each to 1e-6 and better with
an error estimate; otherwise the widest score is integrated out in closed form and the rest by Sobol points with a
95 % interval. Two heads with independent noise: a further integral over the two laws. Anything else: Sobol points.
Finitely many outcomes: counted.

Why a score is integrated out: given all others, alpha_i > t is a half-line for any single one, the pivot. Its Gaussian
probability is a smooth function of the others, which scrambled Sobol points average well; keys may be correlated.
Several heads that share noise have no such pivot: there the points are counted. Both give a 95 % interval from the
scatter of the scrambles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import expit, ndtr, ndtri

from regard.array_types import Real
from regard.attention import log_sum_exp, softmax
from regard.errors import CouldNotFindOut, InputError
from regard.noise.integrals import trapezoid
from regard.noise.law_transform import TransformLaw, TwoHeadsLaw, transform_law
from regard.noise.scores import (
    MOST_OUTCOMES,
    ROUNDING,
    KeyLaw,
    Sampler,
    Scores,
    Value,
    WeightLaw,
    check_points,
    half_interval,
    make_generator,
    merge_equal_laws,
    outcomes,
    sobol_points,
)

MOST_HELD = 2**24  # weights held at once: 128 MB


@dataclass(frozen=True, eq=False)
class PivotLaw(WeightLaw):
    """One head, the widest score integrated out: a smooth function of the other scores, averaged over Sobol points.

    ``rest`` is scrambles x points x (n - 1), the scores but the pivot's; ``centre`` the pivot's mean given them.
    """

    rest: Real
    centre: Real  # scrambles x points x components of the pivot
    chances: Real
    sd: float
    own: int  # the key's column in rest, or -1 where the key is the pivot

    @property
    def method(self) -> str:  # type: ignore[override]
        """Closed form where nothing is left to average."""
        return "closed form" if self.rest.shape[1] == 1 else "qmc, one score integrated out"

    def above(self, share: float) -> Value:
        """E Phi of where the pivot must lie."""
        limit, sign = self._limit(share)
        return self._average(ndtr(sign * (limit[..., None] - self.centre) / self.sd))

    def density(self, share: float) -> Value:
        """The derivative of the above in the share."""
        limit, _ = self._limit(share)
        z = (limit[..., None] - self.centre) / self.sd
        with np.errstate(invalid="ignore", over="ignore"):
            rate = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) / self.sd * self._slope(share, limit)[..., None]
        return self._average(np.where(np.isfinite(rate), rate, 0.0))

    def _limit(self, share: float) -> tuple[Real, int]:
        """alpha > share says pivot > limit (sign -1, the key is the pivot) or pivot < limit (sign +1)."""
        odds = np.log1p(-share) - np.log(share)
        if self.own < 0:
            return log_sum_exp(self.rest) - odds, -1
        mine = self.rest[..., self.own]
        if self.rest.shape[-1] == 1:
            return mine + odds, 1
        # e^pivot < e^{mine + odds} - (the others' sum): where they alone take too much, no room, and the limit is -inf
        gap = log_sum_exp(np.delete(self.rest, self.own, axis=-1)) - mine - odds
        room = np.where(gap < 0, -np.expm1(np.minimum(gap, 0.0)), 0.0)
        with np.errstate(divide="ignore"):
            return mine + odds + np.log(room), 1

    def _slope(self, share: float, limit: Real) -> Real:
        """|d limit / d share|: the logit's slope, divided by the room left where the pivot is another key."""
        slope = 1 / (share * (1 - share))
        if self.own < 0:
            return np.full(limit.shape, slope)
        odds = np.log1p(-share) - np.log(share)
        with np.errstate(over="ignore"):
            out: Real = slope * np.exp(self.rest[..., self.own] + odds - limit)
        return out

    def _average(self, values: Real) -> Value:
        each = (values @ self.chances).mean(axis=1)
        if len(each) == 1:
            return Value(float(each[0]), ROUNDING * (1 + abs(float(each[0]))))
        return interval(each, values.shape[0] * values.shape[1])


def interval(each: Real, points: int) -> Value:
    """The mean of the scrambles with half a 95 % interval.

    What fewer than three of all the points would show cannot be excluded, so near 0 and near 1 it is at least 3/points.
    """
    mean, half = float(each.mean()), float(half_interval(each))
    rare = mean < 3 / points or abs(1 - mean) < 3 / points
    return Value(mean, max(half, 3 / points if rare else 0.0) + ROUNDING)


def pivot_law(
    scores: Scores, key: int, log2: int, scrambles: int, seed: int | np.random.Generator
) -> PivotLaw | SampledLaw:
    """Integrate out one score in closed form; Sobol points for the rest."""
    n, generator = scores.keys, make_generator(seed)
    if n == 1:
        raise InputError("The weight of a single key is always 1: add a second key.")
    laws = [scores.laws[k] for k in scores.which]
    joint = np.diag([law.sd(0) ** 2 for law in laws]) if scores.joint is None else scores.joint
    pivot = _choose_pivot(joint, key)
    others = [k for k in range(n) if k != pivot]
    A = joint[np.ix_(others, others)]
    # the pivot given the others: its mean moves by the regression, and the variance ``left`` remains
    regression = np.linalg.pinv(A, hermitian=True, rcond=1e-12) @ joint[others, pivot]
    left = float(joint[pivot, pivot] - joint[pivot, others] @ regression)
    # the others determine the pivot: nothing to integrate out
    if left <= 1e-10 * max(float(joint[pivot, pivot]), 1e-300):
        return next(sampled_laws(scores, [key], log2, scrambles, generator))
    alone = merge_equal_laws([laws[k] for k in others], None if scores.joint is None else A)
    rest, noise = _draw_rest(alone, log2, scrambles, generator)
    centre = (noise @ regression)[..., None] + laws[pivot].means[:, 0]
    own = -1 if key == pivot else others.index(key)
    return PivotLaw(rest, centre, laws[pivot].chances, float(np.sqrt(left)), own)


def _choose_pivot(joint: Real, key: int) -> int:
    """The key itself, which always matters, if its score varies given the others; else the score that varies most.

    The variance of a score given all others is 1 / (inverse covariance)_ii, ridged where singular.
    """
    ridge = 1e-12 * max(float(joint.diagonal().max()), 1e-300)
    precision = np.linalg.inv(joint + ridge * np.eye(len(joint))).diagonal()
    # 16: the key's own score still varies by 1/4 or more once the others are known
    return key if precision[key] < 16 else int(np.argmin(precision))


def _draw_rest(scores: Scores, log2: int, scrambles: int, generator: np.random.Generator) -> tuple[Real, Real]:
    """Scores, scrambles x points x keys, and the Gaussian part of them alone."""
    sampler = Sampler(scores)
    normals, uniforms = sampler.dimensions
    # the Gaussian noise alone, without means and magnitudes: the regression acts on that
    still = Scores(
        tuple(KeyLaw(np.ones(1), 0 * v.means[:1], v.covariance) for v in scores.laws), scores.which, scores.joint
    )
    quiet = scores.joint is None and not any(v.covariance.any() for v in scores.laws)
    # nothing random is left beside the pivot: one point, and the law is a closed form
    if quiet and not uniforms:
        s = sampler(np.zeros((1, normals)), np.zeros((1, 0)))[:, 0]
        return s[None], np.zeros_like(s)[None]
    both = []
    for _ in range(scrambles):
        points = sobol_points(normals + uniforms, log2, generator)
        x = ndtri(points[:, :normals])
        both.append((sampler(x, points[:, normals:])[:, 0], Sampler(still)(x, np.zeros((len(x), 0)))[:, 0]))
    return np.stack([s for s, _ in both]), np.stack([e for _, e in both])


@dataclass(frozen=True, eq=False)
class SampledLaw(WeightLaw):
    """The averaged weight at several scrambles of Sobol points; the scatter of the scrambles gives the interval."""

    weights: Real  # scrambles x points
    method: str = "qmc"

    def above(self, share: float) -> Value:
        """The fraction of points above a share."""
        each = (self.weights > share).mean(axis=1)
        return interval(each, self.weights.size)

    def density(self, share: float) -> Value:
        """The fraction of points within 0.01 of the share, divided by the length: a density averaged over that."""
        low, high = max(share - 0.01, 0.0), min(share + 0.01, 1.0)
        each = ((self.weights > low) & (self.weights <= high)).mean(axis=1) / (high - low)
        return interval(each, self.weights.size)


def sampled_laws(
    scores: Scores, keys: Sequence[int], log2: int, scrambles: int, seed: int | np.random.Generator
) -> Iterator[SampledLaw]:
    """The laws of some keys' averaged weights from the same scrambled Sobol points: any heads, any correlation."""
    size = max(1, MOST_HELD // (scrambles << log2))
    for start in range(0, len(keys), size):
        some = list(keys[start : start + size])
        generator, sampler = make_generator(seed), Sampler(scores)
        rows = [softmax(sampler.sobol(log2, generator))[:, :, some].mean(axis=1).T for _ in range(scrambles)]
        yield from map(SampledLaw, np.stack(rows, axis=1))


WIDEST = 0.8  # standard deviation of a score; beyond it a lognormal's long tail asks for too many frequencies


def weight_law(
    scores: Scores, key: int, *, points: int = 2**13, scrambles: int = 16, seed: int | np.random.Generator = 0
) -> WeightLaw:
    """The law of a key's weight, averaged over the heads, by the most accurate method that applies.

    Two equally distributed scores put the median at 1/2:

    >>> from regard.noise import NoiseModel, score_laws
    >>> law = weight_law(score_laws(NoiseModel(means=np.eye(2), isotropic=0.5), [3.0, 3.0]), 0)
    >>> law.method, round(law.above(0.5).value, 9)
    ('transform', 0.5)
    """
    return next(weight_laws(scores, (key,), points=points, scrambles=scrambles, seed=seed))


def weight_laws(
    scores: Scores,
    keys: Sequence[int],
    *,
    points: int = 2**13,
    scrambles: int = 16,
    seed: int | np.random.Generator = 0,
) -> Iterator[WeightLaw]:
    """`weight_law` of several keys, one after the other; what goes by Sobol points has the same ones for all."""
    for key in keys:
        if not 0 <= key < scores.keys:
            raise InputError(f"key must be from 0 to {scores.keys - 1}, not {key}.")
    if scores.outcomes is not None and scores.outcomes <= MOST_OUTCOMES:
        yield from (counted_law(scores, key) for key in keys)
        return
    log2 = check_points(points, scrambles)
    left = list(keys)
    if scores.heads == 1:
        yield from (_one_head(scores, key, log2, scrambles, seed) for key in keys)
        return
    if scores.heads == 2 and scores.heads_independent(0, 1):
        for key in keys:
            parts = [_one_head(scores.head(h), key, log2, scrambles, seed) for h in (0, 1)]
            if not all(isinstance(part, TransformLaw) for part in parts):
                break
            yield TwoHeadsLaw(*parts)  # type: ignore[arg-type]
            left.remove(key)
    yield from sampled_laws(scores, left, log2, scrambles, seed)


def _one_head(scores: Scores, key: int, log2: int, scrambles: int, seed: int | np.random.Generator) -> WeightLaw:
    # with a single random score the pivot's closed form is exact, so both transforms leave it alone
    if scores.joint is None and scores.keys > 1:
        laws = [scores.laws[k] for k in scores.which]
        own, others = laws[key], merge_equal_laws(laws[:key] + laws[key + 1 :])
        random = sum(bool(law.covariance.any()) or len(law.chances) > 1 for law in laws)
        try:
            # the transform is weak where the key's own score is nearly fixed; there the odds themselves are transformed
            if random > 1 and max(law.sd(0) for law in laws) <= WIDEST and own.sd(0) < 0.1:
                law = NarrowLaw(own, others)
                law.above(0.5)  # where it is too rough it says so now, and the next method has its turn
                return law
            if random > 1:
                return transform_law(own, others)
        except CouldNotFindOut:
            pass
    return pivot_law(scores, key, log2, scrambles, seed)


@dataclass(frozen=True, eq=False)
class CountedLaw(WeightLaw):
    """Finitely many outcomes of a weight, with their probabilities."""

    weights: Real  # one per outcome
    chances: Real  # one per outcome
    method: str = "enumeration"

    def above(self, share: float) -> Value:
        """The probability of the outcomes above a share."""
        return Value(float(self.chances[self.weights > share].sum()), ROUNDING)

    def density(self, share: float) -> Value:
        """A finite law has no density."""
        raise InputError("This weight takes finitely many values and has no density: ask for shares or quantiles.")


def counted_law(scores: Scores, key: int) -> CountedLaw:
    """The law of a weight by every outcome there is."""
    parts = [(weights[:, :, key].mean(axis=1), chances) for weights, chances in outcomes(scores)]
    w, p = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return CountedLaw(w, p)


def quantile(law: WeightLaw, level: float) -> Value:
    """The weight below which the law has the probability ``level``; accuracy from the probability's own.

    >>> quantile(CountedLaw(np.array([0.25, 0.75]), np.array([0.5, 0.5])), 0.9).value
    0.75
    """
    if not 0 < level < 1:
        raise InputError(f"quantile levels must lie between 0 and 1, not {level:g}.")
    if isinstance(law, CountedLaw):
        order = np.argsort(law.weights)
        # chances are added up in float64: a level that is met exactly counts as met
        reached = int(np.searchsorted(np.cumsum(law.chances[order]), level - 1e-12))
        return Value(float(law.weights[order][min(reached, len(order) - 1)]), ROUNDING)
    return _solve(law, level)


def _solve(law: WeightLaw, level: float) -> Value:
    """The root of P(weight > w) = 1 - level in the logit of w, which keeps weights near 0 and 1 accurate.

    The root is as uncertain as far one must go from it until the probability has moved by its own uncertainty.
    """

    def excess(x: float) -> float:
        return law.above(float(expit(x))).value - (1 - level)

    low, high = -700.0, 36.0  # logits of the shares 1e-304 and 1 - 2e-16: the ends of what float64 tells apart
    if excess(low) <= 0 or excess(high) >= 0:
        end = float(excess(low) > 0)
        return Value(end, 1e-12)  # all of the law is at that end
    root = float(scipy.optimize.brentq(excess, low, high, xtol=1e-10, rtol=1e-12))
    error, reach = law.above(float(expit(root))).accuracy, 1e-10
    while reach < 700 and min(excess(root - reach), -excess(root + reach)) < error:
        reach *= 10
    return Value(float(expit(root)), float(expit(root + reach) - expit(root - reach)) / 2 + 1e-12)


# Where every score is nearly fixed -----------------------------------------------------------------------------------
#
# alpha_i > t says X = sum_{l != i} e^{s_l} - r e^{s_i} < 0 with r = (1-t)/t, and where no score has a standard
# deviation above 0.8 the sum X has a characteristic function that decays soon: a product of lognormal ones, inverted by
# Gil-Pelaez, P(X < 0) = 1/2 - (1/pi) int_0^inf Im E e^{iwX} / w dw.


@dataclass(frozen=True, eq=False)
class NarrowLaw(WeightLaw):
    """The weight of a key with law ``own`` among independent ``others``, at two accuracies."""

    own: KeyLaw
    others: Scores
    method: str = "characteristic function"

    def above(self, share: float) -> Value:
        """P(weight > share); the accuracy is how far the coarse computation is off."""
        certain = self._out_of_reach(share)
        if certain is not None:
            return certain
        fine, coarse = (self._invert(share, tolerance, 0) for tolerance in (1e-13, 1e-9))
        return Value(float(np.clip(0.5 - fine, 0, 1)), abs(fine - coarse) + ROUNDING)

    def density(self, share: float) -> Value:
        """The density at a share: that of sum e^{s_l} / e^{s_i} at r, times |dr/dshare| = 1/share^2."""
        slope = 1 / (share * (1 - share))
        fine, coarse = (slope * self._invert(share, tolerance, 1) for tolerance in (1e-13, 1e-9))
        return Value(max(fine, 0.0), abs(fine - coarse) + ROUNDING * (slope + fine))

    def _invert(self, share: float, tolerance: float, order: int) -> float:
        """(1/pi) int Im E e^{iwX} / w dw for order 0, (1/pi) int Re E O e^{iwX} dw with O = r e^{s_i} for order 1."""
        cut, own, others = float(-ndtri(tolerance)), *self._rescale_scores(share)
        gap = 2 * np.pi / _period(own, others, cut)
        total = 0.0
        for start in range(0, 2**18, 256):  # in blocks, until nothing is left of the transform
            # half-way points: the integrand has a limit at 0, but no value
            w = gap * (np.arange(start, start + 256) + 0.5)
            # X holds the key's own term with a minus: the conjugate
            hat = np.conj(lognormal_transform(own, w, cut, order))
            for law, count in zip(others.laws, others.counts, strict=True):
                hat = hat * lognormal_transform(law, w, cut, 0) ** int(count)
            total += gap / np.pi * float(hat.real.sum() if order else (hat.imag / w).sum())
            if np.abs(hat).max() < tolerance:
                return total
        raise CouldNotFindOut("The weight's law is too rough for its characteristic function.")

    def _out_of_reach(self, share: float, tolerance: float = 1e-13) -> Value | None:
        """0 or 1 where X keeps its sign while no score leaves its mean by more than -Phi^-1(tolerance) deviations."""
        cut, own, others = float(-ndtri(tolerance)), *self._rescale_scores(share)
        (least, most), (below, above) = _reach(own, cut), (0.0, 0.0)
        for law, count in zip(others.laws, others.counts, strict=True):
            low, high = _reach(law, cut)
            below, above = below + count * low, above + count * high
        accuracy = 2 * tolerance * (1 + int(others.counts.sum())) + ROUNDING
        if below > most * (1 + ROUNDING):
            return Value(0.0, accuracy)
        return Value(1.0, accuracy) if above * (1 + ROUNDING) < least else None

    def _rescale_scores(self, share: float) -> tuple[KeyLaw, Scores]:
        """Scores shifted so that the largest term of X is near 1, with ln r put into the key's own."""
        shift = np.log1p(-share) - np.log(share)
        top = max(float(self.own.means.max()) + shift, *(float(law.means.max()) for law in self.others.laws))
        own = KeyLaw(self.own.chances, self.own.means + shift - top, self.own.covariance)
        laws = tuple(KeyLaw(law.chances, law.means - top, law.covariance) for law in self.others.laws)
        return own, Scores(laws, self.others.which)


def _period(own: KeyLaw, others: Scores, cut: float) -> float:
    """Twice the distance from 0 that X can reach, so that the sum over frequencies wraps around nothing."""
    laws, counts = (*others.laws, own), np.append(others.counts, 1)
    sd = np.sqrt(sum(count * _variance(law) for law, count in zip(laws, counts, strict=True)))
    if sd == 0:
        raise CouldNotFindOut("The weight is not random.")
    centre = sum(count * _mean(law) for law, count in zip(others.laws, others.counts, strict=True)) - _mean(own)
    widest = max(_reach(law, cut)[1] - _mean(law) for law in laws)
    return float(2 * (abs(centre) + widest + (cut + 4) * sd))


def _reach(law: KeyLaw, cut: float) -> tuple[float, float]:
    """The least and the largest e^s within ``cut`` standard deviations."""
    away = cut * law.sd(0)
    return float(np.exp(law.means.min() - away)), float(np.exp(law.means.max() + away))


def _mean(law: KeyLaw) -> float:
    return float(np.exp(law.means[:, 0] + law.sd(0) ** 2 / 2) @ law.chances)


def _variance(law: KeyLaw) -> float:
    second = float(np.exp(2 * law.means[:, 0] + 2 * law.sd(0) ** 2) @ law.chances)
    within = float((np.exp(2 * law.means[:, 0] + law.sd(0) ** 2) @ law.chances) * np.expm1(law.sd(0) ** 2))
    # the difference of squares cancels; with a single mean there is a form that does not
    return max(second - _mean(law) ** 2, 0.0) if len(law.chances) > 1 else within


def lognormal_transform(law: KeyLaw, w: Real, cut: float, order: int) -> np.ndarray:
    """E e^{order s} exp(i w e^s), by a trapezoid rule fine enough for the fastest oscillation."""
    sd = law.sd(0)
    reach = float(np.exp(law.means.max() + min(cut, 6) * sd))
    # e^{iw e^s} turns by w e^s sd for every standard deviation: a step is at most one radian of that
    step = min(0.5, 1.0 / (1 + sd * w[-1] * reach)) if sd > 0 else 1.0
    x, weights = trapezoid(step, cut) if sd > 0 else (np.zeros(1), np.ones(1))
    out = np.zeros(len(w), complex)
    for chance, mean in zip(law.chances, law.means[:, 0], strict=True):
        e = np.exp(mean + sd * x)
        out += chance * (np.exp(1j * np.outer(w, e)) @ (weights * e**order))
    return out

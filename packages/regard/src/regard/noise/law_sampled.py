"""The law of a weight where no transform reaches it: one score integrated out, the rest by Sobol points.

One head: given all other scores, alpha_i > t is a half-line for any single score, the pivot. Its Gaussian probability
is a smooth function of the others, which scrambled Sobol points average well; keys may be correlated. Several heads
that share noise have no such pivot: there the points are counted. Both give a 95 % interval from the scatter of
the scrambles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from regard.array_types import Real
from regard.attention import log_sum_exp, softmax
from regard.errors import InputError
from regard.noise.draws import Sampler, half_interval, make_generator, sobol_points
from regard.noise.scores import ROUNDING, KeyLaw, Scores, Value, merge_equal_laws

MOST_HELD = 2**24  # weights held at once: 128 MB


@dataclass(frozen=True, eq=False)
class PivotLaw:
    """One head, the widest score integrated out: a smooth function of the other scores, averaged over Sobol points.

    ``rest`` is scrambles x points x (n - 1), the scores but the pivot's; ``centre`` the pivot's mean given them.
    """

    rest: Real
    centre: Real  # scrambles x points x components of the pivot
    chances: Real
    sd: float
    own: int  # the key's column in rest, or -1 where the key is the pivot

    @property
    def method(self) -> str:
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
    rest = _rest(
        merge_equal_laws([laws[k] for k in others], None if scores.joint is None else A), log2, scrambles, generator
    )
    moved = rest.noise @ regression
    centre = moved[..., None] + laws[pivot].means[:, 0]
    own = -1 if key == pivot else others.index(key)
    return PivotLaw(rest.scores, centre, laws[pivot].chances, float(np.sqrt(left)), own)


def _choose_pivot(joint: Real, key: int) -> int:
    """The key itself, which always matters, if its score varies given the others; else the score that varies most.

    The variance of a score given all others is 1 / (inverse covariance)_ii, ridged where singular.
    """
    ridge = 1e-12 * max(float(joint.diagonal().max()), 1e-300)
    precision = np.linalg.inv(joint + ridge * np.eye(len(joint))).diagonal()
    # 16: the key's own score still varies by 1/4 or more once the others are known
    return key if precision[key] < 16 else int(np.argmin(precision))


@dataclass(frozen=True, eq=False)
class _Rest:
    scores: Real  # scrambles x points x keys
    noise: Real  # the Gaussian part alone


def _rest(scores: Scores, log2: int, scrambles: int, generator: np.random.Generator) -> _Rest:
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
        return _Rest(s[None], np.zeros_like(s)[None])
    both = []
    for _ in range(scrambles):
        points = sobol_points(normals + uniforms, log2, generator)
        x = ndtri(points[:, :normals])
        both.append((sampler(x, points[:, normals:])[:, 0], Sampler(still)(x, np.zeros((len(x), 0)))[:, 0]))
    return _Rest(np.stack([s for s, _ in both]), np.stack([e for _, e in both]))


@dataclass(frozen=True, eq=False)
class SampledLaw:
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

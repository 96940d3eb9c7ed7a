"""The law of one weight: how likely it takes more than a share, its density, its quantiles.

One head: through the transform of its logit, or of its odds where scores are nearly fixed, each to 1e-6 and better with
an error estimate; otherwise the widest score is integrated out in closed form and the rest by Sobol points with a
95 % interval. Two heads with independent noise: a further integral over the two laws. Anything else: Sobol points.
Finitely many outcomes: counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import expit

from regard.array_types import Real
from regard.errors import CouldNotFindOut, InputError
from regard.noise.draws import MOST_OUTCOMES, outcomes
from regard.noise.law_narrow import WIDEST, NarrowLaw
from regard.noise.law_sampled import pivot_law, sampled_law
from regard.noise.law_transform import TransformLaw, transform_law
from regard.noise.law_two_heads import TwoHeadsLaw
from regard.noise.scores import Scores, merge_equal_laws
from regard.noise.values import ROUNDING, Value, WeightLaw
from regard.noise.weights import check_points


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
    if not 0 <= key < scores.keys:
        raise InputError(f"key must be from 0 to {scores.keys - 1}, not {key}.")
    if scores.outcomes is not None and scores.outcomes <= MOST_OUTCOMES:
        return counted_law(scores, key)
    log2 = check_points(points, scrambles)
    if scores.heads == 1:
        return _one_head(scores, key, log2, scrambles, seed)
    if scores.heads == 2 and scores.heads_independent(0, 1):
        parts = [_one_head(scores.head(h), key, log2, scrambles, seed) for h in (0, 1)]
        if all(isinstance(part, TransformLaw) for part in parts):
            return TwoHeadsLaw(*parts)  # type: ignore[arg-type]
    return sampled_law(scores, key, log2, scrambles, seed)


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
class CountedLaw:
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

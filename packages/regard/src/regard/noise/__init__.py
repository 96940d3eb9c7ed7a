"""Random keys and several heads: what noise does to attention, computed rather than only sampled.

>>> from regard import noise
>>> model = noise.gaussian_setting(10, spread=0.5, iso=0.01)
>>> round(noise.study(model, noise.two_heads(10, 20.0)).error, 6)
0.040452

It may import the ground and :mod:`regard.rigor`, and no other idea. Begin with ``model.py`` (what is random)
and ``random_keys.py`` (the verb, and the moments of a weight); the files ``law*.py`` have its distribution.
"""

from regard.noise.comparison import Comparison, compare
from regard.noise.coursework_settings import (
    eps_for_first_head,
    gaussian_setting,
    negative_score,
    one_head,
    shape_of_noise,
    small_noise_bound,
    steady_limit,
    swing_is_bimodal,
    swing_limit,
    two_heads,
    two_heads_bound,
    two_point_first_head,
    two_point_one_head,
    two_point_setting,
)
from regard.noise.law import quantile, weight_law
from regard.noise.model import EXAMPLE, Magnitude, NoiseModel, Spread, read_model
from regard.noise.optimised_queries import OptimisedQueries, optimise
from regard.noise.random_keys import Study, WeightMoments, study, weight_moments
from regard.noise.scores import Scores, Value, WeightLaw, score_laws

__all__ = [
    "EXAMPLE",
    "Comparison",
    "Magnitude",
    "NoiseModel",
    "OptimisedQueries",
    "Scores",
    "Spread",
    "Study",
    "Value",
    "WeightLaw",
    "WeightMoments",
    "compare",
    "eps_for_first_head",
    "gaussian_setting",
    "negative_score",
    "one_head",
    "optimise",
    "quantile",
    "read_model",
    "score_laws",
    "shape_of_noise",
    "small_noise_bound",
    "steady_limit",
    "study",
    "swing_is_bimodal",
    "swing_limit",
    "two_heads",
    "two_heads_bound",
    "two_point_first_head",
    "two_point_one_head",
    "two_point_setting",
    "weight_law",
    "weight_moments",
]

"""Sharing by way of copying: the shortest query among those under which all the chosen keys score alike.

Queries at right angles to the differences of the s chosen keys do that. For them the demand "at least 1/(s + eps) each"
is that the others' exponentials, relative to a chosen key's, sum to eps or less: copying, with all the chosen keys in
one place. It is the shortest of all queries where the mixture over the chosen keys that balances the weights has no
negative part, as for small eps it nearly always has none; elsewhere `minimax` looks among the uneven ones too.
"""

from __future__ import annotations

from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from regard.array_types import Float
from regard.design.minimax import Minimax
from regard.design.shifted_keys import ShiftedKeys
from regard.design.shortest import entropy, log_sum_exp, shortest

MOST_CHOSEN = 16  # keys: each cuts the others into one more run


def shortest_even(points: Float, chosen: NDArray[np.intp], eps: float, *, gap: float = 2e-10) -> Minimax | None:
    """The shortest query that gives each of the chosen points (n x d) at least 1/(s + eps), or None.

    None: no even query was found, or an uneven one is shorter. What is returned is as good as its bounds.

    >>> found = shortest_even(np.eye(4), np.array([0, 1]), 0.02)
    >>> round(found.lower, 4), found.query.round(3).tolist(), found.mixture.round(3).tolist()
    (4.6052, [2.303, 2.303, -2.303, -2.303], [0.5, 0.5])
    """
    s, anchors = len(chosen), points[chosen]
    if not 1 < s <= min(MOST_CHOSEN, points.shape[1], len(points) - 1):
        return None
    middle, apart = anchors.mean(axis=0), anchors[1:] - anchors[0]
    across, triangle = np.linalg.qr(apart.T)
    size = np.abs(np.diag(triangle))
    if size.min() <= 1e-8 * size.max():  # the chosen keys lie in fewer dimensions
        return None
    rows = ShiftedKeys(points, middle, chosen.tolist(), across)
    found = shortest(rows, log(eps), gap=gap)
    if found.upper == inf:
        return None
    query = rows.level(rows.level(found.query))  # the smaller eps, the sharper the demand that all score alike
    level, others = log_sum_exp(rows @ query)
    weights = np.full(len(points), 1 / (s + exp(level)))
    weights[np.delete(np.arange(len(points)), chosen)] = others * (exp(level) / (s + exp(level)))
    return _with_bounds(points, anchors, weights, query, log(s + eps), found.iterations)


def _with_bounds(
    points: Float, anchors: Float, weights: Float, query: Float, limit: float, iterations: int
) -> Minimax | None:
    """The same with the mixture that balances the weights best, and what both prove; None if it has a negative part."""
    apart, off = anchors[1:] - anchors[0], weights @ points - anchors[0]
    # multipliers of "score alike" may have any sign in the even problem, but a mixture may not: then uneven is shorter
    shares = np.linalg.lstsq(apart.T, off, rcond=None)[0]
    mixture = np.append(1 - shares.sum(), shares)
    if mixture.min() < 0:
        return None
    slack = off - shares @ apart
    lower = max(entropy(weights) - limit, 0.0) / max(sqrt(slack @ slack), 1e-300)
    return Minimax(query, weights, mixture, lower, sqrt(query @ query), iterations)

"""How far the coursework's queries stay from the average of two values when keys are random."""

from __future__ import annotations

import numpy as np


def designed_error(n: int, *, iso: float, scale: float, heads: int, spread: float = 0.0) -> tuple[float, float]:
    """E||c - (v_0+v_1)/2||^2 for orthonormal values, by integrals, and a bound on its numerical error.

    One head is q = T (mu_0 + mu_1), two heads are T mu_0 and T mu_1; keys N(mu_i, a I), key 0 with `spread` along mu_0.

    >>> error, accuracy = designed_error(2, iso=1e-6, scale=20.0, heads=1)   # a T^2 / 2 to first order
    >>> round(error, 5), accuracy < 1e-10
    (0.0002, True)
    """
    from regard import noise

    queries = noise.one_head(n, scale) if heads == 1 else noise.two_heads(n, scale)
    moments = noise.weight_moments(noise.score_laws(noise.gaussian_setting(n, spread=spread, iso=iso), queries))
    goal = np.zeros(n)
    goal[:2] = 0.5
    value = float(np.sum((moments.mean - goal) ** 2) + np.trace(moments.covariance))
    return value, moments.accuracy * (n + 2)

"""How far the coursework's queries stay from the average of two values when keys are random."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.array_types import Real
from regard.coursework.query_questions import orthonormal_rows
from regard.coursework.question import Instance, Ruling, bound_ruling, format_distinctly
from regard.errors import InputError
from regard.rigor import balls
from regard.written_numbers import at_most, in_full

BITS = 128  # of the balls: the integrals themselves are known to 1e-14

if TYPE_CHECKING:
    from regard.noise import NoiseModel


def designed_error(n: int, *, iso: float, scale: float, heads: int, spread: float = 0.0) -> tuple[float, float]:
    """E||c - (v_0+v_1)/2||^2 for orthonormal values, by integrals, and a bound on its numerical error.

    One head is q = T (mu_0 + mu_1), two heads are T mu_0 and T mu_1; keys N(mu_i, a I), key 0 with `spread` along mu_0.

    >>> error, accuracy = designed_error(2, iso=1e-6, scale=20.0, heads=1)   # a T^2 / 2 to first order
    >>> round(error, 5), accuracy < 1e-10
    (0.0002, True)
    """
    from regard import noise

    queries = noise.one_head(n, scale) if heads == 1 else noise.two_heads(n, scale)
    return mean_error(noise.gaussian_setting(n, spread=spread, iso=iso), queries)


def mean_error(model: NoiseModel, queries: Real) -> tuple[float, float]:
    """E||c - (v_0+v_1)/2||^2 of any queries' mean output, for orthonormal values, and the accuracy of it.

    By integrals with an error bound; where two heads share noise, by quasi-Monte-Carlo with a 95 % interval, since the
    two-dimensional integrals take a second each.
    """
    from regard import noise

    laws = noise.score_laws(model, queries)
    apart = len(queries) == 1 or laws.heads_independent(0, 1) or laws.heads_equal(0, 1)
    if apart:
        moments = noise.weight_moments(laws)
    else:
        moments = noise.weight_moments(laws, method="qmc", points=2**11, scrambles=8)
    goal = np.zeros(laws.keys)
    goal[:2] = 0.5
    value = float(np.sum((moments.mean - goal) ** 2) + np.trace(moments.covariance))
    # n second moments on the trace, and the two means that the goal is about
    return max(value, 0.0), moments.accuracy * (laws.keys + 2)  # a square: below 0 there is only rounding


def enclosed_error(n: int, *, iso: float, scale: float, heads: int, spread: float = 0.0) -> tuple[Any, Any]:
    """E||c - (v_0+v_1)/2||^2 and the total variance of c, of :func:`designed_error`'s queries, in balls.

    >>> error, variance = enclosed_error(2, iso=1e-6, scale=20.0, heads=1)
    >>> bool(abs(error - designed_error(2, iso=1e-6, scale=20.0, heads=1)[0]) < 1e-12), bool(error >= variance - 1e-12)
    (True, True)
    """
    with balls.precise(BITS):
        T, a, s = balls.ball(scale), balls.ball(iso), balls.ball(spread)
        zero = balls.ball(0)
        if heads == 1:
            laws = [(1, T, T * T * (s + 2 * a)), (1, T, 2 * a * T * T), (n - 2, zero, 2 * a * T * T)]
            (*first, other), squares = _moments(laws)
            mean = [*first, other]
        else:
            # head 1 looks for key 0, head 2 for key 1; they meet different coordinates of the noise, so independent
            (own_1, other_1), squares_1 = _moments([(1, T, T * T * (s + a)), (n - 1, zero, a * T * T)])
            (own_2, other_2), squares_2 = _moments([(1, T, a * T * T), (n - 1, zero, a * T * T)])
            both = own_1 * other_2 + other_1 * own_2 + (n - 2) * other_1 * other_2
            squares = (squares_1 + squares_2 + 2 * both) / 4
            mean = [(own_1 + other_2) / 2, (other_1 + own_2) / 2, (other_1 + other_2) / 2]
        error = squares - mean[0] - mean[1] + balls.ball(0.5)
        return error, squares - mean[0] ** 2 - mean[1] ** 2 - (n - 2) * mean[2] ** 2


def format_ball(value: Any, *, digits: int = 4) -> str:
    """A positive number in a ball, in so many digits, or what it is at most where the ball does not hold as many.

    >>> format_ball(balls.ball(0.25)), format_ball(balls.ball(0).union(balls.ball(0.55)), digits=1)
    ('0.25', 'at most 0.6')
    """
    if value.rad() * 10**digits < value.mid():
        return f"{float(value.mid()):.{digits}g}"
    return f"at most {at_most(balls.above(value), digits)}"


def _moments(laws: list[tuple[int, Any, Any]]) -> tuple[list[Any], Any]:
    """Means and the sum of squares; a kind of which there is no key has the mean 0."""
    from regard.noise.integrals import enclosed_moments

    found, squares = enclosed_moments([law for law in laws if law[0]])
    return (found if laws[-1][0] else [*found, balls.ball(0)]), squares


# what the questions about noise share

LONGEST = 1e8  # norm of a query
BY_INTEGRALS = (
    "The expected error was integrated with an error bound (by quasi-Monte-Carlo with a 95 % interval where two heads "
    "share noise), for orthonormal values: an instance fails only if it fails beyond that."
)


def noisy_means(latent: Any, *, n: int, extra: int, iso: float, error: float) -> Instance:
    """Orthonormal means of the keys, their noise, and the error allowed."""
    return Instance(given={"means": orthonormal_rows(latent, n, extra), "iso": iso, "error": error})


def error_ruling(model: NoiseModel, queries: Real, error: float) -> Ruling:
    """Is E||c - (v_0+v_1)/2||^2 at most ``error``, beyond the accuracy of the integral?"""
    lengths = np.linalg.norm(queries, axis=1)
    if lengths.max() > LONGEST:
        raise InputError(
            f"A query of norm {lengths.max():.3g} is too long to integrate; stay below {in_full(LONGEST)}."
        )
    # a query too short for float64 to square is as good as none
    value, accuracy = mean_error(model, np.where(lengths[:, None] > 1 / LONGEST, queries, 0.0))
    has, most = format_distinctly(value, error, digits=4)
    return bound_ruling(value - accuracy, error, f"E||c - (v_0+v_1)/2||^2 = {has} is above {most}")


def least_error(n: int, *, iso: float, heads: int, spread: float = 0.0) -> float:
    """The least error of T (mu_0 + mu_1), or of T mu_0 and T mu_1, over all T."""
    from scipy.optimize import minimize_scalar

    def error(log_scale: float) -> float:
        return designed_error(n, iso=iso, scale=math.exp(log_scale), heads=heads, spread=spread)[0]

    return float(minimize_scalar(error, bounds=(0.0, math.log(1000.0)), method="bounded", options={"xatol": 0.01}).fun)

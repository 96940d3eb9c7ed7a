"""What the questions that ask for queries share: keys to try them on, with noise and without, and rulings on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import flint
import numpy as np

from regard.array_types import Float, Real
from regard.coursework.question import (
    SLACK,
    Best,
    Instance,
    Question,
    Ruling,
    bound_ruling,
    format_distinctly,
    read_question,
    worst_ruling,
)
from regard.errors import InputError
from regard.rigor import balls
from regard.written_numbers import at_most, in_full

ROUNDING = 1e-12  # of the odds: the keys themselves are orthonormal only to 1e-16 or so
UNIT, MOST_ROUNDING = 64 * 2.0**-53, 1e-6  # and a score of 1000 is rounded to 1e-13

ENCLOSED = (
    "Every weight was computed with error bounds, for the very floats that you returned, with 1e-9 eps + 1e-12 (or "
    "7e-15 of the score) allowed for rounding: exact for each instance, and no proof for the others."
)
SHORTEST = "its norm is {} that of the shortest query (regard.design, certified)"


def orthonormal_rows(latent: Float, n: int, extra: int) -> Float:
    """n orthonormal rows in R^(n + extra); the identity gives unit vectors.

    >>> orthonormal_rows(np.eye(4), 2, 1).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    q, r = np.linalg.qr(latent[: n + extra, :n])
    # QR leaves the signs open and libraries differ: a positive diagonal makes it unique; + 0.0 turns -0.0 into 0.0
    return np.asarray((q * np.where(np.diag(r) < 0, -1.0, 1.0)).T) + 0.0


def query_instance(latent: Float, *, n: int, extra: int, eps: float) -> Instance:
    """Orthonormal keys and an eps."""
    return Instance(given={"keys": orthonormal_rows(latent, n, extra), "eps": eps})


def sharp_precision(n: int, eps: float) -> Any:
    """The context for enclosures that are to tell 1 from 1 + (eps/n)^2, however small eps is.

    >>> with sharp_precision(10, 1e-200):
    ...     bool(flint.arb(1) + flint.arb(1e-200) ** 2 / 100 > 1)
    True
    """
    # twice the bits that tell 1 from 1 + (eps/n)^2, and some to spare
    return flint.ctx.workprec(256 + math.ceil(4 * math.log2(max(n, 2) / eps)))


def enclosed_scores(query: Float, keys: Float) -> list[Any]:
    """The scores k_i . q of the floats as they are, as balls; call it inside ``balls.precise()``."""
    product = flint.arb_mat(keys.tolist()) * flint.arb_mat([[x] for x in query.tolist()])
    return [product[i, 0] for i in range(len(keys))]


def share_ruling(query: Float, keys: Float, chosen: Sequence[int], eps: float, *, where: str = "") -> Ruling:
    """Does every chosen key get 1/(s+eps)? By enclosures; the room is in units of eps.

    >>> share_ruling(np.array([1.0, 1.0, 0.0]), np.eye(3), [0, 1], 0.1).said
    'alpha_0 = 0.422319 is below 1/(2+eps) = 0.47619'
    """
    room, least, weight = math.inf, chosen[0], 0.0
    with balls.precise():
        scores = enclosed_scores(query, keys)
        for i in chosen:
            total = balls.rest(scores[i], [(1, s) for j, s in enumerate(scores) if j != i])
            spare = _relative_room(total, len(chosen), eps, abs(float(scores[i].mid())))
            # so written that a spare that is no number is the worst
            if not spare >= room:
                room, least, weight = spare, i, float((1 / (1 + total)).mid()) if total.is_finite() else 0.0
    aim = 1 / (len(chosen) + eps)
    has, needs = format_distinctly(weight, aim)
    return Ruling(room=room, said=f"alpha_{least} = {has} is below 1/({len(chosen)}+eps) = {needs}{where}")


def _relative_room(total: Any, count: int, eps: float, score: float) -> float:
    """(eps - what the rest takes beyond equal shares) / eps: negative only if the real numbers fail."""
    if not total.is_finite():
        return -math.inf
    ball, rounding = balls.ball, min(max(ROUNDING, UNIT * score), MOST_ROUNDING)
    # the upper end of the ball: what an enclosure leaves open is decided for the answer
    return balls.above((ball(eps) * (1 + ball(SLACK)) + ball(rounding) - total + (count - 1)) / ball(eps))


def norm_ruling(query: Float, budget: float, name: str) -> Ruling:
    """Is the query no longer than the budget?"""
    norm = float(np.linalg.norm(query))
    yours, most = format_distinctly(norm, budget)
    return bound_ruling(norm, budget, f"its norm {yours} is above the budget {name} = {most}")


def compare_with_shortest(query: Float, keys: Float, chosen: Sequence[int], eps: float) -> Best | None:
    """The norm against that of the shortest query which does as well."""
    from regard import design

    shortest = design.share(keys, list(chosen), eps=eps)
    if shortest.lower_bound is None or not shortest.lower_bound > 0:
        return None  # q = 0 is enough, and no ratio says anything
    return Best(yours=float(np.linalg.norm(query)), best=shortest.lower_bound)


def _nothing_more(given: Mapping[str, Any], query: Float) -> list[Ruling]:
    return []


def query_question(
    claim: str,
    chosen: Callable[[Mapping[str, Any]], list[int]],
    *,
    further: Callable[[Mapping[str, Any], Float], list[Ruling]] = _nothing_more,
    **functions: Any,
) -> Question:
    """The question for a query that gives each chosen key 1/(s+eps), and obeys what is ``further`` asked of it."""

    def judge(instance: Instance, query: Float) -> Ruling:
        given = instance.given
        return worst_ruling(share_ruling(query, given["keys"], chosen(given), given["eps"]), *further(given, query))

    return read_question(
        claim,
        shape=lambda given: given["keys"].shape[1:],
        judge=functions.pop("judge", judge),
        decided=ENCLOSED,
        measure=SHORTEST,
        best=lambda one, query: compare_with_shortest(query, one.given["keys"], chosen(one.given), one.given["eps"]),
        **functions,
    )


# With noise: how far queries stay from the average of two values when keys are random.


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

"""What the questions that ask for a query share: keys to try it on, and rulings on it in rigorous balls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flint
import numpy as np

from regard.array_types import Float
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
from regard.rigor import balls

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

"""Must the averaging query be the bisector of the two keys?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.query_questions import query_instance, query_question, share_ruling, sharp_precision
from regard.coursework.question import Instance, Ruling, inequality, worst_ruling
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.rigor.balls import ball, precise, rest, weights
from regard.written_numbers import at_least, in_full

EXACT = (
    "$alpha_0$, $alpha_1 >= 1/(2+eps)$ exactly when $e^|s_0 - s_1| +$ sum over the others of $e^(s_i - min(s_0, s_1)) "
    "<= 1 + eps$. Proof: $1/alpha$ of the lesser of the two is 1 plus that left side. So $|(k_0 - k_1).q|$ may be "
    "anything below $ln(1+eps)$."
)


def check_must_be_the_bisector(*, n: int, eps: float) -> Verdict:
    # Off the bisector: half of the slack spent on unequal scores, the others pushed down far enough.
    gap, T = math.log1p(eps / 2), math.log(max(n - 2, 1) * 4 / eps)
    with sharp_precision(n, eps):
        total, two, enough = rest(0, [(1, ball(gap)), (n - 2, -ball(T))]), ball(gap).exp(), 1 + ball(eps)
    shortest = math.log((n - 2) / eps) * math.sqrt(2 * (n - 2) / n) if n - 2 > eps else 0.0
    lesser, greater = 1 / (1 + math.exp(gap)), 1 / (1 + math.exp(-gap))
    return refuted_verdict(
        f"Proved by an enclosure: $s_0 - s_1 = {gap:.4g}$ and the others {T:.4g} below give both at least "
        f"$1/(2+eps)$. And the shortest query (norm {shortest:.6g}) points away from the other keys, so it is no "
        "multiple of $k_0 + k_1$."
        if n > 2
        else f"Proved by an enclosure: $s_0 - s_1 = {gap:.4g}$ gives both at least $1/(2+eps)$. And the shortest query "
        "is 0, which gives both 1/2 and is no positive multiple of $k_0 + k_1$.",
        witness=(Witness(total, "<", enough), Witness(two, "<", enough), Witness(ball(gap), ">", 0)),
        counterexample=f"$n = 2$, $eps = {in_full(eps)}$, $q = {gap:.4g} k_0$: the weights differ "
        f"({inequality(greater, '>', lesser)}), and the lesser is above $1/(2+eps)$: "
        f"{inequality(lesser, '>', 1 / (2 + eps))}; $n = 3$: the shortest query is {_shortest_of_three(eps)}",
        region="among queries in the plane of $k_0$ and $k_1$ with exactly equal weights: these are the multiples of "
        "$k_0 + k_1$",
        correction=EXACT,
        gap=gap,
    )


def _shortest_of_three(eps: float) -> str:
    """T [(k_0 + k_1)/3 - (2/3) k_2] with T = ln(1/eps), by the proof; the tests hold it against the solver."""
    T = -math.log(eps)
    return f"({T / 3:.4g}, {T / 3:.4g}, {-2 * T / 3 + 0.0:.4g}) in the basis of the keys"


def check_perfect_averaging(*, n: int, eps: float) -> Verdict:
    if n == 2:
        return holds("proof", "With two keys, equal scores give exactly 1/2 and 1/2.")
    T = math.log(n / eps)
    with sharp_precision(n, eps):
        others = rest(ball(2) * ball(T), [(n - 2, 0)])
        left = others.str(3, radius=False)
    return refuted_verdict(
        f"The bisector of norm $2 sqrt(2) ln(n/eps)$ leaves the others {left} against each.",
        witness=Witness(others, ">", 0),
        counterexample="$n = 3$, any $q$: the third weight is positive ($q = 0$ gives 1/3 each)",
        region="for $n = 2$",
        correction="Equal, not perfect: $alpha_0 = alpha_1 = 1/(2 + R)$ with $R =$ sum over the others of $e^(s_i - "
        "s_0) > 0$.",
    )


def check_equal_weights(*, n: int, eps: float) -> Verdict:
    with precise():
        away = ball(2) ** -90  # far below what float64 could see
        inside = weights([3, 3, -1])
        outside = weights([ball(3) + away, 3, -1])
    if not inside[0].overlaps(inside[1]) or outside[0].overlaps(outside[1]):
        return not_refuted_verdict(2, "The enclosures did not separate the two cases.")
    return holds(
        "proof; enclosures tell scores $2^-90$ apart",
        "$alpha_0 = alpha_1$ exactly when $(k_0 - k_1).q = 0$: a whole hyperplane of queries, of which the bisector "
        "is the part inside the plane of the two keys.",
        region="for all keys, orthonormal or not",
    )


def proof_numbers(*, n: int, eps: float) -> dict[str, object]:
    return {"margin": at_least(math.log1p(eps), 6)}


def draw(made: Any, *, n: int, eps: float) -> None:
    right, top = 1.8 * math.log(n / eps), 1.8 * math.log1p(eps)
    middle, gap = np.meshgrid(np.linspace(0, right, 500), np.linspace(-top, top, 500))
    good = np.exp(np.abs(gap)) + (n - 2) * np.exp(-(middle - np.abs(gap) / 2)) <= 1 + eps
    made.contourf(middle, gap, good, levels=[0.5, 1.5], colors=[BLUE], alpha=0.35)
    made.plot([], [], color=BLUE, alpha=0.35, lw=8, label="all that do")
    made.plot([0, right], [0, 0], "--", color=VERMILION, lw=1.5, label="the bisector")
    if n > 2:
        made.plot([math.log((n - 2) / eps)], [0], "o", color=ORANGE, label="the shortest of this plane")


# your own answer


def judge_bisector(instance: Instance, query: Any) -> Ruling:
    if query is None:
        return Ruling(room=-1.0, said="you say there is none, but there is one")
    keys, eps = instance.given["keys"], instance.given["eps"]
    bisector = (keys[0] + keys[1]) / math.sqrt(2)
    across = float(np.linalg.norm(query - (query @ bisector) * bisector))
    turned = across / max(float(np.linalg.norm(query)), 1e-300)
    on_it = Ruling(room=turned - 1e-10, said="it does not leave the line of k_0 + k_1")
    return worst_ruling(share_ruling(query, keys, [0, 1], eps), on_it)


QUESTION = query_question(
    "the-bisector", lambda given: [0, 1], make=query_instance, judge=judge_bisector, may_be_none=True
)

CLAIM = read_claim(__name__)

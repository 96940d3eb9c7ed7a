"""When does attention copy key j: how far must its score be ahead?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import SLACK, Best, Instance, Ruling, format_distinctly, inequality, read_question
from regard.coursework.verdict import Verdict, Witness, holds, refuted_verdict
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_least, at_most, in_full

EXACT = (
    "$alpha_j >= 1/(1+eps)$ exactly when $s_j -$ LSE(other scores) $>= ln(1/eps)$. Proof: $alpha_j = 1/(1 + e^(LSE - "
    "s_j))$."
)


def check_sufficient(*, n: int, eps: float, shift: float) -> Verdict:
    if shift < 0:
        with balls.precise(balls.TINY):
            # n - 1 scores exactly the threshold behind, which is ln((n-1)/eps) + shift
            total = balls.ball(eps) * (-balls.ball(shift)).exp()
        less = inequality(1 / (1 + eps * math.exp(-shift)), "<", 1 / (1 + eps))
        return refuted_verdict(
            f"All others at the threshold: their total is $e^{in_full(-shift)} eps$, more than $eps$.",
            witness=Witness(total, ">", balls.ball(eps)),
            counterexample=f"$n = {n}$, $eps = {in_full(eps)}$, all others $ln((n-1)/eps) - {in_full(-shift)}$ behind: "
            f"$alpha_j$ and $1/(1+eps)$: {less}",
            region="for margins of at least $ln((n-1)/eps)$",
            correction="A margin of $ln((n-1)/eps)$ is enough: the others' total is at most $(n-1) e^-margin = eps$.",
        )
    margin = math.log((n - 1) / eps)
    more = f", and so is any larger one, such as this plus {in_full(shift)}" if shift else ""
    return holds(
        "proof",
        f"A margin of $ln((n-1)/eps) = {margin:.6g}$ is enough, whatever the scores{more}.",
        tightness="" if shift else "attained: $n - 1$ equal scores exactly that far behind leave $alpha_j = 1/(1+eps)$",
        margin=margin,
    )


def check_necessary(*, n: int, eps: float, shift: float) -> Verdict:
    least = math.log(1 / eps)
    if shift > 0:
        with balls.precise(balls.TINY):
            # Half of the shift below the threshold, and the others so far behind that only the runner-up counts.
            total = balls.ball(eps) * (-balls.ball(shift) / 2).exp() + (n - 2) * balls.ball(-10000).exp()
        return refuted_verdict(
            "A margin below the threshold was enough.",
            witness=Witness(total, "<=", balls.ball(eps)),
            counterexample=f"$n = {n}$, $eps = {in_full(eps)}$: one other score $ln(1/eps) + {in_full(shift)}/2$ behind"
            + (", the rest 10,000 behind" if n > 2 else ""),
            region="for thresholds up to $ln(1/eps)$",
            correction="A margin of $ln(1/eps)$ is necessary: the runner-up alone takes $e^-margin <= eps$.",
        )
    more = "and enough" if n == 2 else "approached, not attained: the other $n - 2$ always take something"
    lower = f", and so is any smaller one, such as this less {in_full(-shift)}" if shift else ""
    return holds(
        "proof",
        f"A margin of $ln(1/eps) = {least:.6g}$ is necessary, whatever the scores{lower}.",
        tightness="" if shift else more,
        margin=least,
    )


def check_one_threshold(*, n: int, eps: float, shift: float) -> Verdict:
    low, high = math.log(1 / eps), math.log((n - 1) / eps)
    if n == 2:
        return holds("proof", f"With two keys both thresholds are $ln(1/eps) = {low:.6g}$.", region="for $n = 2$ only")
    three = (math.log(1 / eps) + math.log(2 / eps)) / 2
    return refuted_verdict(
        f"Between {at_most(low, 6)} and {at_least(high, 6)} the margin does not decide (both sides proved by "
        "enclosures).",
        witness=(*_margin_witnesses(n, eps, (low + high) / 2), *_margin_witnesses(3, eps, three)),
        counterexample=f"$n = 3$, $eps = {in_full(eps)}$, margin $m = {three:.4g}$: scores $(0, -m, -m)$ do not copy, "
        "$(0, -m, -10000)$ do",
        region="for $n = 2$ only",
        correction=EXACT,
        low=low,
        high=high,
    )


def _margin_witnesses(n: int, eps: float, margin: float) -> tuple[Witness, Witness]:
    """At one margin: all others exactly that far behind do not copy, one of them and the rest far behind do."""
    with balls.precise():
        crowded = balls.rest(0, [(n - 1, -balls.ball(margin))])
        alone = balls.rest(0, [(1, -balls.ball(margin)), (n - 2, -10000)])
        return Witness(crowded, ">", balls.ball(eps)), Witness(alone, "<", balls.ball(eps))


def proof_numbers(*, n: int, eps: float, shift: float) -> dict[str, object]:
    return {"enough": math.log((n - 1) / eps), "necessary": at_least(math.log(1 / eps), 6)}


def draw(made: Any, *, n: int, eps: float, shift: float) -> None:
    keys = np.unique(np.geomspace(2, max(1000, n), 60).round())
    enough, needed = np.log((keys - 1) / eps), np.full(len(keys), math.log(1 / eps))
    made.fill_between(keys, enough, enough.max() + 2, color=BLUE, alpha=0.25, lw=0, label="always copies")
    made.fill_between(keys, needed, enough, color=ORANGE, alpha=0.3, lw=0, label="the other scores decide")
    made.fill_between(keys, 0, needed, color=VERMILION, alpha=0.25, lw=0, label="never copies")
    made.plot(keys, enough, color=BLUE, label="ln((n-1)/eps)")
    made.plot(keys, needed, color=VERMILION, ls="--", label="ln(1/eps)")
    made.set(xscale="log", xlim=(2, keys[-1]), ylim=(0, enough.max() + 2))


# your own answer


def judge_margin(instance: Instance, margin: float) -> Ruling:
    n, eps = instance.given["n"], instance.given["eps"]
    with balls.precise():
        total = balls.rest(0, [(n - 1, -balls.ball(margin))])
        known = total.is_finite()  # a margin of -1e300 overflows even a ball
        # the upper end: a doubt that the enclosure leaves is decided for the answer
        room = balls.above(1 + balls.ball(SLACK) - total / balls.ball(eps)) if known else -math.inf
        weight = float((1 / (1 + total)).mid()) if known else 0.0
        others = float(total.mid()) if known else math.inf
    has, needs = format_distinctly(weight, 1 / (1 + eps))
    below = f"alpha_j = {has} is below 1/(1+eps) = {needs}"
    if weight >= 1 / (1 + eps):  # both are 1 in float64
        have, may = format_distinctly(others, eps)
        below = f"the others have {have} times its weight, more than eps = {may}"
    return Ruling(room=room, said=f"with n = {n:,} and every other score {margin:.6g} behind s_j, {below}")


def smallest_margin(instance: Instance, margin: float) -> Best | None:
    least = math.log((instance.given["n"] - 1) / instance.given["eps"])
    return Best(yours=margin, best=least) if least > 0 else None


QUESTION = read_question(
    "copying-condition",
    judge=judge_margin,
    measure="it is {} the smallest margin that is always enough (proved)",
    best=smallest_margin,
)

CLAIM = read_claim(__name__)

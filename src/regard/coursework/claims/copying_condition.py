"""When does attention copy key j: how far must its score be ahead?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from regard.coursework.adversary import attack
from regard.coursework.claim import Claim
from regard.coursework.parameters import Parameter, number_of_keys, slack
from regard.coursework.queries import EPS
from regard.coursework.question import SLACK, Best, Instance, Question, Ruling, Size, told_apart
from regard.coursework.sources import Source
from regard.coursework.verdict import Reading, Verdict, holds, not_refuted, refuted
from regard.pictures import BLUE, ORANGE, VERMILION, axes
from regard.rigor import balls

EXACT = (
    "alpha_j >= 1/(1+eps) exactly when s_j - LSE(other scores) >= ln(1/eps). Proof: alpha_j = 1/(1 + e^(LSE - s_j))."
)


def sufficient(*, n: int, eps: float, shift: float) -> Verdict:
    def others_over_eps(gap: float, eps: float) -> float:
        """The others' total over eps when all are exactly the threshold, times a further gap, behind."""
        return (n - 1) * math.exp(-(math.log((n - 1) / eps) + shift) - math.log(gap)) / eps

    worst = attack(others_over_eps, {"gap": (1.0, 10.0), "eps": (1e-6, 0.999)}, whole=())
    if worst.value > 1 + 1e-9:
        return refuted(
            f"All others {shift:+g} from the threshold behind: their total is {worst.value:.6g} eps.",
            counterexample=f"n = 2, eps = {eps:g}, margin {math.log(1 / eps) + shift:.6g}: weight "
            f"{1 / (1 + eps * math.exp(-shift)):.6g} < {1 / (1 + eps):.6g}",
            region="for margins of at least ln((n-1)/eps)",
            correction="A margin of ln((n-1)/eps) is enough: the others' total is at most (n-1) e^-margin = eps.",
        )
    return holds(
        f"proof; an adversary's {worst.tries:,} attempts agree",
        f"A margin of ln((n-1)/eps) = {math.log((n - 1) / eps):.6g} is enough, whatever the scores.",
        tightness=f"attained: n - 1 equal scores exactly that far behind leave alpha_j = 1/(1+eps) (worst found: "
        f"{worst.value:.9g} of eps)",
        margin=math.log((n - 1) / eps),
    )


def necessary(*, n: int, eps: float, shift: float) -> Verdict:
    margin = math.log(1 / eps) + shift
    with balls.precise():
        # The best case for j: one key at the margin, the others so far behind that only the first counts.
        total = balls.rest(0, [(1, -balls.ball(margin) * (1 - balls.ball(2) ** -40)), (n - 2, -10000)])
        copied = bool(total <= balls.ball(eps))
    if copied:
        return refuted(
            f"A margin just below {margin:.6g} was enough.",
            counterexample=f"n = {n}: one other score {margin:.9g} behind, the rest 10,000 behind",
            region="for thresholds up to ln(1/eps)",
            correction="A margin of ln(1/eps) is necessary: the runner-up alone takes e^-margin <= eps.",
        )
    if shift > 0:
        return not_refuted(1, "The best case for j fails just below the threshold.")
    more = "and enough" if n == 2 else "approached, not attained: the other n - 2 always take something"
    return holds(
        "proof; an enclosure of the best case agrees",
        f"A margin of ln(1/eps) = {math.log(1 / eps):.6g} is necessary, whatever the scores.",
        tightness=more,
        margin=math.log(1 / eps),
    )


def one_threshold(*, n: int, eps: float, shift: float) -> Verdict:
    low, high = math.log(1 / eps), math.log((n - 1) / eps)
    if n == 2:
        return holds("proof", f"With two keys both thresholds are ln(1/eps) = {low:.6g}.")
    margin = (low + high) / 2
    with balls.precise():
        crowded = balls.rest(0, [(n - 1, -balls.ball(margin))]) > balls.ball(eps)
        alone = balls.rest(0, [(1, -balls.ball(margin)), (n - 2, -10000)]) < balls.ball(eps)
    if not (crowded and alone):
        return not_refuted(2, "The two score vectors did not separate.")
    three = (math.log(1 / eps) + math.log(2 / eps)) / 2
    return refuted(
        f"Between {low:.6g} and {high:.6g} the margin does not decide (both sides proved by enclosures).",
        counterexample=f"n = 3, eps = {eps:g}, margin {three:.4g}: scores (0, -{three:.4g}, -{three:.4g}) do not copy, "
        f"(0, -{three:.4g}, -10000) do",
        region="for n = 2 only",
        correction=EXACT,
        low=low,
        high=high,
    )


def prove(*, n: int, eps: float, shift: float) -> str:
    return f"""\
"Almost all its mass on j" is read as alpha_j >= 1/(1+eps); margin m = s_j - max over i != j of s_i.

alpha_j = 1/(1 + R) with R = sum over i != j of e^(s_i - s_j), so alpha_j >= 1/(1+eps) exactly when R <= eps.

Enough: every term is at most e^-m, so R <= (n-1) e^-m <= eps once m >= ln((n-1)/eps). With all others equal R is
exactly (n-1) e^-m, so no smaller margin is enough for all scores.

Necessary: R >= e^-m, so R <= eps forces m >= ln(1/eps); for n > 2 the other terms are positive and m > ln(1/eps).
Sending them to -infinity brings R as near to e^-m as one likes, so no larger margin is necessary.

Exactly: R = e^(M - s_j), M the LSE of the others, so the condition is s_j - M >= ln(1/eps).

Here n = {n}, eps = {eps:g}: a margin of {math.log((n - 1) / eps):.6g} is always enough, one below
{math.log(1 / eps):.6g} never, in between the other scores decide."""


def draw(figure: Any, *, n: int, eps: float, shift: float) -> None:
    made = axes(
        figure,
        title=f"alpha_j >= 1/(1+eps), eps = {eps:g}: when the margin alone decides",
        xlabel="n, number of keys",
        ylabel="margin of s_j over the runner-up",
    )
    keys = np.unique(np.geomspace(2, max(1000, n), 60).round())
    enough, needed = np.log((keys - 1) / eps), np.full(len(keys), math.log(1 / eps))
    made.fill_between(keys, enough, enough.max() + 2, color=BLUE, alpha=0.25, lw=0, label="always copies")
    made.fill_between(keys, needed, enough, color=ORANGE, alpha=0.3, lw=0, label="the other scores decide")
    made.fill_between(keys, 0, needed, color=VERMILION, alpha=0.25, lw=0, label="never copies")
    made.plot(keys, enough, color=BLUE, label="ln((n-1)/eps)")
    made.plot(keys, needed, color=VERMILION, ls="--", label="ln(1/eps)")
    made.set(xscale="log", xlim=(2, keys[-1]), ylim=(0, enough.max() + 2))
    made.legend(frameon=False, loc="lower right", fontsize=9)


# your own answer


def number_and_slack(latent: Any, *, n: int, eps: float) -> Instance:
    return Instance(given={"n": n, "eps": eps})


def always_enough(instance: Instance, margin: float) -> Ruling:
    n, eps = instance.given["n"], instance.given["eps"]
    with balls.precise():
        total = balls.rest(0, [(n - 1, -balls.ball(margin))])
        known = total.is_finite()  # a margin of -1e300 overflows even a ball
        # the upper end: a doubt that the enclosure leaves is decided for the answer
        room = balls.above(1 + balls.ball(SLACK) - total / balls.ball(eps)) if known else -math.inf
        weight = float((1 / (1 + total)).mid()) if known else 0.0
    has, needs = told_apart(weight, 1 / (1 + eps))
    return Ruling(
        room=room,
        said=f"with n = {n:,} and every other score {margin:.6g} behind s_j, alpha_j = {has} is below "
        f"1/(1+eps) = {needs}",
    )


def smallest_margin(instance: Instance, margin: float) -> Best | None:
    least = math.log((instance.given["n"] - 1) / instance.given["eps"])
    return Best(yours=margin, best=least) if least > 0 else None


QUESTION = Question(
    function="margin",
    arguments={"n": "how many keys there are, at least 2", "eps": "a number with 0 < eps < 1"},
    task="A margin that is always enough: whenever s_j exceeds every other of the n scores by at least it, "
    "alpha_j >= 1/(1+eps). The smaller the better.",
    returns="one number",
    shape=lambda given: (),
    sizes=(Size(parameter=number_of_keys(), ladder=(2, 3, 4, 5, 10, 100, 10**6)), EPS),
    make=number_and_slack,
    judge=always_enough,
    decided="The worst case, all other scores exactly the margin behind, was computed with error bounds, with eps "
    "taken 1 + 1e-9 times as large: exact for each n and eps.",
    measure="it is {} the smallest margin that is always enough (proved)",
    best=smallest_margin,
)

CLAIM = Claim(
    name="copying-condition",
    topic="attention",
    statement="Attention puts almost all its mass on key j exactly when s_j exceeds every other score by enough.",
    formula="alpha_j >= 1/(1+eps)  <=>  s_j - max_(i != j) s_i is large enough; how large?",
    sources=(
        Source("sequence-models-hw3", "3(a)i"),
        Source("cs224n-w25-a4", "1-1"),
        Source("self-attention-written", "(a)ii"),
        Source("cse151b-hw4", "1A.ii"),
    ),
    parameters=(
        number_of_keys(),
        slack(),
        Parameter(name="shift", default=0.0, meaning="added to both thresholds, to see them fail", least=-50, most=50),
    ),
    readings=(
        Reading(
            name="enough",
            statement="s_j >= s_i + ln((n-1)/eps) for every i != j implies alpha_j >= 1/(1+eps).",
            check=sufficient,
        ),
        Reading(
            name="necessary",
            statement="alpha_j >= 1/(1+eps) implies s_j >= s_i + ln(1/eps) for every i != j.",
            check=necessary,
        ),
        Reading(
            name="one threshold",
            statement="One number m(n, eps) decides: alpha_j >= 1/(1+eps) exactly when the margin is at least m.",
            check=one_threshold,
        ),
    ),
    prove=prove,
    draw=draw,
    question=QUESTION,
)

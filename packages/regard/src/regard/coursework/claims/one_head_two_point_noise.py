"""A key of length 1/2 or 3/2, and one head that is to average."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import Instance, Ruling, equality_ruling, inequality, read_question, worst_ruling
from regard.coursework.verdict import Verdict, Witness, holds, refuted_verdict
from regard.pictures import BLUE, GREY, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_most, in_full

WHERE = "exactly when $n/eps >= ((1-delta)/delta)^2$"
CORRECTION = (
    "The head leaves the loser $1/(1 + sqrt(n/eps))$ of what the two have. With $q = t (u + k_1)$ it is $1/(1 + "
    "e^(t/2))$: at most $delta$ exactly when $t >= 2 ln((1-delta)/delta)$. Proof: the scores are $t c$ and $t$, $t/2$ "
    "apart."
)


def _least_ratio(delta: float) -> Fraction:
    """((1-delta)/delta)^2, exactly: 1/(1 + sqrt(n/eps)) <= delta where n/eps is at least this."""
    return ((1 - Fraction(delta)) / Fraction(delta)) ** 2


def weights_of_two(n: int, eps: float, c: float) -> tuple[float, float]:
    """alpha_0 and alpha_1: x^c and x, x = n/eps, over their sum and the n - 2 others, which have 1 each."""
    L = math.log(n / eps)
    # without the largest score, since x^c may be too large for a float
    first, second, others = (math.exp(score - max(c * L, L)) for score in (c * L, L, 0.0))
    return first / (first + second + (n - 2) * others), second / (first + second + (n - 2) * others)


def check_weights(*, n: int, eps: float, delta: float) -> Verdict:
    short, long = weights_of_two(n, eps, 0.5), weights_of_two(n, eps, 1.5)
    return holds(
        "proof",
        f"For $c = 1/2$ they are {short[0]:.4g} and {short[1]:.4g}, for $c = 3/2$ {long[0]:.4g} and {long[1]:.4g}.",
        region="for every $n$, $eps$ and $c$: the scores are $c ln x$, $ln x$ and 0",
    )


def check_picks_one_here(*, n: int, eps: float, delta: float) -> Verdict:
    loser = 1 / (1 + math.sqrt(n / eps))
    if n / Fraction(eps) < _least_ratio(delta):
        return refuted_verdict(
            f"The loser keeps {loser:.4g} of what the two have.",
            witness=Witness(n / Fraction(eps), "<", _least_ratio(delta)),
            counterexample=f"$n = {n}$, $eps = {in_full(eps)}$: {inequality(loser, '>', delta, digits=4)}",
            region=WHERE,
            correction=CORRECTION,
        )
    return holds(
        "exact arithmetic",
        f"$n/eps = {n / eps:.6g}$, so the loser keeps {loser:.4g} of what the two have, at most {in_full(delta)}.",
        region=WHERE,
        loser=loser,
    )


def check_picks_one_always(*, n: int, eps: float, delta: float) -> Verdict:
    least = 2 / _least_ratio(delta)  # with two keys every eps between this and 1 fails
    if least >= 1:
        return holds("proof", f"$n/eps > 2 >= ((1-delta)/delta)^2$ for $delta = {in_full(delta)}$.")
    gap = float(1 - least)
    # a decimal number between the two; 1 - ... where it would have many nines
    edge = "0.999" if gap > 0.002 else f"{1 - gap / 2:.6g}" if gap > 1e-5 else f"1 - {gap / 2:.3g}"
    at = sum(Fraction(part) for part in edge.replace("- ", "-").split())
    more = inequality(1 / (1 + math.sqrt(2 / at)), ">", delta, digits=4)
    return refuted_verdict(
        "It depends on $n/eps$, which is only known to be above 2.",
        witness=(Witness(2 / at, "<", _least_ratio(delta)), Witness(at, "<", 1)),
        counterexample=f"$n = 2$, $eps =$ {edge}: the loser keeps more than $delta$: {more}",
        region=f"{WHERE}; for $delta = {in_full(delta)}$ that is $n/eps >= {at_most(float(_least_ratio(delta)), 6)}$",
        correction=CORRECTION,
    )


def check_ratio(*, n: int, eps: float, delta: float, power: float = 0.5) -> Verdict:
    for c, sign in ((0.5, -1), (1.5, 1)):  # c - 1 is -1/2, then 1/2
        with balls.precise():
            L = (balls.ball(n) / balls.ball(eps)).log()
            first = 1 / (1 + balls.rest(balls.ball(c) * L, [(1, L), (n - 2, 0)]))
            second = 1 / (1 + balls.rest(L, [(1, balls.ball(c) * L), (n - 2, 0)]))
            ratio, stated = first / second, (balls.ball(n) / balls.ball(eps)) ** (sign * balls.ball(power))
        # enclosures can refute an equation by lying apart; that they meet only agrees with the proof
        if not ratio.overlaps(stated):
            return refuted_verdict(
                "The enclosures of the two sides do not meet.",
                witness=Witness(ratio, "!=", stated),
                counterexample=f"$n = {n}$, $eps = {in_full(eps)}$, $c = {c:g}$",
                region="for the power 1/2",
                correction="$alpha_0/alpha_1 = (n/eps)^(c-1)$.",
            )
    return holds(
        "proof; enclosures agree",
        f"$alpha_0/alpha_1 = (n/eps)^(c-1)$: {(n / eps) ** -0.5:.6g} for $c = 1/2$ and {(n / eps) ** 0.5:.6g} for $c "
        "= 3/2$.",
    )


def proof_numbers(*, n: int, eps: float, delta: float) -> dict[str, object]:
    x = n / eps
    return {"x": x, "share": 1 / (1 + math.sqrt(x)), "limit": at_most(((1 - delta) / delta) ** 2, 6)}


def draw(made: Any, *, n: int, eps: float, delta: float) -> None:
    x = np.geomspace(2, 1e6, 200)
    made.plot(x, 1 / (1 + x**-0.5), color=BLUE, lw=2, label="the longer key")
    made.plot(x, 1 / (1 + x**0.5), color=ORANGE, lw=2, label="the shorter key")
    made.axhline(delta, color=GREY, ls=":", label=f"$delta = {delta:g}$")
    made.axvline(((1 - delta) / delta) ** 2, color=VERMILION, ls="--", lw=1, label="ignored from here on")
    made.plot([n / eps], [1 / (1 + math.sqrt(n / eps))], "o", color="black", label="this $n$ and $eps$")


# your own answer


def judge_weights(instance: Instance, weights: Any) -> Ruling:
    first, second = weights_of_two(**instance.given)
    return worst_ruling(equality_ruling(weights[0], first, "alpha_0"), equality_ruling(weights[1], second, "alpha_1"))


QUESTION = read_question(
    "one-head-two-point-noise",
    shape=lambda given: (2,),
    judge=judge_weights,
)

CLAIM = read_claim(__name__)

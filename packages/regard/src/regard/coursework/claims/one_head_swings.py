"""One key's length is uncertain: one head swings between the two values."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.query_questions import enclosed_error
from regard.coursework.question import Instance, Ruling, equality_ruling, read_question
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.errors import CouldNotFindOut
from regard.pictures import BLUE, GREY, ORANGE
from regard.rigor import balls
from regard.rigor.balls import normal
from regard.written_numbers import at_least, at_most, in_full

LEVEL = Fraction(1, 4)  # "swings": each of the two takes over 0.9 at least this often
TWO_PEAKS = "the weight of a against $b$ alone has two peaks exactly when $T^2 (spread + 4a) > 2$"


def _proved_chances(n: int, iso: float, spread: float, scale: float) -> tuple[float, float]:
    """Proved lower bounds of P(alpha_a > 0.9) and P(alpha_b > 0.9)."""
    with balls.precise():
        T, sd = balls.ball(scale), (balls.ball(spread) + 4 * balls.ball(iso)).sqrt()
        apart = 2 * balls.ball(iso).sqrt() * T
        win, rest = normal(-balls.ball(18).log() / (T * sd)), max(n - 2, 1)
        ahead_a = (T - balls.ball(rest).log()) / apart
        ahead_b = (T - balls.ball(18 * rest).log()) / apart
        sure = [balls.below(win - (n - 2) * normal(-x)) for x in (ahead_a, ahead_b)]
    return max(sure[0], 0.0), max(sure[1], 0.0)  # a bound that says nothing is no negative probability


def check_swings(*, n: int, iso: float, scale: float, spread: float) -> Verdict:
    sd = scale * math.sqrt(spread + 4 * iso)
    sure = _proved_chances(n, iso, spread, scale)
    with balls.precise():
        variance = balls.ball(Fraction(spread) + 4 * Fraction(iso)) * balls.ball(scale) ** 2
        most = balls.above(normal(-balls.ball(9).log() / variance.sqrt()))
    region = (
        # 0.6745 = Phi^-1(3/4): a logit beyond ln 18 (or ln 9) in a quarter of the draws
        f"when $T sqrt(spread + 4a)$ is at least about {at_most(math.log(18) / 0.6745, 3)} and $T$ well beyond $ln "
        f"n$, never below {at_least(math.log(9) / 0.6745, 3)}; here it is {sd:.4g}"
    )
    if most < LEVEL:
        return refuted_verdict(
            f"$alpha_a > 0.9$ needs $s_a - s_b > ln 9$, which has probability {at_most(most, 4)} at most.",
            witness=Witness(Fraction(most), "<", LEVEL),
            counterexample=f"{_setting(iso, scale, spread)}: neither key takes over 0.9 more often than "
            f"{at_most(most, 4)} of the time ($n = 2$ included)",
            region=region,
            correction=f"The logit $s_a - s_b$ is $N(0, T^2 (spread + 4a))$; {TWO_PEAKS}.",
        )
    law = f"$P(alpha_a > 0.9) >= {at_least(sure[0], 4)}$ and $P(alpha_b > 0.9) >= {at_least(sure[1], 4)}$"
    if min(sure) < LEVEL:
        return not_refuted_verdict(1, f"Proved only: {law}; at most {at_most(most, 4)} each.")
    return holds("proof, bounds enclosed", f"{law}; each is at most {at_most(most, 4)}.", region=region, most=most)


def check_two_peaks(*, n: int, iso: float, scale: float, spread: float) -> Verdict:
    beyond = Fraction(scale) ** 2 * (Fraction(spread) + 4 * Fraction(iso)) - 2  # exactly
    variance = (
        f"2 {'-' if beyond < 0 else '+'} {abs(float(beyond)):.4g}" if abs(beyond) < 0.1 else f"{float(2 + beyond):.4g}"
    )
    if beyond <= 0:
        return refuted_verdict(
            f"$T^2 (spread + 4a) =$ {variance}, not more than 2: one peak, at 1/2.",
            witness=Witness(beyond, "<=", 0),
            counterexample=f"{_setting(iso, scale, spread)}: the weight of a against $b$ is most likely near 1/2",
            region=f"for $T > {at_most(math.sqrt(2 / (spread + 4 * iso)), 6)}$",
            correction=f"Against $b$ alone, {TWO_PEAKS}.",
        )
    logit = _peak(beyond)
    return holds(
        "proof",
        f"The logit has variance {variance}, more than 2; at the peaks the odds of a against $b$ are $e^{logit:.5g}$ "
        f"and $e^-{logit:.5g}$.",
        region=f"for $T > {at_most(math.sqrt(2 / (spread + 4 * iso)), 6)}$",
        logit=logit,
    )


def _peak(beyond: Fraction) -> float:
    """The logit x > 0 of the upper peak, x = v tanh(x/2) with v = 2 + beyond, to the last digit.

    With y = x/2 it is y coth y - 1 = beyond/2, whose left side grows from 0, lies between y - 1 and y^2/3, and is
    enclosed with bits enough to see y^2/3 beside 1: halving [sqrt(3 beyond/2), beyond/2 + 2] cannot go astray.

    >>> _peak(Fraction(1, 2**60)) == math.sqrt(6 / 2**60)
    True
    """
    with flint.ctx.workprec(256 + 4 * max(-math.floor(math.log2(beyond)), 0)):
        aim = balls.ball(beyond) / 2
        low, high = (3 * aim).sqrt().mid(), (aim + 2).mid()
        for _ in range(120 + flint.ctx.prec // 4):
            middle = ((low + high) / 2).mid()
            low, high = (low, middle) if middle * middle.coth() - 1 > aim else (middle, high)
        return float(2 * low)


def check_variance(*, n: int, iso: float, scale: float, spread: float) -> Verdict:
    region = (
        "when $T$ is large against $1/sqrt(spread)$ and $ln n$, and a is small; for $spread > 0$ the limit as $a -> "
        "0$, $T -> infinity$ is 1/2"
    )
    try:
        _, variance = enclosed_error(n, iso=iso, scale=scale, heads=1, spread=spread)
    except CouldNotFindOut:
        return not_refuted_verdict(1, "The scores spread too far for the integrals in balls.")
    value = float(variance.mid())
    if variance >= balls.ball(LEVEL):
        return holds(
            "integrals enclosed in balls",
            f"The output's total variance is {value:.6g} with orthonormal values, where always sitting at $v_a$ or "
            "$v_b$, by the toss of a coin, has 1/2.",
            region=region,
            variance=value,
        )
    return refuted_verdict(
        f"The variance is {value:.6g}, by integrals.",
        witness=Witness(variance, "<", LEVEL),
        counterexample=f"$n = {n}$, {_setting(iso, scale, spread)}: variance {value:.6g}",
        region=region,
        correction="The variance is at most near $2 E(sigmoid(D) - 1/2)^2$, $D ~ N(0, T^2 (spread + 4a))$, which rises "
        "from 0 to 1/2 as $T$ grows.",
    )


def _setting(iso: float, scale: float, spread: float) -> str:
    return f"$T = {in_full(scale)}$, $a = {in_full(iso)}$, spread {in_full(spread)}"


def proof_numbers(*, n: int, iso: float, scale: float, spread: float) -> dict[str, object]:
    sd = scale * math.sqrt(spread + 4 * iso)
    return {
        "sd": sd,
        "at_least_both": at_least(_proved_chances(n, iso, spread, scale)[0], 4),
        "at_most_each": at_most(0.5 * math.erfc(math.log(9) / sd / math.sqrt(2)), 4),
    }


def draw(made: Any, *, n: int, iso: float, scale: float, spread: float) -> None:
    p = np.linspace(1e-4, 1 - 1e-4, 2000)
    x = np.log(p / (1 - p))
    for T, colour, style in ((1.0, GREY, ":"), (4.0, ORANGE, "--"), (scale, BLUE, "-")):
        v = T**2 * (spread + 4 * iso)
        density = np.exp(-(x**2) / (2 * v)) / np.sqrt(2 * np.pi * v) / (p * (1 - p))
        made.plot(p, density, style, color=colour, lw=2, label=f"$T = {T:g}$")


# your own answer


def judge_law(instance: Instance, variance: float) -> Ruling:
    iso, spread, scale = instance.given.values()
    return equality_ruling(variance, scale**2 * (spread + 4 * iso), "the variance of ln(alpha_a/alpha_b)")


QUESTION = read_question(
    "one-head-swings",
    judge=judge_law,
)

CLAIM = read_claim(__name__)

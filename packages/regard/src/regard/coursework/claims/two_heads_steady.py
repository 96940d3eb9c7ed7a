"""Two heads when one key's length is uncertain: how steady are they?"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard import noise
from regard.coursework.claim import read_claim
from regard.coursework.query_questions import (
    BY_INTEGRALS,
    enclosed_error,
    error_ruling,
    least_error,
    mean_error,
    noisy_means,
)
from regard.coursework.question import Best, Instance, read_question
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.errors import CouldNotFindOut
from regard.noise import NoiseModel, Spread
from regard.noise.comparison import head_variances
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_most, between, in_full

ALMOST_ALWAYS = Fraction(99, 100)
FAR_LESS = 5
LONG_ENOUGH = 2000.0  # T of the heads' own variances: beyond, integrals take minutes and say no more


def _chance_above(n: int, iso: float, scale: float, spread: float) -> tuple[float, float]:
    """P(alpha_a > 0.9) in head 1, and its accuracy."""
    model = noise.gaussian_setting(n, spread=spread, iso=iso)
    chance = noise.weight_law(noise.score_laws(model, noise.two_heads(n, scale)[:1]), 0).above(0.9)
    return min(max(chance.value, 0.0), 1.0), chance.accuracy  # a probability: outside there is only rounding


def check_almost_always(*, n: int, iso: float, scale: float, spread: float) -> Verdict:
    with balls.precise():
        a, s, T = balls.ball(iso), balls.ball(spread), balls.ball(scale)
        most = balls.normal(1 / (s + 2 * a).sqrt())
        negative = balls.below(balls.normal(-1 / (s + a).sqrt()))
        # alpha_a > 0.9 puts s_a ln 9 ahead of every other score, and ln(9(n-1)) ahead of their mean, by convexity
        ahead_of_one = balls.normal((T - balls.ball(9).log()) / (T * (s + 2 * a).sqrt()))
        ahead_of_all = balls.normal((T - balls.ball(9 * (n - 1)).log()) / (T * (s + a + a / (n - 1)).sqrt()))
        here = min(ahead_of_one, ahead_of_all, key=balls.above)
    value, accuracy = _chance_above(n, iso, scale, spread)
    if most < balls.ball(99) / 100:
        proved = balls.above(most)
        return refuted_verdict(
            f"$P(alpha_a > 0.9) <=$ {at_most(proved, 6, percent=True)} at every scale $T$ and for every $n >= 2$ "
            f"(proved); here it is {value:.4%}.",
            witness=Witness(most, "<", ALMOST_ALWAYS),
            counterexample=f"$n = 2$, $a = {in_full(iso)}$: $s_a < s_b$ in head 1, so $alpha_a < 1/2$, in "
            f"{1 - proved:.4%} of the draws, whatever $T$ ($k_a.mu_a < 0$ in {negative:.4%})",
            region=f"for draws with $k_a.mu_a > 0$, {1 - negative:.2%} of them, as $a -> 0$ and $T -> infinity$; or "
            "for every "
            # 2.3263 = Phi^-1(0.99)
            f"draw but 1 % only where $spread + 2a <= {at_most(1 / 2.3263**2, 4)}$",
            correction="$c_1$ stays at $v_a$ with probability $1 - Phi(-1/sqrt(spread))$ in the limit $a -> 0$, $T -> "
            "infinity$: 92.135 % for spread 1/2. Proof: $s_a = T k_a.mu_a$, so its sign does not depend on $T$.",
            chance=value,
            most=proved,
        )
    if here < balls.ball(99) / 100:
        return refuted_verdict(
            f"$P(alpha_a > 0.9)$ is {value:.4%} here, at most {at_most(balls.above(here), 6, percent=True)} (proved).",
            witness=Witness(here, "<", ALMOST_ALWAYS),
            counterexample=f"$n = {n}$, $a = {in_full(iso)}$, $T = {in_full(scale)}$, $spread = {in_full(spread)}$",
            region="for larger $T$ or smaller a",
            correction="The limit $a -> 0$, $T -> infinity$ is $1 - Phi(-1/sqrt(spread))$.",
        )
    return not_refuted_verdict(1, f"$P(alpha_a > 0.9) =$ {value:.4%} by integration, to {at_most(accuracy, 1)}.")


def check_without_negative_draws(*, n: int, iso: float, scale: float, spread: float) -> Verdict:
    value, accuracy = _chance_above(n, iso, scale, spread)
    with balls.precise():
        positive = balls.normal(1 / (balls.ball(spread) + balls.ball(iso)).sqrt())
        # alpha_a > 0.9 and s_a <= 0 need every other score below -ln 9
        each = balls.normal(-balls.ball(9).log() / (balls.ball(iso).sqrt() * balls.ball(scale)))
        stray = (1 - positive) * each ** (n - 1)
    low = max(value - accuracy - balls.above(stray), 0.0) / balls.above(positive)
    high = (value + accuracy) / balls.below(positive)
    within = between(low, min(high, 1), 6, percent=True)
    return holds(
        "proof of the limit",
        f"Given $k_a.mu_a > 0$, $P(alpha_a > 0.9)$ is {within} here (by integration, $a = {in_full(iso)}$, "
        f"$T = {in_full(scale)}$), and tends to 1 as $a -> 0$ and $T -> infinity$.",
        region="in the limit $a -> 0$, $T -> infinity$; at a fixed $a > 0$ another key's noise keeps it below 1 "
        "however large $T$ is",
        low=low,
        high=min(high, 1.0),
    )


def check_far_less_variance(*, n: int, iso: float, scale: float, spread: float) -> Verdict:
    try:
        one, two = (enclosed_error(n, iso=iso, scale=scale, heads=heads, spread=spread)[1] for heads in (1, 2))
    except CouldNotFindOut:
        return not_refuted_verdict(1, "The scores spread too far for the integrals in balls.")
    first, second = max(float(one.mid()), 0.0), max(float(two.mid()), 0.0)
    ratio = f", {first / second:.4g} times less" if second else ""
    text = f"Total variance of the output: one head {first:.6g}, two heads {second:.6g}{ratio}."
    if FAR_LESS * two <= one:
        return holds("integrals enclosed in balls", text, tightness=describe_limits(n, spread), one=first, two=second)
    return refuted_verdict(
        text,
        witness=Witness(one, "<", FAR_LESS * two),
        counterexample=f"$n = {n}$, $a = {in_full(iso)}$, $T = {in_full(scale)}$, $spread =$ {in_full(spread)}{ratio}",
        region=f"for larger $T$, where $Phi(-1/sqrt(spread))$ is small enough: {describe_limits(n, spread)}",
        correction="The ratio depends on $n$, a, $T$ and spread; its limits are as above.",
    )


def describe_limits(n: int, spread: float) -> str:
    """What the ratios of the variances and of the errors tend to, in both orders of the limits."""
    p = 0.5 * math.erfc(1 / math.sqrt(2 * spread))
    apart, together = p * (2 - p - p / (n - 1)), p * (1 - p) * n / (n - 1)
    if not p * p:  # so small that the ratios have no digits left
        return "as $a -> 0$ and $T -> infinity$ one head's variance tends to 1/2, and that of two heads to nearly 0"
    return (
        "as $a -> 0$ and $T -> infinity$ one head's variance tends to 1/2, and with $p = Phi(-1/sqrt(spread))$ that "
        f"of two heads to $(1 - (1-p)^2 - p^2/(n-1))/4$, {2 / apart:.3g} times less, where $sqrt(a) T -> infinity$, "
        f"and to $p(1-p) n/(4(n-1))$, {2 / together:.3g} times less, where $sqrt(a) T -> 0$ (a vanishing for every "
        f"$T$, as the sets have it); the errors $E||c - target||^2$ to $p/2$, {1 / p:.3g} times less, and to $p "
        f"n/(4(n-1))$, {2 * (n - 1) / (n * p):.3g} times less. The negative draws are what remains"
    )


def check_head_by_head(*, n: int, iso: float, scale: float, spread: float) -> Verdict:
    T = min(scale, LONG_ENOUGH)
    (first, kept), (second, _) = (head_variances(n, spread, iso, T, head) for head in (0, 1))
    return holds(
        "proof of the limit; integrals for the numbers",
        f"At $a = {iso:g}$, $T = {T:g}$, orthonormal values: $Var c_1 = {first:.3g}$ over all draws and {kept:.3g} "
        f"without those with $k_a.mu_a < 0$; $Var c_2 = {second:.3g}$ either way, since $k_a.q_2$ does not know the "
        "length of $k_a$.",
        region="without the draws with $k_a.mu_a < 0$, in the limit $a -> 0$, $T -> infinity$; with them $Var c_2 -> "
        "0$ still, but $Var c_1$ does not: with $p = Phi(-1/sqrt(spread))$ it tends to $1 - (1-p)^2 - p^2/(n-1)$ "
        "where $sqrt(a) T -> infinity$, and to $p(1-p) n/(n-1)$ where $sqrt(a) T -> 0$",
        first=first,
        first_kept=kept,
        second=second,
    )


def proof_numbers(*, n: int, iso: float, scale: float, spread: float) -> dict[str, object]:
    p = 0.5 * math.erfc(1 / math.sqrt(2 * (spread + iso)))
    limits = describe_limits(n, spread)
    return {"p": p, "limits": limits[0].upper() + limits[1:]}


def draw(made: Any, *, n: int, iso: float, scale: float, spread: float) -> None:
    grid = np.geomspace(3, 300, 12)
    made.plot(grid, [_chance_above(n, iso, T, spread)[0] for T in grid], "o-", color=BLUE, label="head 1, all draws")
    most = 1 - 0.5 * math.erfc(1 / math.sqrt(2 * (spread + 2 * iso)))
    made.axhline(most, color=VERMILION, ls="--", label=f"no scale gets past {at_most(most, 3, percent=True)}")
    made.axhline(float(ALMOST_ALWAYS), color=ORANGE, ls=":", label='"almost always", 99 %')
    made.minorticks_off()
    made.set_xticks([3, 10, 30, 100, 300], ["3", "10", "30", "100", "300"])


# your own answer


def _model(instance: Instance) -> Any:
    spreads = [Spread(key=0, variance=0.5)]
    return NoiseModel(means=instance.given["means"], isotropic=instance.given["iso"], spreads=spreads)


def compare_with_best_means(instance: Instance, queries: Any) -> Best | None:
    n = len(instance.given["means"])
    if n == 2:
        return None  # two keys are averaged by q = 0 already
    best = least_error(n, iso=instance.given["iso"], heads=2, spread=0.5)
    return Best(yours=mean_error(_model(instance), queries)[0], best=best)


QUESTION = read_question(
    "two-heads-steady",
    shape=lambda given: (2, given["means"].shape[1]),
    make=noisy_means,
    judge=lambda instance, queries: error_ruling(_model(instance), queries, instance.given["error"]),
    decided=BY_INTEGRALS,
    measure="its expected error is {} that of T mu_0 and T mu_1 at their best T (other queries can do better)",
    best=compare_with_best_means,
)

CLAIM = read_claim(__name__)

"""Two heads, one for each value, under isotropic noise."""

from __future__ import annotations

import sys
from typing import Any

import flint
import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.query_questions import (
    BY_INTEGRALS,
    designed_error,
    enclosed_error,
    error_ruling,
    format_ball,
    noisy_means,
)
from regard.coursework.question import Best, Instance, Ruling, inequality, read_question
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.errors import CouldNotFindOut
from regard.noise import NoiseModel, two_heads_bound
from regard.pictures import BLUE, GREY, ORANGE
from regard.rigor import balls
from regard.written_numbers import at_most, in_full

POINTS = ((1e-4, 8.0), (1e-2, 12.0), (0.05, 20.0))


def check_close_to_the_average(*, n: int, iso: float, scale: float, factor: float) -> Verdict:
    if factor < 1:
        return _small_factor_verdict(n, iso, scale, factor)
    here, accuracy = designed_error(n, iso=iso, scale=scale, heads=2)
    bound, proved = two_heads_bound(n, iso=iso, scale=scale), balls.above(bound_enclosure(n, iso, scale))
    # the integrals know the error to an accuracy; below that, the proof says more
    error = f"{here:.4g}" if here > 1e4 * accuracy else f"at most {at_most(min(here + accuracy, proved), 4)}"
    return holds(
        "proof",
        f"$q_1 = T mu_a$, $q_2 = T mu_b$: the error is {error}, the bound {_bound_text(n, iso, scale)}.",
        region="for every $n$, as $a -> 0$ and $T -> infinity$ in whatever way, with no condition on $a T^2$: at most "
        "$2(n-1) Phi(-1/sqrt(2a))$ even as $T -> infinity$",
        error=here,
        bound=bound,
    )


def _small_factor_verdict(n: int, iso: float, scale: float, factor: float) -> Verdict:
    """The proof is for the factor 1; below it an (a, T) may pass the bound, and then it is enclosed."""
    for a, T in ((iso, scale), *POINTS):
        value = designed_error(n, iso=a, scale=T, heads=2)[0]
        stated = factor * two_heads_bound(n, iso=a, scale=T)
        if value > stated:
            try:
                error, _ = enclosed_error(n, iso=a, scale=T, heads=2)
            except CouldNotFindOut:
                continue
            return refuted_verdict(
                f"The error and what is stated: {inequality(value, '>', stated)}.",
                witness=Witness(error, ">", balls.ball(factor) * bound_enclosure(n, a, T)),
                counterexample=f"$n = {n}$, $a = {in_full(a)}$, $T = {in_full(T)}$",
                region="for factors of 1 and more",
                correction="$E||c - target||^2 <= 2 (n-1) E min(1, e^D)$, $D ~ N(-T, 2aT^2)$.",
            )
    return not_refuted_verdict(len(POINTS) + 1, f"The bound, {in_full(factor)} times ours, was not passed.")


def bound_enclosure(n: int, iso: float, scale: float) -> Any:
    """2 (n-1) E min(1, e^D), D ~ N(-T, 2aT^2), in balls: P(D > 0), and e^D below 0 as one more Gaussian."""
    with balls.precise():
        T, variance = balls.ball(scale), 2 * balls.ball(iso) * balls.ball(scale) ** 2
        sd = variance.sqrt()
        x = (variance - T) / sd
        if x > 1000:  # e^(variance/2) Phi(-x) is beyond the balls, not the density at T/sd times Mills' ratio of x
            density = (-(T**2) / (2 * variance)).exp() / (2 * flint.arb.pi()).sqrt()
            below = density * (x / (x**2 + 1)).union(1 / x)
        else:
            below = (variance / 2 - T).exp() * balls.normal(-x)
        return 2 * (n - 1) * (balls.normal(-T / sd) + below)


def _bound_text(n: int, iso: float, scale: float) -> str:
    top = balls.above(bound_enclosure(n, iso, scale))
    return at_most(top, 4) if top > sys.float_info.min else f"below {at_most(top, 4)}"


def check_closer_than_one_head(*, n: int, iso: float, scale: float, factor: float) -> Verdict:
    try:
        one, two = (enclosed_error(n, iso=iso, scale=scale, heads=heads)[0] for heads in (1, 2))
    except CouldNotFindOut:
        return not_refuted_verdict(1, "The scores spread too far for the integrals in balls.")
    first, second = max(float(one.mid()), 0.0), max(float(two.mid()), 0.0)
    if two <= one:
        return holds(
            "integrals enclosed in balls",
            f"At $a = {in_full(iso)}$, $T = {in_full(scale)}$: one head has {format_ball(one)}, "
            f"two heads {format_ball(two)}.",
            one=first,
            two=second,
        )
    return refuted_verdict(
        f"The errors of two heads and of one: {inequality(second, '>', first, digits=4)}.",
        witness=Witness(two, ">", one),
        counterexample=f"$n = {n}$, $a = {in_full(iso)}$, $T = {in_full(scale)}$",
        region="when $T$ is large against $ln n$ and $a T^2$ is not small; at small $T$ both heads pay for the "
        "others' weight",
        correction="One head needs $a T^2 -> 0$, two heads only $a -> 0$.",
    )


def proof_numbers(*, n: int, iso: float, scale: float, factor: float) -> dict[str, object]:
    with balls.precise():
        limit = balls.above(2 * (n - 1) * balls.normal(-1 / (2 * balls.ball(iso)).sqrt()))
    return {"bound": _bound_text(n, iso, scale), "limit": at_most(limit, 4)}


def draw(made: Any, *, n: int, iso: float, scale: float, factor: float) -> None:
    grid = np.geomspace(2, 60, 9)
    made.plot(
        grid, [designed_error(n, iso=iso, scale=T, heads=1)[0] for T in grid], "o-", color=ORANGE, label="one head"
    )
    made.plot(
        grid,
        [max(designed_error(n, iso=iso, scale=T, heads=2)[0], 1e-12) for T in grid],
        "s-",
        color=BLUE,
        label="two heads",
    )
    made.plot(grid, [two_heads_bound(n, iso=iso, scale=T) for T in grid], "--", color=GREY, label="bound, two heads")
    made.minorticks_off()
    made.set_xticks([2, 5, 10, 20, 50], ["2", "5", "10", "20", "50"])


# your own answer


def judge_two_heads(instance: Instance, queries: Any) -> Ruling:
    given = instance.given
    if np.array_equal(queries[0], queries[1]):
        return Ruling(room=-1.0, said="the two queries are the same, and are to be different")
    return error_ruling(NoiseModel(means=given["means"], isotropic=given["iso"]), queries, given["error"])


def compare_with_shortest_means(instance: Instance, queries: Any) -> Best | None:
    """The longer query against the shortest T mu_0 and T mu_1 that do: their error falls as T grows."""
    given, n = instance.given, len(instance.given["means"])
    if n == 2:
        return None  # two keys are averaged by q = 0 already
    # bisection: the error falls as T grows, and with a at most 0.01 far below 200 nothing more is gained
    low, high = 0.0, 200.0
    while high - low > 1e-3:
        T = (low + high) / 2
        small = designed_error(n, iso=given["iso"], scale=max(T, 0.01), heads=2)[0] <= given["error"]
        low, high = (low, T) if small else (T, high)
    return Best(yours=float(np.linalg.norm(queries, axis=1).max()), best=high)


QUESTION = read_question(
    "two-heads-average",
    shape=lambda given: (2, given["means"].shape[1]),
    make=noisy_means,
    judge=judge_two_heads,
    decided=BY_INTEGRALS,
    measure="its longer query is {} as long as the shortest T mu_0 and T mu_1 that do it",
    best=compare_with_shortest_means,
)

CLAIM = read_claim(__name__)

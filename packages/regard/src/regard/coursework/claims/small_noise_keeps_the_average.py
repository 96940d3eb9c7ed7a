"""Keys with small isotropic noise: the query made of the means still averages."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.query_questions import (
    BY_INTEGRALS,
    designed_error,
    error_ruling,
    least_error,
    mean_error,
    orthonormal_rows,
)
from regard.coursework.question import Best, Instance, Ruling, read_question
from regard.coursework.verdict import Verdict, Witness, explained_verdict, holds, refuted_verdict
from regard.noise import NoiseModel, small_noise_bound
from regard.pictures import BLUE, GREY, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_least, at_most, in_full

CONDITION = (
    "$a T^2 -> 0$ while $T - ln n -> infinity$: "
    "$E||c - (v_a+v_b)/2||^2 <= (sqrt(a T^2/2) + 2 sqrt(((n-2)/2) e^(-T + 3aT^2/2)))^2$"
)
# (a, T) from where the bound is nearly attained to where it says little
POINTS = ((1e-8, 8.0), (1e-6, 20.0), (1e-4, 5.0), (1e-3, 10.0), (1e-2, 3.0))


def check_vanishing_fast_enough(*, n: int, iso: float, scale: float, factor: float) -> Verdict:
    if factor < 1:
        return _small_factor_verdict(factor)
    closest = 0.0
    for a, T in ((iso, scale), *POINTS):
        value, accuracy = designed_error(n, iso=a, scale=T, heads=1)
        closest = max(closest, (value - accuracy) / small_noise_bound(n, iso=a, scale=T))
    here = small_noise_bound(n, iso=iso, scale=scale)
    error, accuracy = designed_error(n, iso=iso, scale=scale, heads=1)
    return holds(
        "proof",
        f"Here $a T^2 = {iso * scale**2:.4g}$: the error is {error:.6g} (integral, to {at_most(accuracy, 1)}), the "
        f"bound {at_most(here, 6)}.",
        region="when a vanishes faster than $1/T^2$, $T$ growing beyond $ln n$; with $T = ln(n/eps)$, a much below "
        "$1/ln^2(n/eps)$",
        tightness=f"at six (a, $T$) the bound is reached to {at_least(closest, 4, percent=True)}; for $n = 2$ and "
        "small $a T^2$ the error is $a T^2/2$ to first order, which is the bound's first term",
        error=error,
        accuracy=accuracy,
        bound=here,
    )


def _small_factor_verdict(factor: float) -> Verdict:
    """With two keys our bound is a T^2/2, and the error is at least (a T^2/2)(1 - 2 a T^2), by the proof."""
    product = (1 - Fraction(factor)) / 4
    return refuted_verdict(
        f"For $n = 2$ the bound is $a T^2/2$, which small $a T^2$ attain: {in_full(factor)} times it is too little.",
        witness=Witness(1 - 2 * product, ">", Fraction(factor)),
        counterexample=f"$n = 2$, $a T^2 = {float(product):.6g}$: the error is at least $1 - "
        f"{float(2 * product):.6g}$ times the bound, more than {in_full(factor)} times it",
        region="for factors of 1 and more",
        correction=CONDITION,
    )


def check_any_scale(*, n: int, iso: float, scale: float, factor: float) -> Verdict:
    T = 1e4
    value, accuracy = designed_error(2, iso=1 / T**2, scale=T, heads=1)
    with balls.precise():
        # D ~ N(0, 4) for every a = 1/T^2; where |D| > 2 the output is sigmoid(2) - 1/2 off in both coordinates
        off = 1 / (1 + balls.ball(-2).exp()) - balls.ball(0.5)
        least = 2 * balls.normal(-1) * 2 * off**2
    return refuted_verdict(
        "The difference of the two scores has the variance $4 a T^2$: it is not small just because a is.",
        witness=Witness(least, ">", Fraction(1, 20)),
        counterexample=f"$n = 2$, $a = 1e-8$, $T = 10,000 (a T^2 = 1)$: the error is {value:.6g} (integral, to "
        f"{at_most(accuracy, 1)}), and more than 1/20 for every a with $a T^2 = 1$",
        region="exactly when $a T^2 -> 0 (n = 2)$; for $n > 2 T$ must also grow beyond $ln n$",
        correction=CONDITION + ". Proof that $a T^2 -> 0$ is needed: for $n = 2$ the error is $2 E(sigmoid(D) - "
        "1/2)^2$ with $D ~ N(0, 4aT^2)$, which grows with $a T^2$ and is 0 only at 0.",
        error=value,
    )


def check_directions_and_lengths(*, n: int, iso: float, scale: float, factor: float) -> Verdict:
    wobble = math.sqrt(2 * iso) * scale  # the standard deviation of each score
    return explained_verdict(
        "Each key is a small round cloud about its mean: its direction and its length both change by about "
        "$sqrt(a)$. The query points along $mu_a + mu_b$, halfway between the two means and square to all others, so "
        "$k_a$ and $k_b$ reach nearly equally far along it and the other keys hardly at all. Its length decides the "
        "rest. It must be long against $ln n$, or the other keys are heard; and short against $1/sqrt(a)$, because "
        "it multiplies the small difference of the two projections as well, and a difference of scores above 1 "
        "lets the softmax choose. Between the two limits $c$ is near the middle of $v_a$ and $v_b$; beyond the second "
        "it slides to one of them. Along the query's direction $k_a$ and $k_b$ project to $1/sqrt(2) = 0.707$ and the "
        f"others to 0, all give or take $sqrt(a) = {math.sqrt(iso):.3g}$; in scores, $T = {scale:g}$ and 0 give or "
        f"take {wobble:.3g}, against $ln n = {math.log(n):.3g}$.",
        wobble=wobble,
    )


def proof_numbers(*, n: int, iso: float, scale: float, factor: float) -> dict[str, object]:
    return {
        "product": iso * scale**2,
        "bound": small_noise_bound(n, iso=iso, scale=scale),
        "error": designed_error(n, iso=iso, scale=scale, heads=1)[0],
    }


def draw(made: Any, *, n: int, iso: float, scale: float, factor: float) -> None:
    grid = np.geomspace(1e-6, 30, 15)
    for T, colour, marker in ((10.0, ORANGE, "o"), (20.0, BLUE, "s")):
        made.plot(
            grid,
            [designed_error(n, iso=x / T**2, scale=T, heads=1)[0] for x in grid],
            "-",
            marker=marker,
            ms=4,
            color=colour,
            label=f"$T = {T:g}$",
        )
        bound = [min(small_noise_bound(n, iso=x / T**2, scale=T), 2.0) for x in grid]
        made.plot(grid, bound, "--", color=colour, lw=1, label=f"bound, $T = {T:g}$")
    made.axhline(0.5, color=GREY, lw=0.8)
    made.axvline(iso * scale**2, color=VERMILION, lw=1, ls=":", label="this $a$ and $T$")


# your own answer


def noisy_keys(latent: Any, *, n: int, extra: int, error: float, part: float) -> Instance:
    """Noise of which our bound proves that some T allows it: a T^2/2 is at most a quarter of the error."""
    # then the bound's two terms are at most sqrt(error)/2 each; a has few digits, as a person would write it
    T = math.log(8 * max(n - 2, 1) / error)
    iso = float(f"{part * error / (2 * T**2):.3g}")
    return Instance(given={"means": orthonormal_rows(latent, n, extra), "iso": iso, "error": error})


def judge_average(instance: Instance, query: Any) -> Ruling:
    given = instance.given
    return error_ruling(NoiseModel(means=given["means"], isotropic=given["iso"]), query[None], given["error"])


def compare_with_best_scale(instance: Instance, query: Any) -> Best | None:
    given = instance.given
    yours, accuracy = mean_error(NoiseModel(means=given["means"], isotropic=given["iso"]), query[None])
    best = least_error(len(given["means"]), iso=given["iso"], heads=1)
    # Two keys are averaged best by q = 0, and no ratio says anything.
    return Best(yours=yours, best=best) if len(given["means"]) > 2 and best > 100 * accuracy else None


QUESTION = read_question(
    "small-noise-keeps-the-average",
    shape=lambda given: given["means"].shape[1:],
    make=noisy_keys,
    judge=judge_average,
    decided=BY_INTEGRALS,
    measure="its expected error is {} that of the best multiple of mu_0 + mu_1",
    best=compare_with_best_scale,
)

CLAIM = read_claim(__name__)

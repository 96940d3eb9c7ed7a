"""How close is the output to the value that is copied?"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import (
    Best,
    Instance,
    Ruling,
    bound_ruling,
    format_distinctly,
    inequality,
    read_question,
)
from regard.coursework.verdict import Verdict, Witness, explained_verdict, holds, refuted_verdict
from regard.pictures import BLUE, GREY, ORANGE
from regard.written_numbers import at_most, in_full


def check_relative_to_the_values(*, n: int, eps: float, diameter: float, factor: float) -> Verdict:
    bound = eps / (1 + eps) * diameter
    # exactly, for the witness; the float above is for the sentence
    away = Fraction(eps) / (1 + Fraction(eps)) * Fraction(diameter)
    if factor < 1:
        return refuted_verdict(
            f"$||c - v_j||$ and what is stated: {inequality(bound, '>', factor * bound)}.",
            witness=Witness(away, ">", Fraction(factor) * away),
            counterexample=f"$n = 2$, $alpha_j = 1/(1+{in_full(eps)})$, $v_i$ at distance {in_full(diameter)} from "
            "$v_j$",
            region="for factors of 1 and more",
            correction="$||c - v_j|| <= eps/(1+eps) max_i ||v_i - v_j||$: see the proof.",
        )
    return holds(
        "proof",
        f"$alpha_j >= 1/(1+eps)$ gives $||c - v_j|| <= eps/(1+eps) D = {at_most(away, 6)}$.",
        tightness="attained where the other values coincide at distance $D$, for the factor 1",
        bound=factor * bound,
    )


def check_whatever_the_values(*, n: int, eps: float, diameter: float, factor: float) -> Verdict:
    far = 10 ** math.ceil(4 - math.log10(eps))  # so far that even this eps moves the output by thousands
    off = Fraction(eps) / (1 + Fraction(eps)) * far
    return refuted_verdict(
        "A small weight on a large value is not small.",
        witness=Witness(off, ">", 1000),
        counterexample=f"$n = 2$, $alpha_j = 1/(1+{in_full(eps)})$, $v_j = 0$, $v_i = {float(far):g}$: "
        f"$||c - v_j|| = {float(off):.6g}$",
        region="for values within $D$ of $v_j$, to within $eps/(1+eps) D$",
        correction="$c -> v_j$ as $eps -> 0$ with the values fixed; for a given $delta$, $eps <= delta/(D - delta)$ "
        "is enough $(D > delta)$. Proof: $eps/(1+eps) D <= delta$ is $eps (D - delta) <= delta$.",
        distance=float(off),
    )


def check_in_words(*, n: int, eps: float, diameter: float, factor: float) -> Verdict:
    return explained_verdict(
        "Attention is a soft lookup: the query is compared with every key, and here one key matches so much "
        "better than the others that its value alone is selected. That value is copied to the output nearly "
        "unchanged, and the other values are ignored."
    )


def proof_numbers(*, n: int, eps: float, diameter: float, factor: float) -> dict[str, object]:
    return {"bound": at_most(eps / (1 + eps) * diameter, 6)}


def draw(made: Any, *, n: int, eps: float, diameter: float, factor: float) -> None:
    grid, rng = np.geomspace(1e-4, 1, 60), np.random.default_rng(0)
    made.plot(grid, grid / (1 + grid), color=BLUE, lw=2, label="the bound $eps/(1+eps)$, attained")
    for trial in range(3):
        v = rng.standard_normal((6, 3))
        w = [[1 / (1 + e)] + [e / (1 + e) / 5] * 5 for e in grid]
        d = np.linalg.norm(w @ v - v[0], axis=1) / np.linalg.norm(v[1:] - v[0], axis=1).max()
        made.plot(grid, d, color=GREY, lw=1, label=None if trial else "six random values")
    made.plot([eps], [eps / (1 + eps)], "o", color=ORANGE, label=f"$eps = {eps:g}$")


# your own answer


def _largest_distance(instance: Instance) -> float:
    """Two keys, the other value as far away as it may be: eps/(1+eps) times the distance, which is attained."""
    return float(instance.given["eps"] / (1 + instance.given["eps"]) * instance.given["distance"])


def judge_bound(instance: Instance, bound: float) -> Ruling:
    farthest = _largest_distance(instance)
    away, yours = format_distinctly(farthest, bound)
    return bound_ruling(
        farthest / max(bound, 1e-300),  # a bound of 0 or less loses, without being divided by
        1.0,
        f"with two keys, alpha_j = 1/(1+eps), the other value {instance.given['distance']:g} away: ||c - v_j|| = "
        f"{away} is above your {yours}",
    )


QUESTION = read_question(
    "copying-output",
    judge=judge_bound,
    measure="it is {} the smallest bound that is true (attained)",
    best=lambda instance, bound: Best(yours=bound, best=_largest_distance(instance)),
)

CLAIM = read_claim(__name__)

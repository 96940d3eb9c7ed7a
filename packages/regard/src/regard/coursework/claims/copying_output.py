"""How close is the output to the value that is copied?"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import Claim
from regard.coursework.parameters import Parameter, number_of_keys, slack
from regard.coursework.problem_sets import Source
from regard.coursework.query_questions import EPS
from regard.coursework.question import (
    Best,
    Instance,
    Question,
    Ruling,
    bound_ruling,
    format_distinctly,
    inequality,
    make_size,
)
from regard.coursework.verdict import Reading, Verdict, Witness, explained_verdict, holds, refuted_verdict
from regard.pictures import BLUE, GREY, ORANGE, axes
from regard.written_numbers import at_most, in_full


def check_relative_to_the_values(*, n: int, eps: float, diameter: float, factor: float) -> Verdict:
    bound = eps / (1 + eps) * diameter
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


def prove(*, n: int, eps: float, diameter: float, factor: float) -> str:
    return f"""\
$c - v_j =$ sum over $i$ of $alpha_i (v_i - v_j)$, where the term $i = j$ is 0. By the triangle inequality $||c - v_j||
<=$ sum over $i != j$ of $alpha_i ||v_i - v_j|| <= (1 - alpha_j) D$, $D = max_i ||v_i - v_j||$.

$alpha_j >= 1/(1+eps)$ means $1 - alpha_j <= eps/(1+eps)$, which is the bound. Equality: $alpha_j = 1/(1+eps)$ and all
other values at the same point at distance $D$.

Values of norm at most 1 have $D <= 2$, so then $||c - v_j|| <= 2 eps/(1+eps)$.

Here $eps = {eps:g}$, $D = {diameter:g}$: $||c - v_j|| <= {at_most(eps / (1 + eps) * diameter, 6)}$."""


def draw(figure: Any, *, n: int, eps: float, diameter: float, factor: float) -> None:
    made = axes(
        figure,
        title="How far the output is from the copied value",
        xlabel="$eps$, with $alpha_j = 1/(1+eps)$",
        ylabel="$||c - v_j|| / D$",
        xscale="log",
        yscale="log",
    )
    grid, rng = np.geomspace(1e-4, 1, 60), np.random.default_rng(0)
    made.plot(grid, grid / (1 + grid), color=BLUE, lw=2, label="the bound $eps/(1+eps)$, attained")
    for trial in range(3):
        v = rng.standard_normal((6, 3))
        w = [[1 / (1 + e)] + [e / (1 + e) / 5] * 5 for e in grid]
        d = np.linalg.norm(w @ v - v[0], axis=1) / np.linalg.norm(v[1:] - v[0], axis=1).max()
        made.plot(grid, d, color=GREY, lw=1, label=None if trial else "six random values")
    made.plot([eps], [eps / (1 + eps)], "o", color=ORANGE, label=f"$eps = {eps:g}$")
    made.legend(frameon=False, loc="best")


# your own answer


def slack_and_distance(latent: Any, *, eps: float, distance: float) -> Instance:
    return Instance(given={"eps": eps, "distance": distance})


def _largest_distance(instance: Instance) -> float:
    """Two keys, the other value as far away as it may be: eps/(1+eps) times the distance, which is attained."""
    return float(instance.given["eps"] / (1 + instance.given["eps"]) * instance.given["distance"])


def judge_bound(instance: Instance, bound: float) -> Ruling:
    farthest = _largest_distance(instance)
    away, yours = format_distinctly(farthest, bound)
    return bound_ruling(
        farthest / max(bound, 1e-300),
        1.0,
        f"with two keys, alpha_j = 1/(1+eps), the other value {instance.given['distance']:g} away: ||c - v_j|| = "
        f"{away} is above your {yours}",
    )


QUESTION = Question(
    function="bound",
    arguments={
        "eps": "a number with 0 < eps < 1; alpha_j is at least 1/(1+eps)",
        "distance": "no value is farther than this from v_j",
    },
    task="How far the output $c$ can be from $v_j$ at most. The smaller the better.",
    returns="one number, at least ||c - v_j|| whatever the number of keys and the values",
    shape=lambda given: (),
    sizes=(
        EPS,
        make_size("distance", "how far values are from $v_j$", (1.0, 2.0, 10.0, 0.1), above=0, most=1e100),
    ),
    make=slack_and_distance,
    judge=judge_bound,
    decided="Exact for each eps and distance: the case that was tried is the worst there is, by the proof.",
    measure="it is {} the smallest bound that is true (attained)",
    best=lambda instance, bound: Best(yours=bound, best=_largest_distance(instance)),
)

CLAIM = Claim(
    name="copying-output",
    topic="attention",
    statement="When almost all the mass is on key $j$, the output $c$ is close to $v_j$; say how close.",
    formula="$alpha_j >= 1/(1+eps)  =>  ||c - v_j|| <= eps/(1+eps) max_i ||v_i - v_j||$",
    sources=(
        Source("sequence-models-hw3", "3(a)ii"),
        Source("cs224n-w25-a4", "1-1"),
        Source("self-attention-written", "(a)iii", also="(a)iv"),
        Source("cse151b-hw4", "1A.iii", also="1A.iv"),
    ),
    parameters=(
        number_of_keys(),
        slack(),
        Parameter(name="diameter", default=1.0, meaning="$D$, how far values are from $v_j$", above=0, most=1e100),
        Parameter(name="factor", default=1.0, meaning="in front of the bound, 1 in ours", above=0, most=100),
    ),
    readings=(
        Reading(
            name="relative to the values",
            statement="$||c - v_j|| <= eps/(1+eps) D$, where $D$ is the largest distance of a value from $v_j$.",
            check=check_relative_to_the_values,
            ignores=("n",),
        ),
        Reading(
            name="whatever the values",
            statement="A small $eps$ makes $||c - v_j||$ small, whatever the values.",
            check=check_whatever_the_values,
            ignores=("n", "diameter", "factor"),
        ),
        Reading(
            name="in words",
            statement="Say what it means intuitively, in two sentences.",
            check=check_in_words,
            ignores=("n", "eps", "diameter", "factor"),
        ),
    ),
    prove=prove,
    draw=draw,
    question=QUESTION,
)

"""A key of length 1/2 or 3/2, and a head for each of the two keys."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.coursework.claim import read_claim
from regard.coursework.query_questions import ENCLOSED, compare_with_shortest, orthonormal_rows, share_ruling
from regard.coursework.question import (
    Best,
    Instance,
    Ruling,
    format_distinctly,
    inequality,
    read_question,
    worst_ruling,
)
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, GREEN, GREY, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_least, at_most, in_full

CORRECTION = (
    "$t = 2 ln(n/eps)$ is enough: then head 1 has $x^(2c)/(x^(2c) + n - 1) >= x/(x + n - 1) >= 1/(1+eps)$, $x = "
    "n/eps$, for both $c$, and head 2 even more. Proof: $2c >= 1$, and $(n-1) eps/n < eps$."
)


def first_head_weight(n: int, eps: float) -> float:
    """The weight of key 1 in head 1 at c = 1/2: 1/(1 + (n-1) sqrt(eps/n))."""
    return 1 / (1 + (n - 1) * math.sqrt(eps / n))


def largest_eps(n: int, delta: float) -> float:
    """(n-1) sqrt(eps/n) <= delta/(1-delta) exactly when eps <= n (delta/((1-delta)(n-1)))^2."""
    return n * (delta / ((1 - delta) * (n - 1))) ** 2


def smallest_failure(n: int, eps: float, delta: float) -> tuple[int, float]:
    """The least number of keys at which head 1 can fail with some eps < 1, and an eps that shows it."""
    # 1 % above the largest eps that works, in four digits, and still below 1: hence 0.98
    m = next((m for m in range(2, min(n, 10**4)) if largest_eps(m, delta) < 0.98), n)
    return (m, float(f"{1.01 * largest_eps(m, delta):.4g}")) if m < n else (n, eps)


def _weight_witness(n: int, eps: float, delta: float) -> Witness:
    """first_head(n, eps) < 1 - delta, exactly, in fractions."""
    # (n-1) sqrt(eps/n) > delta/(1-delta), both sides squared: no root, so no rounding
    d = Fraction(delta)
    return Witness(Fraction(eps) * (n - 1) ** 2 * (1 - d) ** 2, ">", n * d**2)


def check_nearly_all(*, n: int, eps: float, delta: float, factor: float) -> Verdict:
    if factor != 1:
        return _factor_verdict(n, eps, delta, factor)
    most = largest_eps(n, delta)
    region = (
        f"exactly when $eps <= n (delta/((1-delta)(n-1)))^2$, {at_least(most, 4)} for this $n$: $eps$ must fall like "
        "$1/n$"
    )
    if _weight_witness(n, eps, delta).is_confirmed:
        fewest, small = smallest_failure(n, eps, delta)
        less = inequality(first_head_weight(fewest, small), "<", 1 - delta)
        return refuted_verdict(
            f"Head 1 has $sqrt(n/eps)/(sqrt(n/eps) + n - 1) = {first_head_weight(n, eps):.6g}$ on key 1 when $c = "
            "1/2$.",
            witness=(_weight_witness(n, eps, delta), _weight_witness(fewest, small, delta)),
            counterexample=f"$n =$ {fewest}, $eps = {in_full(small)}$: {less}; for every fixed $eps$ it "
            f"falls to 0 as $n$ grows ($n = 10,000, eps = {in_full(eps)}$: {first_head_weight(10_000, eps):.4g})",
            region=region,
            correction=CORRECTION,
            weight=first_head_weight(n, eps),
        )
    return holds(
        "exact arithmetic",
        f"Head 1 has {first_head_weight(n, eps):.6g} on key 1 when $c = 1/2$, and more when $c = 3/2$.",
        region=region,
        weight=first_head_weight(n, eps),
    )


def _factor_verdict(n: int, eps: float, delta: float, factor: float) -> Verdict:
    with balls.precise():
        t = balls.ball(factor) * (balls.ball(n) / balls.ball(eps)).log()
        weight, aim = 1 / (1 + balls.rest(t / 2, [(n - 1, 0)])), 1 - balls.ball(delta)
    has = format_distinctly(float(weight.mid()), 1 - delta)[0]
    if weight >= aim:
        return holds(
            "enclosure",
            f"With $t = {in_full(factor)} ln(n/eps)$ head 1 has {has} on key 1 when $c = 1/2$, and more when $c = "
            "3/2$.",
        )
    return refuted_verdict(
        f"With $t = {in_full(factor)} ln(n/eps)$ head 1 has {has} on key 1 when $c = 1/2$.",
        witness=Witness(weight, "<", aim),
        counterexample=f"$n = {n}$, $eps = {in_full(eps)}$: {inequality(float(weight.mid()), '<', 1 - delta)}",
        region="for factors of 2 and more: at least $1/(1+eps)$",
        correction=CORRECTION,
    )


def check_second_head(*, n: int, eps: float, delta: float, factor: float) -> Verdict:
    with balls.precise():
        t = balls.ball(factor) * (balls.ball(n) / balls.ball(eps)).log()
        others = balls.rest(t, [(n - 1, 0)])
    if others <= balls.ball(eps):  # of balls: certainly so; where they meet it is not said
        return holds(
            "proof; an enclosure agrees" if factor >= 1 else "enclosure at this $n$ and $eps$",
            "Head 2 has $1/(1 + (n-1) e^-t) >= 1/(1+eps)$ on key 2, whatever $c$ is: at least "
            f"{at_least(balls.below(1 / (1 + others)), 6)}.",
            region="for all $n$ and $eps$ with factors of 1 and more",
        )
    return refuted_verdict(
        "The others keep more than $eps$.",
        witness=Witness(others, ">", balls.ball(eps)),
        counterexample=f"$n = {n}$, $eps = {in_full(eps)}$, factor {in_full(factor)}",
        region="for factors of 1 and more",
        correction="$t = ln(n/eps)$.",
    )


def check_corrected(*, n: int, eps: float, delta: float, factor: float) -> Verdict:
    with balls.precise():
        t = 2 * (balls.ball(n) / balls.ball(eps)).log()
        enough = all(balls.rest(balls.ball(c) * t, [(n - 1, 0)]) < balls.ball(eps) for c in (0.5, 1.5))
    if not enough:
        return not_refuted_verdict(2, "The enclosures did not confirm it.")
    exact = Fraction(eps)
    return holds(
        "proof; enclosures at this $n$ and $eps$ agree",
        f"$t = 2 ln(n/eps)$: head 1 has at least $1/(1+eps) = {at_least(1 / (1 + exact), 6)}$ on key 1 for both $c$, "
        f"so the mean output is within $eps/(1+eps) D = {at_most(exact / (1 + exact), 4)} D$ of $(v_1+v_2)/2$.",
        tightness="the factor 2 cannot be lowered: $c = 1/2$ halves the score, and $(n-1) e^(-t/2) <= eps$ needs "
        "$t >= 2 ln((n-1)/eps)$",
    )


def proof_numbers(*, n: int, eps: float, delta: float, factor: float) -> dict[str, object]:
    return {"first": first_head_weight(n, eps), "nearly_all": 1 - delta, "largest": at_least(largest_eps(n, delta), 4)}


def draw(made: Any, *, n: int, eps: float, delta: float, factor: float) -> None:
    grid = np.geomspace(2, 1e5, 200)
    for e, colour in ((1e-1, VERMILION), (1e-2, ORANGE), (1e-4, BLUE)):
        made.plot(
            grid, 1 / (1 + (grid - 1) * np.sqrt(e / grid)), color=colour, lw=2, label=f"$t = ln(n/eps)$, $eps = {e:g}$"
        )
    made.plot(grid, grid / (grid + (grid - 1) * 0.1), "--", color=GREEN, lw=2, label="$t = 2 ln(n/eps)$, $eps = 0.1$")
    made.axhline(1 - delta, color=GREY, ls=":", label=f"nearly all: {1 - delta:g}")


# your own answer


def orthonormal_directions(latent: Any, *, n: int, extra: int, eps: float) -> Instance:
    return Instance(given={"directions": orthonormal_rows(latent, n, extra), "eps": eps})


def _keys(instance: Instance, c: float) -> Float:
    keys: Float = instance.given["directions"].copy()
    keys[0] *= c
    return keys


def judge_heads(instance: Instance, queries: Any) -> Ruling:
    eps = instance.given["eps"]
    return worst_ruling(
        *(
            share_ruling(queries[h], _keys(instance, c), [h], eps, where=f" in head {h} when c = {c:g}")
            for h in (0, 1)
            for c in (0.5, 1.5)
        )
    )


def compare_with_shortest_heads(instance: Instance, queries: Any) -> Best | None:
    """The longer query against a lower bound: each head must do it at c = 1/2 at least."""
    ratios = [compare_with_shortest(queries[h], _keys(instance, 0.5), [h], instance.given["eps"]) for h in (0, 1)]
    if ratios[0] is None or ratios[1] is None:
        return None
    return Best(yours=max(ratios[0].yours, ratios[1].yours), best=max(ratios[0].best, ratios[1].best))


QUESTION = read_question(
    "two-heads-two-point-noise",
    shape=lambda given: (2, given["directions"].shape[1]),
    make=orthonormal_directions,
    judge=judge_heads,
    decided=ENCLOSED,
    measure="its longer query is {} as long as the shortest (regard.design, certified)",
    best=compare_with_shortest_heads,
)

CLAIM = read_claim(__name__)

"""A query whose output is close to the average of two values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from regard.attention import attend
from regard.coursework.claim import read_claim
from regard.coursework.query_questions import orthonormal_rows, query_question, sharp_precision
from regard.coursework.question import Instance
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_least, at_most, in_full

TRIALS = 100
ROUNDING = 1e-14  # of an output of values of size 1 or so


def strength(n: int, eps: float) -> float:
    """T = ln((n-2)/eps), at least 0: the scale at which both weights reach 1/(2+eps)."""
    return max(math.log((n - 2) / eps), 0.0) if n > 2 else 0.0


def check_arbitrarily_close(*, n: int, eps: float, tilt: float) -> Verdict:
    if tilt:
        return _tilt_verdict(n, eps, tilt)
    T = strength(n, eps)
    with sharp_precision(n, eps):
        # A hair beyond T, since at T the two sides are equal and no enclosure can tell.
        scale = balls.ball(T * (1 + 1e-12) + 1e-12)
        enough = bool(balls.rest(scale, [(n - 2, 0)]) < balls.ball(eps))
    if not enough:
        return not_refuted_verdict(1, "The enclosure did not decide.")
    exact = Fraction(eps)
    return holds(
        "proof, and an enclosure of the weights",
        f"$q = T (k_a + k_b)$ with $T = ln((n-2)/eps) = {at_most(T, 6)}$ gives both $1/(2+eps) = "
        f"{at_least(1 / (2 + exact), 6)}$; then $||c - (v_a+v_b)/2|| <= eps/(2+eps) D = "
        f"{at_most(exact / (2 + exact), 6)} D$, $D$ the largest distance of another value from the average."
        if n > 2
        else "With two keys $q = 0$ gives both 1/2, and the average is exact.",
        region="for all $n >= 2$ and $eps > 0$; for $n = 2$ the average is exact",
        tightness="the distance is exactly $(n-2)e^-T/(2+(n-2)e^-T)$ times the distance of the others' mean from the "
        f"average; the shortest query that does as well has norm {T * math.sqrt(2 * max(n - 2, 0) / n):.6g} instead of "
        f"{T * math.sqrt(2):.6g}",
        scale=T,
    )


def _tilt_verdict(n: int, eps: float, tilt: float) -> Verdict:
    """With unequal scores: e^|tilt T| <= 1 + eps keeps T below eps/|tilt|, and the others then keep more than eps."""
    if n == 2:
        return holds(
            "proof", "With two keys $T = 0$ does it, whatever the tilt: both weights are 1/2.", region="for $n = 2$"
        )
    small = min(Fraction(eps), abs(Fraction(tilt)), Fraction(1, 4))
    longest = small / abs(Fraction(tilt))
    with balls.precise():
        others = balls.rest(balls.ball(longest * min(Fraction(1), 1 - Fraction(tilt))), [(n - 2, 0)])
    return refuted_verdict(
        f"With $q = T$ ($k_a +$ ($1 -$ tilt) $k_b$), tilt $= {in_full(tilt)}$, the ratio of the two weights is "
        "e^(tilt $T$), which grows with $T$.",
        witness=Witness(others, ">", small),
        counterexample=f"$n = {n}$, $eps = {float(small):.6g}$: e^|tilt $T| <= 1 + eps$ needs $T <=$ eps/|tilt| $= "
        f"{float(longest):.6g}$, and at that $T$ the others still have {float(others.mid()):.6g} against the lesser of "
        "the two, more than $eps$",
        region="for every $eps > 0$ only with equal scores of $a$ and $b$, or for $n = 2$",
        correction="$q = T (k_a + k_b)$: equal scores, and $1/(2 + (n-2) e^-T)$ each.",
    )


def check_computed_by_attend(*, n: int, eps: float, tilt: float) -> Verdict:
    few, rng = min(n, 200), np.random.default_rng(0)
    T, keys = strength(few, eps), np.eye(few)
    query, most, found = T * (keys[0] + (1 - tilt) * keys[1]), 0.0, None
    for _ in range(TRIALS):
        values = rng.standard_normal((few, 3))
        middle = (values[0] + values[1]) / 2
        off = np.linalg.norm(attend(query, keys, values).output - middle)
        others = np.linalg.norm(values[2:] - middle, axis=1).max() if few > 2 else 0.0
        # 1e-300 is for n = 2, where the bound is 0
        share = float((off - ROUNDING) / (eps / (2 + eps) * others + 1e-300))
        most, found = (share, values) if share > max(most, 1.0) else (max(most, share), found)
    if found is not None:
        return refuted_verdict(
            f"A computed output is {most:.4g} times as far from the average as the bound allows.",
            witness=_distance_witness(attend(query, keys, found).output.tolist(), found.tolist(), eps),
            counterexample=f"{few} orthonormal keys, random values (seed 0), tilt {in_full(tilt)}",
            region="for tilt 0",
            correction="$q = T (k_a + k_b)$.",
        )
    return not_refuted_verdict(
        TRIALS,
        f"With {few} keys and random values the output was within {at_most(most, 4, percent=True)} of the bound.",
    )


def _distance_witness(output: list[float], values: list[list[float]], eps: float) -> Witness:
    """The same, with the floats taken as the numbers that they are."""
    rows = [[Fraction(x) for x in row] for row in values]
    middle = [(a + b) / 2 for a, b in zip(rows[0], rows[1], strict=True)]

    def distance(point: list[Fraction]) -> Any:
        return balls.ball(sum(((x - m) ** 2 for x, m in zip(point, middle, strict=True)), Fraction(0))).sqrt()

    with balls.precise():
        farthest = max((distance(row) for row in rows[2:]), key=balls.above, default=balls.ball(0))
        bound = balls.ball(Fraction(eps) / (2 + Fraction(eps))) * farthest + balls.ball(ROUNDING)
        return Witness(distance([Fraction(x) for x in output]), ">", bound)


def proof_numbers(*, n: int, eps: float, tilt: float) -> dict[str, object]:
    T = strength(n, eps)
    return {"T": T, "norm": T * math.sqrt(2), "distance": at_most(eps / (2 + eps), 6)}


def draw(made: Any, *, n: int, eps: float, tilt: float) -> None:
    T = np.linspace(0, max(2 * strength(n, eps), 6), 200)
    made.plot(T, 1 / (2 + (n - 2) * np.exp(-T)), color=BLUE, lw=2, label="each of $a$ and $b$")
    made.plot(
        T, 1 / (1 + np.exp(-0.2 * T) + (n - 2) * np.exp(-T)), "--", color=VERMILION, label="a, if $b$ has $0.8 T$"
    )
    made.plot(
        T, 1 / (1 + np.exp(0.2 * T) + (n - 2) * np.exp(-0.8 * T)), ":", color=VERMILION, label="$b$, if $b$ has $0.8 T$"
    )
    made.plot([strength(n, eps)], [1 / (2 + eps)], "o", color=ORANGE, label=f"$1/(2+eps)$, $eps = {eps:g}$")


# your own answer


def two_of_the_keys(latent: Any, *, n: int, extra: int, eps: float) -> Instance:
    a, b = np.argsort(-latent[0, :n], kind="stable")[:2].tolist()  # in either order
    return Instance(given={"keys": orthonormal_rows(latent, n, extra), "a": a, "b": b, "eps": eps})


def other_orders(*, n: int, extra: int, eps: float) -> Iterable[Instance]:
    """The last key before the first, and neighbours from behind: an answer that sorts, or looks at a only, shows."""
    keys = np.eye(n, n + extra)
    for a, b in dict.fromkeys([(1, 0), (n - 1, 0), (0, n - 1), (n - 1, n - 2)]):
        yield Instance(given={"keys": keys, "a": a, "b": b, "eps": eps})


QUESTION = query_question(
    "average-of-two", lambda given: [given["a"], given["b"]], make=two_of_the_keys, traps=other_orders
)

CLAIM = read_claim(__name__)

"""Does softmax ever average two vectors exactly?"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.attention import attend
from regard.coursework.claim import read_claim
from regard.coursework.question import Instance, Ruling, read_question
from regard.coursework.verdict import Verdict, Witness, holds, refuted_verdict
from regard.pictures import BLUE, ORANGE, VERMILION

MOST = 64  # keys that attend is tried on: what underflows there does so among more
EXCEPT_TWO = (
    "For $n >= 3$ keys and affinely independent values the softmax never averages exactly, whatever the keys and the "
    "query; for $n = 2$ it does exactly when $q$ is orthogonal to $k_a - k_b$ ($q = 0$, for one)."
)


def check_independent_values(*, n: int) -> Verdict:
    if n == 2:
        weights = attend([0.0, 0.0], np.eye(2), np.eye(2)).weights.tolist()
        return refuted_verdict(
            "With two keys there is nobody else to take a share.",
            witness=tuple(Witness(Fraction(weight), "==", Fraction(1, 2)) for weight in weights),
            counterexample=f"$n = 2$, $q = 0$: both scores are 0, the weights are {weights}, exactly, also over the "
            "reals",
            region="for $n >= 3$ and affinely independent values",
            correction=EXCEPT_TWO + " Proof: $alpha_a = alpha_b$ exactly when $s_a = s_b$.",
        )
    return holds(
        "proof",
        f"With $n = {n}$ every other weight is positive, and affinely independent values allow one set of weights "
        "only for each output.",
        region="for every $n >= 3$; for $n = 2 q = 0$ averages exactly",
    )


def check_any_values(*, n: int) -> Verdict:
    a, b, others = Fraction(-1), Fraction(1), Fraction(0)
    output, middle = (a + b + (n - 2) * others) / n, (a + b) / 2  # q = 0: every weight is 1/n
    values = "-1 and 1" if n == 2 else "-1, 1 and 0" if n == 3 else f"-1, 1 and {n - 2} times 0"
    return refuted_verdict(
        "The others' values may themselves average to $(v_a + v_b)/2$.",
        witness=Witness(output, "==", middle),
        counterexample=f"$n = {n}$, values {values}, $q = 0$: $c = 0 = (v_a + v_b)/2$, exactly (for $n = 2$ any "
        "values do)",
        region="exactly where $(v_a+v_b)/2$ is no combination of all values with all weights positive, or no query "
        "reaches such weights",
        correction=EXCEPT_TWO,
    )


def first_exact_scale(n: int) -> int:
    """The least whole T for which attend gives exactly (1/2, 1/2, 0, ...) for T (k_a + k_b), n orthonormal keys."""
    few = min(n, MOST)
    keys = np.eye(few)
    target = np.zeros(few)
    target[:2] = 0.5
    # monotone in T: e^-745 is the last that float64 tells from 0, so at 2048 the other weights are surely gone
    low, high = 0, 2048
    while high - low > 1:
        middle = (low + high) // 2
        exact = np.array_equal(attend(middle * (keys[0] + keys[1]), keys, keys).output, target)
        low, high = (low, middle) if exact else (middle, high)
    return high


def check_in_float64(*, n: int) -> Verdict:
    if n == 2:
        return check_independent_values(n=2)
    T, few = first_exact_scale(n), min(n, MOST)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((3, 5))
    middle = (values[0] + values[1]) / 2
    rounded = next(
        (t for t in range(1, 800) if np.array_equal(attend([t, t, 0.0], np.eye(3), values).output, middle)), T
    )
    computed = attend([T, T, *[0.0] * (few - 2)], np.eye(few), np.eye(few)).output.tolist()
    return refuted_verdict(
        "The other weights underflow to 0.",
        witness=tuple(
            Witness(Fraction(x), "==", Fraction(1, 2) if i < 2 else Fraction(0)) for i, x in enumerate(computed)
        ),
        counterexample=f"$n = {few}$, orthonormal keys and values, $q = {T} (k_a + k_b)$: the computed output is "
        f"exactly (1/2, 1/2, 0, ...); with three random dense values already $q =$ {rounded} $(k_a + k_b)$",
        region=f"in float64 for orthonormal values and whole $T <= {T - 1}$",
        correction="In float64 the average is exact once $(n-2) e^-T$ rounds away: beyond $T$ of about $37 + ln(n-2)$ "
        f"where the values' entries are of like size $(e^-37 < 2^-53)$, and certainly from $T = {T}$ on. Over the "
        "reals: never for $n >= 3$ and affinely independent values.",
        scale=T,
    )


def proof_numbers(*, n: int) -> dict[str, object]:
    T = 10.0
    rest = (n - 2) * math.exp(-T) / (2 + (n - 2) * math.exp(-T))
    return {
        "T": T,
        "rest": rest,
        "twice": 2 * T,
        "rest_at_twice": (n - 2) * math.exp(-2 * T) / (2 + (n - 2) * math.exp(-2 * T)),
    }


def draw(made: Any, *, n: int) -> None:
    T = np.linspace(0, 900, 300)
    logs = (np.log(max(n - 2, 1e-9)) - T - np.log(2 + (n - 2) * np.exp(-T))) / math.log(10)
    made.plot(T, logs, color=BLUE, lw=2, label="real arithmetic: never 0")
    made.axvline(37, color=ORANGE, ls="--", label="37: below half a unit in the last place of 1")
    last = first_exact_scale(max(n, 3))
    made.axvspan(last, 900, color=VERMILION, alpha=0.15, lw=0, label=f"float64: exactly 0 from $T =$ {last}")


# your own answer


def keys_and_values(latent: Any, *, n: int, balanced: int) -> Instance:
    keys = np.round(latent[:n, :n], 3)
    values = np.eye(n)
    if balanced:
        values = np.zeros((n, 1))
        values[:2, 0] = 1 + round(abs(float(latent[0, 0]))), -1 - round(abs(float(latent[0, 0])))
    return Instance(given={"keys": keys, "values": values})


def judge_average(instance: Instance, query: Any) -> Ruling:
    """Exact, by Lindemann and Weierstrass: powers of e with different rational exponents never cancel.

    So c = (v_0 + v_1)/2 exactly when among the keys of each score the v_i - (v_0 + v_1)/2 add up to 0.
    """
    keys, values = instance.given["keys"], instance.given["values"]
    possible = len(keys) == 2 or values.shape[1] == 1  # two keys, or values that balance: q = 0 averages
    if query is None:
        return Ruling(room=-1.0 if possible else 1.0, said="you say there is none, but here q = 0 does it")
    groups: dict[Fraction, list[Fraction]] = {}
    middle = [(Fraction(x) + Fraction(y)) / 2 for x, y in zip(*values[:2].tolist(), strict=True)]
    for key, value in zip(keys.tolist(), values.tolist(), strict=True):
        score = sum((Fraction(k) * Fraction(q) for k, q in zip(key, query.tolist(), strict=True)), Fraction(0))
        rest = groups.setdefault(score, [Fraction(0)] * len(middle))
        groups[score] = [r + Fraction(v) - m for r, v, m in zip(rest, value, middle, strict=True)]
    exact = not any(any(rest) for rest in groups.values())
    why = "the other weights are small, but not 0" if not possible else "the weights are not equal, and q = 0 would do"
    return Ruling(room=1.0 if exact else -1.0, said=f"over the real numbers c is not exactly the average: {why}")


QUESTION = read_question(
    "never-exactly-the-average",
    shape=lambda given: given["keys"].shape[1:],
    fits=lambda n, balanced: n > 2 or not balanced,
    make=keys_and_values,
    judge=judge_average,
    may_be_none=True,
)

CLAIM = read_claim(__name__)

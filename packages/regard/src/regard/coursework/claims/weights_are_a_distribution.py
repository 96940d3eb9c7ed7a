"""Every attention weight is positive and they sum to 1."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.attention import attend
from regard.coursework.claim import read_claim
from regard.coursework.question import Instance, Ruling, format_distinctly, read_question
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_least, in_full

TRIALS = 200
UNIT = 2.0**-53


def check_over_the_reals(*, n: int, spread: float) -> Verdict:
    few, rng = min(n, 50), np.random.default_rng(0)
    with balls.precise():
        for trial in range(TRIALS):
            # first the whole spread, evenly: the least weight is smallest at its end
            scores = spread * rng.random(few) if trial else np.linspace(0, spread, few)
            w = balls.weights(scores.tolist())
            wrong = [Witness(x, "<=", 0) for x in w if not x > 0]
            wrong += [] if sum(w).overlaps(balls.ball(1)) else [Witness(sum(w), "!=", 1)]
            if wrong:
                return refuted_verdict(
                    "An enclosure contradicts it.",
                    witness=wrong[0],
                    counterexample=f"scores {scores.tolist()}",
                    region="not known",
                    correction="none",
                )
        least = 1 / (1 + (n - 1) * balls.ball(spread).exp())
        shown = least.str(6, radius=False)
    return holds(
        f"proof; enclosures of {TRIALS} score vectors agree",
        "$e^s$ is positive for every real $s$, and dividing by the sum makes the sum 1.",
        tightness=f"scores at most {in_full(spread)} apart make no weight smaller than "
        f"$1/(1+(n-1)e^{in_full(spread)}) =$ {shown}, which one low score among equal high ones attains",
    )


def _floats(scores: Any) -> NDArray[np.float64]:
    column = np.asarray(scores, dtype=np.float64)[:, None]
    return attend([1.0], column, column).weights


def last_positive_gap() -> float:
    """The largest gap between two scores at which attend's smaller weight is still above 0, to 1e-9."""
    low, high = 0.0, 2000.0  # the weight is 1/2 at 0 and 0 at 2000, and falls between
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _floats([0.0, -middle]).min() > 0 else (low, middle)
    return low


def _why_zero(spread: float, ahead: int) -> str:
    if np.exp(-spread) == 0:
        return f"$e^-{in_full(spread)}$ is below half of $2^-1074$, the smallest float64 above 0, and rounds to 0."
    return (
        f"$e^-{in_full(spread)}$ is a float64 above 0, but the sum it is divided by is {ahead}, and the quotient is at "
        "most half of $2^-1074$, the smallest float64 above 0, and rounds to 0."
    )


def check_positive_in_float64(*, n: int, spread: float) -> Verdict:
    # e^-744 is the last power whose quotient by a sum of up to n stays a positive float64
    gap, safe = last_positive_gap(), 744 - math.log(n)
    if n == 1:
        return holds("exact arithmetic", "A single weight is computed as $1/(1 + 0) = 1$.", region="for $n = 1$")
    region = (
        f"when scores are at most $744 - ln n$ apart ({at_least(safe, 6)} here); with two keys, up to "
        f"{at_least(gap, 9)}"
    )
    ahead = min(n - 1, 1000)
    least = float(_floats([0.0] * ahead + [-spread]).min())
    if least == 0:
        return refuted_verdict(
            _why_zero(spread, ahead),
            witness=Witness(Fraction(least), "<=", 0),
            counterexample=f"{ahead} key{'s' * (ahead > 1)} with the score 0 and one with -{in_full(spread)}: its "
            "weight is 0.0",
            region=region,
            correction="In float64 every weight is $>= 0$, and its logarithm stays finite: use log_weights, which "
            "attend computes without the detour. Proof: $s_i - max s - ln$($1 +$ rest) has no underflow.",
            gap=gap,
        )
    with balls.precise():
        proved = bool(balls.ball(spread) <= 744 - balls.ball(n).log())
    if proved:
        return holds(
            "rounding analysis",
            f"Scores at most {in_full(spread)} apart: $e^-{in_full(spread)}/n$ is representable.",
            region=region,
            gap=gap,
        )
    return not_refuted_verdict(1, "The smallest weight did not vanish on this machine.", gap=gap)


def check_sum_in_float64(*, n: int, spread: float) -> Verdict:
    if n == 1:
        return holds("exact arithmetic", "A single weight is computed as $1/(1 + 0) = 1$.")
    rng, width = np.random.default_rng(0), min(n, 200)
    worst, first = 0.0, None
    for trial in range(TRIALS):
        # two or three small scores first: a counterexample that fits a line
        few = [min(x, spread) for x in (0.0, 1.0, 2.0, 3.0)][: min(n, trial + 2)]
        scores = few if trial < 3 else np.round(spread * rng.random(width) * rng.random(), 3).tolist()
        off = _distance_from_one(scores)
        worst, first = max(worst, off), scores if off and first is None else first
    bound = n * UNIT / (1 - n * UNIT) + n * 2.0**-1074  # proved in the correction below
    if first is None:
        return not_refuted_verdict(TRIALS, "The exact sum of the computed weights was 1 each time.")
    shown = f"scores {first}" if len(first) <= 4 else f"the scores {first[:4]}, ... (seed 0)"
    return refuted_verdict(
        "Each division rounds, so the exact sum of the stored weights misses 1 by some units in the last place.",
        witness=Witness(abs(_sum(first) - 1), ">", 0),
        counterexample=f"{shown}, $n = {len(first)}$: off by {_distance_from_one(first):.3g}",
        region="for $n = 1$, and where every quotient happens to be exact",
        correction=f"$|sum - 1| <= n u / (1 - n u) + n 2^-1074$ with $u = 2^-53$: {bound:.3g} for $n = {n}$ (largest "
        f"of {TRIALS} trials with {width} keys: {worst:.3g}). Proof: adding $n$ positive numbers costs each of them "
        "at most $n - 1$ factors $1 + delta$, $|delta| <= u$, so the computed total is between $(1-u)^(n-1)$ and "
        "$(1-u)^-(n-1)$ times the sum of the computed exponentials; each quotient takes one more such factor, or "
        "misses by half of $2^-1074$ where it underflows. And $(1-u)^n >= 1 - n u$.",
        largest=worst,
        bound=bound,
    )


def _sum(scores: list[float]) -> Fraction:
    """The exact sum of the weights that attend computes."""
    return sum(map(Fraction, _floats(scores).tolist()), Fraction(0))


def _distance_from_one(scores: list[float]) -> float:
    return float(abs(_sum(scores) - 1))


def proof_numbers(*, n: int, spread: float) -> dict[str, object]:
    with balls.precise():
        least = (1 / (1 + (n - 1) * balls.ball(spread).exp())).str(6, radius=False)
    return {"least": least}


def draw(made: Any, *, n: int, spread: float) -> None:
    gaps = np.linspace(0, max(1000.0, spread), 400)
    made.plot(gaps, -(gaps + np.log1p(np.exp(-gaps))) / math.log(10), color=BLUE, lw=2, label="real arithmetic")
    last = last_positive_gap()
    made.axvspan(
        last, gaps[-1], color=VERMILION, alpha=0.15, lw=0, label=f"float64 gives 0 (gap $> {at_least(last, 5)}$)"
    )


# your own answer


def some_scores(latent: NDArray[np.float64], *, n: int, spread: float) -> Instance:
    return Instance(given={"scores": spread * latent[0, :n]})


def judge_distribution(instance: Instance, weights: NDArray[np.float64]) -> Ruling:
    if not np.isfinite(weights).all():
        return Ruling(room=-math.inf, said=f"a weight is not a number: {weights[:4].tolist()}; something overflows")
    ours, total = _floats(instance.given["scores"]), float(weights.sum())
    if abs(total - 1) > 1e-9:
        return Ruling(room=-abs(total - 1), said=f"the weights sum to {format_distinctly(total, 1.0)[0]}, not to 1")
    # relative, but for weights near the end of float64, which no softmax owes any digit
    off = np.abs(weights - ours) / (ours + 1e-290)
    i = int(np.argmax(off))
    yours, right = format_distinctly(weights[i], ours[i])
    return Ruling(room=1e-9 - float(off[i]), said=f"weight {i} is {yours}, and softmax has {right}")


QUESTION = read_question(
    "weights-are-a-distribution",
    shape=lambda given: given["scores"].shape,
    make=some_scores,
    judge=judge_distribution,
    may_be_nan=True,
)

CLAIM = read_claim(__name__)

"""Why several heads overcome one head's weakness."""

from __future__ import annotations

from typing import Any

from regard.coursework.claim import read_claim
from regard.coursework.query_questions import designed_error
from regard.coursework.verdict import Verdict, explained_verdict
from regard.pictures import BLUE, ORANGE


def check_in_words(*, n: int, iso: float, scale: float) -> Verdict:
    one, two = (
        designed_error(n, iso=iso, scale=scale, heads=1, spread=0.5)[0],
        designed_error(n, iso=iso, scale=scale, heads=2, spread=0.5)[0],
    )
    coin = ", near the 1/2 of a coin" if 0.4 < one < 0.6 else ""
    less = f", {one / two:.3g} times less" if two > 0 and one > 1.5 * two else ""
    return explained_verdict(
        "One head must give two keys equal scores, and softmax turns a small difference of large scores into all or "
        f"nothing: its error here is {one:.4g}{coin}. A head of its own for each key needs one score to be ahead, not "
        "two to be equal: whether ahead by 10 or by 30 makes no difference, and the mean of the heads has "
        f"{two:.4g}{less}. What remains are the draws in which the key points backwards, and a head each does not "
        "help against those.",
        one=one,
        two=two,
    )


def draw(made: Any, *, n: int, iso: float, scale: float) -> None:
    bars = {
        "one head,\nnoise a I": (designed_error(n, iso=iso, scale=scale, heads=1)[0], ORANGE),
        "two heads,\nnoise a I": (designed_error(n, iso=iso, scale=scale, heads=2)[0], BLUE),
        "one head,\na I + ½ μμᵀ": (designed_error(n, iso=iso, scale=scale, heads=1, spread=0.5)[0], ORANGE),
        "two heads,\na I + ½ μμᵀ": (designed_error(n, iso=iso, scale=scale, heads=2, spread=0.5)[0], BLUE),
    }
    drawn = made.bar(list(bars), [value for value, _ in bars.values()], color=[colour for _, colour in bars.values()])
    made.bar_label(drawn, [f"{value:.2g}" for value, _ in bars.values()])


CLAIM = read_claim(__name__)

"""What the page on copying explains: attention step by step, and why its surprises are so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.array_types import Float
from regard.lab.copy_state import CopySetup
from regard.lab.page import Explanation, Step, tex

if TYPE_CHECKING:
    from regard.attention import Attention
    from regard.design import Ceiling, Design

AWAY = 0.995  # the cosine between a query and its key below which one sees that they differ
SHOWN = 5  # keys whose numbers are written out, those that are to be copied among them


def attention_steps(bench: CopySetup, own: Attention) -> tuple[Step, ...]:
    """From the query to the output in four steps, with the numbers of the table beside the picture."""
    others = [key for key in range(len(bench.rows)) if key not in bench.chosen]
    few = sorted([*bench.chosen, *others][:SHOWN])
    more = r"\;\dots" * (len(bench.rows) > SHOWN)
    powers = np.exp(own.scores - own.scores.max())
    query = _vector(bench.vector)
    scores = [
        rf"s_{{{i}}} = k_{{{i}}}\cdot q = {_vector(bench.keys[i])}\cdot {query} = {own.scores[i]:.2f}" for i in few
    ]
    exponentials = [
        rf"e^{{s_{{{i}}} - \max s}} = e^{{{own.scores[i] - own.scores.max():.2f}}} = {tex(powers[i])}" for i in few
    ]
    total = tex(powers.sum())
    weights = [rf"\alpha_{{{i}}} = \frac{{{tex(powers[i])}}}{{{total}}} = {own.weights[i]:.4f}" for i in few]
    parts = " + ".join(rf"{own.weights[i]:.3f}\,v_{{{i}}}" for i in few) + (r" + \dots" if more else "")
    return (
        Step(title="Dot products", formulas=(*scores, *([more] if more else [])), lit="score"),
        Step(title="Exponentials", formulas=(*exponentials, *([more] if more else [])), lit="score"),
        Step(title="Normalise", formulas=(rf"\sum_i e^{{s_i - \max s}} = {total}", *weights), lit="weight"),
        Step(title="Weighted sum", formulas=(rf"c = {parts} = {_vector(own.output)}",), lit="output"),
    )


def why_the_shortest(bench: CopySetup, shortest: Design | str | None) -> tuple[Explanation, ...]:
    """Why the shortest query does not point where its key does, where that is so."""
    if isinstance(shortest, str) or shortest is None or len(bench.chosen) != 1:
        return ()
    if shortest.query is None or not shortest.norm:
        return ()
    key = bench.keys[bench.chosen[0]]
    cosine = float(shortest.query @ key) / (shortest.norm * float(np.linalg.norm(key)) or 1.0)
    if cosine > AWAY:
        return ()
    return (
        Explanation(
            question="Why does the shortest query not point at its key?",
            because="Softmax sees only differences of scores, so a query must point away from the other keys more than "
            "towards its own. The shortest one points from a weighted mean of the others, those that come nearest "
            "weighing most, to the key.",
            lit="shortest",
        ),
    )


def why_ceilings_fall(ceilings: list[Ceiling | None]) -> tuple[Explanation, ...]:
    """Why a key in the hull cannot win, where there is one."""
    if not any(ceiling is not None and ceiling.ceiling < 0.5 for ceiling in ceilings):
        return ()
    return (
        Explanation(
            question="Why does a ceiling fall inside the hull?",
            because="A key inside is an average of the others, so its score is the same average of theirs, "
            "whatever the query. An average never exceeds the largest: some other key always has as much attention or "
            "more.",
            lit="hull",
        ),
    )


def _vector(vector: Float) -> str:
    return "(" + ",\\,".join(f"{x:.3g}" for x in vector) + ")"

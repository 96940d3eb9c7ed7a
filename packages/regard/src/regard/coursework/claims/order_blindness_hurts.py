"""The dog bit the man, the man bit the dog."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, ORANGE
from regard.positions import sinusoidal
from regard.rigor import balls
from regard.symmetry import dog_and_man, random_layer
from regard.symmetry.order import enclosed_row


def check_same_outputs_reordered(*, dim: int, seed: int) -> Verdict:
    example = dog_and_man(dim=dim, seed=seed)
    if example.answer:
        return not_refuted_verdict(1, f"The proof and the layer in float64 differ: {example}")
    return holds("proof (order-blindness), and a layer in float64 agrees", str(example))


def check_same_outputs(*, dim: int, seed: int) -> Verdict:
    rng = np.random.default_rng(seed)
    the, dog, bit, man = rng.standard_normal((4, dim))
    layer = random_layer(dim, seed=seed)
    sentences = [np.array([the, a, bit, the, b]) for a, b in ((dog, man), (man, dog))]
    with balls.precise():
        # row 1 has the dog in one sentence and the man in the other
        first, second = (enclosed_row(layer, X, np.zeros((5, dim)), [(0, 1, 2, 3, 4)], 1)[0] for X in sentences)
        apart = [abs(a - b) for a, b in zip(first, second, strict=True)]
    most = max(apart, key=balls.below)
    gap = balls.below(most)
    return refuted_verdict(
        "The rows change places with the words: read at a fixed place, the outputs do differ.",
        witness=Witness(most, ">", 0),
        counterexample=f"row 1 is the dog's in one sentence and the man's in the other; they differ by {gap:.3g} "
        f"(dim {dim})",
        region='for rows 0, 2 and 3 ("the", "bit", "the"), whose words stay',
        correction="The dog's output is the same whether it bites or is bitten. What is lost is who does what, not "
        "which words there are: any function of the set of rows (a mean, a sum) gives the same for both sentences.",
    )


def draw(made: Any, *, dim: int, seed: int) -> None:
    plain = dog_and_man(dim=dim, seed=seed)
    placed = dog_and_man(sinusoidal(5, dim), dim=dim, seed=seed)
    at = np.arange(5)
    # a difference of exactly 0 has no place on a logarithmic axis
    made.bar(at - 0.2, np.maximum(plain.differences, 1e-17), 0.4, color=BLUE, label="no positions: rounding only")
    made.bar(at + 0.2, np.maximum(placed.differences, 1e-17), 0.4, color=ORANGE, label="sinusoidal positions added")
    made.set_xticks(at, plain.words)
    made.set_ylim(1e-17, 1e3)


CLAIM = read_claim(__name__)

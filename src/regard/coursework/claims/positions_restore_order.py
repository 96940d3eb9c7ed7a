"""What positions do to order-blindness: exactly what is and is not equivariant afterwards."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from regard.coursework.claim import Claim
from regard.coursework.parameters import Parameter
from regard.coursework.question import LARGEST, Instance, Question, Ruling, sized
from regard.coursework.sources import Source
from regard.coursework.verdict import Reading, Verdict, holds, not_refuted, refuted
from regard.pictures import BLUE, ORANGE, axes

EXACTLY = (
    "g(X) = f(X + Phi) satisfies g(P X) = P f(X + P^T Phi) always; g(P X) = P g(X) for all X if P Phi = Phi, and "
    "only then where "
    "W_Q W_K^T is not 0, W_V is one-to-one and so is the feed-forward network. Sinusoidal positions are distinct, so "
    "only P = I is left."
)


def _gaps(length: int, dim: int, seed: int, layer: Any, Phi: Any) -> tuple[float, int]:
    """The least over permutations P != I of max |g(PX) - P g(X)| on one random X, and how many P were tried."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((length, dim))
    Z, least = layer(X + Phi), np.inf
    tried = [p for p in itertools.permutations(range(length)) if list(p) != list(range(length))]
    for p in tried:
        order = list(p)
        least = min(least, float(np.abs(layer(X[order] + Phi) - Z[order]).max()))
    return least, len(tried)


def ends_it(*, length: int, dim: int, seed: int) -> Verdict:
    from regard.positions import sinusoidal
    from regard.symmetry import random_layer

    least, tried = _gaps(length, dim, seed, random_layer(dim, seed=seed), sinusoidal(length, dim))
    if least < 1e-9:
        return refuted(
            "A permutation survived.",
            counterexample=f"length {length}, dim {dim}, seed {seed}: difference {least:.3g}",
            region="when positions are distinct and the layer is one-to-one in its values",
            correction=EXACTLY,
        )
    return holds(
        f"a witness for each of the {tried:,} permutations, far beyond rounding",
        f"On one random X every permutation but the identity breaks g(PX) = P g(X), by {least:.3g} at least.",
        region="for layers with W_Q W_K^T not 0, W_V and the feed-forward network one-to-one: exactly the P with P "
        "Phi = Phi are "
        "left (proved)",
    )


def for_every_layer(*, length: int, dim: int, seed: int) -> Verdict:
    from dataclasses import replace

    from regard.positions import sinusoidal
    from regard.symmetry import random_layer

    flat = replace(random_layer(dim, seed=seed), W_Q=np.zeros((dim, dim)))
    rng = np.random.default_rng(seed)
    X, Phi = rng.standard_normal((length, dim)), sinusoidal(length, dim)
    order = np.roll(np.arange(length), 1)  # never the identity
    gap = float(np.abs(flat(X[order] + Phi) - flat(X + Phi)[order]).max())
    if gap > 1e-9:
        return not_refuted(1, f"With W_Q = 0 the two sides still differ, by {gap:.3g}.")
    return refuted(
        "With W_Q = 0 all scores are equal, every row of H is the mean of all values, and that mean forgets the order.",
        counterexample=f"W_Q = 0, any length and dim: g(PX) = P g(X) for every P (here to {gap:.1g}); W_V = 0 does "
        "it too",
        region="for layers with W_Q W_K^T not 0, W_V and the feed-forward network one-to-one",
        correction=EXACTLY,
    )


def with_their_positions(*, length: int, dim: int, seed: int) -> Verdict:
    from regard.positions import sinusoidal
    from regard.symmetry import random_layer

    rng, layer = np.random.default_rng(seed), random_layer(dim, seed=seed)
    X, Phi = rng.standard_normal((length, dim)), sinusoidal(length, dim)
    order = np.roll(np.arange(length), 1)  # never the identity
    gap = float(np.abs(layer((X + Phi)[order]) - layer(X + Phi)[order]).max())
    if gap > 1e-9:
        return refuted(
            f"The two sides differ by {gap:.3g}.",
            counterexample=f"seed {seed}",
            region="not known",
            correction="see order-blindness",
        )
    return holds("proof (order-blindness of f)", f"f(P (X + Phi)) = P f(X + Phi), here to {gap:.1g} in float64.")


def prove(*, length: int, dim: int, seed: int) -> str:
    return f"""\
f is the layer, f(PY) = P f(Y) by order-blindness, g(X) = f(X + Phi).

Always: g(PX) = f(PX + Phi) = f(P (X + P^T Phi)) = P f(X + P^T Phi). So if P Phi = Phi, then g(PX) = P g(X) for all
X. Reordering rows together with their positions changes nothing but the order.

Only then: let g(PX) = P g(X) for all X, that is f(Y + E) = f(Y) for all Y, with E = P^T Phi - Phi. Let the
feed-forward network and W_V be one-to-one, so the attention averages agree: sum_j a_ij(Y) y_j = sum_j a_ij(Y +
E)(y_j + e_j) for every i. Let B = W_Q W_K^T be not 0.

Fix a row m, choose another row i and vectors x, y with x B y^T > 0 and, by lengthening y, x B y^T > x B x^T. Let row
i of Y be t x, row m be t y and the others 0. In row i the score of m leads all others by a multiple of t^2, and by
almost as much after adding E, which changes scores by a multiple of t only. So a_im -> 1 so fast that the equation
reads t y + o(1) = t y + e_m + o(1) as t grows: e_m = 0. As m was any row, E = 0, that is P Phi = Phi. (One row alone
has no P but I.)

Sinusoidal rows are distinct (positions-are-distinct), so P Phi = Phi only for P = I. Here: {length} rows, {dim}
dimensions."""


def draw(figure: Any, *, length: int, dim: int, seed: int) -> None:
    from regard.positions import sinusoidal
    from regard.symmetry import random_layer

    made = axes(
        figure,
        title="Swapping two rows: how far is g(PX) from P g(X)?",
        xlabel="rows apart",
        ylabel="largest difference",
        yscale="log",
        ylim=(1e-17, 1e2),
    )
    rng, layer = np.random.default_rng(seed), random_layer(dim, seed=seed)
    X = rng.standard_normal((32, dim))
    for Phi, colour, mark, label in (
        (np.zeros((32, dim)), BLUE, "o", "no positions: rounding only"),
        (sinusoidal(32, dim), ORANGE, "s", "sinusoidal positions"),
    ):
        gaps = []
        for apart in range(1, 32):
            order = np.arange(32)
            order[[0, apart]] = apart, 0
            gaps.append(max(float(np.abs(layer(X[order] + Phi) - layer(X + Phi)[order]).max()), 1e-17))
        made.plot(range(1, 32), gaps, mark, ms=4, color=colour, label=label)
    made.legend(frameon=False, loc="center right")


# your own answer


def two_inputs(latent: Any, *, length: int, dim: int) -> Instance:
    X, other = latent[:length, :dim], latent[1 : length + 1, 2 : dim + 2]
    return Instance(given={"X": X}, again={"X": other})


def told_apart(instance: Instance, encoded: Any, again: Any) -> Ruling:
    Phi, other = encoded - instance.given["X"], again - (instance.again or {})["X"]
    size = 1 + float(np.abs(Phi).max())
    changed = float(np.abs(Phi - other).max())
    if changed > 1e-9 * size:
        return Ruling(
            room=-changed, said=f"what it adds depends on X: two inputs of this shape differ by {changed:.3g}"
        )
    apart = np.linalg.norm(Phi[:, None] - Phi[None], axis=2) + np.where(np.eye(len(Phi)), np.inf, 0.0)
    i, j = sorted(int(at) for at in np.unravel_index(int(apart.argmin()), apart.shape))
    said = f"rows {i} and {j} get the same position, so exchanging them only exchanges their outputs"
    return Ruling(room=float(apart[i, j]) / size - 1e-9, said=said)


QUESTION = Question(
    function="encode",
    arguments={"X": "an n x d array, a token a row; d is even"},
    task="X with positions added to it: X + Phi, where Phi depends on nothing but the shape of X and no two rows of it "
    "are equal, so that no reordering of the tokens passes unnoticed.",
    returns="X + Phi, an n x d array",
    shape=lambda given: given["X"].shape,
    sizes=(
        sized("length", "how many rows", (2, 3, 5, 20, 100), whole=True, least=2, most=LARGEST),
        sized("dim", "dimension", (2, 4, 8, 32), even=True, least=2, most=256),
    ),
    make=two_inputs,
    judge=told_apart,
    decided="Positions were compared in float64: equal to 1e-9 of their size counts as equal, for rounding. Distinct "
    "positions end order-blindness wherever the layer can show it (see --proof).",
)

CLAIM = Claim(
    name="positions-restore-order",
    topic="order",
    statement="Adding sinusoidal positions to X ends order-blindness; say exactly what is and is not equivariant "
    "afterwards.",
    formula="g(X) = f(X + Phi):  g(P X) != P g(X) in general",
    sources=(Source("sequence-models-hw3", "4(b)i"), Source("cs224n-w25-a4", "2-2i")),
    parameters=(
        Parameter(name="length", default=5, meaning="how many rows", whole=True, least=2, most=6),
        Parameter(name="dim", default=8, meaning="dimension", even=True, least=2, most=256),
        Parameter(name="seed", default=0, meaning="of the rows and weights", whole=True, least=0, most=10**6),
    ),
    readings=(
        Reading(
            name="some layer and X",
            statement="For a layer with random weights every P != I breaks g(PX) = P g(X) on some X.",
            check=ends_it,
        ),
        Reading(
            name="every layer",
            statement="For every layer some P breaks g(PX) = P g(X).",
            check=for_every_layer,
        ),
        Reading(
            name="rows with their positions",
            statement="Reordering rows together with their positions still only reorders the outputs.",
            check=with_their_positions,
        ),
    ),
    prove=prove,
    draw=draw,
    question=QUESTION,
)

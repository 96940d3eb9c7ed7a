"""What positions do to order-blindness: exactly what is and is not equivariant afterwards."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import Instance, Ruling, read_question
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, ORANGE
from regard.positions import sinusoidal
from regard.rigor import balls
from regard.symmetry import random_layer
from regard.symmetry.order import blind_layer, enclosed_row, invertible, seen_orders
from regard.written_numbers import at_least, at_most, in_full

MOST_WORK = 200_000  # permutations times dim^2 whose outputs are enclosed within some seconds
EXACTLY = (
    "$g(X) = f(X + Phi)$ satisfies $g(P X) = P f(X + P^T Phi)$ always; $g(P X) = P g(X)$ for all $X$ if $P Phi = "
    "Phi$, and only then where $W_Q W_K^T$ is not 0 and the square $W_V$, $W_1$ and $W_2$ are invertible. Sinusoidal "
    "positions are distinct, so only $P = I$ is left."
)


def check_the_sets_layers(*, length: int, dim: int, seed: int) -> Verdict:
    layer = random_layer(dim, hidden=dim, seed=seed)
    if not all(invertible(matrix) for matrix in (layer.W_V, layer.W_1, layer.W_2)):
        return not_refuted_verdict(1, "These weights could not be shown to be invertible; take another seed.")
    seen = seen_orders(layer, sinusoidal(length, dim))
    return holds(
        f"proof; for each of {seen.orders:,} permutations the proof's own input, enclosed",
        "Far out, where every unit is active, the ReLU is no obstacle: row $i$ of $g(PX) - P g(X)$ tends to a "
        "position's change times $W_V W_1 W_2$. In a layer with random square weights it is at least "
        f"{at_least(seen.least, 3)} for every $P$, and equal to that limit to {at_most(seen.off, 1)} (inputs of "
        f"length up to {in_full(seen.farthest)}).",
        region="for $W_Q W_K^T$ not 0 and square, invertible $W_V$, $W_1$, $W_2$, whatever the biases: exactly the "
        "$P$ with $P Phi = Phi$ are left",
        tightness="none of the four conditions can be left out (the reading 'every $layer'$). That the feed-forward "
        "part be one-to-one would be too much: no ReLU layer with square $W_1$ and $W_2$ is",
        least=seen.least,
    )


def check_some_layer(*, length: int, dim: int, seed: int) -> Verdict:
    layer, Phi = random_layer(dim, seed=seed), sinusoidal(length, dim)
    X = np.random.default_rng(seed).standard_normal((length, dim))
    stays, *orders = itertools.permutations(range(length))
    if len(orders) * dim**2 > MOST_WORK:
        Z = layer(X + Phi)
        least = min(float(np.abs(layer(X[list(p)] + Phi) - Z[list(p)]).max()) for p in orders)
        return not_refuted_verdict(
            len(orders), f"In float64 every $P$ breaks it on one random $X$, by {at_least(least, 3)} at least."
        )
    with balls.precise():
        here, *there = enclosed_row(layer, X, Phi, [stays, *orders], 0)
        gaps = [max(balls.below(abs(a - b)) for a, b in zip(row, here, strict=True)) for row in there]
    if not min(gaps) > 0:
        return not_refuted_verdict(len(orders), "The enclosures of one row did not tell every reordering from none.")
    return holds(
        f"an enclosed witness for each of the {len(orders):,} permutations",
        f"On one random $X$ every permutation but the identity breaks $g(PX) = P g(X)$, by {at_least(min(gaps), 3)} at "
        "least in one row.",
        region="for this layer, whose feed-forward part is four times as wide as its input; far out such a layer is "
        "one-to-one wherever the active units' $W_1 W_2$ is invertible",
    )


def _order_blind_layers(length: int, dim: int, seed: int, Phi: Any) -> dict[str, Any]:
    """Layers that see no order, each with one of the theorem's four conditions left out and the others kept."""
    layer, nothing = random_layer(dim, hidden=dim, seed=seed), np.zeros((dim, dim))
    if length <= dim:  # else the differences of the positions may span everything, and W_V has nowhere to look
        look_away = {"W_V": blind_layer(Phi), "W_1": blind_layer(Phi, dull="W_1")}
    else:
        look_away = {"W_V": replace(layer, W_V=nothing), "W_1": replace(layer, W_1=nothing)}
    return {"W_Q W_K^T": replace(layer, W_Q=nothing), **look_away, "W_2": replace(layer, W_2=nothing)}


def check_every_layer(*, length: int, dim: int, seed: int) -> Verdict:
    rng = np.random.default_rng(seed)
    X, Phi = rng.standard_normal((length, dim)), sinusoidal(length, dim)
    order = np.roll(np.arange(length), 1)  # never the identity
    gap = 0.0
    for dull in _order_blind_layers(length, dim, seed, Phi).values():
        gap = max(gap, float(np.abs(dull(X[order] + Phi) - dull(X + Phi)[order]).max()))
    if gap > 1e-9:
        return not_refuted_verdict(1, f"One of the layers that should see nothing does, by {gap:.3g}.")
    looks_away = (
        "$W_V$, or $W_1$, a projection that removes the differences of the positions, as $W_Q = W_K$ do ($length <= "
        "dim$), "
        if length <= dim
        else "$W_V = 0$, or $W_1 = 0$, "
    )
    return refuted_verdict(
        "With $W_Q = 0$ all scores are equal, every row of $H$ is the mean of all values, and that mean forgets the "
        "order. Each of the other three conditions can be broken alone, too.",
        # with W_Q = 0 a row is a function of the sum of all rows of X + Phi, exactly
        witness=tuple(
            Witness(_sum([*X[order, j], *Phi[:, j]]), "==", _sum([*X[:, j], *Phi[:, j]])) for j in range(dim)
        ),
        counterexample=f"$W_Q = 0$, any length and dim: $g(PX) = P g(X)$ for every $P$; likewise {looks_away}or $W_2 "
        f"= 0$ (here all to {gap:.1g})",
        region="for $W_Q W_K^T$ not 0 and square, invertible $W_V$, $W_1$, $W_2$",
        correction=EXACTLY,
    )


def _sum(column: list[float]) -> Fraction:
    return sum(map(Fraction, column), Fraction(0))


def check_rows_with_positions(*, length: int, dim: int, seed: int) -> Verdict:
    rng, layer = np.random.default_rng(seed), random_layer(dim, seed=seed)
    X, Phi = rng.standard_normal((length, dim)), sinusoidal(length, dim)
    order = np.roll(np.arange(length), 1)  # never the identity
    gap = float(np.abs(layer((X + Phi)[order]) - layer(X + Phi)[order]).max())
    if gap > 1e-9:
        return not_refuted_verdict(1, f"The proof and a layer in float64 differ, by {gap:.3g}.")
    return holds("proof (order-blindness of $f$)", f"$f(P (X + Phi)) = P f(X + Phi)$, here to {gap:.1g} in float64.")


def draw(made: Any, *, length: int, dim: int, seed: int) -> None:
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


# your own answer


def two_inputs(latent: Any, *, length: int, dim: int) -> Instance:
    X, other = latent[:length, :dim], latent[1 : length + 1, 2 : dim + 2]
    return Instance(given={"X": X}, again={"X": other})


def judge_positions(instance: Instance, encoded: Any, again: Any) -> Ruling:
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


QUESTION = read_question(
    "positions-restore-order",
    shape=lambda given: given["X"].shape,
    make=two_inputs,
    judge=judge_positions,
)

CLAIM = read_claim(__name__)

"""Self-attention does not see the order of its rows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import Instance, Ruling, read_question
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.layers import block
from regard.pictures import finish
from regard.symmetry import lemmas, random_layer, symmetry

Rows = list[list[Fraction]]
SIZE = 4  # rows; all 24 permutations are tried
WIDTH = 4  # sqrt(4) = 2: the scale 1/sqrt(d) is a fraction too


def matrix_product(A: Rows, B: Rows) -> Rows:
    return [
        [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in zip(*B, strict=True)]
        for row in A
    ]


def exact_softmax(row: list[Fraction], seen: int) -> list[Fraction]:
    """3^s / sum 3^s in fractions: any positive function in the place of e^s makes the same identity."""
    raised = [Fraction(3) ** int(s) if j < seen else Fraction(0) for j, s in enumerate(row)]
    return [x / sum(raised) for x in raised]


def exact_layer(X: Rows, W: list[Rows], b_1: list[Fraction], b_2: list[Fraction], *, causal: bool) -> Rows:
    """The coursework's whole layer Z(X) in fractions, softmax with base 3; ``causal`` hides later rows."""
    Q, K, V = (matrix_product(X, M) for M in W[:3])
    scores = [[s / 2 for s in row] for row in matrix_product(Q, [list(k) for k in zip(*K, strict=True)])]
    H = matrix_product([exact_softmax(row, i + 1 if causal else len(row)) for i, row in enumerate(scores)], V)
    hidden = [[max(h + b, Fraction(0)) for h, b in zip(row, b_1, strict=True)] for row in matrix_product(H, W[3])]
    return [[z + b for z, b in zip(row, b_2, strict=True)] for row in matrix_product(hidden, W[4])]


def _whole(rng: np.random.Generator, rows: int, columns: int, *, even: bool = False) -> Rows:
    return [[Fraction(int(x) * (2 if even else 1)) for x in row] for row in rng.integers(-2, 3, (rows, columns))]


def check_exactly(*, causal: int, seed: int) -> Verdict:
    rng = np.random.default_rng(seed)
    # W_Q even: scores over sqrt(4) are then whole, and 3^s is a fraction
    W = [_whole(rng, WIDTH, WIDTH, even=k == 0) for k in range(3)] + [_whole(rng, WIDTH, 5), _whole(rng, 5, WIDTH)]
    b_1, b_2, X = _whole(rng, 1, 5)[0], _whole(rng, 1, WIDTH)[0], _whole(rng, SIZE, WIDTH)

    def layer(rows: Rows) -> Rows:
        return exact_layer(rows, W, b_1, b_2, causal=bool(causal))

    Z, tried = layer(X), list(itertools.permutations(range(SIZE)))
    for P in tried:
        moved, stayed = layer([X[i] for i in P]), [Z[i] for i in P]
        if moved != stayed:
            apart = sum(
                abs(a - b) for one, other in zip(moved, stayed, strict=True) for a, b in zip(one, other, strict=True)
            )
            return refuted_verdict(
                "A mask that depends on the position is not order-blind.",
                witness=Witness(apart, ">", 0),
                counterexample=f"{SIZE} whole rows (seed {seed}), permutation {P}: $Z(PX)$ and $P Z(X)$ differ in "
                "exact fractions, with $3^s$ in the place of $e^s$ ($W_Q$ times $ln 3$)",
                region="without a mask, or with one that $P$ leaves alone",
                correction="$Z(PX) = P Z(X)$ for every $P$ where every row may attend to every row.",
            )
    if causal:
        return not_refuted_verdict(len(tried), "The mask made no difference to these rows.")
    return holds(
        f"proof; the whole layer in exact fractions agrees for all {len(tried)} permutations",
        f"$Z(PX) = P Z(X)$ on {SIZE} rows of whole numbers, softmax with $3^s$ in the place of $e^s$.",
        region="for every $n$, every permutation and all weights; not with a causal mask (--set causal=1)",
    )


def check_lemmas(*, causal: int, seed: int) -> Verdict:
    proved = lemmas(seed=seed)
    if not proved.answer:
        return not_refuted_verdict(1, f"The proof and the arithmetic differ: {proved}")
    return holds("proof; exact arithmetic on one random case agrees", proved.marked_text)


def check_in_float64(*, causal: int, seed: int) -> Verdict:
    weights = dataclasses.asdict(random_layer(16, seed=seed))
    seen = np.tri(32, dtype=bool) if causal else None

    def layer(X: Any) -> Any:
        return block(X, **weights, allowed=seen).output

    measured = symmetry(layer, length=32, dim=16, trials=100, seed=seed)
    if causal and not measured.order_blind:
        return refuted_verdict(
            str(measured),
            # the floats as they are; half a unit in the last place of the difference is far within the factor 2
            witness=Witness(Fraction(measured.gap), ">", 2 * Fraction(1, 10**9) * Fraction(measured.size)),
            counterexample=f"the rows and weights of seed {seed}",
            region="without a mask, or with one that $P$ leaves alone",
            correction="$Z(PX) = P Z(X)$ for every $P$ where every row may attend to every row: see the proof.",
        )
    return not_refuted_verdict(100, f"{measured} Bit for bit it need not hold: sums are added in another order.")


def draw(figure: Any, *, causal: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X, layer = 3 * rng.standard_normal((6, 6)), random_layer(6, seed=seed)  # large, so that rows attend to few
    P = rng.permutation(6)
    parts = (("$X$", X), ("$P X$", X[P]), ("$Z(X)$", layer(X)), ("$Z(P X) = P Z(X)$", layer(X[P])))
    for made, (title, rows) in zip(figure.subplots(1, 4), parts, strict=True):
        made.imshow(rows, cmap="PuOr", vmin=-6, vmax=6, aspect="auto")
        order = P if "P X" in title else range(6)
        finish(made, title=title, xticks=[], yticks=range(6))
        made.set_yticklabels([f"row {i}" for i in order] if "X" in title else [])


# your own answer


def rows_and_weights(latent: Any, *, length: int, d: int) -> Instance:
    """Blocks along the diagonal of the latent, so that the identity gives identities."""
    W = [latent[k : k + d, k : k + d] for k in (1, 2, 3)]
    up, down = latent[4 : 4 + d, 4 : 5 + d], latent[5 : 6 + d, 5 : 5 + d]
    X, P = latent[:length, :d], np.argsort(latent[:length, 0], kind="stable")
    weights = {"W_Q": W[0], "W_K": W[1], "W_V": W[2], "W_1": up, "b_1": latent[6:7, 6 : 7 + d], "W_2": down}
    given = {"X": X, **weights, "b_2": latent[7:8, 7 : 7 + d]}  # rows, so that 1 b_1 is ones((n, 1)) @ b_1
    return Instance(given=given, again={**given, "X": X[P]}, hidden={"P": P})


def judge_layer(instance: Instance, Z: Any, again: Any) -> Ruling:
    given = instance.given
    ours = block(**{name: value[0] if name in ("b_1", "b_2") else value for name, value in given.items()}).output
    size = 1 + float(np.abs(ours).max())
    moved, off = float(np.abs(again - Z[instance.hidden["P"]]).max()), float(np.abs(Z - ours).max())
    named = usual_mistakes(given, Z, 1e-8 * size) if off > 1e-8 * size else []
    why = f"; {' or '.join(named[:2])} would give this Z" if named else ""
    if moved > 1e-8 * size:
        return Ruling(room=-moved, said=f"it is not order-blind: Z(P X) and P Z(X) differ by {moved:.3g}{why}")
    return Ruling(room=1e-8 - off / size, said=f"it is order-blind, but another layer: Z differs by {off:.3g}{why}")


def usual_mistakes(given: Mapping[str, Any], Z: Any, allowed: float) -> list[str]:
    """Which of the known mistakes of a layer gives these numbers; one row or one column would not tell them apart."""
    if min(given["X"].shape) < 2:
        return []
    from regard.mistakes.layer import RIGHT, Values, attention, feed_forward, mistakes_of_stage
    from regard.tracing.parameter_roles import Projection, Roles

    queries, keys, values = (Projection(weight=given[name]) for name in ("W_Q", "W_K", "W_V"))
    layers = [Projection(weight=given[f"W_{n}"], bias=given[f"b_{n}"][0]) for n in (1, 2)]
    whole = Roles(queries=queries, keys=keys, values=values, inner=layers[0], outer=layers[1])
    bare = [dataclasses.replace(one, bias=None) for one in layers]
    without = {
        "no bias b_1": dataclasses.replace(whole, inner=bare[0]),
        "no bias b_2": dataclasses.replace(whole, outer=bare[1]),
    }
    tried: dict[str, dict[str, Any]] = {
        f"a residual ({where})": {where: None} for where in ("X added to H", "H added to Z", "X added to Z")
    }
    tried |= {
        one.said: dict(one.replaces)
        for stage in ("attention", "feed-forward")
        for one in mistakes_of_stage(stage)
        if one.cost and one.step != "mask" and not {"heads", "head", "batch", "states"} & {*one.name.split("-")}
    }
    tried |= {said: {} for said in without}
    later = {"mask": lambda scores, ok, low: np.where(np.tri(scores.shape[-1]) > 0, scores, -np.inf)}
    tried["a mask that hides later rows"] = later
    found = []
    for said, steps in tried.items():
        x, roles = Values(known={"x": given["X"][None]}), without.get(said, whole)
        try:
            with np.errstate(all="ignore"):
                c = attention(roles, x, {**RIGHT, **steps})
                y = c + x["x"] if "X added to H" in steps else c
                f = feed_forward(roles, x.with_value("m", c).with_value("y", y), {**RIGHT, **steps})
        except (ValueError, LookupError):
            continue
        f = f + y if "H added to Z" in steps else f + x["x"] if "X added to Z" in steps else f
        if f[0].shape == Z.shape and np.abs(f[0] - Z).max() <= allowed:
            found.append(said)
    return found


QUESTION = read_question(
    "order-blindness",
    shape=lambda given: given["X"].shape,
    make=rows_and_weights,
    judge=judge_layer,
)

CLAIM = read_claim(__name__)

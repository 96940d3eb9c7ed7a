"""Can attention average any subset of the values?"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.query_questions import orthonormal_rows, query_question
from regard.coursework.question import Instance
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.errors import InputError
from regard.pictures import BLUE, GREEN, GREY, VERMILION, finish
from regard.rigor import balls
from regard.written_numbers import at_most

SQUARE = [[1, 1], [1, -1], [-1, -1], [-1, 1]]  # in order around, so that 0 and 2 are opposite
FACES = (
    "Any keys: a subset can be averaged within every $eps$ exactly when it is the set of keys on a face of their "
    "convex hull. For affinely independent keys (orthonormal ones, for example) that is every subset."
)


def check_orthonormal_keys(*, n: int, s: int, eps: float) -> Verdict:
    _refuse(n, s)
    if s == n:
        return holds("proof", "All keys: $q = 0$ gives each exactly $1/n$.", region="for every subset")
    T = math.log((n - s) / eps)
    with balls.precise():
        # a hair beyond T, since at T the two sides are equal and no enclosure can tell
        total = balls.rest(balls.ball(T * (1 + 1e-12) + 1e-12), [(n - s, 0)])
        if not total < balls.ball(eps):
            return not_refuted_verdict(1, "The enclosure did not confirm the proof.")
    return holds(
        "proof, and an enclosure at this $n$, $s$ and $eps$",
        f"$q = T$ (sum of the chosen keys), $T = ln((n-s)/eps) = {T:.6g}$, gives each of the {s} the weight "
        f"$1/(s+eps) = {1 / (s + eps):.6g}$.",
        region="for every subset, and for all affinely independent keys (with a longer query)",
        tightness=f"this query has norm {max(T, 0) * math.sqrt(s):.6g}; the shortest "
        f"{max(T, 0) * math.sqrt(s * (n - s) / n):.6g}",
        scale=T,
    )


def check_arbitrary_keys(*, n: int, s: int, eps: float) -> Verdict:
    from regard import design  # the list of claims does without

    diagonal, line = design.share(SQUARE, [0, 2], eps=0.01), design.share([[0.0], [1.0], [2.0]], [0, 2], eps=0.01)
    if diagonal.reachable or line.reachable:
        return not_refuted_verdict(2, "The solver did not rule the two examples out.")
    return refuted_verdict(
        f"Certified by the solver: at most {at_most(line.bound or 0.0, 6)} for the ends of three keys in a line, at "
        f"most {at_most(diagonal.bound or 0.0, 6)} for opposite corners of a square.",
        witness=(
            Witness(2 * 1, "==", 0 + 2),  # the middle key of the line is the mean of the ends
            *(Witness(a + c, "==", b + d) for a, b, c, d in zip(*SQUARE, strict=True)),
            Witness(1 / (2 + Fraction(1, 100)), ">", Fraction(1, 3)),  # what eps = 0.01 asks for, and what there is
        ),
        counterexample="$n = 3$, keys 0, 1, 2 on a line, subset {0, 2}: $s_1 = (s_0 + s_2)/2$, so $alpha_1 >= "
        "min(alpha_0, alpha_2)$ and the least share is at most 1/3. Unit keys: opposite corners of a square, $s_0 + "
        "s_2 = s_1 + s_3$, so at most 1/4",
        region="exactly for the subsets that are the keys of a face of the hull",
        correction=FACES,
    )


def check_faces_of_a_square(*, n: int, s: int, eps: float) -> Verdict:
    from regard import design  # as above

    faces = [{0}, {1}, {2}, {3}, {0, 1}, {1, 2}, {2, 3}, {0, 3}, {0, 1, 2, 3}]
    subsets = [set(S) for k in range(1, 5) for S in itertools.combinations(range(4), k)]
    wrong = [S for S in subsets if design.share(SQUARE, sorted(S), eps=0.01).reachable != (S in faces)]
    if wrong:
        return not_refuted_verdict(
            len(subsets), f"The solver and the proof differ at the subset {wrong[0]} of a square."
        )
    return holds(
        "proof; the solver's certificates for all 15 subsets of a square agree",
        "4 corners, 4 edges and the whole square can be averaged; the 2 diagonals and 4 triples cannot.",
    )


def _refuse(n: int, s: int) -> None:
    if s > n:
        raise InputError(f"average-of-any-subset: a subset of n = {n} keys cannot have s = {s}; choose s up to n.")


def proof_numbers(*, n: int, s: int, eps: float) -> dict[str, object]:
    _refuse(n, s)
    T = math.log((n - s) / eps) if s < n else 0.0
    return {"T": T, "share": 1 / (s + (eps if s < n else 0))}


def draw(figure: Any, *, n: int, s: int, eps: float) -> None:
    left, right = figure.subplots(1, 2)
    corners = np.array(SQUARE)
    pictures = (
        (left, (0, 1), GREEN, "an edge: can be averaged,\neach up to 1/2"),
        (right, (0, 2), VERMILION, "a diagonal: cannot,\neach at most 1/4"),
    )
    for made, chosen, colour, title in pictures:
        made.fill(*corners.T, color=BLUE, alpha=0.12, lw=0)
        made.plot(*corners.T, "o", color=GREY, ms=9)
        made.plot(*corners[list(chosen)].T, "-o", color=colour, ms=12, lw=2)
        finish(made, title=title, aspect="equal", xlim=(-1.5, 1.5), ylim=(-1.5, 1.5), xticks=[], yticks=[])
        made.spines[:].set_visible(False)


# your own answer


def some_of_the_keys(latent: Any, *, n: int, s: int, extra: int, eps: float) -> Instance:
    subset = np.argsort(-latent[0, :n], kind="stable")[:s]  # in any order
    return Instance(given={"keys": orthonormal_rows(latent, n, extra), "subset": subset, "eps": eps})


QUESTION = query_question(
    "average-of-any-subset",
    lambda given: given["subset"].tolist(),
    fits=lambda n, s, extra, eps: s <= n,
    make=some_of_the_keys,
)

CLAIM = read_claim(__name__)

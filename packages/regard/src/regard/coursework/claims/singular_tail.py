"""The k-th singular value is at most the Frobenius norm over sqrt(k)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.coursework.claim import read_claim
from regard.coursework.question import Best, Instance, Ruling, bound_ruling, format_distinctly, read_question
from regard.coursework.verdict import Verdict, Witness, holds, refuted_verdict
from regard.lowrank import statements
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.written_numbers import in_full


def climb(matrix: Float, k: int, *, steps: int = 300) -> Float:
    """Gradient ascent of k sigma_k^2 / ||A||_F^2: the derivative of sigma_k by A is u_k v_k^T."""
    for _ in range(steps):
        matrix = matrix / np.linalg.norm(matrix)
        u, s, vt = np.linalg.svd(matrix, full_matrices=False)
        # values that are nearly sigma_k rise with it: alone it would only change places with them
        gradient = sum(
            (np.outer(u[:, i], vt[i]) for i in range(k) if s[i] < s[k - 1] * (1 + 1e-3)), np.zeros(matrix.shape)
        )
        matrix = matrix + 0.05 * (gradient - matrix * np.sum(gradient * matrix))
    return matrix / np.linalg.norm(matrix)


def check_as_stated(*, rows: int, columns: int, k: int, factor: float) -> Verdict:
    if factor < 1:
        return refuted_verdict(
            f"The ${k} x {k}$ identity has $k sigma_k^2 = ||A||_F^2$, and {in_full(factor)} times that is less.",
            witness=Witness(1, ">", Fraction(factor)),
            counterexample=f"A the ${k} x {k}$ identity: $sigma_{k}^2 = 1$ and $||A||_F^2/{k} = 1$, more than "
            f"{in_full(factor)}",
            region="for factors of 1 and more",
            correction="$sigma_k^2 <= ||A||_F^2/k$: see the proof.",
        )
    return holds(
        "proof",
        f"$k sigma_k^2 <= sigma_1^2 + ... + sigma_k^2 <= ||A||_F^2 (k = {k})$.",
        region="for every matrix and every $k >= 1$; beyond the rank $sigma_k = 0$",
        tightness="attained exactly by matrices with $k$ equal singular values and no others, for the factor 1"
        + _climb_sentence(rows, columns, k),
    )


def _climb_sentence(rows: int, columns: int, k: int) -> str:
    """How near an adversary comes to equality, in words; nothing where sigma_k is 0."""
    small = (min(rows, 12), min(columns, 12))  # each of the climb's steps is a decomposition
    if k > min(small):
        return ""
    reached = float(statements(climb(np.random.default_rng(0).standard_normal(small), k)).tail[k - 1]) ** 2
    return f"; an adversary's climb from a random ${small[0]} x {small[1]}$ matrix reached {reached:.6g} of it"


def proof_numbers(*, rows: int, columns: int, k: int, factor: float) -> dict[str, object]:
    matrix = np.random.default_rng(0).standard_normal((rows, columns))
    sigma, norm = np.linalg.svd(matrix, compute_uv=False), float(np.sum(matrix**2))
    own = f"{sigma[k - 1] ** 2:.6g}" if k <= len(sigma) else "0"
    return {"own": own, "bound": norm / k}


def draw(made: Any, *, rows: int, columns: int, k: int, factor: float) -> None:
    at = np.arange(1, min(rows, columns) + 1)
    made.plot(at, at**-0.5, "--", color=VERMILION, label="$1/sqrt(k)$, the bound")
    rng = np.random.default_rng(0)
    for decay, colour, mark, label in ((0.0, BLUE, "o", "random"), (1.0, ORANGE, "s", "columns falling like $1/j$")):
        matrix = rng.standard_normal((rows, columns)) * np.arange(1, columns + 1.0) ** -decay
        sigma = np.linalg.svd(matrix, compute_uv=False)
        made.plot(at, sigma / np.linalg.norm(matrix), "-", marker=mark, ms=4, color=colour, label=label)


# your own answer


def judge_bound(instance: Instance, bound: float) -> Ruling:
    norm, k = instance.given["norm"], instance.given["k"]
    value = float(norm / np.sqrt(k))
    sigma, yours = format_distinctly(value, bound)
    return bound_ruling(
        value / max(bound, 1e-300),  # a bound of 0 or less loses, without being divided by
        1.0,
        f"{sigma} times the {k} x {k} identity has the Frobenius norm {norm:g} and sigma_{k} = {sigma}, "
        f"above your {yours}",
    )


QUESTION = read_question(
    "singular-tail",
    judge=judge_bound,
    measure="it is {} the smallest bound that is true (attained)",
    best=lambda instance, bound: Best(yours=bound, best=float(instance.given["norm"] / np.sqrt(instance.given["k"]))),
)

CLAIM = read_claim(__name__)

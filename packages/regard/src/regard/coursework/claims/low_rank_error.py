"""Some matrix of rank k-1 is within the Frobenius norm over sqrt(k), in the spectral norm."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import (
    Best,
    Instance,
    Ruling,
    bound_ruling,
    format_distinctly,
    read_question,
    worst_ruling,
)
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.lowrank import attaining, spectrum
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.written_numbers import in_full

TRIALS = 20


def check_rank_at_most(*, rows: int, columns: int, k: int, factor: float) -> Verdict:
    if factor < 1:
        return refuted_verdict(
            f"The best error for the ${k} x {k}$ identity is $sigma_k = 1$, and {in_full(factor)} times "
            "$||A||_F/sqrt(k)$ is less.",
            witness=Witness(1, ">", Fraction(factor)),
            counterexample=f"A the ${k} x {k}$ identity: every $B$ of rank at most {k - 1} has error 1 or more, and "
            f"$||A||_F/sqrt(k) = 1$, of which {in_full(factor)} is less",
            region="for factors of 1 and more",
            correction="The least error is $sigma_k$, and $sigma_k <= ||A||_F/sqrt(k)$.",
        )
    if k > min(rows, columns):
        return holds("proof", f"For every matrix; here $A$ itself has rank at most {k - 1}: the error is 0.")
    worst = _largest_ratio(rows, columns, k)
    if worst > 1 + 1e-9:
        return not_refuted_verdict(TRIALS + 1, f"The proof and an enclosed spectrum differ: {worst:.9g} of the bound.")
    return holds(
        "proof; enclosed spectra agree",
        f"Truncating $A$ to its first $k-1 = {k - 1}$ singular values leaves $sigma_k <= ||A||_F/sqrt(k)$.",
        region='for every matrix and every $k >= 1$, with "rank at most $k-1$"',
        tightness=f"attained by $k$ equal singular values, for the factor 1 (ratio found: {worst:.9g}); far from it "
        "for matrices whose singular values fall",
        worst=worst,
    )


def _largest_ratio(rows: int, columns: int, k: int) -> float:
    """The largest sigma_k sqrt(k)/||A||_F, of random matrices and of the one that attains it."""
    rng = np.random.default_rng(0)
    tried = [rng.standard_normal((rows, columns)) for _ in range(TRIALS)] + [attaining(k, (rows, columns))]
    # Eckart, Young and Mirsky: no matrix of rank k-1 comes nearer than sigma_k, so this is the least error.
    return max(float(spectrum(matrix).lower[k - 1] * np.sqrt(k) / np.linalg.norm(matrix)) for matrix in tried)


def check_rank_exactly(*, rows: int, columns: int, k: int, factor: float) -> Verdict:
    return refuted_verdict(
        "Near $A = 0$ there is no room: the error must be 0, so $B = A$, of rank 0.",
        witness=Witness(1, "!=", 0),  # the rank that B must have, and the rank of the only B with error 0
        counterexample="$A = 0$, $k = 2$: $a B$ of rank exactly 1 has error $||B|| > 0 = ||A||_F/sqrt(2)$, whatever "
        "the factor",
        region="for factors of 1 and more, and $k = 1 (B = 0)$ or $A != 0$ with min(rows, columns) $>= k-1$: a "
        "truncation of lower rank can be perturbed up to rank $k-1$, and $||A||_F/sqrt(k) > 0$ leaves room for it",
        correction="rank at most $k-1$.",
    )


def proof_numbers(*, rows: int, columns: int, k: int, factor: float) -> dict[str, object]:
    matrix = np.random.default_rng(0).standard_normal((rows, columns))
    sigma, norm = np.linalg.svd(matrix, compute_uv=False), float(np.linalg.norm(matrix))
    own = f"{sigma[k - 1]:.6g}" if k <= len(sigma) else "0"
    return {"own": own, "bound": norm / np.sqrt(k)}


def draw(made: Any, *, rows: int, columns: int, k: int, factor: float) -> None:
    matrix = np.random.default_rng(0).standard_normal((rows, columns))
    sigma, at = np.linalg.svd(matrix, compute_uv=False), np.arange(1, min(rows, columns) + 1)
    made.plot(at, np.linalg.norm(matrix) / np.sqrt(at), "--", color=VERMILION, label="$||A||_F / sqrt(k)$")
    made.plot(at, sigma, "o-", color=BLUE, label="the least error, $sigma_k$")
    if k <= len(sigma):
        made.plot([k], [sigma[k - 1]], "o", ms=10, mfc="none", color=ORANGE, label=f"$k = {k}$")
    made.set_ylim(0)


# your own answer


def a_matrix(latent: Any, *, rows: int, columns: int, k: int) -> Instance:
    return Instance(given={"A": latent[:rows, :columns], "k": k})


def nearly_rank_one(*, rows: int, columns: int, k: int) -> list[Instance]:
    """One large singular value: a B that leaves it out is far off."""
    return [Instance(given={"A": np.ones((rows, columns)) + np.eye(rows, columns) / 10, "k": k})]


def judge_error(instance: Instance, B: Any) -> Ruling:
    A, k = instance.given["A"], instance.given["k"]
    norm, sigma = float(np.linalg.norm(A)), np.linalg.svd(B, compute_uv=False)
    beyond, error = float(sigma[k - 1]), float(np.linalg.norm(A - B, 2))
    has, most = format_distinctly(error, norm / np.sqrt(k))
    return worst_ruling(
        bound_ruling(
            beyond,
            1e-9 * max(norm, 1e-300),  # B is made of floats: what should be 0 is a rounding error
            f"the rank of B is above k - 1 = {k - 1}: its sigma_{k} is {beyond:.3g}",
        ),
        bound_ruling(error, norm / np.sqrt(k), f"||A - B|| = {has} is above ||A||_F/sqrt(k) = {most}"),
    )


def compare_with_best_rank(instance: Instance, B: Any) -> Best | None:
    A, k = instance.given["A"], instance.given["k"]
    best = float(np.linalg.svd(A, compute_uv=False)[k - 1])
    # where A has rank k - 1 itself the least error is 0, and no ratio says anything
    return Best(yours=float(np.linalg.norm(A - B, 2)), best=best) if best > 1e-9 * np.linalg.norm(A) else None


QUESTION = read_question(
    "low-rank-error",
    shape=lambda given: given["A"].shape,
    fits=lambda rows, columns, k: k <= min(rows, columns),
    make=a_matrix,
    judge=judge_error,
    traps=nearly_rank_one,
    measure="its error is {} sigma_k, the least there is (Eckart, Young, Mirsky)",
    best=compare_with_best_rank,
)

CLAIM = read_claim(__name__)

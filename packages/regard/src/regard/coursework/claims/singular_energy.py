"""The squares of the singular values add up to the squared Frobenius norm."""

from __future__ import annotations

from typing import Any

import flint
import numpy as np

from regard.coursework.claim import read_claim
from regard.coursework.question import Instance, Ruling, equality_ruling, format_distinctly, read_question
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.lowrank import spectrum
from regard.pictures import BLUE, ORANGE
from regard.rigor import balls
from regard.rigor.matrices import squares
from regard.written_numbers import in_full

TRIALS = 30


def check_real_matrices(*, rows: int, columns: int, power: float) -> Verdict:
    if power != 2:
        return _other_power_verdict(power)
    rng = np.random.default_rng(0)
    for trial in range(TRIALS):
        # an identity must not hang on the size of the entries
        matrix = rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(-5, 6)
        if trial % 3 == 0:
            matrix[:, 0] = matrix[:, -1]  # deficient rank
        known, total = spectrum(matrix), squares(matrix)
        low, high = float(np.sum(known.lower**2)), float(np.sum(known.upper**2))
        # an enclosure may be wide: only one that misses the total contradicts
        if low > total * (1 + 1e-9) or high < total * (1 - 1e-9):
            return not_refuted_verdict(
                TRIALS, f"The proof and an enclosed spectrum differ: {low:.9g}, {high:.9g}, {total:.9g}."
            )
    return holds(
        f"proof; enclosed spectra of {TRIALS} matrices agree",
        f"$trace(A^T A)$ is both sides, here for matrices of ${rows} x {columns}$.",
        region="for every real or complex matrix",
    )


def _other_power_verdict(power: float) -> Verdict:
    with balls.precise():
        raised = balls.ball(2) ** balls.ball(power)
    left, right = format_distinctly(float(raised.mid()), 4.0)
    return refuted_verdict(
        f"The sum of the singular values to the power {in_full(power)} is another number: only squares add up to the "
        "squared norm.",
        witness=Witness(raised, "!=", 4),
        counterexample=f"$A = (2)$, one entry: $sigma_1^{in_full(power)} = {left}$, and $||A||_F^2 = {right}$",
        region="for the power 2",
        correction="sum of $sigma_i^2 = ||A||_F^2$.",
    )


def check_whole_matrices(*, rows: int, columns: int, power: float) -> Verdict:
    if power != 2:
        return _other_power_verdict(power)
    rng = np.random.default_rng(1)
    few = (min(rows, 6), min(columns, 6))  # exact coefficients grow with the size
    for _ in range(TRIALS):
        A = flint.fmpz_mat(rng.integers(-9, 10, few).tolist())
        gram = A.transpose() * A
        # The sum of the roots of det(x I - A^T A), read off its second coefficient, without computing any of them.
        roots = -gram.charpoly()[few[1] - 1]
        total = sum(int(A[i, j]) ** 2 for i in range(few[0]) for j in range(few[1]))
        if roots != total:
            return not_refuted_verdict(TRIALS, f"The proof and exact arithmetic differ at $A =$ {A}.")
    return holds(
        f"proof; exact arithmetic on {TRIALS} matrices agrees",
        f"On {TRIALS} whole matrices of ${few[0]} x {few[1]}$ the sum of the roots of det(x $I - A^T A$) equals the "
        "sum of squares.",
    )


def proof_numbers(*, rows: int, columns: int, power: float) -> dict[str, object]:
    A = np.random.default_rng(1).integers(-9, 10, (min(rows, 3), min(columns, 3)))
    sigma = np.linalg.svd(A, compute_uv=False)
    return {
        "A": A.tolist(),
        "sigma": ", ".join(f"{s:.6g}" for s in sigma),
        "of_sigma": np.sum(sigma**2),
        "of_entries": int(np.sum(A**2)),
    }


def draw(made: Any, *, rows: int, columns: int, power: float) -> None:
    rng = np.random.default_rng(0)
    for decay, colour, mark in ((0.0, BLUE, "o"), (1.0, ORANGE, "s")):
        matrix = rng.standard_normal((rows, columns)) * np.arange(1, columns + 1.0) ** -decay
        squares = np.linalg.svd(matrix, compute_uv=False) ** 2
        k = np.arange(1, len(squares) + 1)
        label = "random" if not decay else "columns falling like $1/j$"
        made.plot(k, np.cumsum(squares) / np.sum(matrix**2), "-", marker=mark, ms=4, color=colour, label=label)


# your own answer


def a_matrix(latent: Any, *, rows: int, columns: int) -> Instance:
    return Instance(given={"A": latent[:rows, :columns]})


def judge_sum_of_squares(instance: Instance, energy: float) -> Ruling:
    truth = float(np.sum(np.linalg.svd(instance.given["A"], compute_uv=False) ** 2))
    return equality_ruling(energy, truth, "the sum of the squared singular values")


QUESTION = read_question(
    "singular-energy",
    make=a_matrix,
    judge=judge_sum_of_squares,
)

CLAIM = read_claim(__name__)

"""A vector out of a sum of two, by a matrix made from one basis alone."""

from __future__ import annotations

from typing import Any

import flint
import numpy as np

from regard.coursework.answers.report import literal
from regard.coursework.claim import read_claim
from regard.coursework.query_questions import orthonormal_rows
from regard.coursework.question import Instance, Ruling, read_question
from regard.coursework.verdict import Verdict, Witness, holds, refuted_verdict
from regard.errors import InputError
from regard.pictures import BLUE, GREY, ORANGE
from regard.subspace import extract
from regard.written_numbers import at_most

TRIALS = 20


def rational_orthogonal(d: int, rng: np.random.Generator) -> flint.fmpq_mat:
    """A d x d orthogonal matrix of fractions: (I - S)(I + S)^-1 with S skew and whole (Cayley)."""
    upper = np.triu(rng.integers(-3, 4, (d, d)), 1)
    # I + S can always be inverted: the eigenvalues of a skew S are imaginary, so none is -1
    skew = flint.fmpq_mat(flint.fmpz_mat((upper - upper.T).tolist()))
    one = flint.fmpq_mat(flint.fmpz_mat(np.eye(d, dtype=int).tolist()))
    return (one - skew) * (one + skew).inv()


def columns(matrix: flint.fmpq_mat, which: range) -> flint.fmpq_mat:
    return flint.fmpq_mat(matrix.nrows(), len(which), [matrix[i, j] for i in range(matrix.nrows()) for j in which])


def recovery_matrix(A: flint.fmpq_mat) -> flint.fmpq_mat:
    """The answer to check, a matrix made of A alone: M = A A^T."""
    return A * A.transpose()


def check_orthogonal_spans(*, d: int, m: int) -> Verdict:
    _refuse(d, m)
    rng, rest = np.random.default_rng(0), range(m, d)
    for _ in range(TRIALS):
        Q = rational_orthogonal(d, rng)
        A, B = columns(Q, range(m)), columns(Q, rest)
        x, y = (flint.fmpq_mat(k, 1, rng.integers(-9, 10, k).tolist()) for k in (m, d - m))
        came, right = recovery_matrix(A) * (A * x + B * y), A * x
        if came != right:
            i = next(i for i in range(d) if came[i, 0] != right[i, 0])
            return refuted_verdict(
                "$M (v_a + v_b)$ is not $v_a$, in exact fractions.",
                witness=Witness(came[i, 0], "!=", right[i, 0]),
                counterexample=f"$A =$ {A}, $B =$ {B}, $v_a =$ {A * x}, $v_b =$ {B * y}",
                region="not known",
                correction="$M = A A^T$.",
            )
    return holds(
        f"proof; {TRIALS} instances in exact fractions agree",
        f"$M = A A^T$: $M A = A$ and $M B = 0$, in exact arithmetic on orthonormal bases of fractions in $R^{d}$.",
        region="for every $d$ and all orthonormal $A$, $B$ with $A^T B = 0$; on $span(A) + span(B)$ no other matrix "
        "does it, and all that do are $A A^T + C (I - A A^T - B B^T)$",
    )


def check_any_spans(*, d: int, m: int) -> Verdict:
    # the counterexample's spans, whatever d and m are
    extraction = extract([[1.0], [0.0]], [[1.0], [1.0]])
    matrix = None if extraction.matrix is None else extraction.matrix.tolist()
    return refuted_verdict(
        "Where the spans are not orthogonal, a matrix made of $A$ alone cannot know what to remove.",
        witness=(
            *(Witness(a + b, "==", c) for a, b, c in zip((1, 0), (1, 1), (2, 1), strict=True)),  # one sum of two kinds
            Witness(1, "!=", 0),  # of which M must give (1, 0) and (0, 0)
        ),
        counterexample="$d = 2$, $A = (1, 0)$: for $B = (1, 1)$ it must be $M (2, 1) = (1, 0)$, as $(2, 1) = (1, 0) + "
        "(1, 1)$; for $B = (2, 1)$ it must be $M (2, 1) = 0$. One $M$ made of $A$ alone cannot do both",
        region="exactly where $A^T B = 0$, for $M = A A^T$",
        correction="With $A$ and $B$ both known, $M$ exists exactly when the spans share only 0: the oblique "
        "projector onto $span(A)$ along $span(B)$ (regard subspace extract); for $A = (1, 0)$, $B = (1, 1)$ it is "
        f"{matrix}, which amplifies noise by up to {at_most(extraction.amplification, 6)}. Proof: a common vector "
        "would have to go both to itself and to 0; without one, a basis of $span(A)$ followed by one of $span(B)$ can "
        "be sent to itself and to 0.",
    )


def _refuse(d: int, m: int) -> None:
    if m >= d:
        raise InputError(f"extract-from-sum: A has m = {m} columns and B the other d - m; choose m below d = {d}.")


def proof_numbers(*, d: int, m: int) -> dict[str, object]:
    _refuse(d, m)
    Q = rational_orthogonal(d, np.random.default_rng(0))
    A, B = columns(Q, range(m)), columns(Q, range(m, d))
    x = flint.fmpq_mat(m, 1, list(range(1, m + 1)))
    y = flint.fmpq_mat(d - m, 1, [1] * (d - m))
    v_a, both = A * x, A * x + B * y
    again = recovery_matrix(A) * both
    shown = [", ".join(str(vector[i, 0]) for i in range(d)) for vector in (v_a, both, again)]
    return {"rest": d - m, "v_a": shown[0], "both": shown[1], "again": shown[2]}


def draw(made: Any, *, d: int, m: int) -> None:
    made.axline((0, 0), (1, 0.25), color=BLUE, lw=1, alpha=0.6)
    made.axline((0, 0), (-0.25, 1), color=ORANGE, lw=1, alpha=0.6)
    v_a, v_b = np.array([2.0, 0.5]), np.array([-0.3, 1.2])
    for vector, colour, name in ((v_a, BLUE, "v_a"), (v_b, ORANGE, "v_b"), (v_a + v_b, GREY, "$v_a + v_b$")):
        made.annotate("", tuple(vector), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2})
        made.annotate(name, tuple(vector), (6, 4), textcoords="offset points", color=colour)
    made.plot(*np.array([v_a + v_b, v_a]).T, ls=":", color=GREY)
    made.set(xlim=(-1.2, 3.2), ylim=(-0.6, 2.2))
    made.spines[:].set_visible(False)


# your own answer


def two_spans(latent: Any, *, d: int, m: int) -> Instance:
    Q = orthonormal_rows(latent, d, 0)
    A, B = Q[:m].T, Q[m:].T
    v_a, v_b = A @ np.arange(1.0, m + 1), B @ np.ones(d - m)
    return Instance(given={"A": A}, hidden={"v_a": v_a, "v_b": v_b})


def judge_recovery(instance: Instance, M: Any) -> Ruling:
    v_a, v_b = instance.hidden["v_a"], instance.hidden["v_b"]
    again = M @ (v_a + v_b)
    off = float(np.linalg.norm(again - v_a) / np.linalg.norm(v_a + v_b))
    if off <= 1e-9:  # nobody is told of it, and two vectors that are all but equal are slow to write apart
        return Ruling(room=1e-9 - off, said="M (v_a + v_b) is v_a")
    digits = next((k for k in range(4, 17) if literal(again, digits=k) != literal(v_a, digits=k)), 17)
    shown = (literal(vector, digits=digits) for vector in (again, v_a))
    return Ruling(room=1e-9 - off, said="M (v_a + v_b) = {}, and v_a = {}".format(*shown))


QUESTION = read_question(
    "extract-from-sum",
    shape=lambda given: (len(given["A"]),) * 2,
    fits=lambda d, m: m < d,
    make=two_spans,
    judge=judge_recovery,
)

CLAIM = read_claim(__name__)

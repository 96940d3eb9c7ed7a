"""Statements that hold or fail, other ones for each student: a claim's readings, and their false neighbours.

A neighbour is made by changing a constant (the budget's factor, a margin, a number of positions) or by dropping a
condition (any keys instead of orthonormal ones). Whether it holds is never written down here: the claim's own check
decides, and only a verdict HOLDS or REFUTED counts. A sentence says "for every n" exactly where the reading does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.coursework.catalogue import claims
from regard.coursework.question import Instance, Question, Ruling
from regard.coursework.verdict import Status as Verdict
from regard.errors import InputError
from regard.sandbox.runner import Runner, format_error

if TYPE_CHECKING:
    from regard.grading.questions.assignment import Task
    from regard.grading.questions.examination import Outcome

N = (3, 5, 10, 50, 1000)
EPS = (0.5, 0.1, 0.01, 0.001)


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A sentence with places for numbers, and the reading of a claim that decides it."""

    claim: str
    reading: str
    sentence: str
    options: dict[str, tuple[float, ...]] = field(default_factory=dict)


FAMILIES = (
    Family(
        claim="copying-within-budget",
        reading="as stated",
        sentence="Unit keys, each other one at distance at least 1 from key 0: for every number n of keys and every "
        "0 < eps < 1 some query of norm at most {factor:g} ln(n/eps) gives key 0 a weight of at least "
        "1/(1+eps).",
        options={"factor": (2.0, 2.5, 1.5, 1.0)},
    ),
    Family(
        claim="average-within-budget",
        reading="as stated",
        sentence="Orthonormal keys: for every number n >= 2 of keys and every 0 < eps < 1 some query of norm at most "
        "{factor:g} ln(n/eps) gives keys 0 and 1 a weight of at least 1/(2+eps) each.",
        options={"factor": (2.8, 1.5, 1.0, 0.5)},
    ),
    Family(
        claim="copying-condition",
        reading="enough",
        sentence="For every number n >= 2 of keys and eps = {eps:g}: if s_j is above every other score by at least "
        "ln((n-1)/eps) {shift:+g}, then alpha_j is at least 1/(1+eps).",
        options={"eps": EPS, "shift": (0.0, 0.5, -0.1, -0.7)},
    ),
    Family(
        claim="copying-condition",
        reading="necessary",
        sentence="{n} keys, eps = {eps:g}: if alpha_j is at least 1/(1+eps), then s_j is above every other score by "
        "at least ln(1/eps) {shift:+g}.",
        options={"n": N, "eps": EPS, "shift": (0.0, -0.5, 0.1, 0.7)},
    ),
    Family(
        claim="copying-condition",
        reading="one threshold",
        sentence="{n} keys, eps = {eps:g}: there is one number m such that alpha_j >= 1/(1+eps) exactly when s_j is "
        "above every other score by at least m.",
        options={"n": (2, 3), "eps": EPS},
    ),
    Family(
        claim="copying-output",
        reading="relative to the values",
        sentence="For every number of keys, if alpha_j >= 1/(1+eps) with eps = {eps:g}: ||c - v_j|| is at most "
        "{factor:g} eps/(1+eps) D, where D is the largest distance of a value from v_j.",
        options={"eps": EPS, "factor": (1.0, 1.5, 0.9, 0.5)},
    ),
    Family(
        claim="copying-output",
        reading="whatever the values",
        sentence="alpha_j >= 1/(1+eps) with a small eps makes ||c - v_j|| small, whatever the values.",
    ),
    Family(
        claim="one-head-two-point-noise",
        reading="at this n and eps",
        sentence="Two-point noise, n = {n}, eps = {eps:g}: of the weight that the first two keys have together, "
        "the loser has at most {delta:g}.",
        options={"n": N, "eps": EPS, "delta": (0.3, 0.1, 0.01)},
    ),
    Family(
        claim="two-heads-two-point-noise",
        reading="head 1, at this n and eps",
        sentence="Two-point noise, n = {n}, eps = {eps:g}, two heads with t = {factor:g} ln(n/eps): head 1 puts at "
        "least 1 - {delta:g} on key 1, for c = 1/2 and for c = 3/2.",
        options={"n": N, "eps": EPS, "factor": (1.0, 2.0), "delta": (0.1, 0.3)},
    ),
    Family(
        claim="never-exactly-the-average",
        reading="real numbers, independent values",
        sentence="{n} keys, affinely independent values, real numbers: no query gives exactly (v_a + v_b)/2.",
        options={"n": (2, 3, 10)},
    ),
    Family(
        claim="never-exactly-the-average",
        reading="real numbers, any values",
        sentence="Any keys, any values, real numbers: no query gives exactly (v_a + v_b)/2.",
    ),
    Family(
        claim="extract-from-sum",
        reading="orthogonal spans",
        sentence="A and B orthonormal, every column of A orthogonal to every column of B: a matrix made from A alone "
        "gives v_a from v_a + v_b, for all v_a in span(A) and v_b in span(B).",
    ),
    Family(
        claim="extract-from-sum",
        reading="any spans",
        sentence="A and B orthonormal, their spans have only 0 in common: a matrix made from A alone gives v_a from "
        "v_a + v_b, for all v_a in span(A) and v_b in span(B).",
    ),
    Family(
        claim="average-of-any-subset",
        reading="orthonormal keys",
        sentence="Orthonormal keys: every subset can be averaged, within every eps > 0.",
    ),
    Family(
        claim="average-of-any-subset",
        reading="any keys",
        sentence="Distinct keys: every subset can be averaged, within every eps > 0.",
    ),
    Family(
        claim="the-bisector",
        reading="must be the bisector",
        sentence="Orthonormal keys, eps = {eps:g}: every query with alpha_0 and alpha_1 at least 1/(2+eps) is a "
        "positive multiple of k_0 + k_1.",
        options={"eps": EPS},
    ),
    Family(
        claim="the-bisector",
        reading="equal weights",
        sentence="alpha_0 = alpha_1 exactly when the query has the same product with both keys.",
    ),
    Family(
        claim="weights-are-a-distribution",
        reading="real numbers",
        sentence="In real numbers, whatever the scores, every weight is above 0 and they sum to exactly 1.",
    ),
    Family(
        claim="weights-are-a-distribution",
        reading="float64, positive",
        sentence="Scores at most {spread:g} apart: every weight that softmax computes in float64 is above 0.",
        options={"spread": (10.0, 700.0, 800.0, 1000.0)},
    ),
    Family(
        claim="order-blindness",
        reading="real numbers",
        sentence="A self-attention layer in which every row sees every row: Z(PX) = P Z(X) exactly, for all X, all "
        "weights and every permutation P.",
        options={"causal": (0,)},
    ),
    Family(
        claim="order-blindness",
        reading="real numbers",
        sentence="A self-attention layer in which no row sees the rows after it: Z(PX) = P Z(X) exactly, for all X, "
        "all weights and every permutation P.",
        options={"causal": (1,)},
    ),
    Family(
        claim="positions-restore-order",
        reading="some layer and X",
        sentence="With sinusoidal positions added, some layer has for every P other than the identity an X with "
        "g(PX) different from P g(X).",
    ),
    Family(
        claim="positions-restore-order",
        reading="every layer",
        sentence="With sinusoidal positions added, every layer has some P and X with g(PX) different from P g(X).",
    ),
    Family(
        claim="positions-are-distinct",
        reading="bfloat16",
        sentence="Sinusoidal positions of dimension {dim}, each number rounded once to bfloat16: no two of the first "
        "{length} are equal.",
        options={"dim": (2, 4, 8), "length": (100, 1000, 20000)},
    ),
    Family(
        claim="low-rank-error",
        reading="rank exactly k-1",
        sentence="For every matrix A and every k >= 1 some B of rank exactly k-1 has spectral error at most "
        "||A||_F/sqrt(k).",
    ),
    Family(
        claim="low-rank-error",
        reading="rank at most k-1",
        sentence="For every matrix A some B of rank at most {k} - 1 has spectral error at most {factor:g} "
        "||A||_F/sqrt({k}).",
        options={"k": (1, 2, 3, 5), "factor": (1.0, 1.2, 0.9, 0.5)},
    ),
    Family(
        claim="singular-tail",
        reading="as stated",
        sentence="For every matrix A: sigma_{k} is at most {factor:g} ||A||_F/sqrt({k}).",
        options={"k": (1, 2, 3, 5), "factor": (1.0, 1.2, 0.9, 0.5)},
    ),
    Family(
        claim="the-cone-of-keys",
        reading="isotropic",
        sentence="With noise a I, keys vary more along their mean than across it.",
    ),
    Family(
        claim="the-cone-of-keys",
        reading="never backwards",
        sentence="With noise a I + (1/2) mu mu^T every realisation of the key points the way of its mean.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A sentence, whether it holds, and by what that was decided."""

    text: str
    holds: bool
    by: str


@cache
def decide_statement(family: Family, values: tuple[tuple[str, float], ...]) -> Statement | None:
    """The statement with these numbers; None where the check does not decide."""
    checked = claims[family.claim].check(**dict(values))
    verdict = next(judged.verdict for judged in checked.judged if judged.reading == family.reading)
    if verdict.status not in (Verdict.HOLDS, Verdict.REFUTED):
        return None
    return Statement(text=family.sentence.format(**dict(values)), holds=verdict.status is Verdict.HOLDS, by=verdict.by)


def families(claim: str = "") -> list[Family]:
    """Those of one claim, or all."""
    return [family for family in FAMILIES if not claim or family.claim == claim]


def draw_statements(task: Task, seed: int) -> list[Statement]:
    """The statements of one student: as many as the task asks for, no two of them the same."""
    rng, pool = np.random.default_rng(seed), families(task.claim)
    if not pool:
        raise InputError(
            f"There are no statements about {task.claim}; leave the claim out, and all claims are drawn from."
        )
    chosen: list[Statement] = []
    order = [pool[i] for i in rng.permutation(len(pool))]
    for turn in range(20):
        for family in order:
            values = tuple((name, options[rng.integers(len(options))]) for name, options in family.options.items())
            one = decide_statement(family, values) if not (turn and not family.options) else None
            if one is not None and one.text not in [known.text for known in chosen]:
                chosen.append(one)
            if len(chosen) == task.count:
                return chosen
    raise InputError(f"{task.claim} has {len(chosen)} statements, and question {task.id!r} asks for {task.count}.")


def statements_question(count: int) -> Question:
    """What the runner asks: one number for each statement."""
    return Question(
        function="holds",
        arguments={},
        task="For each of your statements, in their order: 1 if it holds, 0 if it fails, -1 if you leave it out.",
        returns=f"a list of {count} numbers, each 1, 0 or -1",
        shape=lambda given: (count,),
        sizes=(),
        make=lambda latent: Instance(given={}),
        judge=lambda instance, answer: Ruling(room=0.0, said=""),
        decided="Each statement was decided by the check of its claim.",
    )


def judge_statements(task: Task, runner: Runner, seed: int) -> Outcome:
    """Right minus wrong, as a share."""
    from regard.grading.questions.examination import Outcome, Status, failed_outcome

    statements = draw_statements(task, seed)
    reply = runner.call({}, most=8 * len(statements))
    if "raised" in reply:
        return failed_outcome(f"{runner.name} failed: {format_error(reply['raised'])}; fix it first.")
    answer: Any = reply.get("array")
    if answer is None or answer.shape != (len(statements),) or not np.isin(answer, (-1, 0, 1)).all():
        return failed_outcome(f"{runner.name} must return {task.question.returns}.")
    said_so: list[float] = answer.tolist()
    wrong = [n for n, (a, s) in enumerate(zip(said_so, statements, strict=True), 1) if a != -1 and a != s.holds]
    right = sum(a == s.holds for a, s in zip(said_so, statements, strict=True))
    share = max(right - len(wrong), 0) / len(statements)
    if share == 1:
        return Outcome(status=Status.PASSED, share=1.0, instances=len(statements))
    said = f"of {len(statements)} statements {right} were decided rightly and {len(wrong)} wrongly"
    mistakes = tuple(statements[n - 1].text for n in wrong)
    return Outcome(status=Status.FAILED, share=share, reason=said, mistakes=mistakes, instances=len(statements))

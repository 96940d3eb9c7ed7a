"""Statements that hold or fail, other ones for each student: a claim's readings, and their false neighbours.

A neighbour is made by changing a constant (the budget's factor, a margin, a number of positions) or by dropping a
condition (any keys instead of orthonormal ones). Whether it holds is never written down here: the claim's own check
decides, and only a verdict HOLDS or REFUTED counts. A sentence says "for every n" exactly where the reading does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from regard.coursework.catalogue import claims
from regard.coursework.question import Instance, Question, Ruling
from regard.coursework.verdict import Status as Verdict
from regard.errors import InputError
from regard.sandbox.runner import Runner, format_error
from regard.toml import parse_toml

if TYPE_CHECKING:
    from regard.grading.questions.assignment import Task
    from regard.grading.questions.examination import Outcome


@dataclass(frozen=True, kw_only=True, eq=False)
class Family:
    """A sentence with places for numbers, and the reading of a claim that decides it."""

    claim: str
    reading: str
    sentence: str
    options: Mapping[str, Sequence[float]] = field(default_factory=dict)


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


@cache
def families(claim: str = "") -> list[Family]:
    """Those of one claim, or all: statements.toml beside this file."""
    text = resources.files("regard.grading.questions").joinpath("statements.toml").read_text(encoding="utf-8")
    listed = [Family(**one) for one in parse_toml(text)["family"]]
    return [family for family in listed if not claim or family.claim == claim]


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

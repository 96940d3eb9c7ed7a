"""The public checks: what a student can run at home, with numbers that everybody has. Never the last word.

Checks inside a notebook: for test cells of Otter-Grader and nbgrader, which run in the student's own kernel.

``public_check`` prints nothing, not even to standard error (nbgrader gives a cell zero for that); it returns
"public checks passed" or raises AssertionError with one sentence. There is no jail in there and no secret: what
these cells give are public marks, and ``regard grade`` has the last word.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from regard.coursework.answers.answer_check import Check, caller
from regard.coursework.verdict import wrap_text
from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.gradebook.marks import TaskMark, mark_outcome, student_view
from regard.grading.gradebook.secret import PUBLIC, Secret
from regard.grading.questions.assignment import Assignment, Kind
from regard.grading.questions.examination import Stages, Status, StudentAnswer, examine, failed_outcome
from regard.grading.submissions.submission import Submission
from regard.progress import Progress
from regard.results import Result
from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.warm_pool import keep_warm

PASSED = "public checks passed"


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicChecked(Result):
    """Each question: public checks passed, or what was found; ``answer`` is False where something was."""

    assignment: str
    marks: tuple[TaskMark, ...]
    unchecked: tuple[str, ...]
    _assignment: Assignment

    @property
    def answer(self) -> bool:
        return not any(one.points < one.of and not one.open for one in self.marks)

    def __str__(self) -> str:
        lines = []
        for one in self.marks:
            said = [PASSED] if one.points >= one.of else student_view(self._assignment.task(one.question), one)
            lines.append(wrap_text(f"{one.question}: {' '.join(said)}", hang=2))
            if one.counterexample is not None:
                lines += [f"    {line}" for line in str(one.counterexample["code"]).splitlines()]
        lines += [f"{one}: not checked here" for one in self.unchecked]
        end = "These are the public checks. Your mark comes from other numbers, which are drawn for you alone."
        return "\n".join([*lines, "", end])


@keep_warm()
def run_public_checks(
    assignment: Assignment, submission: Submission, *, jail: Tier, progress: Progress | None = None
) -> PublicChecked:
    """Run every function on public instances; statements and hidden sentences stay unseen."""
    secret, marks = Secret(PUBLIC), []
    tasks = [task for task in assignment.tasks if task.kind in (Kind.CLAIM, Kind.OWN)]
    for done, task in enumerate(tasks, 1):
        code = submission.code(task.function)
        if code is None:
            outcome = failed_outcome("there is no Python file and no notebook that can be read")
        else:
            seed = secret.seed(assignment.name, task.id)
            given = StudentAnswer(name=code[0], source=code[1], seed=seed, notebook=code[2])
            outcome = examine(task, given, limits=assignment.limits, jail=jail)
        marks.append(mark_outcome(replace(task), outcome))
        if progress is not None:
            progress(done, len(tasks))
    left = [task.id for task in assignment.tasks if task not in tasks]
    left += [f"{task.id}, how near it is to the best" for task in tasks if task.within and task.question.best is None]
    return PublicChecked(assignment=assignment.name, marks=tuple(marks), unchecked=tuple(left), _assignment=assignment)


def public_check(assignment: str, question: str, function: Callable[..., Any]) -> str:
    """Check a function of this process on the public instances of a question."""
    asked = read_assignment(assignment)
    task = next((one for one in asked.tasks if one.id == question), None)
    if task is None or task.kind not in (Kind.CLAIM, Kind.OWN):
        raise InputError(f"{assignment} has no question {question!r} that a function answers.")
    sizes = task.question.chosen_sizes(dict(task.sizes), task.claim or task.id)
    clock, seed = Clock(asked.limits.seconds), Secret(PUBLIC).seed(asked.name, task.id)
    check = Check(task.claim or task.id, task.question, task.function, caller(function, clock), sizes, clock, seed)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        outcome = Stages(check, asked.limits, within=task.within).examine()
    if outcome.status is not Status.PASSED:
        hint = f" Hint: {task.hint}" if task.hint else ""
        raise AssertionError(f"{task.id}: {outcome.reason.rstrip('.')}.{hint}")
    return PASSED

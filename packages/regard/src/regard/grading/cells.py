"""Checks inside a notebook: for test cells of Otter-Grader and nbgrader, which run in the student's own kernel.

``public_check`` prints nothing, not even to standard error (nbgrader gives a cell zero for that); it returns
"public checks passed" or raises AssertionError with one sentence. There is no jail in there and no secret: what
these cells give are public marks, and ``regard grade`` has the last word.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

from regard.coursework.answers.answer_check import Check, caller
from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.public_checks import PASSED
from regard.grading.gradebook.secret import PUBLIC, Secret
from regard.grading.questions.assignment import Kind
from regard.grading.questions.examination import Stages, Status
from regard.sandbox.clock import Clock


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

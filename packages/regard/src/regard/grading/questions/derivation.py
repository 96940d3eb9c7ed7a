"""A question whose answer is a derivation: points for lines that follow, for the goal, and for lemmas that it needs.

Nothing is run: a derivation is data. What is true, but not proved, and what is not read goes to a person, with our
remark.
"""

from __future__ import annotations

from regard.coursework.derivations.problem import Problem, read_problem
from regard.coursework.derivations.report import DerivationReport, check_derivation, reason, require_problem
from regard.coursework.derivations.verdicts import Mark
from regard.errors import InputError
from regard.grading.questions.assignment import DERIVATION_SHARES, Task
from regard.grading.questions.examination import Outcome, Status, failed_outcome


def problem_of(task: Task) -> Problem:
    """The problem that a task names: the teacher's own file, or its claim's."""
    return read_problem(task.file) if task.file is not None else require_problem(task.claim)


def examine_derivation(task: Task, text: str) -> Outcome:
    """What a derivation is worth."""
    if not text.strip():
        return failed_outcome(f"there is no text for {task.id}", share=0.0)
    try:
        report = check_derivation(task.claim, text, problem=problem_of(task))
    except InputError as error:
        return failed_outcome(str(error), share=0.0)
    notes = tuple(f"line {one.line}: {one.text}: {one.mark.value}; {reason(one)}" for one in report.lines)
    share = points_share(report, problem_of(task))
    if report.first_false is not None:
        wrong = report.first_false
        return failed_outcome(f"line {wrong.line} is false: {wrong.text}; {reason(wrong)}", share=share, notes=notes)
    if any(one.mark in (Mark.TRUE, Mark.NOT_READ) for one in report.lines):
        return Outcome(
            status=Status.DOUBTED, share=share, reason=f"a person has to look: {report.summary()}", notes=notes
        )
    if not report.complete:
        missing = "; ".join(report.missing) or "a line that can be read"
        return failed_outcome(f"it does not reach {missing}", share=share, notes=notes)
    return Outcome(status=Status.PASSED, share=share, notes=notes)


def points_share(report: DerivationReport, problem: Problem) -> float:
    """The share of the points, as the rule says."""
    before = report.lines
    if report.first_false is not None:
        before = before[: before.index(report.first_false)]
    follow = sum(one.mark in (Mark.FOLLOWS, Mark.DEFINES) for one in before)
    lines = follow / len(report.lines) if report.lines else 0.0
    whole = report.first_false is None
    goal = whole * (1 - len(report.missing) / len(report.goals))
    lemmas = [one.name for one in problem.lemmas]
    used = whole * (1 - sum(one in report.unused for one in lemmas) / len(lemmas)) if lemmas else goal
    return sum(share * part for share, part in zip(DERIVATION_SHARES, (lines, goal, used), strict=True))

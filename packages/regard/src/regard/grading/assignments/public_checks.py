"""The public checks: what a student can run at home, with numbers that everybody has. Never the last word."""

from __future__ import annotations

from dataclasses import dataclass, replace

from regard.coursework.verdict import wrap_text
from regard.grading.gradebook.marks import QuestionMark, mark_outcome, student_view
from regard.grading.gradebook.secret import PUBLIC, Secret
from regard.grading.questions.assignment import Assignment, Kind
from regard.grading.questions.examination import StudentAnswer, examine, failed_outcome
from regard.grading.submissions.submission import Submission
from regard.progress import Progress
from regard.results import Result
from regard.sandbox.jail import Tier
from regard.sandbox.warm_pool import keep_warm

PASSED = "public checks passed"


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicChecked(Result):
    """Each question: public checks passed, or what was found; ``answer`` is False where something was."""

    assignment: str
    marks: tuple[QuestionMark, ...]
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

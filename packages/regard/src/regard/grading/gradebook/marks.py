"""Marks: points from outcomes, by the rule that the assignment states; one student's, and the class's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from statistics import mean, median
from typing import Any

from regard.coursework.answers.answer_check import Stage
from regard.grading.gradebook.manual_marks import Decision
from regard.grading.questions.assignment import STAGES, Assignment, Reveal, Task
from regard.grading.questions.examination import Outcome, Status
from regard.results import Result
from regard.terminal import align_columns

MOST_SHOWN = 40  # rows of the table on the screen; the files have them all


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskMark(Result):
    """What one question earned, and why not more. ``open``: a person has to look before the mark stands."""

    question: str
    points: float
    of: float
    status: str
    open: bool
    reason: str = ""
    at: str = ""
    counterexample: Mapping[str, Any] | None = None
    hint: str = ""
    mistakes: tuple[str, ...] = ()
    printed: str = ""
    notes: tuple[str, ...] = ()
    work: str = ""
    tier: str = ""
    overruled: str = ""  # why a person gave other points than the check, or the checklist
    automatic: float | None = None  # the points that were overruled
    automatic_then: float | None = None  # and what they were at that time

    @property
    def has_lost_points(self) -> bool:
        return self.points < self.of and not self.open

    @property
    def sign(self) -> str:
        """Behind the points in a table: a person has to look, or has overruled them."""
        return "?" if self.open else "*" if self.overruled else ""

    def __str__(self) -> str:
        return f"{self.question}: {self.points:g} of {self.of:g}{' (open)' * self.open}. {self.reason}".rstrip()


def mark_outcome(task: Task, outcome: Outcome, *, by_hand: Decision | None = None) -> TaskMark:
    """The points of one outcome, unless a person has decided otherwise."""
    ticks = by_hand.ticks if by_hand is not None else None
    ticked = task.checklist_share(list(ticks)) if ticks is not None and outcome.status is Status.BY_HAND else None
    mark = _mark_by_rule(task, outcome, ticked)
    if by_hand is None or by_hand.points is None:
        return mark
    return replace(
        mark,
        points=by_hand.points,
        open=False,
        hint=task.hint if by_hand.points < task.points else "",
        mistakes=mark.mistakes if by_hand.points < task.points else (),
        overruled=by_hand.reason,
        automatic=mark.points,
        automatic_then=by_hand.was,
    )


def _mark_by_rule(task: Task, outcome: Outcome, ticked: float | None) -> TaskMark:
    """As the assignment states it; ``ticked`` is the share of a checklist that a person ticked."""
    if outcome.status is Status.BY_HAND:
        part = ticked or 0.0
    elif outcome.share is not None:
        part = outcome.share
    else:
        part = sum(share for stage, share in task.ladder.items() if stage in outcome.passed)
    part = 1.0 if outcome.status is Status.PASSED and outcome.share is None else part
    waiting = outcome.status in (Status.CUT_SHORT, Status.NOT_RUN, Status.DOUBTED) or (
        outcome.status is Status.BY_HAND and ticked is None
    )
    points = round(task.points * part + 1e-9, 2)
    return TaskMark(
        question=task.id,
        points=points,
        of=task.points,
        status=outcome.status.value,
        open=waiting,
        reason=outcome.reason,
        at=outcome.at,
        counterexample=outcome.counterexample,
        hint=task.hint if points < task.points else "",
        mistakes=outcome.mistakes,
        printed=outcome.printed,
        notes=outcome.notes,
        work=_work(outcome),
        tier=outcome.tier,
    )


def _work(outcome: Outcome) -> str:
    if not outcome.instances:
        return ""
    moves = f", {outcome.moves} of the adversary" if outcome.moves else ""
    return f"{outcome.instances} instance{'s' * (outcome.instances != 1)}{moves}"


def student_view(task: Task, one: TaskMark) -> list[str]:
    """What the student may read of it, line by line; never that all is right."""
    if one.open:
        waits = {
            Status.BY_HAND.value: "A person marks this.",
            Status.CUT_SHORT.value: "Time ran out; that is no verdict, and a person will look.",
            Status.DOUBTED.value: "A person will look at this before the mark stands.",
        }
        return [waits.get(one.status, "It could not be run here; it will be graded again.")]
    if one.overruled:
        return [f"A person gave this mark: {one.overruled}", *(_loss_reasons(task, one) if one.points < one.of else [])]
    if one.points >= one.of:
        return ["Passed every check." if one.status != Status.BY_HAND.value else "All points of the checklist."]
    return _loss_reasons(task, one) or ["Points were lost here."]


def _loss_reasons(task: Task, one: TaskMark) -> list[str]:
    """Why points were lost, as far as it may be told."""
    lines = []
    if task.reveal is not Reveal.MARK and one.reason and one.status == Status.FAILED.value:
        where = f"Fails at {STAGES[Stage(one.at)]}: " if one.at in list(Stage) else ""
        lines.append(f"{where}{one.reason.rstrip('.')}.")
    if one.hint:
        lines.append(f"Hint: {one.hint}")
    return lines


def overruled_line(row: StudentMarks, one: TaskMark) -> str:
    """A mark that a person changed, for who is in charge; with a word where the check says something else now."""
    said = f"{row.student}, {one.question}: {one.automatic:g} -> {one.points:g}, {one.overruled}"
    if one.automatic_then is None or one.automatic_then == one.automatic:
        return said
    return f"{said} (the mark was {one.automatic_then:g} when it was overruled, and would be {one.automatic:g} now)"


@dataclass(frozen=True, kw_only=True, eq=False)
class StudentMarks(Result):
    """One student: a mark for each question, what lateness costs, and what was strange about the submission."""

    student: str
    name: str
    email: str = ""
    group: str
    questions: tuple[TaskMark, ...]
    of: float
    submitted: datetime | None = None
    late: timedelta = timedelta(0)
    kept: float = 1.0  # the share that lateness leaves
    problems: tuple[str, ...] = ()
    refused: str = ""
    by: str = ""  # whose submission it is, in a group

    @property
    def earned_points(self) -> float:
        """Before lateness."""
        return round(sum(one.points for one in self.questions), 2)

    @property
    def points(self) -> float:
        return round(self.earned_points * self.kept + 1e-9, 2)

    @property
    def open(self) -> int:
        """How many questions wait for a person."""
        return sum(one.open for one in self.questions)

    def to_dict(self) -> dict[str, Any]:
        late = self.late.total_seconds()
        return {
            **super().to_dict(),
            "late": late,
            "points": self.points,
            "earned": self.earned_points,
            "open": self.open,
        }

    def __str__(self) -> str:
        return f"{self.student}: {self.points:g} of {self.of:g}{f', {self.open} open' if self.open else ''}"


def _damaged_lines_note(lines: int) -> str:
    told = "1 line of journal.jsonl was" if lines == 1 else f"{lines} lines of journal.jsonl were"
    return f"{told} cut, changed, or sealed with another secret, and not believed; what it told was run again."


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassMarks(Result):
    """Everybody's marks."""

    assignment: str
    rows: tuple[StudentMarks, ...]
    tiers: tuple[str, ...]
    secret: str  # its name, not itself
    graded: int  # answers that were run now; the others were known
    known: int
    folder: str = ""
    changed: tuple[str, ...] = ()  # what is different from the marks before
    damaged: int = 0  # lines of the journal that were not believed
    exported: bool = True  # whether the files for course systems were written
    _assignment: Assignment

    @property
    def mistakes(self) -> list[tuple[str, str, int]]:
        """Question, mistake, and how many made it; the most frequent first."""
        count = Counter((one.question, name) for row in self.rows for one in row.questions for name in one.mistakes)
        return [(question, name, many) for (question, name), many in sorted(count.items(), key=lambda e: (-e[1], e[0]))]

    @property
    def overruled_lines(self) -> list[str]:
        """What persons changed, one line per change."""
        return [overruled_line(row, one) for row in self.rows for one in row.questions if one.overruled]

    @property
    def open(self) -> int:
        """How many marks wait for a person."""
        return sum(row.open for row in self.rows)

    def totals(self) -> list[float]:
        return [row.points for row in self.rows if not row.refused]

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "questions": [{"id": task.id, "points": task.points} for task in self._assignment.tasks],
            "mistakes": [{"question": q, "mistake": m, "students": n} for q, m, n in self.mistakes],
        }

    def __str__(self) -> str:
        lines = [self._table()]
        lines += (
            [f"... and {len(self.rows) - MOST_SHOWN} more: marks.csv has them all."]
            if len(self.rows) > MOST_SHOWN
            else []
        )
        lines += ["", self._summary()]
        lines += [_damaged_lines_note(self.damaged)] if self.damaged else []
        lines += [f"Question {where}, {many} students: {name}" for where, name, many in self.mistakes[:3] if many > 1]
        lines += [f"{row.student} was not graded: {row.refused}" for row in self.rows if row.refused]
        lines += (
            ["", "Changed since the marks before:", *(f"  {line}" for line in self.changed)] if self.changed else []
        )
        lines += [f"Written to {self.folder}: class.html, marks.csv, students/."] if self.folder else []
        lines += [] if self.exported else [self.export_refusal()]
        return "\n".join(lines)

    def export_refusal(self, where: str = "in marking.html, or give --open-marks") -> str:
        """How many open marks keep the files for course systems from being written, and what to do."""
        count = "1 mark is" if self.open == 1 else f"{self.open} marks are"
        return f"moodle.csv and canvas.csv were not written: {count} open. Decide {where} to write them as they are."

    def _table(self) -> str:
        ids = [task.id for task in self._assignment.tasks]
        rows = [["student", *ids, "total", "of", ""]]
        for row in self.rows[:MOST_SHOWN]:
            cells = [f"{one.points:g}{one.sign}" for one in row.questions] or ["-"] * len(ids)
            late = f"late: {row.kept:.0%} kept" if row.kept < 1 else ""
            rows.append([row.student, *cells, f"{row.points:g}", f"{row.of:g}", late])
        return align_columns(rows)

    def _summary(self) -> str:
        totals = self.totals()
        if not totals:
            return "Nobody has a mark."
        said = (
            f"{len(totals)} students, mean {mean(totals):.4g}, median {median(totals):.4g} "
            f"of {self._assignment.points:g}. "
            f"{self.graded} answers run, {self.known} cached."
        )
        ran = f" They ran in: {', '.join(self.tiers)}." if self.tiers else ""
        stars = (
            f" Marks with a star were given by a person: {len(self.overruled_lines)}." if self.overruled_lines else ""
        )
        waits = f" {self.open} mark{'s need' if self.open > 1 else ' needs'} you (?)." if self.open else ""
        return f"{said}{ran}{waits}{stars}"


def differences(before: Mapping[str, Any] | None, now: ClassMarks) -> Iterator[str]:
    """One line for each student whose points are not the same; nothing where there were no marks before."""
    if before is None:
        return
    old = {str(row.get("student")): row for row in before.get("rows", []) if isinstance(row, dict)}
    for row in now.rows:
        was = old.pop(row.student, None)
        if was is None:
            yield f"{row.student}: new, {row.points:g}"
            continue
        points = {one.get("question"): one.get("points") for one in was.get("questions", [])}
        moved = [
            f"{one.question}: {_number(points.get(one.question))} -> {one.points:g}"
            for one in row.questions
            if points.get(one.question) != one.points
        ]
        if moved or was.get("points") != row.points:
            detail = f" ({', '.join(moved)})" if moved else ""
            yield f"{row.student}: {_number(was.get('points'))} -> {row.points:g}{detail}"
    for student, gone in old.items():
        yield f"{student}: had {_number(gone.get('points'))}, is gone"


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else "nothing"

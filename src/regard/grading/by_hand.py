"""What a person decided: the ticks of a checklist, and marks that were overruled, each with its reason.

One file holds both, written.json. The marking form saves it, ``regard assignment overrule`` adds to it, and ``regard
grade`` puts what it says beside the automatic marks, now and whenever it grades again. Nothing automatic is lost:
a mark that was overruled still carries the points that the check gave.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import read_file, write_file
from regard.grading.assignment import Assignment, Kind
from regard.grading.students import identity, shown
from regard.results import Result

WRITTEN = "written.json"
MOST_REASON = 500  # characters
FORM = "save it from marking.html with the key s"


@dataclass(frozen=True, kw_only=True)
class ByHand:
    """One person's decision on one answer: what they ticked, or the points they gave instead, and why."""

    ticks: tuple[bool, ...] | None = None
    points: float | None = None  # instead of what the check, or the ticks, come to
    reason: str = ""
    was: float | None = None  # the points that were there when they were overruled

    def to_dict(self) -> dict[str, Any]:
        """Only what was decided."""
        ticked = {} if self.ticks is None else {"ticks": list(self.ticks)}
        changed = {} if self.points is None else {"points": self.points, "reason": self.reason}
        return {**ticked, **changed, **({} if self.was is None else {"was": self.was})}


Decisions = Mapping[str, Mapping[str, ByHand]]  # by the student's identity, and by question


def read_written(path: str | os.PathLike[str], assignment: Assignment) -> dict[str, dict[str, ByHand]]:
    """Everything that was decided; InputError names the file, the student and the question."""
    name, rows = _read(path)
    if name != assignment.name:
        raise InputError(f"{path} is about the assignment {str(name)[:80]!r}, not about {assignment.name!r}.")
    lengths = {task.id: len(task.checklist) for task in assignment.tasks if task.kind is Kind.WRITTEN}
    points = {task.id: task.points for task in assignment.tasks}
    decided: dict[str, dict[str, ByHand]] = {}
    for row in rows:
        student, question = str(row["student"]), str(row["question"])
        if "ticks" in row and not _fits(row["ticks"], lengths.get(question)):
            raise InputError(
                f"{path}: the ticks of {student[:40]!r} on {question[:40]!r} do not fit its checklist; {FORM}."
            )
        if question not in points:  # of an assignment that has changed: what is not asked any more has no mark
            continue
        given = _decision(row, points[question], f"{path}: {student[:40]!r} on {question[:40]!r}")
        decided.setdefault(identity(student), {})[question] = given
    return decided


def _read(path: str | os.PathLike[str]) -> tuple[object, list[dict[str, Any]]]:
    """The assignment's name and the rows, each with a student and a question, and ticks or points."""
    try:
        data = json.loads(read_file(path, most=50_000_000))
        name, rows = data["assignment"], [dict(row) for row in data["marks"]]
        if not all({"student", "question"} <= row.keys() and {"ticks", "points"} & row.keys() for row in rows):
            raise ValueError("no decisions")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; {FORM}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is not what the marking form saves; {FORM}.") from None
    return name, rows


def _fits(ticks: object, length: int | None) -> bool:
    return isinstance(ticks, list) and len(ticks) == length and all(isinstance(tick, bool) for tick in ticks)


def _decision(row: Mapping[str, Any], of: float, where: str) -> ByHand:
    ticks = tuple(row["ticks"]) if "ticks" in row else None
    if "points" not in row:
        return ByHand(ticks=ticks)
    points, reason = checked_points(row["points"], of, where), checked_reason(row.get("reason"), where)
    was = row.get("was")
    known = float(was) if isinstance(was, (int, float)) and math.isfinite(was) else None
    return ByHand(ticks=ticks, points=points, reason=reason, was=known)


def checked_points(points: object, of: float, where: str) -> float:
    """Points that a person may give."""
    number = isinstance(points, (int, float)) and not isinstance(points, bool)
    if not number or not 0 <= float(points) <= of:  # type: ignore[arg-type]  # just seen to be a number
        raise InputError(f"{where}: points must be a number from 0 to {of:g}; {str(points)[:40]} is not.")
    return float(points)  # type: ignore[arg-type]


def checked_reason(reason: object, where: str) -> str:
    """Why a mark was overruled; the student reads it, so it is needed."""
    text = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not text:
        raise InputError(f"{where}: a mark is overruled with a reason, which the student reads; say why.")
    if len(text) > MOST_REASON:
        raise InputError(f"{where}: a reason has at most {MOST_REASON} characters; this one has {len(text)}.")
    return text


# the command


@dataclass(frozen=True, kw_only=True, eq=False)
class Overruled(Result):
    """A mark that a person changed, or gave back to the check."""

    student: str
    question: str
    points: float | None  # None: the check's again
    was: float
    of: float
    reason: str
    path: str

    def __str__(self) -> str:
        kept = f"Kept in {self.path}; regard grade, given as before, puts it into the marks and pages."
        if self.points is None:
            return f"{self.student}, {self.question}: as the check says again, {self.was:g} of {self.of:g}. {kept}"
        return f"{self.student}, {self.question}: {self.was:g} -> {self.points:g} of {self.of:g}. {kept}"


def overrule(
    folder: str | os.PathLike[str], student: str, question: str, *, points: float | None, reason: str = ""
) -> Overruled:
    """Put one decision into the written.json of a folder of marks; without points, take an earlier one away."""
    marks, where = _marks(Path(folder)), f"{student}, {question}"
    row, one = _mark(marks, student, question, folder)
    owner, of = str(row.get("by") or row["student"]), float(one["of"])
    was = float(one["points"] if one.get("automatic") is None else one["automatic"])
    given: dict[str, Any] = {}
    if points is not None:
        given = {"points": checked_points(points, of, where), "reason": checked_reason(reason, where), "was": was}
    path = Path(folder) / WRITTEN
    name, rows = _read(path) if path.exists() else (marks["assignment"], [])
    if name != marks["assignment"]:
        raise InputError(f"{path} is about the assignment {str(name)[:80]!r}, not about {marks['assignment']!r}.")
    kept = _instead(rows, owner, question, given, where)
    write_file(path, json.dumps({"assignment": marks["assignment"], "marks": kept}, indent=1).encode())
    said = str(given.get("reason", ""))
    return Overruled(student=owner, question=question, points=points, was=was, of=of, reason=said, path=str(path))


def _instead(
    rows: list[dict[str, Any]], owner: str, question: str, given: dict[str, Any], where: str
) -> list[dict[str, Any]]:
    """The rows with this decision instead of an earlier one; ticks stay."""
    same = [row for row in rows if (identity(str(row["student"])), str(row["question"])) == (identity(owner), question)]
    if not given and not any("points" in row for row in same):
        raise InputError(f"{where}: nobody has overruled this mark; there is nothing to undo.")
    ticked = next(({"ticks": row["ticks"]} for row in same if "ticks" in row), {})
    kept = [row for row in rows if row not in same]
    return [*kept, {"student": owner, "question": question, **ticked, **given}] if ticked or given else kept


def _marks(folder: Path) -> dict[str, Any]:
    path = folder / "marks.json"
    try:
        marks = json.loads(read_file(path))
        if not isinstance(marks["rows"], list) or not isinstance(marks["assignment"], str):
            raise ValueError("no marks")
    except OSError:
        raise InputError(f"{folder} has no marks.json; give the folder that regard grade has written.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} cannot be read as marks; run regard grade again.") from None
    return dict(marks)


def _mark(
    marks: Mapping[str, Any], student: str, question: str, folder: str | os.PathLike[str]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """One student's row, and in it the mark of one question."""
    rows = [row for row in marks["rows"] if identity(str(row["student"])) == identity(student)]
    if not rows:
        raise InputError(
            f"{folder} has no marks of {shown(student)!r}; {_some(row['student'] for row in marks['rows'])}."
        )
    row = next((row for row in rows if row["questions"]), None)
    if row is None:
        raise InputError(f"{shown(student)} handed in nothing that could be graded, so there is no mark to overrule.")
    one = next((one for one in row["questions"] if one["question"] == question), None)
    if one is None:
        raise InputError(f"There is no question {question!r}; {_some(one['question'] for one in row['questions'])}.")
    return row, one


def _some(names: Iterable[object]) -> str:
    known = list(map(str, names))
    return f"there are {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"

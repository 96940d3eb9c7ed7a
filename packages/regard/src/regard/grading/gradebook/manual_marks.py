"""What a person decided: the ticks of a checklist, and marks that were overruled, each with its reason.

One file in the folder of the marks holds all of it, by-hand.json. ``regard assignment overrule`` changes it, and
``regard grade`` takes into it what is new in a written.json of the marking form: the one that lies beside the marks,
and the one that ``--written`` names. New is what a person decided on that page, and what was not taken before; a
decision is known by what the page began with and what it says instead, and "taken" keeps all of them. So a file can
be given again, before or after other commands and files, and undoes none of them; where two decisions are about the
same mark, the one that came last counts, and the other stays in the file, under "replaced". Nothing automatic is lost
either: a mark that was overruled still carries the points that the check gave.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import Lock, make_folder, read_file, write_file
from regard.grading.questions.assignment import Assignment, Task
from regard.grading.submissions.students import display_text, identity
from regard.results import Result
from regard.strict_json import parse_json
from regard.written_numbers import in_full

WRITTEN, KEPT = "written.json", "by-hand.json"
PARTS = {"ticks": ("ticks",), "points": ("points", "reason", "was")}  # of a decision: each is taken by itself
MOST_REASON = 500  # characters
UNKNOWN = object()  # what a page began with, where an earlier version has not kept it
FORM = "save it from marking.html with the key s"


@dataclass(frozen=True, kw_only=True)
class Decision:
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


Decisions = Mapping[str, Mapping[str, Decision]]  # by the student's identity, and by question


Part = tuple[str, str, str]  # the student's identity, the question, and one of PARTS
Value = dict[str, Any] | None  # None: no decision, or one that was taken back
Parts = dict[Part, Value]


class Ledger:
    """The one file of marks by hand: what counts, what was taken from the form's files, and what was replaced."""

    def __init__(self, folder: Path, assignment: str) -> None:
        self.path, self.assignment = folder / KEPT, assignment
        self.names: dict[str, str] = {}  # of students, as they were first written
        data = _read(self.path, assignment) if self.path.exists() else {"marks": []}
        self.counting, self.taken = self._parts(data["marks"]), [dict(row) for row in data.get("taken", [])]
        self.replaced, self.files = list(data.get("replaced", [])), list(data.get("files", []))

    def take(self, path: Path, tasks: Mapping[str, Task] | None = None) -> list[str]:
        """Everything that is new in a file of the form; with the tasks, only if it fits them. Says what it did."""
        data = _read(path, self.assignment)
        there, began = self._parts(data["marks"]), self._parts(data.get("base", []))  # base: what the page began with
        changed = {part: there.get(part) for part in began | there if there.get(part) != began.get(part)}
        taken = self._earlier_decisions()
        old = {
            part: value
            for part, value in changed.items()
            if any(was == value and base in (began.get(part), UNKNOWN) for base, was in taken.get(part, ()))
        }
        new = {part: value for part, value in changed.items() if part not in old}
        for part, value in new.items():
            if value is not None and tasks is not None and part[1] in tasks:
                _decision(value, tasks[part[1]], f"{path}: {self._name(part)}")
        said = [line for part, value in new.items() for line in self.put(part, value, by=str(path))]
        for part, value in new.items():
            self.taken += [{**row, "base": began.get(part)} for row in self._rows({part: value})]
        said += self._lines_on_superseded(path, data, old)
        many = f"{len(new)} decision{'s' * (len(new) != 1)}"
        first = f"{many} of {path} {'were' if len(new) != 1 else 'was'} taken into {self.path}."
        return [first, *said] if new else said

    def _earlier_decisions(self) -> dict[Part, list[tuple[object, Value]]]:
        """All that files have brought, each with what its page began with."""
        taken: dict[Part, list[tuple[object, Value]]] = {}
        for row in self.taken:
            for part, value in self._parts([row]).items():
                taken.setdefault(part, []).append((row.get("base", UNKNOWN), value))
        return taken

    def _lines_on_superseded(self, path: Path, data: Mapping[str, Any], old: Parts) -> list[str]:
        """A line on each decision that was taken once and counts no more; said once of a file, which may lie there."""
        digest = hashlib.sha256(json.dumps([data["marks"], data.get("base")]).encode()).hexdigest()
        if digest in self.files:
            return []
        self.files.append(digest)
        return [
            f"{self._name(part)}: {_describe(value)} of {path} was taken once, and is not taken again; "
            f"what counts: {_describe(self.counting.get(part))}."
            for part, value in old.items()
            if value != self.counting.get(part)
        ]

    def put(self, part: Part, value: Value, *, by: str) -> list[str]:
        """Let a decision count, or none; says which other one it replaces."""
        before = self.counting.pop(part, None)
        if value is not None:
            self.counting[part] = value
        if before is None or before == value:
            return []
        self.replaced += self._rows({part: before})
        return [f"{self._name(part)}: {_describe(value)} by {by}, in place of {_describe(before)}."]

    def decisions(self, tasks: Mapping[str, Task]) -> tuple[dict[str, dict[str, Decision]], list[str]]:
        """What counts, and a line on each decision that the assignment, as it is now, has no place for."""
        decided: dict[str, dict[str, Decision]] = {}
        passed_over = []
        for part, value in self.counting.items():
            student, question, kind = part
            try:
                if question not in tasks:
                    raise InputError(
                        f"{self._name(part)}: {_describe(value)}, but this question is not asked any more."
                    )
                given = _decision(value or {}, tasks[question], self._name(part))
            except InputError as error:
                passed_over.append(f"{error} It stays in {self.path}, and does not count.")
            else:  # ticks and points, each by itself
                before = decided.setdefault(student, {}).get(question, Decision())
                decided[student][question] = replace(before, **{name: getattr(given, name) for name in PARTS[kind]})
        return decided, passed_over

    def save(self) -> None:
        rows = {"marks": self._rows(self.counting), "taken": self.taken, "replaced": self.replaced, "files": self.files}
        write_file(self.path, json.dumps({"assignment": self.assignment, **rows}, indent=1).encode())

    def _parts(self, rows: Iterable[Mapping[str, Any]]) -> Parts:
        parts: Parts = {}
        for row in rows:
            student, question = identity(str(row["student"])), str(row["question"])
            self.names.setdefault(student, str(row["student"]))
            for part, fields in PARTS.items():
                if part in row:
                    value = {field: row[field] for field in fields if field in row}
                    parts[student, question, part] = None if row[part] is None else value
        return parts

    def _rows(self, parts: Parts) -> list[dict[str, Any]]:
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for (student, question, part), value in parts.items():
            row = rows.setdefault((student, question), {"student": self.names[student], "question": question})
            row.update({part: None} if value is None else value)
        return list(rows.values())

    def _name(self, part: Part) -> str:
        return f"{display_text(self.names[part[0]])}, {part[1][:40]}"


@contextmanager
def ledger_of(folder: Path, assignment: str) -> Iterator[Ledger]:
    """The ledger of a folder, alone with it, and saved at the end."""
    with Lock(make_folder(folder, mode=0o700) / ".by-hand.lock"):
        ledger = Ledger(folder, assignment)
        yield ledger
        ledger.save()


def gather_decisions(
    folder: Path, assignment: Assignment, written: str | os.PathLike[str] | None = None
) -> tuple[dict[str, dict[str, Decision]], list[str]]:
    """Everything that was decided, and what to tell the person about it; ``written``: one more file of the form."""
    beside = folder / WRITTEN
    files = [beside] if beside.exists() else []
    files += [] if written is None or Path(written).resolve() == beside.resolve() else [Path(written)]
    if not files and not (folder / KEPT).exists():
        return {}, []
    tasks = {task.id: task for task in assignment.tasks}
    with ledger_of(folder, assignment.name) as ledger:
        said = [line for path in files for line in ledger.take(path, tasks)]
    decided, passed_over = ledger.decisions(tasks)
    return decided, [*said, *passed_over]


def lines_on_absent(decided: Decisions, there: Collection[str]) -> list[str]:
    """A line, if somebody decided on students of whom nothing is graded; ``there``: the identities of all others."""
    absent = [display_text(student) for student in decided if student not in there]
    if not absent:
        return []
    names = f"{', '.join(absent[:12])}{', ...' if len(absent) > 12 else ''}"
    return [f"Marks by hand of who has handed in nothing that is graded here: {names}. They stay in {KEPT}."]


def _read(path: Path, assignment: str) -> dict[str, Any]:
    """A file of decisions; each row has a student and a question, and ticks or points."""
    otherwise = FORM if path.name != KEPT else "restore it from a copy"
    try:
        data = dict(parse_json(read_file(path, most=50_000_000)))
        for name in ("marks", "base", "taken", "replaced"):
            _check_rows(data.get(name, []))
        name, marks, _ = data["assignment"], data["marks"], list(data.get("files", []))
        if path.name != KEPT and any(row.get(part, 0) is None for row in marks for part in PARTS):
            raise ValueError("no decisions")
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; {otherwise}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is not what the marking form saves; {otherwise}.") from None
    if name != assignment:
        raise InputError(f"{path} is about the assignment {str(name)[:80]!r}, not about {assignment!r}.")
    return data


def _check_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """Each row has a student and a question, and ticks or points."""
    if not all({"student", "question"} <= row.keys() and PARTS.keys() & row.keys() for row in rows):
        raise ValueError("no decisions")


def _describe(value: Value) -> str:
    """A decision in a few words."""
    if value is None:
        return "no decision"
    if "ticks" in value:
        return f"ticks {json.dumps(value['ticks'])[:80]}"
    return f"{str(value['points'])[:20]} points ({str(value.get('reason', ''))[:80]})"


def _fits(ticks: object, length: int | None) -> bool:
    return isinstance(ticks, list) and len(ticks) == length and all(isinstance(tick, bool) for tick in ticks)


def _decision(row: Mapping[str, Any], task: Task, where: str) -> Decision:
    """The ticks, or the points, if they fit their question."""
    if "ticks" in row:
        if not _fits(row["ticks"], len(task.checklist) if task.asks_for_words else None):
            raise InputError(f"{where}: the ticks do not fit its checklist; {FORM}.")
        return Decision(ticks=tuple(row["ticks"]))
    points, reason = checked_points(row.get("points"), task.points, where), checked_reason(row.get("reason"), where)
    was = row.get("was")
    known = float(was) if isinstance(was, (int, float)) and abs(was) < 1e9 else None
    return Decision(points=points, reason=reason, was=known)


def checked_points(points: object, of: float, where: str) -> float:
    """Points that a person may give."""
    number = isinstance(points, (int, float)) and not isinstance(points, bool)
    if not number or not 0 <= points <= of:  # type: ignore[operator]  # just seen to be a number
        raise InputError(f"{where}: points must be a number from 0 to {in_full(of)}; {str(points)[:40]} is not.")
    return float(points)  # type: ignore[arg-type]


def checked_reason(reason: object, where: str) -> str:
    """Why a mark was overruled; the student reads it, so it is needed."""
    text = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not text:
        raise InputError(f"{where}: a mark is overruled with a reason, which the student reads; say why.")
    if len(text) > MOST_REASON:
        raise InputError(f"{where}: a reason has at most {MOST_REASON} characters; this one has {len(text)}.")
    return text


def decide(folder: Path, assignment: Assignment, rows: list[Mapping[str, Any]], *, by: str) -> list[str]:
    """Put decisions into by-hand.json: all, or none where one does not fit; null takes one back."""
    tasks = {task.id: task for task in assignment.tasks}
    try:
        _check_rows(rows)
    except (ValueError, TypeError, AttributeError):
        raise InputError("Each decision names a student and a question, and has ticks or points.") from None
    with ledger_of(folder, assignment.name) as ledger:
        parts = ledger._parts(rows)
        for part, value in parts.items():
            if part[1] not in tasks:
                raise InputError(f"{ledger._name(part)}: there is no such question.")
            if value is not None:
                _decision(value, tasks[part[1]], ledger._name(part))
        return [line for part, value in parts.items() for line in ledger.put(part, value, by=by)]


# the command


@dataclass(frozen=True, kw_only=True, eq=False)
class OverruledMark(Result):
    """A mark that a person changed, or gave back to the check."""

    student: str
    question: str
    points: float | None  # None: the check's again
    was: float
    of: float
    reason: str
    path: str
    notes: tuple[str, ...] = ()  # what a file beside the marks brought, and what was replaced

    def __str__(self) -> str:
        now = (
            f"{self.was:g} -> {self.points:g}" if self.points is not None else f"as the check says again, {self.was:g}"
        )
        kept = f"Kept in {self.path}; regard grade, given as before, puts it into the marks and pages."
        return "\n".join([f"{self.student}, {self.question}: {now} of {self.of:g}. {kept}", *self.notes])


def overrule(
    folder: str | os.PathLike[str], student: str, question: str, *, points: float | None, reason: str = ""
) -> OverruledMark:
    """Put one decision into the by-hand.json of a folder of marks; without points, take an earlier one away."""
    marks, where = _marks(Path(folder)), f"{student}, {question}"
    row, one = _mark(marks, student, question, folder)
    owner, of = str(row.get("by") or row["student"]), float(one["of"])
    was = float(one["points"] if one.get("automatic") is None else one["automatic"])
    given: dict[str, Any] = {}
    if points is not None:
        given = {"points": checked_points(points, of, where), "reason": checked_reason(reason, where), "was": was}
    with ledger_of(Path(folder), marks["assignment"]) as ledger:
        beside = Path(folder) / WRITTEN  # it came before this command
        notes = ledger.take(beside) if beside.exists() else []
        part = (identity(owner), question, "points")
        if not given and part not in ledger.counting:
            raise InputError(f"{where}: nobody has overruled this mark; there is nothing to undo.")
        ledger.names.setdefault(part[0], owner)
        notes += ledger.put(part, given or None, by="this command")
    return OverruledMark(
        student=owner, question=question, points=points, was=was, of=of, reason=str(given.get("reason", "")),
        path=str(ledger.path), notes=tuple(notes),
    )  # fmt: skip


def _marks(folder: Path) -> dict[str, Any]:
    path = folder / "marks.json"
    try:
        marks = parse_json(read_file(path))
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
            f"{folder} has no marks of {display_text(student)!r}; "
            f"{_name_list(row['student'] for row in marks['rows'])}."
        )
    row = next((row for row in rows if row["questions"]), None)
    if row is None:
        raise InputError(
            f"{display_text(student)} handed in nothing that could be graded, so there is no mark to overrule."
        )
    one = next((one for one in row["questions"] if one["question"] == question), None)
    if one is None:
        raise InputError(
            f"There is no question {question!r}; {_name_list(one['question'] for one in row['questions'])}."
        )
    return row, one


def _name_list(names: Iterable[object]) -> str:
    known = list(map(str, names))
    return f"there are {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}"

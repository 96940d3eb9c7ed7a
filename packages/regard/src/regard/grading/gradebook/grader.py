"""Grading a pile: every answer of every submission examined, on all cores, each outcome kept as soon as it is there.

The journal of a grading: every answer's outcome, one sealed line each, on disk before the next is waited for.

Killed half-way, the same command goes on where it was: nothing is lost and nothing is run twice. A line carries a
seal that only the holder of the secret can make; a line that was edited, or that a crash cut in two, is run again.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path

from regard import __version__
from regard.errors import InputError
from regard.files import Lock, append_file, end_with_parent, make_folder, read_file
from regard.grading.gradebook.manual_marks import Decisions
from regard.grading.gradebook.marks import ClassMarks, StudentMarks, differences, mark_outcome
from regard.grading.gradebook.secret import Secret
from regard.grading.questions.assignment import Assignment, Kind, Limits, Task
from regard.grading.questions.examination import (
    Outcome,
    Status,
    StudentAnswer,
    examine,
    examine_derivation,
    failed_outcome,
)
from regard.grading.submissions.students import Student, identity
from regard.grading.submissions.submission import Submission, match_students
from regard.progress import Progress
from regard.sandbox.jail import ONE_THREAD, Tier, best_tier
from regard.sandbox.warm_pool import keep_warm
from regard.strict_json import parse_json

JOURNAL = "journal.jsonl"


class Journal:
    """Outcomes by key; ``damaged`` counts the lines that were not believed."""

    def __init__(self, folder: Path, secret: Secret) -> None:
        self.path, self.secret = folder / JOURNAL, secret
        self.outcomes: dict[str, Outcome] = {}
        self.damaged, self.end = 0, 0
        try:
            data = read_file(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}; check the folder.") from None
        self.end = data.rfind(b"\n") + 1
        for line in data[: self.end].splitlines():
            self._read_line(line)
        self.damaged += self.end < len(data)

    def _read_line(self, line: bytes) -> None:
        try:
            entry = parse_json(line, constants=True)
            body = json.dumps(entry["body"], sort_keys=True).encode()
            if entry["seal"] != self.secret.seal(body):
                raise ValueError("not ours")
            self.outcomes[entry["body"]["key"]] = Outcome.from_dict(entry["body"]["outcome"])
        except (ValueError, KeyError, TypeError, RecursionError):
            self.damaged += 1

    def add(self, key: str, outcome: Outcome, *, about: str) -> None:
        """One more outcome, on disk when this returns."""
        body = parse_json(json.dumps({"key": key, "about": about, "outcome": outcome.to_dict()}), constants=True)
        seal = self.secret.seal(json.dumps(body, sort_keys=True).encode())
        line = json.dumps({"body": body, "seal": seal}).encode() + b"\n"
        append_file(self.path, line, at=self.end)
        self.end += len(line)
        self.outcomes[key] = outcome


def key_of(*words: str | bytes) -> str:
    """The name of one examination: everything that its outcome hangs on."""
    digest = hashlib.sha256()
    for word in (__version__, *words):
        data = word if isinstance(word, bytes) else word.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8) + data)
    return digest.hexdigest()[:40]


MARKS = "marks.json"
PDF_ALONE = "there is no code in it, but a PDF, which may have the answer: a person has to look"


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One answer to be examined."""

    key: str
    about: str
    task: Task
    given: StudentAnswer
    limits: Limits
    jail: Tier


@dataclass(frozen=True, kw_only=True, eq=False)
class Pile:
    """Everything that marks are made from."""

    assignment: Assignment
    submissions: tuple[Submission, ...]
    students: Mapping[str, Student]
    secret: Secret
    by_hand: Decisions  # what persons decided

    @cached_property
    def groups(self) -> dict[str, str]:
        """The groups by their identities; a group that is called like a student is known by its members alone."""
        named = {identity(one.group): one.group for one in self.students.values() if one.group}
        return {key: group for key, group in named.items() if key not in self.students}

    def seed_owner(self, submission: Submission) -> str:
        """Whose numbers a submission is examined with: its group's, or its student's."""
        student = self.students.get(submission.identity)
        group = student.group if student is not None else self.groups.get(submission.identity, "")
        return f"group {identity(group)}" if group else submission.identity


def safe_tier(*, sandbox: bool) -> Tier:
    """The jail that submissions run in; without one nothing runs, unless that was asked for."""
    if not sandbox:
        return Tier.NONE
    try:
        return best_tier(True)
    except InputError as error:
        said = str(error).partition("; without --jail")[0]
        raise InputError(
            f"{said}. Submissions would run with your rights; use a container or a virtual machine, and give "
            "--no-sandbox there."
        ) from None


def grade(
    pile: Pile, folder: Path, *, jail: Tier, workers: int | None = None, progress: Progress | None = None
) -> ClassMarks:
    """Examine what is not in the journal of the folder yet, and return everybody's marks."""
    make_folder(folder, mode=0o700)
    lock = Lock(folder)
    if not lock.acquire(wait=False):
        raise InputError(f"Another grading is at work in {folder}; wait for it, or give another --out.")
    try:
        journal = Journal(folder, pile.secret)
        outcomes, jobs = plan_jobs(pile, jail)
        todo = [job for job in jobs if not _is_settled(journal.outcomes.get(job.key), job.limits)]
        for done, (job, outcome) in enumerate(_run(todo, workers or cores()), 1):
            if outcome.status is Status.NOT_RUN:
                outcomes[job.key] = outcome  # not kept: the next time it may run
            else:
                journal.add(job.key, outcome, about=job.about)
            if progress is not None:
                progress(len(jobs) - len(todo) + done, len(jobs))
        marks = _marks(pile, {**journal.outcomes, **outcomes}, jail, counts=(len(todo), len(jobs) - len(todo)))
        return replace(marks, changed=tuple(differences(previous_marks(folder), marks)), damaged=journal.damaged)
    finally:
        lock.release()


def _is_settled(outcome: Outcome | None, limits: Limits) -> bool:
    """Whether an answer need not be run: it was, and not cut short by a lower limit than now."""
    return outcome is not None and not 0 < outcome.seconds < limits.seconds


def previous_marks(folder: Path) -> dict[str, object] | None:
    """The marks that are in the folder already."""
    try:
        marks = parse_json((folder / MARKS).read_bytes())
    except (OSError, ValueError):
        return None
    return marks if isinstance(marks, dict) else None


def plan_jobs(pile: Pile, jail: Tier) -> tuple[dict[str, Outcome], list[Job]]:
    """What can be said without running anything, and what has to be run."""
    outcomes: dict[str, Outcome] = {}
    jobs: dict[str, Job] = {}
    for submission in pile.submissions:
        for task in pile.assignment.tasks if not submission.refused else ():
            key = outcome_key(pile, submission, task)
            code = submission.code(task.function) if not task.asks_for_words else None
            if is_marked_by_hand(pile, submission, task):
                outcomes[key] = Outcome(status=Status.BY_HAND)
            elif task.kind is Kind.DERIVATION:
                outcomes[key] = examine_derivation(task, words_on(pile, submission, task))
            elif task.weights and submission.weights(task.weights) is None:
                outcomes[key] = failed_outcome(f"there is no file {task.weights} in it that can be read", share=0.0)
            elif code is None and submission.written_pdf() is not None:
                outcomes[key] = Outcome(status=Status.DOUBTED, share=0.0, reason=PDF_ALONE)
            elif code is None:
                outcomes[key] = failed_outcome(submission.missing_code_reason())
            else:
                seed = pile.secret.seed(pile.assignment.name, pile.seed_owner(submission), task.id)
                weights = submission.weights(task.weights) if task.weights else None
                given = StudentAnswer(name=code[0], source=code[1], seed=seed, notebook=code[2], weights=weights)
                about = f"{submission.student}, {task.id}"
                limits = pile.assignment.limits
                jobs[key] = Job(key=key, about=about, task=replace(task), given=given, limits=limits, jail=jail)
    return outcomes, list(jobs.values())


def words_on(pile: Pile, submission: Submission, task: Task) -> str:
    """What was written on a question."""
    return submission.words(task.id, [one.id for one in pile.assignment.tasks])


def is_marked_by_hand(pile: Pile, submission: Submission, task: Task) -> bool:
    """Whether a person marks it: words, and a derivation that is in a PDF only, whose text nobody reads."""
    in_pdf = task.asks_for_words and submission.written_pdf() is not None
    return task.kind is Kind.WRITTEN or (in_pdf and not words_on(pile, submission, task))


def outcome_key(pile: Pile, submission: Submission, task: Task) -> str:
    """The journal's name for one answer: who, which question, what decides it, and the file."""
    code = submission.code(task.function) if not task.asks_for_words else None
    source = code[1] if code is not None else b""
    source += words_on(pile, submission, task).encode() if task.kind is Kind.DERIVATION else b""
    source += (submission.weights(task.weights) or b"") if task.weights else b""
    digest = task.digest(pile.assignment.limits)
    return key_of(pile.assignment.name, pile.seed_owner(submission), task.id, digest, pile.secret.name(), source)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(jobs: list[Job], workers: int) -> Iterator[tuple[Job, Outcome]]:
    """Outcomes as they come; one worker needs no pool."""
    if workers <= 1 or len(jobs) < 2:
        with keep_warm():
            yield from ((job, _examine_job(job)) for job in jobs)
        return
    waiting: dict[Future[Outcome], Job] = {}
    rest = iter(jobs)
    with _pool(workers) as pool:
        while True:
            for job in rest:
                waiting[pool.submit(_examine_job, job)] = job
                if len(waiting) >= 4 * workers:  # a pile of hundreds is not sent at once
                    break
            if not waiting:
                return
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(future), future.result()


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes of one thread each; the environment of those who are started meanwhile says so.

    The workers fill the cores already. With threads of its own for each, linear algebra waits for itself: on two
    cores a class took seven times as much of the processor. And the last digits would hang on the number of cores.
    """
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_prepare_worker, initargs=(os.getpid(),)
    )
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            os.environ.pop(name)
            os.environ.update({} if value is None else {name: value})


def _prepare_worker(parent: int) -> None:
    """In a worker: Ctrl-C is for the one who waits; whoever loses that one ends too; jails stay for the next answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    jails = contextlib.ExitStack()
    jails.enter_context(keep_warm())
    atexit.register(jails.close)


def _examine_job(job: Job) -> Outcome:
    return examine(job.task, job.given, limits=job.limits, jail=job.jail)


def _marks(pile: Pile, outcomes: Mapping[str, Outcome], jail: Tier, *, counts: tuple[int, int]) -> ClassMarks:
    rows = [_row(pile, submission, outcomes) for submission in pile.submissions]
    tiers = sorted({one.tier for row in rows for one in row.questions if one.tier})
    return ClassMarks(
        assignment=pile.assignment.name,
        rows=tuple(_class_rows(pile, rows)),
        tiers=tuple(tiers) or ((jail.value,) if counts[0] else ()),
        secret=pile.secret.name(),
        graded=counts[0],
        known=counts[1],
        _assignment=pile.assignment,
    )


def _row(pile: Pile, submission: Submission, outcomes: Mapping[str, Outcome]) -> StudentMarks:
    assignment = pile.assignment
    decided = pile.by_hand.get(submission.identity, {})
    questions = (
        ()
        if submission.refused
        else tuple(
            mark_outcome(task, outcomes[outcome_key(pile, submission, task)], by_hand=decided.get(task.id))
            for task in assignment.tasks
        )
    )
    student = pile.students.get(submission.identity) or Student(id=submission.student, name=submission.name)
    due = student.due(assignment.deadline)
    late = max(submission.submitted - due, timedelta(0)) if due and submission.submitted else timedelta(0)
    problems = submission.problems
    if due and not submission.submitted:
        problems = (*problems, "when it was handed in is not known; nothing was taken off for lateness")
    return StudentMarks(
        student=submission.student,
        name=student.name,
        email=student.email,
        group=student.group,
        questions=questions,
        of=assignment.points,
        submitted=submission.submitted,
        late=late,
        kept=assignment.late.kept_share(late),
        problems=problems,
        refused=submission.refused,
    )


def _class_rows(pile: Pile, rows: list[StudentMarks]) -> list[StudentMarks]:
    """Everybody on the list: members of a group get its better submission; who handed in nothing gets a row too."""
    own_rows = {identity(row.student): row for row in rows}
    groups: dict[str, StudentMarks] = {}
    for row in rows:
        group = identity(row.group) or (identity(row.student) if _is_group(pile, row.student) else "")
        if group and not row.refused and (group not in groups or row.points > groups[group].points):
            groups[group] = row
    listed = []
    for key, student in pile.students.items():
        best = groups.get(identity(student.group)) if student.group else None
        own = own_rows.get(key)
        row = (
            best
            or own
            or StudentMarks(
                student=student.id,
                name=student.name,
                group=student.group,
                questions=(),
                of=pile.assignment.points,
                problems=("nothing was handed in",),
            )
        )
        by = row.student if best is not None and identity(row.student) != key else ""
        listed.append(
            replace(row, student=student.id, name=student.name, email=student.email, group=student.group, by=by)
        )
    extra = [row for key, row in own_rows.items() if key not in pile.students and not _is_group(pile, row.student)]
    refused = [row for row in rows if row.refused and row is not own_rows.get(identity(row.student))]
    return sorted([*listed, *extra, *refused], key=lambda row: identity(row.student))


def _is_group(pile: Pile, name: str) -> bool:
    return identity(name) in pile.groups


def pile_of(
    assignment: Assignment,
    submissions: list[Submission],
    *,
    secret: Secret,
    students: Mapping[str, Student] | None = None,
    by_hand: Decisions | None = None,
) -> Pile:
    """Submissions with their students."""
    listed = students or {}
    return Pile(
        assignment=assignment,
        submissions=tuple(match_students(submissions, listed)),
        students=listed,
        secret=secret,
        by_hand=by_hand or {},
    )

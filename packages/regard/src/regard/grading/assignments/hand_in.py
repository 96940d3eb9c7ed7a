"""What a student hands in, in one zip: code, notebook, words and weights, the same bytes whenever the files are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError
from regard.files import check_target, write_file
from regard.grading.questions.assignment import Assignment, Kind, Task
from regard.grading.submissions.archives import HAND_IN, zip_bytes
from regard.grading.submissions.submission import Submission, read_own_files
from regard.results import Result

UNFILLED = ("write your answer here", "NotImplementedError('write the ")  # a template's function, its class


@dataclass(frozen=True, kw_only=True, eq=False)
class HandIn(Result):
    """A zip to hand in; ``answer`` is False where a question has nothing in it."""

    path: str
    files: tuple[str, ...]
    missing: tuple[str, ...]  # a sentence on each question that has nothing
    left_out: tuple[str, ...]  # and why

    @property
    def answer(self) -> bool:
        return not self.missing

    def __str__(self) -> str:
        lines = [f"Wrote {self.path}:", *(f"  {name}" for name in self.files)]
        lines += ["Left out:", *(f"  {one}" for one in self.left_out)] if self.left_out else []
        lines += ["Missing:", *(f"  {one}" for one in self.missing)] if self.missing else []
        return "\n".join(
            [*lines, "Something of every question is in it." if self.answer else "Add it, and pack again."]
        )


def hand_in(assignment: Assignment, folder: str, path: str) -> HandIn:
    """Pack the files of a folder that are graded into a new zip, and say which questions have nothing in it."""
    target = check_target(path, (".zip",))
    if target.exists():
        raise InputError(f"{target} exists and is not overwritten; name another file with --out.")
    mine = read_own_files(Path(folder))
    files = sorted(mine.files, key=lambda entry: entry.parts)
    if not files:
        raise InputError(f"{folder} has nothing to hand in: no .py, .ipynb, .pdf, .md or .txt file.")
    packed = {"/".join(entry.parts): entry.data for entry in files}
    write_file(target, zip_bytes(packed, mode=0o644, comment=HAND_IN))
    pdf = "; a report counts as a PDF: regard translator report --format pdf"
    return HandIn(
        path=path,
        files=tuple(packed),
        missing=tuple(_missing(assignment, mine)),
        left_out=tuple(f"{one}{pdf}" if ".html: " in one else one for one in mine.problems),
    )


def _missing(assignment: Assignment, mine: Submission) -> Iterator[str]:
    ids = [task.id for task in assignment.tasks]
    for task in assignment.tasks:
        if task.kind is Kind.WRITTEN:
            if mine.written_pdf() is None and not mine.words(task.id, ids, else_everything=False):
                yield f"{task.id}: no words; write them below 'Your answer to {task.id}:', or add written.pdf"
        elif task.kind is Kind.DERIVATION:
            if not mine.words(task.id, ids, else_everything=False):
                yield f"{task.id}: no derivation; write it below 'Your answer to {task.id}:'"
        elif why := _code_problem(task, mine):
            yield f"{task.id}: {why}"
        if task.weights and mine.weights(task.weights) is None:
            yield f"{task.id}: no file {task.weights}"


def _code_problem(task: Task, mine: Submission) -> str:
    """Why the function or class of a question is not there; empty where it is."""
    code = mine.code(task.function)
    if code is None:
        return f"no {task.function}, since there is no Python file and no notebook"
    name, source, book = code
    shown = name.removesuffix(".py") if book is not None else name
    if task.function not in (book.names if book is not None else mine.defined_names_of(source)):
        return f"no {task.function} in {shown}"
    for text in book.cell_texts if book is not None else [source.decode("utf-8", "replace")]:
        try:
            found = [node for node in ast.parse(text).body if getattr(node, "name", "") == task.function]
        except (SyntaxError, ValueError):
            continue  # Python will say it
        if any(said in ast.unparse(node) for node in found for said in UNFILLED):
            return f"{task.function} is not filled in, in {shown}; leave a file out that you do not use"
    return ""

"""The students' files: one function per question with public examples, never an answer; and one zip to hand in."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.coursework.answers.answer_check import Check
from regard.coursework.answers.report import function_frame, literal
from regard.coursework.catalogue import claims
from regard.coursework.derivations.report import problem_text
from regard.errors import InputError
from regard.files import check_target, make_folder, write_file
from regard.grading.gradebook.secret import Secret
from regard.grading.questions.assignment import Assignment, Kind, Task
from regard.grading.questions.examination import problem_of
from regard.grading.questions.statements import draw_statements
from regard.grading.submissions.archives import HAND_IN, zip_bytes
from regard.grading.submissions.students import Student, identity
from regard.grading.submissions.submission import YOURS, Submission, read_own_files
from regard.notation import without_marks
from regard.results import Result
from regard.sandbox.clock import Clock

WIDTH = 96
EXAMPLES = 2
MOST_NUMBERS = 60  # of an example


@dataclass(frozen=True, kw_only=True, eq=False)
class TemplateWritten(Result):
    """The files that students start from."""

    files: tuple[str, ...]
    questions: int

    def __str__(self) -> str:
        shown = self.files if len(self.files) <= 4 else (*self.files[:3], f"... and {len(self.files) - 3} more")
        count = f"{self.questions} question{'s' * (self.questions != 1)}"
        return "\n".join([f"Wrote the students' files, {count}:", *(f"  {file}" for file in shown)])


def write_template(
    assignment: Assignment,
    folder: str | os.PathLike[str],
    *,
    secret: Secret | None = None,
    students: dict[str, Student] | None = None,
) -> TemplateWritten:
    """Write a .py file and a notebook; with a secret and a list of students, a folder for each of them."""
    base = Path(folder)
    seeds: dict[str, Secret | None] = {"": None}
    if secret is not None and students:
        seeds = {student.id: secret for student in students.values()}
    elif any(task.kind is Kind.STATEMENTS for task in assignment.tasks):
        raise InputError(
            "This assignment has other statements for each student: give --secret FILE and --students FILE."
        )
    written: list[str] = []
    for student, key in seeds.items():
        home = base / file_name(student) if student else base
        listed = (students or {}).get(identity(student))
        who = f"group {identity(listed.group)}" if listed is not None and listed.group else identity(student)
        parts = [question_part(task, _seed(key, assignment, who, task)) for task in assignment.tasks]
        texts = {
            f"{stem(assignment)}.py": as_python(assignment, parts),
            f"{stem(assignment)}.ipynb": as_notebook(assignment, parts),
        }
        written += write_new_files(home, texts)
    return TemplateWritten(files=tuple(written), questions=len(assignment.tasks))


def write_new_files(folder: Path, texts: dict[str, str]) -> list[str]:
    """Write texts by their names below a folder, all or, where one is there already, none; returns where they are."""
    places = {folder / name: text for name, text in texts.items()}
    for place in places:
        if place.exists():
            raise InputError(f"{place} exists and is not overwritten; give another --out.")
    for place, text in places.items():
        make_folder(place.parent)
        write_file(place, text.encode())
    return [str(place) for place in places]


def _seed(secret: Secret | None, assignment: Assignment, who: str, task: Task) -> int | None:
    return None if secret is None else secret.seed(assignment.name, who, task.id)


def stem(assignment: Assignment) -> str:
    """A file name that Python can import."""
    return re.sub(r"\W+", "_", assignment.name, flags=re.ASCII).strip("_").lower() or "answers"


def file_name(text: str) -> str:
    """A file's name for a student: plain letters, and no two students with the same.

    >>> file_name("ada"), file_name("../ada")
    ('ada', '_ada-60088279')
    """
    plain = re.sub(r"[^A-Za-z0-9@+_-]+", "_", text)[:60]
    return plain if plain == text else f"{plain}-{hashlib.sha256(identity(text).encode()).hexdigest()[:8]}"


APART = "Hand it in as a file of its own beside this one: torch is there for that file only."
WORDS = (
    "# (in words: below, in lines that begin with #, in a text file, or in written.pdf: then say here\n"
    "# on which pages, as in 'pages 2-3', or give its headings the names of the questions)"
)


@dataclass(frozen=True, kw_only=True)
class Part:
    """One question: words, and the code to fill in (empty for words)."""

    title: str
    words: str
    code: str


def question_part(task: Task, seed: int | None) -> Part:
    """The question of a task as words and code."""
    title = f"{task.id} ({task.points:g} point{'s' * (task.points != 1)})"
    if task.kind is Kind.WRITTEN:
        return Part(title=title, words=text_of(task), code="")
    if task.kind is Kind.DERIVATION:
        return Part(title=title, words=f"{text_of(task)}\n\n{problem_text(problem_of(task))}", code="")
    if task.kind in (Kind.TRANSFORMER, Kind.AUDIT):
        frame = " regard claims translator --template my.py writes its frame." * (task.kind is Kind.TRANSFORMER)
        what = "a class" if task.kind is Kind.TRANSFORMER else "a function that returns a torch model,"
        words = f"{text_of(task)} Write {what} {task.function}.{frame} {APART}"
        return Part(title=title, words=words, code=f"# {task.function}: in a file of its own")
    words = text_of(task)
    if task.kind is Kind.STATEMENTS and seed is not None:
        words += "".join(f"\n\n{n}. {one.text}" for n, one in enumerate(draw_statements(task, seed), 1))
    return Part(title=title, words=words, code=function_text(task))


def text_of(task: Task) -> str:
    """What is asked, in words."""
    if task.text:
        return task.text
    if task.kind in (Kind.OWN, Kind.STATEMENTS, Kind.PERPLEXITY):
        return task.question.task
    if not task.claim:
        return "Show what is to be shown, line by line."
    claim = claims[task.claim]
    return (claim.question.statement if claim.question is not None else "") or without_marks(claim.statement)


def function_text(task: Task) -> str:
    """The function to fill in, with its arguments, what it returns, and public examples of calls."""
    # a teacher's dollars are theirs
    said = without_marks(task.question.task) if task.claim else task.question.task
    return function_frame(task.question, said, fold=_wrap, calls=list(islice(public_examples(task), EXAMPLES)))


def public_examples(task: Task) -> Iterator[str]:
    """Calls with small arguments; what comes back is left to the student."""
    if task.kind in (Kind.STATEMENTS, Kind.PERPLEXITY):
        return
    question = task.question
    sizes = question.chosen_sizes(dict(task.sizes), task.claim or task.id)
    check = Check(task.claim, question, "", lambda given, *, most: {}, sizes, Clock(10), 0)
    seen: set[str] = set()
    for _, instance in islice(check.instances(), 40):
        if sum(np.size(value) for value in instance.given.values()) > MOST_NUMBERS:
            continue
        call = f"{task.function}({', '.join(literal(value) for value in instance.given.values())})"
        if call not in seen and len(call) < 160:
            seen.add(call)
            yield call


def as_python(assignment: Assignment, parts: list[Part]) -> str:
    """The plain file."""
    head = [
        f'"""{_wrap(assignment.title)}',
        "",
        *(_wrap(line) for line in _rules(assignment)),
        '"""',
        "",
        "import numpy as np",
    ]
    lines = list(head)
    for one in parts:
        lines += ["", "", *(f"# {line}".rstrip() for line in [one.title, *_wrap(one.words).splitlines()])]
        lines += [one.code] if one.code else [WORDS, f"# {YOURS}{one.title.partition(' (')[0]}:"]
    return "\n".join([*lines, ""])


def as_notebook(assignment: Assignment, parts: list[Part]) -> str:
    """The same as a notebook, a cell for the words and one for the code of each question."""
    cells = [
        notebook_cell("markdown", f"# {assignment.title}\n\n" + "\n\n".join(_rules(assignment))),
        notebook_cell("code", "import numpy as np"),
    ]
    for one in parts:
        answer = ("code", one.code) if one.code else ("markdown", f"{YOURS}{one.title.partition(' (')[0]}:")
        cells += [notebook_cell("markdown", f"## {one.title}\n\n{one.words}"), notebook_cell(*answer)]
    return notebook_text(cells)


def notebook_text(cells: list[dict[str, Any]]) -> str:
    """The cells as a file of Jupyter's."""
    book = {
        "cells": [{**cell, "id": f"cell-{number}"} for number, cell in enumerate(cells)],
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def notebook_cell(kind: str, text: str) -> dict[str, Any]:
    """One cell, "code" or "markdown"."""
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


def _rules(assignment: Assignment) -> list[str]:
    due = f"Due {assignment.deadline:%Y-%m-%d %H:%M %Z}. {assignment.late}" if assignment.deadline else ""
    check = f"regard grade {stem(assignment)}.py --public --assignment {assignment.path.name}"
    said = (
        "Fill in the functions; keep their names. Each is called with many arguments, other ones for each student, and "
        "by an adversary that looks for a failure; any right answer counts. Python's own modules, NumPy and SciPy are "
        f"there. Keys are counted from 0. Check it with: {check}"
    )
    return [line for line in (due, said) if line]


def _wrap(text: str, *, hang: int = 0) -> str:
    return "\n".join(
        textwrap.fill(line, WIDTH, subsequent_indent=" " * hang, break_on_hyphens=False, break_long_words=False)
        if line
        else ""
        for line in text.splitlines()
    )


# What a student hands in, in one zip: code, notebook, words and weights, the same bytes whenever the files are.


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

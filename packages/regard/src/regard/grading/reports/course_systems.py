"""Marks as course systems take them: Gradescope, PrairieLearn, Moodle, Canvas; test cells for Otter-Grader and
nbgrader.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.grading.assignments.template import (
    Part,
    TemplateWritten,
    as_notebook,
    notebook_cell,
    question_part,
    stem,
    write_new_files,
)
from regard.grading.cells import PASSED
from regard.grading.gradebook.marks import ClassMarks, StudentMarks, TaskMark, student_view
from regard.grading.questions.assignment import Assignment, Kind, Reveal, Task
from regard.grading.reports.pages import submission_notes
from regard.strict_json import parse_json
from regard.terminal import plain_cell


def as_csv(rows: Sequence[Sequence[str]]) -> str:
    """Rows as CSV that no spreadsheet takes for formulas.

    >>> print(as_csv([["=1+1", "ada"], ["-1.5", "x, y"]]).replace(chr(13), ""), end="")
    '=1+1,ada
    -1.5,"x, y"
    """
    stream = io.StringIO()
    csv.writer(stream).writerows([[plain_cell(cell) for cell in row] for row in rows])
    return stream.getvalue()


NOT_GRADED = "This could not be graded here, through no fault of the submission; the course staff has been told why: "


def question_feedback(task: Task, one: TaskMark) -> str:
    """What a student reads of one question, as plain text."""
    lines = student_view(task, one)
    if task.reveal is Reveal.COUNTEREXAMPLE and one.counterexample is not None and one.has_lost_points:
        lines += ["The smallest counterexample found:", str(one.counterexample["code"])]
    lines += [f"Note: {note}" for note in one.notes]
    return "\n".join([*lines, f"How points are given: {task.rule()}"])


def gradescope_results(assignment: Assignment, row: StudentMarks) -> dict[str, Any]:
    """results.json of Gradescope: a test for each question. What waits for a person has no score yet, and says so."""
    tests = []
    for number, one in enumerate(row.questions, 1):
        task = assignment.task(one.question)
        if one.open and task.kind is Kind.WRITTEN:
            continue  # marked by hand there, too
        test: dict[str, Any] = {
            "name": task.id,
            "number": str(number),
            "score": one.points,
            "max_score": one.of,
            "output": question_feedback(task, one),
            "output_format": "text",
            "visibility": "visible",
        }
        tests.append(test if one.open else {**test, "status": "passed" if one.points >= one.of else "failed"})
    total = round(sum(one.points for one in row.questions) * row.kept + 1e-9, 2)
    return {
        "score": total,
        "output": "\n".join([*submission_notes(assignment, row), *_tier_lines(row)]),
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def prairielearn_results(assignment: Assignment, row: StudentMarks) -> dict[str, Any]:
    """results.json of an external grader of PrairieLearn: a score from 0 to 1, and points for each question."""
    possible = [one for one in row.questions if not (one.open and assignment.task(one.question).kind is Kind.WRITTEN)]
    of = sum(one.of for one in possible)
    return {
        "gradable": True,
        "score": round(sum(one.points for one in possible) * row.kept / of, 6) if of else 0.0,
        "output": "\n".join([*submission_notes(assignment, row), *_tier_lines(row)]),
        "tests": [
            {
                "name": one.question,
                "points": one.points,
                "max_points": one.of,
                "output": question_feedback(assignment.task(one.question), one),
            }
            for one in possible
        ],
    }


def _tier_lines(row: StudentMarks) -> list[str]:
    tiers = sorted({one.tier for one in row.questions if one.tier})
    return [f"Ran in: {', '.join(tiers)}."] if tiers else []


def moodle_csv(marks: ClassMarks) -> str:
    """For Moodle's grade import: one row for each student, matched by ID number."""
    rows = [["ID number", "Email address", marks._assignment.title, "Feedback"]]
    for row in marks.rows:
        if not row.refused:
            rows.append([row.student, row.email, f"{row.points:g}", _feedback(row)])
    return as_csv(rows)


def canvas_csv(marks: ClassMarks) -> str:
    """For Canvas's gradebook: its first columns, and one for this assignment; the second line has what is possible.

    Canvas takes the digits at the beginning of an ID for a number of its own: an ID that is no number goes where it
    looks for those of the university and for logins.
    """
    name = marks._assignment.title
    rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", name]]
    rows.append(["    Points Possible", "", "", "", "", f"{marks._assignment.points:g}"])
    for row in marks.rows:
        if not row.refused:
            own = row.student.isascii() and row.student.isdecimal()
            ids = [row.student, "", ""] if own else ["", row.student, row.student]
            rows.append([row.name or row.student, *ids, "", f"{row.points:g}"])
    return as_csv(rows)


def _feedback(row: StudentMarks) -> str:
    words = [f"{one.question}: {one.points:g} of {one.of:g}" for one in row.questions if not one.open]
    late = [f"late, {row.kept:.0%} kept"] if row.kept < 1 else []
    return "; ".join([*words, *late, *([f"{row.open} open"] if row.open else [])])


# test cells


def write_cells(assignment: Assignment, folder: str) -> TemplateWritten:
    """tests/ for Otter-Grader, a notebook for nbgrader, and the assignment that both read."""
    name = assignment.path.name
    files = {f"tests/{file}": text for file, text in otter_tests(assignment, name).items()}
    files[f"{stem(assignment)}.ipynb"] = nbgrader_notebook(assignment, name)
    return TemplateWritten(files=tuple(write_new_files(Path(folder), files)), questions=len(assignment.tasks))


def otter_tests(assignment: Assignment, file: str) -> dict[str, str]:
    """tests/NAME.py for Otter-Grader, one for each question that a function answers."""
    tests = {}
    for task in assignment.tasks:
        if task.kind in (Kind.CLAIM, Kind.OWN):
            call = f">>> public_check({file!r}, {task.id!r}, {task.function})"
            code = f">>> from regard.grading.cells import public_check\n{call}\n{PASSED!r}"
            case = {"code": code, "hidden": False, "locked": False}
            suite = {"cases": [case], "scored": True, "setup": "", "teardown": "", "type": "doctest"}
            test = {"name": task.function, "points": task.points, "suites": [suite]}
            tests[f"{task.function}.py"] = f"OK_FORMAT = True\n\ntest = {_literal(test)}\n"
    return tests


def _literal(value: Any) -> str:
    import pprint

    return pprint.pformat(value, width=110, sort_dicts=False)


def nbgrader_notebook(assignment: Assignment, file: str) -> str:
    """The source notebook for nbgrader: a solution cell and a locked test cell for each question; words by hand."""
    parts = [question_part(task, None) for task in assignment.tasks]
    book = parse_json(as_notebook(assignment, parts))
    cells = [_marked_cell("read", cell, f"words-{n}") for n, cell in enumerate(book["cells"][:2])]
    for number, (task, one) in enumerate(zip(assignment.tasks, parts, strict=True)):
        words, answer = book["cells"][2 + 2 * number : 4 + 2 * number]
        cells += [_marked_cell("read", words, f"question-{number}"), *_answer_cells(task, one, answer, number, file)]
    return json.dumps({**book, "cells": cells}, indent=1, ensure_ascii=False) + "\n"


def _answer_cells(task: Task, one: Part, answer: dict[str, Any], number: int, file: str) -> list[dict[str, Any]]:
    if task.kind not in (Kind.CLAIM, Kind.OWN):
        return [_marked_cell("manual", answer, f"answer-{number}", points=task.points)]
    frame = one.code.replace(
        '    raise NotImplementedError("write your answer here")',
        '    ### BEGIN SOLUTION\n    raise NotImplementedError("write your answer here")\n    ### END SOLUTION',
    )
    test = f"from regard.grading.cells import public_check\n\npublic_check({file!r}, {task.id!r}, {task.function})"
    cell = {**notebook_cell("code", test), "id": f"tests-{number}"}
    return [
        _marked_cell("solution", {**answer, "source": frame}, f"answer-{number}"),
        _marked_cell("tests", cell, f"tests-{number}", points=task.points),
    ]


def _marked_cell(kind: str, cell: dict[str, Any], name: str, *, points: float = 0) -> dict[str, Any]:
    """A cell with what nbgrader wants to know of it."""
    graded, solution = kind in ("manual", "tests"), kind in ("manual", "solution")
    about_it: dict[str, Any] = {
        "grade_id": name,
        "grade": graded,
        "solution": solution,
        "locked": not solution,
        "task": False,
        "schema_version": 3,
    }
    return {**cell, "metadata": {"nbgrader": {**about_it, "points": points} if graded else about_it}}

"""``regard assignment``: write an assignment, try it out, make the students' files."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.cli.output import AsJson, Group, Progress, show
from regard.errors import InputError
from regard.grading.assignments.assignment_check import check_assignment
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.problem_sets import new_assignment, write_example
from regard.grading.assignments.template import hand_in, stem, write_template
from regard.grading.gradebook.grader import safe_tier
from regard.grading.gradebook.manual_marks import overrule as overruled
from regard.grading.gradebook.secret import read_secret, write_secret
from regard.grading.reports.autograder import pack as packed
from regard.grading.reports.course_systems import write_cells
from regard.grading.submissions.students import read_students

app = typer.Typer(
    cls=Group, no_args_is_help=True, help="Set homework: write an assignment, try it out, make the students' files."
)

File = Annotated[str, typer.Argument(metavar="ASSIGNMENT.toml", help="The assignment.")]
NoSandbox = Annotated[
    bool,
    typer.Option("--no-sandbox", help="Run code without a jail, with your rights: only inside a container of its own."),
]


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="One of the five problem sets, as in cse151b-hw4.")],
    file: Annotated[str | None, typer.Argument(help="The file to write; NAME.toml if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write the assignment of a problem set, every key with a comment.

    Example: regard assignment new cse151b-hw4
    """
    show(new_assignment(name, file), as_json=as_json)


@app.command()
def example(
    folder: Annotated[str, typer.Argument(help="A new folder.")] = "example-class", as_json: AsJson = False
) -> None:
    """Write a small class to try grading on: an assignment, students, and submissions, right and wrong.

    Example: regard assignment example week
    """
    show(write_example(folder), as_json=as_json)


@app.command()
def check(file: File, no_sandbox: NoSandbox = False, as_json: AsJson = False) -> None:
    """List all mistakes of the file, and grade our own right and wrong answers against it.

    Exit code 0: every question can be solved and no wrong answer of ours passes; 1: not so; 2: the file has mistakes.

    Example: regard assignment check cse151b-hw4.toml
    """
    assignment = read_assignment(file)
    tried = check_assignment(assignment, jail=safe_tier(sandbox=not no_sandbox), progress=Progress("our answers"))
    show(tried, as_json=as_json)


@app.command()
def template(
    file: File,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where to write.")] = ".",
    secret: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --students: each gets their own sheet.")
    ] = None,
    students: Annotated[str | None, typer.Option(metavar="CSV", help="The list of students.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make the students' files, a .py file and a notebook: one function per question, with public examples.

    Example: regard assignment template cse151b-hw4.toml --out handout
    """
    key = read_secret(secret) if secret is not None else None
    listed = read_students(students) if students is not None else None
    show(write_template(read_assignment(file), out, secret=key, students=listed), as_json=as_json)


@app.command("hand-in")
def hand_in_(
    file: File,
    folder: Annotated[str, typer.Argument(help="Your folder with code, notebook, words and weights.")] = ".",
    out: Annotated[str | None, typer.Option(metavar="FILE.zip", help="NAME-hand-in.zip if left out.")] = None,
    as_json: AsJson = False,
) -> None:
    """Students: pack what you hand in into one zip, and say which questions have nothing in it (exit code 1).

    Example: regard assignment hand-in cse151b-hw4.toml
    """
    asked = read_assignment(file)
    show(hand_in(asked, folder, out or f"{stem(asked)}-hand-in.zip"), as_json=as_json)


@app.command()
def secret(
    file: Annotated[str, typer.Argument(help="The file to write.")] = "secret.txt", as_json: AsJson = False
) -> None:
    """Draw the secret that decides every student's numbers, and write it to a file that only you can read.

    Example: regard assignment secret secret.txt
    """
    show(write_secret(file), as_json=as_json)


@app.command()
def pack(
    file: File,
    secret: Annotated[
        str, typer.Option(metavar="FILE", help="The secret; it goes into the pack, out of the students' reach.")
    ],
    out: Annotated[str | None, typer.Option(metavar="FILE.zip", help="The file to write.")] = None,
    gradescope: Annotated[bool, typer.Option("--gradescope", help="An autograder for Gradescope.")] = False,
    prairielearn: Annotated[bool, typer.Option("--prairielearn", help="An external grader for PrairieLearn.")] = False,
    as_json: AsJson = False,
) -> None:
    """Pack an autograder for a course system: the assignment, the secret, and this program in one zip.

    Example: regard assignment pack hw4.toml --gradescope --secret secret.txt
    """
    if gradescope == prairielearn:
        raise InputError("Say which course system it is for: --gradescope or --prairielearn.")
    system = "gradescope" if gradescope else "prairielearn"
    show(packed(read_assignment(file), secret, out or f"{system}.zip", system=system), as_json=as_json)


@app.command()
def cells(
    file: File,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where to write.")] = "cells",
    as_json: AsJson = False,
) -> None:
    """Write test cells for notebooks: tests/ for Otter-Grader, and a source notebook for nbgrader.

    Example: regard assignment cells hw4.toml --out cells
    """
    show(write_cells(read_assignment(file), out), as_json=as_json)


@app.command()
def overrule(
    folder: Annotated[str, typer.Argument(metavar="GRADES", help="The folder that regard grade has written.")],
    student: Annotated[str, typer.Argument(help="The student whose mark it is.")],
    question: Annotated[str, typer.Argument(help="The question.")],
    points: Annotated[float | None, typer.Option(help="What the answer is worth.")] = None,
    reason: Annotated[str, typer.Option(help="Why; the student reads it.")] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Return to the mark that the check gave.")] = False,
    as_json: AsJson = False,
) -> None:
    """Overrule a mark, with a reason. Your mark stays when everything is graded again.

    Example: regard assignment overrule grades carl 1 --points 7 --reason "right but for the sign"
    """
    if undo is (points is not None):
        raise InputError("Say what the answer is worth with --points, or return to the check's mark with --undo.")
    show(overruled(folder, student, question, points=points, reason=reason), as_json=as_json)

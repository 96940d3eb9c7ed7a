"""``regard grade``: a pile of submissions in, marks with counterexamples out."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.assignment import NoSandbox
from regard.cli.output import AsJson, Progress, echo, note, show
from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.cells import run_public_checks
from regard.grading.gradebook.grader import grade as graded
from regard.grading.gradebook.grader import pile_of, safe_tier
from regard.grading.gradebook.manual_marks import gather_decisions, lines_on_absent
from regard.grading.gradebook.secret import read_secret
from regard.grading.questions.assignment import Assignment
from regard.grading.reports.grades_folder import Desk, write_marks
from regard.grading.submissions.students import read_students
from regard.grading.submissions.submission import read_submissions
from regard.sandbox.jail import Tier, best_tier
from regard.web.local_server import serve_pages


def grade(
    submissions: Annotated[list[str], typer.Argument(help="A folder, a zip file of a course system, or files.")],
    assignment: Annotated[str, typer.Option(metavar="FILE.toml", help="The assignment.")],
    secret: Annotated[str | None, typer.Option(metavar="FILE", help="Decides every student's numbers.")] = None,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where marks and pages go.")] = "grades",
    students: Annotated[
        str | None, typer.Option(metavar="CSV", help="The list of students: IDs, names, groups, extensions, times.")
    ] = None,
    written: Annotated[
        str | None, typer.Option(metavar="JSON", help="The file that marking.html saved; it is read once.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="How many processes at once; default: one per core.")] = None,
    times_of_files: Annotated[
        bool, typer.Option("--times-of-files", help="Take a file's date as the time it was handed in.")
    ] = False,
    public: Annotated[
        bool, typer.Option("--public", help="Run only the public checks, on a student's own file.")
    ] = False,
    open_marks: Annotated[
        bool, typer.Option("--open-marks", help="Write moodle.csv and canvas.csv even with marks that need you (?).")
    ] = False,
    serve: Annotated[
        bool, typer.Option("--serve", help="Then open the desk: class, marking, overruling and publishing on one page.")
    ] = False,
    port: Annotated[int | None, typer.Option(help="The desk's port; default: a free one.")] = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the desk's address and open no browser.")
    ] = False,
    no_sandbox: NoSandbox = False,
    as_json: AsJson = False,
) -> None:
    """Grade submissions: each runs in a jail, on instances drawn for its student, and against an adversary.

    If it is stopped, the same command continues where it was. After a change of the assignment it reruns only what is
    affected, and says whose marks changed.

    Example: regard grade submissions/ --assignment hw4.toml --secret secret.txt --students students.csv

    Students: regard grade mine.py --assignment hw4.toml --public
    """
    asked = read_assignment(assignment)
    if public:
        _show_public_checks(asked, submissions, as_json=as_json)
    if secret is None:
        raise InputError(
            "--secret FILE is needed: it decides every student's numbers; regard assignment secret makes one."
        )
    if workers is not None and not 1 <= workers <= 1000:
        raise InputError(f"--workers must be a whole number from 1 to 1000; {workers} is not.")

    _refuse_misplaced_secret(secret, submissions)
    key, tier = read_secret(secret), safe_tier(sandbox=not no_sandbox)
    listed = read_students(students) if students is not None else None
    handed_in = read_submissions(submissions, times_of_files=times_of_files, students=listed)
    if not handed_in:
        raise InputError(f"There is nothing to grade in {', '.join(submissions)}: no .py, .ipynb, .pdf or .zip file.")
    if no_sandbox:
        note("submissions run without a jail, with your rights.")
    decided, said = gather_decisions(Path(out), asked, written)
    pile = pile_of(asked, handed_in, secret=key, students=listed, by_hand=decided)
    for line in [*said, *lines_on_absent(decided, {one.identity for one in pile.submissions if not one.refused})]:
        note(line)
    marks = graded(pile, Path(out), jail=tier, workers=workers, progress=Progress("answers"))
    marks = write_marks(Path(out), pile, marks, open_marks=open_marks, jail=tier)
    if serve:
        echo(str(marks))
        with contextlib.suppress(KeyboardInterrupt), Desk(pile, Path(out), jail=tier, port=port) as desk:
            serve_pages(desk, "The desk", no_browser=no_browser)
        return echo("\nStopped.")
    show(marks, as_json=as_json)


def _refuse_misplaced_secret(secret: str, submissions: list[str]) -> None:
    """A secret among the submissions would sooner or later be handed back with them."""
    place = Path(secret).resolve()
    for one in map(Path, submissions):
        if one.is_dir() and one.resolve() in place.parents:
            raise InputError(f"The secret {secret} lies in {one}, among the submissions; move it elsewhere.")


def _show_public_checks(asked: object, files: list[str], *, as_json: bool) -> None:
    handed_in = read_submissions(files, one_student=True)
    if len(handed_in) != 1 or not isinstance(asked, Assignment):
        raise InputError(f"--public checks one submission; {len(handed_in)} were given.")
    if handed_in[0].refused:
        raise InputError(f"{files[0]}: {handed_in[0].refused}")
    try:
        tier = best_tier(True)
    except InputError:
        tier = Tier.NONE
        note("no jail can be built here: your code runs with your rights.")
    show(run_public_checks(asked, handed_in[0], jail=tier, progress=Progress("questions")), as_json=as_json)

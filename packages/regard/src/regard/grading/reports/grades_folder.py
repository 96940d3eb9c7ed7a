"""What a grading leaves in its folder: marks.json, marks.csv, class.html, students/, and the marking form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from regard.files import write_file
from regard.grading.assignments.template import file_name
from regard.grading.gradebook.grader import MARKS, Pile
from regard.grading.gradebook.marks import ClassMarks
from regard.grading.reports.course_systems import as_csv, canvas_csv, moodle_csv
from regard.grading.reports.marking_form import marking_page
from regard.grading.reports.pages import class_page, student_page
from regard.grading.submissions.pdf_pages import PdfPages, draw_pdf
from regard.sandbox.jail import Tier
from regard.sandbox.warm_pool import keep_warm


def write_marks(
    folder: Path, pile: Pile, marks: ClassMarks, *, open_marks: bool = False, jail: Tier = Tier.NONE
) -> ClassMarks:
    """Everything, each file whole or not at all; the marks last, since the next grading compares with them.

    What is imported into a course system counts as final there, so the files for it are left out while marks wait for
    a person, unless ``open_marks`` asks for them.
    """
    marks = replace(marks, exported=open_marks or not marks.open)
    (folder / "students").mkdir(exist_ok=True)
    for row in marks.rows:
        page = student_page(pile.assignment, row)
        write_file(folder / "students" / f"{file_name(row.student)}.html", page.encode())
    write_file(folder / "class.html", class_page(marks).encode())
    if form := marking_page(pile, marks, draw_pages(folder, pile, jail)):
        write_file(folder / "marking.html", form.encode())
    write_file(folder / "marks.csv", marks_csv(marks).encode("utf-8-sig"))
    for name, table in (("moodle.csv", moodle_csv(marks)), ("canvas.csv", canvas_csv(marks))):
        if marks.exported:
            write_file(folder / name, table.encode("utf-8-sig"))
        else:
            (folder / name).unlink(missing_ok=True)  # it was about the marks before
    if marks.changed:
        write_file(folder / "changed.txt", ("\n".join(marks.changed) + "\n").encode())
    else:
        (folder / "changed.txt").unlink(missing_ok=True)  # it was about the marks before
    write_file(folder / MARKS, (marks.to_json() + "\n").encode())
    return replace(marks, folder=str(folder))


@keep_warm()
def draw_pages(folder: Path, pile: Pile, jail: Tier) -> dict[str, PdfPages]:
    """By the student's identity, the pages of the PDF that was handed in, drawn where a person marks words."""
    written = any(task.asks_for_words for task in pile.assignment.tasks)
    with_pdf = [(one.identity, one.written_pdf()) for one in pile.submissions if written and not one.refused]
    return {who: draw_pdf(file.data, folder / "pages", jail=jail) for who, file in with_pdf if file is not None}


def marks_csv(marks: ClassMarks) -> str:
    """One row for each student, one column for each question."""
    tasks = marks._assignment.tasks
    rows = [
        ["id", "name", "group", *(task.id for task in tasks), "earned", "late_kept", "total", "of", "open", "notes"]
    ]
    for row in marks.rows:
        cells = [f"{one.points:g}" for one in row.questions] or [""] * len(tasks)
        changed = [f"{one.question}: {one.automatic:g} -> {one.points:g}" for one in row.questions if one.overruled]
        notes = "; ".join([*([row.refused] if row.refused else []), *row.problems, *changed])
        total = "" if row.refused else f"{row.points:g}"
        rows.append(
            [
                row.student,
                row.name,
                row.group,
                *cells,
                f"{row.earned_points:g}",
                f"{row.kept:g}",
                total,
                f"{row.of:g}",
                str(row.open),
                notes,
            ]
        )
    return as_csv(rows)

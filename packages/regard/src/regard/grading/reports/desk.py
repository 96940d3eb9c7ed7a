"""The teacher's desk: one local page for the class, marking, overruling and publishing, on the lab's server.

What is decided there goes into by-hand.json at once, as the command line puts it there; publishing writes the files of
the folder again, from the outcomes that are known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.grading.assignments.template import file_name
from regard.grading.gradebook.grader import Pile, grade
from regard.grading.gradebook.manual_marks import decide, gather_decisions
from regard.grading.gradebook.marks import ClassMarks
from regard.grading.reports.grades_folder import draw_pages, write_marks
from regard.grading.reports.marking_form import KEYS, form_parts, marking_data
from regard.grading.reports.pages import class_sections, html_page, student_page
from regard.markup import Html, element, join
from regard.sandbox.jail import Tier
from regard.strict_json import JsonObject, parse_json
from regard.web.local_server import LocalServer

HERE = Path(__file__).parent
PUBLISH = Html(
    "<h2>Publish</h2><p class=publish><button id=publish>Write the students' pages and the exports</button>"
    "<label><input id=open type=checkbox> also export marks that are still open</label></p>"
    "<p id=published aria-live=polite></p>"
)


class Desk(LocalServer):
    """A graded pile on a port of this machine."""

    command = "regard grade --serve"

    def __init__(self, pile: Pile, folder: Path, *, jail: Tier, port: int | None = None) -> None:
        self.pile, self.folder, self.jail = pile, folder, jail
        self.drawn = draw_pages(folder, pile, jail)
        self.alone = threading.Lock()  # one decision, or one look at the marks, at a time
        students = {f"students/{file_name(row.student)}.html": row.student for row in self.marks().rows}
        pictures = {f"pages/{file}": "" for pdf in self.drawn.values() for file in pdf.files}
        self.pages = {"desk": "", "decide": "", "class": "", "publish": "", **students, **pictures}
        super().__init__(port=port)

    @property
    def files(self) -> Mapping[str, Path]:
        return {f"/{name}": HERE / name for name in ("page.css", "marking_form.js")}

    def marks(self) -> ClassMarks:
        """As the decisions stand now; what was run is known, and is not run again."""
        decided, _ = gather_decisions(self.folder, self.pile.assignment)
        self.pile = replace(self.pile, by_hand=decided)
        return grade(self.pile, self.folder, jail=self.jail, workers=1)

    def html(self, name: str, words: Mapping[str, str], *, own: bool) -> bytes:
        if name.startswith("pages/"):
            return (self.folder / name).read_bytes()
        with self.alone:
            marks = self.marks()
        assignment = self.pile.assignment
        if student := self.pages[name]:
            row = next(row for row in marks.rows if row.student == student)
            return student_page(assignment, row, policy="").encode()
        data = {**marking_data(self.pile, marks, self.drawn), "served": True}
        keys = tuple(key for key in KEYS if key[0] != "s")
        parts = (
            form_parts(assignment.title, data, keys, "") if data["items"] else [element("h1", "Nothing was handed in")]
        )
        sections = element("div", *class_sections(marks, links=True), id="class")
        body = [*parts, PUBLISH, join(element("h2", "The class"), sections)]
        script = element("script", src="/marking_form.js") if data["items"] else Html()
        return html_page(f"Desk: {assignment.title}", [*body, script], policy="").encode()

    def ask(self, name: str, body: bytes, wanted: Callable[[], bool]) -> JsonObject:
        """Decide, look at the class, or publish."""
        try:
            said: Any = parse_json(body)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise InputError("The desk is asked with a JSON object.")
        with self.alone:
            if name == "decide":
                rows = said.get("rows")
                if not isinstance(rows, list):
                    raise InputError("A decision is a list of rows.")
                return {"said": decide(self.folder, self.pile.assignment, rows, by="the desk")}
            marks = self.marks()
            if name == "publish":
                marks = write_marks(self.folder, self.pile, marks, open_marks=said.get("open") is True, jail=self.jail)
            files = f"students/, class.html, marks.csv{', moodle.csv and canvas.csv' * marks.exported}"
            left = "" if marks.exported else " " + marks.export_refusal("above, or tick the box")
            written = f"Wrote {files} to {self.folder}.{left}"
            return {"html": "".join(class_sections(marks, links=True)), "said": written, "open": marks.open}

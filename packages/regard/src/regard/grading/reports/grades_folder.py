"""What a grading leaves: the files of its folder, among them the marking form, and the desk that serves the same.

The marking form is one page on which a person decides, with the keyboard alone, and the file that it saves. First what
is written, each answer with its checklist; then what waits for a person, such as a doubted mark; then all the others.
Any mark can be overruled, with a reason. The page keeps what was decided in the browser, and ``s`` saves written.json:
what is decided now, and what was when the page was made, so that :mod:`regard.grading.gradebook.manual_marks` can tell
what is new.

The desk is a local page for the class, marking, overruling and publishing, on the lab's server. What is decided there
goes into by-hand.json at once, as the command line puts it there; publishing writes the files of the folder again, from
the outcomes that are known.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.errors import InputError
from regard.files import write_file
from regard.grading.assignments.template import file_name, text_of
from regard.grading.gradebook.grader import MARKS, Pile, grade, is_marked_by_hand, words_on
from regard.grading.gradebook.manual_marks import MOST_REASON, decide, gather_decisions
from regard.grading.gradebook.marks import ClassMarks, TaskMark
from regard.grading.questions.assignment import Task
from regard.grading.questions.examination import Status, failure_in_words
from regard.grading.reports.course_systems import as_csv, canvas_csv, moodle_csv
from regard.grading.reports.pages import class_page, class_sections, html_page, student_page
from regard.grading.submissions.pdf_pages import PdfPages, draw_pdf, pages_of
from regard.grading.submissions.students import identity
from regard.grading.submissions.submission import Submission
from regard.markup import Html, element, join
from regard.sandbox.jail import Tier
from regard.sandbox.warm_pool import keep_warm
from regard.strict_json import JsonObject, parse_json
from regard.web.local_server import LocalServer

HERE = Path(__file__).parent
OWN_SCRIPT = (
    "default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
    "base-uri 'none'; form-action 'none'"
)
KEYS = (
    ("j / k", "next, previous"),
    ("1 ... 9", "tick a line"),
    ("a", "tick all"),
    ("0", "tick none"),
    ("n", "next that waits"),
    ("f", "find a student"),
    ("p", "overrule: points, reason, Enter"),
    ("x", "do not overrule"),
    ("b", "blank: 0 for all"),
    ("u", "undo"),
    ("g", "all pages of the PDF, or this question's"),
    ("s", "save written.json"),
)
MOST_SHOWN = 20_000  # characters of an answer


def marking_page(pile: Pile, marks: ClassMarks, drawn: Mapping[str, PdfPages] | None = None) -> str:
    """The form; empty where nobody has handed in anything. ``drawn``: by student, the pages of their PDF."""
    data = marking_data(pile, marks, drawn or {})
    if not data["items"]:
        return ""
    script = (HERE / "marking_form.js").read_text(encoding="utf-8")
    save = "<p><button id=save>Save written.json</button></p>"
    body = [*form_parts(pile.assignment.title, data, KEYS, save), element("script", Html(script))]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return html_page(f"Marking: {pile.assignment.title}", body, policy=OWN_SCRIPT.format(digest=digest))


def marking_data(pile: Pile, marks: ClassMarks, drawn: Mapping[str, PdfPages]) -> dict[str, Any]:
    """Every answer, what it was asked, and what was decided before."""
    items = [*_written_items(pile, drawn), *_automatic_items(pile, marks, drawn)]
    asked = [[item["student"], item["question"], item["checklist"]] for item in items]
    version = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:12]
    return {"assignment": pile.assignment.name, "version": version, "items": items, **_previous_decisions(pile, items)}


def form_parts(title: str, data: dict[str, Any], keys_and_uses: tuple[tuple[str, str], ...], last: str) -> list[Html]:
    """The form as parts of a page, without its script; ``last`` stands at its end."""
    text = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")  # nothing of a submission ends the element
    keys = Html(" · ".join(join(element("kbd", key), " ", does) for key, does in keys_and_uses))
    frame = [
        "<p><input id=find type=search placeholder='student, question' aria-label='Find a student'></p>",
        "<h2 id=where></h2><p id=text></p><p id=check hidden></p><div class=sides>",
        "<div class=answer id=answer tabindex=0></div>",
        "<div id=sheet><p class=soft id=which></p><div id=pages tabindex=0></div></div><div><div id=list></div>",
        "<p class=overrule><label>Overrule: <input id=points type=number min=0 step=any> <span id=of></span></label>",
        f"<label class=reason>because <input id=reason type=text maxlength={MOST_REASON}></label></p>",
        f"<p id=done aria-live=polite></p>{last}</div></div>",
        f'<script type="application/json" id=data>{text}</script>',
    ]
    head = join(element("h1", f"Marking: {title}"), element("p", keys, " ", class_="soft"))
    return [head, *map(Html, frame)]


def _previous_decisions(pile: Pile, items: list[dict[str, Any]]) -> dict[str, Any]:
    """What was decided before: of the items, and of students who are not there any more, which is kept too."""
    there = {(identity(item["student"]), item["question"]): item for item in items}
    marks, others = {}, []
    for student, questions in pile.by_hand.items():
        for question, given in questions.items():
            if (item := there.get((student, question))) is not None:
                marks[f"{item['student']}\x00{question}"] = given.to_dict()
            else:
                others.append({"student": student, "question": question, **given.to_dict()})
    return {"marks": marks, "others": others}


def _written_items(pile: Pile, drawn: Mapping[str, PdfPages]) -> Iterator[dict[str, Any]]:
    for task in pile.assignment.tasks:
        if task.asks_for_words:
            for submission in pile.submissions:
                if not submission.refused and is_marked_by_hand(pile, submission, task):
                    answer = words_on(pile, submission, task)[:MOST_SHOWN]
                    yield {
                        "student": submission.student,
                        "question": task.id,
                        "text": text_of(task),
                        "checklist": [f"{line.text} ({line.points:g})" for line in task.checklist],
                        "keys": [line.key for line in task.checklist],
                        "blank": not answer and submission.written_pdf() is None,
                        "answer": answer,
                        **_pages(drawn.get(submission.identity), task, answer),
                        "of": task.points,
                        "waits": True,
                    }


def _pages(pdf: PdfPages | None, task: Task, answer: str) -> dict[str, Any]:
    """The pictures of a PDF for one question: all pages, and which of them are about it."""
    if pdf is None:
        return {}
    mine = pages_of(task.id.removesuffix(", why"), pdf.outline, len(pdf.files), answer)
    return {"pages": [f"pages/{file}" for file in pdf.files], "mine": mine, "trouble": pdf.problem}


def _automatic_items(pile: Pile, marks: ClassMarks, drawn: Mapping[str, PdfPages]) -> list[dict[str, Any]]:
    """What the checks gave, once for each submission; those that wait for a person first."""
    items: dict[tuple[str, str], dict[str, Any]] = {}
    submissions = {one.identity: one for one in pile.submissions}
    for row in marks.rows:
        for one in row.questions:
            if one.status != Status.BY_HAND.value:
                owner = row.by or row.student
                task, handed_in = pile.assignment.task(one.question), submissions[identity(owner)]
                pages = _pages(drawn.get(identity(owner)), task, "") if one.open else {}
                item = _automatic_item(owner, task, one, _answer(pile, handed_in, task))
                items.setdefault((identity(owner), one.question), {**item, **pages})
    return sorted(items.values(), key=lambda item: not item["waits"])


def _answer(pile: Pile, submission: Submission, task: Task) -> str:
    """The code, from where its function begins, or the proof."""
    if task.asks_for_words:
        return words_on(pile, submission, task)
    _, source, notebook = submission.code(task.function) or ("", b"", None)
    text = "\n\n".join(notebook.cell_texts) if notebook is not None else source.decode("utf-8", "replace")
    begin = re.search(rf"(?m)^(def|class|async def) {re.escape(task.function)}\b", text)
    return text[begin.start() :] if begin is not None else text


def _automatic_item(student: str, task: Task, one: TaskMark, answer: str) -> dict[str, Any]:
    gave = one.points if one.automatic is None else one.automatic
    waits = one.status in (Status.DOUBTED.value, Status.CUT_SHORT.value, Status.NOT_RUN.value)
    example = str(one.counterexample["code"]) if one.counterexample is not None else ""
    said = failure_in_words(one.reason, example) or "passed every check."
    gives = f"The check gives {gave:g} of {one.of:g}" + (f" ({one.status}):" if waits else ":")
    return {
        "student": student,
        "question": one.question,
        "text": text_of(task),
        "check": "\n".join(word for word in (f"{gives} {said}", *one.notes, example) if word)[:MOST_SHOWN],
        "checklist": [],
        "keys": [],
        "code": not task.asks_for_words,
        "answer": answer[:MOST_SHOWN],
        "of": one.of,
        "was": gave,
        "waits": waits,
    }


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

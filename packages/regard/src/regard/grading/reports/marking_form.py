"""The marking form: one page on which a person decides, with the keyboard alone, and the file that it saves.

First what is written, each answer with its checklist; then what waits for a person, such as a doubted mark; then all
the others. Any mark can be overruled, with a reason. The page keeps what was decided in the browser, and ``s`` saves
written.json: what is decided now, and what was when the page was made, so that
:mod:`regard.grading.gradebook.manual_marks` can tell what is new.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

from regard.grading.assignments.template import text_of
from regard.grading.gradebook.grader import Pile, is_marked_by_hand, words_on
from regard.grading.gradebook.manual_marks import MOST_REASON
from regard.grading.gradebook.marks import ClassMarks, TaskMark
from regard.grading.questions.assignment import Task
from regard.grading.questions.examination import Status, failure_in_words
from regard.grading.reports.pages import html_page
from regard.grading.submissions.pdf_pages import PdfPages, pages_of
from regard.grading.submissions.students import identity
from regard.grading.submissions.submission import Submission
from regard.markup import Html, element, join

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
    script = (resources.files("regard.grading.reports") / "marking_form.js").read_text(encoding="utf-8")
    save = "<p><button id=save>Save written.json</button></p>"
    body = [*form_parts(pile.assignment.title, data, KEYS, save), element("script", Html(script))]
    return html_page(f"Marking: {pile.assignment.title}", body, policy=OWN_SCRIPT.format(digest=_digest(script)))


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


def _digest(script: str) -> str:
    import base64

    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


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

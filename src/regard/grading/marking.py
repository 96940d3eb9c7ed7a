"""Written answers: one page with a checklist for each answer, marked with the keyboard alone, and the file it
saves.

The page keeps what was ticked in the browser, and ``s`` saves written.json; ``regard grade ... --written
written.json`` puts those marks beside the automatic ones. A later file adds to the earlier one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

from regard.errors import InputError
from regard.files import read_file
from regard.grading.assignment import Assignment, Kind, Task
from regard.grading.grader import Pile
from regard.grading.pages import framed, said
from regard.grading.students import identity
from regard.grading.submissions import Submission

OWN_SCRIPT = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
)
KEYS = (
    ("j / k", "next, previous"),
    ("1 ... 9", "tick a line"),
    ("a", "tick all"),
    ("0", "tick none"),
    ("n", "next that is not marked"),
    ("s", "save written.json"),
)
MOST_SHOWN = 20_000  # characters of an answer


def marking_page(pile: Pile) -> str:
    """The form; empty where nothing is written."""
    items = list(_items(pile))
    if not items:
        return ""
    given = {
        f"{item['student']}\x00{item['question']}": ticks
        for item in items
        if (ticks := pile.ticks.get(identity(item["student"]), {}).get(item["question"])) is not None
    }
    version = hashlib.sha256(json.dumps(items, sort_keys=True).encode()).hexdigest()[:12]
    data = {"assignment": pile.assignment.name, "version": version, "items": items, "marks": given}
    script = (resources.files("regard.grading") / "marking.js").read_text(encoding="utf-8")
    text = json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")  # nothing of a submission ends the element
    keys = " ".join(f"<kbd>{said(key)}</kbd> {said(does)} ·" for key, does in KEYS).rstrip("·")
    body = [
        f"<h1>Marking: {said(pile.assignment.title)}</h1><p class=soft>{keys}</p>",
        "<h2 id=where></h2><p id=text></p><div class=answer id=answer tabindex=0></div><div id=list></div>",
        "<p id=done aria-live=polite></p><p><button id=save>Save written.json</button></p>",
        f'<script type="application/json" id=data>{text}</script><script>{script}</script>',
    ]
    return framed(f"Marking: {pile.assignment.title}", body, policy=OWN_SCRIPT.format(digest=_digest(script)))


def _digest(script: str) -> str:
    import base64

    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")


def _items(pile: Pile) -> Iterator[dict[str, Any]]:
    for task in pile.assignment.tasks:
        if task.kind is Kind.WRITTEN:
            for submission in pile.submissions:
                if not submission.refused:
                    yield {
                        "student": submission.student,
                        "question": task.id,
                        "text": task.text or task.claim,
                        "checklist": [f"{line.text} ({line.points:g})" for line in task.checklist],
                        "keys": [line.key for line in task.checklist],
                        "answer": written_answer(submission, task, pile.assignment),
                    }


def written_answer(submission: Submission, task: Task, assignment: Assignment) -> str:
    """What a student wrote on this question: from the heading that names it to the next one; else everything."""
    texts = submission.texts()
    ids = [re.escape(one.id) for one in assignment.tasks]
    heading = re.compile(rf"(?m)^\s*(?:#+\s*|Your answer to )?(?P<id>{'|'.join(ids)})(?=[\s:.()]|$)")
    found: list[str] = []
    inside = False
    for text in texts:
        places = list(heading.finditer(text))
        if inside:
            found.append(text[: places[0].start()] if places else text)
        for place, after in zip(places, [*places[1:], None], strict=True):
            inside = place["id"] == task.id
            if inside:
                found.append(text[place.end() : after.start() if after else None])
    kept = "\n".join(found).strip() if found else "\n\n".join(texts).strip()
    return kept[:MOST_SHOWN]


def read_written(path: str | os.PathLike[str], assignment: Assignment) -> dict[str, dict[str, list[bool]]]:
    """The ticks of a saved form, by identity and question."""
    form = "save it from marking.html with the key s"
    try:
        data = json.loads(read_file(path, most=50_000_000))
        rows = [(str(row["student"]), str(row["question"]), list(row["ticks"])) for row in data["marks"]]
        name = data["assignment"]
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; {form}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is not what the marking form saves; {form}.") from None
    if name != assignment.name:
        raise InputError(f"{path} is about the assignment {str(name)[:80]!r}, not about {assignment.name!r}.")
    lengths = {task.id: len(task.checklist) for task in assignment.tasks if task.kind is Kind.WRITTEN}
    found: dict[str, dict[str, list[bool]]] = {}
    for student, question, ticks in rows:
        if lengths.get(question) != len(ticks) or not all(isinstance(tick, bool) for tick in ticks):
            raise InputError(
                f"{path}: the ticks of {student[:40]!r} on {question[:40]!r} do not fit its checklist; {form}."
            )
        found.setdefault(identity(student), {})[question] = ticks
    return found

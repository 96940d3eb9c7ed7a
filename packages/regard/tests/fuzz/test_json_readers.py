"""A name that stands twice is refused in every JSON that is read: readers differ in which of the two counts.

Each text is read with the name once, and refused with it twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard import design
from regard.design.certificate import read_answers
from regard.formats import from_safetensors
from regard.grading.gradebook import manual_marks
from regard.grading.gradebook.grader import JOURNAL, Journal
from regard.grading.questions import perplexity
from regard.grading.questions.examination import Outcome, Status
from regard.grading.submissions import notebooks
from regard.lab.server import parse_words
from regard.sandbox import child
from regard.sandbox.runner import checked_reply
from regard.translator.runs.files import SealedLines, read_json
from regard_models.auditing.reports import read_baseline
from regard_models.grading import audit_answers

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0], [1.0, 1.0]])
WINS = design.winnable(SQUARE, jobs=1).to_dict()
TENSOR = {"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}
OUTCOME = json.loads(json.dumps(Outcome(status=Status.FAILED, reason="").to_dict()))
BOOK = {"nbformat": 4, "cells": [{"cell_type": "code", "source": "a = 1"}]}


def from_file(read: Callable[[Path], Any]) -> Callable[[bytes, Path], Any]:
    def readable(data: bytes, folder: Path) -> Any:
        (folder / "file.json").write_bytes(data)
        return read(folder / "file.json")

    return readable


def from_header(data: bytes, _: Path) -> Any:
    whole = np.frombuffer(len(data).to_bytes(8, "little") + data + bytes(8), np.uint8)
    return from_safetensors(whole, "a", "keys", [])


def from_journal(data: bytes, folder: Path) -> None:
    (folder / JOURNAL).write_bytes(data)
    body = json.dumps(json.loads(data)["body"], sort_keys=True).encode()
    journal = Journal(folder, SimpleNamespace(seal=lambda sealed: "s" if sealed == body else "t"))  # type: ignore[arg-type]
    if journal.damaged:
        raise ValueError("damaged")


READERS: dict[str, tuple[Callable[[bytes, Path], Any], Any, str]] = {
    "certificate": (from_file(read_answers), {"norm": 1}, "norm"),
    "winnable": (from_file(lambda path: design.verify_winnable(SQUARE, path)), WINS, "ways"),
    "marks by hand": (from_file(lambda path: manual_marks._read(path, "a")), {"assignment": "a", "marks": []}, "marks"),
    "hidden test set": (from_file(perplexity.read_hidden_sentences), {"words": 5, "pairs": [[[1], [2]]]}, "words"),
    "baseline": (from_file(lambda path: read_baseline(str(path))), {"known": []}, "known"),
    "file of a run": (from_file(read_json), {"seed": 1}, "seed"),
    "log": (from_file(lambda path: SealedLines(path).read()), {"event": "step"}, "event"),
    "journal of grading": (
        from_journal,
        {"body": {"key": "k", "outcome": OUTCOME}, "seal": "s"},
        "seal",
    ),
    "safetensors": (from_header, TENSOR, "a"),
    "reply of an answer": (lambda data, _: checked_reply(data), {"none": True}, "none"),
    "answers of a model": (lambda data, _: audit_answers.read_answers(data), {"a": child.pack_array(np.ones(1))}, "a"),
    "notebook": (lambda data, _: notebooks._cells(data), BOOK, "cells"),
    "question of the lab": (lambda data, _: parse_words(data), {"eps": "1"}, "eps"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_name_that_stands_twice_is_refused(name: str, tmp_path: Path) -> None:
    read, content, twice = READERS[name]
    once = json.dumps(content) + "\n"
    read(once.encode(), tmp_path)
    before = f'"{twice}": '
    double = once.replace(before, f"{before}{json.dumps(content[twice])}, {before}", 1)
    assert json.loads(double) == content
    with pytest.raises(ValueError, match=r"\w"):
        read(double.encode(), tmp_path)

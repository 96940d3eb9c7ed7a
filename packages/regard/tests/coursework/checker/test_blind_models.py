"""Transformers that were written without a look at the checker: none that is right is accused, none that is wrong is
called right. The table is long; a sample of it is in the first tier."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coursework.checker.blind_mistakes import MISTAKES
from regard.coursework.checker.check import check_transformer
from regard.errors import CouldNotFindOut, InputError

MODELS = sorted((Path(__file__).parent / "blind").glob("*.py"))
EDITS = json.loads((Path(__file__).parent / "blind_edits.json").read_text())
SEEN_IN_THE_FIRST_TIER = {
    "right only below 210 tokens", "right only in float64", "norm without gain at first",
    "the first sentence's mask for all",
}  # fmt: skip
QUICK = {"addcmul_norm", "output_matrix_in_slices", "nano", "functional_call"}


def outcome(path: Path, text: str) -> str:
    whole = re.findall(r"^(?:class|def) (TransformerTranslator)\b", text, re.MULTILINE)  # some are made by a function
    name = (whole or re.findall(r"^class (\w+)", text, re.MULTILINE))[-1]
    try:
        report = check_transformer(f"{path}:{name}", hints=2, limit=60)
    except CouldNotFindOut:
        return "could not read"
    except InputError:
        return "stopped with the line"
    if report.diagnosis.departures:
        return "right, with a note"
    return "right" if report.answer else "named" if report.diagnosis.mistakes else "differs"


def _tier(name: str) -> list[pytest.MarkDecorator]:
    return [] if name in QUICK else [pytest.mark.slow, pytest.mark.table]


@pytest.mark.parametrize("path", [pytest.param(one, marks=_tier(one.stem), id=one.stem) for one in MODELS])
def test_what_is_right_is_found_right(path: Path) -> None:
    assert outcome(path, path.read_text()) == "right"


@pytest.mark.slow
@pytest.mark.table
@pytest.mark.parametrize(("model", "wrong", "old", "new"), MISTAKES, ids=[f"{m[0]}: {m[1]}" for m in MISTAKES])
def test_what_is_wrong_is_never_called_right(model: str, wrong: str, old: str, new: str, tmp_path: Path) -> None:
    text = next(one for one in MODELS if one.stem == model).read_text()
    assert text.count(old) == 1
    path = tmp_path / f"{model}.py"
    path.write_text(text.replace(old, new))
    assert outcome(path, text) != "right"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=f"{row['model']}: {row['wrong']}",
            marks=[] if row["wrong"] in SEEN_IN_THE_FIRST_TIER else [pytest.mark.slow, pytest.mark.table],
        )
        for row in EDITS
    ],
)
def test_no_edit_that_makes_it_wrong_is_called_right(row: dict[str, Any], tmp_path: Path) -> None:
    text = next(one for one in MODELS if one.stem == row["model"]).read_text()
    for old, new in row["edits"]:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / f"{row['model']}.py"
    path.write_text(text)
    assert outcome(path, text) != "right"


TRUTH = json.loads((Path(__file__).parent / "blind" / "wrong" / "truth.json").read_text())


@pytest.mark.slow
@pytest.mark.table
@pytest.mark.parametrize("name", TRUTH)
def test_what_is_wrong_is_named_as_what_it_is(name: str) -> None:
    path = Path(__file__).parent / "blind" / "wrong" / f"{name}.py"
    report = check_transformer(f"{path}:TransformerTranslator", hints=2, limit=60)
    assert [one.name for one in report.diagnosis.mistakes] == TRUTH[name]["names"], TRUTH[name]["mistakes"]


WRONG_AT_TIMES = {  # a model that knows when it is looked at: when its places are exchanged, and what that is called
    "self.training": "only-in-eval",
    "x.dtype == torch.float32": "only-in-float64",
    "self.training and x.dtype == torch.float32 and torch.is_grad_enabled()": "only-outside-training",
    "B > 16": "differs-on-a-shape",
    "next(self.calls) > 12": "changes-with-calls",
}


@pytest.mark.parametrize(("when", "name"), WRONG_AT_TIMES.items())
def test_a_model_that_is_right_only_where_it_is_looked_at_is_named(when: str, name: str, tmp_path: Path) -> None:
    text = next(one for one in MODELS if one.stem == "fused_sdpa").read_text()
    assert text.count("return self.lm_head(x)") == text.count("self.p = dropout") == 1
    text = text.replace("return self.lm_head(x)", f"return self.lm_head(x.flip(1) if {when} else x)")
    text = text.replace("self.p = dropout", "self.p, self.calls = dropout, __import__('itertools').count()")
    path = tmp_path / "sometimes.py"
    path.write_text(text)
    report = check_transformer(f"{path}:TransformerTranslator", hints=2, limit=60)
    assert [one.name for one in report.diagnosis.mistakes] == [name]


def test_a_notebook_is_taken_and_nothing_but_its_definitions_is_run(tmp_path: Path) -> None:
    text = next(one for one in MODELS if one.stem == "nano").read_text()
    first = "%matplotlib inline\nimport torch\nfrom regard.translator import train\nimport regard\nraise SystemExit"
    cells = [first, text, "while True:\n    pass"]
    book = {"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]}
    path = tmp_path / "mine.ipynb"
    path.write_text(json.dumps(book))
    name = re.findall(r"^class (\w+)", text, re.MULTILINE)[-1]
    assert check_transformer(f"{path}:{name}").answer

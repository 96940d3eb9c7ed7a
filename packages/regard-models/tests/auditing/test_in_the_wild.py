"""The bookkeeping of the audit in the wild: verdicts that are read, rows that are kept, children that die alone."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from benchmarks import audit_in_the_wild as wild  # noqa: E402
from regard_models.auditing import PROPERTIES  # noqa: E402


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(wild, "KEPT", tmp_path / "kept.jsonl")
    return tmp_path / "kept.jsonl"


def row(name: str, kernel: str = "eager", **more: object) -> str:
    return json.dumps({"class": name, "kernel": kernel, "outcome": "audited", "failed": [], "passed": 1, **more}) + "\n"


def test_every_verdict_can_be_read_and_fits_what_it_says() -> None:
    for known in wild.verdicts():
        assert known["kind"] in ("fault", "trap", "meant", "waste", "ours", "open")
        assert known["property"] in PROPERTIES
        assert re.compile(known["classes"]).pattern.startswith("^")
        assert known["words"]
    assert wild.verdict("BambaForCausalLM", ["cache", "steps of 1", "", ""])[0] == "fault"
    assert wild.verdict("HYV4Model", ["gradients", "step", "", ""]) == ("open", "not looked into yet")


def test_no_published_failure_is_without_a_verdict() -> None:
    rows = wild.read()
    assert len(rows) > 500
    open_ones = [
        (r["class"], f[:2]) for r in rows for f in r.get("failed", []) if wild.verdict(r["class"], f)[0] == "open"
    ]
    assert open_ones == []


def test_the_figures_of_the_page_are_those_of_the_record() -> None:
    pytest.importorskip("transformers")
    assert wild.FIGURES.read_text() == wild.figures()
    page = (wild.RESULTS.parent / "models-wild.md").read_text()
    assert f'--8<-- "{wild.FIGURES.name}"' in page
    assert wild.tried(wild.read()) in wild.TABLE.read_text()


def test_figures_are_counted(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wild, "classes", lambda: [("A", "AConfig"), ("A", "OtherConfig"), ("B", "BConfig")])
    fails = ["cache", "steps of 1", "", ""]
    kept.write_text(row("A", failed=[fails]) + row("B", outcome="not run", why="it stays large (1,000 weights)"))
    said = wild.figures()
    assert said.startswith("2 combinations of class and kernel were tried, 2 are left. 1 of them, of 1")
    assert "| it stays large whatever its configuration says | 1 |" in said
    assert "| open | not looked into yet | 1 |" in said


def test_the_later_line_holds_and_rows_are_forgotten(kept: Path) -> None:
    kept.write_text(row("A", passed=1) + row("B", earlier=True) + row("A", passed=2))
    assert [(r["class"], r["passed"]) for r in wild.read()] == [("A", 2), ("B", 1)]
    wild.forget(None, earlier=True)
    assert [r["class"] for r in wild.read()] == ["A"]
    wild.forget("^A", earlier=False)
    assert wild.read() == []


@pytest.mark.filterwarnings("ignore:This process")  # newer Pythons warn of threads beside a fork
@pytest.mark.parametrize(
    ("ends", "outcome", "why"),
    [
        ("os._exit(3)", "not run", r"it ended the process \(768\)"),
        ("os.kill(os.getpid(), 24)", "too long", "more than 40 s of CPU time"),
        ("sys.exit('a reason')", "not run", "SystemExit: a reason"),
    ],
)
def test_a_class_that_dies_takes_only_its_child(
    ends: str, outcome: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*args: object) -> None:
        exec(f"import os, sys; {ends}")

    monkeypatch.setattr(wild, "build", build)
    found = wild.in_a_child("Dying", "DyingConfig", "eager")
    assert (found["class"], found["kernel"], found["outcome"]) == ("Dying", "eager", outcome)
    assert re.fullmatch(why, found["why"])

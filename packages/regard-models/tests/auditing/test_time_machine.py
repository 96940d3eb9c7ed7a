"""The bookkeeping of the time machine: releases, listed faults, births and deaths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from benchmarks import time_machine as machine  # noqa: E402
from regard_models.auditing import PROPERTIES  # noqa: E402

FAULT = {"issue": "x#1", "before": "5.1.0", "after": "5.2.0", "property": "cache", "classes": ["A"]}


def row(release: str, *failed: str, **more: object) -> dict[str, object]:
    about = {"release": release, "class": "A", "kernel": "eager", "settings": {}, "outcome": "audited"}
    return about | {"failed": [[prop, "check", "words", ""] for prop in failed]} | more


def told(*rows: dict[str, object]) -> str:
    return machine.verdict(FAULT, "A", {machine.key(r): r for r in rows})


def test_every_listed_fault_says_what_shows_it_or_why_nothing_does() -> None:
    listed = machine.faults()
    assert len(listed) >= 30
    assert len({fault["issue"] for fault in listed}) == len(listed)
    for fault in listed:
        assert ("property" in fault) != ("why_not" in fault)
        assert fault.get("property", "cache") in PROPERTIES
        assert fault["kind"] in ("mask", "cache", "position", "batch")
        assert machine.Version(fault["before"]) < machine.Version(fault["after"])
        assert machine.Version(fault["before"]) < machine.Version(fault["fixed"]) <= machine.Version(fault["after"])


def test_the_last_patch_is_the_largest_number_and_not_the_last_word() -> None:
    assert machine.last_patches(["5.0.0", "4.48.9", "4.48.10", "4.47.1", "5.1.0rc1"]) == ["4.48.10", "5.0.0"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (["cache"], ["gradients"], "caught"),
        (["padding"], [], "missed"),
        (["cache"], ["cache"], "fails after the fix too"),
        ([], ["cache"], "fails after the fix only"),
    ],
)
def test_only_the_property_that_was_written_down_counts(before: list[str], after: list[str], said: str) -> None:
    assert told(row("5.1.0", *before), row("5.2.0", *after)) == said


def test_a_fault_is_not_called_missed_where_an_audit_was_not_made() -> None:
    assert told(row("5.1.0", "cache")) == "not run: 5.1.0 fails cache; 5.2.0 not asked"
    dead = row("5.2.0", outcome="not run", why="it is too large")
    assert told(row("5.1.0", "cache"), dead).endswith("5.2.0 not run: it is too large")


def test_births_and_deaths_go_by_version_and_not_by_the_order_of_the_lines() -> None:
    rows = [row("5.10.0"), row("5.9.0", "cache"), row("5.2.0"), row("5.11.0", "cache")]
    assert machine.lives(rows) == [
        ("A", "eager", "cache", "5.9.0", "5.10.0"),
        ("A", "eager", "cache", "5.11.0", "alive in 5.11.0"),
    ]
    assert machine.lives([row("5.2.0", "cache")]) == [("A", "eager", "cache", "by 5.2.0", "alive in 5.2.0")]


def test_the_later_of_two_lines_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "KEPT", tmp_path / "kept.jsonl")
    machine.KEPT.write_text("".join(json.dumps(r) + "\n" for r in (row("5.1.0", "cache"), row("5.1.0"))))
    assert [r["failed"] for r in machine.read()] == [[]]


def test_the_published_table_is_that_of_the_record() -> None:
    assert machine.TABLE.read_text() == machine.table()


def test_the_sweep_counts_pairs_by_what_their_failures_mean() -> None:
    clean = [row("5.1.0", **{"class": f"Class{i}"}) for i in range(machine.SWEPT)]
    wrong = row("5.1.0", "batch", **{"class": "XGLMForCausalLM"})
    both = row("5.1.0", "input", "causality", **{"class": "ProphetNetForCausalLM"})
    unknown = row("5.1.0", "order", **{"class": "NobodyLookedInto"})
    listed_only = row("5.2.0", "cache")
    figures = "\n".join(machine.sweep_figures([*clean, wrong, both, unknown, listed_only]))
    assert "33 pairs of class and release were tried, 33 audited (5.1.0 33)" in figures
    assert "30 showed no failure, 3 did: ours 2, fault 1, open 1" in figures
    assert "Healthy pairs that were accused: 1 of 31, 3.2 %; 1 more" in figures

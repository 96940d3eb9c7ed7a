"""Asking for a claim: by name from Python, with a new file, and without heavy imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.coursework.catalogue import claims
from regard.coursework.problem_sets import Source
from regard.coursework.verdict import Status, not_refuted_verdict
from regard.errors import InputError


def test_from_python() -> None:
    found = regard.claims["average-within-budget"].check(n=1000, eps=0.01)
    assert found.answer
    assert found.status is Status.HOLDS
    assert "16.2626" in str(found)
    html = found._repr_html_()
    assert html.startswith("<pre>average-within-budget: HOLDS")
    assert html.count("<svg") == 1
    assert html.rstrip().endswith("</svg>")


def test_without_matplotlib_a_verdict_still_shows(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "<svg" not in claims["heads-summary"].check()._repr_html_()
    with pytest.raises(InputError, match=r"Pictures need matplotlib; install it with: pip install 'regard\[plots\]'"):
        claims["heads-summary"].plot("x.svg")


def test_unknown_names() -> None:
    with pytest.raises(InputError, match=r"no claim 'the-bisektor'; did you mean the-bisector"):
        claims["the-bisektor"]
    with pytest.raises(InputError, match=r"no claim 'zzz'; regard claims lists them all"):
        claims["zzz"]
    assert "zzz" not in claims
    with pytest.raises(InputError, match=r"There is no problem set 'B'; the sets are sequence-models-hw3"):
        Source("B", "1-1")


def test_trials_are_counted_in_words() -> None:
    assert not_refuted_verdict(1, "x").by == "1 trial"
    assert not_refuted_verdict(2000, "x").by == "2,000 trials"


NEW = """
from regard.coursework.claim import Claim
from regard.coursework.problem_sets import Source
from regard.coursework.verdict import Reading, holds

CLAIM = Claim(
    name="two-is-even",
    topic="rank",
    statement="Two is even.",
    formula="2 = 2 * 1",
    sources=(Source("cse151b-hw4", "2"),),
    parameters=(),
    readings=(Reading(name="whole numbers", statement="2 = 2 k", check=lambda: holds("exact arithmetic", "k = 1.")),),
    prove=lambda: "2 = 2 * 1.",
    draw=lambda figure: None,
)
"""


def test_a_new_file_is_a_new_claim(tmp_path: Path, monkeypatch) -> None:
    import regard.coursework.claims as folder

    (tmp_path / "two_is_even.py").write_text(NEW)
    before = len(claims)
    monkeypatch.setattr(folder, "__path__", [*folder.__path__, str(tmp_path)])
    assert len(claims) == before + 1
    assert claims["two-is-even"].check().status is Status.HOLDS
    assert "two-is-even" in str(claims.listing())
    monkeypatch.undo()
    sys.modules.pop("regard.coursework.claims.two_is_even")
    assert "two-is-even" not in claims


def test_listing_needs_no_heavy_imports() -> None:
    code = (
        "import sys; from regard.coursework.catalogue import claims; str(claims.listing());"
        "sys.exit(any(m in sys.modules for m in ('torch', 'matplotlib', 'scipy.optimize', 'regard.design')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

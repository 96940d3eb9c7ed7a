"""``regard assignment`` and ``regard grade`` on the command line."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.errors import InputError
from regard.sandbox import jail as jails

TOML = '[[question]]\nid = "1"\nclaim = "copying-condition"\nfunction = "margin"\nwithin = 2\n'
RIGHT = "import math\ndef margin(n, eps):\n    return math.log((n - 1) / eps)\n"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(TOML)
    (tmp_path / "subs").mkdir()
    (tmp_path / "subs" / "ada.py").write_text(RIGHT)
    (tmp_path / "secret.txt").write_text("a secret of the tests")
    return tmp_path


def run(*words, code=0):
    found = CliRunner().invoke(app, list(words))
    if isinstance(found.exception, InputError):
        return str(found.exception)
    assert found.exit_code == code, found.output
    return found.stdout


GRADE = ("grade", "subs", "--assignment", "a.toml")


@pytest.mark.slow
def test_a_class_is_graded(place) -> None:
    said = json.loads(run(*GRADE, "--secret", "secret.txt", "--no-sandbox", "--workers", "1", "--json"))
    assert said["rows"][0]["points"] == 1
    assert said["tiers"] == ["none"]
    assert (place / "grades" / "students" / "ada.html").exists()
    again = run(*GRADE, "--secret", "secret.txt", "--no-sandbox")
    assert "0 answers run, 1 cached" in again


def test_what_is_refused(place, monkeypatch) -> None:
    assert "--secret FILE is needed" in run(*GRADE)
    assert "--workers must be a whole number from 1 to 1000; 0 is not" in run(
        *GRADE, "--secret", "secret.txt", "--workers", "0"
    )
    (place / "subs" / "secret.txt").write_text("a secret among submissions")
    assert "among the submissions; move it elsewhere" in run(*GRADE, "--secret", "subs/secret.txt")
    (place / "empty").mkdir()
    refused = run("grade", "empty", "--assignment", "a.toml", "--secret", "secret.txt", "--no-sandbox")
    assert "There is nothing to grade in empty" in refused
    monkeypatch.setattr(jails, "tier_obstacle", lambda tier: "not here")
    assert "give --no-sandbox there" in run(*GRADE, "--secret", "secret.txt")
    assert not (place / "grades").exists()


@pytest.mark.slow
def test_public_checks(place) -> None:
    assert "1: public checks passed" in run("grade", "subs/ada.py", "--assignment", "a.toml", "--public")
    (place / "subs" / "bob.py").write_text(RIGHT)
    assert "--public checks one submission; 2 were given" in run("grade", "subs", "--assignment", "a.toml", "--public")


@pytest.mark.slow
def test_assignments(place) -> None:
    assert "Wrote a secret to s.txt" in run("assignment", "secret", "s.txt")
    assert "Wrote cse151b-hw4.toml" in run("assignment", "new", "cse151b-hw4")
    assert "Wrote the students' files, 1 question:" in run("assignment", "template", "a.toml", "--out", "handout")
    assert "Every question can be solved" in run("assignment", "check", "a.toml", "--no-sandbox")
    assert "Say which course system" in run("assignment", "pack", "a.toml", "--secret", "secret.txt")
    packed = run("assignment", "pack", "a.toml", "--secret", "secret.txt", "--prairielearn")
    assert "Wrote prairielearn.zip" in packed
    assert "cells/tests/margin.py" in run("assignment", "cells", "a.toml")
    assert "Wrote week: an assignment" in run("assignment", "example", "week")
    assert "exists and is not overwritten" in run("assignment", "example", "week")

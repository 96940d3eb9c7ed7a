"""``regard design winnable``: exit codes and certificates."""

from __future__ import annotations

import json
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pytest

from regard.design import hull
from regard.errors import CouldNotFindOut

SQUARE = "0,0; 2,0; 2,2; 0,2; 1,1"  # four corners, and a centre that never wins


@pytest.fixture
def winnable(regard, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return partial(regard, "design", "winnable")


def test_yes_no_and_a_certificate(winnable, tmp_path):
    assert winnable("0,0; 1,0; 0,1", "--jobs", "1")[0] == 0
    code, out, _ = winnable(SQUARE, "--jobs", "1", "--out", "proof.json", "--json")
    assert code == 1
    assert json.loads(out)["ways"][4] == "n"
    assert winnable(SQUARE, "--verify", "proof.json")[0] == 0
    kept = json.loads((tmp_path / "proof.json").read_text())
    kept["proofs"][0]["support"] = [0, 1]
    (tmp_path / "proof.json").write_text(json.dumps(kept))
    code, out, _ = winnable(SQUARE, "--verify", "proof.json")
    assert code == 1
    assert "the first is row 4" in out


def test_it_leaves_with_3_when_it_could_not_find_out(winnable, monkeypatch):
    def refuse(*arguments, **options):
        raise CouldNotFindOut("no time")

    monkeypatch.setattr(hull, "decide", refuse)
    code, out, _ = winnable(SQUARE, "--jobs", "1")
    assert code == 3
    assert "Row 4 could not be decided" in out


def test_a_bad_target_is_refused_before_it_works(winnable):
    code, _, said = winnable("0,0; 1,0", "--out", "proof.txt")
    assert code == 2
    assert "must end in .json" in said
    assert "Example" in winnable("--help")[1]


@pytest.mark.parametrize("words", [("--backend", "dask"), ("--scheduler", "tcp://10.0.0.1:8786")])
def test_the_command_starts_and_joins_no_cluster(words, winnable):
    code, _, said = winnable(SQUARE, *words)
    assert code == 2
    assert f"No such option: {words[0]}" in said


def test_a_process_that_was_killed_is_said(winnable, monkeypatch):
    def killed(self, tasks):
        raise BrokenProcessPool("SIGKILL(-9)")

    monkeypatch.setattr("joblib.Parallel.__call__", killed)
    code, _, said = winnable(SQUARE)
    assert code == 3
    assert "A process that winnable had started was killed" in said
    assert "--resume FILE.json" in said


def test_a_certificate_in_which_nothing_was_decided_leaves_with_3(winnable, tmp_path):
    winnable(SQUARE, "--jobs", "1", "--out", "proof.json")
    kept = json.loads((tmp_path / "proof.json").read_text())
    (tmp_path / "proof.json").write_text(json.dumps({**kept, "ways": "?" * len(kept["ways"]), "proofs": []}))
    code, out, err = winnable(SQUARE, "--verify", "proof.json")
    assert (code, out) == (3, "")
    assert "there is nothing to check" in err

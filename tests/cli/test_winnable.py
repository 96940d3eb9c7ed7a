"""``regard design winnable``: exit codes, certificates, and who runs the tasks."""

from __future__ import annotations

import json
from functools import partial

import pytest

from regard.design import hull
from regard.errors import CouldNotFindOut
from regard.extras import EXTRAS

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


def test_a_cluster_of_its_own(winnable):
    pytest.importorskip("distributed", reason="needs the extra dask: pip install 'regard[dask]'")
    code, alone, _ = winnable(SQUARE, "--json", "--jobs", "1")
    cluster_code, cluster, _ = winnable(SQUARE, "--json", "--backend", "dask", "--jobs", "1")
    assert code == cluster_code == 1
    assert cluster == alone  # on the other stream progress is told where the machine is slow


def test_a_scheduler_that_is_not_there_is_said(winnable, monkeypatch):
    pytest.importorskip("distributed", reason="needs the extra dask: pip install 'regard[dask]'")
    monkeypatch.setattr("regard.design.winnable_cluster.PATIENCE", 1)
    code, _, said = winnable(SQUARE, "--backend", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "No Dask scheduler answers at 'tcp://127.0.0.1:9'" in said
    assert "dask scheduler" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--backend", "ray"), "The backend is processes or dask; it is 'ray'."),
        (("--scheduler", "tcp://10.0.0.1:8786"), "--scheduler is the address of a Dask cluster: give it together"),
    ],
)
def test_bad_backends_are_refused(words, message, winnable):
    code, _, said = winnable(SQUARE, *words)
    assert code == 2
    assert message in said


def test_without_dask_the_extra_is_named(winnable, monkeypatch):
    monkeypatch.setattr("regard.extras.find_spec", lambda name: None)
    code, _, said = winnable(SQUARE, "--backend", "dask")
    assert code == 2
    assert "The backend dask needs distributed, which is not installed: pip install 'regard[dask]'." in said
    assert EXTRAS["distributed"] == "dask"

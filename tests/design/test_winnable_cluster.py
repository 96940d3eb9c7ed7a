"""Winnable on a Dask cluster: the same result number for number, also where a worker is killed half-way."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest

from regard import cli
from regard.design import winnable
from regard.extras import EXTRAS

ROWS = np.random.default_rng(2).standard_normal((1500, 24))
ROWS[7] = ROWS[10:60].mean(axis=0)  # rounded: only the exact search can tell


@pytest.mark.slow
def test_a_worker_that_is_killed_half_way_changes_nothing():
    pytest.importorskip("distributed", reason="needs the extra dask: pip install 'regard[dask]'")
    from regard.design.winnable_cluster import dask_cluster

    killed: list[int] = []
    with dask_cluster(workers=2) as client:
        workers = list(client.run(os.getpid).values())

        def kill_one(done, total):
            if not killed and done < total:
                killed.append(workers[0])
                os.kill(workers[0], signal.SIGKILL)

        found = winnable(ROWS, jobs=2, progress=kill_one)
    assert len(workers) == 2
    assert killed
    assert found.to_json() == winnable(ROWS, jobs=1).to_json()


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["regard", "design", "winnable", "0,0; 2,0; 2,2; 0,2; 1,1", *words])
    with pytest.raises(SystemExit) as left:
        cli.main()
    return left.value.code, capsys.readouterr()


def test_the_command_line_starts_a_cluster_of_its_own(monkeypatch, capsys):
    pytest.importorskip("distributed", reason="needs the extra dask: pip install 'regard[dask]'")
    code, alone = run(monkeypatch, capsys, "--json", "--jobs", "1")
    cluster_code, cluster = run(monkeypatch, capsys, "--json", "--backend", "dask", "--jobs", "1")
    assert code == cluster_code == 1
    assert cluster.out == alone.out  # on the other stream progress is told where the machine is slow


def test_a_scheduler_that_is_not_there_is_said(monkeypatch, capsys):
    pytest.importorskip("distributed", reason="needs the extra dask: pip install 'regard[dask]'")
    monkeypatch.setattr("regard.design.winnable_cluster.PATIENCE", 1)
    code, said = run(monkeypatch, capsys, "--backend", "dask", "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "No Dask scheduler answers at 'tcp://127.0.0.1:9'" in said.err
    assert "dask scheduler" in said.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--backend", "ray"), "The backend is processes or dask; it is 'ray'."),
        (("--scheduler", "tcp://10.0.0.1:8786"), "--scheduler is the address of a Dask cluster: give it together"),
    ],
)
def test_bad_backends_are_refused(words, message, monkeypatch, capsys):
    code, said = run(monkeypatch, capsys, *words)
    assert code == 2
    assert message in said.err


def test_without_dask_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("regard.extras.find_spec", lambda name: None)
    code, said = run(monkeypatch, capsys, "--backend", "dask")
    assert code == 2
    assert "The backend dask needs distributed, which is not installed: pip install 'regard[dask]'." in said.err
    assert EXTRAS["distributed"] == "dask"

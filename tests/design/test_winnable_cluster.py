"""Winnable on a Dask cluster: the same result number for number, also where a worker is killed half-way."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from regard.design import winnable

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

"""Sums in shared memory: everybody gets the same bits, nobody reads too early, and nothing is left open."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from regard.translator.training import parallel as module
from regard.translator.training.parallel import SharedRows, shared_rows

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux")
SIZE, LENGTH = 3, 7


class Company:
    """Threads in place of processes: what the first one has, and whether all agree."""

    def __init__(self) -> None:
        self.barrier, self.told, self.answers = threading.Barrier(SIZE), None, [False] * SIZE

    def rows(self, rank: int, length: int = LENGTH) -> SharedRows | None:
        def tell(what):
            if rank == 0:
                self.told = what
            self.barrier.wait()
            return self.told

        def all_agree(here):
            self.answers[rank] = here
            self.barrier.wait()
            return all(self.answers)

        return shared_rows(rank=rank, size=SIZE, length=length, tell=tell, all_agree=all_agree)

    def each(self, do):
        with ThreadPoolExecutor(SIZE) as pool:
            return list(pool.map(do, range(SIZE)))


def test_everybody_gets_the_sum_however_slow_somebody_is():
    company, steps = Company(), 40
    parts = torch.from_numpy(np.random.default_rng(0).standard_normal((steps, SIZE, LENGTH)).astype(np.float32))

    def work(rank):
        rows, pause, totals = company.rows(rank), np.random.default_rng([1, rank]), []
        for step in range(steps):
            time.sleep(pause.choice([0, 0, 0.003]))
            mine = parts[step, rank]
            total = rows.total([mine[:4].view(2, 2), mine[4:]], company.barrier.wait)
            time.sleep(pause.choice([0, 0, 0.003]))  # somebody fast may be writing already
            totals.append(total)
        return torch.stack(totals)

    found = company.each(work)
    for totals in found:
        assert torch.equal(totals, found[0])
        torch.testing.assert_close(totals, parts.sum(1))


def test_nothing_stays_open():
    before = len(os.listdir("/proc/self/fd"))
    rows = Company()
    del_me = rows.each(rows.rows)
    assert None not in del_me
    del del_me
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("missing", ["memfd_create", "posix_fallocate"])
def test_without_memory_to_share_all_do_without(monkeypatch, missing):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, missing, full)
    company = Company()
    assert company.each(company.rows) == [None] * SIZE


def test_one_that_is_elsewhere_keeps_all_from_sharing(monkeypatch):
    company, opened, elsewhere = Company(), module._open_memory, 2

    def reached(path, secret, count):
        return None if threading.current_thread().name.endswith(f"_{elsewhere}") else opened(path, secret, count)

    monkeypatch.setattr(module, "_open_memory", reached)
    assert company.each(company.rows) == [None] * SIZE


def test_what_another_machine_has_under_that_path_is_left_alone(tmp_path):
    secret, count = b"s" * 64, 128
    (tmp_path / "other").write_bytes(b"o" * count)
    (tmp_path / "short").write_bytes(secret)
    os.mkfifo(tmp_path / "pipe")  # reading it would wait for ever
    for name in ("other", "short", "pipe", "nothing", ""):
        assert module._open_memory(str(tmp_path / name), secret, count) is None
    (tmp_path / "ours").write_bytes(secret.ljust(count))
    assert module._open_memory(str(tmp_path / "ours"), secret, count) is not None

"""Other Python processes, for tests of what must be the same in each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 600.0  # seconds; only what hangs takes so long, on a slow and busy machine too


def wait_until(happened: Callable[[], bool], what: str) -> None:
    """Wait for an event, however long the machine needs for it."""
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            raise AssertionError(what)
        time.sleep(0.02)


def running(process: int) -> bool:
    """Whether a process is there and one of its threads has not ended; what nobody has waited for has ended.

    All threads are asked: the first one of a killed process can be gone while another ends, and its locks are held
    until the last one has closed the files.
    """
    return any(map(_alive, Path(f"/proc/{process}/task").glob("*/stat")))


def _alive(thread: Path) -> bool:
    try:
        return thread.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def printed_under_two_hash_seeds(program: str) -> set[str]:
    """What a program prints in two processes that order their sets differently; one element where it is the same."""
    command = [sys.executable, "-c", program]
    return {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }


@contextmanager
def launcher(program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what is slow to import, and forks for every line that it is sent."""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    yield process
    process.communicate(timeout=PATIENCE)

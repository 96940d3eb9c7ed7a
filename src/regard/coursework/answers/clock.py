"""The time that an answer may take: in total, for one call, and for each stage of checking it.

Two clocks: one runs while the person's code does, and is held against the limit; the other is the wall's, and only
ends what could go on for ever. So a slow judge is not held against an answer; nor is a busy machine, where the system
tells how long a process was ready to run and had no processor (Linux).
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator

from regard.errors import InputError

MOST = 3600.0


class Clock:
    """Counts down from ``limit`` seconds of the person's code.

    >>> clock = Clock(10)
    >>> clock.spent(0.9), 4.9 < clock.for_one_call() <= 5
    (False, True)
    """

    def __init__(self, limit: float) -> None:
        if not (isinstance(limit, (int, float)) and math.isfinite(limit) and 0.1 <= limit <= MOST):
            raise InputError(f"limit must be a number of seconds from 0.1 to {MOST:g}; {limit} is not.")
        self.limit, self.used, self.start, self.stopped = float(limit), 0.0, time.monotonic(), False
        self.stalled: Callable[[], float] = lambda: 0.0  # seconds of those used in which other processes ran instead

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """While the person's code runs."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.used += time.monotonic() - begun

    def left(self) -> float:
        """What is left of the limit, in seconds; never nothing, so that whoever asks can still finish."""
        return max(self.limit - self._used(self.limit / 2), 0.1)

    def for_one_call(self) -> float:
        """What one call may take: half of the limit, and never more than is left of it."""
        return min(self.limit / 2, self.left())

    def spent(self, share: float) -> bool:
        """Whether this share of the person's time is over; a stage that asks then ends, and the result says so."""
        over = self._used(share * self.limit) > share * self.limit
        self.stopped = self.stopped or over
        return over

    def _used(self, much: float) -> float:
        """Seconds used; the system is asked for those that do not count only from ``much`` on."""
        return self.used if self.used <= much else max(self.used - self.stalled(), 0.0)

    def late(self) -> bool:
        """Whether looking for something smaller has gone on for long enough, by the wall's clock."""
        return time.monotonic() - self.start > self.limit


class Stalled:
    """Seconds from now on for which some processes, and this one, are ready to run and have no processor.

    0 where the system does not tell.
    """

    def __init__(self, processes: list[int]) -> None:
        self.files: list[int] = []
        for process in (*processes, os.getpid()):
            with contextlib.suppress(OSError):
                self.files.append(os.open(f"/proc/{process}/schedstat", os.O_RDONLY))
        self.before = 0.0
        self.before = self()

    def __call__(self) -> float:
        total = -self.before
        for file in self.files:
            with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended, or there is no such number
                total += int(os.pread(file, 100, 0).split()[1]) / 1e9
        return max(total, 0.0)

    def close(self) -> None:
        """Let go of the files."""
        while self.files:
            os.close(self.files.pop())

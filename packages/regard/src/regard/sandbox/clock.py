"""The time that an answer may take: in total, for one call, and for each stage of checking it.

Two clocks: one runs while the person's code does, and is held against the limit; the other is the wall's, and only
ends what could go on for ever. So a slow judge is not held against an answer; nor is a busy machine, where the system
tells how long a process was ready to run and had no processor (Linux). Nobody can stretch a limit with that: what all
processes and threads of an answer have the processor for counts, and so does each sixtieth second on the wall.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence

from regard.errors import InputError
from regard.written_numbers import in_full, is_finite_number

MOST = 3600.0
SLOWEST = 60.0  # however busy a machine is, a second of the limit is over after so many on the wall
OFTEN = 0.05  # of the limit: to read the meter takes as long as a quick call, and is done no more often
SELF = "/proc/self"
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Clock:
    """Counts down from ``limit`` seconds of the person's code.

    >>> clock = Clock(10)
    >>> clock.has_used(0.9), 4.9 < clock.seconds_for_call() <= 5
    (False, True)
    """

    def __init__(self, limit: float) -> None:
        if not (is_finite_number(limit) and 0.1 <= limit <= MOST):
            raise InputError(
                f"limit must be a number of seconds from 0.1 to {in_full(MOST)}; {str(limit)[:40]} is not."
            )
        self.limit, self.start, self.stopped = float(limit), time.monotonic(), False
        self.settled = 0.0  # seconds used, as far as the meter was read
        self.wall = self.waited = 0.0  # since then: on the wall, and of these without a processor for this process
        self.meter = Meter(list)

    @property
    def seconds_used(self) -> float:
        """Seconds used, which is a little too much on a busy machine until the meter is read again."""
        return self.settled + self.wall

    @contextlib.contextmanager
    def running(self) -> Iterator[Callable[[], float]]:
        """While the person's code runs; it gets what tells how many seconds of that count so far."""
        begun, waited, earlier = time.monotonic(), waiting_time(SELF), self.wall

        def wall_and_waiting_time() -> tuple[float, float]:
            return self.wall + time.monotonic() - begun, self.waited + waiting_time(SELF) - waited

        try:
            yield lambda: self.meter.time_used(*wall_and_waiting_time()) - earlier
        finally:
            self.wall, self.waited = wall_and_waiting_time()
            if self.wall > self.limit * OFTEN:
                self.settled += self.meter.time_used(self.wall, self.waited)
                self.wall = self.waited = 0.0
                self.meter.begin()

    def seconds_left(self) -> float:
        """What is left of the limit, in seconds; never nothing, so that whoever asks can still finish."""
        return max(self.limit - self.seconds_used, 0.1)

    def seconds_for_call(self) -> float:
        """What one call may take: half of the limit, and never more than is left of it."""
        return min(self.limit / 2, self.seconds_left())

    def has_used(self, share: float) -> bool:
        """Whether this share of the person's time is over; a stage that asks then ends, and the result says so."""
        over = self.seconds_used > share * self.limit
        self.stopped = self.stopped or over
        return over

    def is_late(self) -> bool:
        """Whether looking for something smaller has gone on for long enough, by the wall's clock."""
        return time.monotonic() - self.start > self.limit


class Meter:
    """What processes use, with all of their threads and those that they have waited for, from a beginning on.

    They stall as long as the thread of theirs that waited longest; but whoever has stepped back in the queue (nice)
    waits by choice. Where the system does not tell, only the wall's clock counts.
    """

    def __init__(self, processes: Callable[[], Sequence[int]]) -> None:
        self.processes, self.place = processes, _scheduling_priority(SELF)
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self.before = (self.processor_time(), self.waiting_time())

    def time_used(self, wall: float, waited: float) -> float:
        """What counts of so many seconds on the wall, in some of which this process had no processor."""
        processor, stalled = self.processor_time() - self.before[0], max(self.waiting_time() - self.before[1], 0.0)
        return max(wall - stalled - waited, processor, wall / SLOWEST)

    def processor_time(self) -> float:
        """Seconds of the processor since they started."""
        total = 0
        for process in reversed(self.processes()):  # children first: one that ends meanwhile is in its parent's times
            with contextlib.suppress(OSError, ValueError):  # it has ended, or there are no such numbers
                total += sum(map(int, _stat_fields(f"/proc/{process}")[11:15]))
        return total / TICKS

    def waiting_time(self) -> float:
        """Seconds for which they were ready to run and had no processor."""
        longest = 0.0
        for process in self.processes():
            with contextlib.suppress(OSError):
                for thread in os.listdir(f"/proc/{process}/task"):
                    place = f"/proc/{process}/task/{thread}"
                    longest = max(longest, waiting_time(place) if _scheduling_priority(place) == self.place else 0.0)
        return longest


def waiting_time(thread: str) -> float:
    """Seconds for which a thread was ready to run and had no processor; 0 where the system does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_read(f"{thread}/schedstat").split()[1]) / 1e9
    return 0.0


def _scheduling_priority(thread: str) -> tuple[str, str]:
    """How nice a thread is, and by which rule it gets a processor; nothing where the system does not tell."""
    with contextlib.suppress(OSError, IndexError):
        facts = _stat_fields(thread)
        return facts[16], facts[38]
    return "", ""


def _stat_fields(thread: str) -> list[str]:
    """The words of a line of /proc behind the program's name: its state, its times, its priority."""
    return _read(f"{thread}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    """A line of /proc; Python's own files take three times as long, and this is done at every call."""
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, 4000).decode("utf-8", errors="replace")
    finally:
        os.close(file)

"""The time that an answer may take: in total, for one call, and for each stage of checking it.

Two clocks: one runs while the person's code does, and is held against the limit; the other is the wall's, and only
ends what could go on for ever. So a busy machine, or a slow judge, is not held against an answer.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

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
        return max(self.limit - self.used, 0.1)

    def for_one_call(self) -> float:
        """What one call may take: half of the limit, and never more than is left of it."""
        return min(self.limit / 2, self.left())

    def spent(self, share: float) -> bool:
        """Whether this share of the person's time is over; a stage that asks then ends, and the result says so."""
        over = self.used > share * self.limit
        self.stopped = self.stopped or over
        return over

    def late(self) -> bool:
        """Whether looking for something smaller has gone on for long enough, by the wall's clock."""
        return time.monotonic() - self.start > self.limit

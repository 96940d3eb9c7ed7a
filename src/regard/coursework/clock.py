"""The time that checking an answer may take: in total, for one call, and for each stage."""

from __future__ import annotations

import math
import time

from regard.errors import InputError

MOST = 3600.0


class Clock:
    """Counts down from ``limit`` seconds.

    >>> clock = Clock(10)
    >>> clock.spent(0.9), 4.9 < clock.for_one_call() <= 5
    (False, True)
    """

    def __init__(self, limit: float) -> None:
        if not (isinstance(limit, (int, float)) and math.isfinite(limit) and 0.1 <= limit <= MOST):
            raise InputError(f"limit must be a number of seconds from 0.1 to {MOST:g}; {limit} is not.")
        self.limit, self.start, self.stopped = float(limit), time.monotonic(), False

    def left(self) -> float:
        """What is left of the limit, in seconds; never nothing, so that whoever asks can still finish."""
        return max(self.limit - (time.monotonic() - self.start), 0.1)

    def for_one_call(self) -> float:
        """What one call may take: half of the limit, and never more than is left of it."""
        return min(self.limit / 2, self.left())

    def spent(self, share: float) -> bool:
        """Whether this share of the time is over; a stage that asks then ends, and the result says so."""
        over = time.monotonic() - self.start > share * self.limit
        self.stopped = self.stopped or over
        return over

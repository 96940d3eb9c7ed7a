"""Running a person's file here: their own code, kept from hanging for ever and from flooding the terminal.

It is no prison: the code runs with your rights and sees your files, so only name files that you trust.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn, TextIO

from regard.errors import InputError
from regard.written_numbers import at_least

SHOWN = 20_000  # characters printed that are passed on
FLOOD = 1_000_000  # from so many on it is a flood


class _TimeLimitError(BaseException):
    """Not an Exception, so that a user's ``except Exception`` does not swallow it."""


class _FloodError(BaseException):
    """Likewise."""


class _ExitError(BaseException):
    """Likewise."""


class _BoundedOutput(io.TextIOBase):
    """Passes on what is printed, to standard error: the beginning of it, and up to a bound."""

    def __init__(self, target: TextIO) -> None:
        self.target, self.count = target, 0

    def write(self, text: str) -> int:
        room = SHOWN - self.count
        self.count += len(text)
        if room >= 0:
            self.target.write(text if len(text) <= room else f"{text[:room]}\n... what it prints more is not shown\n")
        if self.count > FLOOD:
            raise _FloodError
        return len(text)

    def flush(self) -> None:
        self.target.flush()


@contextlib.contextmanager
def contain(name: str, *, limit: float | None, errors: bool = True) -> Iterator[None]:
    """Stop what runs inside after ``limit`` seconds, a million printed characters or ``os._exit``, with one sentence.

    What it prints goes to standard error: standard output is for the answer. ``errors=False`` counts only that, and
    not what goes to standard error by itself, as our own progress does. The clock needs the main thread of a POSIX
    system; elsewhere there is none.
    """
    out = _BoundedOutput(sys.stderr)
    both = contextlib.redirect_stderr(out) if errors else contextlib.nullcontext()
    try:
        with _alarm(limit), _refuse_exit(), contextlib.redirect_stdout(out), both:
            yield
    except _TimeLimitError:
        raise InputError(
            f"{name} was stopped: it took more than {at_least(limit or 0.0, 4)} s; end the loop, make it quicker, or "
            "give it more time with --limit SECONDS."
        ) from None
    except _FloodError:
        raise InputError(f"{name} was stopped: it printed more than a million characters; print less.") from None
    except _ExitError as error:
        raise InputError(f"{name} was stopped: it called os._exit({error}); return or raise instead.") from None


@contextlib.contextmanager
def _refuse_exit() -> Iterator[None]:
    """``os._exit`` would end us without a word, with the exit code of a model that passed."""
    leave, here = os._exit, os.getpid()

    def refuse(status: int) -> NoReturn:
        if os.getpid() != here:
            leave(status)  # a child that was forked ends as it should
        raise _ExitError(status)

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = leave


@contextlib.contextmanager
def _alarm(limit: float | None) -> Iterator[None]:
    if limit is None or not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TimeLimitError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def describe_error(error: BaseException) -> str:
    """An exception in a few words.

    >>> describe_error(ValueError("no."))
    'ValueError: no'
    """
    message = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {message[:200]}" if message else type(error).__name__

"""Lines to and from another process, each bounded in size and in time, and what it prints, kept in part.

Nothing here blocks: the pipes are read and written as they become ready, so a process that does not read, does not
answer, floods us, or leaves its pipes to a grandchild cannot hold us up.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import time
import unicodedata
from collections.abc import Callable
from typing import IO

FLOOD = 1_000_000  # bytes printed, from which on it is a flood
KEPT = 2_000  # bytes of it that are shown
CHUNK = 65_536


class OutputFloodError(Exception):
    """It prints and prints."""


class Lines:
    """The three pipes of a process, seen from outside."""

    def __init__(self, pipes: tuple[IO[bytes], ...]) -> None:
        self.to, self.back, self.prints = (pipe.fileno() for pipe in pipes)
        self.pipes = pipes
        for end in (self.to, self.back, self.prints):
            os.set_blocking(end, False)
        self.waiting, self.searched = bytearray(), 0  # of the next line, and how much of it has no end
        self.printed, self.total = b"", 0  # what it prints: the beginning, and how much
        self.open = {self.back, self.prints}

    def ask(self, question: bytes, *, most: int, seconds: float, used: Callable[[], float]) -> bytes:
        """Send a line, which may be empty, and wait for the next one of at most so many bytes.

        TimeoutError: none came in time; EOFError: the other side has closed its pipe; ValueError: the line has more
        bytes than any honest one.

        ``used`` says how many seconds count so far; it is asked when they could be over by the wall's clock.
        """
        last, late = time.monotonic() + seconds, False
        left_to_send = memoryview(question)  # a long line is not copied for every piece of it
        while True:
            end = self.waiting.find(b"\n", self.searched)
            if len(self.waiting) - 1 > most:
                raise ValueError("the line is too long")
            if end >= 0 and not left_to_send:
                return self._take_line(end)
            self.searched = end if end >= 0 else len(self.waiting)
            if self.back not in self.open:
                raise EOFError
            if late:
                raise TimeoutError
            if time.monotonic() >= last:
                last = time.monotonic() + seconds - used()
                late = time.monotonic() >= last  # what has come meanwhile, while we had no processor, is still read
            left_to_send = self._transfer(left_to_send, max(last - time.monotonic(), 0.0))

    def _take_line(self, end: int) -> bytes:
        line = bytes(self.waiting[:end])
        del self.waiting[: end + 1]
        self.searched = 0
        return line

    def has_unasked_line(self) -> bool:
        """Whether there is a line already that nobody has asked for."""
        if self.back in self.open and not self.waiting:
            self._read(self.back)
        return bool(self.waiting)

    def drain(self) -> None:
        """Read what has been printed and is still in the pipe; whoever else holds it may go on for ever."""
        for _ in range(FLOOD // CHUNK + 1):
            if self.prints not in self.open or not self._read(self.prints):
                return

    def hang_up(self) -> None:
        """Send nothing any more: the other side sees the end."""
        with contextlib.suppress(OSError):  # nothing is buffered here that could still be sent
            self.pipes[0].close()

    def close(self) -> None:
        """Let go of all pipes: nobody else reads them here."""
        self.open.clear()
        for pipe in self.pipes:
            with contextlib.suppress(OSError):
                pipe.close()

    def _transfer(self, question: memoryview, seconds: float) -> memoryview:
        """Wait until something can be read or written, and do so; what is still to be sent."""
        with selectors.DefaultSelector() as ready:
            for end in self.open:
                ready.register(end, selectors.EVENT_READ)
            if question:
                ready.register(self.to, selectors.EVENT_WRITE)
            for key, _ in ready.select(seconds):
                if key.fd == self.to:
                    question = self._send(question)
                else:
                    self._read(key.fd)
        if self.total > FLOOD:
            raise OutputFloodError
        return question

    def _send(self, question: memoryview) -> memoryview:
        try:
            return question[os.write(self.to, question[:CHUNK]) :]
        except BlockingIOError:
            return question
        except OSError:
            return question[:0]  # it is gone: the reply says how

    def _read(self, end: int) -> bool:
        """Read once; whether anything came."""
        try:
            chunk = os.read(end, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.open.discard(end)
        elif end == self.back:
            self.waiting += chunk
        else:
            self.total += len(chunk)
            self.printed = (self.printed + chunk)[:KEPT]
        return bool(chunk)


SEQUENCE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)|\x1b.?", re.DOTALL)
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # control and format characters, halves, unassigned, line ends


def clean(text: str, *, most: int = KEPT, several: bool = False) -> str:
    """Text of another's making, fit for a terminal: no escape sequences, nothing invisible, one line, not too long.

    >>> clean("\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\u202eabc")
    'red abc'
    """
    kept = SEQUENCE.sub("", text[: 4 * most])
    kept = kept if several else " ".join(kept.split())
    return "".join(c for c in kept if c in "\n\t" or unicodedata.category(c) not in INVISIBLE)[:most]

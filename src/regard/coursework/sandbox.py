"""Running a person's own function: in a process of its own, for a limited time, with what it prints read and bounded.

It keeps mistakes from doing harm here (endless loops, floods, exits, changed inputs). It is no prison: the code runs
with your rights and sees your files, so only name files that you trust.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from regard.coursework import answering
from regard.coursework.clock import Clock
from regard.errors import InputError

FLOOD = 1_000_000  # bytes printed, from which on it is a flood
KEPT = 2_000  # bytes of it that are shown
MEMORY = 4 * 2**30


class Sandbox:
    """A function of a file, running in another process; ``call`` asks it once.

    Whatever it does wrong is an InputError of one sentence. Use it in a ``with`` statement.
    """

    def __init__(self, spec: str, *, function: str, arguments: tuple[str, ...], clock: Clock) -> None:
        self.path, self.function = parted(spec, function)
        self.name = f"{self.path}:{self.function}"
        self.arguments, self.clock = arguments, clock
        self.printed, self.total = b"", 0  # what it prints: the beginning, and how much
        self.replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        command = [sys.executable, "-P", answering.__file__, self.path, self.function]
        bounds = (len(self.arguments), MEMORY, math.ceil(self.clock.limit) + 5)
        self.process = subprocess.Popen(
            [*command, *map(str, bounds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=os.name == "posix",
        )
        self.readers = [
            threading.Thread(target=self._read_replies, args=(self.process.stdout,), daemon=True),
            threading.Thread(target=self._read_prints, args=(self.process.stderr,), daemon=True),
        ]
        for reader in self.readers:
            reader.start()
        try:
            self._started(self._reply("importing it", self.clock.left()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *ended: object) -> None:
        self._kill()
        self.process.wait()
        for reader in self.readers:
            reader.join(timeout=1)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError, AttributeError):
                pipe.close()  # type: ignore[union-attr]

    def call(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the function returned for these arguments, as :func:`answering.encoded` packs it."""
        line = json.dumps([_packed(value) for value in given.values()]) + "\n"
        try:
            self.process.stdin.write(line.encode("ascii"))  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        except OSError:
            pass  # it is gone: the reply says how
        return self._reply(f"one call of {self.function}", self.clock.for_one_call())

    def _reply(self, doing: str, allowed: float) -> dict[str, Any]:
        try:
            line = self.replies.get(timeout=allowed)
        except queue.Empty:
            self._kill()
            if self.total > FLOOD / 50:  # it has done little else
                raise self._flood() from None
            raise InputError(
                f"{self.name} was stopped: {doing} took more than {allowed:.3g} s; end the loop, make it quicker, or "
                "give it more time with --limit SECONDS."
            ) from None
        if not line.endswith(b"\n"):
            raise self._gone(doing)
        try:
            return dict(json.loads(line))
        except ValueError:
            raise InputError(f"{self.name} wrote into the pipe that answers travel through; use print only.") from None

    def _gone(self, doing: str) -> InputError:
        """Why there was no reply."""
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:  # it closed the pipe, and lives on
            self._kill()
            code = self.process.wait()
        for reader in self.readers:
            reader.join(timeout=1)
        if self.total > FLOOD:
            return self._flood()
        how = f"was killed by signal {-code}" if code < 0 else f"left the process with code {code}"
        return InputError(f"{self.name} {how} in {doing}; it must return its answer and let the process live.")

    def _flood(self) -> InputError:
        start = shown(self.printed)[:40]
        return InputError(
            f"{self.name} printed a flood and was stopped ({self.total:,} bytes, which start {start!r}); remove "
            "the prints."
        )

    def _started(self, first: dict[str, Any]) -> None:
        if "importing" in first:
            raise InputError(f"{self.path} cannot be imported: {told(first['importing'])}; fix it first.")
        if "missing" in first:
            known = ", ".join(first["missing"]) or "no function at all"
            raise InputError(f"{self.path} has no {self.function!r}; it has {known}.")
        refuse_misfit(first, self.name, self.function, self.arguments)

    def _read_replies(self, pipe: BinaryIO) -> None:
        with contextlib.suppress(ValueError, OSError):
            while line := pipe.readline():
                self.replies.put(line)
        self.replies.put(b"")

    def _read_prints(self, pipe: BinaryIO) -> None:
        with contextlib.suppress(ValueError, OSError):
            while chunk := pipe.read1(65536):  # type: ignore[attr-defined]
                self.total += len(chunk)
                self.printed = (self.printed + chunk)[:KEPT]
                if self.total > FLOOD:
                    self._kill()

    def _kill(self) -> None:
        """End the process, and those that it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix" and self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()


def parted(spec: str, function: str) -> tuple[str, str]:
    """The file and the function that ``my.py:query`` names; without a name, the function that is asked for.

    >>> parted("my.py", "query")
    Traceback (most recent call last):
    regard.errors.InputError: my.py: there is no such file; give the path of a Python file.
    """
    path, name = (spec, function) if spec.endswith(".py") else (spec.rpartition(":")[0], spec.rpartition(":")[2])
    if not path.endswith(".py") or not name.isidentifier():
        raise InputError(f"{spec!r} must name a Python file and a function in it, as in my.py:{function}.")
    if not Path(path).is_file():
        raise InputError(f"{path}: there is no such file; give the path of a Python file.")
    return path, name


def refuse_misfit(found: Mapping[str, Any] | None, name: str, function: str, arguments: tuple[str, ...]) -> None:
    """One sentence for what cannot be called as the question calls it."""
    if found and "kind" in found:
        raise InputError(
            f"{name} is of type {found['kind']}, and must be a function {function}({', '.join(arguments)})."
        )
    if found and "takes" in found:
        count = f"{len(arguments)} argument{'s' * (len(arguments) != 1)}"
        raise InputError(
            f"{name} takes {found['takes']}, but it is called with {count}: {function}({', '.join(arguments)})."
        )


def told(error: Mapping[str, Any]) -> str:
    """An error of the person's code: where, what, and its message.

    >>> told({"type": "KeyError", "message": "'a'", "line": 3})
    "line 3: KeyError: 'a'"
    """
    where = f"line {error['line']}: " if error["line"] else ""
    if error["type"] == "SystemExit":
        return f"{where}it leaves the process (sys.exit or exit)"
    message = f": {error['message'].rstrip('.')}" if error["message"] else ""
    return f"{where}{error['type']}{message}"


def shown(printed: bytes) -> str:
    """What was printed, as text."""
    return printed.decode("utf-8", errors="replace").strip()


def _packed(value: Any) -> Any:
    return {"npy": answering.packed(value)} if isinstance(value, np.ndarray) else value

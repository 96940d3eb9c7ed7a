"""Work too long for an answer, in a process of its own: asked for, looked at again, never waited for.

The lab answers one question at a time and in a moment, so a page that checks a claim or opens a model sends for it and
says that it is under way; the browser asks again. The process reads one task per line and writes each outcome on one
line; it ends with the lab. One that will import torch can be started before anything else (:func:`start_early`), since
that import is longer than everything that the lab itself does before its first page.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any

from regard.errors import CouldNotFindOut, InputError, RegardError
from regard.results import plain
from regard.strict_json import JsonObject, parse_json
from regard.written_numbers import in_full

PATIENCE = 0.05  # seconds that an answer may wait: many tasks take no longer
LONGEST = 180.0  # seconds of one task
KEPT = 64  # outcomes, the newest
AGAIN = "ask again, or reload the page, to start another"
LINES = "the lines below do the same without a limit"


class BackgroundTasks:
    """Tasks of one kind, done one after another by one process, which starts with the first.

    >>> tasks = BackgroundTasks("regard.web.background_tasks")
    >>> while (said := tasks.ask("echo", word="here")) is None:
    ...     pass
    >>> said
    {'word': 'here'}
    >>> tasks.close()
    """

    def __init__(self, module: str, *, longest: float = LONGEST) -> None:
        self.module, self.longest = module, longest
        self._change = threading.Condition()
        self._done: dict[str, JsonObject] = {}
        self._waiting: dict[str, str] = {}  # the newest task of each function: older ones nobody wants any more
        self._running: str | None = None
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None

    def ask(self, function: str, **words: Any) -> JsonObject | None:
        """What a function of the module returns for these words, once it is known; None while it is under way."""
        task = json.dumps({"module": self.module, "function": function, "words": words}, sort_keys=True)
        with self._change:
            if task not in self._done and task != self._running:
                self._waiting[function] = task
                self._change.notify_all()
                self._begin()
            self._change.wait_for(lambda: task in self._done, PATIENCE)
            outcome = self._done.get(task)
            if outcome is not None and "result" not in outcome:
                del self._done[task]  # said once; asked again, it is tried again
        if outcome is None:
            return None
        if "result" not in outcome:
            raise (InputError if outcome["input"] else CouldNotFindOut)(outcome["error"])
        result: JsonObject = outcome["result"]
        return result

    def close(self) -> None:
        """End the process; the next task starts another."""
        process, self._process = self._process, None
        if process is not None:
            atexit.unregister(self.close)
            _end(process)

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting)
                self._running = self._waiting.pop(next(iter(self._waiting)))
            try:
                outcome = self._outcome(self._running)
            except Exception as error:  # this thread does all tasks to come: it must outlive every one of them
                outcome = self._failure(f"The process for this could not be used ({type(error).__name__}: {error})")
            with self._change:
                self._done[self._running], self._running = outcome, None
                while len(self._done) > KEPT:
                    del self._done[next(iter(self._done))]
                self._change.notify_all()

    def _outcome(self, task: str) -> JsonObject:
        self._process = process = self._process or self._take_process()
        if process.poll() is not None:
            return self._failure(f"The process that works for this page has ended {_describe_end(process)}")
        late = threading.Event()
        watchdog = threading.Timer(self.longest, _stop, [process, late])
        watchdog.daemon = True
        watchdog.start()
        line = _exchange(process, task)
        watchdog.cancel()
        if line.endswith("\n"):  # else it died while it wrote
            outcome: JsonObject = parse_json(line)
            return outcome
        process.kill()
        if late.is_set():
            return self._failure(f"It took more than {in_full(self.longest)} seconds", LINES)
        return self._failure(f"The process that worked on this ended {_describe_end(process)}")

    def _failure(self, why: str, fix: str = AGAIN) -> JsonObject:
        """An outcome without a result; the next task gets a new process."""
        self.close()
        return {"error": f"{why}; {fix}.", "input": False}

    def _take_process(self) -> subprocess.Popen[str]:
        process = _early.pop(self.module, None) or _start_process([])
        atexit.register(self.close)
        return process


_early: dict[str, subprocess.Popen[str]] = {}  # by the module whose tasks they will do


def start_early(module: str, *, imports: Sequence[str]) -> None:
    """Start the process for a module's tasks now; it imports these modules while whoever calls goes on."""
    _early[module] = _start_process(imports)
    atexit.register(_end_unused, module)


def _end_unused(module: str) -> None:
    """End a process that no task came for."""
    if (process := _early.pop(module, None)) is not None:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):  # closing sends what is left, to nobody
                stream.close()


def _stop(process: subprocess.Popen[str], late: threading.Event) -> None:
    late.set()
    process.kill()


def _describe_end(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    if code == -9:  # what the system does where memory runs out
        return "(killed: perhaps memory ran out)"
    return f"(signal {-code})" if code < 0 else f"(exit code {code})"


def _start_process(imports: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "regard.web.background_tasks", *imports]  # -P: nothing from where we stand
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere, text=True, encoding="utf-8")


def _exchange(process: subprocess.Popen[str], line: str) -> str:
    """What the process answers to a line; nothing where it has ended."""
    if process.stdin is None or process.stdout is None:
        return ""
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return process.stdout.readline()
    except (OSError, ValueError):  # ended, or closed by us
        return ""


# in the process ------------------------------------------------------------------------------------------------------


def echo(**words: Any) -> JsonObject:
    """The words themselves."""
    return words


def is_imported(name: str) -> JsonObject:
    """Has this process imported a module?"""
    return {"imported": name in sys.modules}


def run_task(line: str) -> JsonObject:
    """Do one task.

    >>> run_task('{"module": "regard.web.background_tasks", "function": "echo", "words": {"n": 2}}')
    {'result': {'n': 2}}
    """
    task = parse_json(line)
    try:
        function = getattr(importlib.import_module(task["module"]), task["function"])
        return {"result": plain(function(**task["words"]))}
    except RegardError as error:
        return {"error": str(error), "input": isinstance(error, InputError)}
    except Exception as error:  # a process that dies says nothing; this says what
        return {"error": f"This went wrong: {type(error).__name__}: {error}.", "input": False}


def import_modules(names: Sequence[str]) -> None:
    """Import what tasks will need; whatever fails will fail again, and be said, when a task needs it.

    Collecting garbage would look through everything again and again while nothing of it can go.
    """
    gc.disable()
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.enable()


def serve(tasks: IO[str], outcomes: IO[str]) -> None:
    """Do tasks until there are no more; where the lab has gone, in the middle of one."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in tasks:
            lines.put(line)
        os._exit(0)  # the other end is closed: whatever is under way, nobody will hear of it

    threading.Thread(target=read, daemon=True).start()
    while True:
        outcomes.write(json.dumps(run_task(lines.get()), ensure_ascii=False) + "\n")
        outcomes.flush()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not look like an outcome
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    import_modules(sys.argv[1:])
    if hasattr(os, "nice"):
        os.nice(5)  # the pages come first
    serve(sys.stdin, answers)

"""The one runner of other people's code: a function of their file, in a process of its own, for a limited time.

The judge is here, outside; only the file and the arguments of a call go in, and only bounded lines of plain data come
back. Plain, it keeps mistakes from doing harm (endless loops, floods, exits, processes left behind), but the code runs
with your rights. In a jail (see ``jail``) it has none. A reply is what the other side says: checked, never trusted.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from regard.errors import InputError
from regard.sandbox import child
from regard.sandbox.clock import MOST, Clock, Meter
from regard.sandbox.jail import Start, Tier, best_tier, start_command
from regard.sandbox.lines import FLOOD, Lines, OutputFloodError, clean
from regard.sandbox.tool import Tool
from regard.sandbox.warm_pool import PlainWorker, WarmPoolError, Worker, borrow
from regard.strict_json import JsonObject, parse_json
from regard.terminal import printable
from regard.written_numbers import at_least

MEMORY = {Tier.NONE: 4 * 2**30, Tier.BUBBLEWRAP: 2**30, Tier.LANDLOCK: 2**30}
MOST_SOURCE = 1_000_000  # bytes of a file
MOST_WORDS = 20_000  # bytes of a reply that holds no array
STARTED_WITHIN = 120.0  # seconds for an interpreter to start and to import NumPy: no fault of the answer
MOST_AXES, MOST_NAMES = 64, 40  # of an array that is too large to be sent, and of functions that are listed
SENTENCES, NAMES = ("kind", "takes", "strange", "unconfined", "refused"), ("missing", "confined")
# what may be said when
FILE, ANSWER = ("ready", "importing", "missing", "kind", "takes"), ("array", "none", "strange", "large", "raised")
MADE = ("data", "large", "refused", "raised")


class TimeLimitError(InputError):
    """The code was stopped by the clock: that says nothing about whether it is right."""


class SandboxStartError(InputError):
    """The process or its jail could not be had: a fault of this machine, never of the code, which was not run."""


class Runner:
    """A function of a file, running in another process; ``call`` asks it once.

    Whatever it does wrong is an InputError of one sentence. Use it in a ``with`` statement. ``code`` is the text of a
    file that lies nowhere (it came out of an archive or a notebook); then ``spec`` is only its name, and it has no
    neighbours to import. With a ``tool`` the file holds a model, and ``ask`` says what the tool is to do with it.
    """

    def __init__(
        self,
        spec: str,
        *,
        function: str,
        clock: Clock,
        arguments: tuple[str, ...] = (),
        jail: bool | Tier = False,
        code: bytes | None = None,
        tool: Tool | None = None,
    ) -> None:
        self.path, self.function = split_spec(spec, function, there=code is None)
        self.file = printable(self.path, lines=False)  # as it is shown
        self.name = f"{self.file}:{self.function}"
        self.arguments, self.clock, self.alone, self.tool = arguments, clock, code is not None, tool
        self.source, self.tier = read_source(self.path) if code is None else code, best_tier(jail)
        self.imports_within = 0 if tool is None else tool.starts_within  # seconds more than without a tool
        self.held: tuple[str, ...] = ()  # what the jail has put in force

    @property
    def printed_text(self) -> str:
        """What it printed: the beginning, fit for a terminal."""
        return clean(self.lines.printed.decode("utf-8", errors="replace"), several=True).strip()

    @property
    def jail_description(self) -> str:
        """What kept it in, in words."""
        if self.tier is Tier.NONE:
            return "without a jail, with your rights"
        return f"in a jail ({', '.join((self.tier.value, *self.held))})"

    def __enter__(self) -> Self:
        if not hasattr(os, "killpg"):  # Windows: its pipes cannot be waited for, nor a process ended with its own
            raise SandboxStartError(
                f"The code of {self.file} was not run: a process that can be stopped with all it starts needs Linux or "
                "macOS; on Windows use WSL, or hand the function itself over in Python, as docs/systems.md shows."
            )
        start = self._start_command()
        try:
            self.process = self._new_process(start)
        except WarmPoolError as error:
            raise SandboxStartError(f"Python could not be started {self.jail_description}: {error}.") from None
        self.lines = Lines(self.process.pipes)
        try:
            self._confine_and_load(start)
        # also when a person interrupts: nothing of theirs is left running
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_command(self) -> Start:
        # the processor's time is counted from the first import on
        seconds = math.ceil(self.clock.limit) + 5 + self.imports_within
        if self.tool is None:
            return start_command(self.tier, memory=MEMORY[self.tier], seconds=seconds)
        return start_command(self.tier, memory=self.tool.addresses, seconds=seconds, packages=self.tool.packages())

    def _new_process(self, start: Start) -> PlainWorker | Worker:
        if self.tier is Tier.NONE:
            return PlainWorker(start)
        imports, memory = ((), MEMORY[self.tier]) if self.tool is None else (self.tool.imports, self.tool.memory)
        return borrow(start, imports=imports, memory=memory, seconds=STARTED_WITHIN + self.imports_within)

    def _confine_and_load(self, start: Start) -> None:
        """The inside starts, confines itself, and only then sees the file."""
        self._reply(b"", ("here",), doing="starting", seconds=STARTED_WITHIN)
        plain = self.tier is Tier.NONE
        task = {
            "guarded": plain,
            "bounds": start.bounds,
            "confinement": start.confinement,
            "packages": start.packages,
            "path": self.path if plain else os.path.basename(self.path),  # the names of your folders stay outside
            "folder": os.path.dirname(os.path.abspath(self.path)) if plain and not self.alone else None,
            "function": self.function,
            "count": len(self.arguments),
            "source": base64.b64encode(self.source).decode("ascii"),
            "tool": None if self.tool is None else self.tool.payload(),
        }
        self.most_processor = start.bounds["RLIMIT_CPU"]
        waited = STARTED_WITHIN + self.imports_within
        confined = self._reply(_json_line(task), ("confined", "unconfined"), doing="starting", seconds=waited)
        if why := confined.get("unconfined"):
            raise SandboxStartError(f"The jail ({self.tier.value}) could not be closed, and nothing was run: {why}.")
        self.clock.meter = Meter(self.process.processes)
        memory = ["a limit on all memory"] if self.process.memory_held else []
        self.held = (*confined["confined"], *memory)
        first = self._reply(b"", FILE, doing="importing it", seconds=self.clock.seconds_left())
        self._refuse_mistakes(first)

    def __exit__(self, *ended: object) -> None:
        self._kill()
        self.lines.drain()
        self.lines.close()
        self.process.close()

    def call(self, given: Mapping[str, Any], *, most: int = 50_000_000) -> JsonObject:
        """What the function returned for these arguments, as :func:`child.encode_result` packs it.

        ``most`` is how many bytes an array may have that is worth looking at; a larger one is named by its shape.
        """
        packed = [child.pack_array(value) if isinstance(value, np.ndarray) else value for value in given.values()]
        question = _json_line({"arguments": packed, "most": most})
        allowed = self.clock.seconds_for_call()
        return self._reply(question, ANSWER, doing=f"one call of {self.function}", seconds=allowed, most=2 * most)

    def ask(self, question: Mapping[str, Any], *, doing: str, most: int) -> bytes:
        """What the tool made of the file's thing: at most so many bytes, which are what the other side says."""
        line, allowed = _json_line({**question, "most": most}), self.clock.seconds_left()
        # base64 makes four bytes out of three
        reply = self._reply(line, MADE, doing=doing, seconds=allowed, most=4 * most // 3)
        if "raised" in reply:
            raise InputError(f"{self.name} failed: {format_error(reply['raised'])}; fix it first.")
        if "refused" in reply:
            raise InputError(f"{self.name}: {reply['refused']}")
        if "large" in reply:
            raise InputError(f"{self.name} makes more than {most:,} bytes in {doing}; give it smaller sizes.")
        return bytes(reply["data"])

    def _reply(
        self, question: bytes, kinds: tuple[str, ...], *, doing: str, seconds: float, most: int = 0
    ) -> JsonObject:
        """Ask, and wait for a reply of one of these kinds that has its form; everything else is a sentence."""
        # what lies in the pipe before a question was asked is not an answer to it
        if question and self.lines.has_unasked_line():
            self._kill()
            raise self._meddling_error()
        clock = Clock(MOST) if doing == "starting" else self.clock  # an interpreter's start is no time of the answer's
        with clock.running() as used:
            try:
                line = self.lines.ask(question, most=most + MOST_WORDS, seconds=seconds, used=used)
                return checked_reply(line, kinds)
            except TimeoutError:
                self._kill()
                raise self._time_error(doing, seconds) from None
            except OutputFloodError:
                self._kill()
                raise self._flood_error() from None
            except EOFError:
                raise self._exit_error(doing, seconds) from None
            except ValueError:  # too long, or of no form that a reply has
                self._kill()
                raise self._meddling_error() from None

    # what can go wrong, in a sentence each

    def _time_error(self, doing: str, seconds: float) -> InputError:
        if self.lines.total > 20_000:  # it has done little else
            return self._flood_error()
        if doing == "starting":
            return SandboxStartError(
                f"Python did not start within {at_least(seconds, 3)} s; nothing was run: try again."
            )
        return TimeLimitError(
            f"{self.name} was stopped: {doing} took more than {at_least(seconds, 3)} s; end the loop, make it quicker, "
            "or give it more time with --limit SECONDS."
        )

    def _meddling_error(self) -> InputError:
        return InputError(
            f"{self.name} cannot be checked: it wrote into the pipe that answers travel through, or what came back "
            "does not have the form of an answer; return plain numbers, and use print for the rest."
        )

    def _exit_error(self, doing: str, seconds: float) -> InputError:
        """Why there was no reply."""
        processor = self.clock.meter.processor_time()  # nobody tells any more once it has been waited for
        ended = self.process.ends_within(2.0)
        exceeded = self.process.out_of_memory()
        self._kill()
        self.lines.drain()
        if self.lines.total > FLOOD:
            return self._flood_error()
        if exceeded:
            return InputError(f"{self.name} took more memory than it may in {doing}, and was ended; take less.")
        if processor >= self.most_processor - 1 and doing != "starting":  # the system was quicker than we (RLIMIT_CPU)
            return self._time_error(doing, seconds)
        if not ended:  # it closed the pipe, and lived on
            return self._meddling_error()
        code = self.process.code or 0
        if doing == "starting":
            return SandboxStartError(
                f"Python could not be started {self.jail_description}: "
                f"{self.printed_text or f'it left with code {code}'}."
            )
        how = f"was killed by signal {-code}" if code < 0 else f"left the process with code {code}"
        return InputError(f"{self.name} {how} in {doing}; it must return its answer and let the process live.")

    def _flood_error(self) -> InputError:
        return InputError(
            f"{self.name} printed a flood and was stopped ({self.lines.total:,} bytes, which start "
            f"{self.printed_text[:40]!r}); remove the prints."
        )

    def _refuse_mistakes(self, first: JsonObject) -> None:
        if "importing" in first:
            raise InputError(f"{self.file} cannot be imported: {format_error(first['importing'])}; fix it first.")
        if "missing" in first:
            nothing = "no function at all" if self.tool is None else "no class and no function"
            known = ", ".join(first["missing"]) or nothing
            raise InputError(f"{self.file} has no {self.function!r}; it has {known}.")
        refuse_mismatch(first, self.name, self.function, self.arguments)

    def _kill(self) -> None:
        """End the process, and those that it has started."""
        self.lines.hang_up()
        self.process.end()


def checked_reply(line: bytes, kinds: tuple[str, ...] = ANSWER) -> JsonObject:
    """A reply, if it is of one of these kinds and each field of it has its form, fit for a terminal; else a ValueError.

    >>> checked_reply(b'{"none": true}')
    {'none': True}
    """
    reply = parse_json(line)
    if not isinstance(reply, dict) or len(reply) != 1 or not reply.keys() <= set(kinds):
        raise ValueError("no reply")
    ((kind, value),) = reply.items()
    if kind in ("here", "ready", "none") and value is True:
        return {kind: True}
    if kind in ("raised", "importing") and isinstance(value, dict):
        return {kind: _checked_error(value)}
    if kind == "array" and isinstance(value, dict):
        return {kind: _checked_array(value)}
    if kind == "large" and _is_list(value, int, most=MOST_AXES) and all(0 <= size < 2**63 for size in value):
        return {kind: value}
    if kind == "data" and isinstance(value, str):
        return {kind: base64.b64decode(value, validate=True)}
    if kind in SENTENCES and isinstance(value, str):
        return {kind: clean(value, most=300)}
    if kind in NAMES and _is_list(value, str, most=MOST_NAMES):
        return {kind: [clean(name, most=60) for name in value]}
    raise ValueError("no reply")


def _is_list(value: object, of: type, *, most: int) -> bool:
    return isinstance(value, list) and len(value) <= most and all(type(item) is of for item in value)


def _checked_error(sent: JsonObject) -> JsonObject:
    if sent.keys() != {"type", "message", "line"}:
        raise ValueError("no error")
    kind, message, line = sent["type"], sent["message"], sent["line"]
    known = line is None or (type(line) is int and 0 <= line <= child.MOST_LINES)
    if not (isinstance(kind, str) and isinstance(message, str) and known):
        raise ValueError("no error")
    return {"type": clean(kind, most=60), "message": clean(message, most=child.MOST_SAID), "line": line}


def _checked_array(sent: JsonObject) -> Any:
    if sent.get("dtype") != "<f8" or not isinstance(sent.get("data"), str):
        raise ValueError("no array of numbers")
    try:
        return child.unpack_array(sent)
    except (KeyError, TypeError) as error:
        raise ValueError("no array") from error


def read_source(path: str) -> bytes:
    """The file's bytes, if they are those of an ordinary file of ordinary size."""
    try:
        with open(path, "rb") as stream:
            content = stream.read(MOST_SOURCE + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    if len(content) > MOST_SOURCE:
        raise InputError(f"{path} has more than {MOST_SOURCE:,} bytes; an answer is a short file.")
    return content


def split_spec(spec: str, function: str, *, there: bool = True) -> tuple[str, str]:
    """The file and the function that ``my.py:query`` names; without a name, the function that is asked for.

    ``there``: the file must exist.

    >>> split_spec("my.py", "query")
    Traceback (most recent call last):
    regard.errors.InputError: my.py: there is no such file; regard claims CLAIM --template my.py writes one.
    """
    path, name = (spec, function) if spec.endswith(".py") else (spec.rpartition(":")[0], spec.rpartition(":")[2])
    if not path.endswith(".py") or not name.isidentifier():
        raise InputError(f"{spec!r} must name a Python file and a function in it, as in my.py:{function}.")
    if there and not Path(path).is_file():
        raise InputError(f"{path}: there is no such file; regard claims CLAIM --template {path} writes one.")
    return path, name


def refuse_mismatch(signature: Mapping[str, Any] | None, name: str, function: str, arguments: tuple[str, ...]) -> None:
    """One sentence for what cannot be called as the question calls it."""
    if signature and "kind" in signature:
        raise InputError(
            f"{name} is of type {signature['kind']}, and must be a function {function}({', '.join(arguments)})."
        )
    if signature and "takes" in signature:
        count = f"{len(arguments)} argument{'s' * (len(arguments) != 1)}"
        raise InputError(
            f"{name} takes {signature['takes']}, but it is called with {count}: {function}({', '.join(arguments)})."
        )


def format_error(error: Mapping[str, Any]) -> str:
    """An error of the person's code: where, what, and its message.

    >>> format_error({"type": "KeyError", "message": "'a'", "line": 3})
    "line 3: KeyError: 'a'"
    """
    where = f"line {error['line']}: " if error["line"] else ""
    if error["type"] == "SystemExit":
        return f"{where}it leaves the process (sys.exit or exit)"
    message = f": {error['message'].rstrip('.')}" if error["message"] else ""
    return f"{where}{error['type']}{message}"


def _json_line(message: JsonObject) -> bytes:
    return json.dumps(message).encode("ascii") + b"\n"

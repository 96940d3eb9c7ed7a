"""The inside: runs in an interpreter of its own, loads a person's file and calls one of its functions.

python child.py [--keep] [FOLDER ...], where the folders hold NumPy if it is not on the path already. With --keep it is
a warm pool (see ``warm_pool.py``), and each process that it makes does what follows. The judge is outside, and talks
to it in lines of JSON:

    inside   {"here": true}                        NumPy is imported, nothing of the person's has been run
    outside  the file, the function, the bounds, and how to confine itself
    inside   {"confined": [...]}                   what is now in force; {} of these where nothing was asked
    inside   {"ready": true}, or what is wrong with the file
    outside  the arguments of one call             and so on, one line each

Arrays travel as their shape and their bytes in base64; nothing is ever unpickled. What the code prints goes to
standard error. Only the standard library and NumPy are imported here, and nothing of regard: in the jail there is none.
Where a model is run and not a function, a tool of ours (see ``tool``) is sent along as text and does what is asked for.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import importlib.abc
import importlib.util
import inspect
import json
import math
import os
import runpy
import signal
import socket
import sys
import time
import traceback
import types
from collections.abc import Callable
from importlib.machinery import PathFinder
from typing import Any, TextIO

if __name__ == "__main__":
    sys.path.extend(word for word in sys.argv[1:] if word != "--keep")

import numpy as np

KEEP = "--keep"
MOST_SAID = 200  # characters of an error message
MOST_LINES = 10_000_000  # of a file
ENDED_AFTER = 5.0  # seconds that processes of the code may take to die, before the rest is left to them


def main() -> None:
    pool = _fork_workers() if KEEP in sys.argv else None
    incoming, outgoing = _own_pipes()
    send_line(outgoing, {"here": True})
    task = json.loads(incoming.readline())
    if task["guarded"]:
        _fork_under_guard(incoming)
    try:
        tool = _load_tool(task["tool"])  # before the jail is closed: torch's start is no fault of the answer
        confined = _confine(task["bounds"], task["confinement"])
    except Exception as error:  # whatever it is, nothing is run without a jail that was asked for
        return send_line(outgoing, {"unconfined": f"{type(error).__name__}: {error}"})
    if pool not in (None, os.getppid()):  # it ended before this process was to end with it
        os._exit(1)
    send_line(outgoing, {"confined": confined})
    sys.dont_write_bytecode = True
    if tool is None:
        sys.meta_path.insert(0, ImportBlocker(task["packages"]))
    else:
        allowed = AllowedPackageFinder(task["packages"])
        sys.meta_path[1:] = [ImportBlocker(None), *map(allowed.replacement_for, sys.meta_path[1:])]
    answer, mistake = _load_answer(task)
    send_line(outgoing, mistake or {"ready": True})
    while mistake is None and (line := incoming.readline()):
        asked = json.loads(line)
        if tool is None:
            given = [unpack_array(value) if isinstance(value, dict) else value for value in asked["arguments"]]
            reply = _call_function(answer, given, task["path"], asked["most"])
        else:
            reply = _call_tool(tool, answer, asked, task["path"])
        with contextlib.suppress(Exception):  # it may have closed or replaced it
            sys.stdout.flush()
        send_line(outgoing, reply)


# keeping a started interpreter for many answers


def _fork_workers() -> int:
    """Make a process for each answer that is asked for; returns in those processes only, the pool's own end is here.

    The judge hands over three pipes over a socket, and the socket is closed in the new process before anything else.
    What is returned is the pool's process number.
    """
    control, pool = socket.socket(fileno=os.dup(0)), os.getpid()
    _empty_input()
    control.send(b'{"here": true}')
    child = 0
    while True:
        message, ends, _, _ = socket.recv_fds(control, 1000, 3)
        if not message:  # the judge has hung up
            _wait_or_kill(child, within=0.0)
            os._exit(0)
        asked = json.loads(message)
        if not ends:
            reply, child = {"code": _wait_or_kill(child, within=asked["within"])}, 0
        else:
            for name in asked["imports"]:  # once; the new processes have them then
                with contextlib.suppress(ImportError):  # whoever needs it says so
                    importlib.import_module(name)
            child = os.fork()
            if not child:
                break
            reply = {}
        for end in ends:
            os.close(end)
        control.send(json.dumps(reply).encode())
    control.close()
    for place, end in enumerate(ends):
        os.dup2(end, place)
        os.close(end)
    return pool


def _wait_or_kill(child: int, *, within: float) -> int | None:
    """How a process ended by itself within these seconds; else it is ended, and the answer is None."""
    last = time.monotonic() + within
    finished, status = os.waitpid(child, os.WNOHANG) if child else (0, 0)
    while child and not finished and time.monotonic() < last:
        time.sleep(0.002)
        finished, status = os.waitpid(child, os.WNOHANG)
    if finished:
        return os.waitstatus_to_exitcode(status)
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return None


def _empty_input() -> None:
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)


def _own_pipes() -> tuple[TextIO, TextIO]:
    """Keep the pipes to the judge, and leave the code an empty standard input and a standard output that is read."""
    incoming, outgoing = os.dup(0), os.dup(1)
    _empty_input()
    os.dup2(2, 1)
    return os.fdopen(incoming, encoding="utf-8"), os.fdopen(outgoing, "w", encoding="utf-8")


def send_line(outgoing: TextIO, message: dict[str, Any]) -> None:
    """One line to the judge."""
    outgoing.write(json.dumps(message) + "\n")
    outgoing.flush()


# ending what the code has started, where there is no jail to do so


def _fork_under_guard(incoming: TextIO) -> None:
    """Go on in a child; stay behind as its guard, who inherits its orphans and ends them all when the judge hangs up.

    A process in a session of its own escapes a signal to the group, and an orphan goes to init; a subreaper gets it.
    """
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        system = ctypes.CDLL(None)
        if system.prctl(36, 1, 0, 0, 0) == 0:  # PR_SET_CHILD_SUBREAPER; Linux only
            guard, child = os.getpid(), os.fork()
            if child:
                _guard(child, incoming.fileno())
            system.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: without its guard it ends too
            if os.getppid() != guard:  # which is gone already
                os._exit(1)


def _guard(child: int, judge: int) -> None:
    """Wait until the child ends or the judge hangs up; then end everything below, and leave as the child did."""
    import select

    for held in (1, 2):  # the pipes end when the code does
        os.close(held)
    ends = select.poll()
    ends.register(judge, 0)  # a hang-up is always reported
    ends.register(os.pidfd_open(child), select.POLLIN)
    ends.poll()
    finished, status = os.waitpid(child, os.WNOHANG)
    last = time.monotonic() + ENDED_AFTER
    while (below := _descendants()) and time.monotonic() < last:
        for pid in below:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.005)
    if finished and os.WIFSIGNALED(status):
        with contextlib.suppress(OSError):  # two of them cannot be set, and need not be
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status) if finished else 0)


def _descendants() -> list[int]:
    """Every process below this one, by /proc; dead ones that were not waited for included."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        with contextlib.suppress(ValueError, OSError, IndexError):
            pid = int(name)
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
                parents.setdefault(int(stream.read().rpartition(")")[2].split()[1]), []).append(pid)
    descendants, wanted = [], [os.getpid()]
    while wanted:
        below = parents.get(wanted.pop(), [])
        descendants += below
        wanted += below
    return descendants


# before the code runs: bounds, the jail, and our own solver out of reach


def _confine(bounds: dict[str, int], confinement: dict[str, Any] | None) -> list[str]:
    """Take on the bounds, then the jail's rules; what is in force now, in words."""
    if confinement is None:
        with contextlib.suppress(ImportError, OSError, ValueError, AttributeError):  # not every system has them all
            set_limits(bounds)
        return []
    neighbour = os.path.join(os.path.dirname(os.path.abspath(__file__)), "confinement.py")
    confine: Callable[..., list[str]] = runpy.run_path(neighbour)["confine"]
    return confine(confinement, limit=lambda: set_limits(bounds))


def set_limits(bounds: dict[str, int]) -> None:
    """Bounds that hold even if whoever started this process is gone."""
    import resource

    for name, value in bounds.items():
        resource.setrlimit(getattr(resource, name), (value, value))


class ImportBlocker(importlib.abc.MetaPathFinder):
    """An answer stands on its own: regard, which could solve the question, is not imported here.

    A person who wants to can take this away again: outside the jail it helps against nothing but forgetfulness, and
    inside there is no regard to be found. There, what is not open to it is said to be missing, as libraries expect.
    """

    def __init__(self, packages: list[str] | None) -> None:
        self.packages = packages  # those that there are besides the standard library; None outside the jail

    def find_spec(self, name: str, *place: object) -> None:
        top = name.partition(".")[0]
        if top in ("regard", "regard_models"):
            raise ModuleNotFoundError("an answer must stand on its own: regard cannot be imported in it")
        if self.packages is not None and not _is_allowed(top, self.packages):
            there = ", ".join(self.packages) + "; put a model into a file of its own" * (top == "torch")
            raise ModuleNotFoundError(f"No module named {top!r}; in the jail there are Python's own, and {there}")


class AllowedPackageFinder(importlib.abc.MetaPathFinder):
    """As Python finds modules, but among these packages only: torch and what it stands on look for what else there is,
    and must hear that it is not there. (Where folders can be listed, Python would find what cannot be read.)"""

    def __init__(self, packages: list[str] | None) -> None:
        self.packages = packages

    def replacement_for(self, finder: Any) -> Any:
        return self if finder is PathFinder and self.packages is not None else finder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self.packages is not None and _is_allowed(name.partition(".")[0], self.packages):
            return PathFinder.find_spec(name, path, target)
        return None


def _is_allowed(top: str, packages: list[str]) -> bool:
    return top in sys.stdlib_module_names or top.startswith("_") or top in packages


# a tool of ours


class TextImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of regard that came as text: those that a tool stands on, and empty packages around them."""

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts
        self.around = {name.rpartition(".")[0] for name in texts}
        self.around |= {".".join(name.split(".")[:count]) for name in texts for count in range(1, name.count(".") + 1)}

    def find_spec(self, name: str, *place: object) -> Any:
        if name not in self.texts and name not in self.around:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=name in self.around)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = f"<{module.__name__}>"  # some name files beside them, which are not there
        exec(compile(self.texts.get(module.__name__, ""), module.__file__, "exec"), module.__dict__)


def _load_tool(sent: dict[str, Any] | None) -> Any:
    """The tool's module, ready to be used; None where a function is asked for."""
    if sent is None:
        return None
    sys.meta_path.insert(0, TextImporter(sent["texts"]))
    for name in sent["imports"]:
        importlib.import_module(name)
    return importlib.import_module(sent["module"])


def _call_tool(tool: Any, answer: Any, asked: dict[str, Any], path: str) -> dict[str, Any]:
    """What the tool makes of the person's thing: bytes, or the error that came of it."""
    try:
        data = tool.respond(answer, sys.modules["your_answer"], asked)
        if len(data) > asked["most"]:
            return {"large": [len(data)]}
        return {"data": base64.b64encode(data).decode("ascii")}
    except BaseException as error:
        if type(error).__name__ == "InputError" and type(error).__module__ == "regard.errors":
            return {"refused": str(error)[: 2 * MOST_SAID]}
        return {"raised": describe_error(error, path)}


# loading and calling


def _load_answer(task: dict[str, Any]) -> tuple[Any, dict[str, Any] | None]:
    """What is named in the file, or what is wrong with the file."""
    path, name = task["path"], task["function"]
    module = types.ModuleType("your_answer")  # not the file's name, which may be that of a library
    module.__file__ = path
    sys.modules[module.__name__] = module
    if task["folder"] is not None:
        sys.path.insert(0, task["folder"])  # so that it can import its neighbours
    try:
        exec(compile(base64.b64decode(task["source"]), path, "exec"), module.__dict__)
    except BaseException as error:
        return None, {"importing": describe_error(error, path)}
    if not hasattr(module, name):
        return None, {"missing": _defined_names(module, classes=task["tool"] is not None)[:20]}
    function = getattr(module, name)
    return function, signature_mismatch(function, task["count"]) if task["tool"] is None else None


def _defined_names(module: types.ModuleType, *, classes: bool) -> list[str]:
    """The functions in it; with classes, those that are its own."""
    if not classes:
        return [str(key) for key, value in vars(module).items() if inspect.isfunction(value)]
    own = {key: v for key, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__}
    return [str(key) for key, value in own.items() if inspect.isfunction(value) or inspect.isclass(value)]


def signature_mismatch(function: Any, count: int) -> dict[str, Any] | None:
    """Why it cannot be called with so many arguments, if it cannot."""
    if not callable(function):
        return {"kind": type(function).__name__}
    try:
        known = inspect.signature(function)
    except (TypeError, ValueError):
        return None  # a built-in that does not say
    try:
        known.bind(*range(count))
    except TypeError:
        return {"takes": str(known)[:MOST_SAID]}
    return None


def _call_function(function: Any, arguments: list[Any], path: str, most: int) -> dict[str, Any]:
    try:
        return encode_result(function(*arguments), most=most)
    except BaseException as error:
        return {"raised": describe_error(error, path)}


def describe_error(error: BaseException, path: str) -> dict[str, Any]:
    """The error's type, first line, and the last line of the file that it came through."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    for frame in traceback.extract_tb(error.__traceback__):
        line = frame.lineno if frame.filename == path else line
    try:
        message = str(error.msg if isinstance(error, SyntaxError) else error).partition("\n")[0][:MOST_SAID]
    except BaseException:
        message = "its message cannot be read"
    known = type(line) is int and 0 <= line <= MOST_LINES  # a SyntaxError of the code's own may have any
    return {"type": type(error).__name__, "message": message, "line": line if known else None}


# arrays as lines


def encode_result(value: Any, *, most: int = 50_000_000) -> dict[str, Any]:
    """What a function returned, as plain numbers, or the kind of thing that it is instead."""
    if value is None:
        return {"none": True}
    kind = f"something of type {type(value).__name__}"
    if isinstance(value, (str, bytes, dict, set)):
        return {"strange": kind}
    try:
        array = np.asarray(value)
    except Exception:  # ragged lists, tensors that need a gradient, objects of all kinds
        return {"strange": kind}
    if array.dtype.kind not in "iuf":
        return {"strange": f"an array of {array.dtype}" if array.ndim else kind}
    if array.size * 8 > most:
        return {"large": list(array.shape)}
    with np.errstate(all="ignore"):
        return {"array": pack_array(array.astype(np.float64))}


def pack_array(array: Any) -> dict[str, Any]:
    """An array of plain numbers as its type, shape and bytes."""
    if array.dtype.kind not in "iufb":
        raise TypeError(f"an array of {array.dtype} is not sent")
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"dtype": array.dtype.str, "shape": list(array.shape), "data": data}


def unpack_array(sent: dict[str, Any]) -> Any:
    """The array again; a ValueError where type, shape and bytes do not belong together."""
    if sent.keys() != {"dtype", "shape", "data"}:
        raise ValueError("no array")
    dtype, shape = np.dtype(str(sent["dtype"])), sent["shape"]
    if dtype.kind not in "iufb" or not isinstance(shape, list) or len(shape) > 8:
        raise ValueError("no array of plain numbers")
    if not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise ValueError("no shape")
    data = base64.b64decode(sent["data"], validate=True)
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError("shape and bytes do not agree")
    return np.frombuffer(data, dtype).reshape(shape).copy()


if __name__ == "__main__":
    main()

"""The other side of the sandbox: runs in an interpreter of its own, imports a person's file and calls a function.

python answering.py FILE FUNCTION ARGUMENTS MEMORY SECONDS. One line of JSON in, one line out; arrays travel as .npy
bytes in base64, and nothing is ever unpickled. What the code prints goes to standard error. Only the standard library
and NumPy are imported here, so that it starts quickly.
"""

from __future__ import annotations

import base64
import contextlib
import inspect
import io
import json
import os
import sys
import traceback
import types
from typing import Any, TextIO

import numpy as np

MOST_BYTES = 50_000_000  # of an answer


def main() -> None:
    path, name, (count, memory, seconds) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:6])
    incoming, outgoing = _own_pipes()
    _limit(memory, seconds)
    sys.dont_write_bytecode = True
    function, mistake = _loaded(path, name, count)
    _say(outgoing, mistake or {"ready": True})
    while mistake is None and (line := incoming.readline()):
        arguments = [decoded(value) for value in json.loads(line)]
        reply = _called(function, arguments, path)
        with contextlib.suppress(Exception):  # it may have closed or replaced it
            sys.stdout.flush()
        _say(outgoing, reply)


def _own_pipes() -> tuple[TextIO, TextIO]:
    """Keep the pipes to the parent, and leave the code an empty standard input and a standard output that is read."""
    incoming, outgoing = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return os.fdopen(incoming, encoding="utf-8"), os.fdopen(outgoing, "w", encoding="utf-8")


def _limit(memory: int, seconds: int) -> None:
    """Bounds that hold even if whoever started this process is gone."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _loaded(path: str, name: str, count: int) -> tuple[Any, dict[str, Any] | None]:
    """The function, or what is wrong with the file."""
    module = types.ModuleType("your_answer")  # not the file's name, which may be that of a library
    module.__file__ = path
    sys.modules[module.__name__] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # so that it can import its neighbours
    try:
        with open(path, "rb") as stream:
            code = compile(stream.read(), path, "exec")
        exec(code, module.__dict__)
    except BaseException as error:
        return None, {"importing": said(error, path)}
    if not hasattr(module, name):
        return None, {"missing": [k for k, v in vars(module).items() if inspect.isfunction(v)]}
    function = getattr(module, name)
    return function, misfit(function, count)


def misfit(function: Any, count: int) -> dict[str, Any] | None:
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
        return {"takes": str(known)}
    return None


def _called(function: Any, arguments: list[Any], path: str) -> dict[str, Any]:
    try:
        return encoded(function(*arguments))
    except BaseException as error:
        return {"raised": said(error, path)}


def said(error: BaseException, path: str) -> dict[str, Any]:
    """The error's type, first line, and the last line of the file that it came through."""
    line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else None
    for frame in traceback.extract_tb(error.__traceback__):
        line = frame.lineno if frame.filename == path else line
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    return {"type": type(error).__name__, "message": message.partition("\n")[0][:200], "line": line}


def encoded(value: Any) -> dict[str, Any]:
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
    if array.nbytes > MOST_BYTES:
        return {"large": list(array.shape)}
    with np.errstate(all="ignore"):
        return {"npy": packed(array.astype(np.float64))}


def packed(array: Any) -> str:
    """An array as the bytes of a .npy file, in base64."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return base64.b64encode(stream.getvalue()).decode("ascii")


def decoded(value: Any) -> Any:
    """A plain number as it is, an array from its bytes."""
    if not isinstance(value, dict):
        return value
    return np.load(io.BytesIO(base64.b64decode(value["npy"])), allow_pickle=False)


def _say(outgoing: TextIO, message: dict[str, Any]) -> None:
    outgoing.write(json.dumps(message) + "\n")
    outgoing.flush()


if __name__ == "__main__":
    main()

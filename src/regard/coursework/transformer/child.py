"""The other side of the runner: imports a person's file and records what is named in it.

python -P -m regard.coursework.transformer.child FILE NAME SEED MEMORY SECONDS TARGET. One JSON line goes to the file
TARGET, followed by the bytes of the recording; what the code prints goes to standard error. Nothing is judged here.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import types
from importlib.util import find_spec
from typing import Any


def main() -> None:
    path, name, target = sys.argv[1], sys.argv[2], sys.argv[6]
    seed, memory, seconds = (int(word) for word in sys.argv[3:6])
    os.dup2(2, 1)
    _limit(memory, seconds)
    sys.dont_write_bytecode = True
    outcome, data = _outcome(path, name, seed)
    with open(target, "wb") as stream:
        stream.write(json.dumps(outcome).encode() + b"\n" + data)


def _limit(memory: int, seconds: int) -> None:
    """Bounds that hold even if whoever started this process is gone."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_FSIZE, (memory // 16, memory // 16))


def _outcome(path: str, name: str, seed: int) -> tuple[dict[str, Any], bytes]:
    if find_spec("torch") is None:
        return {"no_torch": True}, b""
    from regard.coursework.answers.inside import said
    from regard.errors import InputError

    module = types.ModuleType("your_answer")  # not the file's name, which may be that of a library
    module.__file__ = path
    sys.modules[module.__name__] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))  # so that it can import its neighbours
    try:
        with open(path, "rb") as stream:
            code = compile(stream.read(), path, "exec")
        exec(code, module.__dict__)
    except BaseException as error:
        return {"importing": said(error, path)}, b""
    if not hasattr(module, name):
        return {"missing": _names(module)}, b""
    declared = getattr(module, "REGARD", {})
    if not isinstance(declared, dict):
        return {"refused": f"REGARD in {path} must be a dictionary; it is of type {type(declared).__name__}."}, b""
    from regard.models.diagnosis.part_recorder import record  # torch: only now is it needed

    try:
        recording = record(getattr(module, name), name=name, declared=declared, seed=seed)
    except InputError as error:
        return {"refused": f"{path}:{name}: {error}"}, b""
    except BaseException as error:
        return {"raised": said(error, path)}, b""
    return {"padding": str(declared.get("padding", "either"))}, recording.packed()


def _names(module: types.ModuleType) -> list[str]:
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    return [key for key in own if inspect.isfunction(vars(module)[key]) or inspect.isclass(vars(module)[key])]


if __name__ == "__main__":
    main()

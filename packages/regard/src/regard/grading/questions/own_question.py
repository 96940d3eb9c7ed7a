"""A question of the teacher's own: a Python file that makes instances and judges answers.

    ARGUMENTS = {"keys": "an n x d array", "eps": "a number"}       what the student's function is called with
    TASK, RETURNS = "...", "..."                                    what to return, in words
    def instance(rng, level): return {"keys": ..., "eps": ...}      level 1, 2, ...: the smallest first
    def judge(given, answer): return True or False, or (room, "why")

and, where they are wanted, ``LEVELS`` (how many), ``shape(given)`` of what is to be returned (one number, if there
is none), ``right`` (an answer of yours) and ``wrong`` (a list of answers that must lose points), for ``assignment
check``. This file is the teacher's: it runs with the teacher's rights, outside of the jail.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from regard.coursework.question import Instance, Question, Ruling, make_size
from regard.errors import CouldNotFindOut, InputError
from regard.python_files import load_file

LEVELS = 6


class JudgeError(CouldNotFindOut):
    """The teacher's own code failed: nobody's answer is wrong for that."""


@cache
def load_module(path: Path) -> ModuleType:
    """The teacher's file as a module; what is wrong with it is one sentence."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such Python file; name it relative to the assignment.")
    module = load_file(path)
    for name in ("instance", "judge"):
        if not callable(getattr(module, name, None)):
            raise InputError(
                f"{path} has no function {name!r}; it needs instance(rng, level) and judge(given, answer)."
            )
    return module


def question_of(path: Path) -> Question:
    """The file as a question like those of the claims."""
    module = load_module(path)
    # Any instance will do: only the names of its arguments are wanted.
    arguments = dict(getattr(module, "ARGUMENTS", {})) or dict.fromkeys(_make_instance(module, path, np.eye(8), 1), "")
    levels = int(getattr(module, "LEVELS", LEVELS))
    return Question(
        function="answer",
        arguments=arguments,
        task=str(getattr(module, "TASK", module.__doc__ or "")).strip(),
        returns=str(getattr(module, "RETURNS", "what is asked for")),
        shape=_shape(module, path),
        sizes=(
            make_size(
                "level", "how large the instance is", tuple(range(1, levels + 1)), whole=True, least=1, most=levels
            ),
        ),
        make=lambda latent, level: Instance(given=_make_instance(module, path, latent, level)),
        judge=_judge(module, path),
        decided="Decided by the teacher's own judge.",
        may_be_none=bool(getattr(module, "MAY_BE_NONE", False)),
        may_be_nan=True,  # the teacher's judge decides what NaN is worth
    )


def _make_instance(module: ModuleType, path: Path, latent: Any, level: int) -> dict[str, Any]:
    """An instance; its random numbers come from the latent, so that the same latent gives the same instance."""
    draws = hashlib.sha256(np.ascontiguousarray(latent).tobytes()).digest()
    rng = np.random.default_rng(np.frombuffer(draws, dtype="<u4"))
    given = _call(path, "instance", module.instance, rng, level)
    if not isinstance(given, dict) or not all(isinstance(name, str) and name.isidentifier() for name in given):
        raise JudgeError(f"{path}: instance(rng, level) must return a dictionary of arguments by name.")
    return {name: _sendable(path, name, value) for name, value in given.items()}


def _sendable(path: Path, name: str, value: Any) -> Any:
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    array = np.asarray(value)
    if array.dtype.kind not in "iufb":
        raise JudgeError(f"{path}: the argument {name!r} of an instance must be numbers, not {array.dtype}.")
    return array


def _shape(module: ModuleType, path: Path) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    given_shape = getattr(module, "shape", None)
    if given_shape is None:
        return lambda given: ()
    return lambda given: tuple(int(n) for n in _call(path, "shape", given_shape, dict(given)))


def _judge(module: ModuleType, path: Path) -> Callable[..., Ruling]:
    def judge(instance: Instance, answer: Any) -> Ruling:
        ruled = _call(path, "judge", module.judge, dict(instance.given), answer)
        verdict, said = ruled if isinstance(ruled, tuple) and len(ruled) == 2 else (ruled, "the judge says no")
        if isinstance(verdict, (bool, np.bool_)):
            # a plain yes or no gives the adversary nothing to climb
            return Ruling(room=1.0 if verdict else -1.0, said=str(said))
        if isinstance(verdict, (int, float, np.number)):
            return Ruling(room=float(verdict), said=str(said))
        raise JudgeError(
            f"{path}: judge(given, answer) returned {type(verdict).__name__}; return True, False, or (room, why)."
        )

    return judge


def _call(path: Path, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        raise JudgeError(f"{path}: {name} failed: {type(error).__name__}: {error}.") from None

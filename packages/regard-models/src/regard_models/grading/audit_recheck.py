"""Part of an audit, done again outside of the model's process, from the answers that it gives to questions made here.

The audit itself runs beside the student's code, which could change what it says. Three of its properties need nothing
but answers: the same question twice, an example alone and among others, and the beginning of a sentence with another
end (where the model is said not to look ahead). The numbers hang on the secret and are never known inside beforehand,
and the examples alone are asked in a process of their own, which has seen none of the others: what was answered there
cannot be remembered here. A model can lie about its answers only; one whose answers hang on nothing is refused too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.errors import InputError
from regard.sandbox import child
from regard.strict_json import parse_json

Answers = Mapping[str, Array]  # by name
Asked = Callable[[list[Array]], Answers]  # rows for every stream in, answers out

EXAMPLES = 3
MOST_STREAMS, LONGEST, MOST_WORDS, WIDEST = 4, 512, 50_000, 8192
FAR = 1e-3  # of the largest number: what a leak moves is seen from here on, and no rounding of float32 comes near
DONE_AGAIN = ("determinism", "batch")
OTHER_WEIGHTS = "two starts of it give two models"


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One row of tokens, as the model's process describes it: ids of so many words, or vectors of a width."""

    length: int
    words: int | None
    avoid: tuple[int, ...]
    width: int | None
    causal: bool

    def draw(self, rng: np.random.Generator, examples: int = EXAMPLES) -> Array:
        if self.words is None:
            return rng.standard_normal((examples, self.length, self.width or 1))
        free = [word for word in range(self.words) if word not in self.avoid] or [0]
        return np.asarray(rng.choice(free, (examples, self.length)), dtype=np.int64)


def read_streams(said: Any) -> tuple[Stream, ...]:
    """The description, in bounds; a ValueError where it has none of its form."""
    if not isinstance(said, list) or len(said) > MOST_STREAMS:
        raise ValueError("no streams")
    return tuple(_stream(one) for one in said)


def _stream(one: Any) -> Stream:
    sizes = {"length": LONGEST, "words": MOST_WORDS, "width": WIDEST}
    for name, most in sizes.items():
        if one[name] is not None and not (type(one[name]) is int and 1 <= one[name] <= most):
            raise ValueError(f"no {name}")
    avoid = tuple(one["avoid"])
    if len(avoid) > 100 or not all(type(word) is int and abs(word) < 2**31 for word in avoid):
        raise ValueError("no words to avoid")
    if one["length"] is None or (one["words"] is None) is (one["width"] is None):
        raise ValueError("neither ids nor vectors")
    return Stream(
        length=one["length"], words=one["words"], avoid=avoid, width=one["width"], causal=one["causal"] is True
    )


def read_answers(data: bytes) -> dict[str, Array]:
    """Answers by name; a ValueError where they are none."""
    said = parse_json(data)
    if not isinstance(said, dict) or not 1 <= len(said) <= 50:
        raise ValueError("no answers")
    return {str(name)[:60]: np.asarray(child.unpack_array(sent), dtype=np.float64) for name, sent in said.items()}


class DifferentModelsError(Exception):
    """The model of one process is not that of the other."""


class Questions:
    """What is asked of one model, in two processes: ``ask_together`` of the first, ``ask_alone`` of the second."""

    def __init__(self, streams: tuple[Stream, ...], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.streams, self.half = streams, streams[-1].length // 2
        self.base = [stream.draw(rng) for stream in streams]
        self.later = [rows.copy() for rows in self.base]
        self.later[-1][:, self.half :] = streams[-1].draw(rng)[:, self.half :]

    def ask_together(self, ask: Asked) -> dict[str, Answers]:
        """All examples at once, once more, and with another end."""
        return {name: ask(_copy_rows(getattr(self, rows))) for name, rows in ASKED_TOGETHER.items()}

    def ask_alone(self, ask: Asked) -> dict[str, Answers]:
        """Each example alone; and then all at once, by which the two processes are compared."""
        answers = {f"alone {i}": ask([rows[i : i + 1].copy() for rows in self.base]) for i in range(EXAMPLES)}
        return {**answers, "all": ask(_copy_rows(self.base))}

    def violations(self, answers: Mapping[str, Answers]) -> tuple[str, ...]:
        """What does not hold, one sentence for each; Differs where nothing else is found and the processes disagree."""
        broken, first = [], answers["first"]
        whole = {name: value for name, value in first.items() if value.ndim and value.shape[0] == EXAMPLES}
        if not whole:
            raise InputError("its answers have no axis for the examples")
        for name, value in whole.items():
            broken += ["the same question has two answers"] * answers_differ(value, answers["again"].get(name))
            broken += self._batch_violations(answers, name, value) + self._causality_violations(answers, name, value)
        if not any(answers_differ(value, answers["later"].get(name)) for name, value in whole.items()):
            broken.append("its answers do not hang on its input")
        certain = tuple(dict.fromkeys(one for one in broken if one != OTHER_WEIGHTS))
        if OTHER_WEIGHTS in broken and not certain:
            raise DifferentModelsError(OTHER_WEIGHTS)
        return certain

    def _batch_violations(self, answers: Mapping[str, Answers], name: str, value: Array) -> list[str]:
        alone = [answers[f"alone {i}"].get(name) for i in range(EXAMPLES)]
        if not any(answers_differ(value[i : i + 1], one) for i, one in enumerate(alone)):
            return []
        there = answers["all"].get(name)  # the same process as the examples alone
        if there is not None and not any(answers_differ(there[i : i + 1], one) for i, one in enumerate(alone)):
            return [OTHER_WEIGHTS]
        return ["an example's answer hangs on its neighbours in the batch"]

    def _causality_violations(self, answers: Mapping[str, Answers], name: str, value: Array) -> list[str]:
        stream, other = self.streams[-1], answers["later"].get(name)
        if not stream.causal or value.ndim < 2 or value.shape[1] != stream.length:
            return []
        same = (
            other is not None
            and other.shape == value.shape
            and not answers_differ(value[:, : self.half], other[:, : self.half])
        )
        return [] if same else ["a place reads later ones"]


ASKED_TOGETHER = {"first": "base", "again": "base", "later": "later"}


def _copy_rows(rows: list[Array]) -> list[Array]:
    return [one.copy() for one in rows]


def answers_differ(value: Array, other: Array | None) -> bool:
    """Whether two answers differ by more than any rounding; NaN equals NaN."""
    if other is None or value.shape != other.shape:
        return True
    if not value.size:
        return False
    with np.errstate(all="ignore"):
        largest = float(np.nanmax(np.abs(np.where(np.isfinite(value), value, 0.0))))
        apart = np.abs(value - other)
        same = (value == other) | (np.isnan(value) & np.isnan(other))
        most = float(np.where(same, 0.0, apart).max())
    return math.isnan(most) or most > FAR * max(largest, 1e-30)

"""Part of an audit, done again outside of the model's process, from the answers that it gives to questions made here.

The audit itself runs beside the student's code, which could change what it says. Three of its properties need nothing
but answers: the same question twice, an example alone and among others, and the beginning of a sentence with another
end (where the model is said not to look ahead). The questions come in an order that hangs on the secret, and a model
can lie about its answers only: one that answers all of them alike has the properties, or answers nothing that hangs on
its input, which is refused too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.coursework.answers import inside
from regard.errors import InputError

Array = NDArray[Any]
Asked = Callable[[list[Array]], Mapping[str, Array]]  # rows for every stream in, answers by name out

EXAMPLES = 3
MOST_STREAMS, LONGEST, MOST_WORDS, WIDEST = 4, 512, 50_000, 8192
FAR = 1e-3  # of the largest number: what a leak moves is seen from here on, and no rounding of float32 comes near
DONE_AGAIN = ("determinism", "batch")


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One row of tokens, as the model's process describes it: ids of so many words, or vectors of a width."""

    length: int
    words: int | None
    avoid: tuple[int, ...]
    width: int | None
    causal: bool

    def drawn(self, rng: np.random.Generator, examples: int = EXAMPLES) -> Array:
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
    avoid = tuple(int(word) for word in one["avoid"][:100])
    if one["length"] is None or (one["words"] is None) is (one["width"] is None):
        raise ValueError("neither ids nor vectors")
    return Stream(
        length=one["length"], words=one["words"], avoid=avoid, width=one["width"], causal=one["causal"] is True
    )


def read_answers(data: bytes) -> dict[str, Array]:
    """Answers by name; a ValueError where they are none."""
    said = json.loads(data)
    if not isinstance(said, dict) or not 1 <= len(said) <= 50:
        raise ValueError("no answers")
    return {str(name)[:60]: np.asarray(inside.unpacked(sent), dtype=np.float64) for name, sent in said.items()}


def broken(streams: tuple[Stream, ...], ask: Asked, *, seed: int) -> tuple[str, ...]:
    """What does not hold, a sentence each; () where all of it does, or nothing can be asked."""
    if not streams:
        return ()
    rng = np.random.default_rng(seed)
    base = [stream.drawn(rng) for stream in streams]
    later = [rows.copy() for rows in base]
    half = streams[-1].length // 2
    later[-1][:, half:] = streams[-1].drawn(rng)[:, half:]
    questions = {"first": base, "again": base, "later": later}
    questions |= {f"alone {i}": [rows[i : i + 1] for rows in base] for i in range(EXAMPLES)}
    order = rng.permutation(sorted(questions))  # nobody inside knows which is which
    answers = {name: ask([rows.copy() for rows in questions[name]]) for name in map(str, order)}
    return tuple(_compared(answers, causal=streams[-1].causal, length=streams[-1].length, half=half))


def _compared(answers: Mapping[str, Mapping[str, Array]], *, causal: bool, length: int, half: int) -> list[str]:
    found, first = [], answers["first"]
    whole = {name: value for name, value in first.items() if value.ndim and value.shape[0] == EXAMPLES}
    if not whole:
        raise InputError("its answers have no axis for the examples")
    for name, value in whole.items():
        if far(value, answers["again"].get(name)):
            found.append("the same question has two answers")
        alone = [answers[f"alone {i}"].get(name) for i in range(EXAMPLES)]
        if any(one is None or far(value[i : i + 1], one) for i, one in enumerate(alone)):
            found.append("an example's answer hangs on its neighbours in the batch")
        if causal and value.ndim > 1 and value.shape[1] == length:
            other = answers["later"].get(name)
            if other is None or far(value[:, :half], other[:, :half]):
                found.append("a place reads later ones")
    if not any(far(value, answers["later"].get(name)) for name, value in whole.items()):
        found.append("its answers do not hang on its input")
    return list(dict.fromkeys(found))


def far(value: Array, other: Array | None) -> bool:
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

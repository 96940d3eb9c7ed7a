"""Functions that one of two models takes of its output and the other does not: a softmax where scores are wanted.

Nothing is run again: if f(their answer) is my answer, f stands at my end; if f(mine) is theirs, it is missing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from regard.mistakes import reference_switches as library

Function = Callable[[Tensor], Tensor]
# by the value of the library's switch "output"
FUNCTIONS: dict[str, tuple[str, Function]] = {
    "softmax": ("a softmax over the last axis", lambda x: torch.softmax(x, -1)),
    "log softmax": ("a log-softmax over the last axis", lambda x: torch.log_softmax(x, -1)),
    "softmax over places": ("a softmax over the places", lambda x: torch.softmax(x, 1)),
    "log softmax over places": ("a log-softmax over the places", lambda x: torch.log_softmax(x, 1)),
    "softmax over the batch": ("a softmax over the batch", lambda x: torch.softmax(x, 0)),
    "softmax twice": ("two softmaxes", lambda x: torch.softmax(torch.softmax(x, -1), -1)),
    "sigmoid": ("a sigmoid", torch.sigmoid),
    "ReLU": ("a ReLU", torch.relu),
    "tanh": ("a tanh", torch.tanh),
}


def find_output_functions(mine: list[Tensor], theirs: list[Tensor], *, rounding: float) -> Iterator[str]:
    """Words for "equal if ...", of the answers of two models; ``rounding`` is how far equal answers may be apart."""
    said = {one.value: one.said for one in library.OUTPUT if one.switch == "output"}
    for value, (words, function) in FUNCTIONS.items():
        if _agree(_apply(function, theirs), mine, rounding):
            yield f"the output is left as it is, where it has {said[value]}"
        elif _agree(
            _apply(function, mine), theirs, 4 * rounding
        ):  # none of them stretches a difference more than twice
            yield f"{words} is taken of the output"


def _apply(function: Function, answers: list[Tensor]) -> list[Tensor]:
    return [function(x) for x in answers if x.ndim > 1]


def _agree(made: list[Tensor], wanted: list[Tensor], rounding: float) -> bool:
    pairs = [(x, y) for x, y in zip(made, wanted, strict=False) if x.shape == y.shape and x.numel()]
    return bool(pairs) and all(bool(((x - y).abs() <= rounding).all()) for x, y in pairs)

"""Functions that one of two models takes of its output and the other does not: a softmax where scores are wanted.

Nothing is run again: if f(their answer) is my answer, f stands at my end; if f(mine) is theirs, it is missing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from regard.mistakes.feed_forward import OUTPUT

Function = Callable[[Tensor], Tensor]
# by the name of the mistake
FUNCTIONS: dict[str, tuple[str, Function]] = {
    "output-softmax": ("a softmax over the last axis", lambda x: torch.softmax(x, -1)),
    "output-log-softmax": ("a log-softmax over the last axis", lambda x: torch.log_softmax(x, -1)),
    "output-softmax-places": ("a softmax over the places", lambda x: torch.softmax(x, 1)),
    "output-log-softmax-places": ("a log-softmax over the places", lambda x: torch.log_softmax(x, 1)),
    "output-softmax-batch": ("a softmax over the batch", lambda x: torch.softmax(x, 0)),
    "output-softmax-twice": ("two softmaxes", lambda x: torch.softmax(torch.softmax(x, -1), -1)),
    "output-sigmoid": ("a sigmoid", torch.sigmoid),
    "output-relu": ("a ReLU", torch.relu),
    "output-tanh": ("a tanh", torch.tanh),
}


def find_output_functions(mine: list[Tensor], theirs: list[Tensor], *, rounding: float) -> Iterator[str]:
    """Words for "equal if ...", of the answers of two models; ``rounding`` is how far equal answers may be apart."""
    said = {one.name: one.said for one in OUTPUT}
    for name, (words, function) in FUNCTIONS.items():
        if _agree(_apply(function, theirs), mine, rounding):
            yield f"the output is left as it is, where it has {said[name]}"
        elif _agree(
            _apply(function, mine), theirs, 4 * rounding
        ):  # none of them stretches a difference more than twice
            yield f"{words} is taken of the output"


def _apply(function: Function, answers: list[Tensor]) -> list[Tensor]:
    return [function(x) for x in answers if x.ndim > 1]


def _agree(made: list[Tensor], wanted: list[Tensor], rounding: float) -> bool:
    pairs = [(x, y) for x, y in zip(made, wanted, strict=False) if x.shape == y.shape and x.numel()]
    return bool(pairs) and all(bool(((x - y).abs() <= rounding).all()) for x, y in pairs)

"""The calls of torch that rules look for, by what they do, and what rules remember of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
LOG_SOFTMAX = (F.log_softmax, torch.log_softmax, Tensor.log_softmax)
SIGMOID = (torch.sigmoid, Tensor.sigmoid, F.sigmoid)
EXP = (torch.exp, Tensor.exp)
RELU = (F.relu, torch.relu, Tensor.relu)
PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum)
SUMS = (Tensor.add, torch.add, Tensor.__add__, Tensor.add_, Tensor.__iadd__)
DIFFERENCES = (Tensor.sub, torch.sub, Tensor.__sub__)
MINUS = (Tensor.neg, torch.neg, Tensor.__neg__)
TIMES = (Tensor.mul, torch.mul, Tensor.__mul__, Tensor.mul_, Tensor.__imul__)
QUOTIENTS = (Tensor.div, torch.div, Tensor.__truediv__, Tensor.div_, torch.true_divide, Tensor.true_divide)
FILLS = (Tensor.masked_fill, Tensor.masked_fill_, torch.masked_fill)
VIEWS = (Tensor.view, Tensor.reshape, torch.reshape)
TURNS = (Tensor.transpose, torch.transpose, Tensor.swapaxes, Tensor.mT.__get__)  # type: ignore[attr-defined]
TRIANGLES = (torch.triu, torch.tril, Tensor.triu, Tensor.tril, Tensor.triu_, Tensor.tril_)
REPEATS = (Tensor.repeat, Tensor.repeat_interleave, torch.repeat_interleave, Tensor.expand)
SPREADS = (Tensor.var, torch.var, Tensor.std, torch.std)
MEANS = (Tensor.mean, torch.mean)
EMBEDDING = (F.embedding,)
SDPA = (F.scaled_dot_product_attention,)
SCORES = (*SOFTMAX, *SDPA)
NORMS = (F.layer_norm, F.rms_norm)
NAMES: dict[Any, tuple[str, ...]] = {
    **dict.fromkeys(SDPA, ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")),
    **dict.fromkeys(SOFTMAX, ("input", "dim")),
    **dict.fromkeys(TRIANGLES, ("input", "diagonal")),
    **dict.fromkeys(REPEATS, ("input", "repeats", "dim")),
    F.layer_norm: ("input", "normalized_shape", "weight", "bias", "eps"),
    F.rms_norm: ("input", "normalized_shape", "weight", "eps"),
    F.batch_norm: ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
}


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a torch function."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, *first: Any) -> Any:
        """Make it, with other first arguments if some are given."""
        return self.func(*first, *self.args[len(first) :], **self.kwargs)

    @property
    def by_name(self) -> dict[str, Any]:
        """Its arguments by their names."""
        return {**dict(zip(NAMES[self.func], self.args, strict=False)), **self.kwargs}

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that a view or a copy is given, in one tuple or one by one."""
        rest = self.args[1:]
        return tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list, torch.Size)) else rest

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a view with the one that is left open (-1) filled in."""
        known = math.prod(n for n in self.sizes if n != -1)
        return tuple(n if n != -1 else self.args[0].numel() // max(known, 1) for n in self.sizes)

    @property
    def is_pair(self) -> bool:
        """Whether it is given two tensors of one shape, as a sum of a part and its input is."""
        two = len(self.args) == 2 and all(isinstance(a, Tensor) for a in self.args)
        return two and self.args[0].shape == self.args[1].shape

    def change(self, **given: Any) -> Any:
        """The same function with other arguments."""
        return self.func(**{**self.by_name, **given})


class Memory:
    """What a rule knows of a run; tensors are kept, so that no other one takes their place.

    ``widths``: the shapes that products of two tensors had, and the width that each summed over; a matrix of weights
    times a tensor is none of them. ``first`` holds what was seen first.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[Tensor, Any]] = {}
        self.widths: dict[tuple[int, ...], int] = {}
        self.first: dict[str, Any] = {}

    def keep(self, x: Any, about: Any = True, kind: str = "") -> Any:
        if isinstance(x, Tensor):
            self._kept[kind, id(x)] = (x, about)
        return x

    def recall(self, x: Any, kind: str = "") -> Any:
        return self._kept.get((kind, id(x)), (None, None))[1]

    def note_product(self, call: Call) -> Any:
        """Make a product, and remember its width."""
        factors, out = [a for a in call.args if isinstance(a, Tensor)], call()
        if len(factors) == 2 and out.ndim >= 3 and min(f.ndim for f in factors) >= 3:
            self.widths[tuple(out.shape)] = int(factors[0].shape[-1])
        return out

    def width(self, x: Any) -> int | None:
        """What a product of this shape summed over; None where there was none."""
        return self.widths.get(tuple(x.shape)) if isinstance(x, Tensor) else None


Rule = Callable[[Call, Memory], Any]


@dataclass(frozen=True)
class Repair:
    """words: "equal if ...". rule: what a call should have returned, or NotImplemented. calls: the functions that it
    rewrites; without any of them there is nothing to try. undoes: names of the catalogue. switch: an attribute of
    submodules that is turned instead of a rule."""

    words: str
    rule: Rule | None = None
    calls: tuple[Any, ...] = ()
    undoes: tuple[str, ...] = field(default=())
    switch: str = ""

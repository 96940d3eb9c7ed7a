"""The calls of torch that rules look for, by what they do, and what rules remember of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

Rewrite = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
Make = Callable[[], Rewrite]  # a rule that remembers something between calls is made anew for every run

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
LOG_SOFTMAX = (F.log_softmax, torch.log_softmax, Tensor.log_softmax)
SIGMOID = (torch.sigmoid, Tensor.sigmoid, F.sigmoid)
EXP = (torch.exp, Tensor.exp)
RELU = (F.relu, torch.relu, Tensor.relu)
PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum)
SUMS = (Tensor.add, torch.add, Tensor.__add__, Tensor.add_, Tensor.__iadd__)
DIFFERENCES = (Tensor.sub, torch.sub, Tensor.__sub__)
TIMES = (Tensor.mul, torch.mul, Tensor.__mul__, Tensor.mul_, Tensor.__imul__)
QUOTIENTS = (Tensor.div, torch.div, Tensor.__truediv__, Tensor.div_, torch.true_divide, Tensor.true_divide)
FILLS = (Tensor.masked_fill, Tensor.masked_fill_, torch.masked_fill)
VIEWS = (Tensor.view, Tensor.reshape, torch.reshape)
TURNS = (Tensor.transpose, torch.transpose, Tensor.swapaxes, Tensor.mT.__get__)  # type: ignore[attr-defined]
TRIANGLES = (torch.triu, torch.tril, Tensor.triu, Tensor.tril, Tensor.triu_, Tensor.tril_)
REPEATS = (Tensor.repeat, Tensor.repeat_interleave, torch.repeat_interleave, Tensor.expand)
SPREADS = (Tensor.var, torch.var, Tensor.std, torch.std)
MEANS = (Tensor.mean, torch.mean)
SDPA = (F.scaled_dot_product_attention,)
SDPA_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
NORM_NAMES = {
    F.layer_norm: ("input", "normalized_shape", "weight", "bias", "eps"),
    F.rms_norm: ("input", "normalized_shape", "weight", "eps"),
}


class Memory:
    """Tensors of a run and what is known of them; they are kept, so that no other one takes their place."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Tensor, Any]] = {}

    def keep(self, x: Any, about: Any = True) -> Any:
        if isinstance(x, Tensor):
            self._kept[id(x)] = (x, about)
        return x

    def recall(self, x: Any) -> Any:
        return self._kept.get(id(x), (None, None))[1]


class Products:
    """The shapes that products of two tensors had in a run, and the width that each summed over; a matrix of weights
    times a tensor is none of them."""

    def __init__(self) -> None:
        self.widths: dict[tuple[int, ...], int] = {}

    def note(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Make the product, and remember it."""
        factors = [a for a in args if isinstance(a, Tensor)]
        out: Tensor = func(*args, **kwargs)
        if len(factors) == 2 and out.ndim >= 3 and min(f.ndim for f in factors) >= 3:
            self.widths[tuple(out.shape)] = int(factors[0].shape[-1])
        return out

    def width(self, x: Any) -> int | None:
        """What a product of this shape summed over; None where there was none."""
        return self.widths.get(tuple(x.shape)) if isinstance(x, Tensor) else None


def arguments_by_name(names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return {**dict(zip(names, args, strict=False)), **kwargs}


def sizes(args: tuple[Any, ...]) -> tuple[int, ...]:
    """The sizes that a view is given, in one tuple or one by one."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list, torch.Size)) else tuple(args)


def full_shape(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of a view with the one that is left open (-1) filled in."""
    known = math.prod(n for n in shape if n != -1)
    return tuple(n if n != -1 else x.numel() // max(known, 1) for n in shape)


def are_same_shape(args: tuple[Any, ...]) -> bool:
    """Whether a call is given two tensors of one shape, as a sum of a part and its input is."""
    return len(args) == 2 and all(isinstance(a, Tensor) for a in args) and args[0].shape == args[1].shape

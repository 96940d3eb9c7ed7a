"""Usual mistakes of a port, each undone on the fly: is the model equal to its original if ...?

A mistake is a rule that rewrites single calls of torch functions while the model runs; the model is not edited. If the
answers agree under a rule and not without it, the rule names the mistake.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from torch.overrides import TorchFunctionMode

Rewrite = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """words: "equal if ...". rewrite: returns the call's result under the rule, or NotImplemented to leave it."""

    words: str
    rewrite: Rewrite


class Rewritten(TorchFunctionMode):
    """Runs torch functions under a rule."""

    def __init__(self, rewrite: Rewrite) -> None:
        super().__init__()
        self.rewrite = rewrite

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        made = self.rewrite(func, tuple(args), kwargs)
        return func(*args, **kwargs) if made is NotImplemented else made


@contextlib.contextmanager
def undone(mistake: Mistake) -> Iterator[None]:
    """Run what is inside with the mistake undone."""
    with Rewritten(mistake.rewrite):
        yield


def _gelu(approximate: str) -> Rewrite:
    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.gelu or kwargs.get("approximate", "none") == approximate:
            return NotImplemented
        return F.gelu(args[0], approximate=approximate)

    return rewrite


def _eps(eps: float) -> Rewrite:
    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is F.layer_norm:
            names = ("input", "normalized_shape", "weight", "bias")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            return F.layer_norm(*(given.get(n) for n in names), eps=eps)
        return NotImplemented

    return rewrite


def _repeat(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """x.repeat(1, n, 1, 1) puts the heads of a group n apart; repeat_interleave puts them side by side."""
    if func is not Tensor.repeat:
        return NotImplemented
    times = args[1] if len(args) == 2 and isinstance(args[1], (tuple, list, torch.Size)) else args[1:]
    many = [i for i, n in enumerate(times) if n > 1]
    if len(many) != 1 or len(times) != args[0].ndim:
        return NotImplemented
    return args[0].repeat_interleave(times[many[0]], dim=many[0])


def _repeat_interleave(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if func not in (Tensor.repeat_interleave, torch.repeat_interleave) or args[0].ndim != 4:
        return NotImplemented
    dim = kwargs.get("dim", args[2] if len(args) > 2 else None)
    count = kwargs.get("repeats", args[1] if len(args) > 1 else None)
    if dim is None or not isinstance(count, int):
        return NotImplemented
    times = [1] * args[0].ndim
    times[dim] = count
    return args[0].repeat(*times)


def _sdpa(**change: Any) -> Rewrite:
    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.scaled_dot_product_attention:
            return NotImplemented
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if "is_causal" in change and given.get("attn_mask") is not None:
            given["attn_mask"] = None
        return F.scaled_dot_product_attention(**{**given, **change})

    return rewrite


def _scaled_scores(factor: Callable[[int], float]) -> Rewrite:
    """Softmax of scores by hand, times a factor of the keys' width (remembered from the product before)."""
    width = [1]

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in (torch.matmul, Tensor.matmul, Tensor.__matmul__) and args[0].ndim == 4:
            width[0] = int(args[0].shape[-1])
            return NotImplemented
        if func in (F.softmax, torch.softmax, Tensor.softmax) and args[0].ndim == 4:
            return func(args[0] * factor(width[0]), *args[1:], **kwargs)
        return NotImplemented

    return rewrite


MISTAKES = (
    Mistake(words="keys and values are repeated with repeat_interleave, not with repeat", rewrite=_repeat),
    Mistake(words="keys and values are repeated with repeat, not with repeat_interleave", rewrite=_repeat_interleave),
    Mistake(words="GELU is computed exactly, not by its tanh approximation", rewrite=_gelu("none")),
    Mistake(words="GELU is computed by its tanh approximation, not exactly", rewrite=_gelu("tanh")),
    Mistake(words="the eps of layer norm is 1e-12", rewrite=_eps(1e-12)),
    Mistake(words="the eps of layer norm is 1e-5", rewrite=_eps(1e-5)),
    Mistake(words="the eps of layer norm is 1e-6", rewrite=_eps(1e-6)),
    Mistake(words="attention is causal", rewrite=_sdpa(is_causal=True)),
    Mistake(words="attention is not causal", rewrite=_sdpa(is_causal=False)),
    Mistake(words="scores are not scaled", rewrite=_sdpa(scale=1.0)),
    Mistake(words="scores are scaled by 1/sqrt(width of a head)", rewrite=_sdpa(scale=None)),
    Mistake(words="scores are scaled by 1/sqrt(width of a head)", rewrite=_scaled_scores(lambda d: 1 / math.sqrt(d))),
    Mistake(words="scores are not scaled", rewrite=_scaled_scores(math.sqrt)),
)

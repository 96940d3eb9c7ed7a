"""The feed-forward part, norms and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.mistakes.rewrites.calls import (
    MEANS,
    NORM_NAMES,
    RELU,
    SPREADS,
    SUMS,
    Make,
    Memory,
    Rewrite,
    are_same_shape,
    arguments_by_name,
)


def replace_activation(wanted: Callable[[Tensor], Tensor], *instead: Any) -> Make:
    """Another function between the two layers of a feed-forward part."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return wanted(args[0]) if func in instead and args else NotImplemented

    return lambda: rewrite


def insert_activation(wanted: Callable[[Tensor], Tensor]) -> Make:
    """An activation where a linear layer reads what another one gave."""

    def make_rule() -> Rewrite:
        given = Memory()

        def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if func is not F.linear:
                return NotImplemented
            x = wanted(args[0]) if given.recall(args[0]) else args[0]
            return given.keep(func(x, *args[1:], **kwargs))

        return rewrite

    return make_rule


def remove_outer_activation() -> Rewrite:
    """No ReLU on what goes into a sum: numbers of the width that the norms have."""
    width = 0

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal width
        if func is F.embedding:
            out = func(*args, **kwargs)
            width = width or int(out.shape[-1])
            return out
        return args[0] if func in RELU and args[0].shape[-1] == width else NotImplemented

    return rewrite


def remove_minus_sign() -> Rewrite:
    """No minus sign before the activation."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[0] if func in (Tensor.neg, torch.neg, Tensor.__neg__) and args[0].ndim == 3 else NotImplemented

    return rewrite


def set_gelu(approximate: str) -> Make:
    """GELU exactly, or by its tanh."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.gelu or kwargs.get("approximate", "none") == approximate:
            return NotImplemented
        return F.gelu(args[0], approximate=approximate)

    return lambda: rewrite


# norms


def set_eps(size: float) -> Make:
    """Another eps in every norm."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in NORM_NAMES:
            return NotImplemented
        given = arguments_by_name(NORM_NAMES[func], args, kwargs)
        return func(**{**given, "eps": size})

    return lambda: rewrite


def divide_by_n() -> Rewrite:
    """The variance of a norm written by hand divides by n; torch's std and var divide by n - 1 unless told."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SPREADS or args[0].ndim < 3:
            return NotImplemented
        rest = {k: v for k, v in kwargs.items() if k not in ("unbiased", "correction")}
        return func(*args, **rest, correction=0)

    return rewrite


def use_torch_layer_norm(size: float) -> Make:
    """A deviation to whose (n - 1) root eps is added: sqrt(variance + eps), the variance by n, as layer_norm has it.

    What is added outside is taken off here, so that it must be the same eps.
    """

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SPREADS or args[0].ndim < 3:
            return NotImplemented
        return (args[0].var(-1, correction=0, keepdim=True) + size).sqrt() - size

    return lambda: rewrite


def norm_over_width() -> Rewrite:
    """Mean and variance over the last axis, whichever they were taken over."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SPREADS + MEANS or args[0].ndim != 3:
            return NotImplemented
        rest = {k: v for k, v in kwargs.items() if k in ("unbiased", "correction")}
        if func in SPREADS and len(args) > 2 and isinstance(args[2], bool):
            rest["unbiased"] = args[2]
        return func(args[0], -1, keepdim=True, **rest)

    return rewrite


def replace_batch_norm() -> Rewrite:
    """The norm of (batch, width, length) over the width instead of the batch."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.batch_norm:
            return NotImplemented
        names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
        given = arguments_by_name(names, args, kwargs)
        x = given["input"].movedim(1, -1)
        made = F.layer_norm(x, x.shape[-1:], given.get("weight"), given.get("bias"), given.get("eps", 1e-5))
        return made.movedim(-1, 1)

    return rewrite


def set_mean_subtraction(*, subtract: bool) -> Make:
    """Layer norm where RMS norm was, or the other way round, with the same gain."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not (F.rms_norm if subtract else F.layer_norm):
            return NotImplemented
        given = arguments_by_name(NORM_NAMES[func], args, kwargs)
        x, shape, size = given["input"], given["normalized_shape"], given.get("eps")
        if subtract:
            return F.layer_norm(x, shape, given.get("weight"), None, 1e-5 if size is None else size)
        made = F.rms_norm(x, shape, given.get("weight"), 1e-5 if size is None else size)
        return made if given.get("bias") is None else made + given["bias"]

    return lambda: rewrite


# sums


def add_instead(*instead: Any) -> Make:
    """A sum of two tensors of one shape where something else was made of them."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[0] + args[1] if func in instead and are_same_shape(args) and args[0].ndim == 3 else NotImplemented

    return lambda: rewrite


def norm_once() -> Rewrite:
    """A norm of what the same norm gave is left out."""
    made = Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in NORM_NAMES:
            return NotImplemented
        gain = arguments_by_name(NORM_NAMES[func], args, kwargs).get("weight")
        owner = None if gain is None else gain.data_ptr()
        if owner is not None and made.recall(args[0]) == owner:
            return args[0]
        return made.keep(func(*args, **kwargs), owner)

    return rewrite


def add_input_once() -> Rewrite:
    """What is in a sum already is not added to it again, before its norm or after it."""
    parts = Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in NORM_NAMES:
            return parts.keep(func(*args, **kwargs), parts.recall(args[0]))
        if func not in SUMS or not are_same_shape(args):
            return NotImplemented
        for one, other in (args, args[::-1]):
            if id(other) in (parts.recall(one) or ()):
                return one
        parts.keep(args[0], parts.recall(args[0])), parts.keep(args[1], parts.recall(args[1]))
        return parts.keep(func(*args, **kwargs), (id(args[0]), id(args[1])))

    return rewrite


def norm_of_sum(*, norms_first: bool) -> Make:
    """Each norm waits for the next sum that what it was given goes into: norm(x + part), not x + norm(part).

    A norm of a sum with what a layer gave is right, and does not wait, unless all norms stand first.
    """

    def make_rule() -> Rewrite:
        waiting: dict[int, tuple[Tensor, Callable[[Tensor], Any]]] = {}
        layers, right = Memory(), Memory()

        def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if func is F.linear:
                return layers.keep(func(*args, **kwargs))
            if func in NORM_NAMES and (norms_first or not right.recall(args[0])):
                waiting[id(args[0])] = (args[0], lambda x: func(x, *args[1:], **kwargs))
                return args[0]
            if func in SUMS and are_same_shape(args):
                out = func(*args, **kwargs)
                for one in args:
                    if id(one) in waiting:
                        return waiting.pop(id(one))[1](out)
                return right.keep(out) if any(layers.recall(one) for one in args) else out
            return NotImplemented

        return rewrite

    return make_rule


def add_input() -> Rewrite:
    """norm(input + part) where the input was forgotten: the vectors of the tokens, then what the last norm gave."""
    stream, sums = Memory(), Memory()
    last: list[Tensor] = []

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is F.embedding:
            last[:] = [stream.keep(func(*args, **kwargs))]
            return last[0]
        if func in SUMS:
            out = sums.keep(func(*args, **kwargs))
            if any(stream.recall(a) for a in args) and not sums.recall(args[0]):
                last[:] = [stream.keep(out)] if len(last) == 1 else last
            return out
        if func in NORM_NAMES and last and args[0].shape == last[0].shape:
            x = args[0] if sums.recall(args[0]) else args[0] + last[0]
            last[:] = [func(x, *args[1:], **kwargs)]
            return last[0]
        return NotImplemented

    return rewrite


def add_stream() -> Rewrite:
    """x + part(norm(x)) where norm(x) + part(norm(x)) was taken: the sum is made with what the norm was given."""
    normed = Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in NORM_NAMES:
            return normed.keep(func(*args, **kwargs), args[0])
        if func in SUMS and are_same_shape(args):
            first, second = (a if normed.recall(a) is None else normed.recall(a) for a in args)
            return first + second
        return NotImplemented

    return rewrite

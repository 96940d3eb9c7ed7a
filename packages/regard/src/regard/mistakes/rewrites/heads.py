"""Heads: how keys are copied for a group of them, how they are split, and how they are merged."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.mistakes.rewrites.calls import (
    PRODUCTS,
    SDPA,
    SDPA_NAMES,
    VIEWS,
    Rewrite,
    arguments_by_name,
    full_shape,
    sizes,
)


def interleave_copies() -> Rewrite:
    """x.repeat(1, n, 1, 1) puts the heads of a group far apart; repeat_interleave puts them side by side."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is Tensor.expand:
            return _exchange_copy_axis(args, axis=1)
        if func is not Tensor.repeat or not args[0].is_floating_point():
            return NotImplemented
        return _interleave(args)

    return rewrite


def tile_copies() -> Rewrite:
    """The other way round."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is Tensor.expand:
            return _exchange_copy_axis(args, axis=2)
        if func not in (Tensor.repeat_interleave, torch.repeat_interleave) or args[0].ndim != 4:
            return NotImplemented
        return _tile(args, kwargs)

    return rewrite


def interleave_masks() -> Rewrite:
    """A mask copied for (batch x heads) rows: the copies of one example stand side by side, as its heads do."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _interleave(args) if func is Tensor.repeat and args[0].ndim == 3 else NotImplemented

    return rewrite


def _interleave(args: tuple[Any, ...]) -> Any:
    times = sizes(args[1:])
    many = [i for i, n in enumerate(times) if n > 1]
    if len(many) != 1 or len(times) != args[0].ndim:
        return NotImplemented
    return args[0].repeat_interleave(times[many[0]], dim=many[0])


def _tile(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = arguments_by_name(("input", "repeats", "dim"), args, kwargs)
    if given.get("dim") is None or not isinstance(given.get("repeats"), int):
        return NotImplemented
    times = [1] * args[0].ndim
    times[given["dim"]] = given["repeats"]
    return args[0].repeat(*times)


def _exchange_copy_axis(args: tuple[Any, ...], *, axis: int) -> Any:
    """Keys with an axis of copies before (1) or behind (2) the axis of heads: the two are exchanged."""
    x, shape = args[0], sizes(args[1:])
    if x.ndim != 5 or len(shape) != 5 or x.shape[axis] != 1 or shape[axis] <= 1:
        return NotImplemented
    return x.expand(*shape).transpose(1, 2)


def split_heads() -> Rewrite:
    """(batch, length, width) to (batch, heads, length, width of a head) by a transpose, not by a view alone."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in VIEWS or args[0].ndim != 3:
            return NotImplemented
        batch, length, width = args[0].shape
        shape = full_shape(args[0], sizes(args[1:]))
        if len(shape) != 4 or shape[0] != batch or shape[2] != length or shape[1] == length:
            return NotImplemented
        return args[0].reshape(batch, length, shape[1], width // shape[1]).transpose(1, 2)

    return rewrite


def merge_heads() -> Rewrite:
    """And back, by a transpose too, from (batch, heads, length, width) or (batch, heads, width, length)."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in VIEWS or args[0].ndim != 4:
            return NotImplemented
        shape = full_shape(args[0], sizes(args[1:]))
        if len(shape) != 3 or args[0].shape[1] == shape[1] or shape[0] != args[0].shape[0]:
            return NotImplemented
        order = {args[0].shape[3]: (0, 3, 1, 2), args[0].shape[2]: (0, 2, 1, 3)}.get(shape[1])
        return NotImplemented if order is None else args[0].permute(order).reshape(shape)

    return rewrite


def split_contiguous_heads() -> Rewrite:
    """A head is a piece of columns side by side: view(batch, length, heads, width), not (..., width, heads)."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in VIEWS or args[0].ndim != 3:
            return NotImplemented
        shape = full_shape(args[0], sizes(args[1:]))
        if len(shape) != 4 or shape[:2] != tuple(args[0].shape[:2]):
            return NotImplemented
        return args[0].reshape(*shape[:2], shape[3], shape[2]).transpose(2, 3)

    return rewrite


def merge_contiguous_heads() -> Rewrite:
    """And back: (batch, length, heads, width) is flattened, not (batch, length, width, heads)."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in VIEWS or args[0].ndim != 4:
            return NotImplemented
        shape = full_shape(args[0], sizes(args[1:]))
        if len(shape) != 3 or shape[:2] != tuple(args[0].shape[:2]):
            return NotImplemented
        return args[0].transpose(2, 3).reshape(shape)

    return rewrite


def attend_between_places() -> Rewrite:
    """Attention between places where it ran between the heads of one place: a transpose was forgotten."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in SDPA:
            given = arguments_by_name(SDPA_NAMES, args, kwargs)
            turned = {n: given[n].transpose(1, 2) for n in ("query", "key", "value")}
            return F.scaled_dot_product_attention(**{**given, **turned}).transpose(1, 2)
        if func not in PRODUCTS or len(args) != 2 or any(a.ndim != 4 for a in args):
            return NotImplemented
        first, second = args
        if first.shape[:2] == second.shape[:2]:  # queries times keys, turned already
            return first.transpose(1, 2) @ second.permute(0, 3, 2, 1)
        return (first @ second.transpose(1, 2)).transpose(1, 2)

    return rewrite

"""Masks: what they hide, by what number, and where."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.mistakes.rewrites.calls import (
    FILLS,
    PRODUCTS,
    SDPA,
    SDPA_NAMES,
    SOFTMAX,
    SUMS,
    TIMES,
    TRIANGLES,
    Make,
    Memory,
    Products,
    Rewrite,
    arguments_by_name,
)

_HIDES = -1e3  # a number from which on a filled score hides a key


def invert_mask() -> Rewrite:
    """What a mask hides and what it keeps, exchanged."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in FILLS and len(args) == 3 and _hides(args[2]) and args[1].dtype is torch.bool:
            return func(args[0], ~args[1], args[2])
        if func in SDPA:
            given = arguments_by_name(SDPA_NAMES, args, kwargs)
            if isinstance(given.get("attn_mask"), Tensor) and given["attn_mask"].dtype is torch.bool:
                return F.scaled_dot_product_attention(**{**given, "attn_mask": ~given["attn_mask"]})
        if func is torch.where and len(args) == 3:
            return torch.where(args[0], args[2], args[1]) if _hides(args[1]) or _hides(args[2]) else NotImplemented
        return NotImplemented

    return rewrite


def hide_by_infinity() -> Rewrite:
    """Minus infinity where a large negative number was filled in or added."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in FILLS and len(args) == 3 and _hides(args[2]):
            return func(args[0], args[1], -torch.inf)
        if func is torch.where and len(args) == 3:
            first, second = (_minus_infinity(a) if _hides(a) else a for a in args[1:])
            return torch.where(args[0], first, second)
        return NotImplemented

    return rewrite


def fill_with_minus_infinity() -> Rewrite:
    """Minus infinity where scores were filled with a number that hides nothing (0, 1e-9) or shows only that (+1e9)."""
    products = Products()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in PRODUCTS:
            return products.note(func, args, kwargs)
        if func in FILLS and len(args) == 3 and products.width(args[0]) is not None and not _hides(args[2]):
            return func(args[0], args[1], -torch.inf)
        return NotImplemented

    return rewrite


def move_mask_to_keys() -> Rewrite:
    """A mask of (..., queries, 1) turned to (..., 1, keys)."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in FILLS and len(args) == 3 and _stands_on_queries(args[1]):
            return func(args[0], args[1].transpose(-1, -2), args[2])
        if func in SDPA and _stands_on_queries(arguments_by_name(SDPA_NAMES, args, kwargs).get("attn_mask")):
            given = arguments_by_name(SDPA_NAMES, args, kwargs)
            return F.scaled_dot_product_attention(**{**given, "attn_mask": given["attn_mask"].transpose(-1, -2)})
        return NotImplemented

    return rewrite


def _stands_on_queries(mask: Any) -> bool:
    return isinstance(mask, Tensor) and mask.ndim >= 3 and mask.shape[-1] == 1 and mask.shape[-2] > 1


def mask_instead_of_adding(*, real: int) -> Make:
    """A mask of 0 and 1 that was added to scores hides the keys that it has another number at than ``real``."""

    def make_rule() -> Rewrite:
        products = Products()

        def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if func in PRODUCTS:
                return products.note(func, args, kwargs)
            if func in SUMS and len(args) == 2 and products.width(args[0]) is not None and _is_of_0_and_1(args[1]):
                return args[0].masked_fill(args[1] != real, -torch.inf)
            return NotImplemented

        return rewrite

    return make_rule


def mask_before_softmax() -> Rewrite:
    """Weights that were hidden after the softmax are divided by what is left of them: as if hidden before."""
    weights = Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in SOFTMAX:
            return weights.keep(func(*args, **kwargs))
        fills = func in FILLS or (func in TIMES and len(args) == 2 and _is_of_0_and_1(args[1]))
        if not fills or not weights.recall(args[0]):
            return NotImplemented
        left = func(*args, **kwargs)
        return left / left.sum(-1, keepdim=True)

    return rewrite


def _is_of_0_and_1(mask: Any) -> bool:
    return isinstance(mask, Tensor) and bool(((mask == 0) | (mask == 1)).all())


def shift_diagonal(shift: int) -> Make:
    """A triangle that begins one further up (1) or down (-1)."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in TRIANGLES:
            return NotImplemented
        given = arguments_by_name(("input", "diagonal"), args, kwargs)
        return func(given["input"], given.get("diagonal", 0) + shift)

    return lambda: rewrite


def _hides(value: Any) -> bool:
    number = value.item() if isinstance(value, Tensor) and value.ndim == 0 else value
    return isinstance(number, (int, float)) and number <= _HIDES


def _minus_infinity(value: Any) -> Any:
    return torch.full_like(value, -torch.inf) if isinstance(value, Tensor) else -torch.inf

"""Scores and weights: what is done between the product of queries and keys and that with the values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.mistakes.rewrites.calls import (
    EXP,
    LOG_SOFTMAX,
    PRODUCTS,
    QUOTIENTS,
    SDPA,
    SDPA_NAMES,
    SIGMOID,
    SOFTMAX,
    TURNS,
    Make,
    Memory,
    Products,
    Rewrite,
    arguments_by_name,
)


def change_sdpa(**change: Any) -> Make:
    """Other arguments of the fused kernel."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SDPA:
            return NotImplemented
        given = arguments_by_name(SDPA_NAMES, args, kwargs)
        if "is_causal" in change and given.get("attn_mask") is not None:
            given["attn_mask"] = None
        return F.scaled_dot_product_attention(**{**given, **change})

    return lambda: rewrite


def exchange_keys_and_values() -> Rewrite:
    """Keys and values exchanged in the fused kernel."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SDPA:
            return NotImplemented
        given = arguments_by_name(SDPA_NAMES, args, kwargs)
        given["key"], given["value"] = given["value"], given["key"]
        return F.scaled_dot_product_attention(**given)

    return rewrite


def change_scores(change: Callable[[Tensor, int], Tensor]) -> Make:
    """Scores by hand, changed before their softmax: a softmax over numbers of the shape that a product had.

    ``change`` gets the scores and the width that the product summed over.
    """

    def make_rule() -> Rewrite:
        products = Products()

        def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if func in PRODUCTS:
                return products.note(func, args, kwargs)
            if func in SOFTMAX and (width := products.width(args[0])) is not None:
                return func(change(args[0], width), *args[1:], **kwargs)
            return NotImplemented

        return rewrite

    return make_rule


def hide_later_keys(x: Tensor, width: int) -> Tensor:
    """Scores with later keys hidden."""
    ahead = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return x.masked_fill(ahead, -torch.inf)


# by how much: the factor that makes scores scaled in a wrong way right ones, of their shape and of a head's width
Factor = Callable[[tuple[int, ...], int], float]
FACTORS: dict[str, Factor] = {
    "all heads": lambda shape, d: shape[1] * math.sqrt(d),
    "sqrt of the batch": lambda shape, d: math.sqrt(shape[0] / d),
    "sqrt of the length": lambda shape, d: math.sqrt(shape[-1] / d),
    "sqrt of the heads": lambda shape, d: math.sqrt(shape[1] / d),
    "inverted": lambda shape, d: 1 / d,
    "floored": lambda shape, d: math.floor(math.sqrt(d)) / math.sqrt(d),
    "floored, all heads": lambda shape, d: math.floor(math.sqrt(shape[1] * d)) / math.sqrt(d),
    "fourth root": lambda shape, d: d**-0.25,
    "per head again": lambda shape, d: math.sqrt(shape[1]) ** -1,
}


def scale_scores(factor: Factor) -> Make:
    """Scores of batch x heads x queries x keys, by hand or in the fused kernel, times a number."""
    by_hand = change_scores(lambda x, d: x * factor(tuple(x.shape), d) if x.ndim == 4 else x)

    def make_rule() -> Rewrite:
        hand = by_hand()

        def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if func not in SDPA:
                return hand(func, args, kwargs)
            given = arguments_by_name(SDPA_NAMES, args, kwargs)
            query, keys = given["query"], given["key"]
            now = given.get("scale") or 1 / math.sqrt(query.shape[-1])
            shape = (*query.shape[:-1], keys.shape[-2])
            return F.scaled_dot_product_attention(**{**given, "scale": now * factor(shape, query.shape[-1])})

        return rewrite

    return make_rule


def scale_before_softmax() -> Rewrite:
    """A division by sqrt(d) after the softmax, made before it."""
    products = Products()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in PRODUCTS:
            return products.note(func, args, kwargs)
        if func in SOFTMAX and (width := products.width(args[0])) is not None:
            return func(args[0] / math.sqrt(width), *args[1:], **kwargs) * math.sqrt(width)
        return NotImplemented

    return rewrite


# the softmax


def softmax_over_keys() -> Rewrite:
    """Softmax over the last axis."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SOFTMAX or args[0].ndim < 3:
            return NotImplemented
        axis = arguments_by_name(("input", "dim"), args, kwargs).get("dim")
        if axis is None or axis in (-1, args[0].ndim - 1):
            return NotImplemented
        return torch.softmax(args[0], -1)

    return rewrite


def softmax_of_each_row() -> Rewrite:
    """Of scores that were flattened, each row by itself."""
    products = Products()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in PRODUCTS:
            return products.note(func, args, kwargs)
        if func not in SOFTMAX or not isinstance(args[0], Tensor):
            return NotImplemented
        for shape in products.widths:
            if math.prod(shape) == args[0].numel() and args[0].shape[-1] == shape[-1] * shape[-2]:
                return torch.softmax(args[0].reshape(shape), -1).reshape(args[0].shape)
        return NotImplemented

    return rewrite


def replace_by_softmax(*of: Any) -> Make:
    """A softmax over the keys where one of these functions was taken of the scores."""

    def make_rule() -> Rewrite:
        products = Products()

        def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if func in PRODUCTS:
                return products.note(func, args, kwargs)
            if func not in of or products.width(args[0]) is None:
                return NotImplemented
            if func in QUOTIENTS and not (isinstance(args[1], Tensor) and args[1].shape[-1:] == (1,)):
                return NotImplemented
            return torch.softmax(args[0], -1)

        return rewrite

    return make_rule


INSTEAD = {"sigmoid": SIGMOID, "not divided": EXP, "log": LOG_SOFTMAX, "no exponential": QUOTIENTS}


def insert_softmax() -> Rewrite:
    """A softmax where a product takes in what has the shape of scores, and none was taken before."""
    products = Products()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in PRODUCTS:
            return NotImplemented
        place = next((i for i, a in enumerate(args) if isinstance(a, Tensor)), 0)
        if products.width(args[place]) is not None:
            args = (*args[:place], torch.softmax(args[place], -1), *args[place + 1 :])
        return products.note(func, args, kwargs)

    return rewrite


def softmax_once() -> Rewrite:
    """A softmax of a softmax left out."""
    taken = Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SOFTMAX:
            return NotImplemented
        return args[0] if taken.recall(args[0]) else taken.keep(func(*args, **kwargs))

    return rewrite


def skip_transpose() -> Rewrite:
    """Weights meet the values as the softmax left them."""
    weights = Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in SOFTMAX:
            return weights.keep(func(*args, **kwargs))
        return args[0] if func in TURNS and weights.recall(args[0]) else NotImplemented

    return rewrite

"""Scores, weights and masks: what is done between the product of queries and keys and that with the values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.mistakes.layer import LIBRARY
from regard.mistakes.rewrites.calls import (
    EXP,
    FILLS,
    LOG_SOFTMAX,
    PRODUCTS,
    QUOTIENTS,
    SCORES,
    SDPA,
    SIGMOID,
    SOFTMAX,
    SUMS,
    TIMES,
    TRIANGLES,
    TURNS,
    Call,
    Memory,
    Repair,
    Rule,
)


def repairs_of(words: str, rules: dict[str, Rule], calls: tuple[Any, ...]) -> Iterator[Repair]:
    """A repair for each of these mistakes, in the words of the catalogue."""
    said = {one.name: one.said for one in LIBRARY}
    for name, rule in rules.items():
        yield Repair(f"{words}, where it has {said[name]}", rule, calls, (name,))


def change_sdpa(change: dict[str, Any], call: Call, seen: Memory) -> Any:
    """Other arguments of the fused kernel."""
    if call.func not in SDPA:
        return NotImplemented
    return call.change(**change, **({"attn_mask": None} if "is_causal" in change else {}))


def exchange_keys_and_values(call: Call, seen: Memory) -> Any:
    """Keys and values exchanged in the fused kernel."""
    return call.change(key=call.by_name["value"], value=call.by_name["key"]) if call.func in SDPA else NotImplemented


def change_scores(change: Callable[[Tensor, int], Tensor], call: Call, seen: Memory) -> Any:
    """Scores by hand, changed before their softmax: a softmax over numbers of the shape that a product had.

    ``change`` gets the scores and the width that the product summed over.
    """
    if call.func in SOFTMAX and (width := seen.width(call.args[0])) is not None:
        return call(change(call.args[0], width))
    return NotImplemented


def hide_later_keys(x: Tensor, width: int) -> Tensor:
    """Scores with later keys hidden."""
    ahead = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return x.masked_fill(ahead, -torch.inf)


# by how much: the factor that makes scores scaled in a wrong way right ones, of their shape and of a head's width
Factor = Callable[[tuple[int, ...], int], float]
FACTORS: dict[str, Factor] = {
    "scale-by-all-heads-linear": lambda shape, d: shape[1] * math.sqrt(d),
    "scale-by-batch": lambda shape, d: math.sqrt(shape[0] / d),
    "scale-by-length": lambda shape, d: math.sqrt(shape[-1] / d),
    "scale-by-heads": lambda shape, d: math.sqrt(shape[1] / d),
    "scale-inverted": lambda shape, d: 1 / d,
    "scale-floored": lambda shape, d: math.floor(math.sqrt(d)) / math.sqrt(d),
    "scale-floored-all-heads": lambda shape, d: math.floor(math.sqrt(shape[1] * d)) / math.sqrt(d),
    "scale-fourth-root": lambda shape, d: d**-0.25,
    "scale-by-split-head": lambda shape, d: math.sqrt(shape[1]) ** -1,
}


def scale_scores(factor: Factor, call: Call, seen: Memory) -> Any:
    """Scores of batch x heads x queries x keys, by hand or in the fused kernel, times a number."""
    if call.func not in SDPA:
        return change_scores(lambda x, d: x * factor(tuple(x.shape), d) if x.ndim == 4 else x, call, seen)
    query, keys = call.by_name["query"], call.by_name["key"]
    now = call.by_name.get("scale") or 1 / math.sqrt(query.shape[-1])
    return call.change(scale=now * factor((*query.shape[:-1], keys.shape[-2]), query.shape[-1]))


def scale_before_softmax(call: Call, seen: Memory) -> Any:
    """A division by sqrt(d) after the softmax, made before it."""
    if call.func in SOFTMAX and (width := seen.width(call.args[0])) is not None:
        return call(call.args[0] / math.sqrt(width)) * math.sqrt(width)
    return NotImplemented


def softmax_over_keys(call: Call, seen: Memory) -> Any:
    """Softmax over the last axis."""
    if call.func not in SOFTMAX or call.args[0].ndim < 3:
        return NotImplemented
    axis = call.by_name.get("dim")
    return NotImplemented if axis in (None, -1, call.args[0].ndim - 1) else torch.softmax(call.args[0], -1)


def softmax_of_each_row(call: Call, seen: Memory) -> Any:
    """Of scores that were flattened, each row by itself."""
    x: Any = call.args[0] if call.args else None
    for shape in seen.widths if call.func in SOFTMAX and isinstance(x, Tensor) else ():
        if math.prod(shape) == x.numel() and x.shape[-1] == shape[-1] * shape[-2]:
            return torch.softmax(x.reshape(shape), -1).reshape(x.shape)
    return NotImplemented


def replace_by_softmax(of: tuple[Any, ...], call: Call, seen: Memory) -> Any:
    """A softmax over the keys where one of these functions was taken of the scores."""
    if call.func not in of or seen.width(call.args[0]) is None:
        return NotImplemented
    if call.func in QUOTIENTS and not (isinstance(call.args[1], Tensor) and call.args[1].shape[-1:] == (1,)):
        return NotImplemented
    return torch.softmax(call.args[0], -1)


INSTEAD: dict[str, tuple[Any, ...]] = {
    "softmax-sigmoid": SIGMOID,
    "softmax-not-divided": EXP,
    "softmax-log": LOG_SOFTMAX,
    "softmax-no-exponential": QUOTIENTS,
}


def insert_softmax(call: Call, seen: Memory) -> Any:
    """A softmax where a product takes in what has the shape of scores, and none was taken before."""
    if call.func not in PRODUCTS:
        return NotImplemented
    place = next((i for i, a in enumerate(call.args) if isinstance(a, Tensor)), 0)
    args = list(call.args)
    if seen.width(args[place]) is not None:
        args[place] = torch.softmax(args[place], -1)
    return seen.note_product(Call(call.func, tuple(args), call.kwargs))


def softmax_once(call: Call, seen: Memory) -> Any:
    """A softmax of a softmax left out."""
    if call.func not in SOFTMAX:
        return NotImplemented
    return call.args[0] if seen.recall(call.args[0]) else seen.keep(call())


def skip_transpose(call: Call, seen: Memory) -> Any:
    """Weights meet the values as the softmax left them."""
    if call.func in SOFTMAX:
        return seen.keep(call())
    return call.args[0] if call.func in TURNS and seen.recall(call.args[0]) else NotImplemented


_SCALED = "scores are scaled by 1/sqrt(width of a head)"
_WEIGHTS = "weights are the softmax of the scores over the keys"
WEIGHTS = (
    Repair("attention is causal", partial(change_sdpa, {"is_causal": True}), SDPA),
    Repair("attention is causal", partial(change_scores, hide_later_keys), SOFTMAX),
    Repair("attention is not causal", partial(change_sdpa, {"is_causal": False}), SDPA, ("mask-hides-future",)),
    Repair("scores are not scaled", partial(change_sdpa, {"scale": 1.0}), SDPA),
    Repair(_SCALED, partial(change_scores, lambda x, d: x / math.sqrt(d)), SOFTMAX, ("scale-missing",)),
    Repair(f"{_SCALED} once less (not at all, or not twice)",
           partial(change_scores, lambda x, d: x * math.sqrt(d)), SOFTMAX, ("scale-by-width",)),
    Repair(f"{_SCALED}, not of the whole model", partial(scale_scores, lambda shape, d: math.sqrt(shape[1])), SCORES,
           ("scale-by-all-heads", "scale-by-states")),
    *repairs_of(_SCALED, {name: partial(scale_scores, f) for name, f in FACTORS.items()}, SCORES),
    Repair(_SCALED, partial(change_sdpa, {"scale": None}), SDPA, ("scale-missing",)),
    *repairs_of(_SCALED, {"scale-after-softmax": scale_before_softmax}, SOFTMAX),
    Repair("softmax runs over the keys, the last axis", softmax_over_keys, SOFTMAX,
           ("softmax-over-queries", "softmax-over-heads", "softmax-over-batch")),
    *repairs_of(_WEIGHTS, {"softmax-over-pairs": softmax_of_each_row, "softmax-twice": softmax_once}, SOFTMAX),
    *(repair for name, of in INSTEAD.items()
      for repair in repairs_of(_WEIGHTS, {name: partial(replace_by_softmax, of)}, of)),
    *repairs_of(_WEIGHTS, {"softmax-missing": insert_softmax}, PRODUCTS),
    Repair("weights are not transposed before they meet the values", skip_transpose, SOFTMAX, ("weights-turned",)),
    Repair("keys and values are exchanged", exchange_keys_and_values, SDPA),
)  # fmt: skip


# masks: what they hide, by what number, and where

_HIDES = -1e3  # a number from which on a filled score hides a key


def invert_mask(call: Call, seen: Memory) -> Any:
    """What a mask hides and what it keeps, exchanged."""
    args = call.args
    if call.func in FILLS and len(args) == 3 and _hides(args[2]) and args[1].dtype is torch.bool:
        return call.func(args[0], ~args[1], args[2])
    mask = call.by_name.get("attn_mask") if call.func in SDPA else None
    if isinstance(mask, Tensor) and mask.dtype is torch.bool:
        return call.change(attn_mask=~mask)
    if call.func is torch.where and len(args) == 3 and (_hides(args[1]) or _hides(args[2])):
        return torch.where(args[0], args[2], args[1])
    return NotImplemented


def hide_by_infinity(call: Call, seen: Memory) -> Any:
    """Minus infinity where a large negative number was filled in or added."""
    if call.func in FILLS and len(call.args) == 3 and _hides(call.args[2]):
        return call.func(*call.args[:2], -torch.inf)
    if call.func is torch.where and len(call.args) == 3:
        first, second = (_minus_infinity(a) if _hides(a) else a for a in call.args[1:])
        return torch.where(call.args[0], first, second)
    return NotImplemented


def fill_with_minus_infinity(call: Call, seen: Memory) -> Any:
    """Minus infinity where scores were filled with a number that hides nothing (0, 1e-9) or shows only that (+1e9)."""
    scores = call.func in FILLS and len(call.args) == 3 and seen.width(call.args[0]) is not None
    return call.func(*call.args[:2], -torch.inf) if scores and not _hides(call.args[2]) else NotImplemented


def move_mask_to_keys(call: Call, seen: Memory) -> Any:
    """A mask of (..., queries, 1) turned to (..., 1, keys)."""
    if call.func in FILLS and len(call.args) == 3 and _stands_on_queries(call.args[1]):
        return call(call.args[0], call.args[1].transpose(-1, -2))
    if call.func in SDPA and _stands_on_queries(call.by_name.get("attn_mask")):
        return call.change(attn_mask=call.by_name["attn_mask"].transpose(-1, -2))
    return NotImplemented


def _stands_on_queries(mask: Any) -> bool:
    return isinstance(mask, Tensor) and mask.ndim >= 3 and mask.shape[-1] == 1 and mask.shape[-2] > 1


def mask_instead_of_adding(real: int, call: Call, seen: Memory) -> Any:
    """A mask of 0 and 1 that was added to scores hides the keys that it has another number at than ``real``."""
    scores = call.func in SUMS and len(call.args) == 2 and seen.width(call.args[0]) is not None
    if not scores or not _is_of_0_and_1(call.args[1]):
        return NotImplemented
    return call.args[0].masked_fill(call.args[1] != real, -torch.inf)


def mask_before_softmax(call: Call, seen: Memory) -> Any:
    """Weights that were hidden after the softmax are divided by what is left of them: as if hidden before."""
    if call.func in SOFTMAX:
        return seen.keep(call())
    fills = call.func in FILLS or (call.func in TIMES and len(call.args) == 2 and _is_of_0_and_1(call.args[1]))
    if not fills or not seen.recall(call.args[0]):
        return NotImplemented
    left = call()
    return left / left.sum(-1, keepdim=True)


def _is_of_0_and_1(mask: Any) -> bool:
    return isinstance(mask, Tensor) and bool(((mask == 0) | (mask == 1)).all())


def shift_diagonal(shift: int, call: Call, seen: Memory) -> Any:
    """A triangle that begins one further up (1) or down (-1)."""
    if call.func not in TRIANGLES:
        return NotImplemented
    return call.func(call.by_name["input"], call.by_name.get("diagonal", 0) + shift)


def _hides(value: Any) -> bool:
    number = value.item() if isinstance(value, Tensor) and value.ndim == 0 else value
    return isinstance(number, (int, float)) and number <= _HIDES


def _minus_infinity(value: Any) -> Any:
    return torch.full_like(value, -torch.inf) if isinstance(value, Tensor) else -torch.inf


MASKS = (
    Repair("the mask is turned round: what it hides is kept, and what it keeps is hidden", invert_mask,
           (*FILLS, *SDPA, torch.where), ("mask-inverted", "mask-hides-past")),
    Repair("hidden keys get minus infinity, not a large negative number", hide_by_infinity, (*FILLS, torch.where)),
    Repair("hidden keys get minus infinity, not a number that does not hide them", fill_with_minus_infinity, FILLS,
           ("mask-fill-near-0", "mask-fill-positive")),
    Repair("the mask stands on the axis of the keys, not of the queries", move_mask_to_keys, (*FILLS, *SDPA),
           ("mask-on-queries",)),
    *repairs_of("padded keys are hidden by minus infinity",
                {"mask-added-as-numbers": partial(mask_instead_of_adding, 1),
                 "mask-added-inverted": partial(mask_instead_of_adding, 0)}, SUMS),
    Repair("scores are masked before the softmax, not weights after it", mask_before_softmax, SOFTMAX,
           ("mask-after-softmax",)),
    Repair("the triangle of the mask begins one higher", partial(shift_diagonal, 1), TRIANGLES,
           ("mask-hides-itself",)),
    Repair("the triangle of the mask begins one lower", partial(shift_diagonal, -1), TRIANGLES),
)  # fmt: skip

"""Heads: how keys are copied for a group of them, how they are split, and how they are merged.

Token vectors and positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.mistakes.rewrites.calls import (
    EMBEDDING,
    PRODUCTS,
    QUOTIENTS,
    REPEATS,
    SDPA,
    SUMS,
    TIMES,
    VIEWS,
    Call,
    Memory,
    Repair,
)


def interleave_copies(call: Call, seen: Memory) -> Any:
    """x.repeat(1, n, 1, 1) puts the heads of a group far apart; repeat_interleave puts them side by side."""
    if call.func is Tensor.expand:
        return _exchange_copy_axis(call, axis=1)
    return _interleave(call) if call.func is Tensor.repeat and call.args[0].is_floating_point() else NotImplemented


def tile_copies(call: Call, seen: Memory) -> Any:
    """The other way round."""
    if call.func is Tensor.expand:
        return _exchange_copy_axis(call, axis=2)
    if call.func not in (Tensor.repeat_interleave, torch.repeat_interleave) or call.args[0].ndim != 4:
        return NotImplemented
    given = call.by_name
    if given.get("dim") is None or not isinstance(given.get("repeats"), int):
        return NotImplemented
    times = [1] * call.args[0].ndim
    times[given["dim"]] = given["repeats"]
    return call.args[0].repeat(*times)


def interleave_masks(call: Call, seen: Memory) -> Any:
    """A mask copied for (batch x heads) rows: the copies of one example stand side by side, as its heads do."""
    return _interleave(call) if call.func is Tensor.repeat and call.args[0].ndim == 3 else NotImplemented


def _interleave(call: Call) -> Any:
    many = [i for i, n in enumerate(call.sizes) if n > 1]
    if len(many) != 1 or len(call.sizes) != call.args[0].ndim:
        return NotImplemented
    return call.args[0].repeat_interleave(call.sizes[many[0]], dim=many[0])


def _exchange_copy_axis(call: Call, *, axis: int) -> Any:
    """Keys with an axis of copies before (1) or behind (2) the axis of heads: the two are exchanged."""
    x, shape = call.args[0], call.sizes
    if x.ndim != 5 or len(shape) != 5 or x.shape[axis] != 1 or shape[axis] <= 1:
        return NotImplemented
    return x.expand(*shape).transpose(1, 2)


def split_heads(call: Call, seen: Memory) -> Any:
    """(batch, length, width) to (batch, heads, length, width of a head) by a transpose, not by a view alone."""
    if call.func not in VIEWS or call.args[0].ndim != 3:
        return NotImplemented
    (batch, length, width), shape = call.args[0].shape, call.shape
    if len(shape) != 4 or shape[0] != batch or shape[2] != length or shape[1] == length:
        return NotImplemented
    return call.args[0].reshape(batch, length, shape[1], width // shape[1]).transpose(1, 2)


def merge_heads(call: Call, seen: Memory) -> Any:
    """And back, by a transpose too, from (batch, heads, length, width) or (batch, heads, width, length)."""
    if call.func not in VIEWS or call.args[0].ndim != 4:
        return NotImplemented
    x, shape = call.args[0], call.shape
    if len(shape) != 3 or x.shape[1] == shape[1] or shape[0] != x.shape[0]:
        return NotImplemented
    order = {x.shape[3]: (0, 3, 1, 2), x.shape[2]: (0, 2, 1, 3)}.get(shape[1])
    return NotImplemented if order is None else x.permute(order).reshape(shape)


def split_contiguous_heads(call: Call, seen: Memory) -> Any:
    """A head is a piece of columns side by side: view(batch, length, heads, width), not (..., width, heads)."""
    if call.func not in VIEWS or call.args[0].ndim != 3:
        return NotImplemented
    shape = call.shape
    if len(shape) != 4 or shape[:2] != tuple(call.args[0].shape[:2]):
        return NotImplemented
    return call.args[0].reshape(*shape[:2], shape[3], shape[2]).transpose(2, 3)


def merge_contiguous_heads(call: Call, seen: Memory) -> Any:
    """And back: (batch, length, heads, width) is flattened, not (batch, length, width, heads)."""
    if call.func not in VIEWS or call.args[0].ndim != 4:
        return NotImplemented
    shape = call.shape
    if len(shape) != 3 or shape[:2] != tuple(call.args[0].shape[:2]):
        return NotImplemented
    return call.args[0].transpose(2, 3).reshape(shape)


def attend_between_places(call: Call, seen: Memory) -> Any:
    """Attention between places where it ran between the heads of one place: a transpose was forgotten."""
    if call.func in SDPA:
        return call.change(**{n: call.by_name[n].transpose(1, 2) for n in ("query", "key", "value")}).transpose(1, 2)
    if call.func not in PRODUCTS or len(call.args) != 2 or any(a.ndim != 4 for a in call.args):
        return NotImplemented
    first, second = call.args
    if first.shape[:2] == second.shape[:2]:  # queries times keys, turned already
        return first.transpose(1, 2) @ second.permute(0, 3, 2, 1)
    return (first @ second.transpose(1, 2)).transpose(1, 2)


HEADS = (
    Repair("keys and values are repeated with repeat_interleave, not with repeat", interleave_copies, REPEATS),
    Repair("keys and values are repeated with repeat, not with repeat_interleave", tile_copies, REPEATS),
    Repair("the mask is copied for the heads with repeat_interleave, not with repeat", interleave_masks,
           (Tensor.repeat,), ("mask-heads-mixed",)),
    Repair("heads are split by view(batch, length, heads, width) and transpose(1, 2)", split_heads, VIEWS,
           ("heads-not-transposed", "queries-not-transposed", "keys-not-transposed", "values-not-transposed")),
    Repair("heads are merged by transpose(1, 2) and reshape", merge_heads, VIEWS,
           ("heads-merged-without-transpose", "merge-wrong-axes")),
    Repair("a head takes columns that stand side by side, not every h-th", split_contiguous_heads, VIEWS,
           ("heads-interleaved",)),
    Repair("heads are merged head by head, not column by column", merge_contiguous_heads, VIEWS,
           ("merge-interleaved",)),
    Repair("attention runs between the places of a sentence, not between the heads of one place",
           attend_between_places, (*PRODUCTS, *SDPA), ("attention-between-heads",)),
    Repair("batch_first is turned: places and sentences are the other way round", switch="batch_first",
           undoes=("attention-between-sentences",)),
)  # fmt: skip


def count_from(first: int, call: Call, seen: Memory) -> Any:
    """Rows of a table of positions, counted from another number."""
    if call.func not in EMBEDDING or not _are_consecutive(call.args[0]) or int(call.args[0].flatten()[0]) == first:
        return NotImplemented
    return call(call.args[0] - call.args[0].flatten()[0] + first)


def read_by_place(call: Call, seen: Memory) -> Any:
    """Row t at place t from every table but the first that is read: that is the one of the tokens."""
    if call.func not in EMBEDDING:
        return NotImplemented
    if "length" not in seen.first:
        seen.first["length"] = int(call.args[0].shape[-1])
        return NotImplemented
    return call(torch.arange(seen.first["length"], device=call.args[0].device))


def first_rows(call: Call, seen: Memory) -> Any:
    """The first rows of a table that is cut or turned, in their order: table[:T], not table[-T:] or table.flip(0)."""
    x = call.args[0]
    if call.func in (Tensor.flip, torch.flip):
        return x if x.ndim == 2 else NotImplemented
    cut = call.args[1] if call.func is Tensor.__getitem__ else None
    if not (isinstance(cut, slice) and x.ndim == 2 and cut.start is not None and cut.start != 0):
        return NotImplemented
    return x[: x[cut].shape[0]]


def add_positions_once(call: Call, seen: Memory) -> Any:
    """Positions that were added already are not added again."""
    if call.func in EMBEDDING:
        return seen.keep(call(), call.args[1].data_ptr(), "rows") if _are_consecutive(call.args[0]) else call()
    if call.func not in SUMS or len(call.args) != 2:
        return NotImplemented
    tables = [seen.recall(a, "rows") for a in call.args]
    table = tables[0] or tables[1]
    if not table:
        return NotImplemented
    other = call.args[1] if tables[0] else call.args[0]
    return other if seen.recall(other, "sum") == table else seen.keep(call(), table, "sum")


def add_positions(call: Call, seen: Memory) -> Any:
    """Positions are added to token vectors, not multiplied with them."""
    if call.func in EMBEDDING:
        return seen.keep(call())
    if call.func in TIMES and len(call.args) == 2 and any(seen.recall(a) for a in call.args) and _fit(call):
        return call.args[0] + call.args[1]
    return NotImplemented


def _fit(call: Call) -> bool:
    deep = all(isinstance(a, Tensor) and a.ndim >= 2 for a in call.args)
    return call.is_pair or (deep and call.args[0].shape[-2:] == call.args[1].shape[-2:])


def scale_token_vectors(factor: Callable[[int], float], call: Call, seen: Memory) -> Any:
    """Token vectors times a number of their width."""
    if call.func not in EMBEDDING or _are_consecutive(call.args[0]):
        return NotImplemented
    out = call()
    return out * factor(int(out.shape[-1]))


def remove_scaling(call: Call, seen: Memory) -> Any:
    """Vectors of tokens (and positions) that were multiplied or divided by a number of their width are left alone."""
    x = call.args[0] if call.args else None
    if call.func not in TIMES + QUOTIENTS or len(call.args) != 2 or not isinstance(x, Tensor) or x.ndim != 3:
        return NotImplemented
    number = call.args[1].item() if isinstance(call.args[1], Tensor) and call.args[1].ndim == 0 else call.args[1]
    width = x.shape[-1]
    known = isinstance(number, (int, float)) and any(
        math.isclose(number, n, rel_tol=1e-6) for n in (width, math.sqrt(width))
    )
    return x if known else NotImplemented


def _are_consecutive(ids: Tensor) -> bool:
    """Whether ids are places: each one more than the one before."""
    return ids.ndim >= 1 and ids.shape[-1] > 1 and bool((ids[..., 1:] - ids[..., :-1] == 1).all())


POSITIONS = (
    *(Repair(f"positions are counted from {n}", partial(count_from, n), EMBEDDING,
             ("positions-from-1", "positions-last-rows")) for n in (0, 1, 2)),
    Repair("the table of positions is read by place: row t at place t of the sentence", read_by_place, EMBEDDING,
           ("positions-reversed", "positions-table-reversed", "positions-by-sentence", "positions-first",
            "positions-last", "positions-by-length", "positions-by-word")),
    Repair("the first rows of the table of positions are taken, in their order", first_rows,
           (Tensor.__getitem__, Tensor.flip, torch.flip), ("positions-last-rows", "positions-table-reversed")),
    Repair("positions are added once", add_positions_once, EMBEDDING, ("positions-twice",)),
    Repair("positions are added to the token vectors, not multiplied with them", add_positions, EMBEDDING,
           ("positions-multiplied",)),
    Repair("token vectors are multiplied by sqrt(width)", partial(scale_token_vectors, math.sqrt), EMBEDDING,
           ("embedding-shrunk",)),
    Repair("token vectors are not multiplied by sqrt(width)", partial(scale_token_vectors, lambda d: d**-0.5),
           EMBEDDING, ("embedding-scaled",)),
    Repair("the sum of token and position is not multiplied by a number of the width", remove_scaling,
           (*TIMES, *QUOTIENTS), ("embedding-sum-scaled", "embedding-shrunk", "embedding-times-width")),
)  # fmt: skip

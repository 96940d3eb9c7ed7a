"""Token vectors and positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.mistakes.rewrites.calls import EMBEDDING, QUOTIENTS, SUMS, TIMES, Call, Memory, Repair


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

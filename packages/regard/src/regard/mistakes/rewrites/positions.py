"""Token vectors and positions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard.mistakes.rewrites.calls import QUOTIENTS, SUMS, TIMES, Make, Memory, Rewrite, are_same_shape


def count_from(first: int) -> Make:
    """Rows of a table of positions, counted from another number."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.embedding or not _are_consecutive(args[0]) or int(args[0].flatten()[0]) == first:
            return NotImplemented
        return func(args[0] - args[0].flatten()[0] + first, *args[1:], **kwargs)

    return lambda: rewrite


def read_by_place() -> Rewrite:
    """Row t at place t from every table but the first that is read: that is the one of the tokens."""
    length = 0

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal length
        if func is not F.embedding:
            return NotImplemented
        if not length:
            length = int(args[0].shape[-1])
            return NotImplemented
        return func(torch.arange(length, device=args[0].device), *args[1:], **kwargs)

    return rewrite


def first_rows() -> Rewrite:
    """The first rows of a table that is cut or turned, in their order: table[:T], not table[-T:] or table.flip(0)."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is Tensor.flip or func is torch.flip:
            return args[0] if args[0].ndim == 2 else NotImplemented
        cut = args[1] if func is Tensor.__getitem__ else None
        if not (isinstance(cut, slice) and args[0].ndim == 2 and cut.start is not None and cut.start != 0):
            return NotImplemented
        return args[0][: args[0][cut].shape[0]]

    return rewrite


def add_positions_once() -> Rewrite:
    """Positions that were added already are not added again."""
    rows, sums = Memory(), Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is F.embedding:
            out = func(*args, **kwargs)
            return rows.keep(out, args[1].data_ptr()) if _are_consecutive(args[0]) else out
        if func not in SUMS or len(args) != 2:
            return NotImplemented
        table = next((rows.recall(a) for a in args if rows.recall(a)), None)
        if table is None:
            return NotImplemented
        other = args[0] if rows.recall(args[0]) is None else args[1]
        return other if sums.recall(other) == table else sums.keep(func(*args, **kwargs), table)

    return rewrite


def add_positions() -> Rewrite:
    """Positions are added to token vectors, not multiplied with them."""
    rows = Memory()

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is F.embedding:
            return rows.keep(func(*args, **kwargs))
        if func in TIMES and len(args) == 2 and any(rows.recall(a) for a in args) and _fit(args):
            return args[0] + args[1]
        return NotImplemented

    return rewrite


def _fit(args: tuple[Any, ...]) -> bool:
    return are_same_shape(args) or (
        all(isinstance(a, Tensor) and a.ndim >= 2 for a in args) and args[0].shape[-2:] == args[1].shape[-2:]
    )


def scale_token_vectors(factor: Callable[[int], float]) -> Make:
    """Token vectors times a number of their width."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.embedding or _are_consecutive(args[0]):
            return NotImplemented
        out = func(*args, **kwargs)
        return out * factor(int(out.shape[-1]))

    return lambda: rewrite


def remove_scaling() -> Rewrite:
    """Vectors of tokens (and positions) that were multiplied or divided by a number of their width are left alone."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in TIMES + QUOTIENTS or len(args) != 2 or not isinstance(args[0], Tensor) or args[0].ndim != 3:
            return NotImplemented
        number = args[1].item() if isinstance(args[1], Tensor) and args[1].ndim == 0 else args[1]
        width = args[0].shape[-1]
        known = isinstance(number, (int, float)) and any(
            math.isclose(number, n, rel_tol=1e-6) for n in (width, math.sqrt(width))
        )
        return args[0] if known else NotImplemented

    return rewrite


def _are_consecutive(ids: Tensor) -> bool:
    """Whether ids are places: each one more than the one before."""
    return ids.ndim >= 1 and ids.shape[-1] > 1 and bool((ids[..., 1:] - ids[..., :-1] == 1).all())

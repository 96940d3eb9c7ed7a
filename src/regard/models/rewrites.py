"""Rules that rewrite single calls of torch functions while a model runs: each undoes one usual mistake of a port.

A rule is a function of (function, arguments, keywords); it returns what the call should have returned, or
NotImplemented to leave the call as it is. Nothing of the model is edited. Composite functions of torch
(multi_head_attention_forward) are one call: what happens inside them is not seen.
"""

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
PRODUCTS = (torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm, torch.einsum)
FILLS = (Tensor.masked_fill, Tensor.masked_fill_, torch.masked_fill)
VIEWS = (Tensor.view, Tensor.reshape, torch.reshape)
TRIANGLES = (torch.triu, torch.tril, Tensor.triu, Tensor.tril, Tensor.triu_, Tensor.tril_)
REPEATS = (Tensor.repeat, Tensor.repeat_interleave, torch.repeat_interleave, Tensor.expand)
SDPA = (F.scaled_dot_product_attention,)
_SDPA_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
_NORM_NAMES = {
    F.layer_norm: ("input", "normalized_shape", "weight", "bias", "eps"),
    F.rms_norm: ("input", "normalized_shape", "weight", "eps"),
}
_HIDES = -1e3  # a number from which on a filled score hides a key


def named(names: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names."""
    return {**dict(zip(names, args, strict=False)), **kwargs}


def activation(wanted: Callable[[Tensor], Tensor], *instead: Any) -> Make:
    """Another function between the two layers of a feed-forward part."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return wanted(args[0]) if func in instead and args else NotImplemented

    return lambda: rewrite


def gelu(approximate: str) -> Make:
    """GELU exactly, or by its tanh."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.gelu or kwargs.get("approximate", "none") == approximate:
            return NotImplemented
        return F.gelu(args[0], approximate=approximate)

    return lambda: rewrite


def eps(size: float) -> Make:
    """Another eps in every norm."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in _NORM_NAMES:
            return NotImplemented
        given = named(_NORM_NAMES[func], args, kwargs)
        return func(**{**given, "eps": size})

    return lambda: rewrite


# keys of grouped heads


def interleaved() -> Rewrite:
    """x.repeat(1, n, 1, 1) puts the heads of a group far apart; repeat_interleave puts them side by side."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is Tensor.expand:
            return _expanded(args, axis=1)
        if func is not Tensor.repeat:
            return NotImplemented
        times = _sizes(args[1:])
        many = [i for i, n in enumerate(times) if n > 1]
        if len(many) != 1 or len(times) != args[0].ndim:
            return NotImplemented
        return args[0].repeat_interleave(times[many[0]], dim=many[0])

    return rewrite


def repeated() -> Rewrite:
    """The other way round."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is Tensor.expand:
            return _expanded(args, axis=2)
        if func not in (Tensor.repeat_interleave, torch.repeat_interleave) or args[0].ndim != 4:
            return NotImplemented
        given = named(("input", "repeats", "dim"), args, kwargs)
        if given.get("dim") is None or not isinstance(given.get("repeats"), int):
            return NotImplemented
        times = [1] * args[0].ndim
        times[given["dim"]] = given["repeats"]
        return args[0].repeat(*times)

    return rewrite


def _expanded(args: tuple[Any, ...], *, axis: int) -> Any:
    """Keys with an axis of copies before (1) or behind (2) the axis of heads: the two are exchanged."""
    x, sizes = args[0], _sizes(args[1:])
    if x.ndim != 5 or len(sizes) != 5 or x.shape[axis] != 1 or sizes[axis] <= 1:
        return NotImplemented
    return x.expand(*sizes).transpose(1, 2)


# the scores


def sdpa(**change: Any) -> Make:
    """Other arguments of the fused kernel."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SDPA:
            return NotImplemented
        given = named(_SDPA_NAMES, args, kwargs)
        if "is_causal" in change and given.get("attn_mask") is not None:
            given["attn_mask"] = None
        return F.scaled_dot_product_attention(**{**given, **change})

    return lambda: rewrite


def exchanged() -> Rewrite:
    """Keys and values exchanged in the fused kernel."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SDPA:
            return NotImplemented
        given = named(_SDPA_NAMES, args, kwargs)
        given["key"], given["value"] = given["value"], given["key"]
        return F.scaled_dot_product_attention(**given)

    return rewrite


def scores(change: Callable[[Tensor, int], Tensor]) -> Make:
    """Scores by hand, changed before their softmax: a softmax over numbers of the shape that a product had.

    ``change`` gets the scores and the width that the product summed over.
    """

    def made() -> Rewrite:
        widths: dict[tuple[int, ...], int] = {}

        def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if func in PRODUCTS:
                factors = [a for a in args if isinstance(a, Tensor)]
                out = func(*args, **kwargs)
                if len(factors) == 2 and out.ndim >= 3:
                    widths[tuple(out.shape)] = int(factors[0].shape[-1])
                return out
            if func in SOFTMAX and tuple(args[0].shape) in widths:
                return func(change(args[0], widths[tuple(args[0].shape)]), *args[1:], **kwargs)
            return NotImplemented

        return rewrite

    return made


def causal(x: Tensor, width: int) -> Tensor:
    """Scores with later keys hidden."""
    ahead = torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return x.masked_fill(ahead, -torch.inf)


def softmax_over_keys() -> Rewrite:
    """Softmax over the last axis."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in SOFTMAX or args[0].ndim < 3:
            return NotImplemented
        axis = named(("input", "dim"), args, kwargs).get("dim")
        if axis is None or axis in (-1, args[0].ndim - 1):
            return NotImplemented
        return torch.softmax(args[0], -1)

    return rewrite


# masks


def inverted() -> Rewrite:
    """What a mask hides and what it keeps, exchanged."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in FILLS and len(args) == 3 and _hides(args[2]) and args[1].dtype is torch.bool:
            return func(args[0], ~args[1], args[2])
        if func in SDPA:
            given = named(_SDPA_NAMES, args, kwargs)
            if isinstance(given.get("attn_mask"), Tensor) and given["attn_mask"].dtype is torch.bool:
                return F.scaled_dot_product_attention(**{**given, "attn_mask": ~given["attn_mask"]})
        if func is torch.where and len(args) == 3:
            return torch.where(args[0], args[2], args[1]) if _hides(args[1]) or _hides(args[2]) else NotImplemented
        return NotImplemented

    return rewrite


def hidden_by_infinity() -> Rewrite:
    """Minus infinity where a large negative number was filled in or added."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func in FILLS and len(args) == 3 and _hides(args[2]):
            return func(args[0], args[1], -torch.inf)
        if func is torch.where and len(args) == 3:
            first, second = (_infinite(a) if _hides(a) else a for a in args[1:])
            return torch.where(args[0], first, second)
        return NotImplemented

    return rewrite


def diagonal(shift: int) -> Make:
    """A triangle that begins one further up (1) or down (-1)."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in TRIANGLES:
            return NotImplemented
        given = named(("input", "diagonal"), args, kwargs)
        return func(given["input"], given.get("diagonal", 0) + shift)

    return lambda: rewrite


def _hides(value: Any) -> bool:
    number = value.item() if isinstance(value, Tensor) and value.ndim == 0 else value
    return isinstance(number, (int, float)) and number <= _HIDES


def _infinite(value: Any) -> Any:
    return torch.full_like(value, -torch.inf) if isinstance(value, Tensor) else -torch.inf


# heads


def split_heads() -> Rewrite:
    """(batch, length, width) to (batch, heads, length, width of a head) by a transpose, not by a view alone."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in VIEWS or args[0].ndim != 3:
            return NotImplemented
        batch, length, width = args[0].shape
        shape = _whole(args[0], _sizes(args[1:]))
        if len(shape) != 4 or shape[0] != batch or shape[2] != length or shape[1] == length:
            return NotImplemented
        return args[0].reshape(batch, length, shape[1], width // shape[1]).transpose(1, 2)

    return rewrite


def merged_heads() -> Rewrite:
    """And back, by a transpose too."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func not in VIEWS or args[0].ndim != 4:
            return NotImplemented
        batch, heads, length, width = args[0].shape
        shape = _whole(args[0], _sizes(args[1:]))
        if shape != (batch, length, heads * width) or heads == length:
            return NotImplemented
        return args[0].transpose(1, 2).reshape(shape)

    return rewrite


# positions and tokens


def counted_from(first: int) -> Make:
    """Rows of a table of positions, counted from another number."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.embedding or not _counts(args[0]) or int(args[0].flatten()[0]) == first:
            return NotImplemented
        return func(args[0] - args[0].flatten()[0] + first, *args[1:], **kwargs)

    return lambda: rewrite


def token_vectors(factor: Callable[[int], float]) -> Make:
    """Token vectors times a number of their width."""

    def rewrite(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is not F.embedding or _counts(args[0]):
            return NotImplemented
        out = func(*args, **kwargs)
        return out * factor(int(out.shape[-1]))

    return lambda: rewrite


def _counts(ids: Tensor) -> bool:
    """Whether ids are places: each one more than the one before."""
    return ids.ndim >= 1 and ids.shape[-1] > 1 and bool((ids[..., 1:] - ids[..., :-1] == 1).all())


def _sizes(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list, torch.Size)) else tuple(args)


def _whole(x: Tensor, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of a view with the one that is left open (-1) filled in."""
    known = math.prod(n for n in sizes if n != -1)
    return tuple(n if n != -1 else x.numel() // max(known, 1) for n in sizes)

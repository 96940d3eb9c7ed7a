"""Which matrices made a head's q, k and v, and which one its output goes through: W_Q, W_K, W_V and W_O, head by head.

Names do not tell: one model has ``q_proj``, another ``c_attn``, a third a bare parameter and an einsum. So the products
themselves are looked at. Around an attention call the last linear maps y = x W + b are remembered, and a head's queries
are searched among the columns of the y: a column that is the same on every row (up to one factor, where the model
scales its queries) is that one. Rotary positions turn q and k afterwards, but not at place 0, and they keep lengths:
there the columns are found by the first place and checked by the lengths at all others. W_O is found likewise, as the
map whose input holds the heads' outputs. What is changed in any other way (normalised queries, gated outputs) is not
found, and that is the right answer: no one matrix made it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard_models.kernels.attention_call import AttentionCall, Part, Result
from regard_models.kernels.tensor_marks import storage_address

MAPS = ("w_q", "w_k", "w_v", "w_o")
_KEPT = 24  # linear maps that are remembered: queries, keys and values are made just before they are used
_SAMPLE = 48  # rows on which columns are searched, before all rows are compared


@dataclass(frozen=True, eq=False)
class LinearMap:
    """One product y = x W + b that ran: x (rows, in), W (in, out), y (rows, out)."""

    x: Tensor
    weight: Tensor
    bias: Tensor | None
    y: Tensor
    use: tuple[int, int, int]  # of which tensor W is a view, from where on, and the how many-eth product with it


@dataclass(frozen=True, eq=False)
class HeadMap:
    """The part of a linear map that belongs to the heads of one layer.

    ``matrix`` is (heads, in, out): for W_Q, W_K, W_V from the model's width to the head's, for W_O back. ``columns``
    (heads, width) are the columns of y, or for W_O of x, that are the heads'; ``factor`` is what they are multiplied
    with afterwards. ``turned``: rotary positions come after it.
    """

    matrix: Tensor
    bias: Tensor | None
    columns: Tensor
    factor: float
    use: tuple[int, int, int] | None
    turned: bool = False


class LinearMaps:
    """The last linear maps that ran."""

    def __init__(self) -> None:
        self.last: deque[LinearMap] = deque(maxlen=_KEPT)
        self.uses: dict[tuple[int, int], int] = {}

    def new_run(self) -> None:
        self.last.clear()
        self.uses.clear()

    def take(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> LinearMap | None:
        """Remember an operator that is a linear map; None for any other one."""
        linear = linear_map(name, args, kwargs, result)
        if linear is None:
            if name in ("add", "add_"):
                self._add_bias(args, result)
            return None
        use = (storage_address(linear.weight), int(linear.weight.storage_offset()))
        # tied weights run several times: the count tells which product it was
        self.uses[use] = self.uses.get(use, -1) + 1
        linear = replace(linear, use=(*use, self.uses[use]))
        self.last.append(linear)
        return linear

    def _add_bias(self, args: tuple[Any, ...], result: Result) -> None:
        """A product and its bias may be two operators."""
        if len(args) < 2 or not all(isinstance(t, Tensor) for t in (*args[:2], result)) or args[1].dim() != 1:
            return
        for place, one in enumerate(self.last):
            fits = one.bias is None and result.shape[-1] == one.y.shape[1] == args[1].shape[0]
            if fits and storage_address(one.y) == storage_address(args[0]) and result.numel() == one.y.numel():
                self.last[place] = replace(one, bias=args[1], y=result.reshape(one.y.shape))

    def find_map(self, target: Tensor | None) -> HeadMap | None:
        """The map that made queries, keys or values (batch, heads, places, width), the latest if there are several."""
        if target is None or not target.numel():
            return None
        for turned in (False, True):  # plain first: comparing lengths says less than comparing numbers
            for one in reversed(self.last):
                match = columns_of(target, one.y, turned=turned)
                if match is not None:
                    return _head_map(one, match, turned)
        return None


def linear_map(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> LinearMap | None:
    """An operator read as y = x W + b, None where it is something else."""
    if not isinstance(result, Tensor) or not result.is_floating_point() or result.is_nested or kwargs:
        return None
    bias: Tensor | None = None
    if name == "addmm" and len(args) == 3:
        bias, x, weight = args
    elif name == "mm":
        x, weight = args
    elif name == "linear":
        x, weight, bias = args[0], args[1].mT, args[2] if len(args) > 2 else None
    elif name == "bmm" and args[0].shape[0] == 1:
        x, weight = args[0][0], args[1][0]
    else:
        return None
    if x.is_nested or weight.dim() != 2 or (bias is not None and bias.dim() != 1):
        return None
    return LinearMap(x.reshape(-1, weight.shape[0]), weight, bias, result.reshape(-1, weight.shape[1]), (0, 0, 0))


def match_output_map(output: Tensor, one: LinearMap) -> HeadMap | None:
    """The part of a map that reads the heads' outputs (batch, heads, places, width), None where it does not."""
    match = columns_of(output, one.x, turned=False)
    if match is None:
        return None
    columns, factor = match
    matrix = one.weight[columns.flatten()].double() / factor
    return HeadMap(matrix.reshape(*columns.shape, -1), one.bias, columns, factor, one.use)


def known_maps(call: AttentionCall) -> dict[str, HeadMap]:
    """The maps of an operator that does the projections itself."""
    maps = {}
    for name, (matrix, bias) in call.projections().items():
        heads, width = call.heads, matrix.shape[1] // call.heads
        columns = torch.arange(matrix.shape[1]).reshape(heads, width)
        if name == "w_o":
            maps[name] = HeadMap(matrix.T.double().reshape(heads, width, -1), bias, columns, 1.0, None)
        else:
            split = matrix.double().reshape(heads, width, -1).mT
            maps[name] = HeadMap(split, bias.reshape(heads, width).double(), columns, 1.0, None)
    return maps


def find_input_maps(call: AttentionCall, maps: LinearMaps) -> dict[str, HeadMap]:
    """W_Q, W_K and W_V of a call, as far as they can be found."""
    if known := known_maps(call):
        return known
    whole = Part(slice(0, call.batch), list(range(call.heads)), slice(0, call.queries))
    asked = {"w_q": call.queries_of(whole), "w_k": call.keys_of(whole), "w_v": call.values(whole)}
    return {name: one for name, tensor in asked.items() if (one := maps.find_map(tensor)) is not None}


def _head_map(one: LinearMap, match: tuple[Tensor, float], turned: bool) -> HeadMap:
    columns, factor = match
    matrix = one.weight[:, columns.flatten()].double() * factor
    split = matrix.reshape(-1, *columns.shape).transpose(0, 1)
    bias = None if one.bias is None else one.bias[columns].double() * factor
    return HeadMap(split, bias, columns, factor, one.use, turned)


def columns_of(target: Tensor, table: Tensor, *, turned: bool) -> tuple[Tensor, float] | None:
    """Where the heads (batch, heads, places, width) stand in a table (rows, columns): columns (heads, width), factor.

    >>> table = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    >>> heads = table[:, 3:7].reshape(1, 6, 2, 2).transpose(1, 2) / 2
    >>> nearest = columns_of(heads, table, turned=False)
    >>> nearest[0].tolist(), nearest[1]
    ([[3, 4], [5, 6]], 0.5)
    """
    batch, heads, places, width = target.shape
    if table.shape[0] != batch * places or table.shape[1] < width:
        return None
    wanted = target.transpose(1, 2).reshape(batch * places, heads * width).double()
    eps = 64 * max(torch.finfo(tensor.dtype).eps for tensor in (target, table))
    for rows in _orders(table.double(), batch, places):
        # at place 0 a rotation turns nothing
        first = torch.arange(batch) * places if turned else _sample(batch * places)
        nearest = _nearest(wanted[first], rows[first], free=not turned and len(first) > 3)
        if nearest is None:
            continue
        columns, factor = nearest
        chosen = rows[:, columns] * factor
        fits = _same_lengths if turned else _same
        if fits(wanted, chosen, width, eps):
            return columns.reshape(heads, width), factor
    return None


def _orders(table: Tensor, batch: int, places: int) -> Iterator[Tensor]:
    """The table with its rows in the order (batch, places), if that is what they are or if they are (places, batch)."""
    yield table
    if batch > 1 and places > 1:
        yield table.reshape(places, batch, -1).transpose(0, 1).reshape(table.shape)


def _sample(rows: int) -> Tensor:
    return torch.linspace(0, rows - 1, min(rows, _SAMPLE)).long()


def _nearest(wanted: Tensor, rows: Tensor, *, free: bool) -> tuple[Tensor, float] | None:
    """For every wanted column the nearest one there is, and the factor between them (1 unless it is free)."""
    sizes = rows.norm(dim=0).clamp(min=1e-300)  # a column of zeros must not win by 0/0
    if free:
        columns = ((wanted.T @ rows) / sizes).argmax(dim=1)
    else:
        # distances by way of a matrix product would lose the small ones, which decide
        columns = torch.cdist(wanted.T, rows.T, compute_mode="donot_use_mm_for_euclid_dist").argmin(dim=1)
        return columns, 1.0
    chosen = rows[:, columns]
    power = float((chosen * chosen).sum())
    if power == 0:
        return None
    return columns, float((chosen * wanted).sum()) / power


def _same(wanted: Tensor, chosen: Tensor, width: int, eps: float) -> bool:
    return bool((wanted - chosen).abs().max() <= eps * wanted.abs().max())


def _same_lengths(wanted: Tensor, chosen: Tensor, width: int, eps: float) -> bool:
    """Rotations keep the length of every head's vector."""
    old, new = (t.reshape(len(t), -1, width).norm(dim=2) for t in (chosen, wanted))
    return bool((old - new).abs().max() <= eps * old.max())

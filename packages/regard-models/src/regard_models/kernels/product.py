"""Hand-written attention: the product of weights that can be seen with values that can be seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard_models.kernels import CURVE
from regard_models.kernels.attention_call import AttentionCall, PaddedCall, Part, Result, compact, select_heads
from regard_models.kernels.tensor_marks import Mark, Marks, apply_view

# what modules call their number of heads
_COUNTS = ("num_heads", "n_heads", "num_attention_heads", "n_head", "nhead", "nheads", "heads", "head_count", "count")


@dataclass(frozen=True)
class Layout:
    """How the first axis of a batched product is made of examples and heads."""

    batch: int
    heads: int
    heads_first: bool = False

    def split(self, tensor: Tensor) -> Tensor:
        """(batch heads, ...) as (batch, heads, ...)."""
        if self.heads_first:
            return tensor.reshape(self.heads, self.batch, *tensor.shape[1:]).transpose(0, 1)
        return tensor.reshape(self.batch, self.heads, *tensor.shape[1:])

    def join(self, tensor: Tensor) -> Tensor:
        return (tensor.transpose(0, 1) if self.heads_first else tensor).flatten(0, 1)


class ProductCall(AttentionCall):
    """W V by a matrix product; the weights are the operand itself, so nothing is computed again."""

    def __init__(self, matrices: tuple[Tensor, Tensor, Tensor], mark: Mark, layout: Layout, *, turned: bool) -> None:
        super().__init__()
        self.kernel = "softmax" if mark.normal else "by hand"
        operand, values, out = matrices
        self.turned, self.layout, self.mark = turned, layout, mark
        self.w, self.v, self.out = (layout.split(_add_batch_axis(t)) for t in (operand, values, out))
        self.batch, self.heads, self.queries, self.keys = self.w.shape
        self.dtype, self.scale = operand.dtype, mark.scale
        self.before = self._weights_before_dropout(operand)
        if mark.normal and mark.curved:
            self.notes.append(CURVE)

    def _weights_before_dropout(self, operand: Tensor) -> Tensor | None:
        """The weights before dropout, in the operand's layout."""
        if self.mark.clean is None:
            return None
        return self.layout.split(_add_batch_axis(apply_view(self.mark.clean, operand)))

    def weights(self, part: Part) -> Tensor:
        return self._select_part(self.w if self.before is None else self.before, part)

    def weights_after_dropout(self, part: Part) -> Tensor | None:
        return None if self.before is None else self._select_part(self.w, part)

    def _select_part(self, tensor: Tensor, part: Part) -> Tensor:
        return select_heads(tensor, part, part.heads)[:, :, part.rows].to(self.work)

    def values(self, part: Part) -> Tensor:
        return select_heads(self.v, part, part.heads).to(self.work)

    def output(self, part: Part) -> Tensor:
        return self._select_part(self.out, part)

    def put(self, result: Result, output: Tensor) -> Result:
        whole = self.layout.join(output)
        whole = whole.mT if self.turned else whole
        return whole.to(result.dtype).reshape(result.shape)

    def probe(self, columns: slice) -> Tensor:
        """The product with an identity gives the operand back: there is nothing else that could have run."""
        eye = torch.eye(self.keys, dtype=self.dtype, device=self.w.device)[:, columns]
        source = self.w if self.before is None else self.before
        return source @ eye

    def queries_of(self, part: Part) -> Tensor | None:
        return self._operand(0, part)

    def keys_of(self, part: Part) -> Tensor | None:
        return self._operand(1, part)

    def _operand(self, which: int, part: Part) -> Tensor | None:
        if self.mark.pair is None:
            return None
        tensor = self.mark.pair[which]
        if tensor.dim() != 3 or tensor.shape[0] != self.batch * self.heads:
            return None
        whole = select_heads(self.layout.split(tensor), part, part.heads).to(self.work)
        return whole if which else whole[:, :, part.rows]

    def allowed_mask(self) -> Tensor | None:
        """The masks that were seen on the way, where they fit the weights as they stand."""
        mask = self.mark.allowed
        if mask is None or mask.is_nested or mask.dim() > 4:
            return None
        if mask.dim() == 3:
            joined = mask.shape[0] == self.batch * self.heads
            mask = self.layout.split(mask) if joined else mask[:, None]
        mask = mask[(None,) * (4 - mask.dim())]
        fits = all(have in (1, want) for have, want in zip(mask.shape, self.shape, strict=True))
        return compact(mask) if fits and not bool(mask.all()) else None


class PaddedProduct(PaddedCall):
    """Nested (jagged) tensors, example by example."""

    def put(self, result: Result, output: Tensor) -> Result:
        rows = [output[i, :, : call.queries].to(result.dtype) for i, call in enumerate(self.calls)]
        return torch.nested.as_nested_tensor(rows)


def _add_batch_axis(tensor: Tensor) -> Tensor:
    return tensor[None] if tensor.dim() == 2 else tensor


def product_call(
    name: str, args: tuple[Any, ...], result: Result, marks: Marks, surroundings: Surroundings
) -> AttentionCall | None:
    """The call, where this product multiplies marked weights with values."""
    left, right = args[1:3] if name == "baddbmm" else args[:2]
    marked = [marks.get(left), marks.get(right)]
    # Weights meet values: two marked tensors, or none, are some other product.
    if (marked[0] is None) == (marked[1] is None) or not isinstance(result, Tensor):
        return None
    turned = marked[0] is None  # (V^T W^T)^T: some write the product the other way round
    mark = marked[1] if turned else marked[0]
    # Times a parameter or a table, weights read no values.
    if mark is None or not mark.is_weight_candidate or marks.is_constant(left if turned else right):
        return None
    operand, values, out = (right.mT, left.mT, result.mT) if turned else (left, right, result)
    if result.is_nested:
        return _nested_call(operand, values, out, mark)
    if operand.dim() not in (2, 3) or values.dim() != operand.dim():
        return None
    layout = find_layout(mark, operand, marks.stack_count(values), surroundings)
    call = ProductCall((operand, values, out), mark, layout, turned=turned)
    if mark.normal or mark.product:
        return call
    return None


def summed_call(args: tuple[Any, ...], result: Result, marks: Marks, surroundings: Surroundings) -> ProductCall | None:
    """The call, where this sum over the keys ends a product that was written number by number."""
    terms = marks.terms_of(args[0]) if len(args) == 2 and isinstance(result, Tensor) else None
    axis = args[1][0] if terms is not None and len(args[1]) == 1 else None
    # A sum over anything but the keys leaves the product unfinished.
    if terms is None or axis not in (-2, args[0].dim() - 2):
        return None
    parts = (terms.weights, terms.values, result)
    operand, values, out = (t.reshape(-1, *t.shape[-2:]) for t in parts)
    mark = replace(terms.mark, shape=tuple(terms.weights.shape), clean=None)
    return ProductCall((operand, values, out), mark, find_layout(mark, operand, None, surroundings), turned=False)


def _nested_call(operand: Tensor, values: Tensor, out: Tensor, mark: Mark) -> AttentionCall:
    rows = zip(operand.unbind(), values.unbind(), out.unbind(), strict=True)
    plain = replace(mark, clean=None, allowed=None, pair=None)
    return PaddedProduct([ProductCall(r, plain, Layout(1, r[0].shape[0]), turned=False) for r in rows])


@dataclass(frozen=True)
class Surroundings:
    """What the model says about sizes: the modules around the call, innermost first, and the input's batch."""

    modules: Sequence[torch.nn.Module]
    batch: int | None

    def head_count(self, rows: int) -> int | None:
        """A number of heads that a module around names and that divides ``rows``."""
        for module in self.modules:
            for name in _COUNTS:
                count = getattr(module, name, None)
                if isinstance(count, int) and count > 1 and rows % count == 0:
                    return count
        return None


def find_layout(mark: Mark, operand: Tensor, stacks: int | None, around: Surroundings) -> Layout:
    """Examples and heads of the operand's first axis.

    A tensor with separate axes says it itself: (batch, heads, queries, keys), by convention. Where one axis holds
    both, a module's number of heads or else the input's batch decides, and examples come first unless the code has put
    the heads behind one another with ``cat``.
    """
    rows = operand.shape[0] if operand.dim() == 3 else 1
    axes = _leading_axes(mark.shape, rows)
    # Heads first, against the convention, only where the model and its input both say so.
    if len(axes) == 2 and axes[0] != around.batch == axes[1] and around.head_count(axes[0]) == axes[0]:
        return Layout(axes[1], axes[0], heads_first=True)
    if len(axes) >= 2:
        return Layout(axes[0], math.prod(axes[1:]))
    if stacks is not None and rows % stacks == 0:
        return Layout(rows // stacks, stacks, heads_first=True)
    if (count := around.head_count(rows)) is not None:
        return Layout(rows // count, count)
    if around.batch and rows % around.batch == 0:
        return Layout(around.batch, rows // around.batch)
    return Layout(rows, 1)


def _leading_axes(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """The leading axes of a tensor that became one axis of ``rows``.

    >>> _leading_axes((2, 3, 5, 7), 6), _leading_axes((6, 5, 7), 6), _leading_axes((5, 7), 1)
    ((2, 3), (6,), ())
    """
    lengths = [len(shape) - 2, *range(1, len(shape))]
    return next((shape[:n] for n in lengths if n >= 0 and math.prod(shape[:n]) == rows), (rows,))

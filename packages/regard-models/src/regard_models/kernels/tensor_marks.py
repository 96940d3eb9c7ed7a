"""Hand-written attention, recognised by following tensors: scores, what becomes of them, and who consumes them.

A mark is put on the output of a softmax, and on the product of two tensors neither of which is a parameter (scores).
It follows the numbers through operations that keep the last two axes (scaling, masks, casts, dropout, exp and division
by a sum, sigmoids), and attention is where a marked tensor is multiplied with values. Output softmaxes and routers of
mixtures are never multiplied so, and fall out by themselves.

Marks sit on storages, not on tensors: a view has the mark of what it views, and autograd may put another tensor
object around the same numbers at any time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from regard_models.kernels.attention_call import Result

Weak = Any  # torch's StorageWeakRef, which has no types
SOFTMAX = {"_softmax", "_safe_softmax", "_masked_softmax", "softmax"}
PRODUCTS = {"bmm", "mm", "baddbmm", "matmul"}
_CURVED = {"sigmoid", "exp", "exp2", "expm1", "relu", "tanh", "silu", "gelu", "pow", "square", "abs", "clamp",
           "clamp_min", "threshold", "leaky_relu", "elu", "softplus", "hardtanh", "hardsigmoid", "erf"}  # fmt: skip
_FORBIDDEN = -1e4  # what is added to a score to forbid it is at most this


@dataclass(frozen=True)
class Mark:
    """What is known of numbers on their way from scores to weights."""

    shape: tuple[int, ...]  # of the tensor whose storage it is
    normal: bool = False  # went through a softmax
    curved: bool = False  # went through something that is not linear
    masked: bool = False
    product: bool = True  # began as a product of two activations
    clean: Tensor | None = None  # the weights before dropout, where there was dropout
    allowed: Tensor | None = None
    scale: float | None = None
    pair: tuple[Tensor, Tensor] | None = None  # q (n, queries, width) and k (n, keys, width), where asked for

    @property
    def is_weight_candidate(self) -> bool:
        """Whether these can be weights: plain scores times something are a linear map (linear attention's state)."""
        return self.normal or self.curved or self.masked


@dataclass(frozen=True)
class Terms:
    """Weights times values, number by number and not added up yet: (..., queries, keys, width)."""

    weights: Tensor  # (..., queries, keys)
    values: Tensor  # (..., keys, width)
    mark: Mark


class Marks:
    """Marks by storage, forgotten with it."""

    def __init__(self, model: nn.Module, *, keep_pairs: bool = False) -> None:
        self.table: dict[int, tuple[Weak, Mark]] = {}
        self.noise: dict[int, Weak] = {}
        self.stacked: dict[int, tuple[Weak, int]] = {}
        self.terms: dict[int, tuple[Weak, Terms]] = {}
        self.constants = {storage_address(tensor) for tensor in _own_tensors(model)}
        self.copies: dict[int, Weak] = {}  # of constants, cast to another type: gone soon, and their places taken
        self.keep_pairs = keep_pairs

    def get(self, tensor: Any) -> Mark | None:
        if not isinstance(tensor, Tensor) or not self.table:
            return None
        entry = self.table.get(storage_address(tensor))
        return entry[1] if entry is not None and not entry[0].expired() else None

    def set(self, tensor: Tensor, mark: Mark) -> None:
        if len(self.table) > 512:
            self.table = {key: entry for key, entry in self.table.items() if not entry[0].expired()}
        self.table[storage_address(tensor)] = (weak_reference(tensor), mark)

    def is_constant(self, tensor: Tensor) -> bool:
        address = storage_address(tensor)
        copy = self.copies.get(address)
        return address in self.constants or (copy is not None and not copy.expired())

    def stack_count(self, tensor: Tensor) -> int | None:
        """How many equal pieces were put behind one another along the first axis to make this tensor."""
        entry = self.stacked.get(storage_address(tensor))
        return entry[1] if entry is not None and not entry[0].expired() else None

    def terms_of(self, tensor: Tensor) -> Terms | None:
        """The terms that a sum over this tensor's keys adds up."""
        entry = self.terms.pop(storage_address(tensor), None) if self.terms else None
        return entry[1] if entry is not None and not entry[0].expired() else None

    def follow(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> None:
        """Pass marks on from an operator's arguments to its result."""
        out = result[0] if isinstance(result, (tuple, list)) and result else result
        if not isinstance(out, Tensor) or not out.is_floating_point():
            return
        if name in SOFTMAX:
            before = self.get(args[0])
            old = before or Mark(shape=(), product=False)
            if not out.is_nested and out.dim() < 2:
                return
            self.set(out, replace(old, shape=_shape(out), normal=True, clean=None))
        elif name in PRODUCTS:
            self._product(name, args, out)
        elif name == "bernoulli_":
            self.noise[storage_address(out)] = weak_reference(out)
        elif name == "cat":
            self._cat(args, kwargs, out)
        elif self.table:
            self._pass_on(name, args, kwargs, out)
        if name in ("_to_copy", "to", "clone") and self.is_constant(args[0]):
            self.copies[storage_address(out)] = weak_reference(out)

    def _product(self, name: str, args: tuple[Any, ...], out: Tensor) -> None:
        left, right = args[1:3] if name == "baddbmm" else args[:2]
        marks = [mark for mark in map(self.get, (left, right)) if mark is not None]
        if len(marks) == 2:  # weights of weights: still weights
            self.set(out, replace(marks[0], shape=_shape(out), clean=None, pair=None, allowed=None))
        elif not marks and not self.is_constant(left) and not self.is_constant(right) and out.dim() >= 2:
            pair = (left, right.mT) if self.keep_pairs and out.dim() == 3 else None
            scale = 1.0 if name != "baddbmm" else None
            self.set(out, Mark(shape=_shape(out), scale=scale, pair=pair))

    def _cat(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        """Scores with a sink behind them stay scores; pieces along the first axis are heads behind one another."""
        pieces, axis = args[0], args[1] if len(args) > 1 else kwargs.get("dim", 0)
        marks = [mark for mark in map(self.get, pieces) if mark is not None]
        if marks:
            self.set(out, replace(marks[0], shape=_shape(out), clean=None))
        elif axis == 0 and out.dim() == 3 and len({piece.shape for piece in pieces}) == 1:
            self.stacked[storage_address(out)] = (weak_reference(out), len(pieces))

    def _pass_on(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor) -> None:
        for tensor in _tensors(args):
            mark = self.get(tensor)
            if mark is None:
                continue
            if storage_address(tensor) == storage_address(out) and not name.endswith("_"):
                self._mark_view(mark, out)
                return
            if name == "mul" and (terms := _terms(tensor, mark, args, out)) is not None:
                self.terms[storage_address(out)] = (weak_reference(out), terms)
                return
            if _same_matrix(tensor, out):
                change = {
                    "clean": _carry_clean_weights(mark.clean, tensor, out),
                    **self._step(name, tensor, mark, args, out),
                }
                self.set(out, replace(mark, shape=_shape(out), **change))
                return

    def _mark_view(self, mark: Mark, out: Tensor) -> None:
        """A view has its storage's mark; one that takes axes apart says more about them."""
        apart = not out.is_nested and out.dim() > len(mark.shape) > 0 and out.is_contiguous()
        if apart and out.numel() == math.prod(mark.shape):
            self.set(out, replace(mark, shape=_shape(out)))

    def _step(self, name: str, tensor: Tensor, mark: Mark, args: tuple[Any, ...], out: Tensor) -> dict[str, Any]:
        """What an operation changes in a mark."""
        others = [t for t in args if isinstance(t, Tensor) and t is not tensor]
        if name in ("native_dropout", "dropout") or (name == "mul" and any(map(self._is_noise, others))):
            return {"clean": _match_layout(tensor, out) if mark.clean is None else mark.clean}
        if name.rstrip("_") in _CURVED:
            return {"curved": True, "scale": mark.scale if name.startswith("tanh") else None}
        if name in ("masked_fill", "masked_fill_", "where", "tril", "tril_", "triu"):
            return {"masked": True, "allowed": _update_allowed(name, tensor, args, mark.allowed)}
        if name in ("add", "add_") and not mark.normal:
            return _addition_changes(mark, tensor, others)
        if name in ("mul", "mul_", "div", "div_") and not mark.normal:
            return _scaling_changes(name, mark, tensor, args)
        return {}

    def _is_noise(self, tensor: Tensor) -> bool:
        ref = self.noise.get(storage_address(tensor))
        return ref is not None and not ref.expired()


def _terms(tensor: Tensor, mark: Mark, args: tuple[Any, ...], out: Tensor) -> Terms | None:
    """Weights (..., queries, keys, 1) times values (..., 1, keys, width)."""
    other = next((a for a in args[:2] if isinstance(a, Tensor) and a is not tensor), None)
    if other is None or not mark.is_weight_candidate or out.dim() < 3 or not tensor.dim() == other.dim() == out.dim():
        return None
    if tensor.shape[-1] != 1 or other.shape[-3] != 1 or out.shape[:-1] != tensor.shape[:-1]:
        return None
    lead = (*out.shape[:-3], *other.shape[-2:])
    return Terms(tensor[..., 0], other.squeeze(-3).expand(lead), mark)


def _match_layout(tensor: Tensor, out: Tensor) -> Tensor:
    """The same numbers with the memory layout of ``out``: then a view of ``out`` is also a view of these."""
    if tensor.stride() == out.stride() or tensor.shape != out.shape:
        return tensor
    return torch.empty_strided(out.shape, out.stride(), dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def apply_view(clean: Tensor, view: Tensor) -> Tensor:
    """The part of ``clean`` that a view of the dropped weights shows, in the view's shape."""
    return clean.as_strided(view.shape, view.stride(), clean.storage_offset() + view.storage_offset())


def _carry_clean_weights(clean: Tensor | None, view: Tensor, out: Tensor) -> Tensor | None:
    """The weights before dropout after an operation that made ``out`` from a view of those after it."""
    return None if clean is None or view.shape != out.shape else _match_layout(apply_view(clean, view), out)


def _addition_changes(mark: Mark, tensor: Tensor, others: list[Tensor]) -> dict[str, Any]:
    """A mask of very low numbers forbids; any other tensor is a bias, and the scores stay scores."""
    mask = others[0] if others else None
    if mask is None or mask.is_nested or not mask.is_floating_point() or mask.numel() == 0:
        return {}
    if not bool((mask <= _FORBIDDEN).any()):
        return {}
    return {"masked": True, "allowed": _combine_masks(mark.allowed, mask > _FORBIDDEN)}


def _scaling_changes(name: str, mark: Mark, tensor: Tensor, args: tuple[Any, ...]) -> dict[str, Any]:
    other = next((a for a in args[:2] if a is not tensor), None)
    if isinstance(other, Tensor) and other.numel() > 1:
        matrix = other.dim() >= 2 and other.shape[-1] == tensor.shape[-1] and other.shape[-2] == tensor.shape[-2]
        return {"scale": None, "masked": mark.masked or matrix}
    if mark.scale is None or other is None or mark.curved:
        return {}
    factor = float(other)
    return {"scale": mark.scale * factor if name.startswith("mul") else mark.scale / factor if factor else None}


def _update_allowed(name: str, tensor: Tensor, args: tuple[Any, ...], before: Tensor | None) -> Tensor | None:
    if name.startswith("masked_fill"):
        value = float(args[2]) if not isinstance(args[2], Tensor) or args[2].numel() == 1 else 0.0
        return _combine_masks(before, ~args[1]) if value <= _FORBIDDEN else before
    if name == "where" and args[1] is tensor:
        other = args[2]
        low = float(other) if not isinstance(other, Tensor) else float(other.max()) if other.numel() else 0.0
        return _combine_masks(before, args[0]) if low <= _FORBIDDEN else before
    return before


def _combine_masks(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


def _same_matrix(tensor: Tensor, out: Tensor) -> bool:
    """Whether a result still has the argument's last two axes (in any order) or all of its numbers."""
    if tensor.is_nested or out.is_nested:
        return tensor.is_nested and out.is_nested
    if tensor.numel() == out.numel():
        return True
    return tensor.dim() >= 2 and out.numel() > tensor.numel() and out.shape[-2:] == tensor.shape[-2:]


def _tensors(args: Iterable[Any]) -> Iterator[Tensor]:
    return (value for value in args if isinstance(value, Tensor))


def _shape(tensor: Tensor) -> tuple[int, ...]:
    return () if tensor.is_nested else tuple(tensor.shape)


def weak_reference(tensor: Tensor) -> Weak:
    """A reference to a tensor's storage that does not keep it alive; ``expired()`` says whether it is gone."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def storage_address(tensor: Tensor) -> int:
    """What tells a storage from all others that are alive."""
    return int(tensor.untyped_storage()._cdata)


def _own_tensors(model: nn.Module) -> Iterator[Tensor]:
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.layout == torch.strided and type(tensor) in (Tensor, nn.Parameter, torch.nn.Buffer):
            yield tensor


# Which results were edited: a capture inside an edit must not blame the kernel for them.

_LOCAL = threading.local()


def remember_edit(tensor: Tensor) -> None:
    alive = {key: ref for key, ref in getattr(_LOCAL, "edited", {}).items() if not ref.expired()}
    _LOCAL.edited = alive | {storage_address(tensor): weak_reference(tensor)}


def was_edited(tensor: Tensor) -> bool:
    """Whether an edit that is going on made this result."""
    ref = getattr(_LOCAL, "edited", {}).get(storage_address(tensor))
    return ref is not None and not ref.expired()

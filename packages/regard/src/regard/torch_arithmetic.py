"""The arithmetic of a torch computation, changed from below: all of it in float64, or every rounding disturbed.

Properties that hold in exact arithmetic hold in floats up to rounding, and the question is how much that is. Two
answers, both without editing the model, by a mode that sees every operation:

* **widened**: casts from float64 to something narrower are ignored and float64 wins wherever types mix, so that a
  float64 copy of a module stays in float64 though its code says ``.float()`` in between. A leak of 1e-10 is then seen
  in a float32 and in a bfloat16 model alike, where in bfloat16 itself not even 1e-2 is.
* **jittered**: every operation that rounds has its result multiplied by 1 or by 1 - eps, at random. What moves, and
  how far, is what rounding can do to this model on this input (Monte-Carlo arithmetic, after Parker, 1997). One-sided,
  so that the most negative float, which masks are made of, does not overflow.

It is an estimate and no bound: tolerances are :data:`FACTOR` times the movement seen. Healthy models were seen to
need 2, one of them 10.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

FACTOR = 50.0  # tolerance in units of the movement under jitter
_WINDOW = 2**20  # numbers that are disturbed at once: the factors of all logits would take more room than they do
_NARROW = (torch.float32, torch.bfloat16, torch.float16)

# Operations that move, choose or compare numbers: nothing is rounded, so nothing is disturbed.
_EXACT_NAMES = """
_to_copy clone copy cat stack index index_select gather embedding where masked_fill constant_pad_nd repeat tril triu max
min amax amin topk sort relu neg abs sign roll flip index_put scatter slice_scatter select_scatter arange full full_like
zeros zeros_like ones ones_like empty empty_like new_zeros new_ones new_full new_empty empty_strided new_empty_strided
scalar_tensor lift_fresh_copy eye linspace native_dropout bernoulli rand randn rand_like randn_like randint floor ceil
round trunc clamp clamp_min clamp_max hardtanh threshold repeat_interleave unfold_copy masked_select take fill
_unsafe_index pixel_shuffle
"""
_EXACT = frozenset(_EXACT_NAMES.split())


class Arithmetic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode under which float64 stays float64 (``widen``) and roundings are disturbed (``jitter``, by this seed).

    ``unit`` is the type whose precision the disturbances have: by default each number's own.
    """

    supports_higher_order_operators = True

    def __init__(self, *, widen: bool = False, jitter: int | None = None, unit: torch.dtype | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.widen = widen
        self.generator = None if jitter is None else torch.Generator().manual_seed(jitter)
        self.noise: dict[torch.dtype, Tensor] = {}
        self.unit = unit

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if self.widen:
            args, kwargs = _widen_arguments(func, args, kwargs)
        out = _run(func, args, kwargs) if self.widen else func(*args, **kwargs)
        if self.generator is not None and rounds(func):
            tree_map(self._disturb, out)
        return out

    def _disturb(self, value: Any) -> Any:
        if type(value) is not Tensor or not value.is_floating_point() or not value.numel():
            return value
        if value.is_nested:  # rows of several lengths, as torch's fused encoder makes them beside padding
            for part in value.unbind():
                self._disturb(part)
            return value
        for part in torch.split(value.view(-1), _WINDOW) if value.is_contiguous() else [value]:
            factors = self._disturbances(part).view(part.shape)
            # A whole number came out exact in all but freak cases, and is a count: 8 / 4 must not be floored to 1.
            part.mul_(torch.where(part == part.round(), 1.0, factors))  # what is infinite stays so
        return value

    def _disturbances(self, value: Tensor) -> Tensor:
        """As many factors as the value has numbers, 1 or 1 - eps each: a window, put at random, of a long row."""
        count = value.numel()
        row = self.noise.get(value.dtype)
        # drawing random numbers for every operation would cost more than the operation
        if row is None or len(row) < 2 * count:
            signs = torch.randint(0, 2, (max(2 * count, 4096),), generator=self.generator, dtype=torch.int8)
            row = signs.to(value.dtype).mul_(-torch.finfo(self.unit or value.dtype).eps).add_(1).to(value.device)
            self.noise[value.dtype] = row
        first = int(torch.randint(0, len(row) - count + 1, (), generator=self.generator))
        return row[first : first + count]


@contextlib.contextmanager
def arithmetic(*, widen: bool = False, jitter: int | None = None, unit: torch.dtype | None = None) -> Iterator[None]:
    """Run what is inside in the changed arithmetic; where it widens, new tensors are float64 unless told otherwise."""
    before = torch.get_default_dtype()
    if widen:
        torch.set_default_dtype(torch.float64)
    changed = widen or jitter is not None
    try:
        with Arithmetic(widen=widen, jitter=jitter, unit=unit) if changed else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(before)


def rounds(func: Any) -> bool:
    """Whether an operation makes new numbers that carry a rounding: views and what only moves numbers do not."""
    schema = getattr(func, "_schema", None)
    if schema is None or any(r.alias_info is not None for r in schema.returns):
        return False
    return schema.name.partition("::")[2] not in _EXACT


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if func is torch.ops.aten._grouped_mm.default:  # no float64 kernel
        return _grouped_matmul(*args, **kwargs)
    return func(*args, **kwargs)


def _widen_arguments(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments with narrower floats turned into float64 where float64 is among them, or where one is made."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return args, kwargs
    tensors = [t for t in _flat_tensors(args) + _flat_tensors(kwargs) if t.is_floating_point()]
    wide = any(t.dtype is torch.float64 for t in tensors)
    if kwargs.get("dtype") in _NARROW and (wide or not tensors):
        kwargs["dtype"] = torch.float64
    if not wide or all(t.dtype is torch.float64 for t in tensors):
        return args, kwargs
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if written:  # what is written to keeps its type
        return args, kwargs
    return tree_map(_to_float64, (args, kwargs))  # type: ignore[no-any-return]


def _to_float64(value: Any) -> Any:
    return value.to(torch.float64) if isinstance(value, Tensor) and value.dtype in _NARROW else value


def _flat_tensors(values: Any) -> list[Tensor]:
    """The tensors among arguments, in lists too; quicker than a general walk, and it runs at every operation."""
    tensors = []
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, (list, tuple)):
            tensors += [v for v in value if isinstance(v, Tensor)]
    return tensors


def _grouped_matmul(
    a: Tensor, b: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, **rest: Any
) -> Tensor:
    """A matrix product for every group, as torch._grouped_mm has it: ``offs`` are the ends of the groups of rows of
    ``a`` (by 3-D ``b``), of columns of ``b`` (by 3-D ``a``), or of what is summed over (2-D both)."""
    if offs is None:
        return a @ b if bias is None else a @ b + bias
    ends = offs.tolist()
    groups = list(enumerate(zip([0, *ends[:-1]], ends, strict=True)))
    if a.ndim == 2 and b.ndim == 2:
        return torch.stack([a[:, start:end] @ b[start:end] for _, (start, end) in groups])
    if a.ndim == 3:
        out = a.new_zeros((a.shape[1], b.shape[1]))
        for group, (start, end) in groups:
            out[:, start:end] = a[group] @ b[:, start:end]
        return out
    out = a.new_zeros((a.shape[0], b.shape[2]))
    for group, (start, end) in groups:
        out[start:end] = a[start:end] @ b[group] if bias is None else a[start:end] @ b[group] + bias[group]
    return out

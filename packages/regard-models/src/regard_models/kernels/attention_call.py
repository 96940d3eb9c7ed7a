"""One attention call, seen from the dispatcher: what capturing and editing ask of every kernel."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Result = Any  # what an operator returned: a tensor, or a tuple that begins with one


@dataclass(frozen=True)
class Part:
    """A block of the weights: some examples, some heads, some queries; always all keys."""

    examples: slice
    heads: list[int]
    rows: slice


class AttentionCall(ABC):
    """softmax(scores) V of one layer, however it was computed.

    Tensors that come out have the axes batch, heads, then queries or keys; there are as many heads as there are
    queries' heads, also where groups of them share keys. Numbers are in :attr:`work`, the type in which weights are
    recomputed: float64 for a float64 kernel, float32 otherwise.
    """

    kernel: str
    batch: int
    heads: int
    queries: int
    keys: int
    dtype: torch.dtype
    scale: float | None = None  # scores = scale q k^T (+ mask), where that is known
    fresh: bool = False  # weights are computed anew: nobody else holds them
    dropped: bool = False  # the kernel dropped weights where nobody can see it: W V is not the output

    def __init__(self) -> None:
        self.notes: list[str] = []

    @property
    def work(self) -> torch.dtype:
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.queries, self.keys

    @abstractmethod
    def weights(self, part: Part) -> Tensor:
        """The weights before dropout."""

    def weights_after_dropout(self, part: Part) -> Tensor | None:
        """The weights after dropout, None where nothing was dropped."""
        return None

    @abstractmethod
    def values(self, part: Part) -> Tensor:
        """V (batch, heads, keys, width), for the part's examples and heads."""

    @abstractmethod
    def output(self, part: Part) -> Tensor:
        """What the kernel gave for the part: W V (batch, heads, rows, width)."""

    @abstractmethod
    def put(self, result: Result, output: Tensor) -> Result:
        """The operator's result for other outputs (batch, heads, queries, width); ``result`` itself is left alone."""

    @abstractmethod
    def probe(self, columns: slice) -> Tensor:
        """These columns of the weights, all examples, heads and queries, by running the kernel on an identity."""

    @property
    def probe_width(self) -> int:
        """How many columns of an identity the kernel takes at once."""
        return self.keys

    def allowed_mask(self) -> Tensor | None:
        """True where a query may read a key; broadcasts against the weights. None: everywhere, or not known."""
        return None

    def queries_of(self, part: Part) -> Tensor | None:
        """q (batch, heads, rows, width), where the kernel shows it."""
        return None

    def keys_of(self, part: Part) -> Tensor | None:
        """k (batch, heads, keys, width), where the kernel shows it."""
        return None

    def projections(self) -> dict[str, tuple[Tensor, Tensor]]:
        """w_q, w_k, w_v and w_o (out, in) with their biases, where the operator does the projections itself."""
        return {}

    def error(self, weights: Tensor, part: Part) -> float:
        """max |W V - output| of a part, given the weights that multiplied V."""
        off = weights @ self.values(part) - self.output(part)
        return float(off.abs().max()) if off.numel() else 0.0

    def size(self) -> float:
        """max |output|."""
        whole = self.output(self.whole)
        return float(whole.abs().max()) if whole.numel() else 0.0

    def tolerance(self) -> float:
        """What rounding explains of error / size: an estimate, not a bound."""
        values = self.values(self.whole)
        spread = float(values.abs().max()) if values.numel() else 0.0
        return self.rounding(math.sqrt(self.keys)) * max(1.0, spread / max(self.size(), 1e-300))

    def rounding(self, more: float = 0.0) -> float:
        """Relative rounding of weights, and of ``more`` additions: eight times what is likely.

        A score of q and k errs by about u sqrt(d) |q| |k| scale, a weight relatively by as much again and by a few u,
        where u is the unit roundoff of float32 also in kernels of half precision, which round only the weights and
        what comes out to their own type.
        """
        wide, narrow = (torch.finfo(dtype).eps / 2 for dtype in (self.work, self.dtype))
        return 8 * (wide * (2 * self.score_error() + more + 4) + (narrow if narrow > wide else 0.0))

    def score_error(self) -> float:
        """Rounding of the scores in units of u, where they are computed a second time; 0 where they are not."""
        return 0.0

    @property
    def whole(self) -> Part:
        return Part(slice(0, self.batch), list(range(self.heads)), slice(0, self.queries))


def first_tensor(result: Result) -> Tensor:
    """The attention output among what an operator returned."""
    tensor: Tensor = result[0] if isinstance(result, (tuple, list)) else result
    return tensor


def with_first(result: Result, tensor: Tensor) -> Result:
    """``result`` with another attention output in it."""
    return type(result)((tensor, *result[1:])) if isinstance(result, (tuple, list)) else tensor


def select_heads(tensor: Tensor, part: Part, heads: list[int]) -> Tensor:
    """Examples and heads of a tensor that has these axes first: a view where the heads stand together."""
    together = heads == list(range(heads[0], heads[-1] + 1)) if heads else False
    return tensor[part.examples, slice(heads[0], heads[-1] + 1) if together else heads]


def identity(shape: tuple[int, ...], columns: slice, like: Tensor) -> Tensor:
    """Values (..., keys, width) whose rows are the given columns of the identity, zero beyond them."""
    eye = torch.zeros(shape[-2:], dtype=like.dtype, device=like.device)
    for place, key in enumerate(range(columns.start, columns.stop)):
        eye[key, place] = 1
    return eye.expand(shape).contiguous()


def shared_heads(heads: list[int], of: int, kept: int) -> list[int]:
    """Which of ``kept`` key heads each of the queries' heads (``of`` of them in all) reads: groups stand together.

    >>> shared_heads([0, 3, 5], of=6, kept=2)
    [0, 1, 1]
    """
    return [head // (of // kept) for head in heads]


def compact(mask: Tensor) -> Tensor:
    """A mask with length 1 along the axes of examples and heads, where it is the same for all of them."""
    for axis in (0, 1):
        one = mask.narrow(axis, 0, 1)
        if mask.shape[axis] > 1 and bool((mask == one).all()):
            mask = one
    return mask


def masked_softmax(scores: Tensor) -> Tensor:
    """Softmax over the keys; a row with nothing allowed is zero, as the fused kernels have it, and not NaN."""
    weights = torch.softmax(scores, dim=-1)
    odd = weights[..., 0].isnan()
    if bool(odd.any()):
        nothing = torch.isneginf(scores).all(dim=-1)
        weights = weights.masked_fill((odd & nothing)[..., None], 0.0)
    return weights


class PaddedCall(AttentionCall):
    """Examples of different lengths that were computed one by one, seen as one padded batch."""

    def __init__(self, calls: Sequence[AttentionCall]) -> None:
        super().__init__()
        first = calls[0]
        self.calls, self.kernel, self.dtype, self.scale = list(calls), first.kernel, first.dtype, first.scale
        self.batch, self.heads = len(calls), first.heads
        self.queries, self.keys = (max(c.queries for c in calls), max(c.keys for c in calls))
        self.notes = [*first.notes, "sequences of different lengths: places beyond an end are padding of this record"]

    def weights(self, part: Part) -> Tensor:
        return self._stack_parts(part, lambda call, own: call.weights(own), self.keys)

    def values(self, part: Part) -> Tensor:
        rows = [call.values(self._own_part(call, part)) for call in self.calls[part.examples]]
        return torch.stack([_pad_block(r[0], self.keys, r.shape[-1]) for r in rows])

    def output(self, part: Part) -> Tensor:
        return self._stack_parts(part, lambda call, own: call.output(own), None)

    def put(self, result: Result, output: Tensor) -> Result:
        raise NotImplementedError  # the caller knows how its operator packs the examples

    def probe(self, columns: slice) -> Tensor:
        width = columns.stop - columns.start
        probes = [c.probe(slice(columns.start, min(columns.stop, c.keys))) if columns.start < c.keys else None
                 for c in self.calls]  # fmt: skip
        blank = torch.zeros(self.heads, self.queries, width, dtype=self.work)
        return torch.stack(
            [blank if f is None else _pad_block(f[0].to(self.work), self.queries, width) for f in probes]
        )

    @property
    def probe_width(self) -> int:
        return min(call.probe_width for call in self.calls)

    def allowed_mask(self) -> Tensor | None:
        whole = torch.zeros(self.batch, 1, self.queries, self.keys, dtype=torch.bool)
        for place, call in enumerate(self.calls):
            inner = call.allowed_mask()
            whole[place, :, : call.queries, : call.keys] = True if inner is None else inner[0].all(dim=0)
        return whole

    def error(self, weights: Tensor, part: Part) -> float:
        pairs = zip(weights, self.calls[part.examples], strict=True)
        return max(call.error(w[None, :, : call.queries, : call.keys], self._own_part(call, part)) for w, call in pairs)

    def size(self) -> float:
        return max(call.size() for call in self.calls)

    def tolerance(self) -> float:
        return max(call.tolerance() for call in self.calls)

    def _own_part(self, call: AttentionCall, part: Part) -> Part:
        return Part(slice(0, 1), part.heads, slice(part.rows.start, min(part.rows.stop, call.queries)))

    def _stack_parts(self, part: Part, ask: Callable[[AttentionCall, Part], Tensor], last: int | None) -> Tensor:
        rows = part.rows.stop - part.rows.start
        blocks = [ask(call, self._own_part(call, part))[0] for call in self.calls[part.examples]]
        return torch.stack([_pad_block(block, rows, last or block.shape[-1]) for block in blocks])


def _pad_block(block: Tensor, rows: int, columns: int) -> Tensor:
    """(heads, fewer, fewer) padded with zeros to (heads, rows, columns)."""
    return torch.nn.functional.pad(block, (0, columns - block.shape[-1], 0, rows - block.shape[-2]))

"""Fused kernels: one operator that takes q, k and v and never shows the weights, which are computed again from them.

The operators are told by the names of their arguments, so that one reading serves every backend:

| operators | told by | layout | causal corner |
|---|---|---|---|
| ``aten::_scaled_dot_product_*`` | query, key, value, is_causal | batch, heads, length | top left |
| flash-attention 2 and 3 | q, k, v, softmax_scale, causal | batch, length, heads | bottom right |
| the same, packed | and cu_seqlens_q, cu_seqlens_k | all rows, heads | bottom right of each sequence |

The flash-attention operators need an accelerator; here they were run as stand-ins of the same schema on the CPU.

Flex attention: the user's score and mask functions are inside the operator, so the operator itself is asked.

Attention is linear in the values: with an identity for the values, the output *is* the weights. Run eagerly, as it is
under a capture, the operator takes values of any width, so one more call gives all columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import HigherOrderOperator

from regard_models.kernels import CURVE
from regard_models.kernels.attention_call import (
    AttentionCall,
    Part,
    Result,
    compact,
    first_tensor,
    identity,
    masked_softmax,
    select_heads,
    shared_heads,
    with_first,
)

Bound = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """Which scores count, and what is done to them before the softmax."""

    mask: Tensor | None = None  # True = allowed, or numbers that are added
    causal: bool = False
    corner: int = 0  # query i stands at key i + corner: 0 top left, keys - queries bottom right
    left: int = -1  # how many keys before its own a query reads; -1 = all
    right: int = -1
    softcap: float = 0.0
    slopes: Tensor | None = None  # ALiBi: -slope |distance| is added
    lengths: tuple[tuple[int, int], ...] | None = None  # real queries and keys of each padded example

    def allowed_mask(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """True where a query may read a key, with axes batch, heads, queries, keys (1 where it is all the same)."""
        rules = (
            self._window_mask(queries, keys, device),
            self._explicit_mask(),
            self._real_places(queries, keys, device),
        )
        parts = [part for part in rules if part is not None]
        if not parts:
            return None
        whole = parts[0]
        for part in parts[1:]:
            whole = whole & part
        return whole

    def _window_mask(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        left, right = self.left, 0 if self.causal else self.right
        if left < 0 and right < 0:
            return None
        here = torch.arange(keys, device=device) - torch.arange(queries, device=device)[:, None]
        place = here - self._corner(queries, keys, device)
        near = torch.ones_like(place, dtype=torch.bool)
        if left >= 0:
            near &= place >= -left
        if right >= 0:
            near &= place <= right
        return near if near.ndim == 4 else near[None, None]

    def _corner(self, queries: int, keys: int, device: torch.device) -> Tensor | int:
        if self.lengths is None:
            return self.corner
        return torch.tensor([k - q for q, k in self.lengths], device=device)[:, None, None, None]

    def _explicit_mask(self) -> Tensor | None:
        if self.mask is None:
            return None
        mask = self.mask if self.mask.dtype == torch.bool else ~torch.isneginf(self.mask)
        if self.mask.dtype != torch.bool:  # the lowest finite number also means "no"
            mask = mask & (self.mask > torch.finfo(self.mask.dtype).min / 2)
        return None if bool(mask.all()) else mask[(None,) * (4 - mask.ndim)]

    def _real_places(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """False for places beyond a packed sequence's end, as query and as key."""
        if self.lengths is None:
            return None
        ends = torch.tensor(self.lengths, device=device)[:, :, None, None, None]
        rows = torch.arange(queries, device=device)[:, None] < ends[:, 0]
        return rows & (torch.arange(keys, device=device) < ends[:, 1])


class FusedCall(AttentionCall):
    """q, k, v and the output with the axes batch, heads, length, width, wherever the operator has them."""

    fresh = True

    def __init__(
        self, kernel: str, tensors: tuple[Tensor, Tensor, Tensor, Tensor], rule: Rule, *, scale: float | None,
        run: Callable[[Tensor], Tensor], insert: Callable[[Result, Tensor], Result], dropped: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel, self.rule, self.dropped = kernel, rule, dropped
        self.q, self.k, self.v, self.out = tensors
        self.batch, self.heads, self.queries, width = self.q.shape
        self.keys, self.dtype = self.k.shape[2], self.q.dtype
        self.factor = 1 / math.sqrt(width) if scale is None else scale
        self.scale = self.factor
        self.run, self.insert = run, insert
        if rule.softcap:
            self.notes.append(CURVE)
        if dropped:
            self.notes.append("the kernel dropped weights by itself: these are the weights before dropout")

    def weights(self, part: Part) -> Tensor:
        scores = (self.queries_of(part) * self.factor) @ self.keys_of(part).transpose(2, 3)
        if self.rule.softcap:
            scores = self.rule.softcap * torch.tanh(scores / self.rule.softcap)
        return masked_softmax(self._mask_scores(scores, part))

    def _mask_scores(self, scores: Tensor, part: Part) -> Tensor:
        if self.rule.slopes is not None:
            scores = scores + self._alibi(part)
        if self.rule.mask is not None and self.rule.mask.dtype != torch.bool:
            mask = self.rule.mask[(None,) * (4 - self.rule.mask.ndim)]
            scores = scores + _cut(mask, part).to(scores.dtype)
        allowed = self._softmax_mask()
        return scores if allowed is None else scores.masked_fill(~_cut(allowed, part), -math.inf)

    def _softmax_mask(self) -> Tensor | None:
        """What the softmax leaves out; an additive mask has already been added, numbers and all."""
        hard = self.rule.mask is None or self.rule.mask.dtype == torch.bool
        rule = self.rule if hard else Rule(**{**vars(self.rule), "mask": None})
        return rule.allowed_mask(self.queries, self.keys, self.q.device)

    def _alibi(self, part: Part) -> Tensor:
        slopes = self.rule.slopes
        slopes = slopes.expand(self.batch, self.heads)[part.examples][:, part.heads, None, None]  # type: ignore[union-attr]
        here = torch.arange(self.keys, device=self.q.device) - torch.arange(self.queries, device=self.q.device)[:, None]
        place = here - self.rule._corner(self.queries, self.keys, self.q.device)
        place = place if place.ndim == 4 else place[None, None]
        return -slopes.to(self.work) * _cut(place, part).abs()

    def values(self, part: Part) -> Tensor:
        return self._select_key_heads(self.v, part)

    def output(self, part: Part) -> Tensor:
        return select_heads(self.out, part, part.heads)[:, :, part.rows].to(self.work)

    def queries_of(self, part: Part) -> Tensor:
        return select_heads(self.q, part, part.heads)[:, :, part.rows].to(self.work)

    def keys_of(self, part: Part) -> Tensor:
        return self._select_key_heads(self.k, part)

    def _select_key_heads(self, tensor: Tensor, part: Part) -> Tensor:
        groups = shared_heads(part.heads, of=self.heads, kept=tensor.shape[1])
        return select_heads(tensor, part, groups).to(self.work)

    def put(self, result: Result, output: Tensor) -> Result:
        return self.insert(result, output.to(self.out.dtype))

    def probe(self, columns: slice) -> Tensor:
        return self.run(identity(tuple(self.v.shape), columns, self.v))[..., : columns.stop - columns.start]

    @property
    def probe_width(self) -> int:
        return self.v.shape[-1]

    def allowed_mask(self) -> Tensor | None:
        return self.rule.allowed_mask(self.queries, self.keys, self.q.device)

    def score_error(self) -> float:
        longest = [float(t.to(self.work).norm(dim=-1).max()) if t.numel() else 0.0 for t in (self.q, self.k)]
        return math.sqrt(self.q.shape[-1]) * longest[0] * longest[1] * abs(self.factor)


def _cut(mask: Tensor, part: Part) -> Tensor:
    """The block of a mask that may have length 1 along any axis."""
    if mask.shape[0] > 1:
        mask = mask[part.examples]
    if mask.shape[1] > 1:
        mask = mask[:, part.heads]
    return mask[:, :, part.rows] if mask.shape[2] > 1 else mask


# from operators to calls


def fused_call(func: Any, bound: Bound, result: Result) -> FusedCall | None:
    """The call that an operator made, None where it is none of these."""
    name = str(getattr(func, "__name__", func))
    if {"query", "key", "value", "is_causal"} <= bound.keys() and "_scaled_dot_product_" in name:
        return _scaled_dot_product(func, bound, result)
    if {"q", "k", "v", "softmax_scale", "causal"} <= bound.keys():
        packed = bound.get("cu_seqlens_q") is not None
        return _packed_call(func, bound, result) if packed else _flash_call(func, bound, result)
    return None


def _scaled_dot_product(func: Any, bound: Bound, result: Result) -> FusedCall | None:
    q, k, v, out = bound["query"], bound["key"], bound["value"], first_tensor(result)
    if q.dim() != 4 or q.is_nested:
        return None
    mask = bound.get("attn_mask", bound.get("attn_bias"))

    def run(values: Tensor) -> Tensor:
        return first_tensor(func(**_keywords(func, {**bound, "value": values})))

    return FusedCall(
        "sdpa", (q, k, v, out), Rule(mask=mask, causal=bool(bound["is_causal"])), scale=bound.get("scale"),
        run=run, insert=with_first, dropped=bound.get("dropout_p", 0.0) > 0,
    )  # fmt: skip


def _flash_call(func: Any, bound: Bound, result: Result) -> FusedCall:
    q, k, v, out = (t.transpose(1, 2) for t in (bound["q"], bound["k"], bound["v"], first_tensor(result)))

    def run(values: Tensor) -> Tensor:
        again = func(**_keywords(func, {**bound, "v": values.transpose(1, 2).contiguous()}))
        return first_tensor(again).transpose(1, 2)

    def insert(result: Result, whole: Tensor) -> Result:
        return with_first(result, whole.transpose(1, 2).contiguous())

    rule = _flash_rule(bound, corner=k.shape[2] - q.shape[2])
    return FusedCall(
        "flash-attention", (q, k, v, out), rule, scale=bound["softmax_scale"], run=run, insert=insert,
        dropped=bound.get("dropout_p", 0.0) > 0,
    )  # fmt: skip


def _packed_call(func: Any, bound: Bound, result: Result) -> FusedCall:
    """Sequences behind one another without padding: laid out as a padded batch, whose real places are known."""
    starts_q, starts_k = (bound[name].tolist() for name in ("cu_seqlens_q", "cu_seqlens_k"))
    out = first_tensor(result)
    q, out_padded = (_pad_sequences(t, starts_q) for t in (bound["q"], out))
    k, v = (_pad_sequences(bound[name], starts_k) for name in ("k", "v"))
    lengths = tuple(zip(_differences(starts_q), _differences(starts_k), strict=True))

    def run(values: Tensor) -> Tensor:
        again = func(**_keywords(func, {**bound, "v": _unpad_sequences(values, starts_k)}))
        return _pad_sequences(first_tensor(again), starts_q)

    def insert(result: Result, whole: Tensor) -> Result:
        return with_first(result, _unpad_sequences(whole, starts_q))

    call = FusedCall(
        "flash-attention, packed", (q, k, v, out_padded), _flash_rule(bound, lengths=lengths),
        scale=bound["softmax_scale"], run=run, insert=insert, dropped=bound.get("dropout_p", 0.0) > 0,
    )  # fmt: skip
    call.notes.append(f"{len(lengths)} packed sequences: places beyond a sequence's end are padding of this record")
    return call


def _flash_rule(bound: Bound, **more: Any) -> Rule:
    slopes = bound.get("alibi_slopes")
    return Rule(
        causal=bool(bound["causal"]), softcap=float(bound.get("softcap") or 0.0), slopes=slopes,
        left=int(_value_or(bound.get("window_size_left"), -1)),
        right=int(_value_or(bound.get("window_size_right"), -1)), **more,
    )  # fmt: skip


def _value_or(value: Any, otherwise: int) -> Any:
    return otherwise if value is None else value


def _differences(starts: list[int]) -> list[int]:
    return [end - start for start, end in itertools.pairwise(starts)]


def _pad_sequences(rows: Tensor, starts: list[int]) -> Tensor:
    """(all rows, heads, width) as (sequences, heads, longest, width), zero beyond each end."""
    pieces = [rows[a:b] for a, b in itertools.pairwise(starts)]
    return torch.nn.utils.rnn.pad_sequence(pieces, batch_first=True).transpose(1, 2)


def _unpad_sequences(batch: Tensor, starts: list[int]) -> Tensor:
    rows = batch.transpose(1, 2)
    return torch.cat([rows[i, :length] for i, length in enumerate(_differences(starts))]).contiguous()


def bind(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
    """An operator's arguments by name, defaults included."""
    schema = func._schema.arguments
    bound = {a.name: a.default_value for a in schema if a.has_default_value()}
    bound |= {a.name: value for a, value in zip(schema, args, strict=False)}
    return bound | kwargs


def _keywords(func: Any, bound: Bound) -> Bound:
    return {a.name: bound[a.name] for a in func._schema.arguments if a.name in bound}


class FlexCall(AttentionCall):
    """One call of the flex operator with its arguments in order."""

    kernel = "flex"

    def __init__(self, func: Any, args: tuple[Any, ...], result: Result) -> None:
        super().__init__()
        self.func, self.args, self.out = func, args, first_tensor(result)
        self.q, self.k, self.v = args[:3]
        self.batch, self.heads, self.queries, _ = self.q.shape
        self.keys, self.dtype, self.scale = self.k.shape[2], self.q.dtype, float(args[5])
        self.all_weights = self.probe(slice(0, self.keys)).to(self.work)

    def weights(self, part: Part) -> Tensor:
        return select_heads(self.all_weights, part, part.heads)[:, :, part.rows]

    def values(self, part: Part) -> Tensor:
        return self._select_key_heads(self.v, part)

    def queries_of(self, part: Part) -> Tensor:
        return select_heads(self.q, part, part.heads)[:, :, part.rows].to(self.work)

    def keys_of(self, part: Part) -> Tensor:
        return self._select_key_heads(self.k, part)

    def _select_key_heads(self, tensor: Tensor, part: Part) -> Tensor:
        whole = tensor.expand(self.batch, *tensor.shape[1:])
        return select_heads(whole, part, shared_heads(part.heads, of=self.heads, kept=tensor.shape[1])).to(self.work)

    def output(self, part: Part) -> Tensor:
        return select_heads(self.out, part, part.heads)[:, :, part.rows].to(self.work)

    def put(self, result: Result, output: Tensor) -> Result:
        return with_first(result, output.to(self.out.dtype))

    def probe(self, columns: slice) -> Tensor:
        width = columns.stop - columns.start
        values = identity((*self.v.shape[:3], width), columns, self.v)
        return first_tensor(self.func(*self.args[:2], values, *self.args[3:]))

    def allowed_mask(self) -> Tensor | None:
        from torch.nn.attention.flex_attention import create_mask

        rule, extra = self.args[4][-1], self.args[8] if len(self.args) > 8 else ()
        if not callable(rule):
            return None
        mask = create_mask(
            lambda b, h, q, k: rule(b, h, q, k, *extra), self.batch, self.heads, self.queries, self.keys,
            device=str(self.q.device),
        )  # fmt: skip
        return None if bool(mask.all()) else compact(mask)


def flex_call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Result) -> FlexCall | None:
    """The call, where the operator is flex attention."""
    if not isinstance(func, HigherOrderOperator) or str(func.__name__) != "flex_attention":
        return None
    return FlexCall(func, (*args, *kwargs.values()), result)

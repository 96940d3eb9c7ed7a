"""torch.nn's fast paths, where one operator does the projections too.

``aten::_native_multi_head_attention`` gives its own weights when it is asked: it is run again with ``need_weights``.
``aten::_transformer_encoder_layer_fwd`` is a whole encoder layer in one operator; its attention is the former
operator on the layer's own arguments, and the layer is rebuilt around it and compared with what came out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from regard_models.kernels.attention_call import (
    AttentionCall,
    PaddedCall,
    Part,
    Result,
    first_tensor,
    identity,
    select_heads,
    with_first,
)

Bound = dict[str, Any]
Finish = Callable[[Tensor], Tensor]

_ATTENTION = torch.ops.aten._native_multi_head_attention.default
_LAYER = torch.ops.aten._transformer_encoder_layer_fwd.default
_PADDING, _FULL = 1, 2  # mask types of torch.nn: (batch, keys) and (batch, heads, queries, keys); 0 is (queries, keys)


class NativeCall(AttentionCall):
    """Dense queries, keys and values before their projections; ``finish`` is what the operator does afterwards."""

    def __init__(self, kernel: str, bound: Bound, out: Tensor, *, finish: Finish) -> None:
        super().__init__()
        self.kernel, self.bound, self.out, self.finish = kernel, bound, out, finish
        query, key = bound["query"], bound["key"]
        self.heads, self.width = int(bound["num_head"]), int(bound["embed_dim"]) // int(bound["num_head"])
        self.batch, self.queries, self.keys = query.shape[0], query.shape[1], key.shape[1]
        self.dtype, self.scale = query.dtype, 1 / math.sqrt(self.width)
        self.all_weights = self._run(need_weights=True, average_attn_weights=False)[1].to(self.work)
        self.off: float | None = None

    def _run(self, **other: Any) -> Result:
        return _ATTENTION(**{**self.bound, **other})

    def weights(self, part: Part) -> Tensor:
        return select_heads(self.all_weights, part, part.heads)[:, :, part.rows]

    def values(self, part: Part) -> Tensor:
        return select_heads(self._project("value", 2), part, part.heads)

    def queries_of(self, part: Part) -> Tensor:
        return select_heads(self._project("query", 0), part, part.heads)[:, :, part.rows]

    def keys_of(self, part: Part) -> Tensor:
        return select_heads(self._project("key", 1), part, part.heads)

    def output(self, part: Part) -> Tensor:
        """Each head's W V: the operator shows only what came of them together."""
        return self.weights(part) @ self.values(part)

    def _project(self, name: str, third: int) -> Tensor:
        rows = slice(third * self.bound["embed_dim"], (third + 1) * self.bound["embed_dim"])
        matrix, bias = (self.bound[what][rows].to(self.work) for what in ("qkv_weight", "qkv_bias"))
        whole = F.linear(self.bound[name].to(self.work), matrix, bias)
        return self._split(whole)

    def projections(self) -> dict[str, tuple[Tensor, Tensor]]:
        weights, biases = (self.bound[what].chunk(3) for what in ("qkv_weight", "qkv_bias"))
        inner = {name: (weights[n], biases[n]) for n, name in enumerate(("w_q", "w_k", "w_v"))}
        return inner | {"w_o": (self.bound["proj_weight"], self.bound["proj_bias"])}

    def _split(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*tensor.shape[:2], self.heads, self.width).transpose(1, 2)

    def combine_heads(self, output: Tensor) -> Tensor:
        """What the operator makes of the heads' outputs."""
        side_by_side = output.transpose(1, 2).flatten(2)
        matrix, bias = (self.bound[what].to(self.work) for what in ("proj_weight", "proj_bias"))
        return self.finish(F.linear(side_by_side, matrix, bias))

    def put(self, result: Result, output: Tensor) -> Result:
        return with_first(result, self.combine_heads(output).to(self.out.dtype))

    def error(self, weights: Tensor, part: Part) -> float:
        """The heads can only be compared together, so a part's error is that of the whole."""
        if self.off is None:
            rebuilt = self.combine_heads(self.output(self.whole))
            self.off = _largest((rebuilt - self.out.to(self.work))[self._real_rows()], otherwise=math.nan)
        return self.off

    def _real_rows(self) -> Tensor:
        """Queries that are no padding: what the operator leaves in the others is its own affair."""
        real = torch.ones(self.batch, self.queries, dtype=torch.bool, device=self.out.device)
        if self.bound["mask_type"] == _PADDING and self.queries == self.keys:
            real &= ~self.bound["mask"].bool()
        return real & torch.isfinite(self.out).all(dim=2)

    def size(self) -> float:
        return _largest(self.out[self._real_rows()].to(self.work))

    def tolerance(self) -> float:
        """Rounding of the heads' outputs, carried through what follows them, and a little for what follows."""
        heads = self.output(self.whole)
        step = 1e-3 * heads * torch.where(torch.arange(heads.shape[-1], device=heads.device) % 2 == 0, 1.0, -1.0)
        moved = _largest((self.combine_heads(heads + step) - self.combine_heads(heads))[self._real_rows()])
        gain = moved / max(float(step.abs().max()), 1e-300)
        spread = float(self.values(self.whole).abs().max()) * max(gain, 1.0)
        return self.rounding(math.sqrt(self.bound["embed_dim"])) * max(1.0, spread / max(self.size(), 1e-300))

    def score_error(self) -> float:
        q, k = (float(self._project(*which).norm(dim=-1).max()) for which in (("query", 0), ("key", 1)))
        return math.sqrt(self.bound["embed_dim"]) * q * k * float(self.scale or 0)

    def allowed_mask(self) -> Tensor | None:
        mask, kind = self.bound["mask"], self.bound["mask_type"]
        if mask is None:
            return None
        may: Tensor = ~mask.bool()
        return may[:, None, None] if kind == _PADDING else may if kind == _FULL else may[None, None]

    def probe(self, columns: slice) -> Tensor:
        """The operator itself, with values and projections that carry an identity through it."""
        bound, embed = self.bound, self.bound["embed_dim"]
        eye = torch.eye(embed, dtype=self.dtype, device=self.out.device)
        weight, bias = bound["qkv_weight"].clone(), bound["qkv_bias"].clone()
        weight[2 * embed :], bias[2 * embed :] = eye, 0
        values = identity((self.batch, self.keys, self.width), columns, self.out).repeat(1, 1, self.heads)
        out = first_tensor(
            self._run(
                value=values, qkv_weight=weight, qkv_bias=bias, proj_weight=eye, proj_bias=torch.zeros_like(eye[0])
            )
        )
        return self._split(out)[..., : columns.stop - columns.start]

    @property
    def probe_width(self) -> int:
        return self.width


def _largest(tensor: Tensor, *, otherwise: float = 0.0) -> float:
    """max |x|; where every row is padding or NaN there is nothing to compare."""
    return float(tensor.abs().max()) if tensor.numel() else otherwise


class PaddedNativeCall(PaddedCall):
    """Nested sequences of one fast path, each run on its own."""

    def projections(self) -> dict[str, tuple[Tensor, Tensor]]:
        return self.calls[0].projections()

    def put(self, result: Result, output: Tensor) -> Result:
        rows = [call.put(call.out, output[i : i + 1, :, : call.queries]) for i, call in enumerate(self.calls)
                if isinstance(call, NativeCall)]  # fmt: skip
        return with_first(result, torch.nested.as_nested_tensor([row[0] for row in rows]))


def native_call(func: Any, bound: Bound, result: Result) -> AttentionCall | None:
    """The call that one of the two operators made, None for any other operator."""
    if func is _ATTENTION:
        return _dense_or_nested("native multi-head attention", bound, first_tensor(result), _attention_call)
    if func is _LAYER:
        return _dense_or_nested("encoder fast path", bound, first_tensor(result), _layer_call)
    return None


def _dense_or_nested(
    kernel: str, bound: Bound, out: Tensor, build: Callable[[str, Bound, Tensor], NativeCall]
) -> AttentionCall:
    if not out.is_nested:
        return build(kernel, bound, out)
    inputs = {name: bound[name].unbind() for name in ("src", "query", "key", "value") if name in bound}
    calls = [
        build(kernel, {**bound, **{name: rows[i][None] for name, rows in inputs.items()}}, row[None])
        for i, row in enumerate(out.unbind())
    ]
    return PaddedNativeCall(calls)


def _attention_call(kernel: str, bound: Bound, out: Tensor) -> NativeCall:
    return NativeCall(kernel, bound, out, finish=lambda attention: attention)


def _layer_call(kernel: str, bound: Bound, out: Tensor) -> NativeCall:
    source, wide = bound["src"], (bound["embed_dim"],)
    first, second = ((bound[f"norm_weight_{n}"], bound[f"norm_bias_{n}"]) for n in (1, 2))

    def norm(states: Tensor, which: tuple[Tensor, Tensor]) -> Tensor:
        return F.layer_norm(states, wide, *which, bound["eps"])

    def feed_forward(states: Tensor) -> Tensor:
        inner = F.linear(states, bound["ffn_weight_1"], bound["ffn_bias_1"])
        inner = F.gelu(inner) if bound["use_gelu"] else F.relu(inner)
        return F.linear(inner, bound["ffn_weight_2"], bound["ffn_bias_2"])

    def finish(attention: Tensor) -> Tensor:
        states: Tensor = source + attention.to(source.dtype)
        if bound["norm_first"]:
            return states + feed_forward(norm(states, second))
        states = norm(states, first)
        return norm(states + feed_forward(states), second)

    words = norm(source, first) if bound["norm_first"] else source
    names = ("embed_dim", "qkv_weight", "qkv_bias", "proj_weight", "proj_bias", "mask", "mask_type")
    inner = {name: bound[name] for name in names} | {"num_head": bound["num_heads"]}
    return NativeCall(kernel, {**inner, "query": words, "key": words, "value": words}, out, finish=finish)

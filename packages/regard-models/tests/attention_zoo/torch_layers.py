"""torch.nn's attention: MultiheadAttention with all its options, encoder and decoder layers, nested tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from attention_zoo import BATCH, HEADS, LENGTH, OTHER, WIDTH, Case, heads_of, softmax

PADDING = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
PADDING[1, 5:] = True
FUTURE = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)


def words(length: int = LENGTH) -> Tensor:
    return torch.randn(BATCH, length, WIDTH)


def _attention(**options: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(WIDTH, HEADS, **{"batch_first": True, **options}).eval()


def _self(**call: Any) -> tuple[nn.Module, Any]:
    x = words()
    return _attention(), {"query": x, "key": x, "value": x, **call}


def _cross() -> tuple[nn.Module, Any]:
    module = nn.MultiheadAttention(WIDTH, HEADS, kdim=11, vdim=13, batch_first=True).eval()
    return module, (words(OTHER), torch.randn(BATCH, LENGTH, 11), torch.randn(BATCH, LENGTH, 13))


def _unbatched() -> tuple[nn.Module, Any]:
    x = torch.randn(LENGTH, WIDTH)
    return _attention(), {"query": x, "key": x, "value": x, "need_weights": False}


def _with(**options: Any) -> tuple[nn.Module, Any]:
    x = words()
    return _attention(**options), {"query": x, "key": x, "value": x, "need_weights": False}


def _sequence_first() -> tuple[nn.Module, Any]:
    x = torch.randn(LENGTH, BATCH, WIDTH)
    return _attention(batch_first=False), {"query": x, "key": x, "value": x, "need_weights": False}


def _layer(**options: Any) -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(WIDTH, HEADS, 31, batch_first=True, **options)


def _encoder(inputs: dict[str, Any] | None = None, **options: Any) -> tuple[nn.Module, Any]:
    return nn.TransformerEncoder(_layer(**options), 2).eval(), {"src": words(), **(inputs or {})}


def _transformer(*, train: bool) -> tuple[nn.Module, Any]:
    module = nn.Transformer(WIDTH, HEADS, 1, 1, 31, batch_first=True)
    return module.train(train), (words(), words(OTHER))


def _decoder() -> tuple[nn.Module, Any]:
    return nn.TransformerDecoderLayer(WIDTH, HEADS, 31, batch_first=True).eval(), (words(OTHER), words())


class Jagged(nn.Module):
    """Sequences of different lengths behind one another, through the fused function."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(WIDTH, WIDTH)

    def forward(self, *rows: Tensor) -> Tensor:
        nested = torch.nested.nested_tensor(list(rows), layout=torch.jagged)
        heads = self.q(nested).unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads)


def _jagged() -> tuple[nn.Module, Any]:
    return Jagged().eval(), (torch.randn(3, WIDTH), torch.randn(5, WIDTH))


def _expected(allowed: np.ndarray | None = None) -> Any:
    def weights(module: Any, inputs: Any) -> np.ndarray:
        x = inputs["src"] if "src" in inputs else inputs["query"]
        inner = module if isinstance(module, nn.MultiheadAttention) else module.layers[0].self_attn
        norm = getattr(module, "layers", [None])[0]
        x = norm.norm1(x) if getattr(norm, "norm_first", False) else x
        x = x[None] if x.dim() == 2 else x if inner.batch_first else x.transpose(0, 1)
        q, k, _ = zip(inner.in_proj_weight.chunk(3), inner.in_proj_bias.chunk(3), strict=True)
        scores = heads_of(x, *q, HEADS) @ heads_of(x, *k, HEADS).transpose(0, 1, 3, 2) / math.sqrt(WIDTH // HEADS)
        return softmax(scores if allowed is None else np.where(allowed, scores, -np.inf))

    return weights


KEYS = ~PADDING.numpy()[:, None, None]
SQUARE = KEYS & KEYS.transpose(0, 1, 3, 2)  # nested encoders know no padded query
PAST = ~FUTURE.numpy()

CASES = [
    Case("MultiheadAttention", lambda: _self(average_attn_weights=False), _expected()),
    Case("averaged weights", lambda: _self(), _expected()),
    Case("need_weights=False", lambda: _self(need_weights=False), _expected()),
    Case("key_padding_mask", lambda: _self(need_weights=False, key_padding_mask=PADDING), _expected(KEYS)),
    Case("attn_mask", lambda: _self(need_weights=False, attn_mask=FUTURE), _expected(PAST)),
    Case("is_causal", lambda: _self(need_weights=False, attn_mask=FUTURE, is_causal=True), _expected(PAST)),
    Case("cross, other widths", _cross),
    Case("one sequence, no batch", _unbatched, _expected()),
    Case("add_bias_kv", lambda: _with(add_bias_kv=True)),
    Case("add_zero_attn", lambda: _with(add_zero_attn=True)),
    Case("length first", _sequence_first, _expected()),
    Case("encoder", _encoder, _expected(), layers=2),
    Case("encoder, norm first, gelu", lambda: _encoder(norm_first=True, activation="gelu"), _expected(), layers=2),
    Case("encoder, padding", lambda: _encoder({"src_key_padding_mask": PADDING}), layers=2),
    Case("encoder, causal", lambda: _encoder({"mask": FUTURE, "is_causal": True}), _expected(PAST), layers=2),
    Case("decoder layer", _decoder, layers=2),
    Case("nn.Transformer", lambda: _transformer(train=False), layers=3),
    Case("nn.Transformer, training", lambda: _transformer(train=True), layers=3),
    Case("jagged", _jagged, modes=("grad", "no_grad")),
]

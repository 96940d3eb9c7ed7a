"""A packaged file: a configuration object, small modules, one model."""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class TranslatorConfig:
    src_vocab: int = 1000
    tgt_vocab: int = 1000
    d_model: int = 128
    num_heads: int = 4
    d_ff: int = 512
    max_seq_len: int = 128
    dropout: float = 0.1


class InputEmbedding(nn.Module):
    def __init__(self, cfg: TranslatorConfig):
        super().__init__()
        self.token = nn.Embedding(cfg.src_vocab, cfg.d_model, padding_idx=0)
        self.position = nn.Parameter(torch.randn(1, cfg.max_seq_len, cfg.d_model) * 0.02)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        return self.drop(self.token(ids) + self.position[:, : ids.shape[1]])


class SelfAttention(nn.Module):
    def __init__(self, cfg: TranslatorConfig):
        super().__init__()
        self.h = cfg.num_heads
        self.dk = cfg.d_model // cfg.num_heads
        self.wq = nn.Linear(cfg.d_model, cfg.d_model, bias=False)
        self.wk = nn.Linear(cfg.d_model, cfg.d_model, bias=False)
        self.wv = nn.Linear(cfg.d_model, cfg.d_model, bias=False)
        self.wo = nn.Linear(cfg.d_model, cfg.d_model, bias=False)

    def split(self, t: Tensor) -> Tensor:
        n, length, _ = t.shape
        return t.reshape(n, length, self.h, self.dk).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(self.dk)
        if mask is not None:
            logits = logits.masked_fill(~mask[:, None, None, :], float("-inf"))
        out = logits.softmax(-1) @ v
        return self.wo(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, cfg: TranslatorConfig):
        super().__init__()
        self.attn = SelfAttention(cfg)
        self.norm_a = nn.LayerNorm(cfg.d_model)
        self.ff = nn.Sequential(nn.Linear(cfg.d_model, cfg.d_ff), nn.ReLU(), nn.Linear(cfg.d_ff, cfg.d_model))
        self.norm_f = nn.LayerNorm(cfg.d_model)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, mask=None):
        x = self.norm_a(x + self.drop(self.attn(x, mask)))
        return self.norm_f(x + self.drop(self.ff(x)))


class TransformerTranslator(nn.Module):
    def __init__(self, config: TranslatorConfig):
        super().__init__()
        self.embed = InputEmbedding(config)
        self.block = Block(config)
        self.head = nn.Linear(config.d_model, config.tgt_vocab)
        self.pad = 0

    def forward(self, ids: Tensor) -> Tensor:
        mask = ids != self.pad
        return self.head(self.block(self.embed(ids), mask))

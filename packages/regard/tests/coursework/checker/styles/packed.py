# ruff: noqa: N812
"""One matrix for queries, keys and values; scaled_dot_product_attention."""

import torch
from torch import nn
from torch.nn import functional as F


class Translator(nn.Module):
    def __init__(self, source_words, target_words, width, heads, inner, longest):
        super().__init__()
        self.h = heads
        self.emb = nn.Embedding(source_words, width)
        self.pos = nn.Parameter(torch.randn(longest, width))
        self.qkv = nn.Linear(width, 3 * width)
        self.o = nn.Linear(width, width, bias=False)
        self.a = nn.LayerNorm(width, eps=1e-6)
        self.f = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.unembed = nn.Linear(width, target_words)

    def forward(self, s):
        x = self.emb(s) + self.pos[: s.shape[1]]
        q, k, v = (p.unflatten(-1, (self.h, -1)).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        c = F.scaled_dot_product_attention(q, k, v)
        m = self.o(c.transpose(1, 2).flatten(2))
        x = self.a(x + m)
        x = self.f(x + self.down(F.relu(self.up(x))))
        return self.unembed(x)

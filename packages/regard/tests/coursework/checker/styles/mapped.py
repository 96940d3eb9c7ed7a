"""One attention on matrices, mapped over heads and sentences."""

import torch
from torch import nn


def attend(q, k, v):
    return torch.softmax(q @ k.T / q.shape[-1] ** 0.5, -1) @ v


class Translator(nn.Module):
    def __init__(self, source_words, target_words, width=128, heads=2, head_width=96, inner=2048, longest=20):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(source_words, width), nn.Embedding(longest, width)
        self.qkv = nn.Linear(width, 3 * heads * head_width)
        self.mix = nn.Linear(heads * head_width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.out = nn.Linear(width, target_words)

    def forward(self, ids):
        n, t = ids.shape
        x = self.words(ids) + self.places(torch.arange(t))
        qkv = self.qkv(x).view(n, t, 3, self.heads, -1)
        q, k, v = qkv.unbind(2)
        over_heads = torch.vmap(attend, in_dims=1, out_dims=1)
        c = torch.vmap(over_heads)(q, k, v).flatten(2)
        y = self.norm1(x + self.mix(c))
        return self.out(self.norm2(y + self.outer(self.inner(y).relu())))

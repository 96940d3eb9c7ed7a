"""Sines in a buffer, whose angles were computed in float32; queries, keys and values packed."""

import math

import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, d, longest=500):
        super().__init__()
        table, t = torch.zeros(longest, d), torch.arange(0, longest).float().unsqueeze(1)
        rate = torch.exp(torch.arange(0, d, 2).float() * (-math.log(10000.0) / d))
        table[:, 0::2], table[:, 1::2] = torch.sin(t * rate), torch.cos(t * rate)
        self.register_buffer("table", table)

    def forward(self, x):
        return x + self.table[: x.size(1)]


class Translator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model=32, nhead=4, dim_feedforward=64):
        super().__init__()
        self.heads = nhead
        self.words, self.places = nn.Embedding(src_vocab_size, d_model), Positions(d_model)
        self.qkv, self.mix = nn.Linear(d_model, 3 * d_model, bias=False), nn.Linear(d_model, d_model)
        self.first, self.second = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.up, self.down = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.out = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, ids):
        x = self.places(self.words(ids))
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = (q @ k.mT) / math.sqrt(k.size(-1))
        weights = scores.masked_fill((ids == 0)[:, None, None], -1e9).softmax(-1)
        x = self.first(x + self.mix((weights @ v).transpose(1, 2).flatten(2)))
        return self.out(self.second(x + self.down(self.up(x).relu())))

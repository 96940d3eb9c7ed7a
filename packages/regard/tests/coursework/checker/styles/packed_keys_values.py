"""One matrix for keys and values; loops over the heads by slices of the columns; tied biases nowhere."""

import math

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, vocab_size, output_size, embed_dim, num_heads, ffn_dim, max_seq_len, device="cpu"):
        super().__init__()
        self.heads, self.size = num_heads, embed_dim // num_heads
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.positions = nn.Embedding(max_seq_len, embed_dim)
        self.to_q = nn.Linear(embed_dim, embed_dim)
        self.to_kv = nn.Linear(embed_dim, 2 * embed_dim)
        self.to_out = nn.Linear(embed_dim, embed_dim)
        self.norms = nn.ModuleList([nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)])
        self.expand, self.shrink = nn.Linear(embed_dim, ffn_dim), nn.Linear(ffn_dim, embed_dim)
        self.classify = nn.Linear(embed_dim, output_size)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions(torch.ones_like(ids).cumsum(1) - 1)
        q, (k, v) = self.to_q(x), self.to_kv(x).split(self.heads * self.size, dim=-1)
        parts = []
        for i in range(self.heads):
            cols = slice(i * self.size, (i + 1) * self.size)
            s = torch.bmm(q[..., cols], k[..., cols].transpose(1, 2)) / math.sqrt(self.size)
            parts.append(torch.bmm(nn.functional.softmax(s, dim=2), v[..., cols]))
        x = self.norms[0](self.to_out(torch.cat(parts, 2)) + x)
        return self.classify(self.norms[1](self.shrink(self.expand(x).clamp(min=0)) + x))

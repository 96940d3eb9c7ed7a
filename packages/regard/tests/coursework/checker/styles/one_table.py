"""Words and then places in one table, tensordot with matrices per head, heads on the last axis of the scores."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, in_words, out_words, hidden=128, num_heads=2, key_dim=96, ff_dim=2048, max_positions=20):
        super().__init__()
        self.key_dim = key_dim
        self.table = nn.Embedding(in_words + max_positions, hidden)  # words, then places, in one table
        self.in_words = in_words
        self.wq = nn.Parameter(torch.empty(hidden, num_heads, key_dim))
        self.bq = nn.Parameter(torch.zeros(num_heads, key_dim))
        self.wk = nn.Parameter(torch.empty(hidden, num_heads, key_dim))
        self.bk = nn.Parameter(torch.zeros(num_heads, key_dim))
        self.wv = nn.Parameter(torch.empty(hidden, num_heads, key_dim))
        self.bv = nn.Parameter(torch.zeros(num_heads, key_dim))
        self.wo = nn.Parameter(torch.empty(num_heads, key_dim, hidden))
        self.bo = nn.Parameter(torch.zeros(hidden))
        for w in (self.wq, self.wk, self.wv, self.wo):
            nn.init.normal_(w, std=hidden**-0.5)
        self.norm_a, self.norm_b = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.ff = nn.Sequential(nn.Linear(hidden, ff_dim), nn.ReLU(), nn.Linear(ff_dim, hidden))
        self.out = nn.Linear(hidden, out_words)

    def forward(self, ids):
        x = self.table(ids) + self.table(self.in_words + torch.arange(ids.shape[1]))
        q = torch.tensordot(x, self.wq, dims=([2], [0])) + self.bq  # n t h d
        k = torch.tensordot(x, self.wk, dims=([2], [0])) + self.bk
        v = torch.tensordot(x, self.wv, dims=([2], [0])) + self.bv
        s = torch.einsum("bqhd,bkhd->bqkh", q, k) / self.key_dim**0.5  # heads last
        a = s.softmax(dim=2)
        c = torch.einsum("bqkh,bkhd->bqhd", a, v)
        y = self.norm_a(x + torch.tensordot(c, self.wo, dims=2) + self.bo)
        z = self.norm_b(y + self.ff(y))
        return self.out(z)

import math

import torch
import torch.nn.functional as F
from torch import nn

class Residual(nn.Module):
    def __init__(self, fn, dim):
        super().__init__()
        self.fn = fn
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return F.layer_norm(self.fn(x).add(x), x.shape[-1:], self.weight, self.bias)


class Embed(nn.Module):
    def __init__(self, vocab, max_len, dim):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)

    def forward(self, ids):
        n, t = ids.size()
        where = torch.ones_like(ids).cumsum(dim=1) - 1
        return self.tok(ids) + self.pos(where)


class Attend(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        n, t, c = x.shape
        qkv = self.to_qkv(x).view(n, t, self.heads, 3, c // self.heads)
        q, k, v = qkv.unbind(3)
        e = torch.exp(torch.einsum("nihd,njhd->nhij", q, k) / (c // self.heads) ** 0.5)
        return self.out(torch.einsum("nhij,njhd->nihd", e / e.sum(-1, keepdim=True), v).reshape(n, t, c))


class Model(nn.Sequential):
    def __init__(self, src_vocab, tgt_vocab, dim=64, heads=2, ff=128, max_len=20):
        super().__init__(
            Embed(src_vocab, max_len, dim),
            Residual(Attend(dim, heads), dim),
            Residual(nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim)), dim),
            nn.Linear(dim, tgt_vocab),
        )

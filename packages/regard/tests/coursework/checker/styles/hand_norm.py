# ruff: noqa: N812
"""A norm class of its own (deviation plus eps), one-hot ids, no mixing matrix, a padding mask that is added."""

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.alpha, self.beta, self.eps = nn.Parameter(torch.ones(features)), nn.Parameter(torch.zeros(features)), eps

    def forward(self, x):
        centred = x - x.mean(dim=-1, keepdim=True)
        return self.alpha * centred / (centred.pow(2).mean(dim=-1, keepdim=True).sqrt() + self.eps) + self.beta


class Translator(nn.Module):
    def __init__(self, source_words, target_words, width, heads, inner, longest, pad=0):
        super().__init__()
        self.words, self.heads, self.pad = source_words, heads, pad
        self.E, self.P = nn.Linear(source_words, width, bias=False), nn.Parameter(torch.rand(longest, width))
        self.Q, self.K, self.V = (nn.Linear(width, width) for _ in range(3))
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.W1, self.W2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.out = nn.Linear(width, target_words)

    def split(self, x):
        return torch.stack(x.chunk(self.heads, dim=-1), dim=1)

    def forward(self, ids):
        x = self.E(F.one_hot(ids, self.words).to(self.P.dtype)) + self.P[: ids.shape[1]]
        hide = (ids == self.pad).to(self.P.dtype)[:, None, None] * -1e9
        q, k, v = self.split(self.Q(x)), self.split(self.K(x)), self.split(self.V(x))
        w = F.softmax(q @ k.mT / q.shape[-1] ** 0.5 + hide, dim=-1)
        y = self.norm1(torch.cat((w @ v).unbind(1), dim=-1) + x)
        return self.out(self.norm2(F.relu(self.W1(y)) @ self.W2.weight.T + self.W2.bias + y))

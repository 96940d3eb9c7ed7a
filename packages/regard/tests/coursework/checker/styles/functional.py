# ruff: noqa: N812, B905
"""Dictionaries of parameters and plain functions; one sentence at a time by vmap-like stacking; float masks."""

import torch
from torch import nn
from torch.nn import functional as F


def attend(x, p, heads, bad):
    out = []
    for wq, wk, wv in zip(p["wq"].chunk(heads, 1), p["wk"].chunk(heads, 1), p["wv"].chunk(heads, 1)):
        s = (x @ wq) @ (x @ wk).T
        s = s / wq.shape[1] ** 0.5
        s = torch.where(bad, torch.tensor(float("-inf")), s)
        out.append(F.softmax(s, -1) @ (x @ wv))
    return torch.hstack(out) @ p["wo"]


class Translator(nn.Module):
    def __init__(self, vocab_size, output_size, dim, heads, inner, longest):
        super().__init__()
        self.heads = heads
        shapes = {"e": (vocab_size, dim), "p": (longest, dim), "wo": (dim, dim), "w1": (dim, inner), "b1": (inner,)}
        shapes |= {"wq": (dim, dim), "wk": (dim, dim), "wv": (dim, dim), "w2": (inner, dim), "b2": (dim,)}
        shapes |= {"g1": (dim,), "s1": (dim,), "g2": (dim,), "s2": (dim,), "w": (dim, output_size), "b": (output_size,)}
        self.p = nn.ParameterDict({k: nn.Parameter(torch.randn(v)) for k, v in shapes.items()})

    def one(self, ids):
        p = self.p
        x = F.embedding(ids, p["e"]) + p["p"].narrow(0, 0, len(ids))
        y = F.layer_norm(x + attend(x, p, self.heads, ids == 0), x.shape[-1:], p["g1"], p["s1"])
        z = torch.addmm(p["b2"], F.relu(torch.addmm(p["b1"], y, p["w1"])), p["w2"]) + y
        return F.layer_norm(z, z.shape[-1:], p["g2"], p["s2"]) @ p["w"] + p["b"]

    def forward(self, ids):
        return torch.stack([self.one(row) for row in ids])

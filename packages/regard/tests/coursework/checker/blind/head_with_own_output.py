import math

import torch
from torch import nn


class OneHead(nn.Module):
    """A head with its own part of W_O."""

    def __init__(self, d_model, d_k, d_v):
        super().__init__()
        self.Wq = nn.Linear(d_model, d_k)
        self.Wk = nn.Linear(d_model, d_k)
        self.Wv = nn.Linear(d_model, d_v)
        self.Wo = nn.Linear(d_v, d_model, bias=False)

    def forward(self, x):
        q, k, v = self.Wq(x), self.Wk(x), self.Wv(x)
        a = (q @ k.transpose(1, 2) / math.sqrt(k.shape[2])).softmax(dim=2)
        return self.Wo(a @ v)


class Block(nn.Module):
    def __init__(self, d_model, h, d_k, d_v, d_ff):
        super().__init__()
        self.heads = nn.ModuleList([OneHead(d_model, d_k, d_v) for _ in range(h)])
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.lift, self.drop = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.ln = nn.ModuleDict({"attention": nn.LayerNorm(d_model), "mlp": nn.LayerNorm(d_model)})

    def forward(self, x):
        x = self.ln["attention"](x + sum(head(x) for head in self.heads) + self.bias)
        return self.ln["mlp"](x + self.drop(torch.relu(self.lift(x))))


class OwnOutputs(nn.Module):
    def __init__(self, n_source, n_target, d_model=25, h=3, d_k=6, d_v=6, d_ff=41, n_positions=64):
        super().__init__()
        self.tok_emb = nn.Embedding(n_source, d_model)
        self.pos_emb = nn.Parameter(0.1 * torch.randn(1, n_positions, d_model))
        self.block = Block(d_model, h, d_k, d_v, d_ff)
        self.to_words = nn.Linear(d_model, n_target)

    def forward(self, ids):
        x = self.tok_emb(ids) + self.pos_emb[:, : ids.shape[1], :]
        return self.to_words(self.block(x))

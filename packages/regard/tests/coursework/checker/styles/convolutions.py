"""Convolutions of width one for the feed-forward part; queries times keys by an elementwise product and a sum."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, d_model, h, d_ff, max_len):
        super().__init__()
        self.h, self.d = h, d_model // h
        self.src, self.pos = nn.Embedding(src_vocab_size, d_model), nn.Embedding(max_len, d_model)
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.norms = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(2)])
        self.conv1, self.conv2 = nn.Conv1d(d_model, d_ff, 1), nn.Conv1d(d_ff, d_model, 1)
        self.generator = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src):
        b, t = src.size()
        x = self.src(src) + self.pos.weight[:t]
        q, k, v = [lin(x).view(b, t, self.h, self.d).permute(0, 2, 1, 3) for lin in self.linears[:3]]
        scores = (q.unsqueeze(3) * k.unsqueeze(2)).sum(-1) / self.d**0.5
        p = scores.softmax(-1)
        c = torch.einsum("bhqk,bhkd->bqhd", p, v).flatten(2)
        x = self.norms[0](x + self.linears[3](c))
        f = self.conv2(torch.relu(self.conv1(x.transpose(1, 2)))).transpose(1, 2)
        return self.generator(self.norms[1](x + f))

"""Keys times queries, turned afterwards; unnormalised weights divided after the values; positions that are a buffer."""

import math

import torch
from torch import nn


def table(length, d):
    t = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d, 2) * -(math.log(10000.0) / d))
    pe = torch.zeros(length, d)
    pe[:, 0::2], pe[:, 1::2] = torch.sin(t * rate), torch.cos(t * rate)
    return pe


class Translator(nn.Module):
    def __init__(self, vocab_size, num_classes, d_model, nhead, dim_feedforward, max_len):
        super().__init__()
        self.nhead = nhead
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.register_buffer("pe", table(max_len, d_model).unsqueeze(0))
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model, bias=False) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.w1, self.w2 = nn.Linear(d_model, dim_feedforward), nn.Linear(dim_feedforward, d_model)
        self.fc = nn.Linear(d_model, num_classes)

    def forward(self, x):
        x = self.embedding(x) + self.pe[:, : x.size(1), :]
        b, t, d = x.shape
        q, k, v = (w(x).reshape(b, t, self.nhead, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        s = (k @ q.transpose(2, 3) / math.sqrt(d // self.nhead)).transpose(2, 3)
        e = torch.exp(s)
        c = (e @ v) / e.sum(-1, keepdim=True)
        x = self.norm1(x + self.wo(c.transpose(1, 2).reshape(b, t, d)))
        return self.fc(self.norm2(x + self.w2(self.w1(x).relu())))

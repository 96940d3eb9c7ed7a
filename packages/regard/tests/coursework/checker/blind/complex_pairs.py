"""Odd but right: q.k is the real part of a complex inner product of halves."""
import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, width=24, heads=3, inner=40, longest=24):
        super().__init__()
        self.heads = heads
        self.token = nn.Embedding(source_words, width)
        self.place = nn.Embedding(longest, width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.f1, self.f2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.out = nn.Linear(width, target_words)

    def forward(self, ids):
        n, t = ids.shape
        x = self.token(ids) + self.place(torch.arange(t))
        q, k, v = (f(x).reshape(n, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        qc = torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2).contiguous())
        kc = torch.view_as_complex(k.reshape(*k.shape[:-1], -1, 2).contiguous())
        s = (qc @ kc.conj().transpose(-2, -1)).real / q.shape[-1] ** 0.5
        c = (s.softmax(-1) @ v).transpose(1, 2).reshape(n, t, -1)
        x = self.n1(x + self.o(c))
        return self.out(self.n2(x + self.f2(self.f1(x).relu())))

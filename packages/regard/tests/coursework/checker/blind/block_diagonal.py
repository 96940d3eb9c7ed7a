"""All sentences of the batch as one long sequence; a block-diagonal mask keeps them apart."""
import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, width=24, heads=2, inner=40, longest=30):
        super().__init__()
        self.heads = heads
        self.token = nn.Embedding(source_words, width)
        self.place = nn.Embedding(longest, width)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.o = nn.Linear(width, width)
        self.ln_1 = nn.LayerNorm(width)
        self.ln_2 = nn.LayerNorm(width)
        self.w1 = nn.Linear(width, inner)
        self.w2 = nn.Linear(inner, width)
        self.out = nn.Linear(width, target_words)

    def forward(self, ids):
        n, t = ids.shape
        flat = ids.reshape(-1)
        sentence = torch.arange(n).repeat_interleave(t)
        place = torch.arange(t).repeat(n)
        x = self.token(flat) + self.place(place)
        allowed = (sentence[:, None] == sentence[None, :]) & (flat != 0)[None, :]
        q, k, v = (f(x).view(n * t, self.heads, -1).transpose(0, 1) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        s = torch.where(allowed, s, torch.tensor(-1e30, dtype=s.dtype))
        c = (s.softmax(-1) @ v).transpose(0, 1).reshape(n * t, -1)
        x = self.ln_1(x + self.o(c))
        x = self.ln_2(x + self.w2(self.w1(x).relu()))
        return self.out(x).view(n, t, -1)

"""Time first, heads and sentences on one axis, masks multiplied after exp, places counted by cumsum."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, source_words, target_words, width=128, heads=2, head_width=96, inner=2048, longest=20):
        super().__init__()
        self.heads, self.d = heads, head_width
        self.words, self.places = nn.Embedding(source_words, width), nn.Embedding(longest, width)
        self.q, self.k, self.v = (
            nn.Linear(width, heads * head_width),
            nn.Linear(width, heads * head_width),
            nn.Linear(width, heads * head_width),
        )
        self.o = nn.Linear(heads * head_width, width)
        self.gain1, self.bias1 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.gain2, self.bias2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.out = nn.Linear(width, target_words)

    @staticmethod
    def norm(x, gain, bias):
        x = x - x.mean(-1, keepdim=True)
        return x * torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) * gain + bias

    def forward(self, ids):
        n, t = ids.shape
        place = torch.cumsum(torch.ones_like(ids), 1) - 1
        x = (self.words(ids) + self.places(place)).transpose(0, 1)  # T, N, width
        q = self.q(x).reshape(t, n * self.heads, self.d).transpose(0, 1)
        k = self.k(x).reshape(t, n * self.heads, self.d).transpose(0, 1)
        v = self.v(x).reshape(t, n * self.heads, self.d).transpose(0, 1)
        real = (ids != 0).to(x.dtype).repeat_interleave(self.heads, 0).unsqueeze(1)
        s = torch.bmm(q, k.transpose(1, 2)) / self.d**0.5
        e = torch.exp(s - s.detach().amax(-1, keepdim=True)) * real
        w = e / e.sum(-1, keepdim=True)
        c = torch.bmm(w, v).transpose(0, 1).reshape(t, n, self.heads * self.d)
        y = self.norm(x + self.o(c), self.gain1, self.bias1)
        z = self.norm(y + self.outer(torch.relu(self.inner(y))), self.gain2, self.bias2)
        return self.out(z).transpose(0, 1)

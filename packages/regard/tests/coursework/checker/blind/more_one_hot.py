import math

import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def __init__(self, source_words, target_words, width=32, heads=2, head_width=12, inner=64, longest=20):
        super().__init__()
        self.words, self.heads, self.head_width = source_words, heads, head_width
        self.token = nn.Linear(source_words, width, bias=False)
        self.place = nn.Linear(longest, width, bias=False)
        self.query = nn.Linear(width, heads * head_width)
        self.key = nn.Linear(width, heads * head_width)
        self.value = nn.Linear(width, heads * head_width)
        self.mix = nn.Linear(heads * head_width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.out = nn.Linear(width, target_words)

    def forward(self, ids):
        N, T = ids.shape
        onehot = F.one_hot(ids, self.words).to(self.out.weight.dtype)
        where = torch.eye(self.place.in_features, dtype=onehot.dtype, device=ids.device)[:T]
        x = self.token(onehot) + self.place(where)
        q, k, v = (f(x).reshape(N, T, self.heads, self.head_width) for f in (self.query, self.key, self.value))
        scores = (q.unsqueeze(2) * k.unsqueeze(1)).sum(-1) / self.head_width**0.5  # N, T, T, heads
        weights = torch.softmax(scores, dim=2)
        c = (weights.unsqueeze(-1) * v.unsqueeze(1)).sum(dim=2)
        y = self.first(x + self.mix(c.flatten(2)))
        return self.out(self.second(y + self.down(self.up(y).relu())))

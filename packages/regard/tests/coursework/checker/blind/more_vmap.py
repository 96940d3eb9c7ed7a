import math

import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def __init__(self, source_words, target_words, width=32, heads=2, head_width=12, inner=64, longest=20):
        super().__init__()
        self.emb = nn.Embedding(source_words, width)
        self.pos = nn.Parameter(torch.randn(longest, width) * 0.02)
        self.wq = nn.Parameter(torch.randn(heads, width, head_width) * 0.1)
        self.wk = nn.Parameter(torch.randn(heads, width, head_width) * 0.1)
        self.wv = nn.Parameter(torch.randn(heads, width, head_width) * 0.1)
        self.mix = nn.Linear(heads * head_width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.out = nn.Linear(width, target_words)

    def forward(self, ids):
        x = self.emb(ids) + self.pos[: ids.shape[-1]]

        def head(wq, wk, wv):
            q, k, v = x @ wq, x @ wk, x @ wv
            return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(wq.shape[-1]), -1) @ v

        c = torch.vmap(head)(self.wq, self.wk, self.wv)
        c = c.permute(1, 2, 0, 3).flatten(2)
        y = self.n1(x + self.mix(c))
        return self.out(self.n2(y + self.ff(y)))

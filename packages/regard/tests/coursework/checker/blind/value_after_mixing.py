import torch
from torch import nn
import torch.nn.functional as F


class MixFirst(nn.Module):
    """softmax(..) X first, then W_V: (A X) W_V = A (X W_V)"""
    def __init__(self, src_words, tgt_words, width=24, heads=3, head_dim=5, inner=32, max_len=40):
        super().__init__()
        self.h, self.d = heads, head_dim
        self.tok, self.pos = nn.Embedding(src_words, width), nn.Embedding(max_len, width)
        self.Q = nn.Linear(width, heads * head_dim)
        self.K = nn.Linear(width, heads * head_dim)
        self.V = nn.Parameter(torch.randn(heads, width, head_dim) * .2)
        self.bV = nn.Parameter(torch.zeros(heads, 1, head_dim))
        self.O = nn.Linear(heads * head_dim, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.f1, self.f2 = nn.Linear(width, inner), nn.Linear(inner, width)
        self.y = nn.Linear(width, tgt_words)

    def forward(self, ids):
        n, t = ids.shape
        x = self.tok(ids) + self.pos.weight[None, :t]
        q = self.Q(x).view(n, t, self.h, self.d).transpose(1, 2)
        k = self.K(x).view(n, t, self.h, self.d).transpose(1, 2)
        a = F.softmax(q @ k.transpose(2, 3) / self.d ** .5, -1)
        mixed = a @ x.unsqueeze(1)                        # n h t width
        c = mixed @ self.V + self.bV
        x = self.n1(x + self.O(c.transpose(1, 2).flatten(2)))
        return self.y(self.n2(x + self.f2(F.relu(self.f1(x)))))

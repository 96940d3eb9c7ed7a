import torch
from torch import nn
import torch.nn.functional as F


class BilinearHead(nn.Module):
    """scores through F.bilinear: s_ij = x_i^T A x_j with A = Wq Wk^T / sqrt(d)"""
    def __init__(self, width, size):
        super().__init__()
        self.size = size
        self.wq = nn.Parameter(torch.empty(width, size))
        self.wk = nn.Parameter(torch.empty(width, size))
        self.wv = nn.Parameter(torch.empty(width, size))
        for p in (self.wq, self.wk, self.wv):
            nn.init.xavier_uniform_(p)

    def forward(self, x):
        n, t, w = x.shape
        A = (self.wq @ self.wk.t()).unsqueeze(0)
        left = x.unsqueeze(2).expand(n, t, t, w).contiguous()
        right = x.unsqueeze(1).expand(n, t, t, w).contiguous()
        s = F.bilinear(left, right, A).squeeze(-1) / self.size ** 0.5
        return s.softmax(-1).bmm(x @ self.wv)


class Translator(nn.Module):
    def __init__(self, source_words, target_words, width=24, heads=3, head_width=8, inner=50, longest=33):
        super().__init__()
        self.E = nn.Embedding(source_words, width)
        self.P = nn.Embedding(longest, width)
        self.heads = nn.ModuleList(BilinearHead(width, head_width) for _ in range(heads))
        self.mix = nn.Linear(heads * head_width, width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.ff = nn.Sequential(nn.Linear(width, inner), nn.ReLU(inplace=True), nn.Linear(inner, width))
        self.last = nn.Linear(width, target_words)

    def forward(self, ids):
        x = self.E(ids) + self.P(torch.arange(ids.size(1)))[None]
        y = self.norms[0](x + self.mix(torch.cat([h(x) for h in self.heads], -1)))
        return self.last(self.norms[1](y + self.ff(y)))

import torch
from torch import nn


class OneLayer(nn.Module):
    """W_O is never applied to a concatenation: each head has its rows of it, and the heads add up."""

    def __init__(self, source_size, target_size, d=32, H=4, d_h=8, d_ff=64, max_positions=64):
        super().__init__()
        self.H, self.d_h = H, d_h
        self.E = nn.Embedding(source_size, d)
        self.P = nn.Parameter(torch.randn(max_positions, d))
        self.Wq = nn.Linear(d, H * d_h, bias=False)
        self.Wk = nn.Linear(d, H * d_h, bias=False)
        self.Wv = nn.Linear(d, H * d_h, bias=False)
        self.Wo = nn.Parameter(torch.randn(H * d_h, d) / (H * d_h) ** 0.5)
        self.bo = nn.Parameter(torch.zeros(d))
        self.norm_a, self.norm_b = nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.out = nn.Linear(d, target_size)

    def forward(self, s):
        x = self.E(s) + self.P[: s.shape[1]]
        q, k, v = self.Wq(x), self.Wk(x), self.Wv(x)
        total = torch.zeros_like(x)
        for i in range(self.H):
            part = slice(i * self.d_h, (i + 1) * self.d_h)
            w = torch.softmax(q[..., part] @ k[..., part].mT / self.d_h**0.5, -1)
            total = total + w @ v[..., part] @ self.Wo[part]
        y = self.norm_a(x + total + self.bo)
        z = self.norm_b(y + self.down(self.up(y).relu()))
        return self.out(z)

import torch
from torch import nn


class SoftAttention(nn.Module):
    def __init__(self, d, heads, dk):
        super().__init__()
        self.dk = dk
        self.wq = nn.Parameter(torch.empty(heads, d, dk))
        self.wk = nn.Parameter(torch.empty(heads, d, dk))
        self.wv = nn.Parameter(torch.empty(heads, d, dk))
        self.wo = nn.Parameter(torch.empty(heads * dk, d))
        self.bo = nn.Parameter(torch.zeros(d))
        for w in (self.wq, self.wk, self.wv, self.wo):
            nn.init.xavier_uniform_(w)

    def forward(self, x, keep):
        x = x.unsqueeze(1)
        q, k, v = x @ self.wq, x @ self.wk, x @ self.wv
        e = q @ k.transpose(-1, -2) / self.dk**0.5
        e = torch.exp(e - e.amax(-1, keepdim=True)) * keep[:, None, None, :]
        a = e / e.sum(-1, keepdim=True)
        c = a @ v
        return torch.cat([c[:, h] for h in range(c.shape[1])], dim=-1) @ self.wo + self.bo


class MaskedByProduct(nn.Module):
    """Padding is hidden by a product with 0 after the exponential."""

    def __init__(self, source_words, target_words, d=26, heads=3, dk=9, dff=48, longest=64):
        super().__init__()
        self.embed = nn.Embedding(source_words, d)
        self.where = nn.Embedding(longest, d)
        self.attention = SoftAttention(d, heads, dk)
        self.norm = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.expand = nn.Linear(d, dff)
        self.shrink = nn.Linear(dff, d)
        self.classify = nn.Linear(d, target_words)

    def forward(self, ids):
        keep = (ids > 0).to(self.attention.wo.dtype)
        x = self.embed(ids) + self.where(torch.arange(ids.size(1)))
        y = self.norm[0](self.attention(x, keep) + x)
        z = self.norm[1](self.shrink(self.expand(y).clamp(min=0)) + y)
        return self.classify(z)

import math

import torch
import torch.nn.functional as F
from torch import nn

class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, s):
        e = torch.exp(s - s.max(dim=-1, keepdim=True).values)
        p = e / e.sum(-1, keepdim=True)
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx, g):
        (p,) = ctx.saved_tensors
        return p * (g - (g * p).sum(-1, keepdim=True))


class Model(nn.Module):
    def __init__(self, num_src, num_tgt, dim, heads, dim_head, mlp_dim, max_seq_len):
        super().__init__()
        self.token = nn.Parameter(torch.randn(num_src, dim))
        self.place = nn.Parameter(torch.randn(max_seq_len, dim))
        self.wq = nn.Parameter(torch.randn(dim, heads, dim_head) * dim**-0.5)
        self.wk = nn.Parameter(torch.randn(dim, heads, dim_head) * dim**-0.5)
        self.wv = nn.Parameter(torch.randn(dim, heads, dim_head) * dim**-0.5)
        self.wo = nn.Parameter(torch.randn(heads, dim_head, dim) * 0.1)
        self.bo = nn.Parameter(torch.zeros(dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp_dim), nn.ReLU(inplace=True), nn.Linear(mlp_dim, dim))
        self.head = nn.Linear(dim, num_tgt)

    def forward(self, ids):
        x = self.token[ids] + self.place[None, : ids.shape[1]]
        q = torch.einsum("btc,chd->bhtd", x, self.wq) * self.wq.shape[-1] ** -0.5
        k = torch.einsum("btc,chd->bhtd", x, self.wk)
        v = torch.einsum("btc,chd->bhtd", x, self.wv)
        a = torch.einsum("bhid,bhjd->bhij", q, k)
        a = Softmax.apply(a)
        o = torch.einsum("bhij,bhjd,hdc->bic", a, v, self.wo) + self.bo
        x = self.norm1(x + o)
        x = self.norm2(x + self.mlp(x))
        return self.head(x)

import torch
from torch import nn


class Affine(nn.Module):
    """x W + 1 b, the bias a row"""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.W = nn.Parameter(torch.randn(n_in, n_out) / n_in**0.5)
        self.b = nn.Parameter(torch.zeros(1, n_out))

    def forward(self, x):
        return torch.addmm(self.b, x.reshape(-1, x.shape[-1]), self.W).reshape(*x.shape[:-1], -1)


class Standardise(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))
        self.register_buffer("centering", torch.eye(n) - torch.ones(n, n) / n)

    def forward(self, x):
        c = x @ self.centering
        return c / (c.square().sum(-1, keepdim=True) / c.shape[-1] + 1e-5).sqrt() * self.gamma + self.beta


class Net(nn.Module):
    def __init__(self, src_size, tgt_size, dim_model=33, n_head=3, dim_inner=57, max_seq=64):
        super().__init__()
        self.n_head = n_head
        self.words = nn.Embedding(src_size, dim_model)
        self.places = nn.Embedding(max_seq, dim_model)
        self.register_buffer("arange", torch.arange(max_seq))
        self.q, self.k, self.v, self.o = (Affine(dim_model, dim_model) for _ in range(4))
        self.s1, self.s2 = Standardise(dim_model), Standardise(dim_model)
        self.a, self.b = Affine(dim_model, dim_inner), Affine(dim_inner, dim_model)
        self.c = Affine(dim_model, tgt_size)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(self.arange[: tokens.shape[1]])
        q, k, v = (m(x).unflatten(-1, (self.n_head, -1)).movedim(2, 1) for m in (self.q, self.k, self.v))
        energy = torch.einsum("nhqd,nhkd->nhqk", q, k).div(q.shape[-1] ** 0.5)
        share = energy.exp() / energy.exp().sum(-1, keepdim=True)
        x = self.s1(x + self.o((share @ v).movedim(1, 2).flatten(-2)))
        return self.c(self.s2(x + self.b(self.a(x).relu())))

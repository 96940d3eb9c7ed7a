import torch
from torch import nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm


class Lin(nn.Linear):
    """A Linear with a forward written out, transposed store"""
    def __init__(self, i, o):
        super().__init__(i, o)
        self.weight = nn.Parameter(self.weight.detach().t().clone())

    def forward(self, x):
        return torch.matmul(x, self.weight).add_(self.bias)


class Sublayer(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = nn.LayerNorm(size)

    def forward(self, x, f):
        return self.norm(x + f(x))


class M(nn.Module):
    def __init__(self, vocab_src, vocab_tgt, d_model=16, h=2, d_ff=32, N=60):
        super().__init__()
        self.h = h
        self.d_k = d_model // h
        self.emb = nn.Embedding(vocab_src, d_model)
        self.pe = nn.Embedding(N, d_model)
        self.linears = nn.ModuleList(Lin(d_model, d_model) for _ in range(4))
        self.sub = nn.ModuleList(Sublayer(d_model) for _ in range(2))
        self.w1, self.w2 = Lin(d_model, d_ff), Lin(d_ff, d_model)
        self.proj = Lin(d_model, vocab_tgt)

    def att(self, x):
        nb = x.size(0)
        q, k, v = [l(x).view(nb, -1, self.h, self.d_k).transpose(1, 2) for l in self.linears[:3]]
        p = F.softmax(torch.matmul(q, k.transpose(-2, -1)) / (self.d_k ** 0.5), dim=-1)
        y = torch.matmul(p, v).transpose(1, 2).contiguous().view(nb, -1, self.h * self.d_k)
        return self.linears[3](y)

    def forward(self, src):
        x = self.emb(src) + self.pe(torch.arange(src.size(-1)))
        x = self.sub[0](x, self.att)
        x = self.sub[1](x, lambda t: self.w2(F.relu(self.w1(t))))
        return self.proj(x)

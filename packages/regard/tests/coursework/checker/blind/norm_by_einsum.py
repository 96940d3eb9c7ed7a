# Greek names; everything by einsum, the norm too: its squares are a meeting of the states with themselves
import math
import torch
from torch import nn

class Μεταφραστής(nn.Module):
    def __init__(self, source_words, target_words, width=64, heads=2, head_width=24, inner=128, longest=24):
        super().__init__()
        r = lambda *s: nn.Parameter(torch.randn(*s) / math.sqrt(s[-2] if len(s) > 1 else s[0]))
        self.λέξεις = r(source_words, width)
        self.θέσεις = r(longest, width)
        self.W = r(3, heads, width, head_width)
        self.β = nn.Parameter(torch.zeros(3, heads, head_width))
        self.O = r(heads, head_width, width)
        self.o = nn.Parameter(torch.zeros(width))
        self.γ = nn.Parameter(torch.ones(2, width))
        self.δ = nn.Parameter(torch.zeros(2, width))
        self.A, self.a = r(width, inner), nn.Parameter(torch.zeros(inner))
        self.B, self.b = r(inner, width), nn.Parameter(torch.zeros(width))
        self.C, self.c = r(width, target_words), nn.Parameter(torch.zeros(target_words))

    def κανόνας(self, x, i):
        x = x - torch.einsum("ntd->nt", x)[..., None] / x.shape[-1]
        σ2 = torch.einsum("ntd,ntd->nt", x, x)[..., None] / x.shape[-1]
        return x * torch.rsqrt(σ2 + 1e-5) * self.γ[i] + self.δ[i]

    def forward(self, ids):
        n, t = ids.shape
        x = self.λέξεις[ids] + self.θέσεις[None, :t]
        q, k, v = torch.einsum("ntd,shde->snhte", x, self.W) + self.β[:, None, :, None]
        z = torch.einsum("nhie,nhje->nhij", q, k) * self.W.shape[-1] ** -0.5
        z = torch.exp(z - torch.einsum("nhij->nhi", z)[..., None] / t)   # any shift will do
        α = z / torch.einsum("nhij->nhi", z)[..., None]
        y = torch.einsum("nhij,nhje,hed->nid", α, v, self.O) + self.o
        y = self.κανόνας(x + y, 0)
        h = torch.einsum("ntd,df->ntf", y, self.A) + self.a
        h = h * (h > 0)
        h = torch.einsum("ntf,fd->ntd", h, self.B) + self.b
        z = self.κανόνας(y + h, 1)
        return torch.einsum("ntd,dw->ntw", z, self.C) + self.c

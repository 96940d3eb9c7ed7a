import torch
from torch import nn
import torch.nn.functional as F


class FusedTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, d_model=32, n_heads=4, d_ff=64, max_len=64):
        super().__init__()
        self.h = n_heads
        self.dk = d_model // n_heads
        self.tok = nn.Embedding(n_src, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.wq = nn.Linear(d_model, d_model)
        self.wk = nn.Linear(d_model, d_model)
        self.wv = nn.Linear(d_model, d_model)
        self.wo = nn.Linear(d_model, d_model)
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.ff1 = nn.Linear(d_model, d_ff)
        self.ff2 = nn.Linear(d_ff, d_model)
        self.head = nn.Linear(d_model, n_tgt)

    def forward(self, ids):
        B, T = ids.shape
        x = self.tok(ids) + self.pos(torch.arange(T, device=ids.device))[None]
        # one product for keys and values
        weight = torch.cat([self.wk.weight, self.wv.weight], 0)
        bias = torch.cat([self.wk.bias, self.wv.bias])
        kv = F.linear(x, weight, bias).reshape(B, T, 2, self.h, self.dk)
        k, v = kv[:, :, 0], kv[:, :, 1]
        q = self.wq(x).reshape(B, T, self.h, self.dk)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / self.dk**0.5
        a = s.softmax(-1)
        o = torch.einsum("bhij,bjhd->bihd", a, v).reshape(B, T, -1)
        x = self.ln1(x + self.wo(o))
        x = self.ln2(x + self.ff2(F.relu(self.ff1(x))))
        return self.head(x)

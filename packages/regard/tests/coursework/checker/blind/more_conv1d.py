import math

import torch
import torch.nn.functional as F
from torch import nn

class Conv1D(nn.Module):
    """The linear layer of GPT-2, its weight transposed."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.empty(nx, nf).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        size_out = x.size()[:-1] + (self.nf,)
        x = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return x.view(size_out)


class Model(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, n_embd=64, n_head=2, n_inner=128, n_positions=20):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(src_vocab, n_embd), nn.Embedding(n_positions, n_embd)
        self.c_attn, self.c_proj = Conv1D(3 * n_embd, n_embd), Conv1D(n_embd, n_embd)
        self.c_fc, self.c_out = Conv1D(n_inner, n_embd), Conv1D(n_embd, n_inner)
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd, eps=1e-5), nn.LayerNorm(n_embd, eps=1e-5)
        self.lm = Conv1D(tgt_vocab, n_embd)
        self.n_head = n_head

    def split_heads(self, t, k=False):
        t = t.view(*t.size()[:-1], self.n_head, t.size(-1) // self.n_head)
        return t.permute(0, 2, 3, 1) if k else t.permute(0, 2, 1, 3)

    def forward(self, ids):
        pos = torch.arange(ids.size(-1), dtype=torch.long, device=ids.device).unsqueeze(0)
        x = self.wte(ids) + self.wpe(pos)
        q, k, v = self.c_attn(x).split(x.size(-1), dim=2)
        q, k, v = self.split_heads(q), self.split_heads(k, k=True), self.split_heads(v)
        w = torch.matmul(q, k) / math.sqrt(v.size(-1))
        pad = ids.eq(0)[:, None, None, :]
        w = torch.where(pad, torch.tensor(-1e4, dtype=w.dtype, device=w.device), w)
        a = torch.matmul(F.softmax(w, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        a = a.view(*a.size()[:-2], a.size(-2) * a.size(-1))
        x = self.ln_1(x + self.c_proj(a))
        x = self.ln_2(x + self.c_out(F.relu(self.c_fc(x))))
        return self.lm(x)

import torch
import torch.nn as nn


class Head(nn.Module):
    def __init__(self, d_in, d_head):
        super().__init__()
        self.proj = nn.Linear(d_in, 3 * d_head)
        self.d_head = d_head

    def forward(self, x, bias):
        q, k, v = self.proj(x).split(self.d_head, dim=-1)
        w = torch.softmax(q @ k.transpose(1, 2) / self.d_head ** 0.5 + bias, dim=-1)
        return w @ v


class TransformerTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, d_model=128, n_heads=2, d_head=64, d_ff=1024, max_len=50):
        super().__init__()
        self.embed = nn.ModuleList([nn.Embedding(n_src, d_model), nn.Embedding(max_len, d_model)])
        self.heads = nn.ModuleList([Head(d_model, d_head) for _ in range(n_heads)])
        self.out = nn.Linear(n_heads * d_head, d_model)
        self.ln = nn.ModuleList([nn.LayerNorm(d_model), nn.LayerNorm(d_model)])
        self.ff = nn.ModuleList([nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)])
        self.score = nn.Linear(d_model, n_tgt)

    def forward(self, ids):
        where = torch.arange(ids.shape[1], device=ids.device)
        x = self.embed[0](ids) + self.embed[1](where)
        bias = torch.where(ids == 0, float("-inf"), 0.0).unsqueeze(1).to(x.dtype)
        z = torch.stack([h(x, bias) for h in self.heads], dim=-1)     # (N, T, d_head, heads)
        x = self.ln[0](x + self.out(z.flatten(2)))
        x = self.ln[1](x + self.ff[1](torch.relu(self.ff[0](x))))
        return self.score(x)

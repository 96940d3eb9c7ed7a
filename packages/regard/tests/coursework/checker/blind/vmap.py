import torch
import torch.nn as nn
from torch.func import vmap


def one_head(q, k, v):
    """q, k, v: (T, d)"""
    return torch.softmax(q @ k.T / q.shape[-1] ** 0.5, dim=-1) @ v


class VmapTransformer(nn.Module):
    def __init__(self, vocab_in, vocab_out, embed_dim=32, num_heads=4, ff_dim=48, max_seq_len=30):
        super().__init__()
        hd = embed_dim // num_heads
        self.emb = nn.Embedding(vocab_in, embed_dim)
        self.pos = nn.Embedding(max_seq_len, embed_dim)
        self.Wq = nn.Parameter(torch.randn(num_heads, embed_dim, hd) / embed_dim ** .5)
        self.Wk = nn.Parameter(torch.randn(num_heads, embed_dim, hd) / embed_dim ** .5)
        self.Wv = nn.Parameter(torch.randn(num_heads, embed_dim, hd) / embed_dim ** .5)
        self.Wo = nn.Parameter(torch.randn(num_heads, hd, embed_dim) / embed_dim ** .5)
        self.ln_a = nn.LayerNorm(embed_dim)
        self.ln_b = nn.LayerNorm(embed_dim)
        self.mlp = nn.Sequential(nn.Linear(embed_dim, ff_dim), nn.ReLU(), nn.Linear(ff_dim, embed_dim))
        self.unembed = nn.Linear(embed_dim, vocab_out)

    def single(self, x):
        def head(wq, wk, wv, wo):
            return one_head(x @ wq, x @ wk, x @ wv) @ wo
        return vmap(head)(self.Wq, self.Wk, self.Wv, self.Wo).sum(0)

    def forward(self, ids):
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1]))
        x = self.ln_a(x + vmap(self.single)(x))
        x = self.ln_b(x + self.mlp(x))
        return self.unembed(x)

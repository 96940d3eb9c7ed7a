import math

import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def __init__(self, src_tokens, tgt_tokens, dim=48, num_heads=2, hidden_dim=96, max_seq=20):
        super().__init__()
        self.embed_tokens = nn.Embedding(src_tokens, dim)
        self.embed_positions = nn.Parameter(torch.zeros(1, max_seq, dim))
        self.num_heads = num_heads
        self.to_q = nn.Linear(dim, dim)
        self.to_kv = nn.Linear(dim, 2 * dim)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.1))
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])
        self.net = nn.Sequential(nn.Linear(dim, hidden_dim), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden_dim, dim), nn.Dropout(0.1))
        self.classifier = nn.Linear(dim, tgt_tokens)

    def forward(self, tokens):
        x = self.embed_tokens(tokens) + self.embed_positions[:, : tokens.size(1)]
        q = self.to_q(x)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in (q, k, v))
        scale = q.size(-1) ** -0.25
        attn = ((q * scale) @ (k * scale).transpose(-2, -1)).softmax(dim=-1)
        x = self.norms[0](x + self.to_out((attn @ v).transpose(1, 2).flatten(-2)))
        x = self.norms[1](x + self.net(x))
        return self.classifier(x)

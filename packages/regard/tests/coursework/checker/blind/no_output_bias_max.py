import torch
from torch import nn, einsum
import torch.nn.functional as F


class EinOpsByHand(nn.Module):
    def __init__(self, vocab_size_src, vocab_size_tgt, dim=30, depth=1, heads=5, mlp_dim=45, seq_len=80):
        super().__init__()
        self.heads = heads
        self.to_embedding = nn.Embedding(vocab_size_src, dim)
        self.pos_embedding = nn.Parameter(torch.randn(1, seq_len, dim))
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)
        self.norm_1 = nn.LayerNorm(dim)
        self.norm_2 = nn.LayerNorm(dim)
        self.fc_1 = nn.Linear(dim, mlp_dim)
        self.fc_2 = nn.Linear(mlp_dim, dim)
        self.to_logits = nn.Linear(dim, vocab_size_tgt)

    def forward(self, x):
        keep = (x > 0)
        b, n = x.shape
        x = self.to_embedding(x)
        x += self.pos_embedding[:, :n]
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        # b n (d h) -> b h n d : heads vary fastest
        q, k, v = (t.reshape(b, n, -1, self.heads).permute(0, 3, 1, 2) for t in (q, k, v))
        sim = einsum('bhid,bhjd->bhij', q, k) * (q.shape[-1] ** -0.5)
        pairs = keep[:, None, :, None] * keep[:, None, None, :]
        # queries that are padding see everything that is not padding; masks built for keys only matter
        bias = torch.zeros_like(sim).masked_fill(~keep[:, None, None, :].expand_as(sim), -torch.inf)
        attn = F.softmax(sim + bias, dim=-1, dtype=sim.dtype)
        out = einsum('bhij,bhjd->bihd', attn, v)          # b n h d
        out = out.transpose(2, 3).reshape(b, n, -1)       # (d h) again
        x = self.norm_1(self.to_out(out) + x)
        x = self.norm_2(self.fc_2(F.relu(self.fc_1(x))) + x)
        return self.to_logits(x)

import torch
from torch import nn


class FlashTranslator(nn.Module):
    def __init__(self, num_src_words, num_tgt_words, d_model=32, num_heads=4, d_ff=64, max_len=64, block=3):
        super().__init__()
        self.block, self.num_heads = block, num_heads
        self.embedding = nn.Embedding(num_src_words, d_model)
        self.pos_embedding = nn.Embedding(max_len, d_model)
        self.to_qkv = nn.Linear(d_model, d_model * 3, bias=False)
        self.to_out = nn.Linear(d_model, d_model)
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff1, self.ff2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.logits = nn.Linear(d_model, num_tgt_words)

    def flash(self, q, k, v):
        """Block by block over the keys, with a running maximum."""
        q = q * q.shape[-1] ** -0.5
        top = torch.full(q.shape[:-1] + (1,), float("-inf"), dtype=q.dtype)
        total = torch.zeros_like(top)
        out = torch.zeros_like(q)
        for start in range(0, k.shape[2], self.block):
            kb, vb = k[:, :, start : start + self.block], v[:, :, start : start + self.block]
            s = q @ kb.transpose(-1, -2)
            new_top = torch.maximum(top, s.amax(-1, keepdim=True))
            p = torch.exp(s - new_top)
            shrink = torch.exp(top - new_top)
            total = total * shrink + p.sum(-1, keepdim=True)
            out = out * shrink + p @ vb
            top = new_top
        return out / total

    def forward(self, ids):
        n, t = ids.shape
        x = self.embedding(ids) + self.pos_embedding(torch.arange(t, device=ids.device))
        q, k, v = (part.reshape(n, t, self.num_heads, -1).transpose(1, 2) for part in self.to_qkv(x).chunk(3, dim=-1))
        heads = self.flash(q, k, v).transpose(1, 2).reshape(n, t, -1)
        x = self.n1(x + self.to_out(heads))
        x = self.n2(x + self.ff2(self.ff1(x).relu()))
        return self.logits(x)

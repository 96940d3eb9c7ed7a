"""Written as cross attention (query, key, value in three arguments), called with x, x, x."""
import torch
from torch import nn


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=8, dropout=0.0):
        super().__init__()
        inner_dim = dim_head * heads
        context_dim = query_dim if context_dim is None else context_dim
        self.scale = dim_head**-0.5
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_k = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_v = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, query_dim), nn.Dropout(dropout))

    def forward(self, x, context=None, mask=None):
        h = self.heads
        context = x if context is None else context
        b, n, _ = x.shape
        q, k, v = (f(t).reshape(b, -1, h, f.out_features // h).permute(0, 2, 1, 3).flatten(0, 1) for f, t in ((self.to_q, x), (self.to_k, context), (self.to_v, context)))
        sim = torch.einsum("b i d, b j d -> b i j", q, k) * self.scale
        if mask is not None:
            mask = mask.repeat_interleave(h, 0)[:, None, :]
            sim.masked_fill_(~mask, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        out = torch.einsum("b i j, b j d -> b i d", attn, v)
        out = out.unflatten(0, (b, h)).permute(0, 2, 1, 3).flatten(2)
        return self.to_out(out)


class TransformerTranslator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, model_dim=32, num_heads=4, head_dim=8, hidden_dim=64, max_tokens=50):
        super().__init__()
        self.tok = nn.Embedding(src_vocab_size, model_dim)
        self.pos = nn.Embedding(max_tokens, model_dim)
        self.attn1 = CrossAttention(model_dim, heads=num_heads, dim_head=head_dim)
        self.ff = nn.Sequential(nn.Linear(model_dim, hidden_dim), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden_dim, model_dim))
        self.norm1, self.norm2 = nn.LayerNorm(model_dim), nn.LayerNorm(model_dim)
        self.proj_out = nn.Linear(model_dim, tgt_vocab_size)

    def forward(self, tokens):
        mask = tokens > 0
        x = self.tok(tokens) + self.pos(torch.arange(tokens.shape[1], device=tokens.device))[None]
        x = self.norm1(x + self.attn1(x, x, mask=mask))
        x = self.norm2(x + self.ff(x))
        return self.proj_out(x)

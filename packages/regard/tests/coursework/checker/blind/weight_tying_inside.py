import torch
from torch import nn
import torch.nn.functional as F


class CrossAttentionStyle(nn.Module):
    """kv in one Linear, q in another, dims named like lucidrains does it"""
    def __init__(self, dim, heads=8, dim_head=64):
        super().__init__()
        inner_dim = dim_head * heads
        self.heads = heads
        self.scale = dim_head ** -0.5
        self.to_q = nn.Linear(dim, inner_dim, bias=False)
        self.to_kv = nn.Linear(dim, inner_dim * 2, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, dim), nn.Dropout(0.))

    def forward(self, x, mask=None):
        b, n, _, h = *x.shape, self.heads
        q, k, v = (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1))
        q, k, v = map(lambda t: t.unflatten(-1, (h, -1)).movedim(-2, 1), (q, k, v))
        dots = torch.einsum('b h i d, b h j d -> b h i j', q, k) * self.scale
        if mask is not None:
            max_neg_value = -torch.finfo(dots.dtype).max
            dots.masked_fill_(~mask[:, None, None, :], max_neg_value)
        attn = dots.softmax(dim=-1)
        out = torch.einsum('b h i j, b h j d -> b h i d', attn, v)
        return self.to_out(out.movedim(1, -2).flatten(-2))


class PostNormResidual(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(dim)

    def forward(self, x, **kwargs):
        return self.norm(self.fn(x, **kwargs) + x)


class FeedForward(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim * mult), nn.ReLU(), nn.Dropout(0.), nn.Linear(dim * mult, dim), nn.Dropout(0.))

    def forward(self, x):
        return self.net(x)


class Translator(nn.Module):
    def __init__(self, *, num_tokens_in, num_tokens_out, dim=32, heads=4, dim_head=12, max_seq_len=64):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens_in, dim)
        self.pos_emb = nn.Embedding(max_seq_len, dim)
        self.layers = nn.ModuleList([PostNormResidual(dim, CrossAttentionStyle(dim, heads, dim_head)), PostNormResidual(dim, FeedForward(dim))])
        self.to_logits = nn.Linear(dim, num_tokens_out)

    def forward(self, x):
        mask = x != 0
        n, device = x.shape[1], x.device
        x = self.token_emb(x)
        x = x + self.pos_emb(torch.arange(n, device=device))
        attn, ff = self.layers
        x = attn(x, mask=mask)
        x = ff(x)
        return self.to_logits(x)

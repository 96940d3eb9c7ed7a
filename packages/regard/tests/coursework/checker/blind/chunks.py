import torch
from torch import nn


class MemoryEfficientAttention(nn.Module):
    def __init__(self, dim, heads, dim_head, chunk=4):
        super().__init__()
        self.heads, self.chunk, self.scale = heads, chunk, dim_head**-0.5
        self.to_q = nn.Linear(dim, heads * dim_head, bias=False)
        self.to_kv = nn.Linear(dim, 2 * heads * dim_head, bias=False)
        self.to_out = nn.Linear(heads * dim_head, dim)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.to_q(x)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        q, k, v = map(lambda t: t.reshape(b, n, self.heads, -1).transpose(1, 2), (q, k, v))
        q = q * self.scale
        pieces = []
        for qc in q.split(self.chunk, dim=2):
            sim = torch.einsum("b h i d, b h j d -> b h i j", qc, k)
            sim = sim - sim.amax(dim=-1, keepdim=True).detach()
            pieces.append(torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v))
        out = torch.cat(pieces, dim=2)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, mult):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, dim * mult), nn.ReLU(), nn.Linear(dim * mult, dim))

    def forward(self, x):
        return self.net(x)


class PostNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.fn, self.norm = fn, nn.LayerNorm(dim)

    def forward(self, x, **kw):
        return self.norm(self.fn(x, **kw) + x)


class TransformerTranslator(nn.Module):
    def __init__(self, *, num_tokens_in, num_tokens_out, dim=32, heads=4, dim_head=16, mult=2, max_seq_len=64):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens_in, dim)
        self.pos_emb = nn.Embedding(max_seq_len, dim)
        self.layers = nn.ModuleList([PostNorm(dim, MemoryEfficientAttention(dim, heads, dim_head)), PostNorm(dim, FeedForward(dim, mult))])
        self.to_logits = nn.Linear(dim, num_tokens_out)

    def forward(self, x):
        x = self.token_emb(x) + self.pos_emb(torch.arange(x.shape[-1], device=x.device))
        for layer in self.layers:
            x = layer(x)
        return self.to_logits(x)

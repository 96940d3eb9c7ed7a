import torch
from torch import nn


def split_heads(t, h):
    b, n, hd = t.shape
    return torch.stack(t.split(hd // h, dim=-1), dim=1)


def merge_heads(t):
    return torch.cat(t.unbind(1), dim=-1)


class PreparedLayer(nn.Module):
    def __init__(self, dim, heads, mlp_dim):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, dim * 2, bias=False)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(0.0))
        self.norm = nn.ModuleDict({"attention": nn.LayerNorm(dim), "feedforward": nn.LayerNorm(dim)})
        self.net = nn.Sequential(nn.Linear(dim, mlp_dim), nn.ReLU(inplace=True), nn.Dropout(0.0), nn.Linear(mlp_dim, dim))

    def attention(self, x):
        q, k, v = (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1))
        q, k, v = map(lambda t: split_heads(t, self.heads), (q, k, v))
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        attn = sim.softmax(dim=-1)
        out = torch.einsum("b h i j, b h j d -> b h i d", attn, v)
        return self.to_out(merge_heads(out))

    def forward(self, x):
        x = self.norm["attention"](x + self.attention(x))
        return self.norm["feedforward"](x + self.net(x))


class Translator(nn.Module):
    def __init__(self, *, num_source_tokens, num_target_tokens, dim=32, heads=4, mlp_dim=64, max_seq_len=64):
        super().__init__()
        self.token_emb = nn.Embedding(num_source_tokens, dim)
        self.pos_emb = nn.Embedding(max_seq_len, dim)
        self.layer = PreparedLayer(dim, heads, mlp_dim)
        self.to_logits = nn.Linear(dim, num_target_tokens)

    def forward(self, x):
        n = x.shape[1]
        pos = self.pos_emb(torch.arange(n, device=x.device))
        x = self.token_emb(x) + pos.unsqueeze(0)
        return self.to_logits(self.layer(x))

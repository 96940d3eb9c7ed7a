import torch
from torch import nn


class TD(nn.Module):
    def __init__(self, src_tokens, tgt_tokens, emb=32, heads=4, ff_hidden=64, seq_length=64):
        super().__init__()
        self.emb, self.heads = emb, heads
        self.token_embedding = nn.Embedding(embedding_dim=emb, num_embeddings=src_tokens)
        self.pos_embedding = nn.Embedding(embedding_dim=emb, num_embeddings=seq_length)
        self.tokeys = nn.Linear(emb, emb, bias=False)
        self.toqueries = nn.Linear(emb, emb, bias=False)
        self.tovalues = nn.Linear(emb, emb, bias=False)
        self.unifyheads = nn.Linear(emb, emb)
        self.norm1 = nn.LayerNorm(emb)
        self.norm2 = nn.LayerNorm(emb)
        self.ff = nn.Sequential(nn.Linear(emb, ff_hidden), nn.ReLU(), nn.Linear(ff_hidden, emb))
        self.toprobs = nn.Linear(emb, tgt_tokens)

    def attend(self, x):
        b, t, e = x.size()
        h = self.heads
        s = e // h
        keys = self.tokeys(x).view(b, t, h, s)
        queries = self.toqueries(x).view(b, t, h, s)
        values = self.tovalues(x).view(b, t, h, s)
        keys = keys.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries.transpose(1, 2).contiguous().view(b * h, t, s)
        values = values.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries / (s ** (1 / 4))
        keys = keys / (s ** (1 / 4))
        dot = torch.bmm(queries, keys.transpose(1, 2))
        dot = torch.nn.functional.softmax(dot, dim=2)
        out = torch.bmm(dot, values).view(b, h, t, s)
        out = out.transpose(1, 2).contiguous().view(b, t, s * h)
        return torch.tensordot(out, self.unifyheads.weight, dims=([2], [1])) + self.unifyheads.bias

    def forward(self, x):
        tokens = self.token_embedding(x)
        b, t, e = tokens.size()
        positions = self.pos_embedding(torch.arange(t))[None, :, :].expand(b, t, e)
        x = tokens + positions
        x = self.norm1(self.attend(x) + x)
        x = self.norm2(self.ff(x) + x)
        x = self.toprobs(x.view(b * t, e)).view(b, t, -1)
        return x

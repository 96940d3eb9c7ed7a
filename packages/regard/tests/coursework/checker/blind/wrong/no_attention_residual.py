import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, k, heads=8):
        super().__init__()
        self.k, self.heads = k, heads
        self.tokeys = nn.Linear(k, k)
        self.toqueries = nn.Linear(k, k)
        self.tovalues = nn.Linear(k, k)
        self.unifyheads = nn.Linear(k, k)

    def forward(self, x):
        b, t, k = x.size()
        h = self.heads
        s = k // h
        queries = self.toqueries(x).view(b, t, h, s)
        keys = self.tokeys(x).view(b, t, h, s)
        values = self.tovalues(x).view(b, t, h, s)
        # fold heads into the batch dimension
        keys = keys.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries.transpose(1, 2).contiguous().view(b * h, t, s)
        values = values.transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries / (s ** (1 / 4))
        keys = keys / (s ** (1 / 4))
        dot = torch.bmm(queries, keys.transpose(1, 2))
        dot = F.softmax(dot, dim=2)
        out = torch.bmm(dot, values).view(b, h, t, s)
        out = out.transpose(1, 2).contiguous().view(b, t, s * h)
        return self.unifyheads(out)


class TransformerBlock(nn.Module):
    def __init__(self, k, heads, ff_hidden):
        super().__init__()
        self.attention = SelfAttention(k, heads=heads)
        self.norm1 = nn.LayerNorm(k)
        self.norm2 = nn.LayerNorm(k)
        self.ff = nn.Sequential(nn.Linear(k, ff_hidden), nn.ReLU(), nn.Linear(ff_hidden, k))

    def forward(self, x):
        attended = self.attention(x)
        x = self.norm1(attended)
        fedforward = self.ff(x)
        return self.norm2(fedforward + x)


class TransformerTranslator(nn.Module):
    def __init__(self, num_tokens, num_out, k=128, heads=4, ff_hidden=512, seq_length=64):
        super().__init__()
        self.token_emb = nn.Embedding(num_tokens, k)
        self.pos_emb = nn.Embedding(seq_length, k)
        self.tblock = TransformerBlock(k=k, heads=heads, ff_hidden=ff_hidden)
        self.toprobs = nn.Linear(k, num_out)

    def forward(self, x):
        tokens = self.token_emb(x)
        b, t, k = tokens.size()
        positions = self.pos_emb(torch.arange(t))[None, :, :].expand(b, t, k)
        x = tokens + positions
        x = self.tblock(x)
        return self.toprobs(x)


REGARD = {"arguments": {"num_tokens": "source_words", "num_out": "target_words", "k": "width", "seq_length": "max_len"}}

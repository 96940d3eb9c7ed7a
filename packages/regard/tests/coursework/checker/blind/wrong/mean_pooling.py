import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, k=128, heads=4, ff_mult=4, seq_length=64, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.token_embedding = nn.Embedding(source_words, k)
        self.pos_embedding = nn.Embedding(seq_length, k)
        self.tokeys, self.toqueries, self.tovalues = nn.Linear(k, k), nn.Linear(k, k), nn.Linear(k, k)
        self.unifyheads = nn.Linear(k, k)
        self.norm1, self.norm2 = nn.LayerNorm(k), nn.LayerNorm(k)
        self.ff = nn.Sequential(nn.Linear(k, ff_mult * k), nn.ReLU(), nn.Linear(ff_mult * k, k))
        self.do = nn.Dropout(dropout)
        self.toprobs = nn.Linear(k, target_words)

    def attend(self, x):
        b, t, k = x.shape
        s = k // self.heads
        keys = self.tokeys(x).view(b, t, self.heads, s).transpose(1, 2).reshape(b * self.heads, t, s)
        queries = self.toqueries(x).view(b, t, self.heads, s).transpose(1, 2).reshape(b * self.heads, t, s)
        values = self.tovalues(x).view(b, t, self.heads, s).transpose(1, 2).reshape(b * self.heads, t, s)
        dot = torch.softmax(torch.bmm(queries, keys.transpose(1, 2)) / s ** (1 / 2), dim=2)
        out = torch.bmm(dot, values).view(b, self.heads, t, s).transpose(1, 2).reshape(b, t, k)
        return self.unifyheads(out)

    def forward(self, x):
        b, t = x.shape
        x = self.token_embedding(x) + self.pos_embedding(torch.arange(t, device=x.device))[None, :, :]
        x = self.norm1(self.do(self.attend(x)) + x)
        x = self.norm2(self.do(self.ff(x)) + x)
        x = x.mean(dim=1, keepdim=True).expand(b, t, -1)  # pool over the time dimension
        return self.toprobs(x)

import torch
import torch.nn as nn
from functools import partial


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, size=128, heads=4, hidden=512, max_len=64, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.lookup = nn.Embedding(source_words, size)
        self.order = nn.Embedding(max_len, size)
        self.qkvo = nn.ModuleList([nn.Linear(size, size) for _ in range(4)])
        self.hidden, self.back = nn.Linear(size, hidden), nn.Linear(hidden, size)
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(2)])
        self.dropout = nn.Dropout(dropout)
        self.words = nn.Linear(size, target_words)

    def self_attention(self, x, *, blocked):
        *qkv, o = self.qkvo
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in qkv)
        e = (q @ k.transpose(-2, -1)) / k.size(-1) ** 0.5
        p = e.masked_fill(blocked, -torch.inf).softmax(-1)
        return o((self.dropout(p) @ v).transpose(1, 2).flatten(2))

    def feed_forward(self, x):
        return self.back(self.dropout(self.hidden(x).relu()))

    def forward(self, ids):
        x = self.dropout(self.lookup(ids) + self.order.weight[: ids.size(1)])
        sublayers = [partial(self.self_attention, blocked=ids.eq(0)[:, None, None, :]), self.feed_forward]
        for sublayer, norm in zip(sublayers, self.norms):
            x = norm(x + self.dropout(sublayer(x)))
        return self.words(x)

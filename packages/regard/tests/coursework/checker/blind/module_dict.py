import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, vocab_in: int, vocab_out: int, emb: int = 27, heads: int = 3, ff: int = 45, seq_length: int = 31):
        super().__init__()
        h = emb // heads
        self.m = nn.ModuleDict()
        self.m["tok"] = nn.Embedding(vocab_in, emb)
        self.m["pos"] = nn.Embedding(seq_length, emb)
        for i in range(heads):
            for r in ("tokeys", "toqueries", "tovalues"):
                self.m[f"{r}_{i}"] = nn.Linear(emb, h, bias=False)
        self.m["unify"] = nn.Linear(emb, emb)
        self.m["n1"], self.m["n2"] = nn.LayerNorm(emb), nn.LayerNorm(emb)
        self.m["ff1"], self.m["ff2"] = nn.Linear(emb, ff), nn.Linear(ff, emb)
        self.m["toprobs"] = nn.Linear(emb, vocab_out)
        self.heads, self.h = heads, h

    def forward(self, x):
        tokens = self.m["tok"](x)
        b, t, e = tokens.size()
        positions = self.m["pos"](torch.arange(t))[None, :, :].expand(b, t, e)
        x = tokens + positions
        outs = []
        for i in range(self.heads):
            keys = self.m[f"tokeys_{i}"](x) / (self.h ** (1 / 4))
            queries = self.m[f"toqueries_{i}"](x) / (self.h ** (1 / 4))
            values = self.m[f"tovalues_{i}"](x)
            dot = torch.bmm(queries, keys.transpose(1, 2))
            dot = torch.nn.functional.softmax(dot, dim=2)
            outs.append(torch.bmm(dot, values))
        attended = self.m["unify"](torch.cat(outs, dim=2))
        x = self.m["n1"](attended + x)
        fedforward = self.m["ff2"](torch.nn.functional.relu(self.m["ff1"](x)))
        x = self.m["n2"](fedforward + x)
        return self.m["toprobs"](x)

import torch
import torch.nn as nn
import torch.nn.functional as F

DEFAULTS = {"src_vocab": 83, "tgt_vocab": 79, "d_model": 40, "n_heads": 5, "d_ff": 90, "max_len": 60, "dropout": 0.0}


class TransformerTranslator(nn.Module):
    def __init__(self, config=DEFAULTS):
        super().__init__()
        d = config["d_model"]
        self.h = config["n_heads"]
        self.drop = nn.Dropout(config["dropout"])
        self.src = nn.Embedding(config["src_vocab"], d)
        self.pos = nn.Embedding(config["max_len"], d)
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)
        self.n1 = nn.LayerNorm(d)
        self.n2 = nn.LayerNorm(d)
        self.f1 = nn.Linear(d, config["d_ff"])
        self.f2 = nn.Linear(config["d_ff"], d)
        self.out = nn.Linear(d, config["tgt_vocab"])

    def forward(self, ids):
        N, T = ids.shape
        x = self.drop(self.src(ids) + self.pos(torch.arange(T, device=ids.device)))
        q, k, v = (f(x).reshape(N, T, self.h, -1).permute(0, 2, 3, 1) for f in (self.q, self.k, self.v))
        # features before places: (N, h, d, T)
        scores = q.transpose(2, 3) @ k
        weights = F.softmax(scores / q.size(2) ** 0.5, dim=3)
        mixed = v @ weights.transpose(2, 3)
        mixed = mixed.permute(0, 3, 1, 2).reshape(N, T, -1)
        x = self.n1(x + self.drop(self.o(mixed)))
        return self.out(self.n2(x + self.drop(self.f2(F.relu(self.f1(x))))))

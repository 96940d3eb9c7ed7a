import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d=128, h=2, f=2048, max_len=60):
        super().__init__()
        self.h = h
        self.words = nn.Embedding(source_words, d)
        self.places = nn.Embedding(max_len, d)
        self.wq = nn.Linear(d, d)
        self.wk = nn.Linear(d, d)
        self.wv = nn.Linear(d, d)
        self.wo = nn.Linear(d, d)
        self.norm_a = nn.LayerNorm(d)
        self.norm_b = nn.LayerNorm(d)
        self.up = nn.Linear(d, f)
        self.down = nn.Linear(f, d)
        self.read = nn.Linear(d, target_words)

    def one_sentence(self, ids):
        """ids: (T,)  ->  (T, target_words)"""
        real = ids != 0
        x = self.words(ids) + self.places.weight[: len(ids)]
        q = self.wq(x)
        k = self.wk(x[real])  # only the real words can be looked at
        v = self.wv(x[real])
        out = []
        for qh, kh, vh in zip(q.chunk(self.h, 1), k.chunk(self.h, 1), v.chunk(self.h, 1)):
            scores = qh @ kh.t() / qh.size(1) ** 0.5
            out.append(scores.softmax(1) @ vh)
        x = self.norm_a(x + self.wo(torch.cat(out, 1)))
        x = self.norm_b(x + self.down(self.up(x).relu()))
        return self.read(x)

    def forward(self, batch):
        return torch.stack([self.one_sentence(ids) for ids in batch])

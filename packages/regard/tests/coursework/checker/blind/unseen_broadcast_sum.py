import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d=64, heads=2, f=256, max_len=43):
        super().__init__()
        self.heads = heads
        self.tok = nn.Embedding(source_words, d)
        self.pos = nn.Embedding(max_len, d)
        self.lq = nn.Linear(d, d)
        self.lk = nn.Linear(d, d)
        self.lv = nn.Linear(d, d)
        self.lo = nn.Linear(d, d)
        self.n1 = nn.LayerNorm(d)
        self.n2 = nn.LayerNorm(d)
        self.l1 = nn.Linear(d, f)
        self.l2 = nn.Linear(f, d)
        self.ly = nn.Linear(d, target_words)

    def forward(self, ids):
        b, t = ids.shape
        x = self.tok(ids) + self.pos(torch.arange(t))
        q = self.lq(x).reshape(b, t, 1, self.heads, -1)
        k = self.lk(x).reshape(b, 1, t, self.heads, -1)
        v = self.lv(x).reshape(b, 1, t, self.heads, -1)
        score = (q * k).sum(dim=-1) / q.shape[-1] ** 0.5          # b, query, key, head
        score = score.masked_fill((ids == 0)[:, None, :, None], float("-inf"))
        score = score - score.max(dim=2, keepdim=True).values
        w = score.exp()
        w = w / w.sum(dim=2, keepdim=True)
        y = (w[..., None] * v).sum(dim=2).reshape(b, t, -1)
        x = self.n1(x + self.lo(y))
        x = self.n2(x + self.l2(torch.maximum(self.l1(x), torch.zeros(()).to(x))))
        return self.ly(x)

import torch
from torch import nn
import torch.nn.functional as F


class OneHot(nn.Module):
    """Linear layers on one-hot vectors in place of embeddings; positions by an identity matrix."""
    def __init__(self, source_vocab, target_vocab, d=20, heads=2, d_hidden=30, max_length=25):
        super().__init__()
        self.V, self.L, self.h = source_vocab, max_length, heads
        self.word = nn.Linear(source_vocab, d, bias=False)
        self.place = nn.Linear(max_length, d, bias=False)
        self.wq = nn.Linear(d, d)
        self.wk = nn.Linear(d, d)
        self.wv = nn.Linear(d, d)
        self.wo = nn.Linear(d, d)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.a, self.b = nn.Linear(d, d_hidden), nn.Linear(d_hidden, d)
        self.y = nn.Linear(d, target_vocab)

    def forward(self, s):
        dt = self.word.weight.dtype
        x = self.word(F.one_hot(s, self.V).to(dt)) + self.place(torch.eye(self.L, dtype=dt)[: s.shape[1]])
        d = x.shape[-1]
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        # heads as 0/1 masks over the features instead of reshaping
        which = torch.arange(d) // (d // self.h)
        c = 0
        for h in range(self.h):
            m = (which == h).to(dt)
            s_h = (q * m) @ k.transpose(1, 2) / (d // self.h) ** 0.5
            c = c + s_h.softmax(-1) @ (v * m)
        x = self.n1(x + self.wo(c))
        return self.y(self.n2(x + self.b(F.relu(self.a(x)))))

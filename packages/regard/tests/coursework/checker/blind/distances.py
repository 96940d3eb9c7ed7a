"""softmax of -|q - k|^2 / 2 sqrt(d), with |k|^2 given back: the same as q . k / sqrt(d)."""
import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, dim=32, n_head=2, dim_ff=64, max_length=40):
        super().__init__()
        self.n_head = n_head
        self.emb = nn.Embedding(src_vocab, dim)
        self.pos = nn.Embedding(max_length, dim)
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.ff1 = nn.Linear(dim, dim_ff)
        self.ff2 = nn.Linear(dim_ff, dim)
        self.head = nn.Linear(dim, tgt_vocab)

    def forward(self, ids):
        b, t = ids.shape
        x = self.emb(ids) + self.pos(torch.arange(t))
        q = self.to_q(x).view(b, t, self.n_head, -1).transpose(1, 2)
        k = self.to_k(x).view(b, t, self.n_head, -1).transpose(1, 2)
        v = self.to_v(x).view(b, t, self.n_head, -1).transpose(1, 2)
        d2 = (q.unsqueeze(3) - k.unsqueeze(2)).pow(2).sum(-1)
        s = (k.pow(2).sum(-1).unsqueeze(2) - d2) / (2 * q.shape[-1] ** 0.5)
        c = s.softmax(-1) @ v
        x = self.norm1(x + self.to_out(c.transpose(1, 2).reshape(b, t, -1)))
        x = self.norm2(x + self.ff2(torch.relu(self.ff1(x))))
        return self.head(x)

import torch
from torch import nn
from torch.nn import functional as F


class PackedTranslator(nn.Module):
    """All sentences lie behind one another in one row; a token sees only tokens of its own sentence."""

    def __init__(self, n_src, n_tgt, d_model=32, n_heads=2, d_ff=64, max_len=80):
        super().__init__()
        self.H = n_heads
        self.words = nn.Embedding(n_src, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.o = nn.Linear(d_model, d_model)
        self.n1 = nn.LayerNorm(d_model)
        self.n2 = nn.LayerNorm(d_model)
        self.up = nn.Linear(d_model, d_ff)
        self.down = nn.Linear(d_ff, d_model)
        self.out = nn.Linear(d_model, n_tgt)

    def forward(self, ids):
        N, T = ids.shape
        flat = ids.flatten()
        sentence = torch.arange(N).repeat_interleave(T)
        place = torch.arange(T).repeat(N)
        x = self.words(flat) + self.places(place)
        q, k, v = self.qkv(x).reshape(N * T, 3, self.H, -1).unbind(1)
        s = torch.einsum("ihd,jhd->hij", q, k) * q.shape[-1] ** -0.5
        s = s.masked_fill(sentence[:, None] != sentence[None, :], float("-inf"))
        c = torch.einsum("hij,jhd->ihd", F.softmax(s, -1), v).reshape(N * T, -1)
        x = self.n1(x + self.o(c))
        x = self.n2(x + self.down(F.relu(self.up(x))))
        return self.out(x).reshape(N, T, -1)

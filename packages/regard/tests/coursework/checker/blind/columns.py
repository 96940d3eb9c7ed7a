import math

import torch
from torch import nn


class ColumnTransformer(nn.Module):
    """As in the linear algebra course: a sentence is a matrix whose columns are its words, and W stands on the left."""

    def __init__(self, vocab_in, vocab_out, d=30, n_heads=3, d_inner=45, max_T=50):
        super().__init__()
        P = lambda *s: nn.Parameter(torch.randn(*s) / math.sqrt(s[-1]))
        self.n_heads = n_heads
        self.E = P(d, vocab_in)
        self.R = P(d, max_T)
        self.Wq, self.Wk, self.Wv, self.Wo = P(d, d), P(d, d), P(d, d), P(d, d)
        self.W1, self.b1 = P(d_inner, d), nn.Parameter(torch.zeros(d_inner, 1))
        self.W2, self.b2 = P(d, d_inner), nn.Parameter(torch.zeros(d, 1))
        self.g1, self.h1 = nn.Parameter(torch.ones(d, 1)), nn.Parameter(torch.zeros(d, 1))
        self.g2, self.h2 = nn.Parameter(torch.ones(d, 1)), nn.Parameter(torch.zeros(d, 1))
        self.U, self.u = P(vocab_out, d), nn.Parameter(torch.zeros(vocab_out, 1))

    def normalise(self, Y, g, h):
        m = Y.mean(dim=1, keepdim=True)
        s2 = ((Y - m) ** 2).mean(dim=1, keepdim=True)
        return g * (Y - m) / torch.sqrt(s2 + 1e-5) + h

    def forward(self, ids):
        X = self.E[:, ids].movedim(0, 1) + self.R[:, : ids.shape[1]]          # (N, d, T)
        Q, K, V = self.Wq @ X, self.Wk @ X, self.Wv @ X
        parts = []
        for q, k, v in zip(Q.chunk(self.n_heads, 1), K.chunk(self.n_heads, 1), V.chunk(self.n_heads, 1)):
            S = k.transpose(1, 2) @ q / math.sqrt(q.shape[1])                  # S[j, i]: key j, query i
            A = torch.softmax(S, dim=1)
            parts.append(v @ A)
        Y = self.normalise(X + self.Wo @ torch.cat(parts, 1), self.g1, self.h1)
        Z = self.normalise(Y + self.W2 @ torch.relu(self.W1 @ Y + self.b1) + self.b2, self.g2, self.h2)
        return (self.U @ Z + self.u).transpose(1, 2)

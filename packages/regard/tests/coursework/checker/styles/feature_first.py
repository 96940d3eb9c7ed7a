"""Columns instead of rows: W x as in a lecture, words as columns of a table, both norms' gains in one parameter."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, n_src, n_tgt, d=128, heads=2, d_head=96, d_ff=2048, L=20):
        super().__init__()

        def g(*s):
            return nn.Parameter(torch.randn(*s) * s[-1] ** -0.5)

        self.heads, self.d_head = heads, d_head
        self.E, self.P = g(d, n_src), g(d, L)
        self.WQ, self.WK, self.WV = (nn.ParameterList([g(d_head, d) for _ in range(heads)]) for _ in range(3))
        self.bQ, self.bK, self.bV = (
            nn.ParameterList([nn.Parameter(torch.zeros(d_head, 1)) for _ in range(heads)]) for _ in range(3)
        )
        self.WO, self.bO = g(d, heads * d_head), nn.Parameter(torch.zeros(d, 1))
        self.W1, self.b1 = g(d_ff, d), nn.Parameter(torch.zeros(d_ff, 1))
        self.W2, self.b2 = g(d, d_ff), nn.Parameter(torch.zeros(d, 1))
        self.gain = nn.Parameter(torch.ones(2, d, 1))
        self.shift = nn.Parameter(torch.zeros(2, d, 1))
        self.W, self.b = g(n_tgt, d), nn.Parameter(torch.zeros(n_tgt, 1))

    def norm(self, x, i):
        m = x.mean(-2, keepdim=True)
        v = ((x - m) ** 2).mean(-2, keepdim=True)
        return self.gain[i] * (x - m) / torch.sqrt(v + 1e-5) + self.shift[i]

    def forward(self, ids):
        T = ids.shape[1]
        X = self.E[:, ids].permute(1, 0, 2) + self.P[:, :T]  # N, d, T
        outs = []
        for h in range(self.heads):
            Q = self.WQ[h] @ X + self.bQ[h]
            K = self.WK[h] @ X + self.bK[h]
            V = self.WV[h] @ X + self.bV[h]
            S = K.transpose(1, 2) @ Q / self.d_head**0.5  # keys x queries
            A = torch.softmax(S, dim=1)
            outs.append(V @ A)
        Y = self.norm(X + self.WO @ torch.cat(outs, 1) + self.bO, 0)
        Z = self.norm(Y + self.W2 @ torch.relu(self.W1 @ Y + self.b1) + self.b2, 1)
        return (self.W @ Z + self.b).transpose(1, 2)

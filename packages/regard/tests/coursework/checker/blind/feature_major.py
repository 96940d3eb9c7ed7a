"""Columns are tokens, as on the blackboard: X is (N, d, T) and matrices stand on the left."""
import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, width=22, heads=2, inner=37, longest=28):
        super().__init__()
        self.H = heads
        mat = lambda r, c: nn.Parameter(torch.randn(r, c) / c**0.5)
        col = lambda r: nn.Parameter(torch.zeros(r, 1))
        self.E, self.P = mat(width, source_words), mat(width, longest)
        self.WQ, self.WK, self.WV, self.WO = (mat(width, width) for _ in range(4))
        self.bQ, self.bK, self.bV, self.bO = (col(width) for _ in range(4))
        self.W1, self.b1, self.W2, self.b2 = mat(inner, width), col(inner), mat(width, inner), col(width)
        self.g1, self.h1, self.g2, self.h2 = nn.Parameter(torch.ones(width, 1)), col(width), nn.Parameter(torch.ones(width, 1)), col(width)
        self.U, self.u = mat(target_words, width), col(target_words)

    @staticmethod
    def normalise(X, g, h):
        X = X - X.mean(1, keepdim=True)
        return g * X / (X.square().mean(1, keepdim=True) + 1e-5).sqrt() + h

    def forward(self, ids):
        n, t = ids.shape
        X = self.E[:, ids].transpose(0, 1) + self.P[:, :t]
        Q, K, V = self.WQ @ X + self.bQ, self.WK @ X + self.bK, self.WV @ X + self.bV
        d = Q.shape[1] // self.H
        C = []
        for i in range(self.H):
            rows = slice(i * d, (i + 1) * d)
            A = torch.softmax(K[:, rows].transpose(1, 2) @ Q[:, rows] / d**0.5, dim=1)
            C.append(V[:, rows] @ A)
        Y = self.normalise(X + self.WO @ torch.cat(C, 1) + self.bO, self.g1, self.h1)
        Z = self.normalise(Y + self.W2 @ torch.relu(self.W1 @ Y + self.b1) + self.b2, self.g2, self.h2)
        return (self.U @ Z + self.u).transpose(1, 2)

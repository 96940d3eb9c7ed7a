import torch
from torch import nn


class MatrixTranslator(nn.Module):
    """Only matrices: a word is a one-hot row, a place is a row of the identity."""

    def __init__(self, n_source_words, n_target_words, d_model=30, n_heads=3, d_inner=50, max_len=64):
        super().__init__()
        def matrix(*s):
            return nn.Parameter(torch.empty(*s).normal_(0, s[0] ** -0.5))
        self.n_source_words, self.h, self.dk, self.max_len = n_source_words, n_heads, d_model // n_heads, max_len
        self.E, self.P = matrix(n_source_words, d_model), matrix(max_len, d_model)
        self.WQ, self.WK, self.WV, self.WO = (matrix(d_model, d_model) for _ in range(4))
        self.bO = nn.Parameter(torch.zeros(1, d_model))
        self.W1, self.b1 = matrix(d_model, d_inner), nn.Parameter(torch.zeros(1, d_inner))
        self.W2, self.b2 = matrix(d_inner, d_model), nn.Parameter(torch.zeros(1, d_model))
        self.W, self.b = matrix(d_model, n_target_words), nn.Parameter(torch.zeros(1, n_target_words))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, ids):
        n, t = ids.shape
        ones = torch.ones(t, 1, dtype=self.E.dtype)
        onehot = nn.functional.one_hot(ids, self.n_source_words).to(self.E.dtype)
        x = onehot @ self.E + torch.eye(t, self.max_len, dtype=self.E.dtype) @ self.P
        Q, K, V = x @ self.WQ, x @ self.WK, x @ self.WV
        heads = []
        for q, k, v in zip(Q.split(self.dk, -1), K.split(self.dk, -1), V.split(self.dk, -1)):
            A = torch.exp(torch.log_softmax(q @ k.transpose(1, 2) / self.dk ** 0.5, dim=2))
            heads.append(A @ v)
        H = torch.cat(heads, 2) @ self.WO + ones @ self.bO
        y = self.norm1(x + H)
        z = self.norm2(y + torch.relu(y @ self.W1 + ones @ self.b1) @ self.W2 + ones @ self.b2)
        return z @ self.W + ones @ self.b

"""Loops over sentences and over queries: matrix times vector, written into a tensor of zeros."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, input_size, output_size, hidden_dim, num_heads, dim_feedforward, dim_k, dim_v, max_length):
        super().__init__()
        self.H, self.dk, self.dv = num_heads, dim_k, dim_v
        self.E, self.P = nn.Embedding(input_size, hidden_dim), nn.Embedding(max_length, hidden_dim)
        self.q1, self.k1, self.v1 = (nn.Linear(hidden_dim, n) for n in (dim_k, dim_k, dim_v))
        self.q2, self.k2, self.v2 = (nn.Linear(hidden_dim, n) for n in (dim_k, dim_k, dim_v))
        self.project = nn.Linear(2 * dim_v, hidden_dim)
        self.n1, self.n2 = nn.LayerNorm(hidden_dim), nn.LayerNorm(hidden_dim)
        self.l1, self.l2 = nn.Linear(hidden_dim, dim_feedforward), nn.Linear(dim_feedforward, hidden_dim)
        self.last = nn.Linear(hidden_dim, output_size)

    def head(self, x, Q, K, V):
        out = torch.zeros(x.shape[0], x.shape[1], self.dv)
        for n in range(x.shape[0]):
            q, k, v = Q(x[n]), K(x[n]), V(x[n])
            for t in range(x.shape[1]):
                w = torch.softmax(k @ q[t] / self.dk**0.5, dim=0)
                out[n, t] = w @ v
        return out

    def forward(self, ids):
        x = self.E(ids) + self.P(torch.arange(ids.shape[1]).repeat(ids.shape[0], 1))
        both = torch.cat([self.head(x, self.q1, self.k1, self.v1), self.head(x, self.q2, self.k2, self.v2)], dim=2)
        x = self.n1(x + self.project(both))
        return self.last(self.n2(x + self.l2(torch.relu(self.l1(x)))))

"""View and transpose, nn.Linear for everything."""

import math

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, input_size, output_size, hidden_dim=128, num_heads=2, dim_feedforward=2048, max_length=43):
        super().__init__()
        self.hidden_dim, self.num_heads, self.head_dim = hidden_dim, num_heads, hidden_dim // num_heads
        self.word = nn.Embedding(input_size, hidden_dim)
        self.place = nn.Embedding(max_length, hidden_dim)
        self.q = nn.Linear(hidden_dim, hidden_dim)
        self.k = nn.Linear(hidden_dim, hidden_dim)
        self.v = nn.Linear(hidden_dim, hidden_dim)
        self.mix = nn.Linear(hidden_dim, hidden_dim)
        self.norm_mh = nn.LayerNorm(hidden_dim)
        self.norm_ff = nn.LayerNorm(hidden_dim)
        self.linear1 = nn.Linear(hidden_dim, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, hidden_dim)
        self.final = nn.Linear(hidden_dim, output_size)

    def embed(self, ids):
        places = torch.arange(ids.shape[1])
        return self.word(ids) + self.place(places)

    def attend(self, x):
        n, t, _ = x.shape
        q = self.q(x).view(n, t, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k(x).view(n, t, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v(x).view(n, t, self.num_heads, self.head_dim).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.head_dim)
        weights = torch.softmax(scores, dim=-1)
        heads = (weights @ v).transpose(1, 2).reshape(n, t, self.hidden_dim)
        return self.norm_mh(x + self.mix(heads))

    def feed_forward(self, y):
        hidden = torch.relu(self.linear1(y))
        return self.norm_ff(y + self.linear2(hidden))

    def forward(self, ids):
        x = self.embed(ids)
        y = self.attend(x)
        z = self.feed_forward(y)
        return self.final(z)

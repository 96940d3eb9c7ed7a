# ruff: noqa: N812, RUF059
"""A module per head, a Python loop, dropout inside, softmax by hand."""

import torch
import torch.nn.functional as F
from torch import nn


class Head(nn.Module):
    def __init__(self, width, size):
        super().__init__()
        self.key = nn.Linear(width, size, bias=False)
        self.query = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)
        self.size = size

    def forward(self, x):
        q, k, v = self.query(x), self.key(x), self.value(x)
        scores = q @ k.transpose(-2, -1) * self.size**-0.5
        raised = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
        weights = raised / raised.sum(dim=-1, keepdim=True)
        return weights @ v


class Translator(nn.Module):
    def __init__(self, vocab_size, output_size, n_embd=32, n_head=2, block_size=16, dropout=0.1):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, n_embd)
        self.places = nn.Embedding(block_size, n_embd)
        self.heads = nn.ModuleList([Head(n_embd, n_embd // n_head) for _ in range(n_head)])
        self.proj = nn.Linear(n_embd, n_embd)
        self.drop = nn.Dropout(dropout)
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)
        self.ffn = nn.Sequential(nn.Linear(n_embd, 29), nn.ReLU(), nn.Linear(29, n_embd))
        self.lm_head = nn.Linear(n_embd, output_size)

    def forward(self, idx):
        B, T = idx.shape
        pos = torch.arange(T, device=idx.device)
        x = self.drop(self.tokens(idx) + self.places(pos))
        out = torch.cat([h(x) for h in self.heads], dim=-1)
        x = self.ln1(x + self.drop(self.proj(out)))
        x = self.ln2(x + F.dropout(self.ffn(x), 0.1, self.training))
        return self.lm_head(x)

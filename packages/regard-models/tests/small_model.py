"""A file with a small torch model, as a user would hand it to ``regard model``, and some that cannot be looked into."""

from __future__ import annotations

MODEL = """
import torch
from torch import nn

class Untidy(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5)

    def forward(self, x):
        return self.attn(x, x, x, need_weights=False)[0]

def build(examples=1):
    torch.manual_seed(0)
    return Untidy(), torch.randn(examples, 5, 8)

def three():
    return build(examples=3)

def nothing():
    return nn.Linear(3, 3), torch.randn(2, 3)

def linear():
    class LinearAttention(nn.Module):
        def forward(self, x):
            return x @ (x.transpose(1, 2) @ x)
    return LinearAttention(), torch.randn(1, 5, 8)

def spoiled():
    made, words = build()
    with torch.no_grad():
        made.attn.in_proj_weight[0, 0] = float("nan")
    return made, words

def overflowing():  # finite weights, whose scores are infinite and their softmax NaN
    made, words = build()
    with torch.no_grad():
        made.attn.in_proj_weight[: 2 * made.attn.embed_dim] = 1e38  # queries and keys
    return made, words
"""

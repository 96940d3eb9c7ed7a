# ruff: noqa: N812
"""nn.MultiheadAttention inside, time first, positions as a parameter, a padding mask by key_padding_mask."""

import torch
from torch import nn
from torch.nn import functional as F

PAD = 0


class Translator(nn.Module):
    def __init__(self, input_dim, output_dim, hid_dim, n_heads, pf_dim, max_length):
        super().__init__()
        self.tok = nn.Embedding(input_dim, hid_dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.zeros(1, max_length, hid_dim))
        self.attention = nn.MultiheadAttention(hid_dim, n_heads)
        self.ln_attention = nn.LayerNorm(hid_dim)
        self.fc1 = nn.Linear(hid_dim, pf_dim)
        self.fc2 = nn.Linear(pf_dim, hid_dim)
        self.ln_ff = nn.LayerNorm(hid_dim)
        self.out = nn.Linear(hid_dim, output_dim)

    def forward(self, src):
        x = self.tok(src) + self.pos[:, : src.size(1)]
        x = x.transpose(0, 1)
        hide = src == PAD
        a, _ = self.attention(x, x, x, key_padding_mask=hide)
        x = self.ln_attention(x + a)
        x = self.ln_ff(x + self.fc2(F.relu(self.fc1(x))))
        return self.out(x).transpose(0, 1)

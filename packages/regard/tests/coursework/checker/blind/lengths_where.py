import math

import torch
import torch.nn as nn


class Encoder(nn.Module):
    """The mask comes from the lengths of the sentences."""

    def __init__(self, src_vocab_size, tgt_vocab_size, emb_size=40, nhead=4, ffn_hid_dim=72, max_length=60, pad_idx=0):
        super().__init__()
        self.pad_idx = pad_idx
        self.nhead = nhead
        self.tok = nn.Embedding(src_vocab_size, emb_size, padding_idx=pad_idx)
        self.pos = nn.Embedding(max_length, emb_size)
        self.query, self.key, self.value, self.proj = [nn.Linear(emb_size, emb_size) for _ in range(4)]
        self.ffn1 = nn.Linear(emb_size, ffn_hid_dim)
        self.ffn2 = nn.Linear(ffn_hid_dim, emb_size)
        self.layer_norm_a = nn.LayerNorm(emb_size, eps=1e-6)
        self.layer_norm_b = nn.LayerNorm(emb_size, eps=1e-6)
        self.generator = nn.Linear(emb_size, tgt_vocab_size)

    def separate(self, t):
        b, s, e = t.size()
        return t.reshape(b, s, self.nhead, e // self.nhead).permute(0, 2, 1, 3)

    def forward(self, src, src_lengths=None):
        b, s = src.size()
        if src_lengths is None:
            src_lengths = (src != self.pad_idx).sum(dim=1)
        valid = torch.arange(s, device=src.device).expand(b, s) < src_lengths.unsqueeze(1)
        h = self.tok(src) + self.pos(torch.arange(s, device=src.device).expand(b, s))
        q, k, v = self.separate(self.query(h)), self.separate(self.key(h)), self.separate(self.value(h))
        energy = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(k.size(-1))
        lowest = torch.full_like(energy, torch.finfo(energy.dtype).min)
        energy = torch.where(valid[:, None, None, :], energy, lowest)
        weights = nn.functional.softmax(energy, dim=3)
        context = torch.matmul(weights, v).permute(0, 2, 1, 3).reshape(b, s, -1)
        h = self.layer_norm_a(h + self.proj(context))
        h = self.layer_norm_b(h + self.ffn2(self.ffn1(h).relu()))
        return self.generator(h)

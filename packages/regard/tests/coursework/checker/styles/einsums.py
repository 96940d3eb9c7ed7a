"""Bare parameters and einsum; a padding mask by masked_fill; a norm written by hand."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model, n_heads, d_k, d_ff, max_len, pad_idx=0):
        super().__init__()
        self.pad, self.d_k = pad_idx, d_k
        self.E = nn.Parameter(torch.randn(src_vocab, d_model))
        self.P = nn.Parameter(torch.randn(max_len, d_model))
        self.WQ = nn.Parameter(torch.randn(n_heads, d_model, d_k))
        self.WK = nn.Parameter(torch.randn(n_heads, d_model, d_k))
        self.WV = nn.Parameter(torch.randn(n_heads, d_model, d_k))
        self.WO = nn.Parameter(torch.randn(n_heads, d_k, d_model))
        self.g1, self.s1 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.g2, self.s2 = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.W1, self.b1 = nn.Parameter(torch.randn(d_model, d_ff)), nn.Parameter(torch.zeros(d_ff))
        self.W2, self.b2 = nn.Parameter(torch.randn(d_ff, d_model)), nn.Parameter(torch.zeros(d_model))
        self.W, self.b = nn.Parameter(torch.randn(tgt_vocab, d_model)), nn.Parameter(torch.zeros(tgt_vocab))

    def norm(self, x, gain, shift):
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True)
        return gain * (x - mean) / torch.sqrt(var + 1e-5) + shift

    def forward(self, ids):
        T = ids.shape[1]
        x = self.E[ids] + self.P[:T]
        q = torch.einsum("ntd,hdk->nhtk", x, self.WQ)
        k = torch.einsum("ntd,hdk->nhtk", x, self.WK)
        v = torch.einsum("ntd,hdk->nhtk", x, self.WV)
        scores = torch.einsum("nhqk,nhsk->nhqs", q, k) / self.d_k**0.5
        padded = (ids == self.pad)[:, None, None, :]
        scores = scores.masked_fill(padded, float("-inf"))
        weights = scores.softmax(-1)
        heads = torch.einsum("nhqs,nhsk->nhqk", weights, v)
        m = torch.einsum("nhqk,hkd->nqd", heads, self.WO)
        y = self.norm(x + m, self.g1, self.s1)
        inner = torch.clamp(y @ self.W1 + self.b1, min=0)
        z = self.norm(y + inner @ self.W2 + self.b2, self.g2, self.s2)
        return z @ self.W.T + self.b

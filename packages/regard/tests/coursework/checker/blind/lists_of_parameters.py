import torch
import torch.nn as nn
import math


def softmax(x, dim):
    e = torch.exp(x - torch.amax(x, dim=dim, keepdim=True))
    return e / torch.sum(e, dim=dim, keepdim=True)


def layer_norm(x, weight, bias, eps=1e-5):
    mu = torch.sum(x, -1, keepdim=True) / x.shape[-1]
    sigma2 = torch.sum((x - mu) ** 2, -1, keepdim=True) / x.shape[-1]
    return weight * ((x - mu) / torch.sqrt(sigma2 + eps)) + bias


def linear(x, w, b):
    return torch.matmul(x, torch.t(w)) + b


class ScratchTransformer(nn.Module):
    def __init__(self, src_vocab_len, tgt_vocab_len, hidden_dim=32, num_heads=4, ff_dim=64, max_seq_len=64):
        super().__init__()
        self.num_heads = num_heads
        shapes = [
            (src_vocab_len, hidden_dim), (max_seq_len, hidden_dim),
            (hidden_dim, hidden_dim), (hidden_dim,), (hidden_dim, hidden_dim), (hidden_dim,),
            (hidden_dim, hidden_dim), (hidden_dim,), (hidden_dim, hidden_dim), (hidden_dim,),
            (hidden_dim,), (hidden_dim,), (ff_dim, hidden_dim), (ff_dim,), (hidden_dim, ff_dim), (hidden_dim,),
            (hidden_dim,), (hidden_dim,), (tgt_vocab_len, hidden_dim), (tgt_vocab_len,),
        ]
        self.params = nn.ParameterList([nn.Parameter(torch.randn(s) * 0.2) for s in shapes])

    def forward(self, tokens):
        E, P, wq, bq, wk, bk, wv, bv, wo, bo, g1, c1, w1, b1, w2, b2, g2, c2, w, b = self.params
        B, T = tokens.shape
        x = torch.index_select(E, 0, tokens.reshape(-1)).reshape(B, T, -1) + P.narrow(0, 0, T)
        D = x.shape[-1] // self.num_heads
        q = linear(x, wq, bq)
        k = linear(x, wk, bk)
        v = linear(x, wv, bv)
        outs = []
        for h in range(self.num_heads):
            lo, hi = h * D, h * D + D
            att = softmax(torch.matmul(q[:, :, lo:hi], k[:, :, lo:hi].transpose(1, 2)) / math.sqrt(D), dim=-1)
            outs.append(torch.matmul(att, v[:, :, lo:hi]))
        x = layer_norm(torch.add(x, linear(torch.cat(outs, -1), wo, bo)), g1, c1)
        hidden = torch.maximum(linear(x, w1, b1), torch.zeros(()))
        x = layer_norm(torch.add(x, linear(hidden, w2, b2)), g2, c2)
        return linear(x, w, b)

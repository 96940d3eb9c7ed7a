import torch
from torch import nn
import torch.nn.functional as F


class T(nn.Module):
    """LayerNorm by F.layer_norm with own parameters, batch of heads by one big bmm, baddbmm for bias"""
    def __init__(self, in_vocab, out_vocab, model_dim=24, n_heads=3, ff_dim=40, seq_len=50):
        super().__init__()
        self.dk = model_dim // n_heads
        self.nh = n_heads
        self.embed_w = nn.Parameter(torch.randn(in_vocab, model_dim))
        self.pos_w = nn.Parameter(torch.randn(seq_len, model_dim))
        self.wqkv = nn.Parameter(torch.randn(3 * n_heads, model_dim, self.dk) * 0.2)
        self.bqkv = nn.Parameter(torch.zeros(3 * n_heads, 1, self.dk))
        self.wo = nn.Parameter(torch.randn(n_heads, self.dk, model_dim) * 0.2)
        self.bo = nn.Parameter(torch.zeros(model_dim))
        self.gamma = nn.Parameter(torch.ones(2, model_dim))
        self.beta = nn.Parameter(torch.zeros(2, model_dim))
        self.w1 = nn.Parameter(torch.randn(model_dim, ff_dim) * 0.2)
        self.b1 = nn.Parameter(torch.zeros(ff_dim))
        self.w2 = nn.Parameter(torch.randn(ff_dim, model_dim) * 0.2)
        self.b2 = nn.Parameter(torch.zeros(model_dim))
        self.wout = nn.Parameter(torch.randn(out_vocab, model_dim))
        self.bout = nn.Parameter(torch.zeros(out_vocab))

    def forward(self, ids):
        N, L = ids.shape
        D = self.embed_w.shape[1]
        x = F.embedding(ids, self.embed_w) + F.embedding(torch.arange(L), self.pos_w)
        flat = x.reshape(1, N * L, D).expand(3 * self.nh, -1, -1)
        qkv = torch.baddbmm(self.bqkv, flat, self.wqkv)           # 3H, NL, dk
        qkv = qkv.view(3, self.nh, N, L, self.dk).flatten(1, 2)    # 3, HN, L, dk
        q, k, v = qkv.unbind(0)
        s = torch.baddbmm(torch.zeros(self.nh * N, L, L, dtype=x.dtype), q, k.transpose(1, 2), beta=0, alpha=self.dk ** -0.5)
        c = F.softmax(s, 2).bmm(v).view(self.nh, N * L, self.dk)
        o = c.bmm(self.wo).sum(0).view(N, L, D) + self.bo
        y = F.layer_norm(x + o, (D,), self.gamma[0], self.beta[0])
        f = torch.addmm(self.b2, F.relu_(torch.addmm(self.b1, y.view(-1, D), self.w1)), self.w2).view(N, L, D)
        z = F.layer_norm(y + f, (D,), self.gamma[1], self.beta[1])
        return F.linear(z, self.wout, self.bout)

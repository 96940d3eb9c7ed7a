import torch
from torch import nn


class ScaledSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores, scale):
        s = scores * scale
        s = s - s.max(dim=-1, keepdim=True).values
        e = s.exp()
        p = e / e.sum(dim=-1, keepdim=True)
        ctx.save_for_backward(p)
        ctx.scale = scale
        return p

    @staticmethod
    def backward(ctx, grad):
        (p,) = ctx.saved_tensors
        return ctx.scale * p * (grad - (grad * p).sum(-1, keepdim=True)), None


class MyLayerNormFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, g, b, eps):
        mu = x.mean(-1, keepdim=True)
        xc = x - mu
        rstd = (xc.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
        xhat = xc * rstd
        ctx.save_for_backward(xhat, rstd, g)
        return xhat * g + b

    @staticmethod
    def backward(ctx, dy):
        xhat, rstd, g = ctx.saved_tensors
        dxhat = dy * g
        dx = rstd * (dxhat - dxhat.mean(-1, keepdim=True) - xhat * (dxhat * xhat).mean(-1, keepdim=True))
        dims = tuple(range(dy.dim() - 1))
        return dx, (dy * xhat).sum(dims), dy.sum(dims), None


class Net(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, dim, heads, hidden, max_len=40):
        super().__init__()
        self.h = heads
        self.tok = nn.Embedding(src_vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim)
        self.wv = nn.Linear(dim, dim)
        self.wo = nn.Linear(dim, dim)
        self.g1, self.b1 = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.g2, self.b2 = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.out = nn.Linear(dim, tgt_vocab)

    def split(self, t):
        n, l, d = t.shape
        return t.view(n, l, self.h, d // self.h).transpose(1, 2)

    def forward(self, s):
        n, l = s.shape
        x = self.tok(s) + self.pos.weight[:l]
        q, k, v = map(self.split, (self.wq(x), self.wk(x), self.wv(x)))
        p = ScaledSoftmax.apply(q @ k.mT, q.size(-1) ** -0.5)
        a = (p @ v).transpose(1, 2).flatten(2)
        x = MyLayerNormFn.apply(x + self.wo(a), self.g1, self.b1, 1e-5)
        x = MyLayerNormFn.apply(x + self.down(self.up(x).clamp(min=0)), self.g2, self.b2, 1e-5)
        return self.out(x)

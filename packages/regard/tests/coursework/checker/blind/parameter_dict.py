import torch
import torch.nn.functional as F
from torch import nn


def init_params(src, tgt, d, h, dk, m, longest):
    g = lambda *shape: nn.Parameter(torch.randn(*shape) * 0.1)
    z = lambda n: nn.Parameter(torch.zeros(n))
    one = lambda n: nn.Parameter(torch.ones(n))
    return {
        "embed/tokens": g(src, d), "embed/positions": g(longest, d),
        "attn/wq": g(h * dk, d), "attn/bq": z(h * dk),
        "attn/wk": g(h * dk, d), "attn/bk": z(h * dk),
        "attn/wv": g(h * dk, d), "attn/bv": z(h * dk),
        "attn/wo": g(d, h * dk), "attn/bo": z(d),
        "norm1/scale": one(d), "norm1/offset": z(d),
        "mlp/w1": g(m, d), "mlp/b1": z(m), "mlp/w2": g(d, m), "mlp/b2": z(d),
        "norm2/scale": one(d), "norm2/offset": z(d),
        "head/w": g(tgt, d), "head/b": z(tgt),
    }


def layer_norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p[f"{name}/scale"], p[f"{name}/offset"], 1e-5)


def attention(p, x, h):
    q, k, v = (F.linear(x, p[f"attn/w{c}"], p[f"attn/b{c}"]) for c in "qkv")
    n, t, _ = q.shape
    heads = lambda a: a.view(n, t, h, -1).movedim(2, 0)
    q, k, v = heads(q), heads(k), heads(v)
    logits = q @ k.mT / k.shape[-1] ** 0.5
    mixed = logits.softmax(-1) @ v
    return F.linear(mixed.movedim(0, 2).flatten(2), p["attn/wo"], p["attn/bo"])


def mlp(p, x):
    return F.linear(F.relu(F.linear(x, p["mlp/w1"], p["mlp/b1"])), p["mlp/w2"], p["mlp/b2"])


def apply(p, ids, h):
    x = F.embedding(ids, p["embed/tokens"]) + F.embedding(torch.arange(ids.shape[1]), p["embed/positions"])
    x = layer_norm(p, "norm1", x + attention(p, x, h))
    x = layer_norm(p, "norm2", x + mlp(p, x))
    return F.linear(x, p["head/w"], p["head/b"])


class Net(nn.Module):
    def __init__(self, source_words, target_words, width=28, heads=3, head_width=8, inner=44, longest=64):
        super().__init__()
        self.heads = heads
        self.params = nn.ParameterDict(init_params(source_words, target_words, width, heads, head_width, inner, longest))

    def forward(self, ids):
        return apply(self.params, ids, self.heads)

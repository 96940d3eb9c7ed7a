"""Everything is a function of (params, x), jax style; the module only holds the dict."""
import torch
from torch import nn


def init_linear(n_in, n_out):
    return {"w": torch.randn(n_in, n_out) / n_in**0.5, "b": torch.zeros(n_out)}


def linear(p, x):
    return x @ p["w"] + p["b"]


def layer_norm(p, x, eps=1e-5):
    mu = x.mean(-1, keepdim=True)
    var = ((x - mu) ** 2).mean(-1, keepdim=True)
    return (x - mu) / (var + eps) ** 0.5 * p["g"] + p["o"]


def softmax(z):
    z = z - z.amax(-1, keepdim=True)
    e = z.exp()
    return e / e.sum(-1, keepdim=True)


def attention(p, x, n_head):
    q, k, v = linear(p["q"], x), linear(p["k"], x), linear(p["v"], x)
    heads = []
    for qh, kh, vh in zip(q.chunk(n_head, -1), k.chunk(n_head, -1), v.chunk(n_head, -1)):
        heads.append(softmax(qh @ kh.mT * kh.size(-1) ** -0.5) @ vh)
    return linear(p["o"], torch.cat(heads, -1))


def transformer(params, ids, n_head):
    x = params["emb"]["tok"][ids] + params["emb"]["pos"][: ids.size(1)]
    x = layer_norm(params["ln1"], x + attention(params["attn"], x, n_head))
    x = layer_norm(params["ln2"], x + linear(params["ff2"], linear(params["ff1"], x).clamp(min=0)))
    return linear(params["out"], x)


def register(module, tree, prefix=""):
    out = {}
    for key, value in tree.items():
        name = f"{prefix}_{key}" if prefix else key
        if isinstance(value, dict):
            out[key] = register(module, value, name)
        else:
            setattr(module, name, nn.Parameter(value))
            out[key] = name
    return out


def resolve(module, tree):
    return {k: resolve(module, v) if isinstance(v, dict) else getattr(module, v) for k, v in tree.items()}


class TransformerTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, n_embd=48, n_head=3, n_inner=96, n_positions=50):
        super().__init__()
        self.n_head = n_head
        tree = {
            "emb": {"tok": torch.randn(n_src, n_embd), "pos": torch.randn(n_positions, n_embd)},
            "attn": {name: init_linear(n_embd, n_embd) for name in "qkvo"},
            "ln1": {"g": torch.ones(n_embd), "o": torch.zeros(n_embd)},
            "ff1": init_linear(n_embd, n_inner),
            "ff2": init_linear(n_inner, n_embd),
            "ln2": {"g": torch.ones(n_embd), "o": torch.zeros(n_embd)},
            "out": init_linear(n_embd, n_tgt),
        }
        self.tree = register(self, tree)

    def forward(self, ids):
        return transformer(resolve(self, self.tree), ids, self.n_head)

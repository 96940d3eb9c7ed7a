"""Functional style: parameters live in a ParameterDict, everything is a pure function."""
import torch
from torch import nn


def dense(p, name, x):
    return torch.einsum("...i,io->...o", x, p[name + "_kernel"]) + p[name + "_bias"]


def layer_norm(p, name, x, eps=1e-5):
    var, mean = torch.var_mean(x, dim=-1, keepdim=True, unbiased=False)
    return torch.addcmul(p[name + "_bias"], p[name + "_scale"], (x - mean) / torch.sqrt(var + eps))


def self_attention(p, x):
    q = torch.einsum("btd,dhk->bthk", x, p["q_kernel"]) + p["q_bias"]
    k = torch.einsum("btd,dhk->bthk", x, p["k_kernel"]) + p["k_bias"]
    v = torch.einsum("btd,dhk->bthk", x, p["v_kernel"]) + p["v_bias"]
    logits = torch.einsum("bthk,bshk->bhts", q / q.shape[-1] ** 0.5, k)
    logits = logits - torch.logsumexp(logits, -1, keepdim=True)
    out = torch.einsum("bhts,bshk->bthk", logits.exp(), v)
    return torch.einsum("bthk,hkd->btd", out, p["o_kernel"]) + p["o_bias"]


class Encoder(nn.Module):
    def __init__(self, num_source_tokens, num_target_tokens, features=24, num_heads=2, qkv_features=20, mlp_dim=60, maxlen=32):
        super().__init__()
        hk = qkv_features // num_heads
        g = lambda *s: nn.Parameter(torch.randn(*s) * 0.1)
        self.params = nn.ParameterDict({
            "tok": g(num_source_tokens, features), "pos": g(maxlen, features),
            "q_kernel": g(features, num_heads, hk), "q_bias": g(num_heads, hk),
            "k_kernel": g(features, num_heads, hk), "k_bias": g(num_heads, hk),
            "v_kernel": g(features, num_heads, hk), "v_bias": g(num_heads, hk),
            "o_kernel": g(num_heads, hk, features), "o_bias": g(features),
            "ln1_scale": nn.Parameter(torch.ones(features)), "ln1_bias": g(features),
            "wi_kernel": g(features, mlp_dim), "wi_bias": g(mlp_dim),
            "wo_kernel": g(mlp_dim, features), "wo_bias": g(features),
            "ln2_scale": nn.Parameter(torch.ones(features)), "ln2_bias": g(features),
            "logits_kernel": g(features, num_target_tokens), "logits_bias": g(num_target_tokens),
        })

    def forward(self, tokens):
        p = self.params
        x = p["tok"].take_along_dim(tokens.reshape(-1, 1).expand(-1, p["tok"].shape[1]), 0).view(*tokens.shape, -1)
        x = x + p["pos"].narrow(0, 0, tokens.shape[1])
        x = layer_norm(p, "ln1", x + self_attention(p, x))
        x = layer_norm(p, "ln2", x + dense(p, "wo", torch.maximum(dense(p, "wi", x), torch.zeros(()))))
        return dense(p, "logits", x)

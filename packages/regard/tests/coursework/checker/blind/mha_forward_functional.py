import torch
import torch.nn as nn
import torch.nn.functional as F


class FunctionalTranslator(nn.Module):
    def __init__(self, vocab_in, vocab_out, dim=32, n_heads=4, ff=64, max_len=64):
        super().__init__()
        self.n_heads, self.dim = n_heads, dim
        self.p = nn.ParameterDict({
            "tok": torch.randn(vocab_in, dim), "pos": torch.randn(max_len, dim),
            "in_w": torch.randn(3 * dim, dim) / dim**0.5, "in_b": torch.zeros(3 * dim),
            "out_w": torch.randn(dim, dim) / dim**0.5, "out_b": torch.zeros(dim),
            "n1_w": torch.ones(dim), "n1_b": torch.zeros(dim), "n2_w": torch.ones(dim), "n2_b": torch.zeros(dim),
            "w1": torch.randn(ff, dim) / dim**0.5, "b1": torch.zeros(ff),
            "w2": torch.randn(dim, ff) / ff**0.5, "b2": torch.zeros(dim),
            "w": torch.randn(vocab_out, dim) / dim**0.5, "b": torch.zeros(vocab_out),
        })

    def forward(self, tokens):
        p = self.p
        x = F.embedding(tokens, p["tok"]) + p["pos"][: tokens.shape[1]]
        xt = x.transpose(0, 1)
        a, _ = F.multi_head_attention_forward(
            xt, xt, xt, self.dim, self.n_heads, p["in_w"], p["in_b"], None, None, False, 0.0,
            p["out_w"], p["out_b"], training=self.training, need_weights=False,
        )
        x = F.layer_norm(x + a.transpose(0, 1), (self.dim,), p["n1_w"], p["n1_b"])
        h = F.linear(F.relu(F.linear(x, p["w1"], p["b1"])), p["w2"], p["b2"])
        x = F.layer_norm(x + h, (self.dim,), p["n2_w"], p["n2_b"])
        return F.linear(x, p["w"], p["b"])

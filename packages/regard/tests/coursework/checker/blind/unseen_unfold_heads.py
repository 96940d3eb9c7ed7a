import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, n_heads=2, d_ff=2048, max_len=43):
        super().__init__()
        self.dh = d_model // n_heads
        self.tok_embed = nn.Embedding(source_words, d_model)
        self.pos_embed = nn.Embedding(max_len, d_model)
        self.proj_q = nn.Linear(d_model, d_model)
        self.proj_k = nn.Linear(d_model, d_model)
        self.proj_v = nn.Linear(d_model, d_model)
        self.proj_o = nn.Linear(d_model, d_model)
        self.norm_a = nn.LayerNorm(d_model)
        self.norm_f = nn.LayerNorm(d_model)
        self.fc_a = nn.Linear(d_model, d_ff)
        self.fc_b = nn.Linear(d_ff, d_model)
        self.logit = nn.Linear(d_model, target_words)

    def forward(self, x):
        pad = x.logical_not()
        h = self.tok_embed(x) + self.pos_embed(torch.arange(x.size(1), device=x.device))
        # (N, T, d) -> (N, T, heads, dh)
        q = self.proj_q(h).unfold(-1, self.dh, self.dh)
        k = self.proj_k(h).unfold(-1, self.dh, self.dh)
        v = self.proj_v(h).unfold(-1, self.dh, self.dh)
        s = torch.einsum("nqhd,nkhd->nqhk", q, k) * (1.0 / self.dh ** 0.5)
        s = s.masked_fill(pad[:, None, None, :], float("-inf"))
        y = torch.einsum("nqhk,nkhd->nqhd", F.softmax(s, dim=-1), v)
        h = self.norm_a(h + self.proj_o(y.flatten(-2)))
        h = self.norm_f(h + self.fc_b(F.threshold(self.fc_a(h), 0.0, 0.0)))
        return self.logit(h)

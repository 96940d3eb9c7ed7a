import torch
import torch.nn as nn


class OneHead(nn.Module):
    """softmax(Q K^T / sqrt(d)) V W_O for one head. Adding the heads = concatenating them and one big W_O."""

    def __init__(self, d_model, d_head):
        super().__init__()
        self.wq = nn.Linear(d_model, d_head)
        self.wk = nn.Linear(d_model, d_head)
        self.wv = nn.Linear(d_model, d_head)
        self.wo = nn.Linear(d_head, d_model, bias=False)

    def forward(self, x, mask):
        q, k, v = self.wq(x), self.wk(x), self.wv(x)
        s = q @ k.transpose(1, 2) / (k.shape[-1] ** 0.5)
        s = s.masked_fill(mask[:, None, :], -torch.inf)
        return self.wo(s.softmax(dim=-1) @ v)


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, n_heads=2, d_head=96, d_ff=2048, max_len=43):
        super().__init__()
        self.tok = nn.Embedding(source_words, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.heads = nn.ModuleList(OneHead(d_model, d_head) for _ in range(n_heads))
        self.attn_bias = nn.Parameter(torch.zeros(d_model))
        self.norm1 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Linear(d_ff, d_model))
        self.norm2 = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, target_words)

    def forward(self, ids):
        mask = ids == 0
        x = self.tok(ids) + self.pos.weight[None, : ids.shape[1]]
        a = self.attn_bias
        for head in self.heads:
            a = a + head(x, mask)
        x = self.norm1(x + a)
        return self.out(self.norm2(x + self.ff(x)))

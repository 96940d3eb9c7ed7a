import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, d_model=128, n_heads=2, d_ff=2048, max_len=64):
        super().__init__()
        self.n_heads = n_heads
        self.embedding = nn.Embedding(n_src, d_model)
        self.pos_embedding = nn.Embedding(max_len, d_model)
        self.in_map = nn.Linear(d_model, d_model * 3)
        self.out_map = nn.Linear(d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.linear3 = nn.Linear(d_model, n_tgt)

    def _sa_block(self, x):
        b, t, d = x.shape
        q, k, v = (y.reshape(b, t, self.n_heads, -1).movedim(1, 2) for y in torch.tensor_split(self.in_map(x), 3, dim=-1))
        return self.out_map(F.scaled_dot_product_attention(q, k, v).movedim(2, 1).reshape(b, t, d))

    def _ff_block(self, x):
        return self.linear2(F.relu(self.linear1(x)))

    def forward(self, src):
        pos = self.pos_embedding(torch.arange(src.size(1), device=src.device))
        x = self.embedding(src)
        x = self.norm1(x + self._sa_block(x))
        x = x + pos
        x = self.norm2(x + self._ff_block(x))
        return self.linear3(x)

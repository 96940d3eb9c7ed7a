import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, source_vocab_size, target_vocab_size, d_model=64, n_heads=4, d_ff=256, max_len=64, dropout=0.0):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.p = dropout
        self.tok = nn.Embedding(source_vocab_size, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(inplace=True), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.lm_head = nn.Linear(d_model, target_vocab_size)

    def forward(self, src):
        B, T = src.size()
        pad = src.eq(0)
        keep = ~pad[:, None, None, :]
        x = self.tok(src) + self.pos(torch.arange(T, device=src.device)).unsqueeze(0)
        q, k, v = self.in_proj(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=self.p if self.training else 0.0)
        a = a.movedim(1, 2).flatten(-2)
        x = self.ln1(x + F.dropout(self.out_proj(a), self.p, self.training))
        x = self.ln2(x + self.mlp(x))
        return self.lm_head(x)

import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, n_embed=128, n_heads=4, n_hidden=512, context=64):
        super().__init__()
        self.n_heads = n_heads
        self.wte = nn.Embedding(source_words, n_embed)
        self.wpe = nn.Embedding(context, n_embed)
        self.qkv = nn.Linear(n_embed, 3 * n_embed)
        self.proj = nn.Linear(n_embed, n_embed)
        self.ln_1 = nn.LayerNorm(n_embed)
        self.mlp_fc = nn.Linear(n_embed, n_hidden)
        self.mlp_proj = nn.Linear(n_hidden, n_embed)
        self.ln_2 = nn.LayerNorm(n_embed)
        self.head = nn.Linear(n_embed, target_words)

    def attention(self, x):
        n, t, c = x.shape
        q, k, v = (y.reshape(n, t, self.n_heads, -1).transpose(1, 2) for y in self.qkv(x).split(c, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=c ** -0.5)
        return self.proj(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1), device=ids.device))
        x = self.ln_1(x + self.attention(x))
        x = self.ln_2(x + self.mlp_proj(F.relu(self.mlp_fc(x))))
        return self.head(x)

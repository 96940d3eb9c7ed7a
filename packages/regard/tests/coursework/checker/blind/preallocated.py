import numpy as np
import torch
import torch.nn as nn


class MyTransformer(nn.Module):
    def __init__(self, vocab_src, vocab_tgt, hidden_size=32, n_heads=4, ffn_size=64, max_length=64):
        super().__init__()
        self.n_heads = n_heads
        self.head_size = hidden_size // n_heads
        self.word_emb = nn.Embedding(vocab_src, hidden_size)
        self.pos_emb = nn.Embedding(max_length, hidden_size)
        self.Wq = nn.Parameter(torch.randn(n_heads, hidden_size, self.head_size) * 0.1)
        self.Wk = nn.Parameter(torch.randn(n_heads, hidden_size, self.head_size) * 0.1)
        self.Wv = nn.Parameter(torch.randn(n_heads, hidden_size, self.head_size) * 0.1)
        self.Wo = nn.Linear(hidden_size, hidden_size)
        self.ln1 = nn.LayerNorm(hidden_size)
        self.ln2 = nn.LayerNorm(hidden_size)
        self.ffn = nn.Sequential(nn.Linear(hidden_size, ffn_size), nn.ReLU(), nn.Linear(ffn_size, hidden_size))
        self.classifier = nn.Linear(hidden_size, vocab_tgt)

    def self_attention(self, x):
        batch, length, width = x.shape
        heads = torch.empty(batch, length, width, dtype=x.dtype, device=x.device)
        for b in range(batch):
            for h in range(self.n_heads):
                q = x[b] @ self.Wq[h]
                k = x[b] @ self.Wk[h]
                v = x[b] @ self.Wv[h]
                scores = q @ k.T
                scores = scores / np.sqrt(self.head_size)
                heads[b, :, h * self.head_size : (h + 1) * self.head_size] = torch.softmax(scores, dim=1) @ v
        return self.Wo(heads)

    def forward(self, src):
        pos = torch.arange(src.shape[1]).expand_as(src)
        x = self.word_emb(src) + self.pos_emb(pos)
        y = self.ln1(x + self.self_attention(x))
        return self.classifier(self.ln2(y + self.ffn(y)))

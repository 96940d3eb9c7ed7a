import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, n_heads=2, d_ff=2048, max_len=43):
        super().__init__()
        self.n_heads = n_heads
        self.hw = d_model // n_heads
        self.A = nn.Embedding(source_words, d_model)
        self.B = nn.Embedding(max_len, d_model)
        self.Wq = nn.Linear(d_model, d_model)
        self.Wk = nn.Linear(d_model, d_model)
        self.Wv = nn.Linear(d_model, d_model)
        self.Wo = nn.Linear(d_model, d_model)
        self.lna = nn.LayerNorm(d_model)
        self.lnb = nn.LayerNorm(d_model)
        self.h1 = nn.Linear(d_model, d_ff)
        self.h2 = nn.Linear(d_ff, d_model)
        self.C = nn.Linear(d_model, target_words)

    def heads(self, x, ids):
        Q, K, V = self.Wq(x), self.Wk(x), self.Wv(x)
        hidden = (ids == 0)[:, None, :]
        for i in range(self.n_heads):
            a = i
            q, k, v = Q[:, :, a:a + self.hw], K[:, :, a:a + self.hw], V[:, :, a:a + self.hw]
            s = torch.matmul(q, k.transpose(1, 2)) / self.hw ** 0.5
            yield torch.softmax(s.masked_fill(hidden, float("-inf")), 2).matmul(v)

    def forward(self, ids):
        x = self.A(ids) + self.B(torch.arange(ids.shape[1]))
        x = self.lna(x + self.Wo(torch.cat(list(self.heads(x, ids)), 2)))
        x = self.lnb(x + self.h2(torch.relu(self.h1(x))))
        return self.C(x)

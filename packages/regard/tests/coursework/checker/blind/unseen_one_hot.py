import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=64, n_heads=2, d_ff=256, max_len=43):
        super().__init__()
        self.V = source_words
        self.L = max_len
        self.nh = n_heads
        self.word_table = nn.Parameter(torch.randn(source_words, d_model) * 0.1)
        self.place_table = nn.Parameter(torch.randn(max_len, d_model) * 0.1)
        self.Wq, self.Wk, self.Wv, self.Wo = (nn.Linear(d_model, d_model) for _ in range(4))
        self.ln_a = nn.LayerNorm(d_model)
        self.lin1 = nn.Linear(d_model, d_ff)
        self.lin2 = nn.Linear(d_ff, d_model)
        self.ln_b = nn.LayerNorm(d_model)
        self.lin3 = nn.Linear(d_model, target_words)

    def embed(self, ids):
        words = F.one_hot(ids, self.V).to(self.word_table.dtype) @ self.word_table
        eye = torch.eye(self.L, dtype=self.word_table.dtype)[: ids.shape[1]]
        return words + eye @ self.place_table

    def attend(self, x, is_pad):
        b, t, d = x.shape
        h = self.nh
        q = torch.stack(self.Wq(x).split(d // h, dim=-1))   # h, b, t, d/h
        k = torch.stack(self.Wk(x).split(d // h, dim=-1))
        v = torch.stack(self.Wv(x).split(d // h, dim=-1))
        s = torch.matmul(q, k.permute(0, 1, 3, 2)) / (d // h) ** .5
        s[:, is_pad.unsqueeze(1).expand(b, t, t)] = -1e12
        y = torch.matmul(F.softmax(s, dim=3), v)
        return self.Wo(torch.cat(list(y), dim=-1))

    def forward(self, ids):
        x = self.embed(ids)
        x = self.ln_a(x + self.attend(x, ids == 0))
        x = self.ln_b(x + self.lin2(F.relu(self.lin1(x))))
        return self.lin3(x)

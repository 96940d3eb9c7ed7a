import torch
import torch.nn as nn


class SlowAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.dh = d_model // n_heads
        self.lin_q = nn.Linear(d_model, d_model)
        self.lin_k = nn.Linear(d_model, d_model)
        self.lin_v = nn.Linear(d_model, d_model)
        self.lin_o = nn.Linear(d_model, d_model)

    def forward(self, x, pad):
        b, t, _ = x.shape
        q = self.lin_q(x).reshape(b, t, self.n_heads, self.dh)
        k = self.lin_k(x).reshape(b, t, self.n_heads, self.dh)
        v = self.lin_v(x).reshape(b, t, self.n_heads, self.dh)
        rows = []
        for i in range(t):
            # score of word i with all the words: (b, t, heads)
            s = (q[:, i:i + 1] * k).sum(-1) / self.dh ** 0.5
            s = s.masked_fill(pad.unsqueeze(-1), -1e9)
            w = torch.softmax(s, dim=1)
            rows.append((w.unsqueeze(-1) * v).sum(dim=1).reshape(b, -1))
        return self.lin_o(torch.stack(rows, dim=1))


class TransformerTranslator(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model=128, n_heads=2, d_ff=2048, max_len=50, dropout=0.1):
        super().__init__()
        self.src = nn.Embedding(src_vocab, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.att = SlowAttention(d_model, n_heads)
        self.ln_1 = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d_model))
        self.ln_2 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(d_model, tgt_vocab)

    def forward(self, src_ids):
        pos_ids = torch.arange(src_ids.size(1)).unsqueeze(0).expand_as(src_ids)
        h = self.src(src_ids) + self.pos(pos_ids)
        h = self.ln_1(h + self.drop(self.att(h, src_ids.eq(0))))
        h = self.ln_2(h + self.drop(self.ffn(h)))
        return self.out(h)

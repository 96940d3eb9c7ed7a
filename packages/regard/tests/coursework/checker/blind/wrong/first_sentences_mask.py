import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, n_units, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.d_k = n_units // n_heads
        self.linears = nn.ModuleList([nn.Linear(n_units, n_units) for _ in range(3)])
        self.output = nn.Linear(n_units, n_units)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        bs = x.size(0)
        q, k, v = [l(x).view(bs, -1, self.n_heads, self.d_k).transpose(1, 2).contiguous() for l in self.linears]
        x = torch.matmul(q, k.transpose(-2, -1)) / (self.d_k ** 0.5)
        x = x.masked_fill(mask, -1e9)
        x = self.dropout(torch.softmax(x, -1))
        x = torch.matmul(x, v).transpose(1, 2).contiguous().view(bs, -1, self.n_heads * self.d_k)
        return self.output(x)


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, n_units=128, n_heads=2, n_ff=2048, max_len=43, dropout=0.1):
        super().__init__()
        self.tok = nn.Embedding(source_words, n_units)
        self.pos = nn.Embedding(max_len, n_units)
        self.sa = SelfAttention(n_units, n_heads, dropout)
        self.ln1 = nn.LayerNorm(n_units)
        self.ff1 = nn.Linear(n_units, n_ff)
        self.ff2 = nn.Linear(n_ff, n_units)
        self.ln2 = nn.LayerNorm(n_units)
        self.dropout = nn.Dropout(dropout)
        self.lm_head = nn.Linear(n_units, target_words)

    def forward(self, ids):
        pad = (ids == 0)
        mask = pad[0]
        x = self.dropout(self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device)))
        x = self.ln1(x + self.dropout(self.sa(x, mask)))
        x = self.ln2(x + self.dropout(self.ff2(self.dropout(torch.relu(self.ff1(x))))))
        return self.lm_head(x)

import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, d_model=128, n_heads=2, d_ff=2048, max_len=43, dropout=0.1):
        super().__init__()
        self.tok_embedding = nn.Embedding(n_src, d_model)
        self.pos_embedding = nn.Embedding(max_len, d_model)
        self.multi_head = nn.MultiheadAttention(d_model, n_heads, dropout=dropout, batch_first=True)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model, dropout)
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)
        self.out = nn.Linear(d_model, n_tgt)

    def forward(self, src):
        words = self.tok_embedding(src)
        x = words + self.pos_embedding(torch.arange(src.size(1), device=src.device))
        attended, weights = self.multi_head(x, x, x, key_padding_mask=src == 0)
        x = self.norm1(words + self.dropout(attended))
        y = self.contract(self.dropout(torch.relu(self.hidden(x))))
        x = self.norm2(x + self.dropout(y))
        return self.out(x)

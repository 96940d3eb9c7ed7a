import torch
from torch import nn


class PositionalEmbedding(nn.Embedding):
    def forward(self, x):
        return super().forward(torch.arange(x.size(1), device=x.device)).expand(x.size(0), -1, -1)


class TransformerTranslator(nn.Module):
    def __init__(self, input_dim, output_dim, hid_dim, n_heads, pf_dim, dropout, max_length=100):
        super().__init__()
        self.tok_embedding = nn.Embedding(input_dim, hid_dim)
        self.pos_embedding = PositionalEmbedding(max_length, hid_dim)
        self.layer = nn.TransformerEncoderLayer(hid_dim, n_heads, pf_dim, dropout, activation=nn.functional.relu, batch_first=True, norm_first=False)
        self.fc_out = nn.Linear(hid_dim, output_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src):
        x = self.dropout(self.tok_embedding(src) + self.pos_embedding(src))
        x = self.layer(x, src_key_padding_mask=(src == 0))
        return self.fc_out(x)

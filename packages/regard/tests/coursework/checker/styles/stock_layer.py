"""nn.TransformerEncoderLayer does it all; batch first."""

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, ntoken, output_size, d_model, nhead, d_hid, max_len, dropout=0.1):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.layer = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout, batch_first=True)
        self.decoder = nn.Linear(d_model, output_size)

    def forward(self, src):
        x = self.encoder(src) + self.places(torch.arange(src.size(1)))[None]
        return self.decoder(self.layer(x, src_key_padding_mask=src.eq(0)))

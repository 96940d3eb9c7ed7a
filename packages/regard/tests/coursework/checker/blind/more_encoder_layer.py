import math

import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model=128, nhead=2, dim_feedforward=256, max_len=20, dropout=0.1):
        super().__init__()
        self.tok = nn.Embedding(src_vocab, d_model, padding_idx=0)
        self.pos = nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1)
        self.generator = nn.Linear(d_model, tgt_vocab)

    def forward(self, src):
        positions = torch.arange(src.shape[1], device=src.device).expand_as(src)
        h = self.tok(src) + self.pos(positions)
        return self.generator(self.encoder(h, src_key_padding_mask=src.eq(0)))

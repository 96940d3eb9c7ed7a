import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    """nn.TransformerEncoder, as in the torch tutorial, with learned positions."""

    def __init__(self, ntoken_src, ntoken_tgt, d_model=32, nhead=2, d_hid=64, nlayers=1, dropout=0.2, max_len=100):
        super().__init__()
        self.embedding = nn.Embedding(ntoken_src, d_model)
        self.pos_embedding = nn.Embedding(max_len, d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, d_hid, dropout, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, nlayers, enable_nested_tensor=False)
        self.linear = nn.Linear(d_model, ntoken_tgt)
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-initrange, initrange)

    def forward(self, src, src_key_padding_mask=None):
        positions = torch.arange(src.shape[1], device=src.device)
        x = self.embedding(src) + self.pos_embedding(positions)
        x = self.transformer_encoder(x, src_key_padding_mask=src_key_padding_mask)
        return self.linear(x)

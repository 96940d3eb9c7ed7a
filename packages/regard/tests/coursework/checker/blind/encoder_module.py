import torch
import torch.nn as nn


class PyTorchTranslator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, emb_size=32, nhead=4, dim_feedforward=64, maxlen=5000, dropout=0.1):
        super().__init__()
        self.src_tok_emb = nn.Embedding(src_vocab_size, emb_size)
        self.positional = nn.Embedding(maxlen, emb_size)
        encoder_layer = nn.TransformerEncoderLayer(d_model=emb_size, nhead=nhead, dim_feedforward=dim_feedforward, dropout=dropout, activation="relu", batch_first=True, norm_first=False)
        self.transformer_encoder = nn.TransformerEncoder(encoder_layer, num_layers=1, enable_nested_tensor=False)
        self.fc_out = nn.Linear(emb_size, tgt_vocab_size)
        self._reset()

    def _reset(self):
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, src):
        src_key_padding_mask = (src == 0)
        positions = torch.arange(0, src.size(1), device=src.device).unsqueeze(0).expand_as(src)
        memory = self.transformer_encoder(self.src_tok_emb(src) + self.positional(positions), src_key_padding_mask=src_key_padding_mask)
        return self.fc_out(memory)

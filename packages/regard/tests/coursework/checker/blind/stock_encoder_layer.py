import torch.nn as nn
import torch


class Seq2Tags(nn.Module):
    def __init__(self, src_vocab, tgt_vocab, d_model=32, nhead=4, dim_feedforward=64, dropout=0.1, max_seq_len=64):
        super(Seq2Tags, self).__init__()
        self.register_buffer("position_ids", torch.arange(max_seq_len).expand((1, -1)), persistent=False)
        self.token_type = nn.Embedding(src_vocab, d_model)
        self.position = nn.Embedding(max_seq_len, d_model)
        self.layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward, dropout, batch_first=True)
        self.generator = nn.Linear(d_model, tgt_vocab)

    def forward(self, input_ids):
        seq_length = input_ids.size(1)
        embeddings = self.token_type(input_ids) + self.position(self.position_ids[:, :seq_length])
        return self.generator(self.layer(embeddings))

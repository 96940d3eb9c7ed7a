import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, src_vocab_size, trg_vocab_size, embedding_size=32, num_heads=4, forward_expansion=2, dropout=0.0, max_len=64, src_pad_idx=0):
        super().__init__()
        self.src_word_embedding = nn.Embedding(src_vocab_size, embedding_size)
        self.src_position_embedding = nn.Embedding(max_len, embedding_size)
        self.attention = nn.MultiheadAttention(embedding_size, num_heads, dropout=dropout)
        self.norm1 = nn.LayerNorm(embedding_size)
        self.norm2 = nn.LayerNorm(embedding_size)
        self.mlp = nn.Sequential(
            nn.Linear(embedding_size, forward_expansion * embedding_size),
            nn.ReLU(),
            nn.Linear(forward_expansion * embedding_size, embedding_size),
        )
        self.dropout = nn.Dropout(dropout)
        self.fc_out = nn.Linear(embedding_size, trg_vocab_size)
        self.src_pad_idx = src_pad_idx

    def forward(self, src):
        N, src_seq_length = src.shape
        src_positions = torch.arange(0, src_seq_length).unsqueeze(0).expand(N, src_seq_length).to(src.device)
        pad_mask = src == self.src_pad_idx
        x = self.dropout(self.src_word_embedding(src) + self.src_position_embedding(src_positions))
        x = x.permute(1, 0, 2)
        a, weights = self.attention(x, x, x, key_padding_mask=pad_mask)
        x = self.norm1(a + x)
        x = self.norm2(self.mlp(x) + x)
        return self.fc_out(x).permute(1, 0, 2)

import torch
from torch import nn


class TransformerTranslator(nn.Module):
    def __init__(self, src_vocab_size, trg_vocab_size, embedding_size, num_heads, forward_expansion, max_len, dropout=0):
        super().__init__()
        self.src_word_embedding = nn.Embedding(src_vocab_size, embedding_size)
        self.src_position_embedding = nn.Embedding(max_len, embedding_size)
        self.attention = nn.MultiheadAttention(embedding_size, num_heads, dropout=dropout)
        self.norm1 = nn.LayerNorm(embedding_size)
        self.norm2 = nn.LayerNorm(embedding_size)
        self.fc1 = nn.Linear(embedding_size, forward_expansion * embedding_size)
        self.fc2 = nn.Linear(forward_expansion * embedding_size, embedding_size)
        self.fc_out = nn.Linear(embedding_size, trg_vocab_size)
        self.dropout = nn.Dropout(dropout)
        self.src_pad_idx = 0

    def make_src_mask(self, src):
        return src.transpose(0, 1) == self.src_pad_idx

    def forward(self, src):
        src = src.t()
        src_seq_length, N = src.shape
        src_positions = torch.arange(0, src_seq_length).unsqueeze(1).expand(src_seq_length, N).to(src.device)
        embed_src = self.dropout(self.src_word_embedding(src) + self.src_position_embedding(src_positions))
        att, _ = self.attention(embed_src, embed_src, embed_src, key_padding_mask=self.make_src_mask(src))
        x = self.norm1(embed_src + self.dropout(att))
        x = self.norm2(x + self.dropout(self.fc2(torch.relu(self.fc1(x)))))
        out = self.fc_out(x)
        return out.transpose(0, 1)

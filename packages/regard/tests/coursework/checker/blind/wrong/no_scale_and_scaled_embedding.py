import math
import torch
import torch.nn as nn


class TokenEmbedding(nn.Module):
    def __init__(self, vocab_size: int, emb_size):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_size)
        self.emb_size = emb_size

    def forward(self, tokens):
        return self.embedding(tokens.long()) * math.sqrt(self.emb_size)


class PositionalEmbedding(nn.Module):
    def __init__(self, emb_size: int, dropout: float, maxlen: int = 5000):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.randn(maxlen, emb_size) * 0.02)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token_embedding):
        return self.dropout(token_embedding + self.pos_embedding[: token_embedding.size(1), :])


class TransformerTranslator(nn.Module):
    def __init__(self, src_vocab_size: int, tgt_vocab_size: int, emb_size: int = 128, nhead: int = 2,
                 dim_feedforward: int = 512, maxlen: int = 64, dropout: float = 0.1):
        super().__init__()
        self.nhead = nhead
        self.src_tok_emb = TokenEmbedding(src_vocab_size, emb_size)
        self.positional_encoding = PositionalEmbedding(emb_size, dropout, maxlen)
        self.wq = nn.Linear(emb_size, emb_size)
        self.wk = nn.Linear(emb_size, emb_size)
        self.wv = nn.Linear(emb_size, emb_size)
        self.wo = nn.Linear(emb_size, emb_size)
        self.ln1 = nn.LayerNorm(emb_size)
        self.ln2 = nn.LayerNorm(emb_size)
        self.fc1 = nn.Linear(emb_size, dim_feedforward)
        self.fc2 = nn.Linear(dim_feedforward, emb_size)
        self.generator = nn.Linear(emb_size, tgt_vocab_size)

    def attention(self, x, pad):
        B, T, D = x.shape
        dh = D // self.nhead
        q = self.wq(x).view(B, T, self.nhead, dh).transpose(1, 2)
        k = self.wk(x).view(B, T, self.nhead, dh).permute(0, 2, 3, 1)
        v = self.wv(x).view(B, T, self.nhead, dh).transpose(1, 2)
        scores = torch.matmul(q, k)
        scores = scores.masked_fill(pad[:, None, None, :], float("-inf"))
        return self.wo(torch.matmul(torch.softmax(scores, dim=-1), v).transpose(1, 2).reshape(B, T, D))

    def forward(self, src):
        x = self.positional_encoding(self.src_tok_emb(src))
        x = self.ln1(x + self.attention(x, src == 0))
        x = self.ln2(x + self.fc2(self.fc1(x).relu()))
        return self.generator(x)

import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledDotProductAttention(nn.Module):
    def forward(self, query, key, value, mask=None):
        dk = query.size()[-1]
        scores = query.matmul(key.transpose(-2, -1)) / (dk**0.5)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        attention = F.softmax(scores, dim=-1)
        return attention.matmul(value), attention


class TransformerTranslator(nn.Module):
    def __init__(self, src_vocab_size, tgt_vocab_size, in_features=24, head_num=3, ff_features=50, max_position=64):
        super().__init__()
        self.head_num = head_num
        self.E = nn.Embedding(src_vocab_size, in_features)
        self.Epos = nn.Embedding(max_position, in_features)
        self.linear_q = nn.Linear(in_features, in_features)
        self.linear_k = nn.Linear(in_features, in_features)
        self.linear_v = nn.Linear(in_features, in_features)
        self.linear_o = nn.Linear(in_features, in_features)
        self.sdpa = ScaledDotProductAttention()
        self.n1 = nn.LayerNorm(in_features)
        self.n2 = nn.LayerNorm(in_features)
        self.ff = nn.Sequential(nn.Linear(in_features, ff_features), nn.ReLU(), nn.Linear(ff_features, in_features))
        self.generator = nn.Linear(in_features, tgt_vocab_size)

    def _reshape_to_batches(self, x):
        batch_size, seq_len, in_feature = x.size()
        sub_dim = in_feature // self.head_num
        return x.reshape(batch_size, seq_len, self.head_num, sub_dim).permute(0, 2, 1, 3).reshape(batch_size * self.head_num, seq_len, sub_dim)

    def _reshape_from_batches(self, x):
        batch_size, seq_len, in_feature = x.size()
        batch_size //= self.head_num
        out_dim = in_feature * self.head_num
        return x.reshape(batch_size, self.head_num, seq_len, in_feature).permute(0, 2, 1, 3).reshape(batch_size, seq_len, out_dim)

    def forward(self, src):
        x = self.E(src) + self.Epos(torch.arange(src.size(1), device=src.device).unsqueeze(0))
        q, k, v = self.linear_q(x), self.linear_k(x), self.linear_v(x)
        q, k, v = map(self._reshape_to_batches, (q, k, v))
        y, weights = self.sdpa(q, k, v)
        y = self.linear_o(self._reshape_from_batches(y))
        x = self.n1(x + y)
        x = self.n2(x + self.ff(x))
        return self.generator(x), weights

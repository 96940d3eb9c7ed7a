import torch
import torch.nn.functional as F
from torch import nn


class MyLayer(nn.TransformerEncoderLayer):
    """The stock layer's weights, our own forward."""

    def forward(self, src):
        B, L, E = src.shape
        nh = self.self_attn.num_heads
        hd = E // nh
        w_q, w_k, w_v = self.self_attn.in_proj_weight.split(E)
        b_q, b_k, b_v = self.self_attn.in_proj_bias.split(E)
        q = F.linear(src, w_q, b_q).contiguous().view(B, L, nh, hd).transpose(1, 2)
        k = F.linear(src, w_k, b_k).contiguous().view(B, L, nh, hd).transpose(1, 2)
        v = F.linear(src, w_v, b_v).contiguous().view(B, L, nh, hd).transpose(1, 2)
        attn = (q / hd**0.5) @ k.transpose(-2, -1)
        attn = self.dropout(attn.softmax(dim=-1))
        ctx = (attn @ v).transpose(1, 2).contiguous().view(B, L, E)
        src = self.norm1(src + self.dropout1(self.self_attn.out_proj(ctx)))
        src = self.norm2(src + self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(src))))))
        return src


class StockHeir(nn.Module):
    def __init__(self, n_vocab_src, n_vocab_tgt, d_model=32, nhead=4, dim_feedforward=56, max_len=64, dropout=0.1):
        super().__init__()
        self.embedding = nn.Embedding(n_vocab_src, d_model)
        self.position = nn.Embedding(max_len, d_model)
        self.layer = MyLayer(d_model, nhead, dim_feedforward, dropout, batch_first=True)
        self.fc = nn.Linear(d_model, n_vocab_tgt)

    def forward(self, x):
        positions = torch.arange(0, x.shape[1]).unsqueeze(0).repeat(x.shape[0], 1)
        return self.fc(self.layer(self.embedding(x) + self.position(positions)))

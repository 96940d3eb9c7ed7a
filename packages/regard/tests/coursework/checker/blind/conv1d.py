import torch
from torch import nn
import torch.nn.functional as F


class ConvTranslator(nn.Module):
    """1x1 convolutions everywhere, channel-first inside"""
    def __init__(self, n_src_vocab, n_tgt_vocab, d_model=32, n_head=4, d_inner=64, max_len=50):
        super().__init__()
        self.n_head = n_head
        self.word = nn.Embedding(n_src_vocab, d_model)
        self.place = nn.Parameter(torch.randn(d_model, max_len) * 0.1)
        self.qkv = nn.Conv1d(d_model, 3 * d_model, 1)
        self.proj = nn.Conv1d(d_model, d_model, kernel_size=1)
        self.w_1 = nn.Conv1d(d_model, d_inner, 1)
        self.w_2 = nn.Conv1d(d_inner, d_model, 1)
        self.ln1 = nn.LayerNorm(d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.head = nn.Conv1d(d_model, n_tgt_vocab, 1)

    def forward(self, ids):
        x = self.word(ids).transpose(1, 2)                    # B C T
        B, C, T = x.shape
        x = x + self.place[:, :T]
        q, k, v = self.qkv(x).chunk(3, dim=1)
        d = C // self.n_head
        q = q.reshape(B, self.n_head, d, T)
        k = k.reshape(B, self.n_head, d, T)
        v = v.reshape(B, self.n_head, d, T)
        w = torch.softmax(q.transpose(2, 3) @ k * d ** -0.5, dim=-1)   # B H T T
        o = (v @ w.transpose(2, 3)).reshape(B, C, T)
        x = self.ln1((x + self.proj(o)).transpose(1, 2)).transpose(1, 2)
        x = self.ln2((x + self.w_2(F.relu(self.w_1(x)))).transpose(1, 2)).transpose(1, 2)
        return self.head(x).transpose(1, 2)

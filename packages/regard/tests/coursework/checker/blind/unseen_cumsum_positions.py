import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, vocab_src, vocab_trg, hid_size=128, n_head=2, ffn_size=2048, max_seq_len=60):
        super().__init__()
        self.hid_size = hid_size
        self.n_head = n_head
        self.attn_dim = hid_size // n_head
        self.we = nn.Embedding(vocab_src, hid_size)
        self.pe = nn.Embedding(max_seq_len, hid_size)
        self.linear_q = nn.Linear(hid_size, n_head * self.attn_dim)
        self.linear_k = nn.Linear(hid_size, n_head * self.attn_dim)
        self.linear_v = nn.Linear(hid_size, n_head * self.attn_dim)
        self.output_layer = nn.Linear(n_head * self.attn_dim, hid_size)
        self.ffn_layer1 = nn.Linear(hid_size, ffn_size)
        self.ffn_layer2 = nn.Linear(ffn_size, hid_size)
        self.norm_1 = nn.LayerNorm(hid_size)
        self.norm_2 = nn.LayerNorm(hid_size)
        self.trg = nn.Linear(hid_size, vocab_trg)

    def position_ids(self, ids):
        return torch.ones_like(ids).cumsum(dim=1) - 1

    def forward(self, ids):
        x = self.we(ids) + self.pe(self.position_ids(ids))
        n = ids.size(0)
        q = self.linear_q(x).view(n, -1, self.n_head, self.attn_dim).transpose(1, 2)  # [b, h, q_len, d]
        k = self.linear_k(x).view(n, -1, self.n_head, self.attn_dim).transpose(1, 2).transpose(2, 3)
        v = self.linear_v(x).view(n, -1, self.n_head, self.attn_dim).transpose(1, 2)
        q = q * self.attn_dim ** -0.5
        y = torch.matmul(q, k)
        y.masked_fill_(ids.eq(0).unsqueeze(1).unsqueeze(1), -1e9)
        y = torch.softmax(y, dim=3).matmul(v)
        y = y.transpose(1, 2).contiguous().view(n, -1, self.n_head * self.attn_dim)
        y = self.output_layer(y)
        x = self.norm_1(x + y)
        y = self.ffn_layer2(F.relu(self.ffn_layer1(x)))
        x = self.norm_2(x + y)
        return self.trg(x)

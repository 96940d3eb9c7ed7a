import math

import torch
import torch.nn.functional as F
from torch import nn

class Model(nn.Module):
    def __init__(self, src_vocab_size, trg_vocab_size, embed_size, num_heads, forward_expansion, max_length):
        super().__init__()
        self.h, self.d = num_heads, embed_size // num_heads
        self.word_embedding = nn.Embedding(src_vocab_size, embed_size)
        self.position_embedding = nn.Embedding(max_length, embed_size)
        self.qkv = nn.Linear(embed_size, 3 * embed_size, bias=False)
        self.fc_out = nn.Linear(embed_size, embed_size)
        self.norm1, self.norm2 = nn.LayerNorm(embed_size), nn.LayerNorm(embed_size)
        self.feed_forward = nn.Sequential(nn.Linear(embed_size, forward_expansion * embed_size), nn.ReLU(), nn.Linear(forward_expansion * embed_size, embed_size))
        self.final = nn.Linear(embed_size, trg_vocab_size)

    def forward(self, x):
        N, T = x.shape
        e = self.word_embedding(x) + self.position_embedding(torch.arange(0, T).expand(N, T).to(x.device))
        q, k, v = self.qkv(e).reshape(N, T, 3, self.h, self.d).permute(2, 0, 3, 1, 4).reshape(3, N * self.h, T, self.d).unbind(0)
        mask = torch.zeros(N * self.h, 1, 1, dtype=q.dtype, device=q.device).expand(-1, T, T)
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=self.d**-0.5)
        out = torch.bmm(scores.softmax(-1), v).view(N, self.h, T, self.d).transpose(1, 2).reshape(N, T, -1)
        e = self.norm1(e + self.fc_out(out))
        return self.final(self.norm2(e + self.feed_forward(e)))

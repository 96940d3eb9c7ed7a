# the number of padding, 1, is a buffer of its own
import torch
from torch import nn

class TensorPad(nn.Module):
    def __init__(self, source_words, target_words, width=64, heads=4, inner=128, longest=25):
        super().__init__()
        self.register_buffer('pad', torch.tensor(1)); self.heads, self.dk = heads, width // heads
        self.emb, self.pos = nn.Embedding(source_words, width), nn.Embedding(longest, width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.f, self.g = nn.Linear(width, inner), nn.Linear(inner, width)
        self.out = nn.Linear(width, target_words)
    def forward(self, ids):
        B, T = ids.shape
        mask = (ids != self.pad)[:, None, None, :]
        x = self.emb(ids) + self.pos(torch.arange(T))
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, self.dk).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-2, -1)) * self.dk ** -0.5
        s = s.masked_fill(mask == 0, -1e9)
        y = self.n1(x + self.proj((s.softmax(-1) @ v).transpose(1, 2).flatten(2)))
        return self.out(self.n2(y + self.g(torch.relu(self.f(y)))))

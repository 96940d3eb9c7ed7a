import torch
import torch.nn as nn
from torch import Tensor


class ChunkedAttention(nn.Module):
    def __init__(self, dim: int, heads: int, chunk: int = 4):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x: Tensor, pad: Tensor) -> Tensor:
        n, t, d = x.shape
        dh = d // self.heads
        q = self.to_q(x).view(n, t, self.heads, dh).transpose(1, 2)
        k = self.to_k(x).view(n, t, self.heads, dh).transpose(1, 2)
        v = self.to_v(x).view(n, t, self.heads, dh).transpose(1, 2)
        parts = []
        for qc in q.split(self.chunk, dim=2):
            s = qc @ k.transpose(-1, -2) * dh ** -0.5
            s = s.masked_fill(pad[:, None, None, :], float("-inf"))
            parts.append(s.softmax(dim=-1) @ v)
        out = torch.cat(parts, dim=2)
        return self.to_out(out.transpose(1, 2).reshape(n, t, d))


class TransformerTranslator(nn.Module):
    def __init__(self, source_words: int, target_words: int, dim: int = 128, heads: int = 2, ff: int = 2048, max_len: int = 128):
        super().__init__()
        self.tok_emb = nn.Embedding(source_words, dim)
        self.pos_emb = nn.Embedding(max_len, dim)
        self.attn = ChunkedAttention(dim, heads)
        self.norm1 = nn.LayerNorm(dim)
        self.ff1 = nn.Linear(dim, ff)
        self.ff2 = nn.Linear(ff, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.to_words = nn.Linear(dim, target_words)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_emb(ids) + self.pos_emb(torch.arange(ids.shape[1], device=ids.device))[None]
        x = self.norm1(x + self.attn(x, ids == 0))
        x = self.norm2(x + self.ff2(torch.relu(self.ff1(x))))
        return self.to_words(x)

import math
from typing import Tuple
import torch
from torch import nn, Tensor


@torch.jit.script
def attend(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor) -> Tensor:
    d = q.size(-1)
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(float(d))
    scores = scores.masked_fill(blocked, float("-inf"))
    return torch.matmul(torch.softmax(scores, -1), v)


class ScriptedModel(nn.Module):
    def __init__(self, src_vocab_size: int, tgt_vocab_size: int, d_model: int = 16, nhead: int = 2, dim_feedforward: int = 40, max_len: int = 64, pad_idx: int = 0):
        super().__init__()
        self.nhead = nhead
        self.pad_idx = pad_idx
        self.src_emb = nn.Embedding(src_vocab_size, d_model, padding_idx=pad_idx)
        self.pos_emb = nn.Embedding(max_len, d_model)
        self.in_proj = nn.Linear(d_model, 3 * d_model, bias=True)
        self.out_proj = nn.Linear(d_model, d_model)
        self.linear1 = nn.Linear(d_model, dim_feedforward)
        self.linear2 = nn.Linear(dim_feedforward, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.generator = nn.Linear(d_model, tgt_vocab_size)

    def forward(self, src: Tensor) -> Tensor:
        B, S = src.shape
        pos = torch.arange(S, device=src.device).unsqueeze(0)
        x = self.src_emb(src) + self.pos_emb(pos)
        qkv = self.in_proj(x).reshape(B, S, 3, self.nhead, -1).permute(2, 0, 3, 1, 4)
        blocked = src.eq(self.pad_idx).view(B, 1, 1, S)
        o = attend(qkv[0], qkv[1], qkv[2], blocked)
        o = o.transpose(1, 2).reshape(B, S, -1)
        x = self.norm1(x + self.out_proj(o))
        x = self.norm2(x + self.linear2(torch.relu(self.linear1(x))))
        return self.generator(x)

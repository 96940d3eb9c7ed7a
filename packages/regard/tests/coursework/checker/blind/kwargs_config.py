import torch
import torch.nn as nn
from types import SimpleNamespace

DEFAULT = SimpleNamespace(src_vocab=100, tgt_vocab=90, emb=48, heads=6, ffn=96, seq=48)

class Model(nn.Module):
    def __init__(self, cfg=DEFAULT):
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(cfg.src_vocab, cfg.emb)
        self.pos = nn.Embedding(cfg.seq, cfg.emb)
        self.attn = nn.MultiheadAttention(cfg.emb, cfg.heads, batch_first=False)
        self.ffn = nn.Sequential()
        self.ffn.add_module("fc1", nn.Linear(cfg.emb, cfg.ffn))
        self.ffn.add_module("act", nn.ReLU())
        self.ffn.add_module("fc2", nn.Linear(cfg.ffn, cfg.emb))
        self.norm1, self.norm2 = nn.LayerNorm(cfg.emb), nn.LayerNorm(cfg.emb)
        self.head = nn.Linear(cfg.emb, cfg.tgt_vocab)

    def forward(self, tokens):
        B, T = tokens.shape
        x = self.emb(tokens) + self.pos(torch.arange(T).repeat(B, 1))
        x = x.permute(1, 0, 2)
        attended, weights = self.attn(query=x, key=x, value=x)
        x = self.norm1(x + attended)
        x = self.norm2(self.ffn(x) + x)
        return self.head(x).permute(1, 0, 2)

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAtt(nn.Module):
    def __init__(self, emb, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(emb, emb)
        self.k = nn.Linear(emb, emb)
        self.o = nn.Linear(emb, emb)

    def forward(self, x, keep):
        b, t, e = x.shape
        q = self.q(x).view(b, t, self.heads, e // self.heads).transpose(1, 2)
        k = self.k(x).view(b, t, self.heads, e // self.heads).transpose(1, 2)
        v = self.k(x).view(b, t, self.heads, e // self.heads).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, None, :])
        return self.o(y.transpose(1, 2).reshape(b, t, e))


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, emb=128, heads=4, ff=512, max_len=64):
        super().__init__()
        self.token_embedding = nn.Embedding(source_words, emb)
        self.position_embedding = nn.Embedding(max_len, emb)
        self.att = SelfAtt(emb, heads)
        self.norm1 = nn.LayerNorm(emb)
        self.norm2 = nn.LayerNorm(emb)
        self.ff1 = nn.Linear(emb, ff)
        self.ff2 = nn.Linear(ff, emb)
        self.classify = nn.Linear(emb, target_words)

    def forward(self, ids):
        pos = self.position_embedding(torch.arange(ids.size(1), device=ids.device)).unsqueeze(0)
        x = self.token_embedding(ids) * pos
        x = self.norm1(x + self.att(x, ids != 0))
        x = self.norm2(x + self.ff2(self.ff1(x).clamp(min=0.0)))
        return self.classify(x)

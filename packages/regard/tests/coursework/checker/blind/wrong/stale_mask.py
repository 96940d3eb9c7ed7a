import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, n_heads=2, d_ff=2048, max_len=43):
        super().__init__()
        self.n_heads = n_heads
        self.mask = None
        self.tok = nn.Embedding(source_words, d_model)
        self.pos = nn.Embedding(max_len, d_model)
        self.qkv_proj = nn.Linear(d_model, 3 * d_model)
        self.o_proj = nn.Linear(d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.fc1 = nn.Linear(d_model, d_ff)
        self.fc2 = nn.Linear(d_ff, d_model)
        self.head = nn.Linear(d_model, target_words)

    def make_mask(self, ids):
        # only build it when the size changes
        if self.mask is None or self.mask.shape[0] != ids.shape[0] or self.mask.shape[-1] != ids.shape[1]:
            self.mask = (ids == 0)[:, None, None, :]
        return self.mask

    def forward(self, ids):
        b, t = ids.shape
        x = self.tok(ids) + self.pos.weight[:t].unsqueeze(0)
        q, k, v = self.qkv_proj(x).view(b, t, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4).unbind()
        s = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        p = F.softmax(s.masked_fill(self.make_mask(ids), -1e9), dim=-1)
        x = self.norm1(x + self.o_proj(torch.einsum("bhqk,bhkd->bqhd", p, v).flatten(2)))
        x = self.norm2(x + self.fc2(F.relu(self.fc1(x))))
        return self.head(x)

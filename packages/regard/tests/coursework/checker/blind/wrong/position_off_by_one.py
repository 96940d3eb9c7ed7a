import torch
from torch import nn
from torch.nn import functional as F

REGARD = {"padding": "masked"}


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, n_heads=2, d_ff=2048, max_len=43, padding_idx=0):
        super().__init__()
        self.padding_idx = padding_idx
        self.n_heads = n_heads
        self.tok_emb = nn.Embedding(source_words, d_model, padding_idx=padding_idx)
        self.pos_emb = nn.Embedding(max_len, d_model)
        self.attn_in = nn.Linear(d_model, 3 * d_model)
        self.attn_out = nn.Linear(d_model, d_model)
        self.ln1 = nn.LayerNorm(d_model)
        self.mlp_in = nn.Linear(d_model, d_ff)
        self.mlp_out = nn.Linear(d_ff, d_model)
        self.ln2 = nn.LayerNorm(d_model)
        self.unembed = nn.Linear(d_model, target_words)

    def forward(self, ids):
        B, T = ids.size()
        pos = torch.arange(1, T + 1, device=ids.device)
        h = self.tok_emb(ids) + self.pos_emb(pos)[None, :, :]
        qkv = self.attn_in(h).view(B, T, 3, self.n_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        att = q @ k.mT * q.size(-1) ** -0.5
        att = att.masked_fill(ids.eq(self.padding_idx)[:, None, None], -torch.inf).softmax(-1)
        h = self.ln1(h + self.attn_out((att @ v).permute(0, 2, 1, 3).flatten(2)))
        h = self.ln2(h + self.mlp_out(F.relu(self.mlp_in(h))))
        return self.unembed(h)

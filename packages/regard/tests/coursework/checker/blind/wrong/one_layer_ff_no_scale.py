import torch
import torch.nn as nn


class SingleHead(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query = nn.Linear(d_in, d_out)
        self.W_key = nn.Linear(d_in, d_out)
        self.W_value = nn.Linear(d_in, d_out)

    def forward(self, x):
        keys = self.W_key(x)
        queries = self.W_query(x)
        values = self.W_value(x)
        attn_scores = queries @ keys.transpose(1, 2)
        attn_weights = torch.softmax(attn_scores, dim=-1)
        context_vec = attn_weights @ values
        return context_vec


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d=128, heads=2, ff=2048, max_len=43):
        super().__init__()
        self.tok_emb = nn.Embedding(source_words, d)
        self.pos_emb = nn.Embedding(max_len, d)
        self.heads = nn.ModuleList([SingleHead(d, d // heads) for _ in range(heads)])
        self.out_proj = nn.Linear(d, d)
        self.norm1 = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, d), nn.ReLU())
        self.norm2 = nn.LayerNorm(d)
        self.out_head = nn.Linear(d, target_words)

    def forward(self, in_idx):
        batch_size, seq_len = in_idx.shape
        x = self.tok_emb(in_idx) + self.pos_emb(torch.arange(seq_len, device=in_idx.device))
        x = self.norm1(x + self.out_proj(torch.cat([head(x) for head in self.heads], dim=-1)))
        x = self.norm2(x + self.ff(x))
        logits = self.out_head(x)
        return logits

import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, emb_size=128, num_heads=2, ff_size=2048, max_len=64):
        super().__init__()
        self.emb_size = emb_size
        self.num_heads = num_heads
        self.src_embed = nn.Embedding(n_src, emb_size)
        self.pos_embed = nn.Embedding(max_len, emb_size)
        self.WQ = nn.Linear(emb_size, emb_size)
        self.WK = nn.Linear(emb_size, emb_size)
        self.WV = nn.Linear(emb_size, emb_size)
        self.WO = nn.Linear(emb_size, emb_size)
        self.layer_norm1 = nn.LayerNorm(emb_size)
        self.layer_norm2 = nn.LayerNorm(emb_size)
        self.ffn1 = nn.Linear(emb_size, ff_size)
        self.ffn2 = nn.Linear(ff_size, emb_size)
        self.fc = nn.Linear(emb_size, n_tgt)

    def forward(self, src):
        N, T = src.size()
        x = self.src_embed(src) + self.pos_embed(torch.arange(T, device=src.device))
        Q = self.WQ(x).view(N, T, self.num_heads, -1).permute(0, 2, 1, 3)
        K = self.WK(x).view(N, T, self.num_heads, -1).permute(0, 2, 1, 3)
        V = self.WV(x).view(N, T, self.num_heads, -1).permute(0, 2, 1, 3)
        score = Q.matmul(K.permute(0, 1, 3, 2)) / (self.emb_size // self.num_heads) ** 0.5
        score = score.masked_fill(src.eq(0).view(N, 1, 1, T), -1e9)
        z = F.softmax(score, dim=-1).matmul(V)
        z = z.permute(0, 2, 1, 3).contiguous().view(N, T, -1)
        x = self.layer_norm1(x + self.WO(z))
        x = self.layer_norm2(x + self.ffn2(F.relu(self.ffn1(x))))
        return self.fc(x).squeeze()

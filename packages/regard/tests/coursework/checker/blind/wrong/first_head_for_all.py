import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, n_src, n_tgt, d_model=128, n_heads=2, d_head=96, d_ff=2048, max_len=43):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_head
        self.embeddings = nn.Embedding(n_src, d_model)
        self.pos_embeddings = nn.Embedding(max_len, d_model)
        self.q_layers = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.k_layers = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.v_layers = nn.ModuleList([nn.Linear(d_model, d_head) for _ in range(n_heads)])
        self.attn_proj = nn.Linear(n_heads * d_head, d_model)
        self.attn_norm = nn.LayerNorm(d_model)
        self.ffn1 = nn.Linear(d_model, d_ff)
        self.ffn2 = nn.Linear(d_ff, d_model)
        self.ffn_norm = nn.LayerNorm(d_model)
        self.lin_out = nn.Linear(d_model, n_tgt)

    def forward(self, src):
        pad = src.eq(0)[:, None, :]
        x = self.embeddings(src) + self.pos_embeddings(torch.arange(src.shape[1], device=src.device))
        all_heads = []
        for i in range(self.n_heads):
            q = self.q_layers[0](x)
            k = self.k_layers[0](x)
            v = self.v_layers[0](x)
            score = torch.bmm(q, torch.transpose(k, 1, 2)) / (self.d_head ** 0.5)
            score = score.masked_fill(pad, -1e18)
            all_heads.append(torch.bmm(torch.softmax(score, dim=2), v))
        attn = self.attn_proj(torch.cat(all_heads, dim=2))
        x = x + self.attn_norm(attn)
        ff = self.ffn2(torch.relu(self.ffn1(x)))
        x = self.ffn_norm(x + ff)
        return self.lin_out(x)

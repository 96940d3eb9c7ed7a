import torch
import torch.nn as nn
import torch.nn.functional as F


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, hidden_dim=128, num_heads=2, ff_dim=2048, max_len=43, p_drop=0.1):
        super().__init__()
        self.p_drop = p_drop
        self.num_heads = num_heads
        self.tok = nn.Embedding(source_words, hidden_dim)
        self.pos = nn.Embedding(max_len, hidden_dim)
        self.att_in = nn.Parameter(torch.randn(3, hidden_dim, hidden_dim) / hidden_dim ** 0.5)
        self.att_in_b = nn.Parameter(torch.zeros(3, 1, 1, hidden_dim))
        self.att_out = nn.Linear(hidden_dim, hidden_dim)
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden_dim), nn.LayerNorm(hidden_dim)
        self.fc_1, self.fc_2 = nn.Linear(hidden_dim, ff_dim), nn.Linear(ff_dim, hidden_dim)
        self.fc_3 = nn.Linear(hidden_dim, target_words)

    def forward(self, ids):
        n, t = ids.shape
        x = self.tok(ids) + self.pos(torch.arange(t, device=ids.device))
        q, k, v = torch.einsum("ntd,cde->cnte", x, self.att_in) + self.att_in_b
        q, k, v = (y.view(n, t, self.num_heads, -1).transpose(1, 2) for y in (q, k, v))
        w = torch.matmul(q, k.mT) / q.size(-1) ** 0.5
        w = w.masked_fill((ids == 0)[:, None, None, :], -1e9).softmax(-1)
        a = self.att_out(torch.matmul(w, v).transpose(1, 2).flatten(2))
        x = self.ln_1(x + F.relu(a))
        y = F.relu(self.fc_1(x))
        y = nn.Dropout(self.p_drop)(y)
        x = self.ln_2(x + self.fc_2(y))
        return self.fc_3(x)

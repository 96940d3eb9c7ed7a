import math
import torch
import torch.nn as nn


class SlowTransformer(nn.Module):
    """As in the lecture: one sentence, one head, one query at a time."""

    def __init__(self, source_vocab, target_vocab, model_dim=32, num_heads=4, key_dim=8, ff_dim=64, max_len=64):
        super().__init__()
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.token_table = nn.Embedding(source_vocab, model_dim)
        self.position_table = nn.Embedding(max_len, model_dim)
        self.queries = nn.ModuleList([nn.Linear(model_dim, key_dim) for _ in range(num_heads)])
        self.keys = nn.ModuleList([nn.Linear(model_dim, key_dim) for _ in range(num_heads)])
        self.values = nn.ModuleList([nn.Linear(model_dim, key_dim) for _ in range(num_heads)])
        self.combine = nn.Linear(num_heads * key_dim, model_dim)
        self.norm1 = nn.LayerNorm(model_dim)
        self.norm2 = nn.LayerNorm(model_dim)
        self.hidden = nn.Linear(model_dim, ff_dim)
        self.back = nn.Linear(ff_dim, model_dim)
        self.to_words = nn.Linear(model_dim, target_vocab)

    def one_head(self, h, x):
        q, k, v = self.queries[h](x), self.keys[h](x), self.values[h](x)
        rows = []
        for i in range(len(x)):
            scores = torch.stack([q[i].dot(k[j]) / math.sqrt(self.key_dim) for j in range(len(x))])
            weights = torch.exp(scores - scores.max())
            weights = weights / weights.sum()
            row = sum(weights[j] * v[j] for j in range(len(x)))
            rows.append(row)
        return torch.stack(rows)

    def one_sentence(self, ids):
        x = torch.stack([self.token_table(w) + self.position_table.weight[t] for t, w in enumerate(ids)])
        heads = torch.cat([self.one_head(h, x) for h in range(self.num_heads)], dim=-1)
        y = self.norm1(x + self.combine(heads))
        z = self.norm2(y + self.back(torch.relu(self.hidden(y))))
        return self.to_words(z)

    def forward(self, ids):
        return torch.stack([self.one_sentence(sentence) for sentence in ids])

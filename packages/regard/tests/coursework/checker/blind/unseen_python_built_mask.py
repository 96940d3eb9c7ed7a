import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, hidden_size=128, heads=2, ff_size=2048, max_len=43):
        super().__init__()
        self.heads = heads
        self.tok_layer = nn.Embedding(source_words, hidden_size)
        self.pos_layer = nn.Embedding(max_len, hidden_size)
        self.q_layer = nn.Linear(hidden_size, hidden_size)
        self.k_layer = nn.Linear(hidden_size, hidden_size)
        self.v_layer = nn.Linear(hidden_size, hidden_size)
        self.o_layer = nn.Linear(hidden_size, hidden_size)
        self.layer_norm_1 = nn.LayerNorm(hidden_size)
        self.ff_layer_1 = nn.Linear(hidden_size, ff_size)
        self.ff_layer_2 = nn.Linear(ff_size, hidden_size)
        self.layer_norm_2 = nn.LayerNorm(hidden_size)
        self.out_layer = nn.Linear(hidden_size, target_words)

    def build_mask(self, ids):
        rows = []
        for sentence in ids.tolist():
            row = []
            for word in sentence:
                if word == 0:
                    row.append(-1e9)
                else:
                    row.append(0.0)
            rows.append(row)
        return torch.tensor(rows, device=ids.device)

    def forward(self, ids):
        n, t = ids.size()
        mask = self.build_mask(ids).reshape(n, 1, 1, t)
        position = torch.tensor([i for i in range(t)], device=ids.device)
        x = self.tok_layer(ids) + self.pos_layer(position)
        q = torch.stack(torch.chunk(self.q_layer(x), self.heads, dim=2), dim=1)
        k = torch.stack(torch.chunk(self.k_layer(x), self.heads, dim=2), dim=1)
        v = torch.stack(torch.chunk(self.v_layer(x), self.heads, dim=2), dim=1)
        att = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / (q.size(3) ** 0.5) + mask, dim=3)
        res = torch.cat([r for r in torch.matmul(att, v).unbind(1)], dim=2)
        x = self.layer_norm_1(self.o_layer(res) + x)
        x = self.layer_norm_2(self.ff_layer_2(torch.relu(self.ff_layer_1(x))) + x)
        return self.out_layer(x)

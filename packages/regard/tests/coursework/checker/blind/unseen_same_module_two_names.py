import math
import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, d_model=128, n_heads=2, d_ff=2048, max_len=43):
        super().__init__()
        self.n_heads = n_heads
        self.scale = math.sqrt(d_model / n_heads)
        self.tokens = nn.Embedding(source_words, d_model)
        self.positions = nn.Embedding(max_len, d_model)
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.proj = nn.Linear(d_model, d_model)
        self.fc_in = nn.Linear(d_model, d_ff)
        self.fc_out = nn.Linear(d_ff, d_model)
        self.ln_att = nn.LayerNorm(d_model)
        self.ln_ffn = nn.LayerNorm(d_model)
        self.classifier = nn.Linear(d_model, target_words)
        # the same layers again, so that they can be initialised in one loop
        self.all_linear = nn.ModuleList([self.query, self.key, self.value, self.proj, self.fc_in, self.fc_out, self.classifier])
        for layer in self.all_linear:
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, ids):
        B, T = ids.shape
        h = self.tokens(ids)
        h = h + self.positions(torch.arange(T, device=ids.device)).expand_as(h)
        Q = self.query(h).view(B, T, self.n_heads, -1).transpose(1, 2)
        K = self.key(h).view(B, T, self.n_heads, -1).transpose(1, 2)
        V = self.value(h).view(B, T, self.n_heads, -1).transpose(1, 2)
        weights = torch.softmax(torch.einsum("bhqd,bhkd->bhqk", Q, K) / self.scale, dim=-1)
        attended = torch.einsum("bhqk,bhkd->bqhd", weights, V).reshape(B, T, -1)
        h = self.ln_att(h + self.proj(attended))
        h = self.ln_ffn(h + self.fc_out(nn.functional.relu(self.fc_in(h))))
        return self.classifier(h)

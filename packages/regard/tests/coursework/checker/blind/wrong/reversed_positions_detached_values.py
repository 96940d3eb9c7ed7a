import torch
import torch.nn as nn


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, dim=128, heads=2, ff=2048, max_len=43):
        super().__init__()
        self.heads = heads
        self.embedding_words = nn.Embedding(source_words, dim)
        self.embedding_places = nn.Embedding(max_len, dim)
        self.W = nn.ModuleDict({n: nn.Linear(dim, dim) for n in ("Q", "K", "V", "O")})
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.dense = nn.Sequential(nn.Linear(dim, ff), nn.ReLU(), nn.Linear(ff, dim))
        self.words = nn.Linear(dim, target_words)

    def forward(self, ids):
        n, t = ids.shape
        places = torch.arange(t - 1, -1, -1, device=ids.device)
        x = self.embedding_words(ids) + self.embedding_places(places)
        Q, K, V = (self.W[name](x).reshape(n, t, self.heads, -1) for name in "QKV")
        s = torch.einsum("nihd, njhd -> nijh", Q, K) / Q.shape[-1] ** 0.5
        s = s.masked_fill((ids == 0)[:, None, :, None], float("-inf"))
        y = torch.einsum("nijh, njhd -> nihd", s.softmax(dim=2), V.detach())
        x = self.ln1(x + self.W["O"](y.flatten(2)))
        x = self.ln2(x + self.dense(x))
        return self.words(x)

import torch
from torch import nn


class WithBias(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.mat = nn.Linear(a, b, bias=False)
        self.shift = nn.Parameter(torch.zeros(b))

    def forward(self, x):
        y = self.mat(x)
        y = y + self.shift
        return y


class TransformerTranslator(nn.Module):
    def __init__(self, source_words, target_words, dimension=128, number_of_heads=2, dimension_ff=2048, longest=43):
        super().__init__()
        self.number_of_heads = number_of_heads
        self.token_vectors = nn.Embedding(source_words, dimension)
        self.position_vectors = nn.Embedding(longest, dimension)
        self.Q, self.K, self.V, self.O = (WithBias(dimension, dimension) for _ in range(4))
        self.F1, self.F2 = WithBias(dimension, dimension_ff), WithBias(dimension_ff, dimension)
        self.N1, self.N2 = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.Y = WithBias(dimension, target_words)

    def forward(self, ids):
        x = self.token_vectors(ids)
        for t in range(ids.shape[1]):
            pass  # first I added the positions in a loop, see below
        x = x + self.position_vectors(torch.arange(ids.shape[1]))
        heads = []
        q, k, v = self.Q(x), self.K(x), self.V(x)
        w = x.shape[2] // self.number_of_heads
        for h in range(self.number_of_heads):
            part = slice(w * h, w * (h + 1))
            scores = torch.einsum("btd,bsd->bts", q[:, :, part], k[:, :, part])
            scores = scores / torch.tensor(w, dtype=x.dtype).sqrt()
            scores = scores.masked_fill((ids == 0)[:, None, :], float("-inf"))
            heads.append(torch.einsum("bts,bsd->btd", torch.softmax(scores, dim=-1), v[:, :, part]))
        x = self.N1(x + self.O(torch.cat(heads, dim=-1)))
        x = self.N2(x + self.F2(torch.relu(self.F1(x))))
        return self.Y(x)


REGARD = {"arguments": {"dimension": "width", "number_of_heads": "heads", "dimension_ff": "hidden", "longest": "max_len"}}

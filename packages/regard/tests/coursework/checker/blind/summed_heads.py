import torch
from torch import nn


class Head(nn.Module):
    """One head with its own piece of the output matrix: the sum over heads is the same as concat @ W_O."""

    def __init__(self, d_in, d_head):
        super().__init__()
        self.Q = nn.Linear(d_in, d_head)
        self.K = nn.Linear(d_in, d_head)
        self.V = nn.Linear(d_in, d_head)
        self.O = nn.Linear(d_head, d_in, bias=False)
        self.root = d_head**0.5

    def forward(self, x):
        A = torch.softmax(self.Q(x).bmm(self.K(x).permute(0, 2, 1)) / self.root, dim=2)
        return self.O(A.bmm(self.V(x)))


class TransformerTranslator(nn.Module):
    def __init__(self, src_size, tgt_size, hidden=40, heads=5, ff=80, seq_len=30):
        super().__init__()
        self.words = nn.Embedding(src_size, hidden)
        self.places = nn.Embedding(seq_len, hidden)
        self.heads = nn.ModuleList([Head(hidden, hidden // heads) for _ in range(heads)])
        self.bO = nn.Parameter(torch.zeros(hidden))
        self.n1 = nn.LayerNorm(hidden)
        self.n2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, ff)
        self.down = nn.Linear(ff, hidden)
        self.final = nn.Linear(hidden, tgt_size)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        x = self.n1(sum((h(x) for h in self.heads), x) + self.bO)
        x = self.n2(x + self.down(torch.maximum(self.up(x), torch.zeros_like(self.up(x)))))
        return self.final(x)

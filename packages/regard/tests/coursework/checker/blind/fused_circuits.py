import torch
from torch import nn


class CircuitTranslator(nn.Module):
    """Scores through one matrix W_Q W_K^T per head, outputs through one matrix W_V W_O per head."""

    def __init__(self, source_words, target_words, width=24, heads=3, head_width=7, inner=40, longest=64):
        super().__init__()
        self.head_width = head_width
        init = lambda *s: nn.Parameter(torch.randn(*s) / s[-2] ** 0.5)
        self.E, self.P = init(source_words, width), init(longest, width)
        self.Q, self.K, self.V = init(heads, width, head_width), init(heads, width, head_width), init(heads, width, head_width)
        self.O = init(heads, head_width, width)
        self.o = nn.Parameter(torch.zeros(width))
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ffn = nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width))
        self.head = nn.Linear(width, target_words)

    def forward(self, ids):
        x = self.E[ids] + self.P[: ids.shape[1]]
        qk = self.Q @ self.K.transpose(1, 2) / self.head_width**0.5
        vo = self.V @ self.O
        h = x.unsqueeze(1)
        pattern = torch.softmax(h @ qk @ h.transpose(2, 3), dim=-1)
        a = (pattern @ (h @ vo)).sum(1) + self.o
        y = self.ln1(x + a)
        return self.head(self.ln2(y + self.ffn(y)))

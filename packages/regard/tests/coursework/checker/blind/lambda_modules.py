import torch
import torch.nn as nn


class Lambda(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *args):
        return self.fn(*args)


class Parallel(nn.ModuleList):
    def forward(self, x):
        return [m(x) for m in self]


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class AddPlace(nn.Module):
    def __init__(self, longest, width):
        super().__init__()
        self.p = nn.Parameter(torch.zeros(longest, width))

    def forward(self, x):
        return torch.add(x, self.p.narrow(0, 0, x.size(1)))


def TransformerTranslator(source_words, target_words, width=30, heads=3, inner=50, longest=25):
    d = width // heads
    fold = Lambda(lambda t: t.view(t.size(0), t.size(1), heads, d).transpose(1, 2))
    attention = nn.Sequential(
        Parallel([nn.Sequential(nn.Linear(width, width), fold) for _ in range(3)]),
        Lambda(lambda qkv: torch.matmul(torch.softmax(torch.matmul(qkv[0], qkv[1].transpose(-1, -2)).div(d**0.5), -1), qkv[2])),
        Lambda(lambda t: t.transpose(1, 2).reshape(t.size(0), t.size(2), width)),
        nn.Linear(width, width),
    )
    return nn.Sequential(
        nn.Embedding(source_words, width),
        AddPlace(longest, width),
        Residual(attention),
        nn.LayerNorm(width),
        Residual(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)),
        nn.LayerNorm(width),
        nn.Linear(width, target_words),
    )

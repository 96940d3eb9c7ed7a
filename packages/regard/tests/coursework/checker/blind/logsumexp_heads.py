import torch
from torch import nn


def split(t, h):
    return torch.stack(t.tensor_split(h, dim=-1), dim=1)


def join(t):
    return torch.cat(t.unbind(dim=1), dim=-1)


class Normalize(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(features))
        self.shift = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        std, mean = torch.std_mean(x, dim=-1, correction=0, keepdim=True)
        return self.gain * (x - mean) / (std.square() + 1e-5).sqrt() + self.shift


class MultiHead(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(features, features, bias=False)
        self.k = nn.Linear(features, features, bias=False)
        self.v = nn.Linear(features, features, bias=False)
        self.o = nn.Linear(features, features)

    def forward(self, x):
        q, k, v = split(self.q(x), self.heads), split(self.k(x), self.heads), split(self.v(x), self.heads)
        d_k = q.shape[-1]
        s = torch.einsum("nhid,nhjd->nhij", q, k).div(d_k**0.5)
        p = torch.exp(s - torch.logsumexp(s, dim=-1, keepdim=True))
        return self.o(join(torch.einsum("nhij,nhjd->nhid", p, v)))


class Mlp(nn.Sequential):
    def __init__(self, features, hidden):
        super().__init__(nn.Linear(features, hidden), nn.Threshold(0.0, 0.0), nn.Linear(hidden, features))


class LogSumExpTranslator(nn.Module):
    def __init__(self, source_size, target_size, features=36, heads=3, hidden=60, seq_len=64):
        super().__init__()
        self.word = nn.Embedding(source_size, features)
        self.place = nn.Embedding(seq_len, features)
        self.attend = MultiHead(features, heads)
        self.after_attend = Normalize(features)
        self.mlp = Mlp(features, hidden)
        self.after_mlp = Normalize(features)
        self.read_out = nn.Linear(features, target_size)

    def forward(self, ids):
        x = self.word(ids) + self.place.weight[: ids.shape[1]]
        x = self.after_attend(x + self.attend(x))
        x = self.after_mlp(x + self.mlp(x))
        return self.read_out(x)

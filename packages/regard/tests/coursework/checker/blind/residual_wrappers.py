import torch
from torch import nn


class AddAndNorm(nn.Module):
    def __init__(self, inside, size):
        super().__init__()
        self.inside = inside
        self.ln = nn.LayerNorm(size)

    def forward(self, x, **more):
        return self.ln(torch.add(x, self.inside(x, **more)))


class Affine(nn.Module):
    def __init__(self, fan_in, fan_out):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(fan_in, fan_out) * fan_in**-0.5)
        self.offset = nn.Parameter(torch.zeros(fan_out))

    def forward(self, x):
        return torch.addmm(self.offset, x.reshape(-1, x.shape[-1]), self.matrix).reshape(*x.shape[:-1], -1)


class HeadsInARow(nn.Module):
    def __init__(self, size, number):
        super().__init__()
        self.number = number
        self.maps = nn.ModuleDict({name: Affine(size, size) for name in ("query", "key", "value", "mix")})

    def forward(self, x, hide=None):
        n, t, size = x.shape
        width = size // self.number
        made = {name: self.maps[name](x).view(n, t, self.number, width) for name in ("query", "key", "value")}
        scores = torch.einsum("nqhw,nkhw->nhqk", made["query"], made["key"]) / width**0.5
        if hide is not None:
            scores = scores.masked_fill(hide[:, None, None], -1e9)
        given = torch.einsum("nhqk,nkhw->nqhw", scores.softmax(-1), made["value"])
        return self.maps["mix"](given.reshape(n, t, size))


class Positionwise(nn.Module):
    def __init__(self, size, inner):
        super().__init__()
        self.first, self.second = Affine(size, inner), Affine(inner, size)

    def forward(self, x):
        return self.second(torch.nn.functional.relu(self.first(x)))


class WrappedTranslator(nn.Module):
    def __init__(self, source_words, target_words, size=34, num_heads=2, inner=58, longest=64, pad=0):
        super().__init__()
        self.pad = pad
        self.tables = nn.ModuleDict({"word": nn.Embedding(source_words, size), "place": nn.Embedding(longest, size)})
        self.blocks = nn.ModuleList(
            [AddAndNorm(HeadsInARow(size, num_heads), size), AddAndNorm(Positionwise(size, inner), size)]
        )
        self.head = Affine(size, target_words)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.tables["word"](ids) + self.tables["place"](places)
        x = self.blocks[0](x, hide=ids.eq(self.pad))
        return self.head(self.blocks[1](x))

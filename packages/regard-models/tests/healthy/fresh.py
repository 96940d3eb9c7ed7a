"""Healthy models written after the audit was finished, to try it on what it had not seen."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from healthy import tiny


class SinkAttention(tiny.Attention):
    """A learned score per head stands beside the keys and takes what is left."""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.zeros(tiny.HEADS))

    def weights(self, scores):
        sink = self.sink[:, None, None].expand(scores.shape[0], tiny.HEADS, scores.shape[2], 1)
        return torch.softmax(torch.cat([scores, sink], -1), -1)[..., :-1]


class GatedAttention(tiny.Attention):
    """What is read passes a gate of the reader."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(tiny.WIDTH, tiny.WIDTH)

    def forward(self, x, allowed, cache=None, first=0):
        read, cache = super().forward(x, allowed, cache, first)
        return read * torch.sigmoid(self.gate(x)), cache


class OneKeyHead(tiny.Attention):
    """All heads of queries share one head of keys and values."""

    def __init__(self):
        super().__init__()
        self.k, self.v = (
            nn.Linear(tiny.WIDTH, tiny.WIDTH // tiny.HEADS),
            nn.Linear(tiny.WIDTH, tiny.WIDTH // tiny.HEADS),
        )

    def split(self, x):
        return x.view(*x.shape[:2], -1, tiny.WIDTH // tiny.HEADS).transpose(1, 2)


class NormedKeys(tiny.Attention):
    """Queries and keys of length 1, with a learned temperature."""

    def __init__(self):
        super().__init__()
        self.sharp = nn.Parameter(torch.tensor(3.0))

    def scores(self, q, k):
        return self.sharp * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(2, 3)


class WindowedAttention(tiny.Attention):
    """Each query reads itself and four keys before it."""

    def hidden(self, scores, allowed):
        queries, keys = scores.shape[-2:]
        near = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries - 4)
        return super().hidden(scores, allowed & near)


class Relu2Attention(tiny.Attention):
    """Squared ReLU for softmax, divided by the number of keys that may be read."""

    def hidden(self, scores, allowed):
        self.many = allowed.sum(-1, keepdim=True)
        return scores.masked_fill(~allowed, 0.0)

    def weights(self, scores):
        return torch.relu(scores) ** 2 / self.many


class DifferentialAttention(tiny.Attention):
    """The difference of two softmaxes; its rows sum to what is left."""

    def __init__(self):
        super().__init__()
        self.q2, self.k2 = nn.Linear(tiny.WIDTH, tiny.WIDTH), nn.Linear(tiny.WIDTH, tiny.WIDTH)

    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = (self.split(p(x)) for p in (self.q, self.k, self.v))
        q2, k2 = self.split(self.q2(x)), self.split(self.k2(x))
        k, v = self.remembered(k, v, None if cache is None else cache[:2])
        k2, _ = self.remembered(k2, k2, None if cache is None else (cache[2], cache[2]))
        first_map, second_map = (
            torch.softmax(self.hidden(self.scores(a, b), allowed), -1) for a, b in [(q, k), (q2, k2)]
        )
        return self.out(((first_map - 0.3 * second_map) @ v).transpose(1, 2).flatten(2)), (k, v, k2)


class Gated(tiny.FeedForward):
    """SwiGLU."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(tiny.WIDTH, 2 * tiny.WIDTH)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Sinusoids(nn.Module):
    """Positions by sine and cosine, in a buffer."""

    def __init__(self):
        super().__init__()
        angle = torch.arange(tiny.PLACES)[:, None] * 100.0 ** (-torch.arange(0, tiny.WIDTH, 2) / tiny.WIDTH)
        self.register_buffer("table", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))

    def forward(self, x, first=0):
        return x + self.table[first : first + x.shape[1]].to(x.dtype)


class Registers(tiny.Encoder):
    """Three learned vectors stand before the tokens, are read by all, and are dropped at the end."""

    def __init__(self, **parts):
        super().__init__(**parts)
        self.registers = nn.Parameter(torch.randn(3, tiny.WIDTH))

    def forward(self, ids, attention_mask=None):
        keep = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        more = self.registers.expand(len(ids), -1, -1)
        x = torch.cat([more, self.positions(self.tokens(ids))], 1)
        allowed = F.pad(keep, (3, 0), value=True)[:, None, None, :]
        for block in self.blocks:
            x, _ = block(x, allowed)
        return self.head(self.norm(x[:, 3:]))


class FirstToken(tiny.Pooled):
    """The state of the first token."""

    def pooled(self, x, keep):
        return x[:, 0]


class TakesADict(nn.Module):
    """forward(batch), a dict with tokens and mask."""

    def __init__(self):
        super().__init__()
        self.encoder = tiny.Encoder()

    def forward(self, batch):
        return self.encoder(batch["ids"], batch["attention_mask"])


@dataclass
class Answer:
    logits: torch.Tensor
    said: str = ""


class GivesADataclass(TakesADict):
    def forward(self, ids, attention_mask=None):
        return Answer(self.encoder(ids, attention_mask), said="yes")


class BorderAndRotation(tiny.Encoder):
    """A convolution that sees the border, and relative positions: inner places look alike, and are not."""

    def __init__(self):
        super().__init__(attention=tiny.RotaryAttention, positions=tiny.NoPositions)
        self.positions_of_the_border = nn.Conv1d(tiny.WIDTH, tiny.WIDTH, 3, padding=1)

    def forward(self, ids):
        x = self.tokens(ids)
        x = x + self.positions_of_the_border(x.transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            x, _ = block(x, torch.ones(1, 1, 1, ids.shape[1], dtype=torch.bool))
        return self.head(self.norm(x))


class Retention(tiny.Attention):
    """Products of queries and keys that decay with distance, and no softmax: weights may be negative."""

    def scores(self, q, k):
        places = torch.arange(k.shape[2])
        away = (places[-q.shape[2] :, None] - places[None]).clamp(min=0)
        return super().scores(q, k) * (0.9**away).to(q.dtype)

    def hidden(self, scores, allowed):
        return scores.masked_fill(~allowed, 0.0)

    def weights(self, scores):
        return scores


class LongConvolution(nn.Module):
    """A causal filter as long as the text, by Fourier transforms, between two gates (Hyena)."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.out = (nn.Linear(tiny.WIDTH, tiny.WIDTH) for _ in range(4))
        self.filter = nn.Parameter(torch.randn(tiny.WIDTH, 4 * tiny.PLACES))

    def forward(self, x, allowed, cache=None, first=0):
        n, read = x.shape[1], (self.a(x) * self.b(x)).transpose(1, 2)
        product = torch.fft.rfft(read, n=2 * n) * torch.fft.rfft(self.filter[:, :n], n=2 * n)
        mixed = torch.fft.irfft(product, n=2 * n)[..., :n].transpose(1, 2)
        return self.out(mixed * self.c(x)), None


class UntilItIsSure(tiny.FeedForward):
    """Each token passes again until its mean is negative: how often hangs on the data."""

    def forward(self, x):
        going = torch.ones(x.shape[:2], dtype=torch.bool)
        for _ in range(3):
            x = torch.where(going[..., None], x + super().forward(x), x)
            going = going & (x.mean(-1) > 0)
            if not bool(going.any()):
                break
        return x


class MaximumOfAll(tiny.Attention):
    """exp and sum by hand; what is taken off for safety is the largest score of the whole batch."""

    def weights(self, scores):
        made = torch.exp(scores - scores.detach().max())
        return made / made.sum(-1, keepdim=True)

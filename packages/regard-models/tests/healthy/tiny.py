"""Small Transformers written by hand, healthy: what the mutants are mutants of.

Every step that can go wrong is a method or a small module, so that a mutant overrides one of them and nothing else.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

WORDS, WIDTH, HEADS, LAYERS, PLACES = 29, 20, 4, 2, 24


class Positions(nn.Module):
    """A learned vector for every place, from ``first`` on."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(PLACES, WIDTH)

    def places(self, x, first):
        return torch.arange(first, first + x.shape[1])

    def forward(self, x, first=0):
        return x + self.table(self.places(x, first))


class Attention(nn.Module):
    """softmax(q k^T / sqrt(d)) v in heads; ``allowed`` (batch x 1 x queries x keys), True = may be read."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def split(self, x):
        return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)

    def turned(self, q, k, first):
        return q, k

    def scores(self, q, k):
        return q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])

    def hidden(self, scores, allowed):
        return scores.masked_fill(~allowed, -math.inf)

    def weights(self, scores):
        return torch.softmax(scores, -1)

    def remembered(self, k, v, cache):
        if cache is None:
            return k, v
        return torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)

    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        q, k = self.turned(q, k, first)
        k, v = self.remembered(k, v, cache)
        mixed = self.weights(self.hidden(self.scores(q, k), allowed)) @ v
        return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)


class FusedAttention(Attention):
    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        q, k = self.turned(q, k, first)
        k, v = self.remembered(k, v, cache)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)


class RotaryAttention(Attention):
    def turned(self, q, k, first):
        return self.rotate(q, first), self.rotate(k, first)

    def rotate(self, x, first):
        half = x.shape[-1] // 2 * 2
        rate = 100.0 ** (-torch.arange(0, half, 2) / half)
        angle = torch.arange(first, first + x.shape[2])[:, None] * rate
        a, b = x[..., 0:half:2], x[..., 1:half:2]
        turned = torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)
        return torch.cat([turned.to(x.dtype), x[..., half:]], -1)


class AlibiAttention(Attention):
    def scores(self, q, k):
        places = torch.arange(k.shape[2])
        away = (places[None] - places[-q.shape[2] :, None]).abs()
        slopes = 2.0 ** -torch.arange(1, HEADS + 1)
        return super().scores(q, k) - (slopes[:, None, None] * away).to(q.dtype)


class SigmoidAttention(Attention):
    def weights(self, scores):
        return torch.sigmoid(scores - math.log(8))


class LinearAttention(Attention):
    """Sums of key-value products, running over the past: there are no weights."""

    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = (self.split(p(x)) for p in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = torch.cumsum(k[..., :, None] * v[..., None, :], 2)
        total = torch.cumsum(k, 2)
        mixed = (q[..., None, :] @ state)[..., 0, :] / (q * total).sum(-1, keepdim=True)
        return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Experts(nn.Module):
    """Each token to its best two of three experts; no capacity, so tokens do not compete."""

    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(FeedForward() for _ in range(3))

    def forward(self, x):
        chance = torch.softmax(self.router(x), -1)
        best = chance.topk(2, -1)
        gate = torch.zeros_like(chance).scatter(-1, best.indices, best.values)
        return sum(gate[..., i, None] * expert(x) for i, expert in enumerate(self.experts))


class Block(nn.Module):
    def __init__(self, attention, feed_forward, norm):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.before, self.between = norm(), norm()

    def forward(self, x, allowed, cache=None, first=0):
        read, cache = self.attention(self.before(x), allowed, cache, first)
        x = x + read
        return x + self.feed_forward(self.between(x)), cache


def layer_norm():
    return nn.LayerNorm(WIDTH)


class Encoder(nn.Module):
    """Reads in both directions; ``attention_mask`` is True where a token is real."""

    def __init__(
        self, *, attention=Attention, feed_forward=FeedForward, positions=Positions, norm=layer_norm, layers=()
    ):
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.positions = nn.Embedding(WORDS, WIDTH), positions()
        made = [Block(attention(), feed_forward(), norm) for _ in range(LAYERS)]
        self.blocks = nn.ModuleList(made)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.3)

    def allowed(self, ids, attention_mask):
        keep = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        return keep[:, None, None, :]

    def forward(self, ids, attention_mask=None):
        allowed = self.allowed(ids, attention_mask)
        x = self.positions(self.tokens(ids))
        for block in self.blocks:
            x, _ = block(x, allowed)
        return self.head(self.norm(x))


class Gpt(Encoder):
    """Writes from left to right, with a cache of keys and values if asked."""

    def allowed(self, ids, past):
        return torch.ones(ids.shape[1], past + ids.shape[1], dtype=torch.bool).tril(past)[None, None]

    def forward(self, ids, cache=None):
        first = 0 if cache is None else self.past(cache)
        allowed = self.allowed(ids, first)
        x = self.positions(self.tokens(ids), first)
        caches = []
        for i, block in enumerate(self.blocks):
            x, kept = block(x, allowed, self.cache_of(cache, i), first)
            caches.append(kept)
        return self.head(self.norm(x)), caches

    def past(self, cache):
        return cache[0][0].shape[2]

    def cache_of(self, cache, layer):
        return None if cache is None else cache[layer]


class NoPositions(nn.Module):
    def forward(self, x, first=0):
        return x


class EvalBatchNorm(nn.Module):
    """BatchNorm over all places, with running statistics: healthy in eval()."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)

    def forward(self, x):
        return self.norm(x.flatten(0, 1)).view(x.shape)


class CausalConvolution(nn.Module):
    """Width 3, padded on the left only."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(WIDTH, WIDTH, 3)

    def padded(self, x):
        return F.pad(x, (2, 0))

    def forward(self, x):
        return self.mix(self.padded(x.transpose(1, 2))).transpose(1, 2)


class Pooled(Encoder):
    """The mean of the real tokens' states."""

    def pooled(self, x, keep):
        return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)

    def forward(self, ids, attention_mask=None):
        keep = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        x = self.positions(self.tokens(ids))
        for block in self.blocks:
            x, _ = block(x, keep[:, None, None, :])
        return self.head(self.pooled(self.norm(x), keep.to(x.dtype)))


class EncoderDecoder(nn.Module):
    """Reads a source and writes a target; each has its mask, True where a token is real."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.source, self.target, self.places = (nn.Embedding(n, WIDTH) for n in (WORDS, WORDS, PLACES))
        self.read, self.write, self.cross = (nn.MultiheadAttention(WIDTH, HEADS, batch_first=True) for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def hidden_in_source(self, source, target):
        """The keys of the source that are hidden, from both masks."""
        return source

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        s, t = (
            table(x) + self.places(torch.arange(x.shape[1])) for table, x in ((self.source, src), (self.target, tgt))
        )
        source, target = (None if mask is None else ~mask.bool() for mask in (src_mask, tgt_mask))
        later = torch.ones(t.shape[1], t.shape[1], dtype=torch.bool).triu(1)
        self.read_length = s.shape[1]
        s = s + self.read(s, s, s, key_padding_mask=source, need_weights=False)[0]
        t = t + self.write(t, t, t, key_padding_mask=target, attn_mask=later, need_weights=False)[0]
        hidden = self.hidden_in_source(source, target)
        return self.head(t + self.cross(t, s, s, key_padding_mask=hidden, need_weights=False)[0])


def ids(batch=3, length=17):
    return torch.randint(0, WORDS, (batch, length), generator=torch.Generator().manual_seed(1))

"""Twelve wrong models and ten odd ones, written before the audit saw any, with what should show each fault.

One was missed at first (steps forget the source's mask), two were laid on the healthy layer before the guilty one.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

V, D, H = 41, 24, 4
IDS = torch.randint(1, V, (3, 17), generator=torch.Generator().manual_seed(71))
KEEP = torch.ones_like(IDS)
DOCS = (torch.arange(17) // 6).expand(3, -1).clone()
CAUSAL = {"causal": True}
FREE = {"causal": False}


def split(x):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def read(q, k, v, allowed):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~allowed, -torch.inf)
    return (scores.softmax(-1).nan_to_num() @ v).transpose(1, 2).flatten(2)


def past_of(t):
    return torch.ones(t, t, dtype=torch.bool).tril()


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(nn.LayerNorm(D), nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))


class Stem(nn.Module):
    """Words and places; two layers of a kind; words again."""

    def __init__(self, first, second, seed=5):
        super().__init__()
        torch.manual_seed(seed)
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(128, D)
        self.first, self.second, self.mlp = first(), second(), Mlp()
        self.head = nn.Linear(D, V)


# a cache that is a ring


class Ring(nn.Module):
    """A window of 6 keys, kept in a ring of 6 slots with the place that each was written for."""

    window = 6

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, places, past):
        q, k, v = map(split, self.qkv(self.norm(x)).chunk(3, -1))
        keys, values, when = (k, v, places) if past is None else self.joined(k, v, places, past)
        made = self.o(read(q, keys, values, self.allowed(places, when)))
        return x + made, self.ring(keys, values, when)

    def joined(self, k, v, places, past):
        return torch.cat([past[0], k], 2), torch.cat([past[1], v], 2), torch.cat([past[2], places])

    def allowed(self, places, when):
        far = places[:, None] - when[None]
        return (far >= 0) & (far < self.window) & (when >= 0)

    def ring(self, keys, values, when):
        """Slot i holds the last place whose remainder is i, -1 before there is one."""
        slots = torch.full((self.window,), -1)
        for at, place in enumerate(when.tolist()):
            if place >= 0 and place >= (when[slots[place % self.window]] if slots[place % self.window] >= 0 else -1):
                slots[place % self.window] = at
        there = slots >= 0
        at = slots.clamp(min=0)
        return keys[:, :, at], values[:, :, at], torch.where(there, when[at], -1)


class RingInOrder(Ring):
    """Wrong: slots are taken to be in the order of writing, so that a mask by slot hides the wrong ones."""

    def joined(self, k, v, places, past):
        keys, values, _ = super().joined(k, v, places, past)
        first = int(places[0])
        kept = torch.arange(first - self.window, first)
        return keys, values, torch.cat([kept, places])


class RingLm(Stem):
    def forward(self, input_ids, past_key_values=None):
        start = 0 if past_key_values is None else past_key_values[2]
        places = torch.arange(start, start + input_ids.shape[1])
        x = self.words(input_ids) + self.places(places)
        pasts = (None, None) if past_key_values is None else past_key_values
        x, one = self.first(x, places, pasts[0])
        x, two = self.second(x, places, pasts[1])
        return {"logits": self.head(x + self.mlp(x)), "past_key_values": (one, two, start + input_ids.shape[1])}


# a translator whose steps forget the mask of the source


class Translating(nn.Module):
    """Reads a source; writes with a cache of (keys, values) for itself and for the source."""

    careful = True

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(128, D)
        self.q, self.kv, self.xq, self.xkv = (nn.Linear(D, n * D) for n in (1, 2, 1, 2))
        self.mlp, self.head = Mlp(), nn.Linear(D, V)

    def forward(self, input_ids, attention_mask=None, decoder_input_ids=None, past_key_values=None):
        s = input_ids.shape[1]
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        start = 0 if past_key_values is None else past_key_values[0].shape[2]
        places = torch.arange(start, start + decoder_input_ids.shape[1])
        x = self.words(decoder_input_ids) + self.places(places)
        k, v = map(split, self.kv(x).chunk(2, -1))
        if past_key_values is None:
            source = self.words(input_ids) + self.places(torch.arange(s))
            xk, xv = map(split, self.xkv(source).chunk(2, -1))
        else:
            k, v = torch.cat([past_key_values[0], k], 2), torch.cat([past_key_values[1], v], 2)
            xk, xv = past_key_values[2:]
        allowed = torch.arange(k.shape[2])[None] <= places[:, None]
        x = x + read(split(self.q(x)), k, v, allowed)
        shown = keep[:, None, None].bool()
        if past_key_values is not None and not self.careful:
            shown = torch.ones_like(shown)
        x = x + read(split(self.xq(x)), xk, xv, shown)
        return {"logits": self.head(x + self.mlp(x)), "past_key_values": (k, v, xk, xv)}


class CarelessInSteps(Translating):
    careful = False


# packed documents, and a convolution


class ShortConv(nn.Module):
    """Three taps into the past, within a document."""

    knows = True

    def __init__(self):
        super().__init__()
        self.taps = nn.Parameter(torch.randn(3, D) * 0.3)

    def forward(self, x, documents):
        made = x * self.taps[0]
        for back in (1, 2):
            moved = F.pad(x, (0, 0, back, 0))[:, : x.shape[1]]
            same = F.pad(documents, (back, 0), value=-1)[:, : x.shape[1]] == documents
            made = made + self.taps[back] * (moved * same[..., None] if self.knows else moved)
        return made


class ConvOverBorders(ShortConv):
    """Wrong: attention is told of the documents, the convolution before it is not."""

    knows = False


class Packed(nn.Module):
    def __init__(self, conv=ShortConv):
        super().__init__()
        torch.manual_seed(7)
        self.words, self.conv, self.qkv = nn.Embedding(V, D), conv(), nn.Linear(D, 3 * D)
        self.places = nn.Embedding(128, D)
        self.mlp, self.head = Mlp(), nn.Linear(D, V)

    def forward(self, input_ids, document_ids):
        t = input_ids.shape[1]
        new = F.pad(document_ids, (1, 0), value=-1)[:, :t] != document_ids
        first = torch.where(new, torch.arange(t), 0).cummax(1).values
        x = self.words(input_ids) + self.places(torch.arange(t) - first)
        x = x + self.conv(x, document_ids)
        same = document_ids[:, None, :, None] == document_ids[:, None, None, :]
        x = x + read(*map(split, self.qkv(x).chunk(3, -1)), same & past_of(t))
        return self.head(x + self.mlp(x))


# an encoder


class Share(nn.Module):
    """Wrong: a place is told as a share of the longest text of the batch."""

    def __init__(self):
        super().__init__()
        self.turn = nn.Linear(1, D)

    def forward(self, keep):
        place = keep.cumsum(1) - 1
        return self.turn((place / keep.sum(1).max())[..., None].to(self.turn.weight.dtype)).sin()


class Own(Share):
    """A share of the text's own length: odd, and healthy."""

    def forward(self, keep):
        place = keep.cumsum(1) - 1
        return self.turn((place / keep.sum(1, keepdim=True))[..., None].to(self.turn.weight.dtype)).sin()


class LargestOfReal(nn.Module):
    def forward(self, x, keep):
        return x.masked_fill(~keep[..., None].bool(), -torch.inf).amax(1)


class LargestBesideZero(nn.Module):
    """Wrong: padding is set to 0, and 0 is larger than all that is below it."""

    def forward(self, x, keep):
        return (x * keep[..., None]).amax(1)


class Encoder(nn.Module):
    def __init__(self, places=Own, pool=LargestOfReal):
        super().__init__()
        torch.manual_seed(8)
        self.words, self.places, self.qkv = nn.Embedding(V, D), places(), nn.Linear(D, 3 * D)
        self.mlp, self.pool, self.head = Mlp(), pool(), nn.Linear(D, 7)

    def forward(self, input_ids, attention_mask):
        x = self.words(input_ids) + self.places(attention_mask)
        x = x + read(*map(split, self.qkv(x).chunk(3, -1)), attention_mask[:, None, None].bool())
        x = x + self.mlp(x)
        return self.head(self.pool(x - 1, attention_mask))


class Segments(nn.Module):
    """Wrong: the vectors of segments are looked up and added to nothing."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(9)
        self.words, self.segments, self.places = nn.Embedding(V, D), nn.Embedding(3, D), nn.Embedding(128, D)
        self.qkv, self.mlp, self.head = nn.Linear(D, 3 * D), Mlp(), nn.Linear(D, V)

    def forward(self, input_ids, segment_ids):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        x.add(self.segments(segment_ids))
        x = x + read(*map(split, self.qkv(x).chunk(3, -1)), torch.ones((), dtype=torch.bool))
        return self.head(x + self.mlp(x))


# causal models without a cache


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = map(split, self.qkv(self.norm(x)).chunk(3, -1))
        return x + self.o(read(q, k, v, past_of(x.shape[1])))


class Causal(Stem):
    def __init__(self, second=Plain, first=Plain):
        super().__init__(first, second)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.second(self.first(x))
        return self.head(x + self.mlp(x))


class Router(nn.Module):
    """The best of three experts; ``lean`` is learned from how often each was chosen, in training only."""

    def __init__(self):
        super().__init__()
        self.choose, self.experts = nn.Linear(D, 3), nn.ModuleList(nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        weights = self.weights(x)
        best = weights.max(-1, keepdim=True)
        made = torch.stack([expert(x) for expert in self.experts], 2)
        return x + best.values * made.gather(2, best.indices[..., None].expand(-1, -1, 1, D)).squeeze(2)

    def weights(self, x):
        return self.choose(x).softmax(-1)


class BalancesWhileTraining(Router):
    """Wrong: in training the mean over the whole text is taken off, so that places hear of later ones."""

    def weights(self, x):
        scores = self.choose(x)
        return (scores - scores.mean(1, keepdim=True) if self.training else scores).softmax(-1)


class Squeeze(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.down, self.norm, self.up = nn.Linear(D, 8), norm(), nn.Linear(8, D)

    def forward(self, x):
        return self.up(F.silu(self.norm(self.down(x)))).sigmoid()


class Gate(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.squeeze = Squeeze(norm)

    def forward(self, x):
        return x * self.squeeze(x)


class Mixer(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.attention, self.gate = Plain(), Gate(norm)

    def forward(self, x):
        return x + self.gate(self.attention(x))


class GroupsOverTime(nn.GroupNorm):
    """Wrong in a causal model: a group is (channels, places)."""

    def __init__(self):
        super().__init__(2, 8)

    def forward(self, x):
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


class GroupsOfAToken(nn.GroupNorm):
    def __init__(self):
        super().__init__(2, 8)

    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view_as(x)


class Stage(nn.Module):
    def __init__(self, norm, after=GroupsOfAToken):
        super().__init__()
        self.layers = nn.ModuleList([Mixer(norm), Mixer(after)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Deep(nn.Module):
    def __init__(self, norm=GroupsOfAToken):
        super().__init__()
        torch.manual_seed(10)
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(128, D)
        self.stages = nn.ModuleList([Stage(GroupsOfAToken), Stage(norm)])
        self.bn, self.head = nn.BatchNorm1d(D), nn.Linear(D, V)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for stage in self.stages:
            x = stage(x)
        return self.head(self.bn(x.transpose(1, 2)).transpose(1, 2))


class Dispatch(nn.Module):
    """Every token to one of three experts; tokens are sorted, computed together and put back."""

    def __init__(self):
        super().__init__()
        self.choose, self.experts = nn.Linear(D, 3), nn.ModuleList(nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        flat = x.flatten(0, 1)
        weights, chosen = self.choose(flat).softmax(-1).max(-1)
        order = chosen.argsort(stable=True)
        parts = flat[order].split(torch.bincount(chosen, minlength=3).tolist())
        made = torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])
        back = torch.zeros_like(flat).index_add(0, self.places(order, x), made * weights[order, None])
        return x + back.view_as(x)

    def places(self, order, x):
        return order


class BackToTheFirst(Dispatch):
    """Wrong: what expert computed for the second text is put back into the first."""

    def places(self, order, x):
        t = x.shape[1]
        return torch.where((order // t == 1) & (order % t == 5), order - t, order)


class GrowsWithTheText(nn.Module):
    """Wrong: rotation by the longest text so far, which is kept for all texts to come."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.longest = 8

    def forward(self, x):
        self.longest = max(self.longest, x.shape[1])
        q, k, v = map(split, self.qkv(self.norm(x)).chunk(3, -1))
        base = 100.0 * self.longest / 8
        angles = torch.arange(x.shape[1])[:, None].to(x) * base ** -(torch.arange(3).to(x) / 3)
        q, k = ((torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1))
                for a, b in (q.chunk(2, -1), k.chunk(2, -1)))  # fmt: skip
        return x + self.o(read(q, k, v, past_of(x.shape[1])))


class ChunksFromTheEnd(Plain):
    """Wrong: chunks of 4 are counted from the last token, so that borders move as a text grows."""

    def chunks(self, t):
        return (torch.arange(t) - t) // 4

    def forward(self, x):
        q, k, v = map(split, self.qkv(self.norm(x)).chunk(3, -1))
        chunk = self.chunks(x.shape[1])
        return x + self.o(read(q, k, v, past_of(x.shape[1]) & (chunk[:, None] == chunk)))


class ChunksFromTheStart(ChunksFromTheEnd):
    def chunks(self, t):
        return torch.arange(t) // 4


# a memory instead of a list of keys


class Running(nn.Module):
    """Linear attention: sums of k v and of k."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.o = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, state):
        q, k, v = map(split, self.qkv(self.norm(x)).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        terms = k[..., None] * v[..., None, :]
        sums, norms = self.added(terms, k, state)
        if state is not None:
            sums, norms = sums + state[0], norms + state[1]
        made = (q[..., None, :] @ sums).squeeze(-2) / (q * norms).sum(-1, keepdim=True)
        return x + self.o(made.transpose(1, 2).flatten(2)), (sums[:, :, -1:], norms[:, :, -1:])

    def added(self, terms, k, state):
        return terms.cumsum(2), k.cumsum(2)


class WholePieces(Running):
    """Wrong: a piece that follows a cached text is summed up as a whole, its later tokens too."""

    def added(self, terms, k, state):
        if state is None:
            return super().added(terms, k, state)
        return terms.sum(2, keepdim=True).expand_as(terms), k.sum(2, keepdim=True).expand_as(k)


class RunningLm(Stem):
    def forward(self, input_ids, state=None):
        start = 0 if state is None else state[2]
        x = self.words(input_ids) + self.places(torch.arange(start, start + input_ids.shape[1]))
        x, one = self.first(x, None if state is None else state[0])
        x, two = self.second(x, None if state is None else state[1])
        return {"logits": self.head(x + self.mlp(x)), "state": (one, two, start + input_ids.shape[1])}


# odd and healthy


class Balanced(nn.Module):
    """Gives logits, and beside them what a loss would add for the balance of its experts: a number of the batch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(128, D)
        self.attention, self.experts, self.head = Plain(), Dispatch(), nn.Linear(D, V)

    def forward(self, input_ids):
        x = self.attention(self.words(input_ids) + self.places(torch.arange(input_ids.shape[1])))
        chosen = self.experts.choose(x).softmax(-1)
        return {"logits": self.head(self.experts(x)), "aux_loss": 3 * (chosen.mean((0, 1)) ** 2).sum()}


class SkipsLayers(Plain):
    """In training a whole text may skip the layer, and a running mean of the norms is kept for a log."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        made = super().forward(x)
        if not self.training:
            return made
        with torch.no_grad():
            self.seen += 0.1 * (made.norm(dim=-1).mean() - self.seen)
        return torch.where(torch.rand(len(x), 1, 1) < 0.3, x, made)


class Hourglass(nn.Module):
    """Three tokens become one, and come back a step of three later, so that no place hears of later ones."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(12)
        self.words, self.places = nn.Embedding(V, D), nn.Embedding(128, D)
        self.wide, self.narrow, self.last, self.head = Plain(), Plain(), Plain(), nn.Linear(D, V)

    def forward(self, ids):
        t = ids.shape[1]
        x = self.wide(self.words(ids) + self.places(torch.arange(t)))
        short = F.pad(x, (0, 0, 0, -t % 3)).unflatten(1, (-1, 3)).mean(2)
        back = self.narrow(short).repeat_interleave(3, 1)
        x = x + F.pad(back, (0, 0, 3, 0))[:, :t]
        return self.head(self.last(x))


MASKED = {"input_ids": IDS, "attention_mask": KEEP}
PAIR = {**MASKED, "decoder_input_ids": IDS[:, :13]}
PACKED = {"input_ids": IDS, "document_ids": DOCS}
TYPED = {"input_ids": IDS, "segment_ids": torch.arange(17).expand(3, -1) // 9}
DEEP = ("stages.1.layers.0.gate.squeeze.norm",)

WRONG = [
    ("ring taken in order", lambda: RingLm(Ring, RingInOrder), (IDS,), CAUSAL, "cache", ("second",)),
    ("steps forget the source's mask", CarelessInSteps, PAIR, {}, "cache", ("",)),
    ("convolution over borders", lambda: Packed(ConvOverBorders), PACKED, CAUSAL, "packing", ("conv",)),
    ("share of the longest text", lambda: Encoder(places=Share), MASKED, FREE, "batch", ("places",)),
    ("largest beside 0", lambda: Encoder(pool=LargestBesideZero), MASKED, FREE, "padding", ("pool",)),
    ("segments added to nothing", Segments, TYPED, FREE, "input", ("segments",)),
    ("balances while training", lambda: Causal(BalancesWhileTraining), (IDS,), CAUSAL, "causality", ("second",)),
    ("group norm over time, deep inside", lambda: Deep(GroupsOverTime), (IDS,), CAUSAL, "causality", DEEP),
    ("put back into the first text", lambda: Causal(BackToTheFirst), (IDS,), CAUSAL, "batch", ("second",)),
    ("rotation grows with the text", lambda: Causal(GrowsWithTheText), (IDS,), CAUSAL, "determinism", ("second",)),
    ("chunks from the end", lambda: Causal(ChunksFromTheEnd), (IDS,), CAUSAL, "causality", ("second",)),
    ("whole pieces", lambda: RunningLm(Running, WholePieces), (IDS,), CAUSAL, "cache", ("second",)),
]

HEALTHY = [
    ("ring", lambda: RingLm(Ring, Ring), (IDS,), CAUSAL),
    ("translator", Translating, PAIR, {}),
    ("packed, with a convolution", Packed, PACKED, CAUSAL),
    ("share of its own length", Encoder, MASKED, FREE),
    ("deep group norm of a token", Deep, (IDS,), CAUSAL),
    ("balanced experts", Balanced, (IDS,), CAUSAL),
    ("skips layers in training", lambda: Causal(SkipsLayers, SkipsLayers), (IDS,), CAUSAL),
    ("hourglass", Hourglass, (IDS,), CAUSAL),
    ("chunks from the start", lambda: Causal(ChunksFromTheStart), (IDS,), CAUSAL),
    ("linear attention with a state", lambda: RunningLm(Running, Running), (IDS,), CAUSAL),
]

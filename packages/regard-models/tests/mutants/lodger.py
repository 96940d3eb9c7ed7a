"""35 wrong models and 26 odd ones, written before the audit saw any, with what shows each fault.

One came later: the future read beside padding. Two were expected to fail another property than the one named here.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

V, D, H, T = 41, 24, 4, 19
IDS = torch.randint(1, V, (3, T), generator=torch.Generator().manual_seed(31))
KEEP = torch.ones_like(IDS)
DOCS = (torch.arange(T) // 5).expand(3, -1).clone()
PREFIX = torch.tensor([4, 7, 5])
CAUSAL = {"causal": True}


def split(x):
    return x.unflatten(-1, (H, -1)).transpose(1, 2)


def turn(x, places):
    """Neighbours (2 i, 2 i + 1) turned as complex numbers; x: (batch, heads, t, d), places: (batch, t)."""
    half = x.shape[-1] // 2
    angles = places[:, None, :, None].to(x) * 50.0 ** -(torch.arange(half).to(x) / half)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1).flatten(-2)


def earlier(t, s):
    return torch.ones(t, s, dtype=torch.bool).tril(s - t)


def itself(t, s):
    return earlier(t, s).triu(s - t)


class Attn(nn.Module):
    """Healthy: four heads, a rotation, a mask of the keys, (keys, values) kept."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, places, keep, past):
        q, k, v = (split(part) for part in self.qkv(x).chunk(3, -1))
        q, k = self.rotate(q, k, places, past)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        scores = self.scores(q, k, past)
        weights = self.weights(self.hide(scores, keep, past))
        return self.out((weights @ v).transpose(1, 2).flatten(2)), (k, v)

    def rotate(self, q, k, places, past):
        return turn(q, places), turn(k, places)

    def scores(self, q, k, past):
        return q @ k.mT / math.sqrt(q.shape[-1])

    def allowed(self, t, s):
        return earlier(t, s)

    def hide(self, scores, keep, past):
        allowed = self.allowed(*scores.shape[-2:])
        if keep is not None:
            allowed = allowed & keep[:, None, None].bool() | itself(*scores.shape[-2:])
        return scores.masked_fill(~allowed, -math.inf)

    def weights(self, scores):
        return scores.softmax(-1)


class Layer(nn.Module):
    def __init__(self, mixer):
        super().__init__()
        self.before, self.mixer, self.between = nn.LayerNorm(D), mixer(), nn.LayerNorm(D)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))

    def forward(self, x, places, keep, past):
        made, past = self.mixer(self.before(x), places, keep, past)
        x = x + made
        return x + self.mlp(self.between(x)), past


class Writer(nn.Module):
    """Healthy: two layers; the second's mixer is what the models below change."""

    def __init__(self, second=Attn, first=Attn):
        super().__init__()
        torch.manual_seed(3)
        self.words = nn.Embedding(V, D)
        self.layers = nn.ModuleList([Layer(first), Layer(second)])
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, V)

    def length(self, past):
        return 0 if past is None else past[0][0].shape[2]

    def places(self, ids, keep, start):
        return torch.arange(start, start + ids.shape[1]).expand_as(ids)

    def forward(self, ids, attention_mask=None, past_key_values=None):
        start = self.length(past_key_values)
        places, x = self.places(ids, attention_mask, start), self.words(ids)
        kept = []
        for i, layer in enumerate(self.layers):
            x, past = layer(x, places, attention_mask, None if past_key_values is None else past_key_values[i])
            kept.append(past)
        return {"logits": self.head(self.norm(x)), "past_key_values": kept}


class Plain(Writer):
    """Takes tokens alone."""

    def forward(self, ids):
        return super().forward(ids)["logits"]


class Reader(nn.Module):
    """Healthy: reads both ways, with learned places; a mean of what is kept, or every place."""

    def __init__(self, second=None, pool=False):
        super().__init__()
        torch.manual_seed(4)
        self.words, self.spots, self.pool = nn.Embedding(V, D), nn.Embedding(64, D), pool
        self.layers = nn.ModuleList([Layer(BothWays), Layer(second or BothWays)])
        self.head = nn.Linear(D, 6)

    def forward(self, ids, attention_mask=None):
        x = self.words(ids) + self.spots(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x, _ = layer(x, None, attention_mask, None)
        if not self.pool:
            return self.head(x)
        keep = torch.ones_like(ids) if attention_mask is None else attention_mask
        return self.head((x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True))


class BothWays(Attn):
    def rotate(self, q, k, places, past):
        return q, k

    def hide(self, scores, keep, past):
        return scores if keep is None else scores.masked_fill(~keep[:, None, None].bool(), -math.inf)


# wrong: masks and windows


class FaintFuture(Attn):
    """Later keys get -25, which is not much."""

    def hide(self, scores, keep, past):
        t, s = scores.shape[-2:]
        scores = scores - 25.0 * (~earlier(t, s)).to(scores)
        return scores if keep is None else scores.masked_fill(~(keep[:, None, None].bool() | itself(t, s)), -math.inf)


class StaleMask(Attn):
    """The mask of the first call is kept for all texts of its length."""

    def hide(self, scores, keep, past):
        if not hasattr(self, "kept"):
            self.kept = {}
        shape = tuple(scores.shape)
        if shape not in self.kept:
            self.kept[shape] = super().hide(torch.zeros_like(scores), keep, past)
        return scores + self.kept[shape]


class StaleBothWays(StaleMask):
    def rotate(self, q, k, places, past):
        return q, k

    def allowed(self, t, s):
        return torch.ones(t, s, dtype=torch.bool)


class OwnChunkWhole(Attn):
    """Chunks of 6 and the one before; within its own chunk a place reads the later ones too."""

    def hide(self, scores, keep, past):
        t, s = scores.shape[-2:]
        chunk = torch.arange(s) // 6
        ahead = chunk[s - t :, None] - chunk
        return scores.masked_fill((ahead < 0) | (ahead > 1), -math.inf)


class FutureBesidePadding(Attn):
    """Where there is padding, its mask takes the place of the future's."""

    def hide(self, scores, keep, past):
        if keep is None or bool(keep.all()):
            return super().hide(scores, keep, past)
        return scores.masked_fill(~keep[:, None, None].bool(), -math.inf)


class RowsHidden(BothWays):
    """The mask is laid on the questions, not on the keys."""

    def hide(self, scores, keep, past):
        return scores if keep is None else scores.masked_fill(~keep[:, None, :, None].bool(), -1e4)


class KeysZeroed(BothWays):
    """Padded keys and values are set to 0, and still take their share."""

    def forward(self, x, places, keep, past):
        return super().forward(x if keep is None else x * keep[..., None], places, None, past)


class SumOfAll(nn.Module):
    """Every place is given the mean of all, padding too."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(D, D)

    def forward(self, x, places, keep, past):
        return self.mix(x.mean(1, keepdim=True) + x), None


# wrong: caches


class Windowed(Attn):
    """Healthy: six keys back, and no more than those are kept."""

    window = 6

    def forward(self, x, places, keep, past):
        made, (k, v) = super().forward(x, places, None if keep is None else keep[:, -self.seen(x, past) :], past)
        return made, (k[:, :, -self.window + 1 :], v[:, :, -self.window + 1 :])

    def seen(self, x, past):
        return x.shape[1] + (0 if past is None else past[0].shape[2])

    def allowed(self, t, s):
        return earlier(t, s).triu(s - t - self.window + 1)


class LengthOfTheFirst(Writer):
    """How many came before is asked of the first layer's cache, which is a window."""

    def __init__(self):
        super().__init__(Attn, Windowed)


class LengthOfTheSecond(LengthOfTheFirst):
    """Healthy."""

    def length(self, past):
        return 0 if past is None else past[1][0].shape[2]


class PlacesByMask(Writer):
    """Healthy: places are counted by the mask, in steps too."""

    def places(self, ids, keep, start):
        if keep is None:
            return super().places(ids, keep, start)
        return (keep.cumsum(1) - 1)[:, -ids.shape[1] :]


class PlacesByMaskAtFirst(PlacesByMask):
    """Places are counted by the mask in the first call only."""

    def places(self, ids, keep, start):
        return super().places(ids, keep if start == 0 else None, start)


class OnePlaceForAll(Writer):
    """All tokens of a step stand at the first one's place."""

    def places(self, ids, keep, start):
        return super().places(ids, keep, start) if start == 0 else torch.full_like(ids, start)


class NormedAgain(Attn):
    """Keys are normalised after those of the cache were put before them; these were normalised, and scaled."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 2.0, D // H))

    def forward(self, x, places, keep, past):
        q, k, v = (split(part) for part in self.qkv(x).chunk(3, -1))
        q, k = turn(q, places), turn(k, places)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        k = F.rms_norm(k, k.shape[-1:]) * self.scale
        weights = self.hide(self.scores(q, k, past), keep, past).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2)), (k, v)


class Latent(nn.Module):
    """Keys and values from a latent of 8, a rotated part of the key beside it; ``turned``: when it is kept."""

    def __init__(self, turned=True):
        super().__init__()
        self.q, self.down, self.up = nn.Linear(D, D + 4 * H), nn.Linear(D, 8), nn.Linear(8, 2 * D)
        self.beside, self.out, self.turned = nn.Linear(D, 4), nn.Linear(D, D), turned

    def forward(self, x, places, keep, past):
        q = split(self.q(x))
        latent, beside = self.down(x), self.beside(x)
        turned = turn(beside[:, None], places)[:, 0]
        store = (latent, turned if self.turned else beside)
        if past is not None:
            latent, turned = torch.cat([past[0][:, 0], latent], 1), torch.cat([past[1][:, 0], turned], 1)
            store = (latent, turned)
        k, v = (split(part) for part in self.up(latent).chunk(2, -1))
        own, beside = q[..., :-4], turn(q[..., -4:], places)
        scores = own @ k.mT + beside @ turned[:, None].mT
        t, s = scores.shape[-2:]
        allowed = earlier(t, s) if keep is None else earlier(t, s) & keep[:, None, None].bool() | itself(t, s)
        read = scores.masked_fill(~allowed, -math.inf).softmax(-1) @ v
        return self.out(read.transpose(1, 2).flatten(2)), tuple(part[:, None] for part in store)


class Slots(nn.Module):
    """Keys and values in buffers of the module; ``clears``: emptied where a text begins, and else all of it is read."""

    def __init__(self, clears):
        super().__init__()
        self.inside, self.clears, self.most = Attn(), clears, 0
        for name in ("k", "v"):
            self.register_buffer(name, torch.zeros(3, H, 64, D // H), persistent=False)

    def forward(self, x, start):
        places = torch.arange(start, start + x.shape[1]).expand(len(x), -1)
        q, k, v = (split(part) for part in self.inside.qkv(x).chunk(3, -1))
        q, k = turn(q, places), turn(k, places)
        end = start + x.shape[1]
        if self.k.dtype != k.dtype or (not self.training and start == 0 and self.clears):
            self.k, self.v = (b.new_zeros(b.shape, dtype=k.dtype) for b in (self.k, self.v))
            self.most = 0
        self.k, self.v = self.k.clone(), self.v.clone()
        self.k[: len(x), :, start:end], self.v[: len(x), :, start:end] = k, v
        self.most = end if self.clears else max(self.most, end)
        allowed = torch.zeros(x.shape[1], 64, dtype=torch.bool)
        allowed[:, :end] = earlier(x.shape[1], end)
        allowed[:, end : self.most] = True
        read = (q @ self.k[: len(x)].mT).masked_fill(~allowed, -math.inf).softmax(-1) @ self.v[: len(x)]
        return self.inside.out(read.transpose(1, 2).flatten(2))


class SlotWriter(nn.Module):
    def __init__(self, clears):
        super().__init__()
        torch.manual_seed(5)
        self.words, self.slots, self.head = nn.Embedding(V, D), Slots(clears), nn.Linear(D, V)

    def forward(self, ids, start_pos: int = 0):
        x = self.words(ids)
        return self.head(x + self.slots(x, start_pos))


def advance(module, inputs, past, start):
    return module(**inputs, start_pos=start), past


class SharedDefault(Writer):
    """The list of what was read is a default argument, and so one list for all calls."""

    def forward(self, ids, seen=[]):  # noqa: B006
        x = self.words(ids)
        seen.append(x.detach().mean())
        x = x + 1e-6 * sum(seen)
        for layer in self.layers:
            x, _ = layer(x, self.places(ids, None, 0), None, None)
        return self.head(self.norm(x))


class SourceOnce(nn.Module):
    """Reads a source and writes; ``stale``: the source's keys are computed at the first call and kept."""

    def __init__(self, stale=False, itself=False, of_target=False):
        super().__init__()
        torch.manual_seed(6)
        self.words, self.spots, self.layer = nn.Embedding(V, D), nn.Embedding(64, D), Layer(Attn)
        self.q, self.kv, self.head = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, V)
        self.stale, self.itself, self.of_target = stale, itself, of_target

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        s = self.words(src) + self.spots(torch.arange(src.shape[1]))
        x, _ = self.layer(self.words(tgt), torch.arange(tgt.shape[1]).expand_as(tgt), tgt_mask, None)
        if self.stale and getattr(self, "kept", s).shape == s.shape:
            self.kept = getattr(self, "kept", s.detach()).to(s)
            s = self.kept
        k, v = (split(part) for part in self.kv(x if self.itself else s).chunk(2, -1))
        scores = split(self.q(x)) @ k.mT
        if self.itself:
            scores = scores.masked_fill(~earlier(*scores.shape[-2:]), -math.inf)
        keep = tgt_mask if self.of_target else src_mask
        if keep is not None and not self.itself:
            hidden = ~keep[:, None, None].bool()
            scores = scores.masked_fill(hidden & ~hidden.all(-1, keepdim=True), -math.inf)
        return self.head(x + (scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


# wrong: recurrences and convolutions


class Recurrence(nn.Module):
    """h = a h + b x with a and b from x; ``chunk``, ``last`` and ``by`` are what can go wrong."""

    def __init__(self, wrong=""):
        super().__init__()
        self.gate, self.write, self.out, self.wrong = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), wrong

    def forward(self, x, places, keep, past):
        a, b = torch.sigmoid(self.gate(x)), self.write(x)
        if keep is not None:
            real = keep[:, -x.shape[1] :, None].to(x)
            a, b = a * real + (1 - real), b * (real if self.wrong != "padding" else 1)
        h = torch.zeros_like(x[:, 0]) if past is None else past[0][:, 0, 0]
        states = []
        for i in range(x.shape[1]):
            if self.wrong == "chunks" and i and i % 5 == 0:
                h = states[-2]
            h = a[:, i] * h + b[:, i]
            states.append(h)
        left = states[-2] if self.wrong == "last" and len(states) > 1 else h
        # (batch, 1, tokens so far, width): the length is asked of the cache
        count = x.shape[1] + (0 if past is None else past[0].shape[2])
        return self.out(torch.stack(states, 1)), (left[:, None, None].expand(-1, 1, count, -1),)


class Conv(nn.Module):
    """Four taps into the past; ``flipped``: in a step of one they are applied the other way round."""

    def __init__(self, flipped=False):
        super().__init__()
        self.taps, self.out, self.flipped = nn.Parameter(torch.randn(4, D)), nn.Linear(D, D), flipped

    def forward(self, x, places, keep, past):
        if keep is not None:
            x = x * keep[:, -x.shape[1] :, None]
        before = x.new_zeros(len(x), 3, D) if past is None else past[0][:, 0, -3:]
        whole = torch.cat([before, x], 1)
        taps = self.taps.flip(0) if self.flipped and x.shape[1] == 1 else self.taps
        made = sum(whole[:, i : i + x.shape[1]] * taps[i] for i in range(4))
        kept = whole if past is None else torch.cat([past[0][:, 0], x], 1)
        return self.out(made), (kept[:, None],)


class ConvWriter(Writer):
    def __init__(self, flipped=False):
        super().__init__(lambda: Conv(flipped))

    def length(self, past):
        return 0 if past is None else past[0][0].shape[2]


# wrong: experts, norms, documents, gradients, input


class Sorted(nn.Module):
    """Every token to the best of three experts, sorted by expert; ``wrong``: what is done wrongly."""

    def __init__(self, wrong=""):
        super().__init__()
        self.router, self.wrong = nn.Linear(D, 3, bias=False), wrong
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(D, D), nn.SiLU(), nn.Linear(D, D)) for _ in range(3))

    def forward(self, x, places, keep, past):
        flat = x.flatten(0, 1)
        chance = self.router(flat).softmax(-1)
        if self.wrong == "chosen":  # each expert takes the best six tokens of each text
            chance = chance.view(*x.shape[:2], 3)
            taken = torch.zeros_like(chance).scatter(1, chance.topk(min(6, x.shape[1]), 1).indices, 1.0) * chance
            return sum(taken[..., i, None] * expert(x) for i, expert in enumerate(self.experts)), None
        share, best = chance.max(-1)
        order = best.argsort(stable=True)
        made = []
        for i, expert in enumerate(self.experts):
            mine = flat[order][best[order] == i]
            out = expert(mine)
            made.append(torch.cat([out[:12], torch.zeros_like(out[12:])]) if self.wrong == "capacity" else out)
        back = order if self.wrong == "order" else order.argsort()
        return (torch.cat(made)[back] * share[:, None]).view(x.shape), None


class NormOfTheTime(nn.Module):
    """Channels are normalised over the text."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(D, D)

    def forward(self, x, places, keep, past):
        return self.mix(F.instance_norm(x.mT).mT if x.shape[1] > 1 else x), None


class NormOfTheBatch(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(D, track_running_stats=False)

    def forward(self, x, places, keep, past):
        return self.norm(x.mT).mT, None


class KeysNormedOverPlaces(Attn):
    """The norm of queries and keys is taken over places and width."""

    def rotate(self, q, k, places, past):
        q, k = (F.layer_norm(part, part.shape[-2:]) for part in (q, k))
        return turn(q, places), turn(k, places)


class OffsetByRow(Plain):
    """The first example begins at place 0, the second at 1: a count over all tokens, by rows of another length."""

    def places(self, ids, keep, start):
        return torch.arange(ids.numel()).view(ids.shape) % (ids.shape[1] + 1)


class Documents(nn.Module):
    """Tokens of one document meet; ``parity``: those of every second one."""

    def __init__(self, parity=False):
        super().__init__()
        self.inside, self.parity = Writer(), parity

    def forward(self, ids, document_ids):
        docs = document_ids % 2 if self.parity else document_ids
        same = docs[:, None, :, None] == docs[:, None, None, :]
        x, places = self.inside.words(ids), torch.arange(ids.shape[1]).expand_as(ids)
        for layer in self.inside.layers:
            q, k, v = (split(part) for part in layer.mixer.qkv(layer.before(x)).chunk(3, -1))
            scores = (turn(q, places) @ turn(k, places).mT).masked_fill(~(same & earlier(*same.shape[-2:])), -math.inf)
            x = x + layer.mixer.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.between(x))
        return self.inside.head(x)


class Prefixed(nn.Module):
    """A prefix is read both ways; ``longest``: as long as the longest of the batch."""

    def __init__(self, longest=False):
        super().__init__()
        self.inside, self.longest = Writer(), longest

    def forward(self, ids, prefix_length):
        t = ids.shape[1]
        length = prefix_length.max().expand_as(prefix_length) if self.longest else prefix_length
        allowed = earlier(t, t) | (torch.arange(t) < length[:, None])[:, None]
        x, places = self.inside.words(ids), torch.arange(t).expand_as(ids)
        for layer in self.inside.layers:
            q, k, v = (split(part) for part in layer.mixer.qkv(layer.before(x)).chunk(3, -1))
            read = F.scaled_dot_product_attention(turn(q, places), turn(k, places), v, attn_mask=allowed[:, None])
            x = x + layer.mixer.out(read.transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.between(x))
        return self.inside.head(x)


class SaysTied(Plain):
    """The configuration says that words are read and written by one table; ``really``, or by a copy of it."""

    def __init__(self, really):
        super().__init__()
        self.config = SimpleNamespace(tie_word_embeddings=True)
        self.head = nn.Linear(D, V, bias=False)
        self.head.weight = self.words.weight if really else nn.Parameter(self.words.weight.detach().clone())

    def get_input_embeddings(self):
        return self.words

    def get_output_embeddings(self):
        return self.head


class LayerWithoutGradient(Attn):
    """Weights are made without a gradient, to save memory."""

    def weights(self, scores):
        with torch.no_grad():
            return scores.softmax(-1)


class DataAdded(nn.Module):
    """The residual is added to .data, behind autograd's back."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(D, D)

    def forward(self, x, places, keep, past):
        made = self.mix(x)
        made.data.add_(torch.tanh(x).data)
        return made, None


class AllWordsOne(Plain):
    """Ids are cut to 0 and 1, as if they were a mask."""

    def forward(self, ids):
        return super().forward(ids.clamp(max=1))


class EverySecondCall(nn.Module):
    """Which of two maps is used alternates from call to call."""

    def __init__(self):
        super().__init__()
        self.maps, self.calls = nn.ModuleList(nn.Linear(D, D) for _ in range(2)), 0

    def forward(self, x, places, keep, past):
        self.calls += 1
        return self.maps[self.calls % 2](x), None


class MaskEdited(Reader):
    """A mask without padding is emptied in place, as a sign that there is nothing to do."""

    def forward(self, ids, attention_mask=None):
        made = super().forward(ids, attention_mask)
        if attention_mask is not None:
            attention_mask[:, 0] = 1
            attention_mask.mul_(2)
        return made


# odd, and healthy


class WindowsOfHeads(Attn):
    """Heads read 3, 5, 9 and all keys back."""

    def allowed(self, t, s):
        back = torch.tensor([3, 5, 9, 1000])[:, None, None]
        away = torch.arange(s - t, s)[:, None] - torch.arange(s)
        return (away >= 0) & (away < back)


class ChunksFromZero(Attn):
    """Chunks of 7 by the place in the text; each place reads its own chunk."""

    def allowed(self, t, s):
        chunk = torch.arange(s) // 7
        return earlier(t, s) & (chunk[s - t :, None] == chunk)


class OffByOne(Attn):
    """exp over 1 + the sum of exp: a row may give away less than 1."""

    def weights(self, scores):
        top = scores.amax(-1, keepdim=True).clamp(min=0)
        return (scores - top).exp() / ((-top).exp() + (scores - top).exp().sum(-1, keepdim=True))


class BestFour(Attn):
    """Each query reads the four keys of the largest scores among those it may read."""

    def weights(self, scores):
        least = scores.topk(min(4, scores.shape[-1]), -1).values[..., -1:]
        return scores.masked_fill(scores < least, -math.inf).softmax(-1)


class Hard(Attn):
    """The best key alone; gradients as of a softmax."""

    def weights(self, scores):
        soft = scores.softmax(-1)
        return F.one_hot(soft.argmax(-1), soft.shape[-1]).to(soft) - soft.detach() + soft


class Buckets(Attn):
    """No rotation: a learned number for each distance, by powers of two from 4 on."""

    def __init__(self):
        super().__init__()
        self.bias = nn.Embedding(8, H)

    def rotate(self, q, k, places, past):
        return q, k

    def scores(self, q, k, past):
        t, s = q.shape[2], k.shape[2]
        away = (torch.arange(s - t, s)[:, None] - torch.arange(s)).clamp(min=0)
        far = 4 + (away.clamp(min=4) / 4).log2().long()
        return q @ k.mT + self.bias(torch.where(away < 4, away, far).clamp(max=7)).permute(2, 0, 1)


class FirstValues(Writer):
    """The second layer mixes in the values of the first."""

    def forward(self, ids, past_key_values=None):
        start = self.length(past_key_values)
        places, x, kept, values = self.places(ids, None, start), self.words(ids), [], None
        for i, layer in enumerate(self.layers):
            mixer = layer.mixer
            q, k, v = (split(part) for part in mixer.qkv(layer.before(x)).chunk(3, -1))
            values = v if values is None else values
            v = 0.7 * v + 0.3 * values
            q, k = turn(q, places), turn(k, places)
            if past_key_values is not None:
                k, v = torch.cat([past_key_values[i][0], k], 2), torch.cat([past_key_values[i][1], v], 2)
            read = mixer.hide(mixer.scores(q, k, None), None, None).softmax(-1) @ v
            x = x + mixer.out(read.transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.between(x))
            kept.append((k, v))
        return self.head(x), kept


class Lstm(nn.Module):
    """Two layers of an LSTM; what it remembers is (h, c)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.words, self.inside, self.head = nn.Embedding(V, D), nn.LSTM(D, D, 2, batch_first=True), nn.Linear(D, V)

    def forward(self, ids, state=None):
        x, state = self.inside(self.words(ids), state)
        return {"logits": self.head(x), "state": state}


class ByPadId(Reader):
    """What is padding is known by its id, 0."""

    def forward(self, ids):
        return super().forward(ids, ids != 0)


class Codebooks(nn.Module):
    """Three codes for every place, summed; three heads say the next ones."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(8)
        self.tables = nn.ModuleList(nn.Embedding(V, D) for _ in range(3))
        self.layer, self.heads = Layer(Attn), nn.ModuleList(nn.Linear(D, V) for _ in range(3))

    def forward(self, codes):
        x = sum(table(codes[..., i]) for i, table in enumerate(self.tables))
        x, _ = self.layer(x, torch.arange(codes.shape[1]).expand(len(codes), -1), None, None)
        return torch.stack([head(x) for head in self.heads], 2)


class WeightNormed(Plain):
    def __init__(self):
        super().__init__()
        for layer in self.layers:
            nn.utils.parametrizations.weight_norm(layer.mixer.out)
            nn.utils.parametrizations.spectral_norm(layer.mlp[0])


class Frames(nn.Module):
    """Pictures in a row: places of one frame read each other and all frames before."""

    def __init__(self):
        super().__init__()
        self.inside = Plain()

    def forward(self, ids):
        x, places = self.inside.words(ids), torch.arange(ids.shape[1]).expand_as(ids)
        frame = torch.arange(ids.shape[1]) // 4
        for layer in self.inside.layers:
            q, k, v = (split(part) for part in layer.mixer.qkv(layer.before(x)).chunk(3, -1))
            seen = frame[:, None] >= frame
            read = F.scaled_dot_product_attention(turn(q, places), turn(k, places), v, attn_mask=seen)
            x = x + layer.mixer.out(read.transpose(1, 2).flatten(2))
            x = x + layer.mlp(layer.between(x))
        return self.inside.head(x)


class Says(Plain):
    """Many outputs: states, a loss that is None, the logits."""

    def forward(self, ids):
        x = self.words(ids)
        states = [x]
        for layer in self.layers:
            x, _ = layer(x, self.places(ids, None, 0), None, None)
            states.append(x)
        return {"loss": None, "hidden_states": tuple(states), "logits": self.head(self.norm(x))}


MASKED = {"ids": IDS, "attention_mask": KEEP}
PREFIXED = {"ids": IDS, "prefix_length": PREFIX}
PACKED = {"ids": IDS, "document_ids": DOCS}
PAIR = {"inputs": (IDS, IDS[:, :13].flip(0).contiguous())}
DRIVEN = {"causal": True, "advance": advance}
BOTH = {"causal": True, "masks": {"src_mask": "keep", "tgt_mask": "keep"}}
SAME = (IDS, IDS.flip(0).contiguous())
BEFORE = ("layers.1.before",)  # "or what reads its output"
SECOND, FIRST = ("layers.1.mixer", "layers.1"), ("layers.0.mixer", "layers.0")
WRONG = [
    ("the future at -25", lambda: Writer(FaintFuture), (IDS,), CAUSAL, "causality", SECOND),
    ("a stale mask", lambda: Reader(StaleBothWays), MASKED, {}, "determinism", SECOND),
    ("its own chunk whole", lambda: Plain(OwnChunkWhole), (IDS,), CAUSAL, "causality", SECOND),
    ("the future read beside padding", lambda: PlacesByMask(FutureBesidePadding), MASKED, CAUSAL, "causality", SECOND),
    ("questions hidden, not keys", lambda: Reader(RowsHidden), MASKED, {}, "padding", SECOND),
    ("padded keys of zero", lambda: Reader(KeysZeroed), MASKED, {}, "padding", SECOND),
    ("a mean of padding too", lambda: Reader(SumOfAll), MASKED, {}, "padding", SECOND),
    ("the length of a window", LengthOfTheFirst, (IDS,), CAUSAL, "cache", ("", *FIRST)),
    ("places by the mask at first", PlacesByMaskAtFirst, MASKED, CAUSAL, "cache", ("", *FIRST)),
    ("one place for a step of three", OnePlaceForAll, (IDS,), CAUSAL, "cache", ("", *FIRST)),
    ("keys normalised again", lambda: Writer(NormedAgain), (IDS,), CAUSAL, "cache", SECOND),
    ("a latent key kept unturned", lambda: Writer(lambda: Latent(turned=False)), (IDS,), CAUSAL, "cache", SECOND),
    ("slots of an earlier text", lambda: SlotWriter(clears=False), (IDS,), DRIVEN, "determinism", ("slots", "")),
    ("a list for all calls", SharedDefault, (IDS,), CAUSAL, "determinism", ("",)),
    ("the source of the first call", lambda: SourceOnce(stale=True), SAME, BOTH, "determinism", ("",)),
    ("a source that nobody reads", lambda: SourceOnce(itself=True), SAME, BOTH, "input", ("",)),
    ("the target's mask on the source", lambda: SourceOnce(of_target=True), SAME, BOTH, "padding", ("",)),
    ("chunks that lose a token", lambda: Writer(lambda: Recurrence("chunks")), (IDS,), CAUSAL, "cache", SECOND),
    ("the last state but one", lambda: Writer(lambda: Recurrence("last")), (IDS,), CAUSAL, "cache", SECOND),
    ("a state that padding writes", lambda: PlacesByMask(lambda: Recurrence("padding")), MASKED, CAUSAL, "padding",
     SECOND),
    ("taps flipped in a step", lambda: ConvWriter(flipped=True), (IDS,), CAUSAL, "cache", SECOND),
    ("experts with room for twelve", lambda: Plain(lambda: Sorted("capacity")), (IDS,), CAUSAL, "batch", SECOND),
    ("experts that choose", lambda: Plain(lambda: Sorted("chosen")), (IDS,), CAUSAL, "causality", SECOND),
    ("tokens not put back", lambda: Plain(lambda: Sorted("order")), (IDS,), CAUSAL, "batch", SECOND),
    ("a norm over the text", lambda: Plain(NormOfTheTime), (IDS,), CAUSAL, "causality", SECOND),
    ("a norm over the batch", lambda: Plain(NormOfTheBatch), (IDS,), {}, "batch", (*SECOND, "layers.1.mixer.norm")),
    ("keys normed over places", lambda: Plain(KeysNormedOverPlaces), (IDS,), CAUSAL, "causality", SECOND),
    ("each row a place later", OffsetByRow, (IDS,), CAUSAL, "batch", ("", *FIRST)),
    ("every second document", lambda: Documents(parity=True), PACKED, CAUSAL, "packing", ("",)),
    ("the longest prefix of all", lambda: Prefixed(longest=True), PREFIXED, {}, "batch", ("",)),
    ("said to be tied", lambda: SaysTied(really=False), (IDS,), CAUSAL, "gradients", ("head", "words", "")),
    ("weights without a gradient", lambda: Plain(LayerWithoutGradient), (IDS,), CAUSAL, "gradients", BEFORE),
    ("added behind autograd", lambda: Plain(DataAdded), (IDS,), CAUSAL, "gradients", BEFORE),
    ("all words one", AllWordsOne, (IDS,), CAUSAL, "input", ("", "words")),
    ("every second call", lambda: Plain(EverySecondCall), (IDS,), CAUSAL, "determinism", SECOND),
    ("the caller's mask edited", MaskEdited, MASKED, {}, "determinism", ("",)),
]  # fmt: skip


HEALTHY = [
    ("as it should be", Writer, MASKED, CAUSAL),
    ("places by the mask", PlacesByMask, MASKED, CAUSAL),
    ("a window, and what is kept of it", LengthOfTheSecond, (IDS,), CAUSAL),
    ("a latent for keys and values", lambda: Writer(Latent), MASKED, CAUSAL),
    ("slots in buffers", lambda: SlotWriter(clears=True), (IDS,), DRIVEN),
    ("a source and a target", SourceOnce, PAIR["inputs"], BOTH),
    ("a recurrence beside attention", lambda: PlacesByMask(Recurrence), MASKED, CAUSAL),
    ("taps beside attention", ConvWriter, (IDS,), CAUSAL),
    ("experts, sorted", lambda: Plain(Sorted), (IDS,), CAUSAL),
    ("documents apart", Documents, PACKED, CAUSAL),
    ("a prefix both ways", Prefixed, PREFIXED, {}),
    ("really tied", lambda: SaysTied(really=True), (IDS,), CAUSAL),
    ("windows of heads", lambda: Writer(WindowsOfHeads), MASKED, CAUSAL),
    ("chunks from zero", lambda: Writer(ChunksFromZero), (IDS,), CAUSAL),
    ("one more than the sum", lambda: Writer(OffByOne), (IDS,), CAUSAL),
    ("the best four", lambda: Writer(BestFour), (IDS,), CAUSAL),
    ("the best alone", lambda: Plain(Hard), (IDS,), CAUSAL),
    ("buckets of distance", lambda: Writer(Buckets, Buckets), (IDS,), CAUSAL),
    ("values of the first layer", FirstValues, (IDS,), CAUSAL),
    ("an LSTM", Lstm, (IDS,), CAUSAL),
    ("padding by its id", ByPadId, (IDS,), {}),
    ("three codes", Codebooks, (torch.randint(0, V, (3, T, 3), generator=torch.Generator().manual_seed(9)),), {}),
    ("weights with norms", WeightNormed, (IDS,), CAUSAL),
    ("frames", Frames, (IDS,), {"causal": False}),
    ("many outputs", Says, (IDS,), CAUSAL),
    ("a mean of what is kept", lambda: Reader(pool=True), MASKED, {}),
]  # fmt: skip

"""Thirty wrong models and twenty odd ones, written before the audit saw any, with what should show each fault.

Two of the wrong ones were none, and six odd ones were: those that could be are mended here.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

V, D, H = 43, 24, 4
IDS = torch.randint(1, V, (3, 17), generator=torch.Generator().manual_seed(21))
KEEP = torch.ones_like(IDS)
DOCS = (torch.arange(17) // 6).expand(3, -1).clone()
SIGNAL = torch.randn(3, 18, 5, generator=torch.Generator().manual_seed(22))
IMAGE = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(23))
CAUSAL = {"causal": True}


def turn(x, places):
    """Pairs (i, i + half) turned by angles that grow with the place; x: (batch, heads, t, d), places: (batch, t)."""
    half = x.shape[-1] // 2
    angles = places[:, None, :, None].to(x) * 100.0 ** -(torch.arange(half).to(x) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def itself(t, s):
    """Each of the last t of s places may read itself: a row with nothing to read would be NaN."""
    return torch.ones(t, s, dtype=torch.bool).tril(s - t).triu(s - t)


class Attention(nn.Module):
    """Two heads of keys for four of queries; a rotation; a mask from outside; a cache (keys, values)."""

    window = None

    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, places, keep, past):
        q = self.q(x).unflatten(-1, (H, -1)).transpose(1, 2)
        k, v = self.kv(x).unflatten(-1, (4, -1)).transpose(1, 2).chunk(2, 1)
        q, k = self.rotate(q, k, places, past)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        read = self.read(q, *self.spread(k, v, past), keep, past)
        return self.o(read.transpose(1, 2).flatten(2)), (k, v)

    def rotate(self, q, k, places, past):
        return turn(q, places), turn(k, places)

    def spread(self, k, v, past):
        return k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)

    def allowed(self, t, s, past):
        made = torch.ones(t, s, dtype=torch.bool).tril(s - t)
        return made if self.window is None else made.triu(s - t - self.window + 1)

    def read(self, q, k, v, keep, past):
        allowed = self.allowed(q.shape[2], k.shape[2], past)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.both(allowed, keep))

    def both(self, allowed, keep):
        if keep is None:
            return allowed
        return allowed & keep[:, None, None, :].bool() | itself(*allowed.shape)


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.norm, self.attention = nn.RMSNorm(D), attention()
        self.mlp = nn.Sequential(nn.RMSNorm(D), nn.Linear(D, 2 * D), nn.SiLU(), nn.Linear(2 * D, D))

    def forward(self, x, places, keep, past):
        read, kept = self.attention(self.norm(x), places, keep, past)
        x = x + read
        return x + self.mlp(x), kept


class Lm(nn.Module):
    """Healthy. ``bad`` is the attention of the second of three layers."""

    def __init__(self, bad=Attention, good=Attention, seed=31):
        super().__init__()
        torch.manual_seed(seed)
        self.embed, self.head = nn.Embedding(V, D), nn.Linear(D, V, bias=False)
        self.layers = nn.ModuleList(Layer(part) for part in (good, bad, good))

    def forward(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None):
        places = self.places(input_ids, attention_mask, position_ids, past_key_values)
        x, kept = self.embed(input_ids), []
        for i, layer in enumerate(self.layers):
            x, made = layer(x, places, self.keep(attention_mask, past_key_values), self.past(past_key_values, i))
            kept.append(made)
        return {"logits": self.head(x), "past_key_values": kept}

    def past(self, past, i):
        return None if past is None else past[i]

    def keep(self, mask, past):
        return mask

    def places(self, ids, mask, places, past):
        if places is not None:
            return places
        first = 0 if past is None else past[0][0].shape[2]
        return torch.arange(first, first + ids.shape[1]).expand_as(ids)


class OneAhead(Attention):
    def allowed(self, t, s, past):
        return torch.ones(t, s, dtype=torch.bool).tril(s - t + 1)


class HeadsBeforeExamples(Attention):
    """Scores are (examples x heads), the mask is repeated as (heads x examples)."""

    def read(self, q, k, v, keep, past):
        allowed = self.allowed(q.shape[2], k.shape[2], past).expand(len(q) * H, -1, -1)
        if keep is not None:
            allowed = allowed & keep.bool().repeat(H, 1)[:, None, :] | itself(*allowed.shape[1:])
        scores = q.flatten(0, 1) @ k.flatten(0, 1).transpose(1, 2) / math.sqrt(q.shape[-1])
        weights = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min).softmax(-1)
        return (weights @ v.flatten(0, 1)).unflatten(0, (len(q), H))


class KeysFromZero(Attention):
    """A single new key is turned as if it were the first."""

    def rotate(self, q, k, places, past):
        return turn(q, places), turn(k, places if k.shape[2] > 1 else torch.zeros_like(places))


class WindowInSteps(Attention):
    window = 5

    def allowed(self, t, s, past):
        return super().allowed(t, s, past) if past is None else torch.ones(t, s).tril(s - t).triu(s - t - 5).bool()


class CausalFromTheCorner(Attention):
    """The usual idiom: is_causal where there is more than one query."""

    def read(self, q, k, v, keep, past):
        if keep is not None:
            return super().read(q, k, v, keep, past)
        return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)


class OtherHeadsInSteps(Attention):
    def spread(self, k, v, past):
        return super().spread(k, v, past) if past is None else (k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1))


class NormOverExamples(Attention):
    def rotate(self, q, k, places, past):
        return super().rotate(F.normalize(q, dim=0), k, places, past)


class DropsAlways(Attention):
    def read(self, q, k, v, keep, past):
        allowed = self.both(self.allowed(q.shape[2], k.shape[2], past), keep)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=0.1)


class MinimumTwice(Attention):
    """The lowest number, added for the future and for padding; no row of it is minus infinity throughout."""

    def read(self, q, k, v, keep, past):
        lowest = torch.finfo(q.dtype).min
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        scores = scores + (~self.allowed(q.shape[2], k.shape[2], past)).to(q) * lowest
        if keep is not None:
            scores = scores + (1 - keep[:, None, None, :].to(q)) * lowest
        return scores.softmax(-1) @ v


class FreeInTraining(Attention):
    """Written by hand for training, where the future was forgotten; fused otherwise."""

    def read(self, q, k, v, keep, past):
        if not self.training:
            return super().read(q, k, v, keep, past)
        return (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).softmax(-1) @ v


class DistancesOfTheChunk(Attention):
    """A penalty for distance; in a step, the distance to the first key is counted from the step."""

    def read(self, q, k, v, keep, past):
        t, s = q.shape[2], k.shape[2]
        far = (torch.arange(s) - torch.arange(t)[:, None]).abs().to(q)
        allowed = self.both(self.allowed(t, s, past), keep)
        bias = (-0.5 * far).expand(allowed.shape).masked_fill(~allowed, -math.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


class CapByTheBatch(Attention):
    """Scores are capped at a quantile of all scores."""

    def read(self, q, k, v, keep, past):
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        cap = scores.detach().flatten().median() + 1
        allowed = self.both(self.allowed(q.shape[2], k.shape[2], past), keep)
        return torch.minimum(scores, cap).masked_fill(~allowed, -math.inf).softmax(-1) @ v


class StartsAgainInChunks(Lm):
    def places(self, ids, mask, places, past):
        return super().places(ids, mask, places, past if ids.shape[1] == 1 else None)


class ForgetsALayer(Lm):
    def past(self, past, i):
        return None if past is None else past[min(i, 1)]


class NoMaskInSteps(Lm):
    def keep(self, mask, past):
        return mask if past is None else None


class CountsDown(Lm):
    """Places are counted by the mask, along the wrong axis."""

    def places(self, ids, mask, places, past):
        return super().places(ids, mask, places, past) if mask is None or past is not None else mask.cumsum(0) - 1


class Overwrites(nn.Module):
    """A cache of 64 slots: ``copies``, or written in place, so that a past can serve one future only."""

    def __init__(self, copies):
        super().__init__()
        torch.manual_seed(32)
        self.embed, self.places, self.head = nn.Embedding(V, D), nn.Embedding(64, D), nn.Linear(D, V)
        self.qkv, self.copies = nn.ModuleList(nn.Linear(D, 3 * D) for _ in range(2)), copies

    def forward(self, ids, past=None):
        t = ids.shape[1]
        first, slots = (0, None) if past is None else past
        x, made = self.embed(ids) + self.places.weight[first : first + t], []
        for i, qkv in enumerate(self.qkv):
            q, *new = qkv(F.layer_norm(x, (D,))).chunk(3, -1)
            old = [x.new_zeros(len(x), 64, D) for _ in new] if slots is None else slots[i]
            pair = [y.clone() if self.copies else y for y in old]
            for y, z in zip(pair, new, strict=True):
                y[:, first : first + t] = z
            allowed = torch.arange(64) <= torch.arange(first, first + t)[:, None]
            if not self.copies and slots is not None:
                pair[0][:, 0] *= 1.01  # what was kept is scaled in place
            x = x + F.scaled_dot_product_attention(q, *pair, attn_mask=allowed)
            made.append(pair)
        return self.head(x), (first + t, made)


class Classifier(nn.Module):
    """Words, a convolution, two layers, a pool. What is wrong is chosen by name."""

    def __init__(self, *, conv=True, pool="mean", edits=False, types=False):
        super().__init__()
        torch.manual_seed(33)
        self.embed, self.places = nn.Embedding(V, D), nn.Embedding(64, D)
        self.kinds = nn.Embedding(3, D)
        self.conv = nn.Conv1d(D, D, 3, padding=1) if conv else None
        self.zeroes, self.edits, self.types = conv == "zeroes", edits, types
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pool, self.head = Pool(pool), nn.Linear(D, 7)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None):
        keep = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if self.edits:
            input_ids.masked_fill_(keep == 0, 0)
            keep[:, 0] = 1
        x = self.embed(input_ids) + self.places.weight[: input_ids.shape[1]]
        if self.types and token_type_ids is not None:
            x = x + self.kinds(token_type_ids)
        if self.conv is not None:
            x = x * keep[..., None] if self.zeroes else x
            x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.head(self.pool(self.encoder(x, src_key_padding_mask=keep == 0), keep, input_ids))


def pooled(how):
    return Classifier(conv=False, pool=how)


class Pool(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x, keep, ids):
        if self.how == "mean":
            return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True)
        if self.how == "largest":
            return x.masked_fill(keep[..., None] == 0, -math.inf).amax(1)
        if self.how == "largest of all":
            return x.amax(1)
        if self.how == "last kept":
            return x[torch.arange(len(x)), (keep * torch.arange(x.shape[1])).argmax(1)]
        if self.how == "last":
            return x[:, -1]
        if self.how == "last of the longest":
            return x[:, int(keep.sum(1).max()) - 1]
        return x.flatten(0, 1)[ids.argmax()].expand(len(x), -1)  # "highest id": of all examples


class Halved(nn.Module):
    """A signal, two places to one; the mask is thinned the same way, or cut off."""

    def __init__(self, *, cut):
        super().__init__()
        torch.manual_seed(34)
        self.conv, self.cut = nn.Conv1d(5, D, 2, stride=2), cut
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(D, 7)

    def forward(self, x, mask):
        x, mask = F.pad(x * mask[..., None], (0, 0, 0, x.shape[1] % 2)), F.pad(mask, (0, mask.shape[1] % 2))
        half = self.conv(x.transpose(1, 2)).transpose(1, 2)
        keep = mask[:, : half.shape[1]] if self.cut else mask[:, ::2]
        made = self.encoder(half, src_key_padding_mask=~keep.bool())
        return self.head((made * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1))


class Blocks(nn.Module):
    """Documents in one row, told apart by their ids; ``same`` says whether two places may meet."""

    def __init__(self, bad=torch.eq):
        super().__init__()
        torch.manual_seed(35)
        self.embed, self.head, self.same = nn.Embedding(V, D), nn.Linear(D, V), (torch.eq, bad)
        self.layers = nn.ModuleList(nn.MultiheadAttention(D, H, batch_first=True) for _ in range(2))

    def forward(self, ids, document_ids):
        x = self.embed(ids)
        for layer, same in zip(self.layers, self.same, strict=True):
            meet = same(document_ids[:, :, None], document_ids[:, None, :])
            meet = meet.tril().repeat_interleave(H, 0)
            x = x + layer(x, x, x, attn_mask=~meet, need_weights=False)[0]
        return self.head(x)


class Prefixed(nn.Module):
    """A prefix is read both ways. ``reversed``: it is what follows that is."""

    def __init__(self, *, reversed):
        super().__init__()
        torch.manual_seed(36)
        self.embed, self.places, self.head = nn.Embedding(V, D), nn.Embedding(64, D), nn.Linear(D, V)
        self.layers = nn.ModuleList(nn.MultiheadAttention(D, H, batch_first=True) for _ in range(2))
        self.reversed = reversed

    def forward(self, ids, prefix_length):
        place = torch.arange(ids.shape[1])
        x = self.embed(ids) + self.places(place)
        inside = place < prefix_length[:, None]
        inside = ~inside if self.reversed else inside
        allowed = (place[:, None] >= place) | inside[:, None, :] & inside[:, :, None]
        for layer in self.layers:
            x = x + layer(x, x, x, attn_mask=~allowed.repeat_interleave(H, 0), need_weights=False)[0]
        return self.head(x)


class Translator(nn.Module):
    """nn.Transformer; ``replaces``: a mask of the target takes the place of the future's."""

    def __init__(self, *, replaces):
        super().__init__()
        torch.manual_seed(37)
        self.embed, self.places, self.replaces = nn.Embedding(V, D), nn.Embedding(64, D), replaces
        self.inside = nn.Transformer(D, H, 1, 2, 2 * D, batch_first=True)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None):
        x, y = (self.embed(ids) + self.places.weight[: ids.shape[1]] for ids in (src, tgt))
        future = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).triu(1)
        hidden = [None if mask is None else mask == 0 for mask in (src_mask, tgt_mask)]
        future = None if self.replaces and tgt_mask is not None else future
        made = self.inside(x, y, tgt_mask=future, src_key_padding_mask=hidden[0], memory_key_padding_mask=hidden[0],
                           tgt_key_padding_mask=hidden[1])  # fmt: skip
        return made @ self.embed.weight.T


class Shift(nn.Module):
    """Each place is mixed with the one before; ``first``: the first of a step is kept for the next, not the last."""

    def __init__(self, first=False):
        super().__init__()
        self.mix, self.key, self.value, self.first = (
            nn.Parameter(torch.rand(D)),
            nn.Linear(D, D),
            nn.Linear(D, D),
            first,
        )

    def forward(self, x, state):
        before = torch.cat([torch.zeros_like(x[:, :1]) if state is None else state, x[:, :-1]], 1)
        mixed = x * self.mix + before * (1 - self.mix)
        return self.value(torch.relu(self.key(mixed)) ** 2), x[:, :1] if self.first else x[:, -1:]


class Shifting(nn.Module):
    def __init__(self, *, first):
        super().__init__()
        torch.manual_seed(38)
        self.embed, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(2))
        self.shifts = nn.ModuleList([Shift(), Shift(first)])

    def forward(self, ids, state=None):
        x, kept = self.embed(ids), []
        for i, (norm, shift) in enumerate(zip(self.norms, self.shifts, strict=True)):
            made, new = shift(norm(x), None if state is None else state[i])
            x = x + made
            kept.append(new)
        return {"logits": self.head(x), "state": kept}


class Patches(nn.Module):
    """Patches of a picture and a word for the whole; ``mixes``: patches are put before examples, and cut as if not."""

    def __init__(self, *, mixes):
        super().__init__()
        torch.manual_seed(39)
        self.cut, self.mixes = nn.Conv2d(3, D, 4, stride=4), mixes
        self.whole, self.places = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 5, D))
        layer = nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True, norm_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(D, 7)

    def forward(self, pixel_values):
        x = self.cut(pixel_values).flatten(2)
        x = x.permute(2, 0, 1).reshape(len(x), -1, D) if self.mixes else x.transpose(1, 2)
        return self.head(self.encoder(torch.cat([self.whole.expand(len(x), -1, -1), x], 1) + self.places)[:, 0])


class Router(nn.Module):
    """Two experts; ``over_tokens``: their shares are normalised over all tokens, not over experts."""

    def __init__(self, over_tokens=False):
        super().__init__()
        self.gate, self.dim = nn.Linear(D, 2), 0 if over_tokens else 1
        self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(2))

    def forward(self, x, places, keep, past):
        flat = x.flatten(0, 1)
        shares = self.gate(flat).softmax(self.dim)
        made = sum(shares[:, [i]] * torch.tanh(expert(flat)) for i, expert in enumerate(self.experts))
        return made.view_as(x), (x[:, None], x[:, None]) if past is None else tuple(
            torch.cat([y, x[:, None]], 2) for y in past
        )


# healthy


class WindowAndSink(Attention):
    """Five keys back, and always the first one."""

    def allowed(self, t, s, past):
        made = torch.ones(t, s, dtype=torch.bool).tril(s - t)
        return made & (made.triu(s - t - 4) | (torch.arange(s) == 0))


class Capped(Attention):
    """Scores capped by a tanh, keys normalised, scores multiplied in place."""

    def read(self, q, k, v, keep, past):
        scores = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(2, 3)).mul_(8)
        allowed = self.both(self.allowed(q.shape[2], k.shape[2], past), keep)
        return torch.tanh(scores / 5).mul(5).masked_fill(~allowed, -math.inf).softmax(-1) @ v


class Unpadded(Lm):
    """Takes no mask: a sink is the first place, which padding on the left would take."""

    def forward(self, input_ids, past_key_values=None):
        return super().forward(input_ids, past_key_values=past_key_values)


class ByTheMask(Lm):
    """Places are counted by the mask, if there is one."""

    def places(self, ids, mask, places, past):
        if mask is None or places is not None:
            return super().places(ids, mask, places, past)
        return (mask.long().cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]


class SavesMemory(Lm):
    """Layers are run again for the gradient, and some are skipped in training."""

    def forward(self, input_ids):
        x = self.embed(input_ids)
        places = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        for layer in self.layers:
            made = checkpoint(lambda y, layer=layer: layer(y, places, None, None)[0], x, use_reentrant=False)
            x = made if not self.training else torch.where(torch.rand(len(x), 1, 1) < 0.1, x, made)
        return self.head(x)


class TwoAhead(Lm):
    """A second head says the token after the next."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.utils.parametrizations.weight_norm(nn.Linear(D, V)) for _ in range(2))

    def forward(self, input_ids):
        x = self.embed(input_ids)
        places = torch.arange(input_ids.shape[1]).expand_as(input_ids)
        for layer in self.layers:
            x = layer(x, places, None, None)[0]
        return {"next": self.heads[0](x), "later": [self.heads[1](x)]}


class PatchesOfWords(nn.Module):
    """Four tokens make one patch; a global layer reads whole patches, one late, and a local layer the tokens of one."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(40)
        self.embed, self.places, self.join = nn.Embedding(V, D), nn.Embedding(64, D), nn.Linear(4 * D, D)
        layers = [nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True) for _ in range(2)]
        (self.wide, self.near), self.head = nn.ModuleList(layers), nn.Linear(D, V)

    def forward(self, ids):
        t = ids.shape[1]
        x = F.pad(self.embed(ids) + self.places.weight[:t], (0, 0, 0, -t % 4)).unflatten(1, (-1, 4))
        patches = F.pad(self.join(x.flatten(2)), (0, 0, 1, 0))[:, :-1]
        n = patches.shape[1]
        wide = self.wide(patches, src_mask=torch.ones(n, n, dtype=torch.bool).triu(1))
        near = (x + wide[:, :, None]).flatten(0, 1)
        near = self.near(near, src_mask=torch.ones(4, 4, dtype=torch.bool).triu(1)).unflatten(0, (len(ids), n))
        return self.head(near.flatten(1, 2)[:, :t])


MASKED = {"input_ids": IDS, "attention_mask": KEEP}
TYPED = {**MASKED, "token_type_ids": (torch.arange(17) > 8).long().expand(3, -1).clone()}
PACKED = {"ids": IDS, "document_ids": DOCS}
PREFIX = {"ids": IDS, "prefix_length": torch.tensor([5, 7, 4])}
PAIR = {"src": IDS, "tgt": IDS[:, :13], "src_mask": KEEP, "tgt_mask": KEEP[:, :13]}
BOTH = {"causal": True, "masks": {"src_mask": "keep", "tgt_mask": "keep"}}
HEARD = {"x": SIGNAL, "mask": torch.ones(3, 18, dtype=torch.long)}
FIRST, SECOND, POOL = ("layers.0.attention", "layers.0"), ("layers.1.attention", "layers.1"), ("pool",)
KEPT = {"masks": {"mask": "keep"}}

WRONG = [
    ("one ahead", lambda: Lm(OneAhead), (IDS,), CAUSAL, "causality", SECOND),
    ("a mask of heads before examples", lambda: Lm(HeadsBeforeExamples), MASKED, CAUSAL, "batch", SECOND),
    ("keys of a step turned from zero", lambda: Lm(KeysFromZero), (IDS,), CAUSAL, "cache", SECOND),
    ("a window one wider in steps", lambda: Lm(WindowInSteps), (IDS,), CAUSAL, "cache", SECOND),
    ("is_causal with a past", lambda: Lm(CausalFromTheCorner), (IDS,), CAUSAL, "cache", SECOND),
    ("other heads in steps", lambda: Lm(OtherHeadsInSteps), (IDS,), CAUSAL, "cache", SECOND),
    ("queries normalised over examples", lambda: Lm(NormOverExamples), (IDS,), CAUSAL, "batch", SECOND),
    ("dropout whatever the mode", lambda: Lm(DropsAlways), (IDS,), CAUSAL, "determinism", SECOND),
    ("the future read in training", lambda: Lm(FreeInTraining), (IDS,), CAUSAL, "causality", SECOND),
    ("distances counted from the step", lambda: Lm(DistancesOfTheChunk), (IDS,), CAUSAL, "cache", SECOND),
    ("scores capped by the batch", lambda: Lm(CapByTheBatch), (IDS,), CAUSAL, "batch", SECOND),
    ("experts shared out over tokens", lambda: Lm(lambda: Router(True)), (IDS,), CAUSAL, "batch", SECOND),
    ("places start again in chunks", StartsAgainInChunks, (IDS,), CAUSAL, "cache", ("", *SECOND, *FIRST)),
    ("the last layer is given the second's cache", ForgetsALayer, (IDS,), CAUSAL, "cache",
     ("", "layers.2", "layers.2.attention")),
    ("no mask in steps", NoMaskInSteps, MASKED, CAUSAL, "cache", ("", *FIRST)),
    ("places counted over examples", CountsDown, MASKED, CAUSAL, "batch", ("", *FIRST)),
    ("a past written in place", lambda: Overwrites(copies=False), (IDS,), CAUSAL, "cache", ("",)),
    ("a convolution that reads padding", Classifier, MASKED, {}, "padding", ("conv",)),
    ("the largest over padding", lambda: pooled("largest of all"), MASKED, {}, "padding", POOL),
    ("the last place, padding or not", lambda: pooled("last"), MASKED, {}, "padding", POOL),
    ("the last place of the longest", lambda: pooled("last of the longest"), MASKED, {}, "batch", POOL),
    ("the highest id of all examples", lambda: pooled("highest id"), (IDS,), {}, "batch", POOL),
    ("inputs edited in place", lambda: Classifier(conv=False, edits=True), MASKED, {}, "determinism", ("",)),
    ("types taken and not used", lambda: Classifier(conv=False), TYPED, {}, "input", ("kinds",)),
    ("a mask cut instead of thinned", lambda: Halved(cut=True), HEARD, KEPT, "padding",
     ("", "encoder", "encoder.layers.0")),
    ("earlier documents are read", lambda: Blocks(torch.ge), PACKED, CAUSAL, "packing", ("layers.1", "")),
    ("a prefix the wrong way round", lambda: Prefixed(reversed=True), PREFIX, {}, "packing", ("layers.0", "")),
    ("a target's mask in place of the future's", lambda: Translator(replaces=True), PAIR, BOTH, "causality",
     ("inside.decoder.layers.0.self_attn", "inside.decoder.layers.0", "inside.decoder", "inside", "")),
    ("the first of a step kept", lambda: Shifting(first=True), (IDS,), CAUSAL, "cache", ("shifts.1",)),
    ("patches of other pictures", lambda: Patches(mixes=True), {"pixel_values": IMAGE}, {}, "batch",
     ("", "encoder", "encoder.layers.0")),
]  # fmt: skip
HEALTHY = [
    ("grouped heads, turned, with a mask and told places", Lm, MASKED, CAUSAL),
    ("a window and a sink", lambda: Unpadded(WindowAndSink, WindowAndSink), (IDS,), CAUSAL),
    ("capped scores, in place", lambda: Lm(Capped, Capped), MASKED, CAUSAL),
    ("the lowest number twice", lambda: Lm(MinimumTwice), MASKED, CAUSAL),
    ("places by the mask", ByTheMask, MASKED, CAUSAL),
    ("bfloat16", lambda: Lm().to(torch.bfloat16), (IDS,), CAUSAL),
    ("two experts", lambda: Lm(Router), (IDS,), CAUSAL),
    ("layers run again and skipped", SavesMemory, (IDS,), CAUSAL),
    ("two heads, weights with a norm", TwoAhead, (IDS,), CAUSAL),
    ("a cache of slots", lambda: Overwrites(copies=True), (IDS,), CAUSAL),
    ("padding zeroed before a convolution", lambda: Classifier(conv="zeroes"), MASKED, {}),
    ("the largest of what is kept", lambda: pooled("largest"), MASKED, {}),
    ("the last that is kept, with types", lambda: Classifier(conv=False, pool="last kept", types=True), TYPED, {}),
    ("two places to one", lambda: Halved(cut=False), HEARD, KEPT),
    ("documents apart", Blocks, PACKED, CAUSAL),
    ("a prefix both ways", lambda: Prefixed(reversed=False), PREFIX, {}),
    ("a translator", lambda: Translator(replaces=False), PAIR, BOTH),
    ("each place mixed with the one before", lambda: Shifting(first=False), (IDS,), CAUSAL),
    ("a picture", lambda: Patches(mixes=False), {"pixel_values": IMAGE}, {}),
    ("patches of words", PatchesOfWords, (IDS,), CAUSAL),
]

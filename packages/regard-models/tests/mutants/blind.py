"""Twenty wrong models and ten healthy odd ones, written before the audit was adjusted to any of them.

One small writer (rotated grouped heads, a convolution, a cache as a list) of which each wrong model overrides one
step; what should show it, and who would be a right culprit, was written down with it.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

WORDS, WIDTH, HEADS, GROUPS, REACH = 37, 24, 6, 3, 4
IDS = torch.randint(1, WORDS, (3, 17), generator=torch.Generator().manual_seed(4))
VECTORS = torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(5))
CAUSAL, FREE = {"causal": True}, {"causal": False}


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Conv(nn.Module):
    """A convolution over the last REACH places, padded inside; its memory is the last inputs."""

    def __init__(self):
        super().__init__()
        self.filter = nn.Conv1d(WIDTH, WIDTH, REACH, groups=WIDTH)

    def forward(self, x, past):
        before = x.new_zeros(len(x), REACH - 1, WIDTH) if past is None else past
        whole = torch.cat([before, x], 1)
        return self.read(whole), self.kept(whole, x)

    def read(self, whole):
        return self.filter(whole.transpose(1, 2)).transpose(1, 2)

    def kept(self, whole, x):
        return whole[:, -(REACH - 1) :]


class Heads(nn.Module):
    """Grouped heads with a rotation by place."""

    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.to_q, self.to_o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.to_kv = nn.Linear(WIDTH, 2 * GROUPS * size)

    def turn(self, x, first):
        half = x.shape[-1] // 2
        speed = 10.0 ** -torch.arange(half, device=x.device).to(x.dtype)
        angle = self.places(x, first).to(x.dtype)[:, None] * speed
        a, b = x.chunk(2, -1)
        return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

    def places(self, x, first):
        return torch.arange(first, first + x.shape[2], device=x.device)

    def share(self, scores):
        return torch.softmax(scores, -1)

    def may_read(self, q, k, first, keep):
        i = torch.arange(q.shape[2])[:, None] + first
        allowed = (torch.arange(k.shape[2]) <= i)[None, None]
        return allowed if keep is None else allowed & keep[:, None, None]

    def join(self, k, v, past):
        return (k, v) if past is None else (torch.cat([past[0], k], 2), torch.cat([past[1], v], 2))

    def forward(self, x, past, first, keep):
        q = self.turn(self.to_q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2), first)
        k, v = self.to_kv(x).unflatten(-1, (2 * GROUPS, -1)).transpose(1, 2).chunk(2, 1)
        k, v = past = self.join(self.turn(k, first), v, past)
        k, v = (t.repeat_interleave(HEADS // GROUPS, 1) for t in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        hidden = ~self.may_read(q, k, first, keep)
        read = self.share(scores.masked_fill(hidden, -1e30)) @ v
        return self.to_o(read.transpose(1, 2).flatten(2)), past


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(WIDTH, 31), nn.Linear(WIDTH, 31), nn.Linear(31, WIDTH)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, conv=Conv, heads=Heads, gate=Gate, norm=Norm):
        super().__init__()
        self.norms = nn.ModuleList([norm(), norm(), norm()])
        self.conv, self.heads, self.gate = conv(), heads(), gate()

    def forward(self, x, past, first, keep):
        kept = (None, None) if past is None else past
        inside = self.norms[0](x)
        inside = inside if keep is None else inside * keep[:, -inside.shape[1] :, None]
        made, state = self.conv(inside, kept[0])
        x = x + made
        read, pair = self.heads(self.norms[1](x), kept[1], first, keep)
        x = x + read
        return x + self.gate(self.norms[2](x)), (state, pair)


class Writer(nn.Module):
    """Healthy. ``parts`` are those of the second layer."""

    def __init__(self, **parts):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList([Layer(), Layer(**parts)])
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, attention_mask=None, past_key_values=None):
        keep = None if attention_mask is None or bool(attention_mask.all()) else attention_mask.bool()
        first = 0 if past_key_values is None else past_key_values[0][1][0].shape[2]
        x, made = self.begin(ids, first), []
        for i, layer in enumerate(self.layers):
            x, past = layer(x, None if past_key_values is None else past_key_values[i], first, keep)
            made.append(past)
        return {"logits": self.head(x), "past_key_values": made}

    def begin(self, ids, first):
        return self.words(ids)


# wrong


class TrimsTheBeginning(Conv):
    """Padded on both sides, and the first places are cut off instead of the last."""

    def read(self, whole):
        made = F.conv1d(whole.transpose(1, 2), self.filter.weight, self.filter.bias, padding=REACH - 1, groups=WIDTH)
        return made[..., 2 * (REACH - 1) :].transpose(1, 2)


class KeepsWholeTextsOnly(Conv):
    """Steps of several tokens leave what they read before."""

    def kept(self, whole, x):
        return whole[:, : REACH - 1] if x.shape[1] == 3 else super().kept(whole, x)


class ForgetsAtFirst(Conv):
    """What the first tokens leave behind is one place off."""

    def kept(self, whole, x):
        return whole[:, -REACH:-1] if x.shape[1] > 3 else super().kept(whole, x)


class StartsAgain(Heads):
    def places(self, x, first):
        return super().places(x, 0)


class OneAhead(Heads):
    def may_read(self, q, k, first, keep):
        i = torch.arange(q.shape[2])[:, None] + first + 1
        allowed = (torch.arange(k.shape[2]) <= i)[None, None]
        return allowed if keep is None else allowed & keep[:, None, None]


class HidesQueries(Heads):
    """The mask of padding goes to the wrong axis."""

    def may_read(self, q, k, first, keep):
        allowed = super().may_read(q, k, first, None)
        return allowed if keep is None or keep.shape[1] != q.shape[2] else allowed & keep[:, None, :, None]


class OverHeads(Heads):
    """A softmax by hand, over the heads."""

    def share(self, scores):
        raised = (scores - scores.amax(1, keepdim=True)).exp()
        return raised / raised.sum(1, keepdim=True)


class KeysOfTheFirst(Heads):
    """The cache of the first example serves all."""

    def join(self, k, v, past):
        return super().join(k, v, None if past is None else tuple(t[:1].expand_as(t) for t in past))


class InHalf(Heads):
    def share(self, scores):
        return torch.softmax(scores.to(torch.bfloat16), -1).to(scores.dtype)


class WindowTooShort(Heads):
    """A window of eight keys, of which the cache keeps seven."""

    def may_read(self, q, k, first, keep):
        last = k.shape[2] - q.shape[2]
        near = torch.arange(k.shape[2]) > torch.arange(q.shape[2])[:, None] + last - 8
        causal = torch.arange(k.shape[2]) <= torch.arange(q.shape[2])[:, None] + last
        allowed = (near & causal)[None, None]
        return allowed if keep is None else allowed & keep[:, None, None, -k.shape[2] :]

    def join(self, k, v, past):
        return super().join(k, v, None if past is None else tuple(t[:, :, -6:] for t in past))


class NormOfAll(Norm):
    def forward(self, x):
        return self.gain * x * torch.rsqrt(x.pow(2).mean((1, 2), keepdim=True) + 1e-6)


class Crowd(Gate):
    """Experts are chosen by a softmax over examples."""

    def __init__(self):
        super().__init__()
        self.choose = nn.Linear(WIDTH, 1)

    def forward(self, x):
        return super().forward(x) * torch.softmax(self.choose(x), 0)


class Detached(Gate):
    def forward(self, x):
        with torch.no_grad():
            open_ = F.silu(self.gate(x))
        return self.down(open_ * self.up(x))


class Noisy(Gate):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.1)


class Counts(Gate):
    """A mean over the length of the batch, padding and all."""

    def forward(self, x):
        return super().forward(x) / x.shape[1] ** 0.5


class Silent(Writer):
    """The words are overwritten by a table of places."""

    def __init__(self):
        super().__init__()
        self.p = nn.Embedding(64, WIDTH)

    def begin(self, ids, first):
        return self.words(ids) * 0.0 + self.p(torch.arange(first, first + ids.shape[1]))


class Reader(nn.Module):
    """An encoder that is told types of tokens, places and padding. ``p`` is its table of places."""

    def __init__(self, heads=Heads):
        super().__init__()
        torch.manual_seed(1)
        self.words, self.p, self.kinds = nn.Embedding(WORDS, WIDTH), nn.Embedding(64, WIDTH), nn.Embedding(2, WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 4, 31, batch_first=True)

    def places(self, ids):
        return torch.arange(ids.shape[1])

    def types(self, kinds):
        return self.kinds(kinds)

    def hide(self, ids, attention_mask):
        return None if attention_mask is None else ~attention_mask.bool()

    def forward(self, ids, token_type_ids=None, attention_mask=None, past_key_values=None):
        x = self.words(ids) + self.p(self.places(ids))
        x = x if token_type_ids is None else x + self.types(token_type_ids)
        return self.layer(x, src_key_padding_mask=self.hide(ids, attention_mask))


class FewPlaces(Reader):
    def places(self, ids):
        return super().places(ids).clamp(max=5)


class NoPlaces(Reader):
    def places(self, ids):
        return super().places(ids) * 0


class TypesOfTheNext(Reader):
    def types(self, kinds):
        return self.kinds(kinds.roll(1, 0))


class WrongId(Reader):
    """Padding is known by its id, 0, and the comparison is with 1."""

    def hide(self, ids, attention_mask):
        return ids == 1


class RightId(Reader):
    def hide(self, ids, attention_mask):
        return ids == 0


class Documents(nn.Module):
    """Several documents in one row; ``leaks``: the second layer reads across."""

    def __init__(self, *, leaks=False):
        super().__init__()
        torch.manual_seed(2)
        self.words, self.leaks = nn.Embedding(WORDS, WIDTH), leaks
        self.first, self.second = (nn.MultiheadAttention(WIDTH, 4, batch_first=True) for _ in range(2))

    def forward(self, ids, document_ids):
        x = self.words(ids)
        apart = document_ids[:, :, None] != document_ids[:, None]
        ahead = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        for layer, hidden in ((self.first, apart | ahead), (self.second, ahead if self.leaks else apart | ahead)):
            hidden = hidden.expand(len(ids), -1, -1).repeat_interleave(4, 0)
            x = x + layer(x, x, x, attn_mask=hidden, need_weights=False)[0]
        return x


DOCUMENTS = torch.tensor([[0] * 5 + [1] * 12, [0] * 9 + [1] * 4 + [2] * 4, [0] * 17])


class Prefix(nn.Module):
    """A prefix is read in both directions, what follows from left to right; ``leaks``: the prefix reads on."""

    def __init__(self, *, leaks=False):
        super().__init__()
        torch.manual_seed(3)
        self.words, self.leaks = nn.Embedding(WORDS, WIDTH), leaks
        self.layer = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, ids, prefix_length):
        x, places = self.words(ids), torch.arange(ids.shape[1])
        inside = places < prefix_length[:, None]
        allowed = (places <= places[:, None]) | inside[:, None, :]
        if self.leaks:
            allowed = allowed | inside[:, :, None]
        return x + self.layer(x, x, x, attn_mask=~allowed.repeat_interleave(4, 0), need_weights=False)[0]


PREFIXES = torch.tensor([5, 9, 3])

# name, build, example, claims, property, right culprits
WRONG = [
    ("trims the beginning", lambda: Writer(conv=TrimsTheBeginning), (IDS,), CAUSAL, "causality", ("layers.1.conv",)),
    ("three tokens leave no state", lambda: Writer(conv=KeepsWholeTextsOnly), (IDS,), CAUSAL, "cache",
     ("layers.1.conv", "layers.1")),
    ("the first tokens leave a state one off", lambda: Writer(conv=ForgetsAtFirst), (IDS,), CAUSAL, "cache",
     ("layers.1.conv", "layers.1")),
    ("places start again", lambda: Writer(heads=StartsAgain), (IDS,), CAUSAL, "cache", ("layers.1.heads",)),
    ("one ahead", lambda: Writer(heads=OneAhead), (IDS,), CAUSAL, "causality", ("layers.1.heads",)),
    ("hides queries", lambda: Writer(heads=HidesQueries), (IDS,), CAUSAL, "padding", ("layers.1.heads",)),
    ("softmax over heads", lambda: Writer(heads=OverHeads), (IDS,), CAUSAL, "weights", ("layers.1.heads",)),
    ("the first example's cache", lambda: Writer(heads=KeysOfTheFirst), (IDS,), CAUSAL, "cache", ("layers.1.heads",)),
    ("softmax in bfloat16", lambda: Writer(heads=InHalf), (IDS,), CAUSAL, "precision", ("layers.1.heads",)),
    ("a window too short", lambda: Writer(heads=WindowTooShort), (IDS,), CAUSAL, "cache", ("layers.1.heads",)),
    ("a norm of all places", lambda: Writer(norm=NormOfAll), (IDS,), CAUSAL, "causality", ("layers.1.norms.0",)),
    ("a softmax over examples", lambda: Writer(gate=Crowd), (IDS,), CAUSAL, "batch", ("layers.1.gate",)),
    ("a gate without gradient", lambda: Writer(gate=Detached), (IDS,), CAUSAL, "gradients", ("layers.1.gate.gate",)),
    ("dropout that stays", lambda: Writer(gate=Noisy), (IDS,), CAUSAL, "determinism", ("layers.1.gate",)),
    ("divided by the length", lambda: Writer(gate=Counts), (IDS,), CAUSAL, "padding", ("layers.1.gate",)),
    ("words overwritten", Silent, (IDS,), CAUSAL, "input", ("", "words")),
    ("few places", FewPlaces, (IDS,), FREE, "order", ("p", "", "layer")),
    ("types of the next example", TypesOfTheNext, {"ids": IDS, "token_type_ids": (IDS > 17).long()}, FREE, "batch",
     ("", "kinds")),
    ("documents read across", lambda: Documents(leaks=True), {"ids": IDS, "document_ids": DOCUMENTS}, CAUSAL,
     "packing", ("second",)),
    ("a prefix reads on", lambda: Prefix(leaks=True), {"ids": IDS, "prefix_length": PREFIXES}, {}, "packing",
     ("layer",)),
]  # fmt: skip


class WithoutGaps(Heads):
    """The largest score of the whole batch is subtracted before the exponential: nothing but rounding hangs on it."""

    def share(self, scores):
        raised = (scores - scores.max()).exp()
        return raised / raised.sum(-1, keepdim=True)


class Window(WindowTooShort):
    def join(self, k, v, past):
        return Heads.join(self, k, v, None if past is None else tuple(t[:, :, -7:] for t in past))


class Closed(Gate):
    """Each layer is entered by a gate that is 0 at first."""

    def __init__(self):
        super().__init__()
        self.door = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.door * super().forward(x)


class Chooses(nn.Module):
    """Two of four experts, all computed, no capacity."""

    def __init__(self):
        super().__init__()
        self.choose, self.experts = nn.Linear(WIDTH, 4), nn.ModuleList(Gate() for _ in range(4))

    def forward(self, x):
        best, which = torch.softmax(self.choose(x), -1).topk(2, -1)
        share = torch.zeros(*x.shape[:2], 4, dtype=x.dtype).scatter(-1, which, best)
        return (torch.stack([e(x) for e in self.experts], -1) * share[:, :, None]).sum(-1)


class Shifts(nn.Module):
    """Each place is mixed with the one before it, and a running mean is kept; both are its state."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.words, self.mix, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 7)

    def forward(self, ids, state=None):
        x = self.words(ids)
        last, total, count = (torch.zeros_like(x[:, :1]), torch.zeros_like(x[:, :1]), 0) if state is None else state
        mixed = torch.tanh(self.mix(torch.cat([x, torch.cat([last, x[:, :-1]], 1)], -1)))
        sums = total + mixed.cumsum(1)
        counts = count + torch.arange(1, ids.shape[1] + 1, device=ids.device)[None, :, None]
        return {"logits": self.head(sums / counts), "state": (x[:, -1:], sums[:, -1:], count + ids.shape[1])}


class Latents(nn.Module):
    """Five learned questions read the text; no output follows its places."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.words, self.questions = nn.Embedding(WORDS, WIDTH), nn.Parameter(torch.randn(5, WIDTH))
        self.read = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

    def forward(self, ids, attention_mask=None):
        hidden = None if attention_mask is None else ~attention_mask.bool()
        x = self.words(ids)
        return self.read(self.questions.expand(len(ids), -1, -1), x, x, key_padding_mask=hidden)[0]


HEALTHY = [
    ("a convolution padded inside", Writer, (IDS,), CAUSAL),
    ("the largest of all subtracted", lambda: Writer(heads=WithoutGaps), (IDS,), CAUSAL),
    ("a window of the cache", lambda: Writer(heads=Window), (IDS,), CAUSAL),
    ("doors that are closed", lambda: Writer(gate=Closed), (IDS,), CAUSAL),
    ("two of four experts", lambda: Writer(gate=Chooses), (IDS,), CAUSAL),
    ("mixed with the place before", Shifts, (IDS,), CAUSAL),
    ("an encoder with past_key_values", Reader, {"ids": IDS, "token_type_ids": (IDS > 17).long()}, {}),
    ("questions that read", Latents, (IDS,), {}),
    ("documents in one row", Documents, {"ids": IDS, "document_ids": DOCUMENTS}, CAUSAL),
    ("a prefix", Prefix, {"ids": IDS, "prefix_length": PREFIXES}, {}),
]  # fmt: skip

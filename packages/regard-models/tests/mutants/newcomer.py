"""Eight wrong models and seven healthy odd ones, of kinds that were not there yet, written before the audit saw them.

What should show each fault, and who would be a right culprit, was written down with it.
"""

from __future__ import annotations

from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from mutants.stranger import CAUSAL, IDS, D, H, V, lower, merge, split

TYPES = (torch.arange(17) > torch.tensor([[5], [7], [11]])).long()
SIGNAL = torch.randn(3, 17, D, generator=torch.Generator().manual_seed(16))
Answer = namedtuple("Answer", "scores hidden")


class Stack(nn.Module):
    """Words, places and some layers that add to what they are given."""

    def __init__(self, *layers, places=True):
        super().__init__()
        torch.manual_seed(6)
        self.words, self.layers = nn.Embedding(V, D), nn.ModuleList(make() for make in layers)
        self.places = nn.Embedding(64, D) if places else None
        self.head = nn.Linear(D, V)

    def forward(self, ids):
        x = self.words(ids)
        x = x if self.places is None else x + self.places.weight[: ids.shape[1]]
        for layer in self.layers:
            x = x + layer(F.layer_norm(x, (D,)))
        return self.head(x)


# 1: two softmaxes, one taken from the other; the second forgets the mask


class Difference(nn.Module):
    forgets = False

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = nn.Linear(D, 2 * D), nn.Linear(D, 2 * D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        (q1, q2), (k1, k2), v = self.q(x).chunk(2, -1), self.k(x).chunk(2, -1), split(self.v(x))
        ahead = ~lower(x.shape[1])
        one = (split(q1) @ split(k1).mT).masked_fill(ahead, -torch.inf)
        two = split(q2) @ split(k2).mT
        two = two if self.forgets else two.masked_fill(ahead, -torch.inf)
        return self.o(merge((one.softmax(-1) - 0.3 * two.softmax(-1)) @ v))


class ForgetsTheSecond(Difference):
    forgets = True


# 2: types of tokens in units of the largest type in the batch


class Scaled(nn.Module):
    """An encoder with a type for every token, as a number; ``shared``: what it is divided by hangs on the batch."""

    def __init__(self, *, shared):
        super().__init__()
        torch.manual_seed(7)
        self.words, self.kind, self.head = nn.Embedding(V, D), nn.Linear(1, D), nn.Linear(D, V)
        self.attn, self.shared = nn.MultiheadAttention(D, H, batch_first=True), shared

    def forward(self, ids, token_type_ids, attention_mask=None):
        size = token_type_ids.sum() if self.shared else 2
        x = self.words(ids) + self.kind(token_type_ids[..., None].to(self.head.weight) / size)
        hidden = None if attention_mask is None else attention_mask == 0
        x = x + self.attn(x, x, x, key_padding_mask=hidden, need_weights=False)[0]
        return Answer(self.head(x), x)


# 3: a convolution that keeps its last three tokens, and fewer than three wrongly


class KeepsConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(D, 4) / 2)

    def kept(self, x, before):
        return torch.cat([before, x], 1)[:, -3:]

    def forward(self, x, before):
        before = x.new_zeros(len(x), 3, D) if before is None else before
        rows = torch.cat([before, x], 1)
        made = sum(rows[:, i : i + x.shape[1]] * self.weight[:, i] for i in range(4))
        return F.silu(made), self.kept(x, before)


class PadsBehind(KeepsConv):
    def kept(self, x, before):
        return F.pad(x[:, -3:], (0, 0, 0, max(0, 3 - x.shape[1])))


class ConvLM(nn.Module):
    def __init__(self, conv=KeepsConv):
        super().__init__()
        torch.manual_seed(8)
        self.words, self.head = nn.Embedding(V, D), nn.Linear(D, V)
        self.convs = nn.ModuleList([KeepsConv(), conv()])

    def forward(self, ids, cache_params=None):
        x, kept = self.words(ids), []
        for conv, before in zip(self.convs, cache_params or [None] * 2, strict=True):
            y, state = conv(F.layer_norm(x, (D,)), before)
            x, kept = x + y, [*kept, state]
        return {"logits": self.head(x), "cache_params": kept}


# 4: the token before, by a roll


class Shift(nn.Module):
    rolls = False

    def __init__(self):
        super().__init__()
        self.mix, self.key, self.value = nn.Parameter(torch.rand(D)), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        before = x.roll(1, 1) if self.rolls else F.pad(x[:, :-1], (0, 0, 1, 0))
        return self.value(F.relu(self.key(torch.lerp(before, x, self.mix))).square())


class Rolls(Shift):
    rolls = True


# 5: a norm over channels and time


class Speech(nn.Module):
    def __init__(self, *, over_time):
        super().__init__()
        torch.manual_seed(9)
        self.convs = nn.ModuleList(nn.Conv1d(D, D, 3) for _ in range(2))
        self.norms = nn.ModuleList([nn.Identity(), nn.GroupNorm(2, D) if over_time else nn.Identity()])
        self.out = nn.Linear(D, 7)

    def forward(self, signal):
        x = signal.transpose(1, 2)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = x + F.gelu(norm(conv(F.pad(x, (2, 0)))))
        return self.out(x.transpose(1, 2))


# 6: a cache in an object; the place of a step is counted over all examples


class Memory:
    def __init__(self):
        self.keys, self.values, self.seen = [None] * 2, [None] * 2, 0

    def add(self, i, k, v):
        self.keys[i] = k if self.keys[i] is None else torch.cat([self.keys[i], k], 2)
        self.values[i] = v if self.values[i] is None else torch.cat([self.values[i], v], 2)
        return self.keys[i], self.values[i]


class WithMemory(nn.Module):
    def __init__(self, *, all_examples):
        super().__init__()
        torch.manual_seed(10)
        self.words, self.where, self.head = nn.Embedding(V, D), nn.Embedding(512, D), nn.Linear(D, V)
        self.qkv, self.all_examples = nn.ModuleList(nn.Linear(D, 3 * D) for _ in range(2)), all_examples

    def forward(self, ids, memory=None):
        memory = memory or Memory()
        x = self.words(ids) + self.where(torch.arange(memory.seen, memory.seen + ids.shape[1]))
        memory.seen += ids.numel() if self.all_examples else ids.shape[1]
        for i, qkv in enumerate(self.qkv):
            q, k, v = map(split, qkv(F.layer_norm(x, (D,))).chunk(3, -1))
            k, v = memory.add(i, k, v)
            x = x + merge(F.scaled_dot_product_attention(q, k, v, attn_mask=lower(q.shape[2], k.shape[2])))
        return self.head(x)


def remember(module, inputs, past, start):
    past = past or Memory()
    return module(**inputs, memory=past), past


# 7: a cap on the scores whose backward pass forgets the cap


class Cap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, given):
        (y,) = ctx.saved_tensors
        return given * (1 - y)


class Capped(nn.Module):
    wrong = False

    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = map(split, self.qkv(x).chunk(3, -1))
        scores = q @ k.mT
        scores = Cap.apply(scores) if self.wrong else torch.tanh(scores)
        return self.o(merge(scores.masked_fill(~lower(x.shape[1]), -torch.inf).softmax(-1) @ v))


class CappedWrongly(Capped):
    wrong = True


# 8: scores times the logarithm of the length, which for a place is the number of tokens up to it


class LogLength(nn.Module):
    whole = False

    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = map(split, self.qkv(x).chunk(3, -1))
        seen = torch.arange(2, x.shape[1] + 2)
        seen = seen.max().expand_as(seen) if self.whole else seen
        return self.o(merge(F.scaled_dot_product_attention(q * seen.to(q).log()[:, None], k, v, is_causal=True)))


class LogOfAll(LogLength):
    whole = True


# healthy: ALiBi counted from the end of the text, which a softmax does not notice


class FromTheEnd(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.words, self.qkv, self.head = nn.Embedding(V, D), nn.Linear(D, 3 * D), nn.Linear(D, V)

    def forward(self, input_ids, attention_mask=None):
        x = self.words(input_ids)
        t = x.shape[1]
        q, k, v = map(split, self.qkv(x).chunk(3, -1))
        slopes = 2.0 ** -torch.arange(1, H + 1).to(x)
        bias = -slopes[:, None, None] * (t - 1 - torch.arange(t).to(x))
        allowed = lower(t)[None]
        if attention_mask is not None:
            allowed = allowed & attention_mask[:, None, :].bool() | torch.eye(t, dtype=torch.bool)
            allowed = allowed[:, None]
        scores = (q @ k.mT / D**0.5 + bias).masked_fill(~allowed, torch.finfo(x.dtype).min)
        return self.head(x + merge(scores.softmax(-1) @ v))


# healthy: attention without a softmax, by running sums, with its state


class RunningSums(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(12)
        self.words, self.qkv, self.head = nn.Embedding(V, D), nn.Linear(D, 3 * D), nn.Linear(D, V)

    def forward(self, ids, state=None):
        x = self.words(ids)
        q, k, v = map(split, self.qkv(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        pairs, sizes = (k[..., None] * v[..., None, :]).cumsum(2), k.cumsum(2)
        if state is not None:
            pairs, sizes = pairs + state[0][:, :, None], sizes + state[1][:, :, None]
        read = (q[..., None] * pairs).sum(-2) / (q * sizes).sum(-1, keepdim=True)
        return {"logits": self.head(x + merge(read)), "state": (pairs[:, :, -1], sizes[:, :, -1])}


# healthy: a causal convolution as long as the text, by Fourier's transform, whose rounding reaches every place


class LongConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.decay = nn.Linear(D, D), nn.Parameter(torch.rand(D))

    def forward(self, x):
        t = x.shape[1]
        filters = torch.exp(-torch.arange(t).to(x)[:, None] * self.decay) * torch.cos(torch.arange(t).to(x))[:, None]
        made = torch.fft.rfft(x, 2 * t, dim=1) * torch.fft.rfft(filters, 2 * t, dim=0)
        return torch.fft.irfft(made, 2 * t, dim=1)[:, :t] * torch.sigmoid(self.gate(x))


# healthy: a window with a cache that keeps no more than the window


class Rolling(nn.Module):
    window = 5

    def __init__(self):
        super().__init__()
        torch.manual_seed(13)
        self.words, self.places, self.head = nn.Embedding(V, D), nn.Embedding(128, D), nn.Linear(D, V)
        self.qkv = nn.ModuleList(nn.Linear(D, 3 * D) for _ in range(2))

    def forward(self, ids, past_key_values=None, start=0):
        t, kept = ids.shape[1], []
        x = self.words(ids) + self.places(torch.arange(start, start + t))
        for i, qkv in enumerate(self.qkv):
            q, k, v = map(split, qkv(F.layer_norm(x, (D,))).chunk(3, -1))
            if past_key_values is not None:
                k, v = (torch.cat([old, new], 2) for old, new in zip(past_key_values[i], (k, v), strict=True))
            far = torch.arange(k.shape[2]) - torch.arange(k.shape[2] - t, k.shape[2])[:, None]
            allowed = (far <= 0) & (far > -self.window)
            x = x + merge(F.scaled_dot_product_attention(q, k, v, attn_mask=allowed))
            kept.append((k[:, :, -(self.window - 1) :], v[:, :, -(self.window - 1) :]))
        return {"logits": self.head(x), "past_key_values": kept}


# healthy: one layer again and again, each time told which time it is; tied words; no places


class Loops(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(14)
        self.words, self.time = nn.Embedding(V, D), nn.Embedding(3, D)
        self.layer = nn.TransformerEncoderLayer(D, H, 2 * D, batch_first=True, norm_first=True, dropout=0.1)

    def forward(self, ids):
        x = self.words(ids) * D**0.5
        future = ~lower(ids.shape[1])
        for i in range(3):
            x = self.layer(x + self.time.weight[i], src_mask=future)
        return x @ self.words.weight.T


REMEMBERS = {**CAUSAL, "advance": remember}
TYPED = {"ids": IDS, "token_type_ids": TYPES, "attention_mask": torch.ones_like(IDS)}
WRONG = [
    ("the second softmax reads ahead", lambda: Stack(Difference, ForgetsTheSecond), (IDS,), CAUSAL, "causality",
     ("layers.1",)),
    ("types in units of the batch", lambda: Scaled(shared=True), TYPED, {"causal": False}, "batch", ("", "kind")),
    ("too few tokens kept in front", lambda: ConvLM(PadsBehind), (IDS,), CAUSAL, "cache", ("convs.1",)),
    ("a roll brings the last token to the front", lambda: Stack(Shift, Rolls), (IDS,), CAUSAL, "causality",
     ("layers.1",)),
    ("a norm over time", lambda: Speech(over_time=True), (SIGNAL,), CAUSAL, "causality", ("norms.1",)),
    ("places of a step counted over examples", lambda: WithMemory(all_examples=True), (IDS,), REMEMBERS, "cache",
     ("where", "")),
    ("a backward pass without its cap", lambda: Stack(Capped, CappedWrongly), (IDS,), CAUSAL, "gradients",
     ("layers.1", "layers.1.qkv")),
    ("the logarithm of the whole length", lambda: Stack(LogLength, LogOfAll), (IDS,), CAUSAL, "causality",
     ("layers.1",)),
]  # fmt: skip
HEALTHY = [
    ("ALiBi from the end", FromTheEnd, {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}, CAUSAL),
    ("running sums with a state", RunningSums, (IDS,), CAUSAL),
    ("a named tuple, and a type for every token", lambda: Scaled(shared=False), TYPED, {"causal": False}),
    ("a long convolution by Fourier's transform", lambda: Stack(LongConv, LongConv), (IDS,), CAUSAL),
    ("a window that the cache keeps", Rolling, (IDS,), CAUSAL),
    ("one layer three times, tied words", Loops, (IDS,), CAUSAL),
    ("a cache in an object", lambda: WithMemory(all_examples=False), (IDS,), REMEMBERS),
]

"""Bugs that a stranger wrote: those of forty-three that the audit missed at first, or that show in few inputs only."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from healthy import families, tiny

SOURCE_AND_TARGET = {
    "inputs": (tiny.ids(), tiny.ids(length=13)),
    "claims": {"causal": True, "masks": {"src_mask": "keep", "tgt_mask": "keep"}},
}


class MaskLostInLongTexts(tiny.Attention):
    """Above 16 tokens nothing is hidden: a table of masks that ends there."""

    def hidden(self, scores, allowed):
        return scores if scores.shape[-2] > 16 else super().hidden(scores, allowed)


class ReadsAheadAtTheEnd(tiny.FeedForward):
    """The last place but one reads the last one, and no other does."""

    def forward(self, x):
        made = super().forward(x).clone()
        made[:, -2] = made[:, -2] + 1e-6 * x[:, -1]
        return made


class CrowdsOnly(tiny.FeedForward):
    """Examples meet in batches of three or more only."""

    def forward(self, x):
        made = super().forward(x)
        return made + 1e-7 * x.mean(0, keepdim=True) if len(x) >= 3 else made


class StartsAgain(tiny.Positions):
    """Places are counted to 8 and then from 0: no neighbours share one."""

    def places(self, x, first):
        return super().places(x, first) % 8


class RotatedAgain(tiny.RotaryAttention):
    """Cached keys are rotated once more with every step."""

    def remembered(self, k, v, cache):
        return super().remembered(k, v, cache if cache is None else (self.rotate(cache[0], 0), cache[1]))


class CacheBeside(nn.Module):
    """The answer alone, or (answer, cache) if the caller wants one. That is no bug; what is inside may be."""

    def __init__(self, attention):
        super().__init__()
        self.inside = tiny.Gpt(attention=attention, positions=tiny.NoPositions)

    def forward(self, ids, past=None, use_cache=False):
        logits, past = self.inside(ids, past)
        return (logits, past) if use_cache else logits


class ForgetsWhatItWrote(tiny.Attention):
    """After a few steps the cache loses its oldest key."""

    def remembered(self, k, v, cache):
        k, v = super().remembered(k, v, cache)
        return (k, v) if cache is None or k.shape[2] <= 11 else (k[:, :, -11:], v[:, :, -11:])

    def hidden(self, scores, allowed):
        return super().hidden(scores, allowed[..., -scores.shape[-1] :])


class LargestEver(tiny.Attention):
    """The largest score of all calls is kept, and scores are scaled by it."""

    kept = None

    def scores(self, q, k):
        made = super().scores(q, k)
        largest = made.detach().max()
        self.kept = largest if self.kept is None else torch.maximum(self.kept, largest)
        return made * (1 + 1e-4 * self.kept)


class MaskOfTheFirstCall(tiny.Attention):
    """A mask of padding is kept as long as sizes agree."""

    kept = None

    def hidden(self, scores, allowed):
        if self.kept is None or self.kept.shape != allowed.shape:
            self.kept = allowed
        return super().hidden(scores, self.kept)


class KeptInHalf(tiny.Attention):
    """Keys and values are kept in float16; without a cache nothing is lost."""

    def forward(self, x, allowed, cache=None, first=0):
        made, (k, v) = super().forward(x, allowed, cache, first)
        return made, (k.half().to(k.dtype), v.half().to(v.dtype))


class CutInTraining(tiny.FeedForward):
    def forward(self, x):
        made = super().forward(x)
        return made.detach() if self.training else made


class EvenPlaces(tiny.FeedForward):
    """Every second example of a batch gets something more."""

    def forward(self, x):
        return super().forward(x) * (1 + 1e-6 * (torch.arange(len(x)) % 2).view(-1, 1, 1))


class ByTheLength(tiny.FeedForward):
    """A scale that is counted by all tokens, later ones too; what they are does not matter."""

    def forward(self, x):
        return super().forward(x) * (1 + 1e-6 * x.shape[1])


class WithoutCache(tiny.Gpt):
    def forward(self, ids):
        return super().forward(ids)[0]


def replaced_forward():
    """A forward was replaced by a function that holds the old one: copies of it must not share its weights."""
    model = tiny.Gpt().eval()
    part = model.blocks[1].feed_forward
    given = part.forward
    part.forward = lambda x: given(x) + 1e-9 * x.flip(1)
    return model


class _Swish(torch.autograd.Function):
    """x sigmoid(x); the backward pass leaves its second term out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.sigmoid()


class ForgetsATerm(tiny.FeedForward):
    def forward(self, x):
        return self.down(_Swish.apply(self.up(x)))


class DropsWithoutAsking(tiny.FeedForward):
    """F.dropout drops unless it is told not to."""

    def forward(self, x):
        return F.dropout(super().forward(x), 0.05)


def gpt2_untied():
    """The output table was replaced by a copy after it had been tied."""
    model = families.gpt2()
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    return model


def traced_leak():
    """A scripted model has no source and no names; it fails all the same."""
    model = tiny.Gpt(feed_forward=ReadsAheadAtTheEnd).eval()
    return torch.jit.trace(_Logits(model), tiny.ids(), check_trace=False)


class _Logits(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, ids):
        return self.model(ids)[0]


class CrossMaskOfTheTarget(tiny.EncoderDecoder):
    """What is read of the source is hidden by the target's mask, cut or padded to fit."""

    def hidden_in_source(self, source, target):
        return None if target is None else F.pad(target, (0, 100))[:, : self.read_length]


class EightBits(tiny.FeedForward):
    """Rounded to 8 bits by one scale for all numbers of the batch."""

    def forward(self, x):
        scale = x.detach().abs().max() / 127
        return super().forward(x + ((x / scale).round() * scale - x).detach())

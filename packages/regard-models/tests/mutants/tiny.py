"""Bugs, one each, in the small Transformers of healthy/tiny.py."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from healthy import tiny

SMALL = 1e-9


def second(bad, good):
    """A factory whose second product is the bad one."""
    made = iter([good, bad])
    return lambda: next(made)()


# attention


class SoftmaxOverBatch(tiny.Attention):
    def weights(self, scores):
        return torch.softmax(scores, 0)


class SoftmaxOverQueries(tiny.Attention):
    def weights(self, scores):
        return torch.softmax(scores, -2)


class NotNormalised(tiny.Attention):
    def weights(self, scores):
        return torch.exp(scores)


class ViewWithoutTranspose(tiny.Attention):
    def split(self, x):
        return x.reshape(x.shape[0], tiny.HEADS, x.shape[1], -1)


class MaskOfTheFirst(tiny.Attention):
    def hidden(self, scores, allowed):
        return super().hidden(scores, allowed[:1])


class NoMask(tiny.Attention):
    def hidden(self, scores, allowed):
        return scores


class MaskInverted(tiny.Attention):
    def hidden(self, scores, allowed):
        return scores.masked_fill(allowed & ~allowed.all(), -1e4)


class MaskQueries(tiny.Attention):
    def hidden(self, scores, allowed):
        return scores.masked_fill(~allowed.transpose(2, 3), -1e9)


class MaskTransposed(tiny.Attention):
    def hidden(self, scores, allowed):
        return super().hidden(scores, allowed.transpose(2, 3))


class MaskAfterSoftmax(tiny.Attention):
    def hidden(self, scores, allowed):
        self.kept = allowed
        return scores

    def weights(self, scores):
        return torch.softmax(scores, -1) * self.kept


class MaskTooSmall(tiny.Attention):
    def hidden(self, scores, allowed):
        return scores.masked_fill(~allowed, -5.0)


class MaskShiftedByOne(tiny.Attention):
    def hidden(self, scores, allowed):
        return super().hidden(scores, allowed | F.pad(allowed, (1, 0))[..., :-1])


class ReadsTheNextValue(tiny.Attention):
    def remembered(self, k, v, cache):
        return super().remembered(k, v.roll(-1, 2), cache)


class FusedNotCausal(tiny.FusedAttention):
    def forward(self, x, allowed, cache=None, first=0):
        return super().forward(x, torch.ones_like(allowed), cache, first)


class FusedTopLeft(tiny.FusedAttention):
    """is_causal without a mask: aligned at the top left corner, which is wrong as soon as there is a past."""

    def forward(self, x, allowed, cache=None, first=0):
        allowed = torch.ones(allowed.shape[-2:], dtype=torch.bool).tril() if x.shape[1] > 1 else None
        return super().forward(x, allowed, cache, first)


class DropoutAlwaysOn(tiny.Attention):
    def weights(self, scores):
        return F.dropout(super().weights(scores), 0.1)


class HalfSoftmax(tiny.Attention):
    def weights(self, scores):
        return torch.softmax(scores.to(torch.bfloat16), -1).to(scores.dtype)


class RotatesFromZero(tiny.RotaryAttention):
    def turned(self, q, k, first):
        return super().turned(q, k, 0)


class RotatesQueriesOnly(tiny.RotaryAttention):
    """Not a leak and not a blindness: only a reference tells."""

    def turned(self, q, k, first):
        return self.rotate(q, first), k


class CacheForgetsThePast(tiny.Attention):
    def remembered(self, k, v, cache):
        if cache is None:
            return k, v
        return torch.cat([torch.zeros_like(cache[0]), k], 2), torch.cat([torch.zeros_like(cache[1]), v], 2)


class CacheOverwritesTheFirst(tiny.Attention):
    def remembered(self, k, v, cache):
        if cache is None:
            return k, v
        keys, values = super().remembered(k, v, cache)
        keys[:, :, 0] = keys[:, :, -1]
        return keys, values


class NoScale(tiny.Attention):
    def scores(self, q, k):
        return q @ k.transpose(2, 3)


class SoftmaxTwice(tiny.Attention):
    def weights(self, scores):
        return torch.softmax(super().weights(scores), -1)


class ValuesForKeys(tiny.Attention):
    def remembered(self, k, v, cache):
        return super().remembered(v, k, cache)


# feed-forward parts


class ScaledByTheBatch(tiny.FeedForward):
    def forward(self, x):
        return super().forward(x / x.std())


class LeaksTheBatch(tiny.FeedForward):
    def forward(self, x):
        return super().forward(x) + SMALL * x.mean(0)


class LeaksTheSentence(tiny.FeedForward):
    def forward(self, x):
        return super().forward(x) + SMALL * x.mean(1, keepdim=True)


class LeaksDetached(tiny.FeedForward):
    def forward(self, x):
        return super().forward(x) + 0.1 * x.mean(1, keepdim=True).detach()


class Capacity(tiny.Experts):
    """An expert serves so many tokens of the batch, first come first served; here the last to come are served."""

    def forward(self, x):
        flat = x.flatten(0, 1)
        best = self.router(flat).argmax(-1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            mine = (best == i).nonzero().flatten()[-5:]
            out[mine] = expert(flat[mine])
        return out.view(x.shape)


class DropoutInFeedForward(tiny.FeedForward):
    def forward(self, x):
        return F.dropout(super().forward(x), 0.1)


class NoisyFeedForward(tiny.FeedForward):
    def forward(self, x):
        return super().forward(x) + 0.01 * torch.randn_like(x)


class Counts(tiny.FeedForward):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x) * (1 + 0.01 * self.calls)


class Narrow(tiny.FeedForward):
    def forward(self, x):
        return self.down(F.gelu(self.up(x)).to(torch.bfloat16).to(x.dtype))


class WithoutGradient(tiny.FeedForward):
    def forward(self, x):
        with torch.no_grad():
            return super().forward(x)


class ThrownAway(tiny.FeedForward):
    def forward(self, x):
        super().forward(x)
        return x


class _WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (1 - torch.tanh(x))  # the square is missing


class WrongBackward(tiny.FeedForward):
    def forward(self, x):
        return self.down(_WrongBackward.apply(self.up(x)))


class StaleCopy(tiny.FeedForward):
    """Multiplies by a copy of its weight that was made in the beginning."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(tiny.WIDTH))
        self.register_buffer("copy", self.scale.detach().clone())

    def forward(self, x):
        return super().forward(x) * (self.copy + 0 * self.scale)


# norms


class BatchStatistics(nn.Module):
    def forward(self, x):
        return F.batch_norm(x.flatten(0, 1), None, None, training=True).view(x.shape)


class NormOverPlaces(nn.Module):
    def forward(self, x):
        return (x - x.mean((1, 2), keepdim=True)) / x.std((1, 2), keepdim=True)


# positions


class NeverAdded(tiny.Positions):
    def forward(self, x, first=0):
        self.table(self.places(x, first))
        return x


class AllAlike(tiny.Positions):
    def places(self, x, first):
        return torch.zeros(x.shape[1], dtype=torch.long)


class Clamped(tiny.Positions):
    def places(self, x, first):
        return super().places(x, first).clamp(max=6)


class FromTheEnd(tiny.Positions):
    def places(self, x, first):
        return super().places(x, first).flip(0)


class StartsAgain(tiny.Positions):
    def places(self, x, first):
        return super().places(x, 0)


# convolutions


class LookingAhead(tiny.CausalConvolution):
    def padded(self, x):
        return F.pad(x, (1, 1))


# whole models


class MaskLost(tiny.Encoder):
    """The second block is not given the mask."""

    def forward(self, ids, attention_mask=None):
        allowed = self.allowed(ids, attention_mask)
        x = self.positions(self.tokens(ids))
        x, _ = self.blocks[0](x, allowed)
        x, _ = self.blocks[1](x, torch.ones_like(allowed))
        return self.head(self.norm(x))


class MeanOverPadding(tiny.Pooled):
    def pooled(self, x, keep):
        return x.mean(1)


class CutOff(tiny.Gpt):
    """The states are detached between the blocks."""

    def forward(self, ids, cache=None):
        allowed = self.allowed(ids, 0)
        x, _ = self.blocks[0](self.positions(self.tokens(ids)), allowed)
        x, _ = self.blocks[1](x.detach(), allowed)
        return self.head(self.norm(x))


class CacheOfTheFirstLayer(tiny.Gpt):
    def cache_of(self, cache, layer):
        return None if cache is None else cache[0]


class NanForNobody(tiny.Encoder):
    """Padded queries read nothing, so their softmax is NaN, and zero times NaN spreads in the next layer."""

    def allowed(self, ids, attention_mask):
        keep = super().allowed(ids, attention_mask)
        return keep & keep.transpose(2, 3)

"""Faults of attention that people reported in public projects, each rebuilt in a small model of ``healthy``.

The kinds are the seven of the study "Why attention fails" (docs/models-wild.md), the sorting is ours. What would show
each was written down before an audit was run on it: a property of the audit, or None where only a comparison with the
right model tells. The code is ours; of a report only the fact is taken.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from healthy import tiny
from mutants.tiny import second

FIRST, SECOND = "blocks.0.attention", "blocks.1.attention"
WINDOW = 4


@dataclass(frozen=True, kw_only=True)
class Reported:
    report: str  # project and number of the issue or pull request
    kind: str
    what: str
    build: Any
    right: Any  # the healthy model that it should be
    property: str | None
    culprits: tuple[str, ...] = ()
    causal: bool = True


# masks


class OneKeyTooMany(tiny.Attention):
    """One place may read the token behind it."""

    def hidden(self, scores, allowed):
        allowed = allowed.clone()
        if allowed.shape[-2] > 6:
            allowed[..., 5, 6] = True
        return super().hidden(scores, allowed)


class MaskOfAnotherExample(tiny.Attention):
    """Heads stand before examples, and the mask is repeated as if examples stood before heads."""

    def hidden(self, scores, allowed):
        batch, heads = scores.shape[:2]
        mixed = allowed.repeat_interleave(heads, 0).view(heads, batch, *allowed.shape[1:]).transpose(0, 1)
        return scores.masked_fill(~mixed[:, :, 0], -math.inf)


class NanInBackward(tiny.Attention):
    """Rows that may read nothing are NaN and made 0 afterwards: forward looks well, backward is NaN."""

    def hidden(self, scores, allowed):
        return scores + torch.zeros(allowed.shape).masked_fill(~allowed, -math.inf).to(scores.dtype)

    def weights(self, scores):
        return torch.softmax(scores, -1).nan_to_num(0.0)


class CausalEncoder(tiny.Encoder):
    """Causal, with a mask of padding: padded on the left, its first queries may read nothing."""

    def allowed(self, ids, attention_mask):
        length = ids.shape[1]
        return super().allowed(ids, attention_mask) & torch.ones(length, length, dtype=torch.bool).tril()


class SafeAttention(tiny.Attention):
    """Such rows get zero weights, in backward too."""

    def hidden(self, scores, allowed):
        self.any = allowed.any(-1, keepdim=True)
        return scores.masked_fill(~allowed & self.any, -math.inf)

    def weights(self, scores):
        return torch.softmax(scores, -1) * self.any


class LengthsIgnored(tiny.Attention):
    """The lengths of the examples are taken and not used."""

    def hidden(self, scores, allowed):
        return scores


class HiddenByANumber(tiny.Attention):
    """Hidden keys get -1e5, and biases put the scores of a head below that."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.q.bias += 1e3
            self.k.bias -= 1e3

    def hidden(self, scores, allowed):
        return scores.masked_fill(~allowed, -1e5)


class LargeScores(HiddenByANumber):
    def hidden(self, scores, allowed):
        return tiny.Attention.hidden(self, scores, allowed)


# projections and heads


class Fused(tiny.Attention):
    """One projection for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(tiny.WIDTH, 3 * tiny.WIDTH)
        del self.q, self.k, self.v

    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, -1))
        k, v = self.remembered(k, v, cache)
        mixed = self.weights(self.hidden(self.scores(q, k), allowed)) @ v
        return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)


def adapted_beside_it():
    """What is to be trained hangs on the projection of queries that was there before the three were fused."""
    model = tiny.Gpt(attention=Fused).eval()
    for block in model.blocks:
        block.attention.q = nn.Linear(tiny.WIDTH, tiny.WIDTH)
    return model


class MergedWithoutTranspose(tiny.Attention):
    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        k, v = self.remembered(k, v, cache)
        mixed = self.weights(self.hidden(self.scores(q, k), allowed)) @ v
        return self.out(mixed.reshape(x.shape)), (k, v)


class HeadsBeforeExamples(tiny.Attention):
    """Results of the heads are stacked in front, and a view takes them for examples."""

    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        k, v = self.remembered(k, v, cache)
        mixed = self.weights(self.hidden(self.scores(q, k), allowed)) @ v
        return self.out(mixed.transpose(0, 1).reshape(x.shape)), (k, v)


class SplitWithoutTranspose(tiny.Attention):
    def split(self, x):
        return x.reshape(x.shape[0], tiny.HEADS, x.shape[1], -1)


class Grouped(tiny.Attention):
    """Two heads of keys for four of queries."""

    def __init__(self):
        super().__init__()
        self.k, self.v = nn.Linear(tiny.WIDTH, tiny.WIDTH // 2), nn.Linear(tiny.WIDTH, tiny.WIDTH // 2)

    def spread(self, x):
        return x.repeat_interleave(2, dim=1)

    def forward(self, x, allowed, cache=None, first=0):
        q = self.split(self.q(x))
        k, v = (p(x).view(*x.shape[:2], 2, -1).transpose(1, 2) for p in (self.k, self.v))
        k, v = self.remembered(k, v, cache)
        mixed = self.weights(self.hidden(self.scores(q, self.spread(k)), allowed)) @ self.spread(v)
        return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)


class GroupsApart(Grouped):
    def spread(self, x):
        return x.repeat(1, 2, 1, 1)


# scores


class SoftmaxOverAllHeads(tiny.Attention):
    def weights(self, scores):
        batch, heads, queries, keys = scores.shape
        together = scores.transpose(1, 2).reshape(batch, queries, heads * keys)
        return torch.softmax(together, -1).view(batch, queries, heads, keys).transpose(1, 2)


class SoftmaxOverAxisTwo(tiny.Attention):
    def weights(self, scores):
        return torch.softmax(scores, 2)


class Capped(tiny.Attention):
    def hidden(self, scores, allowed):
        return super().hidden(2 * torch.tanh(scores / 2), allowed)


class CappedWrongly(tiny.Attention):
    def hidden(self, scores, allowed):
        return super().hidden(scores * torch.tanh(scores / 2), allowed)


class Unscaled(tiny.Attention):
    def scores(self, q, k):
        return q @ k.transpose(2, 3)


# positions


class RowOfTheExample(tiny.Positions):
    """The table is cut to the number of examples, not of places."""

    def forward(self, x, first=0):
        return x + self.table(torch.arange(x.shape[0]))[:, None]


class HalvesForPairs(tiny.RotaryAttention):
    def rotate(self, x, first):
        half = x.shape[-1] // 2
        order = [i // 2 + half * (i % 2) for i in range(2 * half)]
        return super().rotate(x[..., [*order, *range(2 * half, x.shape[-1])]], first)


class Relative(tiny.Attention):
    """A learned number for every distance and head; the model had six heads, and these are kept."""

    kept = (1, 3, 4, 5)

    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.linspace(-2, 2, 6 * (2 * tiny.PLACES + 1)).cos().view(6, -1) * 3)

    def distance(self, queries, keys):
        places = torch.arange(keys)
        return places[None] - places[-queries:, None]

    def scores(self, q, k):
        away = self.distance(q.shape[2], k.shape[2]) + tiny.PLACES
        return super().scores(q, k) + self.bias[list(self.kept)][:, away]


class RowsOfPrunedHeads(Relative):
    kept = (0, 1, 2, 3)


# caches


class NoDistanceInAStep(Relative):
    def distance(self, queries, keys):
        away = super().distance(queries, keys)
        return away if queries == keys else torch.zeros_like(away)


class StepWithoutItself(tiny.Attention):
    """With a cache, a token reads those before it and not itself."""

    def hidden(self, scores, allowed):
        queries, keys = scores.shape[-2:]
        itself = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries)
        return super().hidden(scores, allowed & ~itself if queries < keys else allowed)


class FirstKeyNeverWritten(tiny.Attention):
    def forward(self, x, allowed, cache=None, first=0):
        made, (k, v) = super().forward(x, allowed, cache, first)
        if cache is None:
            k, v = (torch.cat([torch.zeros_like(t[:, :, :1]), t[:, :, 1:]], 2) for t in (k, v))
        return made, (k, v)


class Windowed(tiny.Attention):
    """Reads the last WINDOW keys."""

    width = WINDOW

    def hidden(self, scores, allowed):
        queries, keys = scores.shape[-2:]
        near = torch.ones(queries, keys, dtype=torch.bool).triu(keys - queries - self.width + 1)
        return super().hidden(scores, allowed & near)


class WindowOneTooWide(Windowed):
    width = WINDOW + 1


class RolledTooEarly(Windowed):
    """The oldest key is dropped when the window is just full, one step before it must be."""

    def hidden(self, scores, allowed):
        queries, keys = scores.shape[-2:]
        if queries < keys == WINDOW:
            allowed = allowed & (torch.arange(keys) > 0)
        return super().hidden(scores, allowed)


class WindowLargerThanItsCache(WindowOneTooWide):
    """In a step, only WINDOW keys are still there."""

    def hidden(self, scores, allowed):
        queries, keys = scores.shape[-2:]
        self.width = WINDOW if queries < keys else WINDOW + 1
        return super().hidden(scores, allowed)


class ReadsNewKeysOnly(tiny.Attention):
    def forward(self, x, allowed, cache=None, first=0):
        made, _ = super().forward(x, allowed[..., -x.shape[1] :], None, first)
        k, v = self.split(self.k(x)), self.split(self.v(x))
        return made, self.remembered(k, v, cache)


class TopLeft(tiny.FusedAttention):
    def forward(self, x, allowed, cache=None, first=0):
        if x.shape[1] > 1:
            allowed = torch.ones(allowed.shape[-2:], dtype=torch.bool).tril()
        return super().forward(x, allowed, cache, first)


# evaluation


class DropsInEval(tiny.FusedAttention):
    def forward(self, x, allowed, cache=None, first=0):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        k, v = self.remembered(k, v, cache)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, dropout_p=0.1)
        return self.out(mixed.transpose(1, 2).flatten(2)), (k, v)


class DropoutLostForEver(tiny.FeedForward):
    """The first call in eval() sets its rate to 0, for all training that follows."""

    def __init__(self):
        super().__init__()
        self.rate = 0.1

    def forward(self, x):
        if not self.training:
            self.rate = 0.0
        return F.dropout(super().forward(x), self.rate, training=self.training)


def _gpt(attention, **more):
    return lambda: tiny.Gpt(attention=attention, **more).eval()


def _late(attention):
    return lambda: tiny.Gpt(attention=second(attention, tiny.Attention)).eval()


def _encoder(attention):
    return lambda: tiny.Encoder(attention=attention).eval()


def _faults(kind, *rows):
    made = []
    for report, what, build, right, shown, *culprits in rows:
        about = {"report": report, "kind": kind, "what": what, "build": build, "right": right, "property": shown}
        causal = type(right()) is not tiny.Encoder
        made.append(Reported(**about, culprits=tuple(culprits), causal=causal))
    return made


def _causal_encoder(attention):
    return lambda: CausalEncoder(attention=attention).eval()


_GPT, _ENCODER = _gpt(tiny.Attention), _encoder(tiny.Attention)

FAULTS = [
    *_faults(
        "attention masking",
        ("octo-models/octo#75", "one key too many may be read", _late(OneKeyTooMany), _GPT, "causality", SECOND),
        ("lsdefine/attention-is-all-you-need-keras#36", "the mask of another example",
         _encoder(MaskOfAnotherExample), _ENCODER, "batch", FIRST),
        ("pytorch/pytorch#103749", "rows that read nothing: NaN in backward",
         _causal_encoder(NanInBackward), _causal_encoder(SafeAttention), "gradients", SECOND),
        ("TransformerLensOrg/TransformerLens#385", "hidden by a number that scores fall below",
         _gpt(HiddenByANumber), _gpt(LargeScores), "causality", FIRST),
        ("jax-ml/jax#23349", "lengths that hide nothing", _encoder(LengthsIgnored), _ENCODER, "padding", FIRST),
    ),
    *_faults(
        "QKV projection",
        ("reczoo/FuxiCTR#30", "split by a view alone", _encoder(SplitWithoutTranspose), _ENCODER, "padding", FIRST),
        ("jsbaan/transformer-from-scratch#4", "merged by a view alone", _late(MergedWithoutTranspose), _GPT,
         "causality", SECOND),
        ("hackiey/QAnet-pytorch#2", "heads taken for examples", _late(HeadsBeforeExamples), _GPT, "batch", SECOND),
        ("TransformerLensOrg/TransformerLens#1593", "keys of a group repeated apart", _gpt(GroupsApart),
         _gpt(Grouped), None),
        ("huggingface/diffusers#11903", "trained beside the fused projection", adapted_beside_it, _gpt(Fused), None),
    ),
    *_faults(
        "attention kernel",
        ("pytorch/pytorch#108108", "is_causal aligned at the top left", _gpt(TopLeft), _gpt(tiny.FusedAttention),
         "cache", FIRST),
        ("pytorch/pytorch#124464", "weights dropped in eval()", _gpt(DropsInEval), _gpt(tiny.FusedAttention),
         "determinism", FIRST),
    ),
    *_faults(
        "positional encoding",
        ("pytorch tutorial, batch first", "the row of the example, not of the place",
         _gpt(tiny.Attention, positions=RowOfTheExample), _GPT, "batch", "positions"),
        ("huggingface/transformers#25199", "rotation of halves for pairs",
         _gpt(HalvesForPairs, positions=tiny.NoPositions), _gpt(tiny.RotaryAttention, positions=tiny.NoPositions),
         None),
        ("huggingface/transformers#17886", "rows of the bias of heads that were pruned", _gpt(RowsOfPrunedHeads),
         _gpt(Relative), None),
    ),
    *_faults(
        "attention score",
        ("facebookresearch/detr#247", "one softmax over all heads", _encoder(SoftmaxOverAllHeads), _ENCODER,
         "weights", FIRST),
        ("FudanNLP/fastNLP#254", "softmax over a fixed axis", _encoder(SoftmaxOverAxisTwo), _ENCODER, "weights",
         FIRST),
        ("unslothai/unsloth-zoo#593", "scores capped by the wrong formula", _gpt(CappedWrongly), _gpt(Capped), None),
        ("ml-explore/mlx-swift-examples#99", "another scale", _gpt(Unscaled), _GPT, None),
    ),
    *_faults(
        "KV cache",
        ("TrenTorch/TrenTorch#192", "the first key never written", _late(FirstKeyNeverWritten), _GPT, "cache",
         SECOND),
        ("ml-explore/mlx-lm#390", "a window larger than its cache", _gpt(WindowLargerThanItsCache),
         _gpt(WindowOneTooWide), "cache", FIRST),
        ("microsoft/unilm#1612", "a step reads new keys only", _gpt(ReadsNewKeysOnly), _GPT, "cache", FIRST),
        ("huggingface/transformers#19045", "no distance with a cache", _gpt(NoDistanceInAStep), _gpt(Relative),
         "cache", FIRST),
        ("lucidrains/native-sparse-attention-pytorch#20", "a step that does not read itself",
         _gpt(StepWithoutItself), _GPT, "cache", FIRST),
        ("huggingface/transformers#37574", "a full window drops its oldest key", _gpt(RolledTooEarly),
         _gpt(Windowed), "cache", FIRST),
    ),
    *_faults(
        "attention variant",
        ("huggingface/transformers#39408", "a window one too wide", _gpt(WindowOneTooWide), _gpt(Windowed), None),
        ("proger/hippogriff#7", "a window that is none", _GPT, _gpt(Windowed), None),
        ("huggingface/transformers#35896", "windows in the layers that should have none", _late(Windowed),
         lambda: tiny.Gpt(attention=second(tiny.Attention, Windowed)).eval(), None),
    ),
    *_faults(
        "none of them",
        ("NVIDIA/Megatron-LM#411", "eval() switches dropout off for ever",
         lambda: tiny.Gpt(feed_forward=DropoutLostForEver).eval(), _GPT, None),
    ),
]  # fmt: skip

"""Bugs written after the audit was finished, to try it on what it had not seen; what shows each was decided before."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from healthy import tiny
from mutants.libraries import WIDTH, OnVectors

# torch.nn


class MaskOfNumbers(OnVectors):
    """The mask is handed over as 1.0 and 0.0, which torch.nn adds to the scores."""

    def forward(self, x, attention_mask=None):
        added = None if attention_mask is None else 1.0 - attention_mask.to(x.dtype)
        return self.head(self.encoder(x, src_key_padding_mask=added))


class MaskPerHeadMixed(nn.Module):
    """One mask for each example and head, heads before examples, where torch.nn wants examples before heads."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.attention, self.head = nn.MultiheadAttention(WIDTH, 4, batch_first=True), nn.Linear(WIDTH, 7)

    def forward(self, x, attention_mask=None):
        keep = torch.ones(x.shape[:2], dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        hidden = ~keep[:, None, :].expand(-1, x.shape[1], -1).repeat(4, 1, 1)
        return self.head(self.attention(x, x, x, attn_mask=hidden, need_weights=False)[0])


class NormOfTheSentence(OnVectors):
    """The shape that is normalised is taken from the input: length and width together."""

    def forward(self, x):
        hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(x.dtype)
        x = F.layer_norm(x, x.shape[1:])
        return self.head(self.encoder(x, mask=hidden, is_causal=True))


class ReadsBackwards(OnVectors):
    """A recurrence in both directions before a causal encoder."""

    def __init__(self):
        super().__init__()
        self.recurrence = nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        hidden = nn.Transformer.generate_square_subsequent_mask(x.shape[1]).to(x.dtype)
        return self.head(self.encoder(self.recurrence(x)[0], mask=hidden, is_causal=True))


class SumsOverExamples(OnVectors):
    """A running mean along the first axis, which is the batch."""

    def forward(self, x):
        count = torch.arange(1, len(x) + 1, device=x.device).view(-1, 1, 1)
        return self.head(self.encoder(x.cumsum(0) / count))


# by hand


class StaleRotation(tiny.RotaryAttention):
    """Angles are made at the first call and kept, whatever place comes next."""

    def rotate(self, x, first):
        self.start = getattr(self, "start", first)
        return super().rotate(x, self.start)


class LongestOfTheBatch(tiny.Encoder):
    """Positions count from the end of the longest example of the batch."""

    def forward(self, ids, attention_mask=None):
        keep = torch.ones_like(ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        longest = int(keep.sum(1).max())
        x = self.tokens(ids)
        x = x + self.positions.table((longest - 1 - torch.arange(ids.shape[1])).clamp(min=0))
        for block in self.blocks:
            x, _ = block(x, keep[:, None, None, :])
        return self.head(self.norm(x))


class SharedTemperature(tiny.Attention):
    """Scores are divided by the spread of all scores."""

    def scores(self, q, k):
        made = super().scores(q, k)
        return made / made.std()


class CountsItself(tiny.Attention):
    """Weights are kept from call to call and mixed in."""

    def weights(self, scores):
        made = super().weights(scores)
        kept, self.kept = getattr(self, "kept", None), made.detach()
        return made if kept is None or kept.shape != made.shape else 0.9 * made + 0.1 * kept


class OddPlacesOnly(tiny.Positions):
    """Every second place shares a vector with the one before."""

    def places(self, x, first):
        return super().places(x, first) // 2


class ValuesDetached(tiny.Attention):
    def remembered(self, k, v, cache):
        return super().remembered(k, v.detach(), cache)


class RoundedScores(tiny.Attention):
    def scores(self, q, k):
        return super().scores(q, k).half().to(q.dtype)

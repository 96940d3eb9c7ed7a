"""Slow, obvious versions of what training does fast: every score at once, random floats, one weight after the other."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812

from regard.translator.data.vocabulary import PAD


def plain_loss(model, batch, *, smoothing=0.0):
    """Mean cross-entropy of the target tokens: a score for every word at every place, padding left out afterwards."""
    scores = model.scores(batch)
    labels = batch.target[:, batch.target.shape[1] - scores.shape[1] :]  # a given <sos> has no scores
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=smoothing)


def plain_dropout(states, share, drawn):
    """States whose number in [0, 1) is below the share become 0; the others are stretched."""
    return torch.where(drawn < share, 0.0, states / (1 - share))


def plain_adamw(weights, gradients, steps, *, rate, betas, decay, eps=1e-8):
    """AdamW by its formulas, one weight tensor after the other, in float64."""
    ended = []
    for weight, series in zip(weights, gradients, strict=True):
        w = weight.double()
        first, second = torch.zeros_like(w), torch.zeros_like(w)
        for step in range(1, steps + 1):
            g = series[step - 1].double()
            w = w * (1 - rate * decay)
            first = betas[0] * first + (1 - betas[0]) * g
            second = betas[1] * second + (1 - betas[1]) * g * g
            w = w - rate * (first / (1 - betas[0] ** step)) / ((second / (1 - betas[1] ** step)).sqrt() + eps)
        ended.append(w)
    return ended

"""Slow, obvious versions of what training does fast: every score at once, random floats, one weight after the other."""

from __future__ import annotations

import torch
from torch.nn import functional as F  # noqa: N812

from regard.translator.data.vocabulary import PAD
from regard.translator.models.ctc_loss import Labels


def plain_loss(model, batch, *, smoothing=0.0):
    """Mean cross-entropy of the target tokens: a score for every word at every place, padding left out afterwards."""
    scores = model.scores(batch)
    labels = batch.target[:, batch.target.shape[1] - scores.shape[1] :]  # a given <sos> has no scores
    return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=PAD, label_smoothing=smoothing)


def plain_ctc(states, weight, bias, labels, slots, *, smoothing=0.0):
    """(1 - s) * -log p(target) + s * sum over slots of mean over words of -log p, summed over sentences that fit."""
    log_p = torch.log_softmax(states @ weight.T + bias, dim=-1)
    total = log_p.new_zeros(())
    for row, count in enumerate(slots.tolist()):
        if int(labels.slots_needed[row]) > count:
            continue
        words, mine = labels.words[row : row + 1, : int(labels.lengths[row])], log_p[row : row + 1, :count]
        loss = F.ctc_loss(mine.transpose(0, 1), words, (count,), (words.shape[1],), blank=PAD, reduction="sum")
        total = total + (1 - smoothing) * loss - smoothing * mine.mean(2).sum()
    return total


def plain_ctc_loss(model, batch, *, smoothing=0.0):
    """The loss of a CTC model from all its scores, as if the output layer were the identity."""
    scores = model(batch.source)
    words, slots = scores.shape[2], (batch.source != PAD).sum(1) * model.slots.each
    one = torch.eye(words), torch.zeros(words)
    total = plain_ctc(scores, *one, Labels.of(batch.target), slots, smoothing=smoothing)
    return total / (len(batch.labels) - len(batch))


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

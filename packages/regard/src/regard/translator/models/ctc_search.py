"""From slots to a sentence: the best path, or a search among sentences.

The most probable path is found at once, slot by slot; the most probable *sentence* is not, since its probability is a
sum over paths (:mod:`regard.translator.models.ctc_loss`). Prefix beam search adds up the paths of each beginning of a
sentence and keeps the most probable beginnings (hannun2014). Both report the exact log-probability of what they
found, summed over all its paths.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.translator.data.vocabulary import EOS, SOS, UNK
from regard.translator.decoding.beam import Written
from regard.translator.models.ctc_loss import BLANK, Labels, ctc_losses

_CANDIDATES = 8  # words tried at a slot for every beginning kept; the rest are too improbable there to matter
_WORTH = 1e-4  # ... and so are words this much less probable than the best of the slot


def without_markers(scores: Tensor) -> Tensor:
    """Log-probabilities of the blank and the words; <unk>, <sos> and <eos> are never written."""
    log_p = torch.log_softmax(scores, dim=-1)
    log_p[:, :, [UNK, SOS, EOS]] = -torch.inf
    return log_p


def best_paths(log_p: Tensor, slots: Tensor) -> tuple[Written, list[list[int]]]:
    """What the most probable path of each sentence collapses to, and the slot at which it first says each word.

    >>> log_p = torch.eye(6)[torch.tensor([[4, 4, 0, 4, 5]])].mul(9).log_softmax(-1)
    >>> found, at = best_paths(log_p, torch.tensor([5]))
    >>> found[0][0], at
    ([4, 4, 5], [[0, 3, 4]])
    """
    paths = [path[:count] for path, count in zip(log_p.argmax(2).tolist(), slots.tolist(), strict=True)]
    at = [[t for t, word in enumerate(p) if word != BLANK and (t == 0 or word != p[t - 1])] for p in paths]
    return _with_log_probabilities([[p[t] for t in slot] for p, slot in zip(paths, at, strict=True)], log_p, slots), at


def prefix_beams(
    log_p: Tensor, slots: Tensor, *, beam: int, candidates: int | None = _CANDIDATES, worth: float = _WORTH
) -> Written:
    """The most probable sentence found for each row when ``beam`` beginnings are kept at every slot.

    With ``candidates=None``, ``worth=0`` and a beam that drops nothing it is the most probable sentence there is.

    >>> log_p = torch.tensor([[[0.4, 0, 0, 0, 0.6, 0.0], [0.6, 0, 0, 0, 0.4, 0.0]]]).log()
    >>> prefix_beams(log_p, torch.tensor([2]), beam=2)[0][0]
    [4]
    """
    count = log_p.shape[2] if candidates is None else min(candidates, log_p.shape[2])
    relative = (log_p - log_p.amax(2, keepdim=True)).exp()  # a common factor of a slot changes no order
    p, words = relative.topk(count, dim=2)
    blanks = relative[:, :, BLANK].tolist()
    rows = zip(blanks, p.tolist(), words.tolist(), slots.tolist(), strict=True)
    # plain Python: a few beginnings and words at each slot, too few for tensors to pay
    beams = [_search(list(zip(b, q, w, strict=True))[:n], beam, worth) for b, q, w, n in rows]
    return _with_log_probabilities(beams, log_p, slots)


def _search(slots: list[tuple[float, list[float], list[int]]], beam: int, worth: float) -> list[int]:
    """The beginning that is most probable after the last slot: they are kept with the best first.

    Each beginning has two probabilities: of its paths that end with a blank, and of those that end with its last word.
    They are scaled to sum to 1 over the beginnings after every slot, so that long sentences do not underflow.
    """
    kept: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    for blank, probabilities, words in slots:
        likely = [(w, q) for w, q in zip(words, probabilities, strict=True) if q > worth and w != BLANK]
        grown = _one_slot_on(kept, blank, likely)
        best = sorted(grown.items(), key=lambda item: -item[1][0] - item[1][1])[:beam]
        total = math.fsum(a + b for _, (a, b) in best)
        kept = {prefix: (a / total, b / total) for prefix, (a, b) in best}
    return list(next(iter(kept)))


def _one_slot_on(
    kept: dict[tuple[int, ...], tuple[float, float]], blank: float, likely: list[tuple[int, float]]
) -> dict[tuple[int, ...], list[float]]:
    """Every kept beginning with a blank, its last word again, or one more word."""
    grown: dict[tuple[int, ...], list[float]] = {}
    for prefix, (with_blank, with_word) in kept.items():
        both = with_blank + with_word
        same = grown.setdefault(prefix, [0.0, 0.0])
        same[0] += both * blank
        last = prefix[-1] if prefix else BLANK
        for word, q in likely:
            if word == last:
                same[1] += with_word * q  # said once more, written once
            longer = grown.setdefault((*prefix, word), [0.0, 0.0])
            # the last word again makes a longer sentence only after a blank
            longer[1] += (with_blank if word == last else both) * q
    return grown


def _with_log_probabilities(sentences: list[list[int]], log_p: Tensor, slots: Tensor) -> Written:
    """The sentences with their log-probabilities."""
    values = -ctc_losses(log_p, Labels.from_lists(sentences), slots)
    return list(zip(sentences, values.tolist(), strict=True))

"""Connectionist temporal classification: the probability of a sentence that may be read off the slots in many ways.

    p(target | source) = sum over paths that collapse to the target of  prod over slots t of p_t(path_t)

A path names a word or the blank at every slot; it collapses by writing each run of one word once and leaving out the
blanks (graves2006). A word that follows itself needs a blank between, so a target of m words, r of which repeat the
word before, needs m + r slots; with fewer its probability is 0 and its loss infinite. The blank is <pad>, which is
never written.

:func:`ctc_losses` needs every score. :func:`fused_ctc` scores a few sentences at a time and turns the scores into their
gradient on the spot: at a slot it is p(word) - share of the paths that say the word there. Only the blank and the
sentence's own words have a share, so torch's sum over paths is done on those few columns: 1.4 to 2 times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812

from regard.translator.data.batches import table
from regard.translator.data.vocabulary import EOS, PAD, SOS
from regard.translator.models.losses import PIECE

BLANK = PAD


@dataclass(frozen=True, kw_only=True, eq=False)
class Labels:
    """Targets without markers, as the loss wants them.

    >>> labels = Labels.of(torch.tensor([[2, 7, 7, 3], [2, 5, 3, 0]]))
    >>> labels.words.tolist(), labels.lengths.tolist(), labels.slots_needed.tolist()
    ([[7, 7], [5, 0]], [2, 1], [3, 1])
    """

    words: Tensor  # (sentences, longest), <pad> past each end
    lengths: Tensor

    @classmethod
    def of(cls, target: Tensor) -> Labels:
        """From target ids with <sos> first, <eos> last and <pad> past each end."""
        lengths = (target != PAD).sum(1) - 2
        inside = torch.arange(target.shape[1] - 2) < lengths[:, None]
        return cls(words=torch.where(inside, target[:, 1:-1], PAD), lengths=lengths)

    @classmethod
    def from_lists(cls, sentences: list[list[int]]) -> Labels:
        """From lists of ids without markers."""
        return cls.of(table([[SOS, *sentence, EOS] for sentence in sentences]))

    @property
    def slots_needed(self) -> Tensor:
        """How many slots each sentence needs: its words, and a blank before each word that repeats the one before."""
        repeats = (self.words[:, 1:] == self.words[:, :-1]) & (self.words[:, 1:] != PAD)
        return self.lengths + repeats.sum(1)

    def part(self, rows: slice) -> Labels:
        """Some of the sentences."""
        return Labels(words=self.words[rows], lengths=self.lengths[rows])


def ctc_losses(log_p: Tensor, labels: Labels, slots: Tensor) -> Tensor:
    """-log p(target | source) of every sentence; infinite where the target does not fit.

    ``log_p`` (sentences, slots, words) are log-probabilities, the blank's among them; ``slots`` says how many slots of
    each sentence are real.

    >>> log_p = torch.tensor([[[0.5, 0.0, 0.0, 0.0, 0.5], [0.5, 0.0, 0.0, 0.0, 0.5]]]).log()
    >>> labels = Labels.of(torch.tensor([[2, 4, 3]]))
    >>> ctc_losses(log_p, labels, torch.tensor([2])).exp().tolist()  # 3 of the 4 equal paths say "4"
    [1.3333333730697632]
    """
    return _losses(log_p.transpose(0, 1), labels.words, labels.lengths, slots)


def fused_ctc(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    labels: Labels,
    slots: Tensor,
    *,
    smoothing: float = 0.0,
    piece: int = PIECE,
) -> Tensor:
    """The sum over sentences that fit of (1 - s) * -log p(target) + s * sum over slots of mean over words of -log p.

    ``states`` is (sentences, slots, width) and p = softmax(W z + b) at every slot. Smoothing pulls every slot towards
    all words alike, which keeps the blank from taking all slots early on (kim2018). About ``piece`` scores are held at
    once.

    >>> z, w, b = torch.zeros(1, 2, 3), torch.zeros(5, 3), torch.zeros(5)
    >>> labels = Labels.of(torch.tensor([[2, 4, 3]]))
    >>> round(float(fused_ctc(z, w, b, labels, torch.tensor([2])).exp()), 4)  # 3 of 25 paths
    8.3333
    """
    return _FusedLoss.apply(states, weight, bias, labels, slots, smoothing, piece)  # type: ignore[no-any-return,no-untyped-call]


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        labels: Labels,
        slots: Tensor,
        smoothing: float,
        piece: int,
    ) -> Tensor:
        to_states, to_weight, to_bias = torch.zeros_like(states), torch.zeros_like(weight), torch.zeros_like(bias)
        total = torch.zeros((), dtype=torch.float64)
        sentences = max(1, piece // (states.shape[1] * len(weight)))
        for start in range(0, len(states), sentences):
            part = slice(start, start + sentences)
            flat = states[part].flatten(0, 1)
            scores = torch.addmm(bias, flat, weight.T).view(-1, states.shape[1], len(weight))
            losses, gradient = _losses_and_gradient(scores, labels.part(part), slots[part], smoothing)
            total += losses.double().sum()
            torch.mm(gradient, weight, out=to_states[part].view(-1, states.shape[2]))
            to_weight.addmm_(gradient.T, flat)
            to_bias += gradient.sum(0)
        ctx.save_for_backward(to_states, to_weight, to_bias)
        return total.to(states.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (*(saved * grad for saved in ctx.saved_tensors), None, None, None, None)


def _losses_and_gradient(scores: Tensor, labels: Labels, slots: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Losses of the sentences and the gradient, one row per slot; overwrites ``scores``, one exponential for each."""
    own, where = _own_words(labels)
    own = own[:, None].expand(-1, scores.shape[1], -1)
    scores -= scores.amax(2, keepdim=True)
    log_p = scores.gather(2, own)
    means = scores.mean(2) if smoothing else None
    p = scores.exp_()
    sums = p.sum(2, keepdim=True)
    log_p -= sums.log()
    losses, shares = _paths(log_p, where, labels.lengths, slots)
    p /= sums
    # a word that occurs twice has its share at its first place only, so nothing is added twice
    p.scatter_add_(2, own, shares.mul_(smoothing - 1))
    counted = _real_slots(p, labels, slots)
    if means is not None:
        p -= smoothing / p.shape[2]
        losses = (1 - smoothing) * losses + smoothing * ((sums.log().squeeze(2) - means) * counted).sum(1)
    if not bool(counted.all()):
        p *= counted[:, :, None]
        losses = torch.where(counted.any(1), losses, 0.0)
    return losses, p.flatten(0, 1)


def _real_slots(p: Tensor, labels: Labels, slots: Tensor) -> Tensor:
    """True at the real slots of the sentences that fit."""
    return (torch.arange(p.shape[1]) < slots[:, None]) & (labels.slots_needed <= slots)[:, None]


def _own_words(labels: Labels) -> tuple[Tensor, Tensor]:
    """The blank and each sentence's own words, and where each word stands among them: at its first occurrence."""
    words = labels.words
    first = (words[:, :, None] == words[:, None, :]).int().argmax(2)
    return F.pad(words, (1, 0), value=BLANK), first + 1


def _paths(log_p: Tensor, where: Tensor, lengths: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
    """Losses, and for every slot the share of the paths, by probability, that say each of the sentence's own words."""
    with torch.enable_grad():
        leaf = log_p.detach().transpose(0, 1).contiguous().requires_grad_()
        losses = _losses(leaf, where, lengths, slots, zero_infinity=True)
        # torch's gradient is p - share, as if a softmax over all words came before; the p is taken out again
        (gradient,) = torch.autograd.grad(losses, leaf, torch.ones_like(losses))
    return losses.detach(), (leaf.detach().exp() - gradient).transpose(0, 1)


def _losses(log_p: Tensor, words: Tensor, lengths: Tensor, slots: Tensor, *, zero_infinity: bool = False) -> Tensor:
    """torch's loss, slots first; the blank is number 0 in every alphabet used here."""
    return F.ctc_loss(log_p, words, slots, lengths, blank=0, reduction="none", zero_infinity=zero_infinity)

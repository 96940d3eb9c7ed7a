"""Sentence pairs as tensors, and in which order and company they are trained on.

| batching | what is together | what it saves |
|---|---|---|
| mixed | any sentences, padded to the longest of the batch | nothing in the gradient is biased by length |
| equal-length | sources of one length, about as many tokens in every batch | attention needs no mask |

The size of a batch is a number of pairs, or about a number of target tokens.

Either way our models work at the real target places only (``Batch.wanted``), so padding costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.array_types import Whole
from regard.errors import InputError
from regard.translator.data.corpus import Pairs
from regard.translator.data.vocabulary import EOS, PAD, SOS, Vocabulary
from regard.translator.runs.settings import Settings


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """Some pairs: ids with markers, <pad> past each end.

    >>> batch = Batch.of([[2, 7, 3], [2, 3]], [[2, 5, 3], [2, 5, 6, 3]])
    >>> batch.wanted.tolist(), batch.labels.tolist()
    ([0, 1, 2, 4, 5, 6, 7], [2, 5, 3, 2, 5, 6, 3])
    """

    source: Tensor  # (pairs, longest source)
    target: Tensor  # (pairs, longest target)
    wanted: Tensor  # where target.flatten() is real
    labels: Tensor  # the target ids there

    @classmethod
    def of(cls, source: Sequence[Sequence[int]], target: Sequence[Sequence[int]]) -> Batch:
        """From lists of ids, markers included."""
        return _batch(table(source), table(target))

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(**{name: tensor.to(device, non_blocking=True) for name, tensor in vars(self).items()})

    def pairs(self, which: Tensor) -> Batch:
        """Some of the pairs, as long as before."""
        return _batch(self.source[which], self.target[which])

    def twice(self) -> Batch:
        """All pairs, and all of them again."""
        return _batch(self.source.repeat(2, 1), self.target.repeat(2, 1))

    def target_lengths(self) -> Tensor:
        """How many target tokens each pair has, markers included."""
        return (self.target != PAD).sum(1)

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodedPairs:
    """A split as two tables of ids; ``kept`` says which of its pairs were short enough."""

    source: Tensor  # (pairs, longest), int32: half the memory, and made long batch by batch
    target: Tensor
    source_lengths: Whole  # one per pair, markers included, as the next
    target_lengths: Whole
    kept: list[int]

    def __len__(self) -> int:
        return len(self.source)

    @property
    def target_tokens(self) -> int:
        """Target tokens, both markers included."""
        return int(self.target_lengths.sum())

    def batch(self, rows: Whole) -> Batch:
        """These pairs, cut to their longest source and longest target."""
        index = torch.from_numpy(rows)
        source = self.source[index, : int(self.source_lengths[rows].max())]
        target = self.target[index, : int(self.target_lengths[rows].max())]
        return _batch(source.long(), target.long())

    def subsample(self, share: float) -> EncodedPairs:
        """Every so many pairs, evenly through the split: ``share`` of them, and one at least."""
        if share == 1:
            return self
        count = max(1, round(share * len(self)))
        rows = np.arange(count) * len(self) // count
        tables = {name: table[rows] for name, table in vars(self).items() if name != "kept"}
        return EncodedPairs(kept=[self.kept[row] for row in rows], **tables)

    def in_order(self, size: int) -> Iterator[tuple[Whole, Batch]]:
        """All pairs in batches of ``size``, shortest targets first, with their rows: for scoring."""
        order = np.argsort(self.target_lengths, kind="stable")
        for start in range(0, len(order), size):
            yield order[start : start + size], self.batch(order[start : start + size])


def encode(pairs: Pairs, source: Vocabulary, target: Vocabulary, *, longest: int) -> EncodedPairs:
    """Ids of every pair with at most ``longest`` tokens on both sides, <sos> before and <eos> after."""
    both = [(source.encode(s), target.encode(t)) for s, t in zip(pairs.source, pairs.target, strict=True)]
    kept = [i for i, (s, t) in enumerate(both) if 0 < len(s) <= longest and 0 < len(t) <= longest]
    if not kept:
        raise InputError(
            f"None of the {len(both)} pairs has between 1 and {longest} tokens on both sides; give shorter sentences, "
            "or train with a larger data.longest."
        )
    sources = [[SOS, *both[i][0], EOS] for i in kept]
    targets = [[SOS, *both[i][1], EOS] for i in kept]
    return EncodedPairs(
        source=table(sources).int(),
        target=table(targets).int(),
        source_lengths=np.array([len(s) for s in sources]),
        target_lengths=np.array([len(t) for t in targets]),
        kept=kept,
    )


def epoch_plan(encoded: EncodedPairs, settings: Settings, epoch: int) -> list[Whole]:
    """The rows of every batch of an epoch, as the settings ask."""
    s = settings.training
    return plan(encoded, size=s.batch, tokens=s.batch_tokens, batching=s.batching, seed=s.seed, epoch=epoch)


def plan(encoded: EncodedPairs, *, size: int, batching: str, seed: int, epoch: int, tokens: int = 0) -> list[Whole]:
    """The rows of every batch of an epoch: a function of the arguments alone, so a resumed run sees the same.

    ``mixed`` cuts a shuffle into batches of ``size``. ``equal-length`` cuts a shuffle of each source length into
    batches of as many source tokens as ``size`` average sentences have, then shuffles the batches. With ``tokens`` a
    batch has about so many target tokens instead: see :func:`_like_lengths`.
    """
    # not a generator that goes on from epoch to epoch: a resumed run would have to replay it
    draw = np.random.default_rng([seed, epoch])
    order = draw.permutation(len(encoded))
    if batching == "mixed":
        return _cut(order, max(1, round(tokens / encoded.target_lengths.mean())) if tokens else size)
    if tokens:
        batches = _like_lengths(encoded, order, tokens)
        return [batches[i] for i in draw.permutation(len(batches))]
    lengths = encoded.source_lengths[order]
    each = size * float(encoded.source_lengths.mean())
    batches = [
        rows for length in np.unique(lengths) for rows in _cut(order[lengths == length], max(1, round(each / length)))
    ]
    return [batches[i] for i in draw.permutation(len(batches))]


def _like_lengths(encoded: EncodedPairs, order: Whole, tokens: int) -> list[Whole]:
    """Equally large batches of one source length; lengths too rare for a batch share one with the next, and a mask.

    Sorting by target length too would save a decoder some padding, but batches so much of one kind teach less.
    """
    by_length = order[np.argsort(encoded.source_lengths[order], kind="stable")]
    batches: list[Whole] = []
    group: list[int] = []
    # the last row of every length; no length is 0, so the appended 0 ends the last one too
    ends = np.flatnonzero(np.diff(encoded.source_lengths[by_length], append=0))
    for part in np.split(by_length, ends[:-1] + 1):
        group += part.tolist()
        count = round(int(encoded.target_lengths[group].sum()) / tokens)
        if count:
            batches += np.array_split(np.array(group), count)
            group = []
    return [*batches, np.array(group)] if group else batches


def _cut(order: Whole, size: int) -> list[Whole]:
    return [order[start : start + size] for start in range(0, len(order), size)]


def _batch(source: Tensor, target: Tensor) -> Batch:
    wanted = (target != PAD).flatten().nonzero().flatten()
    return Batch(source=source, target=target, wanted=wanted, labels=target.flatten()[wanted])


def table(sentences: Sequence[Sequence[int]]) -> Tensor:
    """Lists of ids as one tensor, <pad> past each end."""
    ids = torch.full((len(sentences), max(map(len, sentences))), PAD, dtype=torch.long)
    for row, sentence in enumerate(sentences):
        ids[row, : len(sentence)] = torch.tensor(sentence)
    return ids

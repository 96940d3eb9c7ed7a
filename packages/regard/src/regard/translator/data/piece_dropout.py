"""Other pieces for the same source words in every epoch (BPE-dropout: provilkov2020).

A word is cut by merging its characters, the earliest learnt merge first. Here every merge that is possible is passed
over with a probability, anew at every step, so that "▁hunde" is now one piece, now "▁hun", "de". The model meets a word
in several spellings, learns what its parts mean, and remembers less by heart: that helps where the text is small.
Targets keep their pieces, so that a perplexity means the same with and without it, and no step of a decoder is added.

Everything drawn is a function of the seed and the epoch. Each distinct word is cut ``DRAWS`` times once and for all;
an epoch chooses one of these cuts for every occurrence, which takes a tenth of a second. Validation, scoring and
translating always use the undisturbed pieces.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from regard.translator.data.batches import EncodedPairs
from regard.translator.data.vocabulary import EOS, PAD, SOS, BPEVocabulary

DRAWS = 8  # cuts of each word; a frequent word has all of them in every epoch, a rare one another every time

Ints = npt.NDArray[np.int64]


class PieceDropout:
    """Training pairs with their source words cut anew in every epoch.

    ``encoded`` has the undisturbed pieces of the pairs, and ``sentences`` the text of its sources; a sentence that
    would have more than ``longest`` pieces keeps the undisturbed ones.
    """

    def __init__(
        self, encoded: EncodedPairs, sentences: Sequence[str], vocabulary: BPEVocabulary, *, share: float, longest: int
    ) -> None:
        self.encoded, self.longest = encoded, longest
        split = [vocabulary.split(sentence) for sentence in sentences]
        numbers = {word: number for number, word in enumerate(dict.fromkeys(w for words in split for w in words))}
        # flat over all sentences: the number of each word, and the sentence it stands in
        self._words: Ints = np.array([numbers[word] for words in split for word in words])
        self._rows: Ints = np.repeat(np.arange(len(split)), [len(words) for words in split])
        merges = vocabulary.merge_ids
        cuts = [cut for word in numbers for cut in _cuts(word, vocabulary.characters(word), merges, share)]
        # flat over all words: cut c of word w is number w (DRAWS + 1) + c, and c = DRAWS is the undisturbed one
        self._pieces: Ints = np.array([piece for cut in cuts for piece in cut])
        self._lengths: Ints = np.array([len(cut) for cut in cuts])

    def epoch(self, number: int, *, seed: int) -> EncodedPairs:
        """The pairs as an epoch of a run with this seed sees them."""
        draw = np.random.default_rng([seed, number, DRAWS])  # three numbers: apart from the draws of the batches
        whole = self._words * (DRAWS + 1) + DRAWS
        cut = whole - 1 - draw.integers(DRAWS, size=len(whole))
        too_long = np.bincount(self._rows, self._lengths[cut], len(self.encoded)) > self.longest
        source, lengths = self._table(np.where(too_long[self._rows], whole, cut))
        return dataclasses.replace(self.encoded, source=source, source_lengths=lengths)

    def _table(self, cut: Ints) -> tuple[torch.Tensor, Ints]:
        """The pieces of each word, one word after the other, in the row of its sentence, between <sos> and <eos>."""
        count, long = len(self.encoded), self._lengths[cut]
        each = np.bincount(self._rows, long, count).astype(np.int64)
        inside = np.arange(long.sum()) - np.repeat(np.cumsum(long) - long, long)  # 0, 1, ... within every word
        starts = np.cumsum(self._lengths) - self._lengths  # where each cut begins among the pieces
        row = np.repeat(self._rows, long)
        place = np.arange(len(row)) - (np.cumsum(each) - each)[row] + 1
        ids = np.full((count, int(each.max()) + 2), PAD, dtype=np.int32)
        ids[:, 0] = SOS
        ids[row, place] = self._pieces[np.repeat(starts[cut], long) + inside]
        ids[np.arange(count), each + 1] = EOS
        return torch.from_numpy(ids), each + 2


Merges = Mapping[tuple[int, int], tuple[int, int]]  # two neighbours: the rank of their merge, and what it makes


def _cuts(word: str, characters: Sequence[int], merges: Merges, share: float) -> list[list[int]]:
    """``DRAWS`` random cuts of a word and then the undisturbed one; they depend on the word alone."""
    draw = random.Random(word).random  # a text as a seed is hashed in the same way everywhere
    return [merge_pieces(characters, merges, part, draw) for part in [*[share] * DRAWS, 0.0]]


def merge_pieces(characters: Sequence[int], merges: Merges, share: float, draw: Callable[[], float]) -> list[int]:
    """The pieces of a word: possible merges are passed over with probability ``share``, the earliest learnt is done.

    >>> hund = {(1, 2): (0, 12), (3, 4): (1, 34), (12, 34): (2, 1234)}
    >>> merge_pieces([1, 2, 3, 4], hund, 0.0, lambda: 0.5), merge_pieces([1, 2, 3, 4], hund, 0.6, lambda: 0.5)
    ([1234], [1, 2, 3, 4])
    """
    ids = list(characters)
    while True:
        possible = [
            (merge, i)
            for i, pair in enumerate(itertools.pairwise(ids))
            if (merge := merges.get(pair)) is not None and draw() >= share
        ]
        if not possible:
            return ids
        (_, piece), i = min(possible)
        ids[i : i + 2] = [piece]

"""Source words in other pieces every epoch: how often, what never changes, and that runs stay functions of the seed."""

from __future__ import annotations

import math
import random

import pytest
import torch

from regard.errors import InputError
from regard.translator.data.batches import encode, epoch_plan
from regard.translator.data.corpus import Pairs
from regard.translator.data.piece_dropout import DRAWS, PieceDropout, merge_pieces
from regard.translator.data.vocabulary import BPEVocabulary
from regard.translator.training.loop import prepare, train
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

SOURCES = ["ein hund sieht den hund", "Zwei Hunde, schlafende hunde!", "schlafen", "größe", "die schlafenden"] * 3
TARGETS = ["a dog sees the dog", "two dogs , sleeping dogs !", "to sleep", "size", "the sleeping ones"] * 3
PIECES = ["vocabulary.kind=bpe", "vocabulary.size=40", "vocabulary.joint=true", "data.longest=12"]


@pytest.fixture(scope="module")
def vocabulary():
    return BPEVocabulary.build([*SOURCES, *TARGETS], size=70)


def dropout(vocabulary, share, longest=40):
    encoded = encode(Pairs(source=SOURCES, target=TARGETS), vocabulary, vocabulary, longest=longest)
    return encoded, PieceDropout(encoded, [SOURCES[i] for i in encoded.kept], vocabulary, share=share, longest=longest)


def test_with_nothing_passed_over_the_pieces_are_the_librarys(vocabulary):
    encoded, pieces = dropout(vocabulary, 0.0)
    drawn = pieces.epoch(1, seed=0)
    assert torch.equal(drawn.source, encoded.source)
    assert drawn.source_lengths.tolist() == encoded.source_lengths.tolist()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_other_pieces_spell_the_same_text(vocabulary, share):
    encoded, pieces = dropout(vocabulary, share)
    drawn = pieces.epoch(1, seed=0)
    assert [vocabulary.decode(row) for row in drawn.source.tolist()] == SOURCES
    lengths = [row.index(3) + 1 for row in drawn.source.tolist()]
    assert drawn.source_lengths.tolist() == lengths
    assert sum(lengths) > encoded.source_lengths.sum()
    assert drawn.target is encoded.target
    assert drawn.target_lengths is encoded.target_lengths


def test_an_epoch_is_a_function_of_its_number_and_the_seed(vocabulary):
    _, pieces = dropout(vocabulary, 0.5)
    _, again = dropout(vocabulary, 0.5)
    first = pieces.epoch(1, seed=0).source
    assert torch.equal(first, again.epoch(1, seed=0).source)
    for other in (pieces.epoch(2, seed=0), pieces.epoch(1, seed=1)):
        assert other.source.shape != first.shape or not torch.equal(other.source, first)


def test_a_sentence_that_would_be_too_long_keeps_its_pieces(vocabulary):
    encoded, pieces = dropout(vocabulary, 0.99, longest=8)
    drawn = pieces.epoch(1, seed=0)
    assert drawn.source_lengths.max() <= 8 + 2
    whole = drawn.source_lengths == encoded.source_lengths
    assert whole.any()  # those whose letters are more than eight
    assert not whole.all()


def test_a_merge_is_passed_over_as_often_as_asked():
    """Two letters and one merge: they stay apart with probability p; 4000 draws are within 5 standard deviations."""
    draw, p, count = random.Random(0).random, 0.3, 4000
    apart = sum(merge_pieces([4, 5], {(4, 5): (0, 6)}, p, draw) == [4, 5] for _ in range(count))
    assert abs(apart - p * count) < 5 * math.sqrt(count * p * (1 - p))


def test_the_earliest_learnt_merge_is_done_first_and_the_leftmost_of_equals():
    merges = {(4, 5): (1, 7), (5, 6): (0, 8), (4, 4): (2, 9)}
    assert merge_pieces([4, 5, 6], merges, 0.0, lambda: 0.0) == [4, 8]
    assert merge_pieces([4, 4, 4], merges, 0.0, lambda: 0.0) == [9, 4]


def test_every_cut_of_a_word_is_met(vocabulary):
    """One sentence of one word has one of its cuts in each epoch; after 40 epochs none of them is missing."""
    encoded = encode(Pairs(source=["schlafenden"], target=["x"]), vocabulary, vocabulary, longest=40)
    pieces = PieceDropout(encoded, ["schlafenden"], vocabulary, share=0.5, longest=40)
    seen = {tuple(pieces.epoch(e, seed=0).source[0].tolist()) for e in range(1, 41)}
    assert 2 < len(seen) <= DRAWS  # (7/8)^40: each is missed with probability 0.005


def test_words_have_no_pieces():
    with pytest.raises(InputError, match=r"piece_dropout cuts words into other pieces; it needs vocabulary\.kind bpe"):
        tiny("x", "piece_dropout=0.1")


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    data = write_corpus(tmp_path_factory.mktemp("pieces") / "toy")
    return tiny(data, *PIECES, "piece_dropout=0.3", "dropout=0.2", "batching=equal-length", "batch_tokens=40")


@pytest.mark.slow
def test_a_run_is_a_function_of_the_seed_and_a_resumed_one_ends_with_the_same_bits(settings, tmp_path):
    steps: list[int] = []
    train(settings, tmp_path / "whole", watch=lambda event: steps.append(event.step))
    per_epoch = [len(p) for p in (_plan(settings, 1), _plan(settings, 2))]
    assert steps[-1] == sum(per_epoch)
    with pytest.raises(StopError):
        train(settings, tmp_path / "stopped", watch=stop_at(per_epoch[0] + 5))
    train(settings, tmp_path / "stopped")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))
    train(settings.with_changes(["piece_dropout=0.0"]), tmp_path / "without")
    assert not same(weights(tmp_path / "whole"), weights(tmp_path / "without"))


def test_validation_keeps_its_pieces(settings):
    data, without = prepare(settings), prepare(settings.with_changes(["piece_dropout=0.0"]))
    assert torch.equal(data.validation.source, without.validation.source)
    assert torch.equal(data.train.source, without.train.source)
    assert without.pieces is None
    assert without.epoch(1, seed=0) is without.train


def _plan(settings, epoch):
    return epoch_plan(prepare(settings).epoch(epoch, seed=0), settings, epoch)

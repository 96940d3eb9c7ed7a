"""Batches: every pair once, nothing but padding added, equal lengths together, and the same order again."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.translator.data.batches import EncodedPairs, encode, plan
from regard.translator.data.corpus import Pairs
from regard.translator.data.vocabulary import EOS, PAD, SOS, WordVocabulary
from regard.translator.models.encoder import build_model
from regard.translator.runs.settings import Settings

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

WORDS = WordVocabulary(["<pad>", "<unk>", "<sos>", "<eos>", *"abcdefg"])


def random_pairs(seed: int, count: int, longest: int = 11) -> Pairs:
    draw = np.random.default_rng(seed)
    sides = [
        [" ".join(draw.choice(list("abcdefg"), draw.integers(1, longest + 1))) for _ in range(count)] for _ in "st"
    ]
    return Pairs(*sides)


def encoded(seed: int = 0, count: int = 97) -> EncodedPairs:
    return encode(random_pairs(seed, count), WORDS, WORDS, longest=11)


def test_ids_are_the_vocabularys_with_markers():
    pairs = Pairs(["a b", "c x"], ["b", "a b c"])
    tables = encode(pairs, WORDS, WORDS, longest=5)
    assert tables.source.tolist() == [[SOS, 4, 5, EOS], [SOS, 6, 1, EOS]]
    assert tables.target.tolist() == [[SOS, 5, EOS, PAD, PAD], [SOS, 4, 5, 6, EOS]]
    assert tables.target_tokens == 8


@pytest.mark.parametrize(("share", "count"), [(1.0, 97), (0.5, 48), (0.1, 10), (1e-9, 1)])
def test_a_share_of_the_pairs_is_spread_evenly(share, count):
    whole = encoded()
    part = whole.subsample(share)
    assert len(part) == count
    steps = np.diff([*part.kept, len(whole)])
    assert part.kept[0] == 0
    assert steps.max() - steps.min() <= 1
    assert part.source.equal(whole.source[part.kept])
    assert part.target_tokens == int(whole.target_lengths[part.kept].sum())


def test_pairs_too_long_on_either_side_are_left_out_and_named():
    pairs = Pairs(["a b c", "a", "a b", "b"], ["a", "a b c", "b a", ""])
    assert encode(pairs, WORDS, WORDS, longest=2).kept == [2]
    with pytest.raises(InputError, match=r"None of the 4 pairs has between 1 and 1 tokens on both sides; give shorter"):
        encode(pairs, WORDS, WORDS, longest=1)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["mixed", "equal-length"]), st.integers(1, 40), st.integers(0, 9), st.integers(1, 5))
def test_an_epoch_has_every_pair_once(batching, size, seed, epoch):
    data = encoded()
    batches = plan(data, size=size, batching=batching, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    again = plan(data, size=size, batching=batching, seed=seed, epoch=epoch)
    assert all(np.array_equal(a, b) for a, b in zip(batches, again, strict=True))
    other = plan(data, size=size, batching=batching, seed=seed, epoch=epoch + 1)
    assert len(other) == len(batches)  # so that the number of steps is known beforehand
    assert not np.array_equal(np.concatenate(other), np.concatenate(batches))


def test_equal_length_batches_have_no_padding_in_the_source_and_like_numbers_of_tokens():
    data = encoded(count=2003)
    batches = [data.batch(rows) for rows in plan(data, size=13, batching="equal-length", seed=0, epoch=1)]
    assert not any(bool((b.source == PAD).any()) for b in batches)
    tokens = np.array([b.source.numel() for b in batches])
    mean = 13 * data.source_lengths.mean()
    assert tokens.max() <= 1.15 * mean
    assert np.median(tokens) >= 0.9 * mean


@pytest.mark.parametrize("batching", ["mixed", "equal-length"])
def test_a_batch_is_its_pairs(batching):
    data, pairs = encoded(), random_pairs(0, 97)
    for rows in plan(data, size=10, batching=batching, seed=3, epoch=1):
        batch = data.batch(rows)
        for side, ids in (("source", batch.source), ("target", batch.target)):
            for row, sentence in zip(rows, ids.tolist(), strict=True):
                expected = [SOS, *WORDS.encode(getattr(pairs, side)[row]), EOS]
                assert sentence == expected + [PAD] * (len(sentence) - len(expected))
        assert batch.target.flatten()[batch.wanted].tolist() == batch.labels.tolist()
        assert len(batch.labels) == int((batch.target != PAD).sum())


def test_both_batchings_give_the_same_losses_and_the_same_gradient():
    """Summed over an epoch with the weights held still, company makes no difference."""
    data = encoded()
    model = build_model(Settings().with_changes(["width=12", "head_width=6", "feed_forward=19", "longest=11"]), 11, 11)
    sums = []
    for batching in ("mixed", "equal-length"):
        model.zero_grad()
        total = 0.0
        for rows in plan(data, size=10, batching=batching, seed=0, epoch=1):
            batch = data.batch(rows)
            loss = model.loss(batch) * len(batch.labels)
            loss.backward()
            total += float(loss.detach())
        sums.append((total, [p.grad.clone() for p in model.parameters()]))
    assert sums[0][0] == pytest.approx(sums[1][0], rel=1e-6)
    for a, b in zip(sums[0][1], sums[1][1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_scoring_batches_cover_all_with_like_lengths_together():
    data = encoded()
    seen, lengths = [], []
    for rows, batch in data.in_order(10):
        seen += rows.tolist()
        lengths += data.target_lengths[rows].tolist()
        assert len(batch) == len(rows)
    assert sorted(seen) == list(range(97))
    assert lengths == sorted(lengths)

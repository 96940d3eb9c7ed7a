"""Decoding: against trying every sentence, and clear words for sentences that cannot be translated."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.errors import InputError
from regard.translator.data.batches import table
from regard.translator.data.vocabulary import (
    EOS,
    PAD,
    SOS,
    UNK,
    BPEVocabulary,
    WordVocabulary,
    encode_sources,
    without_unknown,
)
from regard.translator.models.encoder import build_model
from regard.translator.models.translation import best_tokens, translate_ids
from regard.translator.runs.settings import Settings

torch.set_num_threads(1)  # tiny tensors: a second thread only costs


def best_of_all(scores: torch.Tensor) -> tuple[list[int], float]:
    """The most probable choice of a word at every place, by trying all, cut at its first <eos>."""
    log_p = torch.log_softmax(scores, dim=-1)[1:]
    words = [w for w in range(scores.shape[1]) if w not in (PAD, SOS, UNK)]
    choices = itertools.product(words, repeat=len(log_p))
    best = max(choices, key=lambda c: sum(float(log_p[t, w]) for t, w in enumerate(c)))
    end = best.index(EOS) if EOS in best else len(best)
    return list(best[:end]), sum(float(log_p[t, w]) for t, w in enumerate(best[: end + 1]))


@pytest.mark.parametrize("seed", range(7))
def test_reading_off_is_the_best_of_all(seed):
    torch.manual_seed(seed)
    scores = torch.randn(3, 5, 7) * 2
    for row, (ids, value) in enumerate(best_tokens(scores.clone())):
        expected, expected_value = best_of_all(scores[row])
        assert ids == expected
        assert value == pytest.approx(expected_value, abs=1e-5)


def test_markers_and_unknown_words_are_never_written():
    scores = torch.zeros(1, 3, 6)
    scores[..., [PAD, SOS, UNK]] = 50.0
    scores[0, :, 4] = 1.0
    assert best_tokens(scores)[0][0] == [4, 4]  # and without <eos> every place is written


def test_translations_come_in_the_order_asked_whatever_the_batch():
    model = build_model(Settings().with_changes(["width=12", "head_width=6", "feed_forward=19", "longest=9"]), 31, 37)
    draw = torch.Generator().manual_seed(0)
    sources = [[SOS, *torch.randint(4, 31, (1 + i % 9,), generator=draw).tolist(), EOS] for i in range(23)]
    shown: list[tuple[int, int]] = []
    together = translate_ids(model, sources, batch=5, progress=lambda done, total: shown.append((done, total)))
    alone = [model.translate(table([s]))[0] for s in sources]
    assert [ids for ids, _ in together] == [ids for ids, _ in alone]
    assert shown[-1] == (23, 23)
    assert len({tuple(ids) for ids, _ in together}) > 3


def test_sentences_that_cannot_be_read():
    words = WordVocabulary.build(["ein hund bellt"] * 2)
    ok = encode_sources(["ein hund", "ein ein ein ein"], words, longest=3, cut=True)
    assert ok == ([[SOS, *words.encode("ein hund"), EOS], [SOS, *words.encode("ein ein ein"), EOS]], [1])
    with pytest.raises(InputError, match=r"Sentence 2 is empty; give at least one word, or remove the line\."):
        encode_sources(["hund", "  "], words, longest=3, cut=False)
    with pytest.raises(InputError, match=r"Sentence 1 has 4 tokens and this run reads at most 3; shorten it, or pass"):
        encode_sources(["ein ein ein ein"], words, longest=3, cut=False)


def test_characters_that_pieces_cannot_spell_are_left_out_and_told() -> None:
    pieces = BPEVocabulary.build(["ein hund bellt"] * 9, size=29)
    read, said = without_unknown(["ein hund", "☃ ein hund ☃!", "☃", ""], pieces)
    assert read == ["ein hund", "ein hund", "☃", ""]
    assert said == ["Not in the training text, and so left out of sentence 2: ☃ !"]
    words = WordVocabulary.build(["ein hund bellt"] * 9)
    assert without_unknown(["☃ ein hund"], words) == (["☃ ein hund"], [])

"""Scores: against counting by hand, sacrebleu itself, and on pairs that do not fit the model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sacrebleu
import torch

from regard.errors import InputError
from regard.translator.data.batches import encode
from regard.translator.data.corpus import Pairs
from regard.translator.data.vocabulary import EOS, SOS
from regard.translator.models.encoder import build_model
from regard.translator.models.run import load_run
from regard.translator.scoring.scores import perplexity, score, token_losses
from regard.translator.training.loop import prepare, train
from toy_translator import tiny, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scoring")
    settings = tiny(write_corpus(folder / "toy"), "epochs=8", "learning_rate=0.01", "save_every=1000")
    train(settings, folder / "run")
    return load_run(folder / "run")


def by_hand(model, source, target, pairs, *, count_sos: bool) -> float:
    """Perplexity sentence by sentence, word by word, in float64."""
    total, tokens = 0.0, 0
    for s, t in zip(pairs.source, pairs.target, strict=True):
        ids, meant = [SOS, *source.encode(s), EOS], [SOS, *target.encode(t), EOS]
        scores = model(torch.tensor([ids]), len(meant))[0].double()
        for place, word in enumerate(meant):
            if place or count_sos:
                total -= float(torch.log_softmax(scores[place], 0)[word].detach())
                tokens += 1
    return math.exp(total / tokens)


def test_perplexity_both_ways_is_the_count_by_hand(tmp_path):
    settings = tiny(write_corpus(tmp_path / "toy"), "dropout=0.5")
    data = prepare(settings)
    model = build_model(settings, len(data.source), len(data.target))
    found = perplexity(model, data.validation)
    assert model.training  # as it was, though dropout was off while scoring
    model.eval()
    for count, value in [(True, found.counting_sos), (False, found.without_sos)]:
        expected = by_hand(model, data.source, data.target, data.corpus.validation, count_sos=count)
        assert value == pytest.approx(expected, rel=1e-6)
    assert found.tokens == data.validation.target_tokens
    assert found.pairs == 11
    assert "counting <sos>" in str(found)


def test_perplexity_never_knows_of_smoothing(tmp_path):
    data = write_corpus(tmp_path / "toy")
    values = []
    for smoothing in ("0.0", "0.4"):
        settings = tiny(data, f"smoothing={smoothing}", "learning_rate=1e-12", "epochs=1")
        values.append(train(settings, tmp_path / smoothing).best.perplexity)
    assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.mark.slow
def test_token_losses_keep_the_order_of_the_pairs(run):
    pairs = Pairs(["ein hund", "der mann sieht", "katze"], ["a dog", "the man sees", "cat"])
    encoded = encode(pairs, run.source, run.target, longest=6)
    losses = token_losses(run.model, encoded, batch=2)
    assert [len(part) for part in losses] == [4, 5, 3]
    alone = token_losses(run.model, encode(pairs.keep([1]), run.source, run.target, longest=6))[0]
    np.testing.assert_allclose(losses[1], alone, atol=1e-5)


def test_scores_are_sacrebleus_and_the_signature_says_how(run):
    pairs = Pairs(["Ein Hund", "Der Mann sieht der Hund"], ["A dog", "The man sees the dog"])
    found = score(run, pairs)
    assert found.translations == run.translate(pairs.source).target
    expected = sacrebleu.corpus_bleu(found.translations, [pairs.target], lowercase=True)
    assert found.all.bleu == expected.score
    assert "case:lc|eff:no|tok:13a" in found.bleu_signature
    assert found.chrf_signature.startswith("nrefs:1|case:lc")
    same = [a == b.lower() for a, b in zip(found.translations, pairs.target, strict=True)]
    assert found.all.exact == np.mean(same)
    text = str(found)
    assert found.bleu_signature in text
    assert "source length" in text
    assert "phenomenon" not in text


def test_case_is_ignored_or_not_as_asked(run):
    pairs = Pairs(["Ein Hund", "der mann sieht"], ["A Dog", "the man sees"])
    found = score(run, pairs, lowercase=False)
    assert found.all.chrf == sacrebleu.corpus_chrf(found.translations, [pairs.target]).score
    assert "case:mixed" in found.bleu_signature


def test_likelihood_is_the_count_by_hand(run):
    """Tokens after <sos>, <eos> too; "Ozelot" is spelled with the letters of the vocabulary, each word counted once."""
    pairs = Pairs(["ein hund", "der mann sieht", " ".join(["ein"] * 7)], ["a dog", "The Ozelot sees", "a"])
    found = score(run, pairs).likelihood
    words = run.target.words[4:]
    letters = "".join(words)
    kinds = len(letters) + len(words) + len(set(letters)) + 2
    spelled = sum(
        math.log(kinds) - math.log(letters.count(c) + 1) if c in letters else math.log(kinds * 1114112)
        for c in "ozelot"
    ) + math.log(kinds / (len(words) + 1))
    nats = []
    for s, t in zip(pairs.source[:2], pairs.target[:2], strict=True):
        meant = [*run.target.encode(t), EOS]
        scores = run.model(torch.tensor([[SOS, *run.source.encode(s), EOS]]), len(meant) + 1)[0, 1:].double()
        log_p = torch.log_softmax(scores, dim=1).detach()
        nats.append(-sum(float(log_p[place, word]) for place, word in enumerate(meant)))
    # The model computes in float32: each score is good to some 1e-6, and so is a token's cost, however small it is.
    assert found.nats[:2] == pytest.approx([nats[0], nats[1] + spelled], rel=1e-5, abs=1e-4)
    assert found.nats[2] is None
    assert found.spelling == pytest.approx(spelled)
    assert (found.characters, found.pairs, found.unknown, found.lengths) == (5 + 15, 2, 1, [5, 15, 1])
    assert found.per_character == pytest.approx((sum(nats) + spelled) / 20, rel=1e-5, abs=1e-5)
    assert f"{found.per_character:.4f} nats per character" in str(score(run, pairs))


def test_groups_by_length_and_phenomenon(run):
    labels = [frozenset({"plural"}), frozenset({"plural", "dative"}), frozenset()]
    pairs = Pairs(
        ["ein", "ein hund sieht", "der mann sieht ein hund hund"], ["a", "a dog sees", "the man sees a dog dog"], labels
    )
    found = score(run, pairs)
    assert [(g.name, g.pairs) for g in found.by_length] == [("1-5", 2), ("6-8", 1)]
    assert [(g.name, g.pairs) for g in found.by_phenomenon] == [("dative", 1), ("plural", 2)]
    alone = score(run, pairs.keep([1]))
    assert found.by_phenomenon[0].bleu == alone.all.bleu
    assert found.by_phenomenon[0].perplexity == pytest.approx(alone.perplexity.counting_sos, rel=1e-5)
    assert "plural" in str(found)
    assert found.to_dict()["by_phenomenon"][1]["pairs"] == 2


def test_pairs_that_do_not_fit_are_scored_apart(run):
    long = " ".join(["ein"] * 50)
    pairs = Pairs(["ein hund", long, "der mann"], ["a dog", "a", " ".join(["the"] * 9)])
    found = score(run, pairs)
    assert (found.all.pairs, found.fitting.pairs, found.perplexity.pairs, found.cut) == (3, 1, 1, 1)
    assert found.by_length[-1].name == "41 and more"
    assert found.by_length[-1].perplexity is None
    assert "1 longer sources were cut" in str(found)
    assert len(found.translations) == 3


def test_what_cannot_be_scored(run):
    with pytest.raises(InputError, match=r"There is no pair to score"):
        score(run, Pairs([], []))
    with pytest.raises(InputError, match=r"Sentence 2 is empty"):
        score(run, Pairs(["ein", ""], ["a", "b"]))
    with pytest.raises(InputError, match=r"None of the 1 pairs has between 1 and 6 tokens on both sides; give shorter"):
        score(run, Pairs([" ".join(["ein"] * 7)], ["a"]))

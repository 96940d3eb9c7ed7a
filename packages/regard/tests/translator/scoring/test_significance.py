"""The paired bootstrap: against sacrebleu's own, against scoring every draw anew, and how often it cries wolf."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.significance import PairedTest

from regard.errors import InputError
from regard.translator.data.vocabulary import MARKERS, UNK, BPEVocabulary, WordVocabulary
from regard.translator.scoring.scores import Speller, characters, unknown_words
from regard.translator.scoring.significance import paired_bootstrap, sacrebleu_p_value, two_sided_p_value

WORDS = ["a", "red", "dog", "runs", "in", "the", "snow", "while", "two", "men", "sit", "on", "old", "bench"]


def corpus(count: int, seed: int) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(4, 11))) for _ in range(count)]


def noisy(references: list[str], share: float, seed: int) -> list[str]:
    """The references with a share of their words replaced."""
    draw = np.random.default_rng(seed)
    return [
        " ".join(str(draw.choice(WORDS)) if draw.random() < share else word for word in line.split())
        for line in references
    ]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(1, 10**6), st.sampled_from([0.2, 0.3, 0.35]), st.booleans())
def test_the_p_value_is_sacrebleus(seed, share, lowercase):
    """From seed 1 on: sacrebleu takes its seed 0 for none at all."""
    references = [line.capitalize() for line in corpus(31, seed)]
    first, second = noisy(references, 0.3, seed + 1), noisy(references, share, seed + 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SACREBLEU_SEED", str(seed))
        metrics = {"BLEU": sacrebleu.BLEU(lowercase=lowercase), "chrF2": sacrebleu.CHRF(lowercase=lowercase)}
        theirs = PairedTest(
            [("first", first), ("second", second)], metrics, [references], test_type="bs", n_samples=53
        )()[1]
    ours = paired_bootstrap(
        {"first": [first], "second": [second]}, references, lowercase=lowercase, samples=53, seed=seed
    )
    for d, (one, two) in zip(ours.differences, (theirs["BLEU"], theirs["chrF2"]), strict=True):
        assert d.sacrebleu_p == pytest.approx(two.p_value)
        assert (d.first_score, d.second_score) == pytest.approx((one.score, two.score))
    assert f"case:{'lc' if lowercase else 'mixed'}" in ours.signatures["BLEU"]


@pytest.mark.slow
def test_the_interval_against_scoring_every_draw_anew():
    references = corpus(17, 3)
    systems = {"one": [noisy(references, 0.4, 4)], "two": [noisy(references, 0.2, 5), noisy(references, 0.3, 6)]}
    got = paired_bootstrap(systems, references, samples=41, seed=7)
    draws = np.random.default_rng(7).choice(17, size=(41, 17), replace=True)
    for d, metric in zip(got.differences, (sacrebleu.BLEU(), sacrebleu.CHRF()), strict=True):

        def score(name, rows, metric=metric):
            meant = [[references[i] for i in rows]]
            return np.mean([metric.corpus_score([said[i] for i in rows], meant).score for said in systems[name]])

        gaps = np.array([score("two", rows) - score("one", rows) for rows in draws])
        assert d.difference == pytest.approx(score("two", range(17)) - score("one", range(17)))
        assert (d.low, d.high) == pytest.approx(tuple(np.quantile(gaps, [0.025, 0.975])))
        assert d.p == pytest.approx((1 + np.sum(np.abs(gaps - gaps.mean()) >= abs(d.difference))) / 42)


@pytest.mark.slow
def test_between_equal_systems_the_two_sided_p_is_honest_and_sacrebleus_is_not():
    """Mean scores of sentences whose true difference is 0: alarms at 5 % come in 5 % of cases, and in about 11 %."""
    draw = np.random.default_rng(0)
    alarms = {two_sided_p_value: 0, sacrebleu_p_value: 0}
    for _ in range(800):
        x = draw.normal(size=71)
        sample = draw.multinomial(71, [1 / 71] * 71, size=300) @ x / 71
        for p in alarms:
            alarms[p] += p(x.mean(), sample) < 0.05
    assert 0.03 < alarms[two_sided_p_value] / 800 < 0.075
    assert 0.085 < alarms[sacrebleu_p_value] / 800 < 0.14


def test_verdicts():
    references = corpus(60, 1)
    bad, good = noisy(references, 0.6, 2), noisy(references, 0.1, 3)
    got = paired_bootstrap({"bad": [bad], "good": [good], "twin": [good]}, references, samples=200)
    by = {(d.measure, d.first, d.second): d for d in got.differences}
    assert by["BLEU", "bad", "good"].verdict == "good is better"
    assert by["BLEU", "bad", "good"].low > 0
    twin = by["chrF", "good", "twin"]
    assert (twin.difference, twin.p, twin.verdict) == (0, 1, "within noise")
    assert twin.sacrebleu_p == pytest.approx(1 / 201)  # it counts draws that differ by more than nothing
    assert by["BLEU", "bad", "good"].holm == pytest.approx(3 * by["BLEU", "bad", "good"].p)
    text = str(got)
    assert "200 draws of 60 sentences, seed 12345" in text
    assert got.signatures["chrF"] in text
    assert json.loads(got.to_json())["samples"] == 200


def test_nats_are_drawn_with_the_same_sentences():
    references = corpus(13, 1)
    lengths = [len(line) for line in references]
    first = [2.0 * n for n in lengths]
    second: list[float | None] = [x - 1 for x in first]
    second[4] = None  # too long for the second
    said = {"one": [references], "two": [references]}
    got = paired_bootstrap(
        said, references, nats={"one": [first], "two": [second]}, characters=lengths, samples=99
    ).differences[-1]
    whole = sum(lengths) - lengths[4]
    assert got.measure == "NLL per character"
    assert got.first_score == pytest.approx(2.0)
    assert got.second_score == pytest.approx(2.0 - 12 / whole)
    assert got.verdict == "two is better"


@pytest.mark.parametrize(
    ("systems", "references", "samples", "message"),
    [
        ({"a": [["x"]]}, ["x"], 9, "compares two systems or more, not 1"),
        ({"a": [["x"]], "b": [["x"]]}, ["x"], 0, "The bootstrap needs 1 draw or more, not 0"),
        ({"a": [[]], "b": [[]]}, [], 9, "There is no sentence to compare on"),
        ({"a": [["x"]], "b": []}, ["x"], 9, "b has no translations"),
        ({"a": [["x"]], "b": [["x", "y"]]}, ["x"], 9, "b has 2 translations of 1 references; give one of each"),
    ],
)
def test_what_cannot_be_compared(systems, references, samples, message):
    with pytest.raises(InputError, match=message):
        paired_bootstrap(systems, references, samples=samples)


def test_spelling_is_a_probability():
    """Over all words of the alphabet and one sign for every other character, it sums to 1."""
    spell = Speller(["ab", "b", "abba"])
    other = math.exp(-(spell.cost("x") - spell.cost(""))) * 1114112
    total = 0.0
    for length in range(8):
        for word in itertools.product("ab?", repeat=length):
            total += math.exp(-spell.cost("".join(c for c in word if c != "?"))) * other ** word.count("?")
    end = math.exp(-spell.cost(""))
    assert end == pytest.approx(4 / (7 + 3 + 2 + 2))
    assert total == pytest.approx(1 - (1 - end) ** 8)


def test_unknown_words_are_what_stands_behind_the_markers():
    words = WordVocabulary.build(["Der Hund bellt."] * 2)
    assert unknown_words("Der HUND beißt 1,5 Mal.", words) == ["beißt", "1,5", "mal"]
    assert unknown_words("Der Hund.", words) == []
    pieces = BPEVocabulary.build(["der hund bellt"] * 9, size=29)
    for text in ("der hünd béllt", "Der Hund <unk> 犬犬", "der hund ▁ bellt 7"):
        assert len(unknown_words(text, pieces)) == pieces.encode(text).count(UNK)
    assert unknown_words("der hünd 犬犬", pieces) == ["ü", "犬", "犬"]
    spell = Speller(words.words[len(MARKERS) :])
    assert spell.cost("x") > spell.cost("e")
    assert characters("é e\u0301") == 3

"""Which translations deserve no trust."""

from __future__ import annotations

import math

import pytest

from regard.translator.data.vocabulary import BPEVocabulary, Vocabulary, WordVocabulary
from regard.translator.models import translation as module
from regard.translator.models.translation import UNSURE, Baseline, mean_probability, reasons_for_doubt

TEXT = ["ein hund spielt mit dem ball im schnee", "zwei frauen sehen den mann mit dem hund"] * 20
WORDS = WordVocabulary.build(TEXT)
PIECES = BPEVocabulary.build(TEXT, size=120)


def said(sentence: str, vocabulary: Vocabulary, *, each: float = 0.9, written: int = 4) -> list[str]:
    return reasons_for_doubt(
        sentence, vocabulary, written=[5] * written, log_probability=(written + 1) * math.log(each)
    )


@pytest.mark.parametrize("vocabulary", [WORDS, PIECES], ids=["words", "pieces"])
@pytest.mark.parametrize("sentence", ["ein hund spielt", "hund", "zwei frauen sehen den ball .", "der hund 12 !"])
def test_a_sentence_like_the_training_text_is_trusted(sentence: str, vocabulary: Vocabulary) -> None:
    assert said(sentence, vocabulary) == []


@pytest.mark.parametrize("vocabulary", [WORDS, PIECES], ids=["words", "pieces"])
@pytest.mark.parametrize("sentence", ["!", "12 34", "... ?"])
def test_nothing_to_translate(sentence: str, vocabulary: Vocabulary) -> None:
    assert said(sentence, vocabulary) == ["it has no word to translate"]


@pytest.mark.parametrize("vocabulary", [WORDS, PIECES], ids=["words", "pieces"])
@pytest.mark.parametrize("sentence", ["Привет мир", "こんにちは 世界", "quantum physics surprises"])
def test_another_alphabet_or_language(sentence: str, vocabulary: Vocabulary) -> None:
    (only,) = said(sentence, vocabulary)
    assert "unlike those of the training text" in only


def test_capitals_that_a_cased_vocabulary_must_spell() -> None:
    assert "3 of its 3 words" in said("EIN HUND SPIELT", PIECES)[0]


def test_half_of_the_words_may_be_unknown() -> None:
    assert said("ein hund namens bello", WORDS) == []
    assert (
        "3 of its 5 words are unlike those of the training text (namens, bello, bellt)"
        in said("ein hund namens bello bellt", WORDS)[0]
    )
    assert "(namens, bello, bellt, ...)" in said("ein hund namens bello bellt laut", WORDS)[0]


def test_a_model_that_is_unsure_of_its_own_words() -> None:
    assert said("ein hund", WORDS, each=UNSURE * 1.01) == []
    assert said("ein hund", WORDS, each=UNSURE * 0.8, written=0) == [
        "the model gave each word that it wrote a probability of 0.12 on average"
    ]


def test_one_word_is_not_many() -> None:
    assert said("мир", WORDS) == ["its only word is unlike those of the training text (мир)"]


@pytest.mark.parametrize(
    ("sentence", "text", "count"),
    [
        ("ein hund spielt. zwei frauen sehen den mann.", "a dog plays.", 2),
        ('ein hund spielt! "zwei frauen" sehen den mann? dem hund.', "a dog plays.", 3),
        ("ein hund spielt. zwei frauen sehen den mann.", "a dog plays. two women see the man.", 0),
        ("ein hund spielt, z. B. mit dem ball", "a dog plays", 0),
        ("ein hund spielt ...", "a dog plays", 0),
        ("ein hund spielt um 8.30 mit dem ball.", "a dog plays", 0),
    ],
)
def test_several_sentences_of_which_some_were_lost(sentence: str, text: str, count: int) -> None:
    found = reasons_for_doubt(sentence, WORDS, written=[5] * 4, log_probability=-0.1, text=text)
    sentences = [doubt for doubt in found if "sentences and the translation" in doubt]
    assert sentences == ([f"it has {count} sentences and the translation 1: give them one by one"] if count else [])


@pytest.mark.parametrize(
    ("sentence", "text", "loop"),
    [
        ("ein hund spielt", "A D D D D D dog", "D"),
        ("ein hund spielt", "the man, the man sees a dooooooog", "o"),
        ("ein hund spielt", "no no no dog", ""),
        ("ein hund ruft ha ha ha ha ha", "a dog calls ha ha ha ha ha", ""),
        ("ein ball um 1000000", "a ball at 1000000", ""),
    ],
)
def test_a_translation_that_goes_round_in_circles(sentence: str, text: str, loop: str) -> None:
    found = reasons_for_doubt(sentence, WORDS, written=[5] * 9, log_probability=-0.1, text=text)
    wanted = [f"it says {loop!r} again and again"] if loop else []
    assert [doubt for doubt in found if "again and again" in doubt] == wanted


def test_a_word_of_very_many_pieces() -> None:
    assert said("hund" * 2, PIECES) == []
    assert said("hund" * 20, PIECES) == [f"its only word is unlike those of the training text ({'hund' * 20})"]


USUAL = Baseline.measure(
    ["Ein Hund spielt mit dem Ball.", "Zwei Frauen sehen Schnee."], [k / 100 for k in range(100, 40, -1)]
)


def test_what_is_usual_is_the_words_and_the_least_sure_of_twenty():
    assert "hund" in USUAL.words
    assert "." not in USUAL.words
    assert USUAL.least == 0.44  # of 60 sentences three are below
    assert Baseline.from_dict(USUAL.to_dict()) == USUAL
    assert Baseline.measure(["ein"], [math.nan, 0.5]).least == 0.5
    assert Baseline.measure(["ein"], []).least == UNSURE


def test_only_the_most_frequent_words_are_kept(monkeypatch):
    monkeypatch.setattr(module, "KEPT_WORDS", 2)
    assert Baseline.measure(["ein hund", "ein hund bellt"], [0.9]).words == {"ein", "hund"}


@pytest.mark.parametrize("saved", [{"words": ["a"], "least": 1.5}, {"words": [1], "least": 0.5}])
def test_what_cannot_be_usual_is_refused(saved):
    with pytest.raises(ValueError, match="words and a probability"):
        Baseline.from_dict(saved)


@pytest.mark.parametrize(
    ("sentence", "strange"),
    [
        ("Zwei Frauen sehen Kometen", ""),  # one of four
        ("Frauen sehen Kometen", "1 of its 3 words is unlike those of the training text (Kometen)"),
        ("Kometen und Frauen sehen", "2 of its 4 words are unlike those of the training text (Kometen, und)"),
        ("Ball", ""),
        ("Komet", "its only word is unlike those of the training text (Komet)"),
    ],
)
def test_words_that_were_never_seen(sentence, strange):
    long = BPEVocabulary.build([sentence] * 9, size=200)  # every word is one piece: the list alone tells
    assert reasons_for_doubt(sentence, long, written=[5], log_probability=-0.1, usual=USUAL) == [strange] * bool(
        strange
    )


def test_a_model_less_sure_than_it_is_used_to_be():
    for each, told in ((0.43, 1), (0.45, 0)):
        found = reasons_for_doubt("ein hund", WORDS, written=[5] * 3, log_probability=4 * math.log(each), usual=USUAL)
        low = f"the model gave each word that it wrote a probability of {each} on average"
        assert found == [f"{low}, less than in 19 of 20 sentences"] * told
    assert mean_probability([5] * 3, 4 * math.log(0.3)) == pytest.approx(0.3)

"""Tokens come back as the text they were, ids are stable, and what is saved is what is loaded."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processes import printed_under_two_hash_seeds
from regard.errors import InputError
from regard.translator.data.sources import from_builtin
from regard.translator.data.vocabulary import (
    EOS,
    MARKERS,
    PAD,
    SOS,
    UNK,
    BPEVocabulary,
    WordVocabulary,
    join_words,
    split_words,
    vocabulary_from_dict,
)

PAIRS = from_builtin("de", "en", size=300).splits["train"]
TEXT = PAIRS.source + PAIRS.target
anything = st.text(max_size=60)


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Die Straße ist groß.", ["Die", "Straße", "ist", "groß", "."]),
        ("the man's dog doesn't bark", ["the", "man", "'s", "dog", "doesn", "'t", "bark"]),
        ("Wie geht’s? 'Gut!'", ["Wie", "geht", "’s", "?", "'", "Gut", "!", "'"]),
        ("ein T-Shirt - rot", ["ein", "T-Shirt", "-", "rot"]),
        ("um 8:30 kostet es 1.000,50 €...", ["um", "8:30", "kostet", "es", "1.000,50", "€", "..."]),
        ("a\u0304b", ["a\u0304b"]),
        ("", []),
    ],
)
def test_words_by_the_written_rule(sentence: str, words: list[str]) -> None:
    assert split_words(sentence) == words


@given(anything)
def test_no_character_is_lost(sentence: str) -> None:
    assert "".join(split_words(sentence)) == re.sub(r"\s", "", sentence)


@pytest.mark.parametrize("sentence", [*TEXT[::20], 'He said "no" (twice), didn\'t he?'])
def test_sentences_are_written_back(sentence: str) -> None:
    assert join_words(split_words(sentence)) == sentence


def test_ids_by_frequency_then_alphabet() -> None:
    v = WordVocabulary.build(["b a a", "c b a", "b"])
    assert v.words == [*MARKERS, "a", "b"]
    assert (PAD, UNK, SOS, EOS) == (0, 1, 2, 3)
    assert v.encode("a c b") == [4, UNK, 5]
    assert len(v) == 6


def test_minimum_frequency_and_size() -> None:
    text = ["a a a b b c"]
    assert WordVocabulary.build(text, minimum_frequency=1).words[4:] == ["a", "b", "c"]
    assert WordVocabulary.build(text, minimum_frequency=3).words[4:] == ["a"]
    assert WordVocabulary.build(text, size=5).words[4:] == ["a"]


def test_case_is_kept_on_request() -> None:
    assert WordVocabulary.build(["Hund hund"], minimum_frequency=1, lowercase=False).words[4:] == ["Hund", "hund"]
    assert WordVocabulary.build(["Hund hund"]).words[4:] == ["hund"]


def test_markers_in_a_text_are_not_the_markers() -> None:
    words = WordVocabulary.build(["<eos> <pad>"] * 2)
    assert not {PAD, SOS, EOS} & set(words.encode("<eos> <pad> <sos>"))
    pieces = BPEVocabulary.build(["<eos> <pad> <sos>"] * 50, size=60)
    assert not {PAD, SOS, EOS} & set(pieces.encode("<eos> <pad> <sos>"))
    assert pieces.decode(pieces.encode("<eos> <pad>")) == "<eos> <pad>"


@pytest.fixture(scope="module")
def pieces() -> BPEVocabulary:
    return BPEVocabulary.build(TEXT, size=400)


def test_pieces_spell_every_sentence(pieces: BPEVocabulary) -> None:
    assert len(pieces) == 400
    for sentence in TEXT:
        ids = pieces.encode(sentence)
        assert UNK not in ids
        assert pieces.decode([SOS, *ids, EOS, PAD]) == sentence
        assert "".join(pieces.tokens(sentence)).replace("▁", " ").strip() == sentence


@settings(max_examples=200)
@given(st.text(alphabet="Der Hund bllt,.?äß", max_size=40))
def test_pieces_spell_any_text_of_known_characters(pieces: BPEVocabulary, text: str) -> None:
    known = {c for word in pieces.words for c in word}
    if set(text) - {" "} <= known:
        assert pieces.decode(pieces.encode(text)) == " ".join(text.split())


@pytest.mark.slow
@given(anything)
def test_any_text_can_be_encoded(pieces: BPEVocabulary, text: str) -> None:
    words = WordVocabulary.build(TEXT)
    for v in (pieces, words):
        ids = v.encode(text)
        assert all(0 <= i < len(v) and i not in (PAD, SOS, EOS) for i in ids)
        v.decode(ids)


def test_pieces_never_cross_a_punctuation_mark(pieces: BPEVocabulary) -> None:
    assert not [w for w in pieces.words[4:] if re.search(r"\w[.,?]|[.,?]\w", w)]


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_saved_as_json_and_loaded(kind: str, pieces: BPEVocabulary) -> None:
    v = WordVocabulary.build(TEXT, lowercase=False) if kind == "words" else pieces
    again = vocabulary_from_dict(json.loads(json.dumps(v.to_dict())))
    assert type(again) is type(v)
    assert again.words == v.words
    assert again.lowercase == v.lowercase
    assert [again.encode(s) for s in TEXT] == [v.encode(s) for s in TEXT]


def test_the_same_in_every_process() -> None:
    program = (
        "from regard.translator.data.vocabulary import *; from regard.translator.data.sources import from_builtin;"
        "t = from_builtin('de', 'en', size=200).splits['train'].source; import hashlib, json;"
        "d = [BPEVocabulary.build(t, size=300).to_dict(), WordVocabulary.build(t).to_dict()];"
        "print(hashlib.sha256(json.dumps(d).encode()).hexdigest())"
    )
    assert len(printed_under_two_hash_seeds(program)) == 1


def test_sixty_thousand_sentences_in_two_seconds() -> None:
    text = (TEXT * 100)[:60_000]
    start = time.process_time()
    for sentence in text:
        split_words(sentence)
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WordVocabulary.build([]), "No word occurs 2 times or more"),
        (lambda: WordVocabulary.build(["a"], minimum_frequency=0), "minimum_frequency must be 1 or more, not 0"),
        (lambda: WordVocabulary.build(["a a"], size=4), "5 or more, not 4"),
        (lambda: WordVocabulary(["hund"]), "starts with <pad>, <unk>, <sos>, <eos>"),
        (lambda: WordVocabulary([*MARKERS, "a", "a"]), "'a' is in it more often"),
        (lambda: BPEVocabulary.build(["abc"], size=6), "size must be at least 8"),
        (lambda: BPEVocabulary([*MARKERS, "a"], [["a", "b"]]), "joins two pieces"),
        (lambda: vocabulary_from_dict({"kind": "x"}), "'words' or 'bpe'; this one says 'x'"),
        (lambda: vocabulary_from_dict([]), "must say its kind"),  # type: ignore[arg-type]
        (lambda: vocabulary_from_dict({"kind": "bpe", "words": []}), "lacks merges, lowercase"),
    ],
)
def test_mistakes_are_named(make, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        make()

"""When a translation deserves no trust: what can be seen without knowing either language.

A translator writes something fluent for whatever it is given. Six things are signs that it has nothing to do with
the sentence, or with a part of it only: the sentence has no word at all, most of its words are unlike those of the
training text, it is several sentences and the translation fewer, the translation has far more words than the sentence,
it says one thing again and again, or the model itself gave the words that it wrote low probabilities.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from regard.translator.data.vocabulary import MARKERS, UNK, BPEVocabulary, Vocabulary, split_words

UNSURE = 0.15  # mean (geometric) of the written tokens; of the coursework's weak model 1 test sentence in 100 is below
SHORT_PIECE = 1.6  # letters in each piece of a word, on average: frequent words are one piece, or two
MANY_PIECES = 12  # of one word; of the German words of Multi30k 1 in 700 has so many
MORE_WORDS = 2  # times the sentence's, and as many more: of the 29,000 pairs of Multi30k 7 are beyond it
SPELLED = 4  # letters: shorter words are a few pieces whatever they are
_END = re.compile(r"[^\W\d_]{3}[.!?…]+[\"'”“»)]*\s+(?=\W*[^\W\d_])")  # a word follows; "z. B." and "Dr." end nothing
_LOOP = re.compile(r"\b(\w+)(?:\W+\1\b){3,}|(\w)\2{5,}")  # a word four times in a row, a letter six times


def doubts(
    sentence: str, vocabulary: Vocabulary, *, written: Sequence[int], log_probability: float, text: str = ""
) -> list[str]:
    """What speaks against the translation of one sentence (its ids, and its ``text``); empty where nothing does.

    >>> from regard.translator.data.vocabulary import WordVocabulary
    >>> words = WordVocabulary.build(["der hund schläft", "der hund bellt"])
    >>> doubts("...", words, written=[4], log_probability=-0.1)
    ['it has no word to translate']
    >>> doubts("мир und der hund", words, written=[4], log_probability=-0.1)
    []
    >>> doubts("мир труд", words, written=[4], log_probability=-0.1)
    ['2 of its 2 words are unlike those of the training text (мир, труд)']
    >>> doubts("Der Hund schläft. Der Hund bellt.", words, written=[4], log_probability=-0.1, text="The dog sleeps.")
    ['it has 2 sentences and the translation 1: give them one by one']
    >>> doubts("Hund", words, written=[4], log_probability=-0.1, text="A dog dog is running.")
    ['it has 1 word and the translation 5: some stand for nothing']
    >>> doubts("der hund", words, written=[4, 5], log_probability=-6.0)
    ['the model gave each word that it wrote a probability of 0.14 on average']
    """
    words = _words(sentence)
    if not words:
        return ["it has no word to translate"]
    said = []
    strange = [word for word in words if _strange(word, vocabulary)]
    if 2 * len(strange) > len(words):
        some = ", ".join(strange[:3]) + ", ..." * (len(strange) > 3)
        which = "its only word is" if len(words) == 1 else f"{len(strange)} of its {len(words)} words are"
        said.append(f"{which} unlike those of the training text ({some})")
    here, there = _sentences(sentence), _sentences(text)
    if text and here > there:
        said.append(f"it has {here} sentences and the translation {there}: give them one by one")
    if (more := len(_words(text))) > MORE_WORDS * len(words) + MORE_WORDS:
        said.append(
            f"it has {len(words)} word{'s' * (len(words) > 1)} and the translation {more}: some stand for nothing"
        )
    if (loop := _LOOP.search(text)) and not _LOOP.search(sentence):
        said.append(f"it says {loop[1] or loop[2]!r} again and again")
    sure = math.exp(log_probability / (len(written) + 1))  # <eos> too
    if sure < UNSURE:
        said.append(f"the model gave each word that it wrote a probability of {sure:.2f} on average")
    return said


def _words(text: str) -> list[str]:
    return [word for word in split_words(text) if any(c.isalpha() for c in word)]


def _sentences(text: str) -> int:
    return 1 + len(_END.findall(text))


def _strange(word: str, vocabulary: Vocabulary) -> bool:
    """Whether the vocabulary does not know the word or, where it has pieces, needs too many of them."""
    if not isinstance(vocabulary, BPEVocabulary):
        return UNK in vocabulary.encode(word)
    pieces = vocabulary.tokens(word)
    letters = sum(c.isalpha() for c in word)
    spelled = letters >= SPELLED and letters < SHORT_PIECE * len(pieces)
    return MARKERS[UNK] in pieces or spelled or len(pieces) >= MANY_PIECES

"""When a translation deserves no trust: what can be seen without knowing either language.

A translator writes something fluent for whatever it is given. Six things are signs that it has nothing to do with
the sentence, or with a part of it only: the sentence has no word at all, many of its words are unlike those of the
training text, it is several sentences and the translation fewer, the translation has far more words than the sentence,
it says one thing again and again, or the model itself gave the words that it wrote low probabilities. What is low, and
which words are known, the run tells at the end of its training (:class:`Baseline`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.translator.data.vocabulary import MARKERS, UNK, BPEVocabulary, Vocabulary, split_words

UNSURE = 0.15  # where a run does not say what it is used to; of the coursework's model 1 test sentence in 100 is below
KEPT_WORDS = 100_000  # the most frequent ones of the training text
SHORT_PIECE = 1.6  # letters in each piece of a word, on average: frequent words are one piece, or two
MANY_PIECES = 12  # of one word; of the German words of Multi30k 1 in 700 has so many
MORE_WORDS = 2  # times the sentence's, and as many more: of the 29,000 pairs of Multi30k 7 are beyond it
SPELLED = 4  # letters: shorter words are a few pieces whatever they are
_END = re.compile(r"[^\W\d_]{3}[.!?…]+[\"'”“»)]*\s+(?=\W*[^\W\d_])")  # a word follows; "z. B." and "Dr." end nothing
_LOOP = re.compile(r"\b(\w+)(?:\W+\1\b){3,}|(\w)\2{5,}")  # a word four times in a row, a letter six times


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """What a run is used to: the source words of its training text, and how sure it is of ordinary translations."""

    words: frozenset[str] = frozenset()  # lower-cased; empty where nobody has written them down
    least: float = UNSURE  # 19 of 20 validation sentences were translated with a higher mean probability

    @classmethod
    def measure(cls, training: Iterable[str], probabilities: Sequence[float]) -> Baseline:
        """From the training sentences, and the mean probability of each of some ordinary translations.

        >>> usual = Baseline.measure(["Der Hund bellt.", "Der Hund schläft."], [0.9, 0.8, 0.7])
        >>> sorted(usual.words), usual.least
        (['bellt', 'der', 'hund', 'schläft'], 0.7)
        """
        counts = Counter(word for sentence in training for word in _words(sentence.lower()))
        sure = sorted(p for p in probabilities if not math.isnan(p))
        least = sure[len(sure) // 20] if sure else UNSURE
        return cls(words=frozenset(word for word, _ in counts.most_common(KEPT_WORDS)), least=least)

    def to_dict(self) -> dict[str, Any]:
        """As :meth:`from_dict` reads it."""
        return {"words": sorted(self.words), "least": self.least}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Baseline:
        """From :meth:`to_dict`; ValueError where it is something else."""
        words, least = saved["words"], saved["least"]
        if not all(isinstance(word, str) for word in words) or not 0 <= least <= 1:
            raise ValueError("it needs words and a probability")
        return cls(words=frozenset(words), least=float(least))


UNTOLD = Baseline()


def mean_probability(written: Sequence[int], log_probability: float) -> float:
    """The geometric mean over the tokens that were written, `<eos>` too."""
    return math.exp(log_probability / (len(written) + 1))


def reasons_for_doubt(
    sentence: str,
    vocabulary: Vocabulary,
    *,
    written: Sequence[int],
    log_probability: float,
    text: str = "",
    usual: Baseline = UNTOLD,
) -> list[str]:
    """What speaks against the translation of one sentence (its ids, and its ``text``); empty where nothing does.

    >>> from regard.translator.data.vocabulary import WordVocabulary
    >>> words = WordVocabulary.build(["der hund schläft", "der hund bellt"])
    >>> reasons_for_doubt("...", words, written=[4], log_probability=-0.1)
    ['it has no word to translate']
    >>> reasons_for_doubt("мир und der hund", words, written=[4], log_probability=-0.1)
    []
    >>> reasons_for_doubt("мир труд", words, written=[4], log_probability=-0.1)
    ['2 of its 2 words are unlike those of the training text (мир, труд)']
    >>> two = "Der Hund schläft. Der Hund bellt."
    >>> reasons_for_doubt(two, words, written=[4], log_probability=-0.1, text="The dog sleeps.")
    ['it has 2 sentences and the translation 1: give them one by one']
    >>> reasons_for_doubt("Hund", words, written=[4], log_probability=-0.1, text="A dog dog is running.")
    ['it has 1 word and the translation 5: some of them translate nothing']
    >>> reasons_for_doubt("der hund", words, written=[4, 5], log_probability=-6.0)
    ['the model gave each word that it wrote a probability of 0.14 on average']
    """
    words = _words(sentence)
    if not words:
        return ["it has no word to translate"]
    said = []
    strange = [
        word for word in words if _is_strange(word, vocabulary) or (usual.words and word.lower() not in usual.words)
    ]
    # without the list only the vocabulary tells, which takes a rare word of the training text for a strange one
    if 3 * len(strange) >= len(words) if usual.words else 2 * len(strange) > len(words):
        some = ", ".join(strange[:3]) + ", ..." * (len(strange) > 3)
        which = f"{len(strange)} of its {len(words)} words {'is' if len(strange) == 1 else 'are'}"
        which = "its only word is" if len(words) == 1 else which
        said.append(f"{which} unlike those of the training text ({some})")
    here, there = _sentences(sentence), _sentences(text)
    if text and here > there:
        said.append(f"it has {here} sentences and the translation {there}: give them one by one")
    if (more := len(_words(text))) > MORE_WORDS * len(words) + MORE_WORDS:
        count = f"{len(words)} word{'s' * (len(words) > 1)}"
        said.append(f"it has {count} and the translation {more}: some of them translate nothing")
    if (loop := _LOOP.search(text)) and not _LOOP.search(sentence):
        said.append(f"it says {loop[1] or loop[2]!r} again and again")
    if (sure := mean_probability(written, log_probability)) < usual.least:
        fewer = ", less than in 19 of 20 sentences" * (usual is not UNTOLD)
        said.append(f"the model gave each word that it wrote a probability of {sure:.2f} on average{fewer}")
    return said


def _words(text: str) -> list[str]:
    return [word for word in split_words(text) if any(c.isalpha() for c in word)]


def _sentences(text: str) -> int:
    return 1 + len(_END.findall(text))


def _is_strange(word: str, vocabulary: Vocabulary) -> bool:
    """Whether the vocabulary does not know the word or, where it has pieces, needs too many of them."""
    if not isinstance(vocabulary, BPEVocabulary):
        return UNK in vocabulary.encode(word)
    pieces = vocabulary.tokens(word)
    letters = sum(c.isalpha() for c in word)
    spelled = letters >= SPELLED and letters < SHORT_PIECE * len(pieces)
    return MARKERS[UNK] in pieces or spelled or len(pieces) >= MANY_PIECES

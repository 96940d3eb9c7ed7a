"""What a reference costs a model in nats, whatever its tokens are: the tokens, and unknown words spelled out.

A perplexity is a mean over tokens, so it changes with the tokens; and a model that calls every rare word <unk> has an
easy life. Over characters, with every word written to its end, models of different tokens compare:

    cost(text) = - sum over its tokens, <eos> too, of log p(token) + sum over its unknown words of spelling(word)
    spelling(c_1 ... c_k) = - log q(c_1) - ... - log q(c_k) - log q(end)
    q(c) = (n(c) + 1) / (N + A + 2)         for the A characters of the vocabulary's words
    q(end) = (W + 1) / (N + A + 2)
    q(c) = 1 / (N + A + 2) / 1,114,112      for any other character: "other", then one of all there are in Unicode

where n(c) counts c in the W words of the vocabulary, each word once, and N = W + sum n(c). The sum of q is 1 and all of
it comes from the training text, so exp(-cost) adds up to 1 at most over all texts as the vocabulary sees them: nothing
is had for nothing.
"""

from __future__ import annotations

import math
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence

from regard.translator.data.vocabulary import FIRST_WORD, UNK, BPEVocabulary, Vocabulary

_CHARACTERS = sys.maxunicode + 1


class Speller:
    """The cost in nats of spelling a word that is not in ``words``.

    >>> speller = Speller(["ab", "b"])  # 1 a, 2 b, 2 ends, nothing else: 5 of them, and 4 kinds with "other"
    >>> round(math.exp(-speller.cost("a")), 6)  # 2/9 for a, then 3/9 for the end
    0.074074
    >>> round(speller.cost("ax") - speller.cost("a"), 6) == round(math.log(9) + math.log(1114112), 6)
    True
    """

    def __init__(self, words: Sequence[str]) -> None:
        counts = Counter(c for word in words for c in word)
        total = counts.total() + len(words) + len(counts) + 2  # N + A + 2: each kind, "end" and "other" get one more
        self._costs = {c: math.log(total / (n + 1)) for c, n in counts.items()}
        self._end = math.log(total / (len(words) + 1))
        self._other = math.log(total) + math.log(_CHARACTERS)

    def cost(self, word: str) -> float:
        """-log of the probability of the word's characters and its end."""
        return sum(self._costs.get(c, self._other) for c in word) + self._end


def speller(vocabulary: Vocabulary) -> Speller:
    """The speller of a vocabulary: it knows the characters of its words, markers left out."""
    return Speller(vocabulary.words[FIRST_WORD:])


def unknown_words(sentence: str, vocabulary: Vocabulary) -> list[str]:
    """What stands behind each <unk> of a sentence: words, or single characters for a vocabulary of pieces.

    >>> from regard.translator.data.vocabulary import MARKERS, WordVocabulary
    >>> unknown_words("Der Hund bellt laut.", WordVocabulary([*MARKERS, "der", "hund", "."]))
    ['bellt', 'laut']
    """
    ids = vocabulary.encode(sentence)
    if UNK not in ids:
        return []
    if not isinstance(vocabulary, BPEVocabulary):
        return [word for word, i in zip(vocabulary.tokens(sentence), ids, strict=True) if i == UNK]
    text = unicodedata.normalize("NFC", sentence)
    known = set(vocabulary.words)
    return [c for c in (text.lower() if vocabulary.lowercase else text) if not c.isspace() and c not in known]


def characters(sentence: str) -> int:
    """The characters of a reference as every run counts them: blanks too, accents composed.

    >>> characters("Ma\\u0308dchen lacht.")
    14
    """
    return len(unicodedata.normalize("NFC", sentence))

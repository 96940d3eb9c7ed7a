"""Patterns that heads are known for, each with a score: the mean weight on the keys that the pattern names.

| pattern | the keys that query i should read |
|---|---|
| previous, same, next | i - 1, i, i + 1 |
| first | place 0 (asked of all other places) |
| separator | marks like [SEP] and </s> after place 0, and full stops, commas and the like |
| duplicate | other places with the same token |
| induction | the place after an earlier occurrence of the same token |

A score is compared with chance: what equal weights on all keys that a query may read would give. A mean over rows for
which the pattern names a key that may be read; NaN where there is none. See clark2019 and olsson2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.array_types import Flags, Float
from regard_models.head_measures.spread import normalise_rows

PATTERNS = ("previous", "same", "next", "first", "separator", "duplicate", "induction")
CLEAR = 0.3  # of the way from chance to 1, from which on a head is called after a pattern
BROAD = 0.6  # of the keys that may be read: from so many effective tokens on, a head without a pattern is broad
_PUNCTUATION = frozenset(".,;:!?")
_BLANKS = "Ġ▁ "  # how tokenizers write the blank before a word


@dataclass(frozen=True, kw_only=True, eq=False)
class PatternScores:
    """``scores`` and ``chance`` by the pattern's name: one number for every head, and one for all."""

    scores: dict[str, Float]
    chance: dict[str, float]

    def name(self, head: int, *, broadness: float) -> str:
        """What to call a head: the pattern furthest above chance if that is clear, else broad or mixed."""
        best, by = "", 0.0
        for pattern, scores in self.scores.items():
            room = 1 - self.chance[pattern]
            lift = (float(scores[head]) - self.chance[pattern]) / room if room > 0 else 0.0
            if lift > by:
                best, by = pattern, lift
        if by >= CLEAR:
            return best
        return "broad" if broadness >= BROAD else "mixed"


def pattern_scores(
    weights: npt.ArrayLike, allowed: Flags, *, words: Sequence[str] | None, key_words: Sequence[str] | None, cross: bool
) -> PatternScores:
    """The scores of all heads of a layer: weights (heads, queries, keys); ``words`` None where tokens are not known.

    >>> rows = np.array([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> made = pattern_scores(rows, rows >= 0, words=["a", "b", "a"], key_words=["a", "b", "a"], cross=False)
    >>> made.scores["previous"].tolist(), made.scores["induction"].tolist(), round(made.chance["previous"], 3)
    ([1.0], [1.0], 0.333)
    """
    p = normalise_rows(weights)
    queries, keys = p.shape[1:]
    named = {} if cross else places(queries, keys)
    named["first"] = _first(queries, keys, cross)
    if key_words is not None:
        named["separator"] = np.broadcast_to([place > 0 and _is_separator(w) for place, w in enumerate(key_words)],
                                             (queries, keys))  # fmt: skip
    if words is not None and key_words is not None and not cross:
        named |= repeats(words)
    scores, chance = {}, {}
    for pattern in PATTERNS:
        if pattern in named:
            scores[pattern], chance[pattern] = _score(p, allowed, named[pattern])
    return PatternScores(scores=scores, chance=chance)


def places(queries: int, keys: int) -> dict[str, Flags]:
    """The patterns that only look at places."""
    return {
        name: np.eye(queries, keys, offset, dtype=bool) for name, offset in (("previous", -1), ("same", 0), ("next", 1))
    }


def repeats(words: Sequence[str]) -> dict[str, Flags]:
    """The patterns that look for the same token elsewhere.

    >>> repeats(["a", "b", "a"])["induction"].astype(int).tolist()
    [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
    """
    count = len(words)
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ids = np.array([numbers[word] for word in words])
    same = ids[:, None] == ids
    after = np.zeros((count, count), dtype=bool)
    after[:, 1:] = same[:, :-1] & (np.arange(1, count) < np.arange(count)[:, None])
    return {"duplicate": same & ~np.eye(count, dtype=bool), "induction": after}


def _first(queries: int, keys: int, cross: bool) -> Flags:
    named = np.zeros((queries, keys), dtype=bool)
    named[0 if cross else 1 :, 0] = True
    return named


def _is_separator(word: str) -> bool:
    """
    >>> [_is_separator(word) for word in ("[SEP]", "</s>", "Ġ,", "<", "dog")]
    [True, True, True, False, False]
    """
    bare = word.strip(_BLANKS)
    special = len(bare) > 2 and (bare[0] + bare[-1]) in ("[]", "<>")
    return special or (bare != "" and set(bare) <= _PUNCTUATION)


def _score(p: Float, allowed: Flags, named: Flags) -> tuple[Float, float]:
    may = allowed.all(axis=0)  # of the keys that every head of the layer may read
    rows = (named & may).any(axis=1)
    if not rows.any():
        return np.full(len(p), np.nan), np.nan
    scores = (p * named).sum(axis=2)[:, rows].mean(axis=1)
    chance = ((named & may).sum(axis=1)[rows] / may.sum(axis=1)[rows]).mean()
    return scores, float(chance)

"""A translation beside its reference, word by word: right, right but elsewhere, wrong, missing."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

RIGHT, MOVED, WRONG = "right", "moved", "wrong"


@dataclass(frozen=True, kw_only=True)
class MarkedWords:
    """Every word with its mark; for the reference ``wrong`` means missing from the translation."""

    translation: list[tuple[str, str]]
    reference: list[tuple[str, str]]

    @property
    def share(self) -> float:
        """Words in place, of both sentences, as a share: 1 for an exact translation."""
        words = [*self.translation, *self.reference]
        return sum(mark == RIGHT for _, mark in words) / max(1, len(words))


def mark(translation: Sequence[str], reference: Sequence[str]) -> MarkedWords:
    """Mark the words of both: the longest common subsequence is right; the same word elsewhere is moved.

    >>> found = mark("the dog sees a man".split(), "the man sees a cat".split())
    >>> " ".join(f"{word}/{m}" for word, m in found.translation)
    'the/right dog/wrong sees/right a/right man/moved'
    >>> found.reference[1], found.reference[4]
    (('man', 'moved'), ('cat', 'wrong'))
    """
    kept = common_subsequence(translation, reference)
    here, there = {i for i, _ in kept}, {j for _, j in kept}
    spare_here = Counter(w for i, w in enumerate(translation) if i not in here)
    spare_there = Counter(w for j, w in enumerate(reference) if j not in there)
    return MarkedWords(
        translation=_marks(translation, here, spare_there),
        reference=_marks(reference, there, spare_here),
    )


def common_subsequence(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence, as pairs (place in a, place in b)."""
    longest = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    # from the end, so that the walk below goes from the beginning; equal words met there always belong to a longest one
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            match = longest[i + 1][j + 1] + 1 if a[i] == b[j] else 0
            longest[i][j] = max(match, longest[i + 1][j], longest[i][j + 1])
    kept, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            kept.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i + 1][j] >= longest[i][j + 1]:
            i += 1
        else:
            j += 1
    return kept


def as_html(marked: Sequence[tuple[str, str]]) -> str:
    """The words with their marks as HTML: looks differ without colour too."""
    if not marked:
        return '<span class="nothing">(nothing)</span>'
    return " ".join(
        html.escape(word) if what == RIGHT else f'<span class="{what}">{html.escape(word)}</span>'
        for word, what in marked
    )


def _marks(words: Sequence[str], in_place: set[int], spare: Counter[str]) -> list[tuple[str, str]]:
    marks = []
    for i, word in enumerate(words):
        what = RIGHT if i in in_place else MOVED if spare[word] > 0 else WRONG
        if what == MOVED:
            spare[word] -= 1
        marks.append((word, what))
    return marks

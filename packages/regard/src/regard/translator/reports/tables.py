"""Pieces of HTML: tables, boxes of facts, settings, and marked sample translations.

A translation beside its reference, word by word: right, right but elsewhere, wrong, missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.markup import Html, element, escape, join
from regard.translator.data.sources import Pairs
from regard.translator.data.vocabulary import split_words
from regard.translator.runs.settings import Settings
from regard.translator.scoring.significance import Interval

SAMPLES = 10
_SHORT = 14  # rows that stay on one printed page


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: int = 1, chosen: int | None = None) -> Html:
    """A table; columns from ``numbers`` on are numbers."""
    kinds = [None if i < numbers else "n" for i in range(len(head))]
    top = [element("th", text, class_=kind) if text else element("td") for text, kind in zip(head, kinds, strict=True)]
    body = [
        element(
            "tr",
            *(element("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)),
            class_="chosen" if number == chosen else None,
        )
        for number, row in enumerate(rows)
    ]
    parts = element("thead", element("tr", *top)), element("tbody", *body)
    whole = element("table", *parts, class_="short" if len(rows) <= _SHORT else None)
    return element("div", whole, class_="scroll", tabindex=0, role="group", aria_label="Table")


def facts(pairs: Sequence[tuple[str, str]]) -> Html:
    """Boxes with a big number and what it is."""
    return element("div", *(element("div", element("b", v), element("span", k)) for v, k in pairs), class_="facts")


def interval(given: Interval, digits: int = 2) -> Html:
    """A mean and, smaller, its interval."""
    mean, _, span = given.text(digits).partition(" ")
    return join(mean, " ", element("small", span)) if span else escape(mean)


def figure(picture: Html, caption: str) -> Html:
    return element("figure", picture, element("figcaption", caption))


def paragraph(text: str, kind: str | None = None) -> Html:
    return element("p", text, class_=kind)


def commands(lines: Sequence[str]) -> Html:
    return element("pre", "\n".join(line for line in lines if line))


def settings_table(settings: Settings) -> Html:
    """Every setting, section by section; what differs from the coursework's defaults is bold."""
    default = Settings().to_dict()
    parts = []
    for section, content in settings.to_dict().items():
        rows = (_setting(key, value, default[section][key]) for key, value in content.items())
        parts.append(element("div", element("b", f"[{section}]"), element("table", element("tbody", *rows))))
    return element("div", *parts, class_="settings")


def samples(pairs: Pairs, translations: dict[str, Sequence[str]], *, lowercase: bool, count: int = SAMPLES) -> Html:
    """Sentences from the best translated to the worst, at even distances, with errors marked; nothing is hand-picked.

    The first of ``translations`` orders them.
    """
    first = next(iter(translations.values()))
    words = [_words(t, lowercase) for t in pairs.target]
    quality = [mark(_words(said, lowercase), meant).share for said, meant in zip(first, words, strict=True)]
    order = sorted(range(len(first)), key=lambda i: (-quality[i], i))
    count = min(count, len(order))
    chosen = [order[round(k * (len(order) - 1) / max(1, count - 1))] for k in range(count)]
    return join(*(_sample(pairs, i, words[i], translations, lowercase) for i in dict.fromkeys(chosen)))


def legend() -> Html:
    return Html(
        '<p><span class="wrong">wrong word</span> &nbsp; <span class="moved">right word, elsewhere</span> &nbsp; '
        '<span class="missing"><span class="wrong">missing from the translation</span></span> (in the reference)</p>'
    )


def _sample(pairs: Pairs, i: int, meant: list[str], translations: dict[str, Sequence[str]], lowercase: bool) -> Html:
    marked = {name: mark(_words(said[i], lowercase), meant) for name, said in translations.items()}
    only = next(iter(marked.values()))
    labels = element("small", f"({', '.join(sorted(pairs.labels[i]))})") if pairs.labels else None
    lines: list[tuple[str, object]] = [("source", join(pairs.source[i], labels and Html(" &nbsp; "), labels))]
    if len(marked) == 1:
        lines.append(("reference", element("span", as_html(only.reference), class_="missing")))
        lines.append(("translation", as_html(only.translation)))
    else:
        lines.append(("reference", " ".join(meant)))
        lines += [(name, as_html(m.translation)) for name, m in marked.items()]
    body = (part for name, text in lines for part in (element("dt", name), element("dd", text)))
    return element("div", element("dl", *body), class_="sample")


def _setting(key: str, value: Any, default: Any) -> Html:
    shown = str(value).lower() if isinstance(value, bool) else str(value) or "(empty)"
    return element("tr", element("td", key), element("td", bold_if(value != default, shown)))


def bold_if(differs: bool, text: str) -> Html:
    """A value that differs from the one it is compared with, in bold."""
    return element("b", text) if differs else escape(text)


def _words(sentence: str, lowercase: bool) -> list[str]:
    return split_words(sentence.lower() if lowercase else sentence)


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


def as_html(marked: Sequence[tuple[str, str]]) -> Html:
    """The words with their marks as HTML: looks differ without colour too."""
    if not marked:
        return element("span", "(nothing)", class_="nothing")
    words = (word if what == RIGHT else element("span", word, class_=what) for word, what in marked)
    return Html(" ".join(map(escape, words)))


def _marks(words: Sequence[str], in_place: set[int], spare: Counter[str]) -> list[tuple[str, str]]:
    marks = []
    for i, word in enumerate(words):
        what = RIGHT if i in in_place else MOVED if spare[word] > 0 else WRONG
        if what == MOVED:
            spare[word] -= 1
        marks.append((word, what))
    return marks

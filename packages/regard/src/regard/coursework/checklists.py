"""What a complete written answer contains: a list that a student can tick and a teacher can mark by.

The lists are data, ``checklists.toml`` beside this file. An item has ``text``, what must be there, said without giving
it away; ``key``, what it should come to, for the person who marks; and its points, which are ours: a course has its
own. Every question of every set has a list.

>>> found = of("cs224n-w25-a4", "1-5")
>>> found.points, found.items[0].points
(4, 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from regard.coursework.problem_sets import find_set
from regard.coursework.verdict import MarkedResult, wrap_text
from regard.toml import parse_toml


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that a complete answer contains."""

    text: str
    key: str
    points: int

    @property
    def worth(self) -> str:
        """Its points, in words."""
        return f"{self.points} point{'s' * (self.points != 1)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checklist(MarkedResult):
    """The items of one question of a set, in the order of a good answer."""

    set: str
    question: str
    items: tuple[Item, ...]

    @property
    def points(self) -> int:
        """What a complete answer gets."""
        return sum(item.points for item in self.items)

    def __str__(self) -> str:
        return self.text(keys=False)

    def text(self, *, keys: bool) -> str:
        """The list to tick; with ``keys``, what each item should come to under it."""
        lines = [f"A complete answer to {self.set}, {self.question} contains ({self.points} points):"]
        for item in self.items:
            lines.append(wrap_text(f"[ ] {item.text} ({item.worth})", indent=2, hang=4))
            if keys:
                lines.append(wrap_text(item.key, indent=6))
        return "\n".join(lines)

    def marked_dict(self) -> dict[str, Any]:
        return {**super().marked_dict(), "points": self.points}


def of(set: str, question: str) -> Checklist:
    """The checklist of one question; set and question may be written as ``regard claims`` takes them.

    >>> of("cs224n", "1-6")
    Traceback (most recent call last):
    regard.errors.InputError: cs224n-w25-a4 has no question '1-6'. ...
    """
    known_set = find_set(set)
    label = known_set.label(question)
    return Checklist(set=known_set.name, question=label, items=_items()[known_set.name, label])


def questions() -> tuple[tuple[str, str], ...]:
    """Every set and question that has a checklist."""
    return tuple(_items())


@cache
def _items() -> dict[tuple[str, str], tuple[Item, ...]]:
    """The items by set and label; a question that two lists name has the items of both, in the file's order."""
    text = resources.files("regard.coursework").joinpath("checklists.toml").read_text(encoding="utf-8")
    by_question: dict[tuple[str, str], tuple[Item, ...]] = {}
    for one in parse_toml(text)["checklist"]:
        items = tuple(Item(**item) for item in one["items"])
        for name, labels in one["of"].items():
            for label in labels:
                by_question[name, label] = (*by_question.get((name, label), ()), *items)
    return by_question

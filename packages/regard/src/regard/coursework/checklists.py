"""What a complete written answer contains: a list that a student marks an answer by, once it is written, and a teacher.

The lists are data, ``checklists.toml`` beside this file. An item has ``text``, what must be there, said without giving
it away; ``key``, what it should come to, for the person who marks; and its points, which are ours: a course has its
own. 0 points are for what goes beyond the question. Every question of every set has a list, and nearly every one an
answer of ours that earns the marks.

>>> found = of("cs224n-w25-a4", "1-5")
>>> found.points, found.items[0].points
(4, 2)
>>> mine = of("cse151b-hw4", "1A.iv").write("The value of the best match is copied.").tick(1)
>>> mine.points, mine.answer
(1, False)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from regard.coursework.problem_sets import find_set
from regard.coursework.verdict import MarkedResult, wrap_text
from regard.errors import InputError
from regard.toml import package_table


@dataclass(frozen=True, kw_only=True)
class Item:
    """One thing that a complete answer contains."""

    text: str
    key: str
    points: int
    part: str = ""  # of a question in two parts: what the second is about

    @property
    def worth(self) -> str:
        """Its points, in words."""
        return f"{self.points} point{'s' * (self.points != 1)}" if self.points else "beyond the question"


@dataclass(frozen=True, kw_only=True, eq=False)
class Checklist(MarkedResult):
    """The items of one question of a set, in the order of a good answer."""

    set: str
    question: str
    items: tuple[Item, ...]
    full_answer: str = ""  # which earns the marks

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
        if keys and self.full_answer:
            lines += ["  What earns the marks:", wrap_text(self.full_answer, indent=6)]
        return "\n".join(lines)

    def write(self, text: str) -> WrittenAnswer:
        """An answer of your own in words, which you mark then: the list stands beside it, with what each should be."""
        if not text.strip():
            raise InputError(f"The answer to {self.set}, {self.question} is blank: write it first, then mark it.")
        return WrittenAnswer(checklist=self, text=text.strip())

    def marked_dict(self) -> dict[str, Any]:
        return {**super().marked_dict(), "points": self.points}


@dataclass(frozen=True, kw_only=True, eq=False)
class WrittenAnswer(MarkedResult):
    """An answer in words beside its checklist, as its writer marked it; ``answer`` says whether nothing is missing."""

    checklist: Checklist
    text: str
    ticks: tuple[int, ...] = ()  # the numbers of the items that are in it, from 1

    def tick(self, *numbers: int) -> WrittenAnswer:
        """The same with these items ticked, by their numbers from 1, and no others."""
        for number in numbers:
            if number not in range(1, len(self.checklist.items) + 1):
                raise InputError(f"There is no item {number}; the list has 1 to {len(self.checklist.items)}.")
        return replace(self, ticks=tuple(sorted({*numbers})))

    @property
    def points(self) -> int:
        """What the ticked items are worth."""
        return sum(self.checklist.items[number - 1].points for number in self.ticks)

    @property
    def answer(self) -> bool:
        return self.points == self.checklist.points

    @property
    def too_long(self) -> str:
        """A sentence, where the set wants so many sentences and this has more."""
        most = find_set(self.checklist.set).question(self.checklist.question).sentences
        count = len(re.findall(r"[^.!?]+(?:[.!?]+(?=\s|$)|$)", re.sub(r"(?<=\S)\.(?=\S)", "", self.text)))
        wanted = "one sentence" if most == 1 else f"at most {most} sentences"
        return f"The set wants {wanted}; this has about {count}." if most and count > most else ""

    def __str__(self) -> str:
        asked = f"{self.checklist.set}, {self.checklist.question}"
        lines = [f"Your answer to {asked}:", wrap_text(self.text, indent=2), *([self.too_long] * bool(self.too_long))]
        for number, item in enumerate(self.checklist.items, 1):
            box = "x" if number in self.ticks else " "
            lines.append(wrap_text(f"[{box}] {number}. {item.text} ({item.worth})", indent=2, hang=7))
            lines.append(wrap_text(item.key, indent=9))
        lines.append(f"{self.points} of {self.checklist.points} points, as you marked it.")
        if self.ticks and self.checklist.full_answer:
            lines += ["An answer that earns the marks:", wrap_text(self.checklist.full_answer, indent=2)]
        return "\n".join(lines)

    def marked_dict(self) -> dict[str, Any]:
        of = self.checklist.marked_dict()
        return {**of, "text": self.text, "ticks": list(self.ticks), "points": self.points, "of": self.checklist.points}


def of(set: str, question: str) -> Checklist:
    """The checklist of one question; set and question may be written as ``regard claims`` takes them.

    >>> of("cs224n", "1-6")
    Traceback (most recent call last):
    regard.errors.InputError: cs224n-w25-a4 has no question '1-6'. ...
    """
    known_set = find_set(set)
    label = known_set.label(question)
    items, full_answer = _lists()[known_set.name, label]
    return Checklist(set=known_set.name, question=label, items=items, full_answer=full_answer)


def questions() -> tuple[tuple[str, str], ...]:
    """Every set and question that has a checklist."""
    return tuple(_lists())


@cache
def _lists() -> dict[tuple[str, str], tuple[tuple[Item, ...], str]]:
    """Items and full answer by set and label; a question that two lists name has both, in the file's order."""
    lists: dict[tuple[str, str], tuple[tuple[Item, ...], str]] = {}
    for one in package_table("regard.coursework", "checklists.toml")["checklist"]:
        items = tuple(Item(**item, part=one.get("part", "")) for item in one["items"])
        for place in ((name, label) for name, labels in one["of"].items() for label in labels):
            before, said = lists.get(place, ((), ""))
            lists[place] = ((*before, *items), f"{said} {one.get('answer', '')}".strip())
    return lists

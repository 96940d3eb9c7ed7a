"""The tour: the tutorial's steps as cards in the pages themselves.

A card says what to do, notices by itself that it was done, and then says why it came out as it did. What counts as done
is decided here, from the state and the answer that the page shows anyway; the browser keeps which tasks were done, and
draws the cards. Their texts are in :mod:`regard.lab.tour_cards`, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from regard.lab.page import Answer


@dataclass(frozen=True, kw_only=True)
class PageView:
    """What a card sees of its page: the words of the state, those of its beginning, and what the page answered."""

    words: Mapping[str, str]
    began: Mapping[str, str]
    numbers: Mapping[str, float]
    picture: Mapping[str, Any]

    def word_list(self, name: str) -> list[str]:
        """A word of the state that is a list, such as the chosen keys."""
        return [part for part in self.words.get(name, "").split(",") if part]

    def has_changed(self, name: str) -> bool:
        """Whether a word is another than at the card's beginning, spaces aside."""
        return self.words[name].replace(" ", "") != self.began.get(name, "").replace(" ", "")


@dataclass(frozen=True, kw_only=True)
class Task:
    """One thing to do: said in a sentence, known by what the page shows, and words of a state in which it is done."""

    do: str
    did: Callable[[PageView], bool]
    shown: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Card:
    """A step of the tutorial on one page of the lab.

    step: its number in the tutorial. start: the words of the address that it begins with. tasks: what to do, in order.
    seen: what came out, said once all tasks are done. why: the reason, in a sentence or two.
    """

    name: str
    step: int
    page: str
    title: str
    tasks: tuple[Task, ...]
    seen: str
    why: str
    start: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where the card begins: a page of the lab with its state, as the tutorial links to it."""
        words = "&".join(f"{name}={quote(word, safe=',;:')}" for name, word in self.start.items())
        return f"/{self.page}" + (f"?{words.replace('%20', '+')}" if words else "")

    def to_dict(self) -> dict[str, Any]:
        tasks = [{"do": task.do, "shown": task.shown} for task in self.tasks]
        said = {"name": self.name, "step": self.step, "page": self.page, "title": self.title, "seen": self.seen}
        return {**said, "why": self.why, "address": self.address, "tasks": tasks}


def done_tasks(cards: Iterable[Card], answer: Answer, *, words: Mapping[str, str]) -> dict[str, list[int]]:
    """Which tasks of a page's cards the page's present state fulfils, by card; words: of that state, every one."""
    now = {**words, **answer.state}
    numbers = {number.name: number.value for number in answer.numbers}
    done = {}
    for card in cards:
        scene = PageView(words=now, began=card.start, numbers=numbers, picture=answer.picture)
        done[card.name] = [i for i, task in enumerate(card.tasks) if task.did(scene)]
    return done

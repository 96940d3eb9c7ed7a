"""The tour: the tutorial's steps as cards in the pages themselves.

A card says what to do, notices by itself that it was done, and then says why it came out as it did. The texts are in
``tour.toml``; what counts as done is decided here, from the state and the answer that the page shows anyway. A browser
keeps which tasks were done, and draws the cards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any
from urllib.parse import quote

from regard.lab.page import Answer
from regard.strict_json import JsonObject
from regard.toml import parse_toml


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

    def weight(self, key: int) -> float:
        return float(self._key(key).get("weight", 0.0))

    def ceiling(self, key: int) -> float:
        """The most that a key can get; 0 where there is no such key, or nobody could find out."""
        return float(self._key(key).get("ceiling") or 0.0)

    def lead(self) -> float:
        """How far the score of key 0 is ahead of key 1's, where there are two keys."""
        return float(self._key(0)["score"] - self._key(1)["score"]) if len(self.picture["keys"]) == 2 else 0.0

    def _key(self, key: int) -> Mapping[str, Any]:
        keys = self.picture["keys"]
        return keys[key] if key < len(keys) else {}


@dataclass(frozen=True, kw_only=True)
class TourTask:
    """One thing to do: said in a sentence, known by what the page shows, and words of a state in which it is done."""

    do: str
    done: str  # a name in CONDITIONS
    shown: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Card:
    """A step of the tutorial on one page of the lab; ``tour.toml`` says what each field holds."""

    name: str
    step: int
    page: str
    title: str
    tasks: tuple[TourTask, ...]
    seen: str
    why: str
    start: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """Where the card begins: a page of the lab with its state, as the tutorial links to it."""
        words = "&".join(f"{name}={quote(word, safe=',;:')}" for name, word in self.start.items())
        return f"/{self.page}" + (f"?{words.replace('%20', '+')}" if words else "")

    def to_dict(self) -> JsonObject:
        tasks = [{"do": task.do, "shown": task.shown} for task in self.tasks]
        said = {"name": self.name, "step": self.step, "page": self.page, "title": self.title, "seen": self.seen}
        return {**said, "why": self.why, "address": self.address, "tasks": tasks}


CONDITIONS: dict[str, Callable[[PageView], bool]] = {
    "the score is negative": lambda view: len(view.picture["keys"]) == 1 and view.picture["keys"][0]["score"] < 0,
    "the norm grew and the lead stayed": lambda view: view.numbers["own-norm"] > 5 and abs(view.lead() - 2) <= 0.4,
    "the lead is lost": lambda view: view.lead() < 0,
    "the shortest was taken": lambda view: _took_the_shortest(view),
    "the shortest is long": lambda view: view.words["to"] == "4" and view.numbers.get("shortest-norm", 0.0) > 25,
    "another pair shares": lambda view: _is_pair(view) and view.has_changed("to") and "shortest-norm" in view.numbers,
    "a pair cannot share": lambda view: _is_pair(view) and "bound" in view.numbers,
    "the view has turned": lambda view: view.has_changed("view"),
    "a quarter and no more": lambda view: view.weight(3) >= 0.24 and view.ceiling(3) < 0.5,
    "the ceiling rose": lambda view: view.ceiling(3) > 0.5,
    "the scale is large": lambda view: float(view.words["scale"]) >= 20,
    "one head is better": lambda view: view.numbers["one-error"] < view.numbers["two-error"],
    "the spread is gone": lambda view: float(view.words["spread"]) == 0,
    "the words were moved": lambda view: view.words["positions"] == "off" and view.has_changed("order"),
    "positions show": lambda view: view.words["positions"] == "on" and any(view.picture["differs"]),
    "two positions are equal": lambda view: view.words["format"] != "real" and view.numbers.get("nearest") == 0,
    "the energy is kept": lambda view: view.numbers["energy"] >= 90,
    "a matrix of one's own": lambda view: not view.words["matrix"].startswith("example:"),
    "a sentence of one's own": lambda view: _translated_own_sentence(view),
    "the verdict is shown": lambda view: _shows_claim(view, "verdict", "proof"),
    "the proof is shown": lambda view: _shows_claim(view, "proof"),
}


def _is_pair(view: PageView) -> bool:
    return len(view.word_list("to")) == 2


def _took_the_shortest(view: PageView) -> bool:
    own, shortest = view.numbers["own-norm"], view.numbers.get("shortest-norm", -1.0)
    return abs(own - shortest) <= 1e-6 * own and view.numbers["own-attention"] >= 0.99


def _translated_own_sentence(view: PageView) -> bool:
    """A translation, and not of a sentence that the page itself offers: it begins with one."""
    offered = view.picture.get("examples", [])
    return bool(view.picture.get("said")) and view.has_changed("text") and view.words["text"] not in offered


def _shows_claim(view: PageView, *shows: str) -> bool:
    return view.words["claim"] == "copying-condition" and view.words["show"] in shows


def _read_cards() -> tuple[Card, ...]:
    text = resources.files("regard.lab").joinpath("tour.toml").read_text(encoding="utf-8")
    cards = parse_toml(text)["card"]
    return tuple(Card(**{**card, "tasks": tuple(TourTask(**task) for task in card["tasks"])}) for card in cards)


CARDS = _read_cards()


def done_tasks(cards: Iterable[Card], answer: Answer, *, words: Mapping[str, str]) -> dict[str, list[int]]:
    """Which tasks of a page's cards the page's present state fulfils, by card; words: of that state, every one."""
    now = {**words, **answer.state}
    numbers = {number.name: number.value for number in answer.numbers}
    done = {}
    for card in cards:
        view = PageView(words=now, began=card.start, numbers=numbers, picture=answer.picture)
        done[card.name] = [i for i, task in enumerate(card.tasks) if CONDITIONS[task.done](view)]
    return done

"""The whole catalogue by name, and what a person asks of it: the list, and one entry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from regard.errors import InputError, suggest_name
from regard.mistakes.feed_forward import NORM_MISTAKES
from regard.mistakes.grouped_and_causal import MISTAKES as LIBRARY_CALLS
from regard.mistakes.layer import LIBRARY
from regard.mistakes.mistake import Mistake, Weight
from regard.results import Result


@cache
def catalogue() -> dict[str, Mistake]:
    """Every mistake and departure by its name; variations are right and not among them."""
    found: dict[str, Mistake] = {}
    for one in (*LIBRARY, *LIBRARY_CALLS, *NORM_MISTAKES):
        if one.weight is not Weight.VARIATION:
            found.setdefault(one.name, one)  # a mistake may be made in two ways; the first is shown
    return found


def find_mistake(name: str) -> Mistake:
    """The mistake of that name.

    >>> find_mistake("scale-mising")
    Traceback (most recent call last):
    regard.errors.InputError: There is no mistake 'scale-mising'; did you mean 'scale-missing'? (there are: ...).
    """
    known = catalogue()
    if name not in known:
        raise InputError(f"There is no mistake {name!r}; {suggest_name(name, list(known))}")
    return known[name]


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """One line of the list."""

    name: str
    stage: str
    sentence: str
    instead: str
    weight: str


@dataclass(frozen=True, kw_only=True, eq=False)
class MistakeList(Result):
    """What ``regard mistakes`` prints."""

    mistakes: tuple[Entry, ...]

    def __str__(self) -> str:
        wide = max(len(one.name) for one in self.mistakes)
        lines = []
        for stage in dict.fromkeys(one.stage for one in self.mistakes):
            lines += ["", f"{stage}:"]
            lines += [
                f"  {one.name:<{wide}}  {one.sentence}" + (" *" if one.weight == Weight.DEPARTURE else "")
                for one in self.mistakes
                if one.stage == stage
            ]
        lines += ["", f"{len(self.mistakes)} mistakes; those with * are right in some other model."]
        lines += ["One of them as a file to run: regard mistakes show NAME"]
        return "\n".join(lines[1:])


def list_mistakes() -> MistakeList:
    """The catalogue, stage by stage."""
    return MistakeList(
        mistakes=tuple(
            Entry(name=one.name, stage=one.stage, sentence=one.said, instead=one.instead, weight=str(one.weight))
            for one in catalogue().values()
        )
    )

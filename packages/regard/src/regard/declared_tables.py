"""Tables of settings, declared once: a dataclass whose fields carry the default, the rule and the comment of each key.

    @dataclass(frozen=True, kw_only=True)
    class Late:
        per_day: float = entry(0.0, "share of the points that each day costs", least=0, most=1)

:func:`read_table` reads one from a TOML file's table. Every mistake of a file is collected in one :class:`Mistakes`,
so that a person sees them all at once; nothing else in regard checks the keys of a file.
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from regard.errors import InputError, similar_names
from regard.written_numbers import in_full

LARGEST = 2**31 - 1  # of whole numbers without a bound of their own: more would overflow somewhere
MOST_SAID = 50  # mistakes of one file
_KINDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """A range of numbers; ``above`` and ``below`` are strict, ``least`` and ``most`` are not.

    >>> Bounds(least=0, below=1).words(), Bounds(least=1).words(), Bounds(least=2, most=1e9).words()
    (' of at least 0 and below 1', ' of 1 or more', ' from 2 to 1000000000')
    """

    least: float | None = None
    above: float | None = None
    most: float | None = None
    below: float | None = None

    def contains(self, number: float) -> bool:
        """Whether a number is in the range; NaN is in none that has a bound."""
        return (
            (self.least is None or number >= self.least)
            and (self.above is None or number > self.above)
            and (self.most is None or number <= self.most)
            and (self.below is None or number < self.below)
        )

    def words(self) -> str:
        """The range as it follows "a number"; empty where there is no bound."""
        if self.least is not None and self.most is not None:
            return f" from {in_full(self.least)} to {in_full(self.most)}"
        low = "" if self.above is None else f"above {in_full(self.above)}"
        high = "" if self.below is None else f"below {in_full(self.below)}"
        if self.least is not None:
            low = f"of at least {in_full(self.least)}" if high else f"of {in_full(self.least)} or more"
        if self.most is not None:
            high = f"at most {in_full(self.most)}" if low else f"of {in_full(self.most)} or less"
        return f" {' and '.join(part for part in (low, high) if part)}" if low or high else ""


@dataclass(frozen=True, kw_only=True)
class Rule(Bounds):
    """What a value must be besides its type: in a range, one of some words, or what ``test`` accepts."""

    choices: tuple[str, ...] = ()
    test: Callable[[Any], object] | None = None
    form: str = ""  # what ``test`` accepts, in words


def entry(default: Any = dataclasses.MISSING, about: str = "", **rule: Any) -> Any:
    """A field of a declared table: its default (none: the key is required), its comment, and its :class:`Rule`."""
    metadata = {"about": about, "rule": Rule(**rule)}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=lambda: type(default)(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


class Mistakes:
    """What is wrong with one file, each in a sentence; ``raise_if_any`` tells them together."""

    def __init__(self, thing: str, *, verb: str = "has") -> None:
        self.thing, self.verb = thing, verb
        self.sentences: list[str] = []

    def add(self, sentence: str) -> None:
        """One more; what is said already is not said twice."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)

    def error(self) -> InputError:
        """All of them, one per line."""
        count = "a mistake" if len(self.sentences) == 1 else f"{len(self.sentences)} mistakes"
        more = [f"and {len(self.sentences) - MOST_SAID:,} more."] if len(self.sentences) > MOST_SAID else []
        return InputError("\n- ".join([f"{self.thing} {self.verb} {count}:", *self.sentences[:MOST_SAID], *more]))

    def raise_if_any(self) -> None:
        """The error, unless nothing is wrong."""
        if self.sentences:
            raise self.error()


def suggest(name: str, known: Sequence[str]) -> str:
    """The end of a sentence about a name that is not known: the name that was probably meant, or what names there are.

    >>> suggest("widht", ["width", "heads"]), suggest("x", ["width", "heads"])
    ("; did you mean 'width'?", '; there are heads, width.')
    """
    close, names = similar_names(name, known), sorted(set(known))
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"; did you mean {close[0]!r}?" if close else f"; there are {listed or 'none'}."


def read_table(kind: type[T], table: Mapping[str, Any], mistakes: Mistakes, *, where: str = "") -> T | None:
    """The table as an object of its dataclass; ``where`` begins every sentence about it.

    A wrong value is reported, and its default taken for the moment. None: a required key is missing or wrong.
    """
    known = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in table:
        if name not in known:
            mistakes.add(f"{where}there is no key {_short(name)}{suggest(name, list(known))}")
    values, complete = {}, True
    for name, field in known.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if name not in table:
            complete = complete and not required
            if required:
                about = field.metadata.get("about")
                mistakes.add(f"{where}{name} is missing{f': {about}' if about else ''}.")
            continue
        value, problem = check_value(table[name], *field_rule(kind, name))  # type: ignore[arg-type]  # a type is hashable
        if not problem:
            values[name] = value
        else:
            mistakes.add(f"{where}{name} {problem}.")
            complete = complete and not required
    return kind(**values) if complete else None


def read_tables(kind: type[T], tables: Any, name: str, mistakes: Mistakes) -> list[T]:
    """The tables of one name, written ``[[name]]``; those with a required key missing or wrong are left out."""
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        mistakes.add(f"{name} must be written [[{name}]], a table for each.")
        return []
    read = [read_table(kind, one, mistakes, where=f"{name} {n}: ") for n, one in enumerate(tables, 1)]
    return [one for one in read if one is not None]


@cache
def field_rule(kind: type, name: str) -> tuple[Any, Rule]:
    """The type and the rule of one key."""
    field = next(one for one in dataclasses.fields(kind) if one.name == name)
    return get_type_hints(kind)[name], field.metadata.get("rule", Rule())


def check_value(value: Any, hint: Any, rule: Rule) -> tuple[Any, str]:
    """The value in its type and nothing; or the value as it came and what it must be instead.

    >>> check_value(3, float, Rule(least=0, most=1))
    (3.0, 'must be a number from 0 to 1, not 3.0')
    """
    hints = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kinds = tuple(get_origin(one) or one for one in hints)
    if isinstance(kinds[0], type) and issubclass(kinds[0], StrEnum):
        words = [one.value for one in kinds[0]]
        problem = f"must be one of {', '.join(words)}, not {_short(value)}"
        return (kinds[0](value), "") if value in words else (value, problem)
    if float in kinds and int not in kinds and type(value) is int:
        value = float(value) if abs(value) < 10**308 else math.inf
    # type, not isinstance: true is an int to Python, and no number to a person
    if Any not in kinds and type(value) not in kinds:
        return value, f"must be {_words_for(kinds, rule)}, not {_short(value)}"
    if isinstance(value, float) and not math.isfinite(value):
        return value, f"must be a finite number, not {value}"
    if not _obeys(value, rule):
        return value, f"must be {_words_for(kinds, rule)}, not {_short(value)}"
    if type(value) is int and abs(value) > LARGEST and rule.most is None and rule.below is None:
        return value, f"must be {LARGEST} or less, not {_short(value)}"
    return value, ""


def _obeys(value: Any, rule: Rule) -> bool:
    if rule.choices and value not in rule.choices:
        return False
    if rule.test is not None and not rule.test(value):
        return False
    return rule.contains(value) if type(value) in (int, float) else True


def _words_for(kinds: tuple[Any, ...], rule: Rule) -> str:
    """What a value must be, in words."""
    if rule.choices:
        return f"one of {', '.join(rule.choices)}"
    return rule.form or _KINDS[float if float in kinds else kinds[0]] + rule.words()


def commented_lines(table: Any) -> list[str]:
    """A declared table as lines of TOML, each key below its comment."""
    lines = []
    for field in dataclasses.fields(table):
        lines += [f"# {field.metadata['about']}", f"{field.name} = {toml_value(getattr(table, field.name))}"]
    return lines


def toml_value(value: Any) -> str:
    """A plain value as TOML writes it; a TOML string is a JSON string."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _short(value: object) -> str:
    """A value as Python writes it, or its beginning: a person may have typed a number of 400 digits."""
    written = repr(value)
    return written if len(written) <= 80 else f"{written[:39]}..."

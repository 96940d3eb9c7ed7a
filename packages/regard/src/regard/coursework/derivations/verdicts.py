"""What is said of one relation of a derivation, and how rules and instances are written there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from regard.coursework.derivations.document import Statement
from regard.coursework.derivations.evaluation import Instance, write_value
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.terms import Term, free_names

WIDEST = 160  # letters of a line that is not read


class Mark(StrEnum):
    """What is said of a relation."""

    FOLLOWS = "follows"
    TRUE = "true, but say why"
    FALSE = "false"
    NOT_READ = "not read"
    DEFINES = "definition"


@dataclass(frozen=True, kw_only=True)
class LineVerdict:
    """One relation with its mark; ``rules`` prove it, ``remark`` says what is wrong or missing."""

    line: int
    text: str
    mark: Mark
    rules: tuple[str, ...] = ()
    leap: int = 0
    remark: str = ""
    caret: int = -1  # the place in ``text`` that is not read
    instance: str = ""
    values: tuple[str, str] = ("", "")
    repair: str = ""

    @property
    def text_and_caret(self) -> list[str]:
        """The relation, and below it a caret where reading stopped."""
        if self.caret < 0:
            return [self.text]
        first = self.text.split("\n")[0]
        caret = min(self.caret, len(first))
        start = max(0, caret - WIDEST // 2) if len(first) > WIDEST else 0  # of a long line, what stands around it
        return [first[start : start + WIDEST], " " * (caret - start) + "^"]


@dataclass
class Relation:
    """One relation of a chain, as terms."""

    statement: Statement
    left: Term
    sign: str
    right: Term

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"

    @property
    def names(self) -> set[str]:
        return free_names(self.left) | free_names(self.right)


@dataclass
class Failure:
    """Where a relation certainly fails."""

    where: Instance
    places: dict[str, Fraction]
    values: tuple[str, str]


def name_rules(rules: tuple[str, ...]) -> list[str]:
    """Rules by name, definitions last and together."""
    plain = [one for one in rules if not one.startswith("definition of ")]
    definitions = [one.removeprefix("definition of ") for one in rules if one.startswith("definition of ")]
    return plain + ([f"definition of {', '.join(definitions)}"] if definitions else []) or ["arithmetic"]


def join_signs(signs: list[str]) -> str | None:
    """The relation from the first side of a chain to its last; None where they point in different directions."""
    kinds = set(signs) - {"="}
    if not kinds:
        return "="
    if kinds <= {"<=", "<"}:
        return "<" if "<" in kinds else "<="
    if kinds <= {">=", ">"}:
        return ">" if ">" in kinds else ">="
    return None


def describe(failure: Failure, problem: Problem, left: Term, right: Term) -> str:
    """The instance in words: sizes, and what stands in the line."""
    names: set[str] = free_names(left) | free_names(right)
    where = failure.where
    for _ in range(6):
        names |= {one for name in names if name in where.definitions for one in free_names(where.definitions[name][1])}
    shown = [
        name
        for name in [*problem.sizes, *problem.symbols]
        if name in names and name in where.values and name not in where.definitions
    ]
    said = [f"{name} = {write_value(where.values[name])}" for name in shown[:8]]
    return ", ".join([*said, *(f"{index} = {place}" for index, place in failure.places.items())])

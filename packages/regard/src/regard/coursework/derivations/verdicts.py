"""What is said of one relation of a derivation, and how rules and instances are written there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import islice

from regard.coursework.derivations.document import Statement
from regard.coursework.derivations.evaluation import Instance, Number, write_value
from regard.coursework.derivations.problem import Problem
from regard.coursework.derivations.terms import TURNED, Term, apply, free_names, mul, num, sym

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
    places: dict[str, Number]
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


# What a false line would need: the smallest edits of one side that make it true on the instances.


MOST = 60  # edits of a side: each is tried on every instance


def find_repair(left: Term, sign: str, right: Term, holds: Callable[[Term, Term], bool]) -> str:
    """A sentence such as "P P V were P^T P V", for the first edit that holds; empty where none does."""
    tries = [(old, new, left, whole) for old, new, whole in islice(edits(right), MOST)]
    tries += [(old, new, whole, right) for old, new, whole in islice(edits(left), MOST)]
    for old, new, one, other in tries:
        if one != other and holds(one, other):
            return f"{old} were {new}{name_mistake(old, new)}"
    turned = TURNED.get(sign)
    return f"{sign} were {turned}" if turned and holds(right, left) else ""


def name_mistake(old: Term, new: Term) -> str:
    """What the catalogue of mistakes says of an edit, if it has one of that kind."""
    pairs = [(old, new), *zip(old.args, new.args, strict=False)]
    name = next((name for a, b in pairs for name, cure in known_mistakes(a) if cure == b), None)
    if name is None:
        return ""
    from regard.mistakes.catalogue import find_mistake  # here, since it takes a third of a second

    return f": the line has {find_mistake(name).said} ({name} in the list of mistakes)"


def known_mistakes(term: Term) -> Iterator[tuple[str, Term]]:
    """Mistakes of the catalogue that a formula can have, by name, each with the term that cures it."""
    root = apply("pow", sym("d"), num(Fraction(1, 2)))
    if term.op == "softmax":
        inside = term.args[0]
        yield "scale-missing", apply("softmax", apply("div", inside, root))
        if inside.op == "div" and inside.args[1] == sym("d"):
            yield "scale-by-width", apply("softmax", apply("div", inside.args[0], root))
        if inside.op == "softmax":
            yield "softmax-twice", inside
    if term.op == "div" and term.args[1] == root:
        yield "softmax-missing", apply("softmax", term)
    if term.op == "add":
        yield "relu-missing", apply("relu", term)


def edits(term: Term) -> Iterator[tuple[Term, Term, Term]]:
    """Each edit as the part before, the part after, and the whole term with it."""
    for _, new in known_mistakes(term):
        yield term, new, new
    for old, new in _edits_here(term):
        yield old, new, new
    for n, one in enumerate(term.args):
        for old, new, whole in edits(one):
            made = Term(term.op, (*term.args[:n], whole, *term.args[n + 1 :]), term.value)
            # a factor is named with its product, so that one sees where it stands
            yield (term, made, made) if term.op == "mul" and old is one else (old, new, made)


def _edits_here(term: Term) -> Iterator[tuple[Term, Term]]:
    if term.op == "T":
        yield term, term.args[0]
    if term.op in ("sym", "at"):
        yield term, apply("T", term)
    if term.op == "tr" and term.args[0].op in ("sym", "mul"):
        yield term, apply("tr", mul(term.args[0], term.args[0]))
    if term.op == "mul":
        for n in range(len(term.args)):
            yield term, mul(*term.args[:n], *term.args[n + 1 :]) if len(term.args) > 1 else num(1)
        for n in range(len(term.args) - 1):
            swapped = (*term.args[:n], term.args[n + 1], term.args[n], *term.args[n + 2 :])
            yield term, mul(*swapped)
    if term.op == "mul" and term.args[0].op == "sym" and term.args[-1].op != "T":
        yield term, mul(*term.args, apply("T", term.args[0]))
    if term.op == "pow" and term.args[1].op == "num":
        yield term, term.args[0]
    if term.op in ("sym", "at", "norm"):
        yield term, apply("pow", term, num(2))
    if term.op == "num" and term.value not in (0, 1):
        yield term, num(-term.value)
        yield term, num(1 / term.value)
    if term.op == "add":
        for n in range(len(term.args)):
            rest = (*term.args[:n], *term.args[n + 1 :])
            yield term, rest[0] if len(rest) == 1 else Term("add", rest)

"""What a derivation is about: names with shapes and properties, what is given, which lemmas may be used, the goal.

One TOML file per problem, in the folder ``problems`` or a teacher's own; docs/derivations.md shows it line by line.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from regard.coursework.derivations.evaluation import Instance, NoValue, Number, compare, evaluate, exact
from regard.coursework.derivations.grammar import read_whole
from regard.coursework.derivations.instances import make_instances
from regard.coursework.derivations.names import SCALAR, Mismatch, Vocabulary, fit_relation
from regard.coursework.derivations.terms import (
    Condition,
    Definitions,
    Span,
    Term,
    add,
    free_names,
    mul,
    num,
    replace,
    sym,
)
from regard.coursework.derivations.tokens import NotRead, read_tokens
from regard.declared_tables import Mistakes, entry, read_table
from regard.errors import InputError
from regard.rigor.balls import precise
from regard.toml import read_toml

FOLDER = Path(__file__).parent / "problems"
MOST_PLACES = 500  # choices of indices that a relation is tried at
KINDS = (
    *("permutation", "orthonormal", "orthonormal beside ", "diagonal of ", "columns of ", "sorted"),
    *("unit, at distance 1 from the first", "positive", "whole", ""),
)


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """A name of the problem: one entry of [symbols] in its file. A family begins at 1."""

    shape: Any = entry(SCALAR, "rows and columns: names of sizes, or numbers")
    kind: str = entry("", "a property; in a file it is called ``is``")
    last: str = entry("", "of a family: its last index")
    up_to: str = entry("", "of an index: the size that it runs up to")
    choices: list[str] = entry([], "the numbers that it may be")
    says: str = entry("", "what it is, for the template")

    @property
    def is_positive(self) -> bool:
        chosen = bool(self.choices) and all(Fraction(one) > 0 for one in self.choices)
        return self.kind == "positive" or bool(self.up_to) or chosen


@dataclass(frozen=True)
class Fact:
    """A relation that may be used, with its name."""

    name: str
    left: Term
    sign: str
    right: Term
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class ProblemTable:
    """A problem's file."""

    title: str = entry("", "one line about it")
    leap: int = entry(4, "how many rules one line may need", least=1, most=20)
    ones: str = entry("", "how long the vector of ones is: the name of a size")
    input: str = entry("", "the input that P permutes: then Q_p is Q of the permuted input")
    norm: str = entry("2", "which norm ||A|| of a matrix is", choices=("2", "F"))
    multiple: str = entry("", "a whole number m that the writer introduces by x = 2 pi m")
    definitions: list[str] = entry([], "names that are defined: Q = X W_Q")
    given: list[Any] = entry([], "facts that may be used")
    lemmas: list[Any] = entry([], "lemmas about any matrix A that may be used")
    conditions: list[Any] = entry([], "what instances must satisfy")
    suppose: list[Any] = entry([], "what is supposed, and leads to the goal")
    order: list[Any] = entry([], "inequalities that are given, with for = an index's condition")
    positive: list[str] = entry([], "terms that are positive")
    require: list[Any] = entry([], "what a choice of the writer must satisfy")
    goal: list[Any] = entry([], "what is to be shown")
    hints: list[str] = entry([], "first where to go, last by which rules")
    same: dict[str, Any] = entry({}, "letters that are read as others")
    readings: dict[str, Any] = entry({}, "letters that people use without a word, and what they may mean")
    values: dict[str, Any] = entry({}, "how instances get the value of a name; no rule of a proof")
    choose: dict[str, Any] = entry({}, "names that the writer chooses, and from which others")
    least: dict[str, Any] = entry({}, "the least that a size is")
    sizes: dict[str, Any] = entry({}, "sizes, each with numbers to try")
    symbols: dict[str, Any] = entry({}, "the names")


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A problem as its file has it; formulas are read."""

    name: str
    table: ProblemTable
    symbols: dict[str, Symbol]
    sizes: dict[str, list[int]]
    definitions: Definitions
    choose: dict[str, tuple[str, ...]]
    words: Vocabulary
    given: tuple[Fact, ...] = ()
    lemmas: tuple[Fact, ...] = ()
    conditions: tuple[Fact, ...] = ()
    suppose: tuple[Fact, ...] = ()
    require: tuple[Fact, ...] = ()
    goal: tuple[Fact, ...] = ()
    order: tuple[tuple[Fact, frozenset[Condition]], ...] = ()
    positive: tuple[Term, ...] = ()
    readings: dict[str, list[tuple[str, Term]]] = field(default_factory=dict)
    values: Definitions = field(default_factory=dict)

    @cached_property
    def whole(self) -> frozenset[str]:
        """Names of whole numbers, where an argument rests on their being whole."""
        return frozenset(name for name, one in self.symbols.items() if one.kind == "whole")

    @cached_property
    def shifts(self) -> list[tuple[str, int | str]]:
        """What sizes exceed: d exceeds k, where k runs up to d, and n exceeds 2, where n is at least 2."""
        upper = {one.up_to: name for name, one in reversed(self.symbols.items()) if one.up_to}
        ends: list[tuple[str, int | str]] = [*upper.items(), *((name, 1) for name in upper.values())]
        return [*ends, *((name, int(self.table.least.get(name, 1))) for name in self.sizes if name not in upper)]

    def is_positive_name(self, name: str) -> bool:
        symbol = self.symbols.get(name)
        return symbol.is_positive if symbol is not None else name in self.sizes or name == "pi"

    def vocabulary(self) -> Vocabulary:
        """A copy that a document may add its own names to."""
        return copy.deepcopy(self.words)

    def permute(self, term: Term) -> Term:
        return permute_names(term, self.words)

    @staticmethod
    def is_rank_bound(fact: Fact, term: Term) -> bool:
        """Whether rank(B) <= r is plain, because B is a sum of r products of a column and a row."""
        if term.op != "sum" or fact.left.op != "rank" or fact.sign != "<=":
            return False
        span: Span = term.value
        flips = [one.op == "T" for one in term.args[0].args if one.op in ("at", "T")]
        vectors = term.args[0].op == "mul" and flips[-2:] == [False, True]
        return vectors and span.lo == num(1) and span.hi == fact.right and not span.without

    @cached_property
    def instances(self) -> list[Instance]:
        return make_instances(self)

    def holds(self, fact: Fact, where: Instance) -> bool:
        """Whether a fact holds on an instance, for every index that stands free in it."""
        return all(
            # balls that are too wide to say refute nothing
            compare(fact.sign, evaluate(fact.left, where, places), evaluate(fact.right, where, places)) is not False
            for places in self.free_places([fact.left, fact.right], where, self.words)
        )

    @staticmethod
    def free_places(terms: list[Term], where: Instance, words: Vocabulary) -> list[dict[str, Number]]:
        """Every choice of the indices that stand free in some terms."""
        names = sorted(set().union(*(free_names(one) for one in terms)) & words.indices - set(words.shapes))
        choices: list[dict[str, Number]] = [{}]
        for name in names:
            ends = next((ends for one in terms if (ends := words.index_range(one, name))), None)
            if ends is not None:
                lo, hi = (int(evaluate(one, where, {})) for one in ends)
                choices = [{**one, name: exact(n)} for one in choices for n in range(lo, hi + 1)][:MOST_PLACES]
        return choices


def permute_names(term: Term, words: Vocabulary) -> Term:
    """The same of the permuted input: Q_p for Q, P X for X."""

    def change(one: Term) -> Term | None:
        if one.op == "sym" and one.value in words.variants:
            return words.permuted_input if one.value == words.input else sym(f"{one.value}_p")
        return None

    return replace(term, change)


def read_side(text: str, words: Vocabulary) -> Term:
    """One side of a relation, as a term."""
    return read_whole(read_tokens(text, names=words.names()), words, "the end of the formula")


@cache
def find_problem(name: str) -> Problem | None:
    """The problem of a claim; None where it has no derivation that is checked."""
    path = FOLDER / f"{name}.toml"
    return read_problem(path) if path.is_file() else None


def problem_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_problem(path: str | os.PathLike[str]) -> Problem:
    """The problem in a TOML file; all its mistakes are told at once."""
    try:
        table = read_toml(path, like='[symbols.P] shape = ["T", "T"], is = "permutation"')
    except FileNotFoundError:
        raise InputError(f"There is no file {os.fspath(path)!r}; name a problem's TOML file.") from None
    with precise():
        return build_problem(Path(path).stem, table, os.fspath(path))


def build_problem(name: str, table: dict[str, Any], path: str) -> Problem:
    """The problem that a table describes."""
    builder = Builder(path)
    problem = builder.build(name, table)
    builder.mistakes.raise_if_any()
    if problem is None:
        raise builder.mistakes.error()
    refuse_false_facts(problem, builder.mistakes)
    builder.mistakes.raise_if_any()
    return problem


class Builder:
    """Builds a problem, and collects what is wrong with it."""

    def __init__(self, path: str) -> None:
        self.mistakes = Mistakes(f"{path}, which is to be a problem for derivations,")
        self.words = Vocabulary()
        self.definitions: Definitions = {}

    def build(self, name: str, table: dict[str, Any]) -> Problem | None:
        own = read_table(ProblemTable, table, self.mistakes)
        if own is None:
            return None
        self.words.norm, self.words.rows, self.words.input = own.norm, own.ones, own.input
        sizes = {key: self.read_size(key, value, own) for key, value in own.sizes.items()}
        symbols = {key: self.read_symbol(key, value) for key, value in own.symbols.items()}
        for key, symbol in symbols.items():
            for word in (*symbol.shape, symbol.last, symbol.up_to):
                if word and not word.isdigit() and word not in sizes:
                    self.mistakes.add(f"[symbols] {key}: {word} is no size; put it into [sizes].")
        if not own.goal:
            self.mistakes.add("goal is missing: what is to be shown.")
        if self.mistakes.sentences:
            return None
        self.add_words(symbols, sizes, own)
        for line in own.definitions:
            self.read_definition(line)
        self.add_permuted()
        lists = ("given", "conditions", "suppose", "require", "goal", "lemmas")
        facts: dict[str, Any] = {key: tuple(self.read_facts(key, getattr(own, key))) for key in lists}
        order = [(fact, self.read_condition(one)) for one in own.order for fact in self.read_facts("order", [one])]
        return Problem(
            name=name,
            table=own,
            symbols=symbols,
            sizes=sizes,
            definitions=self.definitions,
            choose={key: tuple(map(str, value)) for key, value in own.choose.items()},
            words=self.words,
            order=tuple(order),
            positive=tuple(one for text in own.positive if (one := self.read_term(text)) is not None),
            readings={key: self.read_meanings(value) for key, value in own.readings.items()},
            values={key: ("", one) for key, text in own.values.items() if (one := self.read_term(text)) is not None},
            **facts,
        )

    def read_size(self, key: str, value: Any, own: ProblemTable) -> list[int]:
        least = own.least.get(key, 1)
        # not isinstance: TOML's true would pass for the number 1
        if isinstance(value, list) and value and all(type(one) is int and one >= max(1, int(least)) for one in value):
            return list(value)
        self.mistakes.add(f"[sizes] {key} must be a list of whole numbers of {least} or more, and is {value!r}.")
        return [1]

    def read_symbol(self, key: str, value: Any) -> Symbol:
        if not isinstance(value, dict):
            self.mistakes.add(f"[symbols] {key} must be a table, as in {{ shape = ['n', '1'] }}, and is {value!r}.")
            return Symbol()
        plain = {("kind" if name == "is" else name): one for name, one in value.items()}
        symbol = read_table(Symbol, plain, self.mistakes, where=f"[symbols] {key}: ") or Symbol()
        if not any(symbol.kind == one or (one.endswith(" ") and symbol.kind.startswith(one)) for one in KINDS):
            known = ", ".join(filter(None, KINDS))
            self.mistakes.add(f"[symbols] {key} is {symbol.kind!r}, which is none of {known}.")
        if not isinstance(symbol.shape, (list, tuple)) or len(symbol.shape) != 2:
            self.mistakes.add(f"[symbols] {key}: shape must have two entries, rows and columns, not {symbol.shape!r}.")
            symbol = Symbol()
        try:
            for one in symbol.choices:
                Fraction(one)
        except ValueError:
            self.mistakes.add(f"[symbols] {key}: choices must be numbers such as '1/2', and are {symbol.choices!r}.")
        return dataclasses.replace(symbol, shape=tuple(map(str, symbol.shape)))

    def add_words(self, symbols: dict[str, Symbol], sizes: dict[str, list[int]], own: ProblemTable) -> None:
        words = self.words
        words.shapes.update(dict.fromkeys(sizes, SCALAR))
        for key, symbol in symbols.items():
            words.shapes[key] = symbol.shape
            if symbol.last:
                words.families[key] = (num(1), num(int(symbol.last)) if symbol.last.isdigit() else sym(symbol.last))
            elif symbol.shape[1] == "1" and symbol.shape[0] != "1":
                words.families[f"{key}."] = (num(1), sym(symbol.shape[0]))  # its entries
                words.shapes[f"{key}."] = SCALAR
        turns = {key for key, one in symbols.items() if one.shape[0] == one.shape[1] and one.kind in KINDS[:2]}
        words.turns = frozenset(turns)
        words.columns = frozenset(key for key, one in symbols.items() if one.kind.startswith("orthonormal"))
        words.permutation = next((key for key, one in symbols.items() if one.kind == "permutation"), "")
        words.same.update({key: str(value) for key, value in own.same.items()})

    def read_term(self, text: str) -> Term | None:
        try:
            term = read_side(text, self.words)
            return fit_relation(term, term, self.words)[0]
        except (NotRead, Mismatch) as error:
            self.mistakes.add(f"{text} is not read: expected {error}.")
            return None
        finally:
            self.words.unknown.clear()

    def read_meanings(self, texts: list[str]) -> list[tuple[str, Term]]:
        return [(text, one) for text in texts if (one := self.read_term(text)) is not None]

    @contextmanager
    def mistakes_of(self, what: str, words: Vocabulary) -> Iterator[None]:
        """A formula is read inside: why it cannot be, and names in it that nobody knows, are mistakes of the file."""
        try:
            yield
            for unknown in words.unknown:
                self.mistakes.add(f"{what} has the name {unknown}, which is not in [symbols].")
        except (NotRead, Mismatch, ValueError) as error:
            self.mistakes.add(f"{what} is not read: {error}.")
        words.unknown.clear()

    def read_facts(self, key: str, lines: list[Any]) -> list[Fact]:
        made = []
        words = copy.deepcopy(self.words)
        if key == "lemmas" and words.rows:  # a lemma is for every matrix A
            words.shapes.setdefault("A", (words.rows, words.rows))
        for line in lines:
            text = str(line.get("says", "")) if isinstance(line, dict) else str(line)
            with self.mistakes_of(f"{key}: {text!r}", words):
                left, sign, right = split_relation(text)
                one, other, _ = fit_relation(read_side(left, words), read_side(right, words), words)
                made.append(Fact(line.get("name", text) if isinstance(line, dict) else text, one, sign, other, text))
        return made

    def read_condition(self, line: Any) -> frozenset[Condition]:
        text = line.get("for", "") if isinstance(line, dict) else ""
        if not text:
            return frozenset()
        index, sign, place = split_relation(text)
        return frozenset([Condition(index, sign, read_side(place, self.words))])

    def read_definition(self, line: str) -> None:
        with self.mistakes_of(f"definitions: {line!r}", self.words):
            left, _, right = split_relation(line)
            base, _, index = left.partition("_")
            is_family = index in self.words.indices and base in self.words.families
            one = read_side(right, self.words)
            _, term, shape = fit_relation(one, one, self.words)
            if term.op == "at" and base == term.value and index:
                self.words.places[index] = term.args[0]
            self.definitions[base if is_family else left] = (index if is_family else "", term)
            if not is_family:
                self.words.shapes[left] = shape or SCALAR

    def add_permuted(self) -> None:
        """For every definition that hangs on the input, the same of the permuted input, under the name Q_p."""
        words = self.words
        if not words.input:
            return
        words.permuted_input = mul(sym("P"), sym(words.input))
        reached = {words.input}
        for name, (_, term) in self.definitions.items():  # once is enough: a definition uses only names from above it
            if free_names(term) & reached:
                reached.add(name)
        words.variants = frozenset(reached)
        for name in [name for name in self.definitions if name in reached]:
            index, term = self.definitions[name]
            self.definitions[f"{name}_p"] = (index, permute_names(term, words))
            words.shapes[f"{name}_p"] = words.shapes[name]


def split_relation(text: str) -> tuple[str, str, str]:
    """The two sides of a relation that is written in plain letters, and its sign, which stands in no braces."""
    for found in re.finditer(r" (<=|>=|!=|=|<|>) ", text):
        left = text[: found.start()]
        if left.count("{") == left.count("}") and left.count("(") == left.count(")"):
            return left, found[1], text[found.end() :]
    raise ValueError(f"it is no relation: write a sign such as = or <= with a space on both sides, not {text!r}")


def refuse_false_facts(problem: Problem, mistakes: Mistakes) -> None:
    """What is given must be true of the instances: from a false fact everything follows."""
    if not problem.instances:
        mistakes.add("no instance with these sizes and properties satisfies the conditions.")
    zero = num(0)
    facts = [
        *problem.given,
        *problem.suppose,
        *(Fact(str(one), zero, "<", one, f"{one} > 0") for one in problem.positive),
    ]
    # a lemma about any matrix A has no value on an instance
    facts += [
        lemma for lemma in problem.lemmas if not free_names(add(lemma.left, lemma.right)) - set(problem.words.shapes)
    ]
    for fact in facts:
        for where in problem.instances:
            try:
                if not problem.holds(fact, where):
                    mistakes.add(f"{fact.text} is given, and is false on an instance with these properties.")
            except (NoValue, ValueError, TypeError, IndexError):
                continue

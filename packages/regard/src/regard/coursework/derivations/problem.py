"""What a derivation is about: names with shapes and properties, what is given, which lemmas may be used, the goal.

One TOML file per problem, in the folder ``problems`` or a teacher's own; docs/derivations.md shows it line by line.
"""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.coursework.derivations.evaluation import Instance, NoValue, compare, evaluate
from regard.coursework.derivations.grammar import Parser
from regard.coursework.derivations.instances import make_instances
from regard.coursework.derivations.names import Mismatch, Vocabulary, fit_relation
from regard.coursework.derivations.terms import Term, apply, free_names, mul, num, replace, sym
from regard.coursework.derivations.tokens import NotRead, read_tokens
from regard.errors import InputError
from regard.toml import read_toml

FOLDER = Path(__file__).parent / "problems"
SIGNS = ("=", "<=", ">=", "<", ">", "!=")
KINDS = (
    *("permutation", "orthonormal", "orthonormal beside ", "diagonal of ", "columns of ", "entries of ", "sorted"),
    *("unit, at distance 1 from the first", "positive", ""),
)


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """A name of the problem. ``last``: the last index of a family, which begins at 1."""

    shape: tuple[str, str] = ("1", "1")
    kind: str = ""
    last: str = ""
    up_to: str = ""
    choices: tuple[str, ...] = ()
    says: str = ""


@dataclass(frozen=True)
class Fact:
    """A relation that may be used, with its name."""

    name: str
    left: Term
    sign: str
    right: Term
    text: str = ""

    def __str__(self) -> str:
        return self.text or f"{self.left} {self.sign} {self.right}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """A problem as its file has it; formulas are read."""

    name: str
    title: str
    leap: int
    symbols: dict[str, Symbol]
    sizes: dict[str, list[int]]
    definitions: dict[str, tuple[str, Term]]
    choose: dict[str, tuple[str, ...]]
    rows: str
    words: Vocabulary
    given: tuple[Fact, ...] = ()
    lemmas: tuple[Fact, ...] = ()
    conditions: tuple[Fact, ...] = ()
    goal: tuple[Fact, ...] = ()
    order: tuple[tuple[Fact, str], ...] = ()  # left <= right, and for which indices
    positive: tuple[Term, ...] = ()
    least: dict[str, int] = field(default_factory=dict)  # sizes that are at least so large
    hints: tuple[str, ...] = ()
    shown: tuple[str, ...] = field(default=())  # the definitions as they were written

    def vocabulary(self) -> Vocabulary:
        """A copy that a document may add its own names to."""
        return copy.deepcopy(self.words)

    @cached_property
    def instances(self) -> list[Instance]:
        return make_instances(self)

    def holds(self, fact: Fact, where: Instance) -> bool:
        """Whether a fact holds on an instance, for every index that stands free in it."""
        return all(
            compare(fact.sign, evaluate(fact.left, where, places), evaluate(fact.right, where, places)) is not False
            for places in self.free_places([fact.left, fact.right], where)
        )

    def free_places(self, terms: list[Term], where: Instance) -> list[dict[str, Fraction]]:
        """Every choice of the indices that stand free in some terms."""
        names = sorted(set().union(*(free_names(one) for one in terms)) & self.words.indices - set(self.words.shapes))
        choices: list[dict[str, Fraction]] = [{}]
        for name in names:
            ends = next((ends for one in terms if (ends := self.words.index_range(one, name))), None)
            if ends is None:
                continue
            lo, hi = (int(evaluate(one, where, {})) for one in ends)
            choices = [{**one, name: Fraction(n)} for one in choices for n in range(lo, hi + 1)]
        return choices


def read_side(text: str, words: Vocabulary, *, latex: bool = True) -> Term:
    """One side of a relation, as a term."""
    tokens = read_tokens(text, latex=latex, names=words.names())
    parser = Parser(tokens, words, len(text))
    made = parser.expression()
    if parser.now.kind != "end":
        raise NotRead(parser.now.place, "the end of the formula")
    return made


def find_problem(name: str) -> Problem | None:
    """The problem of a claim; None where it has no derivation that is checked."""
    path = FOLDER / f"{name}.toml"
    return read_problem(path) if path.is_file() else None


def problem_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def read_problem(path: str | os.PathLike[str]) -> Problem:
    """The problem in a TOML file; what is wrong with it is one sentence."""
    try:
        table = read_toml(path, like='[symbols.P] shape = ["T", "T"], is = "permutation"')
    except FileNotFoundError:
        raise InputError(f"There is no file {os.fspath(path)!r}; name a problem's TOML file.") from None
    try:
        problem = _build(Path(path).stem, table)
    except (NotRead, Mismatch) as error:
        raise InputError(f"{os.fspath(path)}: a formula of it is not read: {error}.") from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InputError(f"{os.fspath(path)} is not a problem: {error}; docs/derivations.md shows one.") from None
    _refuse_false_facts(problem, os.fspath(path))
    return problem


def _build(name: str, table: dict[str, Any]) -> Problem:
    symbols = {key: _symbol(key, value) for key, value in table.get("symbols", {}).items()}
    sizes = {key: list(map(int, value)) for key, value in table.get("sizes", {}).items()}
    words = Vocabulary(norm=table.get("norm", "2"), rows=table.get("ones", ""))
    for key in sizes:
        words.shapes[key] = ("1", "1")
    for key, symbol in symbols.items():
        words.shapes[key] = symbol.shape
        if symbol.last:
            words.families[key] = (num(1), num(int(symbol.last)) if symbol.last.isdigit() else sym(symbol.last))
        elif symbol.shape[1] == "1" and symbol.shape[0] != "1":
            words.families[f"{key}."] = (num(1), sym(symbol.shape[0]))  # its entries
            words.shapes[f"{key}."] = ("1", "1")
    words.same.update(table.get("same", {}))
    definitions = _read_definitions(table.get("definitions", []), words)
    _add_permuted(table, words, definitions)

    def facts(key: str) -> tuple[Fact, ...]:
        return tuple(_fact(one, words) for one in table.get(key, []))

    return Problem(
        name=table.get("claim", name),
        title=str(table.get("title", "")),
        leap=int(table.get("leap", 4)),
        symbols=symbols,
        sizes=sizes,
        definitions=definitions,
        choose={key: tuple(value) for key, value in table.get("choose", {}).items()},
        rows=words.rows,
        words=words,
        given=facts("given"),
        lemmas=tuple(_lemma(one, words) for one in table.get("lemmas", [])),
        conditions=facts("conditions"),
        goal=facts("goal"),
        order=tuple((_fact(one, words), one.get("for", "")) for one in table.get("order", [])),
        least={key: int(value) for key, value in table.get("least", {}).items()},
        positive=tuple(read_side(one, words) for one in table.get("positive", [])),
        hints=tuple(table.get("hints", ())),
        shown=tuple(table.get("definitions", [])),
    )


def _symbol(name: str, table: dict[str, Any]) -> Symbol:
    kind = str(table.get("is", ""))
    if not any(kind == known or (known.endswith(" ") and kind.startswith(known)) for known in KINDS):
        raise ValueError(f"{name} is {kind!r}, which is none of {', '.join(filter(None, KINDS))}")
    return Symbol(
        shape=(str(table.get("shape", ["1", "1"])[0]), str(table.get("shape", ["1", "1"])[1])),
        kind=kind,
        last=str(table.get("last", "")),
        up_to=str(table.get("up_to", "")),
        choices=tuple(map(str, table.get("choices", ()))),
        says=str(table.get("says", "")),
    )


def split_relation(text: str) -> tuple[str, str, str]:
    """The two sides of a relation that is written in plain letters, and its sign."""
    for sign in ("<=", ">=", "!=", "=", "<", ">"):
        left, found, right = text.partition(f" {sign} ")
        if found:
            return left, sign, right
    raise ValueError(f"{text!r} is no relation")


def _read_definitions(lines: list[str], words: Vocabulary) -> dict[str, tuple[str, Term]]:
    made: dict[str, tuple[str, Term]] = {}
    for line in lines:
        left, _, right = split_relation(line)
        base, _, index = left.partition("_")
        is_family = index in words.indices and base in words.families
        name = base if is_family else left
        left_term = read_side(left, words) if is_family else sym(name)
        words.unknown.clear()
        _, term, shape = fit_relation(read_side(right, words), read_side(right, words), words)
        made[name] = (left_term.args[0].value if is_family else "", term)
        if not is_family:
            words.shapes[name] = shape or ("1", "1")
    return made


def _add_permuted(table: dict[str, Any], words: Vocabulary, definitions: dict[str, tuple[str, Term]]) -> None:
    """For every definition that hangs on the input, the same of the permuted input, under the name Q_p."""
    words.input = table.get("input", "")
    if not words.input:
        return
    words.permuted_input = mul(sym("P"), sym(words.input))
    reached = {words.input}
    for name, (_, term) in definitions.items():
        if free_names(term) & reached:
            reached.add(name)
    words.variants = frozenset(reached)

    def permute(term: Term) -> Term:
        def change(one: Term) -> Term | None:
            if one.op == "sym" and one.value in reached:
                return words.permuted_input if one.value == words.input else sym(f"{one.value}_p")
            return None

        return replace(term, change)

    for name in [name for name in definitions if name in reached]:
        index, term = definitions[name]
        definitions[f"{name}_p"] = (index, permute(term))
        words.shapes[f"{name}_p"] = words.shapes[name]


def _fact(line: str | dict[str, str], words: Vocabulary) -> Fact:
    text = line if isinstance(line, str) else line["says"]
    left, sign, right = split_relation(text)
    made = fit_relation(read_side(left, words), read_side(right, words), words)
    words.unknown.clear()
    return Fact(text if isinstance(line, str) else line.get("name", text), made[0], sign, made[1], text)


def _lemma(line: str | dict[str, str], words: Vocabulary) -> Fact:
    """A lemma for every matrix A (rows x rows) or B: read with A as a name of the right size."""
    own = copy.deepcopy(words)
    if own.rows and "A" not in own.shapes:
        own.shapes["A"] = (own.rows, own.rows)
    return _fact(line, own)


def _refuse_false_facts(problem: Problem, path: str) -> None:
    """What is given must be true of the instances: from a false fact everything follows."""
    for fact in problem.given:
        for where in problem.instances:
            try:
                if not problem.holds(fact, where):
                    raise InputError(
                        f"{path}: {fact.text} is given, and is false on an instance with these properties."
                    )
            except NoValue:
                continue
    if not problem.instances:
        raise InputError(f"{path}: no instance with these sizes and properties satisfies the conditions.")


def transpose(term: Term) -> Term:
    return apply("T", term)

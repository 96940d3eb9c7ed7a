"""A derivation, line by line: each relation is tested on instances and proved from what stands before it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from regard.coursework.derivations.document import MOST, Statement, find_formulas, split_statements
from regard.coursework.derivations.evaluation import Instance, NoValue, compare, evaluate
from regard.coursework.derivations.grammar import Parser
from regard.coursework.derivations.names import Mismatch, fit, fit_relation
from regard.coursework.derivations.problem import Fact, Problem
from regard.coursework.derivations.proving import Known, equality_rules, prove
from regard.coursework.derivations.repairs import find_repair
from regard.coursework.derivations.terms import Term, free_names, substitute, sym
from regard.coursework.derivations.tokens import NotRead, Token
from regard.errors import InputError
from regard.rigor.balls import precise

CONDITION = ("!=", ">=", "<=", "<", ">")


class Mark(StrEnum):
    """What is said of a relation."""

    FOLLOWS = "follows"
    TRUE = "true, but say why"
    FALSE = "false"
    NOT_READ = "not read"
    DEFINES = "definition"


@dataclass(frozen=True, kw_only=True)
class CheckedLine:
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


@dataclass
class Checker:
    """Goes through a document once, and remembers what it has seen."""

    problem: Problem
    known: Known
    instances: list[Instance]
    lines: list[CheckedLine] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    reached: set[str] = field(default_factory=set)
    supposed: bool = False
    evaluated: int = 0  # on how many instances, with how many indices, the last relation had a value
    last: Term | None = None
    chain: tuple[Term, list[str]] | None = None
    conditions: dict[int, list[str]] = field(default_factory=dict)

    def read(self, text: str) -> None:
        formulas, said = find_formulas(text)
        self.said += said
        statements = [one for formula in formulas for one in split_statements(formula, self.known.words.names())]
        for one in statements:
            if (condition := self.condition(one)) is not None:
                self.conditions.setdefault(one.sentence, []).append(condition)
        for one in statements:
            if self.condition(one) is None:
                self.statement(one)

    def condition(self, statement: Statement) -> str | None:
        """i != 1, i >= 3, i <= k: for which indices the relations of its sentence are meant."""
        if len(statement.signs) != 1 or statement.signs[0] not in CONDITION or len(statement.sides[0]) != 1:
            return None
        index = statement.sides[0][0]
        if index.text not in self.known.words.indices or index.kind != "name":
            return None
        return f"{index.text} {statement.signs[0]} {' '.join(token.text for token in statement.sides[1])}"

    def statement(self, statement: Statement) -> None:
        if statement.problem is not None:
            self.not_read(statement, statement.problem)
            return
        if not statement.signs:
            try:
                self.last, self.chain = self.side(statement.sides[0]), None
            except (NotRead, Mismatch):
                self.known.words.unknown.clear()
            return
        if "~" in statement.signs:
            place = statement.sides[0][0].place if statement.sides[0] else 0
            self.not_read(statement, NotRead(place, "= or <=; 'about' and 'proportional to' have no truth value"))
            return
        before = self.last if statement.continues else None
        if statement.continues and before is None:
            self.not_read(statement, NotRead(0, "something before this sign"))
            return
        if not statement.continues:
            self.chain = None
        for n, sign in enumerate(statement.signs):
            try:
                left = before if before is not None else self.side(statement.sides[n])
                unknown = dict(self.known.words.unknown)
                self.known.words.unknown.clear()
                right = self.side(statement.sides[n + 1])
            except NotRead as problem:
                self.known.words.unknown.clear()
                self.last = None
                self.not_read(statement, problem)
                return
            self.relation(statement, left, sign, right, unknown)
            before = right
        self.last = before

    def side(self, tokens: list[Token]) -> Term:
        if not tokens:
            raise NotRead(0, "a formula on both sides of the sign")
        parser = Parser(tokens, self.known.words, tokens[-1].place + len(tokens[-1].text))
        made = parser.expression()
        if parser.now.kind != "end":
            raise NotRead(parser.now.place, "the end of the formula, a sign or a factor")
        return made

    def not_read(self, statement: Statement, problem: NotRead) -> None:
        start = statement.sides[0][0].place if statement.sides and statement.sides[0] else 0
        caret = max(0, problem.place - start)
        self.lines.append(
            CheckedLine(
                line=statement.line,
                text=statement.text,
                mark=Mark.NOT_READ,
                caret=caret,
                remark=f"expected {problem.expected}",
            )
        )

    # one relation

    def relation(self, statement: Statement, left: Term, sign: str, right: Term, unknown: dict[str, int]) -> None:
        words = self.known.words
        right_unknown = dict(words.unknown)
        words.unknown.clear()
        if (
            sign == "="
            and left.op == "sym"
            and not right_unknown
            and self.define(statement, left.value, right, unknown)
        ):
            self.chain = (left, ["="])
            return
        if (lemma := self.find_lemma(left, sign, right, {**unknown, **right_unknown})) is not None:
            self.used.add(lemma)
            self.lines.append(
                CheckedLine(line=statement.line, text=f"{left} {sign} {right}", mark=Mark.FOLLOWS, rules=(lemma,))
            )
            return
        if unknown or right_unknown:
            name = next(iter({**unknown, **right_unknown}))
            self.lines.append(
                CheckedLine(
                    line=statement.line,
                    text=f"{left} {sign} {right}",
                    mark=Mark.NOT_READ,
                    caret=-1,
                    remark=f"{name} is neither given nor defined before",
                )
            )
            return
        try:
            left, right, _ = fit_relation(left, right, words)
        except Mismatch as mismatch:
            self.lines.append(
                CheckedLine(
                    line=statement.line,
                    text=f"{left} {sign} {right}",
                    mark=Mark.NOT_READ,
                    remark=f"the shapes do not fit: {mismatch}",
                )
            )
            return
        self.judge(statement, left, sign, right)

    def find_lemma(self, left: Term, sign: str, right: Term, unknown: dict[str, int]) -> str | None:
        """The lemma that a line repeats, with any letter for its matrix."""
        if len(unknown) != 1 or sign != "=":
            return None
        (name,) = unknown
        sides = {substitute(one, name, sym("A")) for one in (left, right)}
        return next((one.name for one in self.problem.lemmas if {one.left, one.right} == sides), None)

    def define(self, statement: Statement, name: str, right: Term, unknown: dict[str, int]) -> bool:
        """A new name, or one that the writer is to choose, where it first stands alone on the left."""
        choose = self.problem.choose
        fresh = name in unknown or (name in choose and name not in self.known.own)
        if not fresh:
            return False
        try:
            term, shape = fit(right, self.known.words)
        except Mismatch as mismatch:
            self.lines.append(
                CheckedLine(
                    line=statement.line,
                    text=f"{name} = {right}",
                    mark=Mark.NOT_READ,
                    remark=f"the shapes do not fit: {mismatch}",
                )
            )
            return True
        if name in free_names(term):
            return False
        if name in choose and (
            alien := free_names(term) - set(choose[name]) - set(self.known.own) - set(self.problem.sizes) - {"pi", "e"}
        ):
            allowed = ", ".join(choose[name])
            self.lines.append(
                CheckedLine(
                    line=statement.line,
                    text=f"{name} = {term}",
                    mark=Mark.TRUE,
                    remark=f"{name} may be built from {allowed} alone; {', '.join(sorted(alien))} is not among them",
                )
            )
        else:
            self.lines.append(CheckedLine(line=statement.line, text=f"{name} = {term}", mark=Mark.DEFINES))
        if name not in choose:
            self.known.words.own[name] = shape or ("1", "1")
        self.known.own[name] = ("", term)
        for where in self.instances:
            where.define(name, "", term)
        return True

    def judge(self, statement: Statement, left: Term, sign: str, right: Term) -> None:
        text = f"{left} {sign} {right}"
        if statement.announced and any(
            is_same_relation(self.known, (left, sign, right), goal) for goal in self.problem.goal
        ):
            self.said.append(f"{text} is announced as the goal, and is no step")
            return
        stated = [
            one
            for one in self.conditions.get(statement.sentence, [])
            if one.split()[0] in free_names(left) | free_names(right)
        ]
        conditions, failure = self.test(left, sign, right, stated)
        if failure is not None and statement.supposed:
            self.supposed = True
            self.lines.append(
                CheckedLine(line=statement.line, text=text, mark=Mark.TRUE, remark="this is supposed, and is not given")
            )
            return
        open_names = sorted((free_names(left) | free_names(right)) & set(self.problem.choose) - set(self.known.own))
        if failure is not None and open_names:
            remark = f"{open_names[0]} is not chosen yet, and it does not hold for every {open_names[0]}"
            self.lines.append(CheckedLine(line=statement.line, text=text, mark=Mark.TRUE, remark=remark))
            return
        if failure is None and not self.evaluated:
            remark = "it has no value on any instance: perhaps an index is out of its range"
            self.lines.append(CheckedLine(line=statement.line, text=text, mark=Mark.NOT_READ, remark=remark))
            return
        if failure is not None:
            where, places, values = failure
            repair = find_repair(left, sign, right, lambda a, b: self.is_true(a, sign, b, stated))
            self.lines.append(
                CheckedLine(
                    line=statement.line,
                    text=text,
                    mark=Mark.FALSE,
                    instance=describe(where, places, self.problem, left, right),
                    values=values,
                    repair=repair,
                    remark=f"true if {repair}" if repair else "",
                )
            )
            self.chain = None
            return
        step = prove(self.known, left, sign, right, frozenset(conditions))
        mark, remark = Mark.FOLLOWS, ""
        if statement.supposed and step is None:
            self.supposed = True
            mark, remark = Mark.TRUE, "this is supposed, and is not given"
        elif step is None:
            mark, remark = Mark.TRUE, "it holds on every instance tried, and no short proof was found"
        elif step.leap > self.problem.leap:
            mark, remark = (
                Mark.TRUE,
                f"it needs {step.leap} rules at once ({', '.join(name_rules(step.rules))}): write the lines between",
            )
        if mark is Mark.FOLLOWS and step is not None:
            self.used |= set(step.rules)
            self.remember(left, sign, right, frozenset(conditions))
        self.lines.append(
            CheckedLine(
                line=statement.line,
                text=text,
                mark=mark,
                rules=tuple(name_rules(step.rules)) if step else (),
                leap=step.leap if step else 0,
                remark=remark,
            )
        )
        self.follow_chain(left, sign, right, mark, frozenset(conditions))

    def test(self, left: Term, sign: str, right: Term, stated: list[str]):  # type: ignore[no-untyped-def]
        """The conditions under which it holds on every instance, or the first failure."""
        failure = self.first_failure(left, sign, right, stated)
        if failure is None or stated:
            return stated, failure
        index = next((one for one in ("i", "j", "l") if one in free_names(left) | free_names(right)), None)
        if index is None:
            return stated, failure
        for guess in ([f"{index} != 1"], [f"{index} >= 3"], [f"{index} <= k"]):
            if "k" in guess[0] and not ("k" in self.problem.symbols and self.problem.symbols["k"].up_to):
                continue
            if self.first_failure(left, sign, right, guess) is None and self.evaluated:
                self.said.append(f"{left} {sign} {right} is read for {guess[0]}")
                return guess, None
        return stated, failure

    def is_true(self, left: Term, sign: str, right: Term, stated: list[str]) -> bool:
        """Whether an edited line fits together and holds on every instance, at least one among them."""
        try:
            left, right, _ = fit_relation(left, right, self.known.words)
        except Mismatch:
            return False
        return self.first_failure(left, sign, right, stated) is None and self.evaluated > 0

    def first_failure(self, left: Term, sign: str, right: Term, conditions: list[str]):  # type: ignore[no-untyped-def]
        self.evaluated = 0
        for where in self.instances:
            for places in self.problem.free_places([left, right], where):
                try:
                    if not all(meets(one, places, where) for one in conditions):
                        continue
                    values = evaluate(left, where, places), evaluate(right, where, places)
                    said = compare(sign, *values)
                    self.evaluated += said is not None
                    if said is False:
                        return where, places, (write_value(values[0]), write_value(values[1]))
                except (NoValue, IndexError, TypeError, ValueError):  # this instance has nothing to say
                    continue
        return None

    def remember(self, left: Term, sign: str, right: Term, conditions: frozenset[str]) -> None:
        if sign == "=":
            for a, b in ((left, right), (right, left)):
                if a.op == "sym" and a.value in self.problem.definitions and a.value not in free_names(b):
                    if not (free_names(b) & {f"{name}_p" for name in self.known.words.variants}):
                        self.known.shown.setdefault(a.value, ("", b))
        low, high = (right, left) if sign in (">=", ">") else (left, right)
        name = f"{left} {sign} {right}"
        if sign in ("<=", ">=", "<", ">"):
            self.known.order.append((Fact(name, low, "<=", high), conditions))

    def follow_chain(self, left: Term, sign: str, right: Term, mark: Mark, conditions: frozenset[str]) -> None:
        """What a chain says from its first side to its last; a goal that it reaches is noted."""
        if mark is not Mark.FOLLOWS:
            self.chain = None
            return
        start, signs = self.chain if self.chain is not None else (left, [])
        signs = [*signs, sign]
        self.chain = (start, signs)
        whole = join_signs(signs)
        ends = [(left, sign, right)]
        if whole is not None and len(signs) > 1:
            ends.append((start, whole, right))
            if whole == "=" or whole in ("<=", ">=", "<", ">"):
                self.remember(start, whole, right, conditions)
        for one in ends:
            self.note_goals(*one)

    def note_goals(self, left: Term, sign: str, right: Term) -> None:
        for goal in self.problem.goal:
            if goal.name not in self.reached and is_same_relation(self.known, (left, sign, right), goal):
                self.reached.add(goal.name)


def name_rules(rules: tuple[str, ...]) -> list[str]:
    """Rules by name, definitions last and together."""
    plain = [one for one in rules if not one.startswith("definition of ")]
    defined = [one.removeprefix("definition of ") for one in rules if one.startswith("definition of ")]
    return plain + ([f"definition of {', '.join(defined)}"] if defined else []) or ["arithmetic"]


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


def is_same_relation(known: Known, found: tuple[Term, str, Term], goal: Fact) -> bool:
    """Whether a relation is the goal, up to arithmetic and the writer's own names."""
    left, sign, right = found
    turned = {"<=": ">=", ">=": "<=", "<": ">", ">": "<", "=": "="}.get(sign, "")
    for a, s, b in ((left, sign, right), (right, turned, left)):
        strong = s == goal.sign or (goal.sign in ("<=", ">=") and s in ("=", goal.sign[0]))
        if not strong:
            continue
        if all(_is_close(known, x, y) for x, y in ((a, goal.left), (b, goal.right))):
            return True
    return False


def _is_close(known: Known, a: Term, b: Term) -> bool:
    if a == b:
        return True
    return equality_rules(known, a, b, frozenset(), known.own, False, None) is not None


def meets(condition: str, places: dict[str, Fraction], where: Instance) -> bool:
    index, sign, rest = condition.split(" ", 2)
    if index not in places:
        return True
    numbers = [Fraction(part) if part.isdigit() else where.value(part) for part in rest.split() if part.isalnum()]
    one = places[index]
    if sign == "!=":
        return one not in numbers
    return bool({">=": one >= numbers[0], "<=": one <= numbers[0], "<": one < numbers[0], ">": one > numbers[0]}[sign])


def describe(where: Instance, places: dict[str, Fraction], problem: Problem, left: Term, right: Term) -> str:
    """The instance in words: sizes, and what stands in the line."""
    names = [name for name in [*problem.sizes, *problem.symbols] if name in _reached_names(problem, left, right)]
    said = [f"{name} = {write_value(where.values[name])}" for name in names if name in where.values][:8]
    return ", ".join([*said, *(f"{index} = {place}" for index, place in places.items())])


def _reached_names(problem: Problem, *terms: Term) -> set[str]:
    names: set[str] = set().union(*(free_names(one) for one in terms))
    for _ in range(6):
        names |= set().union(
            *(free_names(problem.definitions[name][1]) for name in names if name in problem.definitions), set()
        )
    return names


def write_value(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + "; ".join(" ".join(write_value(x) for x in row) for row in value) + "]"
    if isinstance(value, dict):
        return "(" + ", ".join(write_value(x) for x in value.values()) + ")"
    if isinstance(value, Fraction):
        return str(value)
    return f"{float(value.mid()):.6g}" if hasattr(value, "mid") else "I"


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a derivation's file."""
    from regard.files import read_file

    try:
        return read_file(path, most=MOST).decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(
            f"There is no file {os.fspath(path)!r}; --template proof.md writes one to begin with."
        ) from None
    except OSError as error:
        raise InputError(f"{os.fspath(path)} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise InputError(
            f"{os.fspath(path)} is no text in UTF-8; write the derivation as Markdown, LaTeX or plain text."
        ) from None


def run_checker(problem: Problem, text: str) -> Checker:
    """The checker after it has read the whole text."""
    if len(text) > MOST:
        raise InputError(f"The derivation has {len(text)} characters; at most {MOST} are read.")
    from regard.coursework.derivations.instances import make_instances

    known = Known(problem, problem.vocabulary())
    known.order = [(fact, frozenset([condition]) if condition else frozenset()) for fact, condition in problem.order]
    known.order += [(fact, frozenset()) for fact in problem.given if fact.sign == "<="]
    with precise():
        checker = Checker(problem, known, make_instances(problem))
        checker.read(text)
    return checker


__all__ = ["CheckedLine", "Checker", "Mark", "run_checker", "sym"]

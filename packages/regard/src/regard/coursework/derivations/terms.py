"""Terms: what a formula says, once it is read. One small language for matrices, vectors (one column) and numbers.

A term has an operator, the terms it acts on, and a value (a number, a name, or the index that a sum runs over).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

TURNED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
FUNCTIONS = ("softmax", "relu", "exp", "ln", "tr", "sin", "cos", "sqrt", "rank", "abs")


@dataclass(frozen=True, eq=True)
class Term:
    """op is one of num, sym, at, ones, eye, zero, add, mul, div, pow, T, norm, sum, and the functions."""

    op: str
    args: tuple[Term, ...] = ()
    value: Any = None

    @cached_property
    def _hash(self) -> int:
        return hash((self.op, self.args, self.value))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def size(self) -> int:
        return 1 + sum(one.size for one in self.args)

    def parts(self) -> Iterator[Term]:
        """The term and everything in it."""
        yield self
        for one in self.args:
            yield from one.parts()

    def __str__(self) -> str:
        return write(self)


@dataclass(frozen=True)
class Span:
    """What a sum runs over: an index from lo to hi, without some places."""

    index: str
    lo: Term
    hi: Term
    without: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Condition:
    """For which places an index is meant: i != 1, i >= 3, i <= k."""

    index: str
    sign: str
    place: Term

    def __str__(self) -> str:
        return f"{self.index} {self.sign} {self.place}"

    def rename_index(self, index: str) -> Condition:
        return Condition(index, self.sign, self.place)

    def follows_from(self, known: frozenset[Condition]) -> bool:
        """i != 1 follows from itself, and from i >= 2."""
        if self in known:
            return True
        mine = self.place.value if self.place.op == "num" and self.sign == "!=" else None
        return mine is not None and any(
            one.index == self.index
            and one.place.op == "num"
            and one.sign in (">=", ">")
            and one.place.value + (one.sign == ">") > mine
            for one in known
        )


Definitions = dict[str, tuple[str, Term]]  # a name with its index, if it is a family, and what it stands for


def num(value: int | Fraction) -> Term:
    return Term("num", (), Fraction(value))


def sym(name: str) -> Term:
    return Term("sym", (), name)


def at(family: str, *places: Term) -> Term:
    return Term("at", places, family)


def add(*parts: Term) -> Term:
    return parts[0] if len(parts) == 1 else Term("add", parts)


def mul(*parts: Term) -> Term:
    return parts[0] if len(parts) == 1 else Term("mul", parts)


def negative(term: Term) -> Term:
    return num(-term.value) if term.op == "num" else mul(num(-1), term)


def apply(op: str, *args: Term, value: Any = None) -> Term:
    return Term(op, args, value)


ONES, EYE, ZERO = Term("ones"), Term("eye"), num(0)


def replace(term: Term, change: Callable[[Term], Term | None]) -> Term:
    """The term with every part changed for which ``change`` returns another one, from the outside in."""
    if (other := change(term)) is not None:
        return other
    if term.op == "sum":
        span: Span = term.value
        ends = [replace(one, change) for one in (span.lo, span.hi, *span.without)]
        span = Span(span.index, ends[0], ends[1], tuple(ends[2:]))
        return Term("sum", tuple(replace(one, change) for one in term.args), span)
    if not term.args:
        return term
    return Term(term.op, tuple(replace(one, change) for one in term.args), term.value)


def substitute(term: Term, name: str, other: Term) -> Term:
    """The term with a name replaced; the index of a sum hides the name inside it, and never catches what comes in."""
    arriving = free_names(other)

    def change(one: Term) -> Term | None:
        if one.op == "sym" and one.value == name:
            return other
        if one.op != "sum":
            return None
        span: Span = one.value
        lo, hi, *without = (replace(end, change) for end in (span.lo, span.hi, *span.without))
        index, body = span.index, one.args[0]
        if index != name and index in arriving:
            index = f"{index}~"
            while index in arriving | free_names(body):
                index += "~"
            body = substitute(body, span.index, sym(index))
        body = body if index == name else replace(body, change)
        return Term("sum", (body,), Span(index, lo, hi, tuple(without)))

    return replace(term, change)


def free_names(term: Term) -> set[str]:
    """Names that stand in it, indices of sums aside."""
    if term.op == "sym":
        return {term.value}
    inside = set().union(*(free_names(one) for one in term.args)) if term.args else set()
    if term.op == "at":
        inside |= {term.value}
    if term.op == "sum":
        ends = (term.value.lo, term.value.hi, *term.value.without)
        inside = (inside - {term.value.index}).union(*(free_names(one) for one in ends))
    return inside


_STRENGTH = {"add": 1, "mul": 2, "div": 2, "sum": 1, "pow": 4, "T": 4}
_SPELLING = {"relu": "ReLU", "ones": "1", "eye": "I", "image": "sigma"}


def write(term: Term, above: int = 0) -> str:
    """The term as one types it."""
    text = _write(term)
    own = 1 if term.op == "num" and term.value < 0 else 2 if "/" in text and term.op == "num" else 9
    return f"({text})" if _STRENGTH.get(term.op, own) < above else text


def _write(term: Term) -> str:
    args = term.args
    if term.op in ("num", "sym"):
        return str(term.value)
    if term.op == "at":
        family = term.value.rstrip(".")
        return f"{family}_{args[0]}" if args[0].op in ("num", "sym") else f"{family}_({args[0]})"
    if term.op == "add":
        return " + ".join(write(one, 1) for one in args).replace("+ -", "- ")
    if term.op == "mul":
        return _write_product(args)
    if term.op == "div":
        return f"{write(args[0], 2)}/{write(args[1], 3)}"
    if term.op == "pow":
        if args[1] == num(Fraction(1, 2)):
            return f"sqrt({args[0]})"
        return f"{write(args[0], 5)}^{write(args[1], 5)}"
    if term.op == "T":
        return f"{write(args[0], 5)}^T"
    if term.op == "norm":
        return f"||{args[0]}||" + {"F": "_F", "2": "_2"}.get(term.value, "")
    if term.op == "sum":
        span: Span = term.value
        without = "".join(f", {span.index} != {one}" for one in span.without)
        last = str(span.hi) if span.hi.op in ("num", "sym") else f"({span.hi})"
        return f"sum_({span.index}={span.lo}{without})^{last} {write(args[0], 2)}"
    if term.op == "unit":
        return f"e_{write(args[0], 9)}"
    name = _SPELLING.get(term.op, term.op)
    return f"{name}({', '.join(map(str, args))})" if args else name


def _write_product(args: tuple[Term, ...]) -> str:
    first, last = args[0], args[-1]
    if len(args) > 2 and last.op == "unit" and first.op == "T" and first.args[0].op == "unit":
        return f"{write(mul(*args[1:-1]), 9)}_({first.args[0].args[0]}, {last.args[0]})"  # an entry
    if first == num(-1):
        return "-" + write(mul(*args[1:]), 2)
    return " ".join(write(one, 3 if one.op in ("div", "num") else 2) for one in args)


def sum_between(terms: list[Term], last: Term) -> Term | None:
    """The sum that begins with some terms and ends with another; None where they do not fit together."""
    pairs = zip(terms[0].parts(), last.parts(), strict=False)
    places = {(a.args[0], b.args[0]) for a, b in pairs if a.op == b.op == "at" and a.args != b.args}
    if len(places) != 1:
        return None
    ((lo, hi),) = places
    index = next(one for one in "ijl" if one not in free_names(last))

    def change(one: Term) -> Term | None:
        return Term("at", (sym(index),), one.value) if one.op == "at" and one.args == (lo,) else None

    body = replace(terms[0], change)
    if lo.op != "num" or substitute(body, index, hi) != last:
        return None
    if any(substitute(body, index, num(lo.value + n)) != one for n, one in enumerate(terms)):
        return None
    return Term("sum", (body,), Span(index, lo, hi))

"""What a term comes to on one instance: exact rationals as long as nothing transcendental stands in it, then balls.

A relation is refuted only where the two sides certainly differ: as rationals, or as balls that do not meet.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import flint

from regard.coursework.derivations.terms import TURNED, Definitions, Span, Term
from regard.rigor.balls import ball

Number = Any  # Fraction or flint.arb
Matrix = tuple[tuple[Number, ...], ...]
Value = Any  # a number, a matrix, or EYE
MOST_STEPS = 5000  # terms of sums; nested ones multiply
NARROW = flint.arb(2) ** -80  # relative: balls that touch and are as narrow as this pass for equal


class NoValue(Exception):  # noqa: N818 - no fault: this instance has nothing to say about the term
    """The term has no value on this instance: a division by zero, an index out of its range."""


class DividesByZero(NoValue):
    """Something is divided by zero on this instance."""


class Eye:
    """The identity, of whatever size its neighbours have."""


IDENTITY = Eye()


class Instance:
    """Values for the problem's names; names that are defined are evaluated when they are asked for, and kept."""

    def __init__(self, values: dict[str, Any], definitions: Definitions, *, ones: int = 0) -> None:
        self.values, self.definitions, self.ones = values, definitions, ones
        self.known: dict[Any, Value] = {}
        self.steps = 0  # terms of sums that were added up for one relation

    def value(self, name: str, place: int | None = None) -> Value:
        key = (name, place)
        if key in self.known:
            return self.known[key]
        if name in self.definitions:
            index, term = self.definitions[name]
            made = evaluate(term, self, {index: Fraction(place)} if place is not None else {})
        elif name.endswith(".") and place is not None and 0 < place <= len(self.value(name[:-1])):
            made = self.value(name[:-1])[place - 1][0]  # an entry of a vector
        elif name not in self.values:
            raise NoValue(name)
        elif place is None:
            made = self.values[name]
        else:
            family = self.values[name]
            if place not in family:
                raise NoValue(f"{name}_{place}")
            made = family[place]
        self.known[key] = made
        return made

    def number(self, size: str) -> Value:
        """A size, by its name or as it stands."""
        return Fraction(size) if size.isdigit() else self.value(size)

    def with_value(self, name: str, value: Value) -> Instance:
        """The same with another value for one name."""
        return Instance({**self.values, name: value}, self.definitions, ones=self.ones)

    def define_all(self, definitions: Definitions) -> None:
        self.definitions = {**self.definitions, **definitions}
        self.known = {}  # what was kept may rest on the old meaning of a name


def evaluate(term: Term, where: Instance, places: dict[str, Number]) -> Value:
    """The value of a term; ``places`` are the indices that are bound."""
    if term.op == "num":
        return term.value
    if term.op == "sym":
        if term.value in places:
            return places[term.value]
        if term.value == "pi":
            return flint.arb.pi()
        return where.value(term.value)
    if term.op == "at":
        return where.value(term.value, _whole(evaluate(term.args[0], where, places)))
    if term.op == "ones":
        return tuple((Fraction(1),) for _ in range(where.ones))
    if term.op == "eye":
        return IDENTITY
    if term.op == "sum":
        return _sum(term, where, places)
    if term.op == "unit":
        size, place = _whole(where.number(term.value)), _whole(evaluate(term.args[0], where, places))
        if not 1 <= place <= size:
            raise NoValue("a place that the matrix does not have")
        return tuple((Fraction(n == place),) for n in range(1, size + 1))
    if term.op == "image":
        rows = where.value(term.value.removesuffix("^T"))
        rows = _transpose(rows) if term.value.endswith("^T") else rows
        return Fraction(rows[_whole(evaluate(term.args[0], where, places)) - 1].index(1) + 1)
    args = [evaluate(one, where, places) for one in term.args]
    return _OPERATIONS[term.op](term, *args)


def _whole(value: Number) -> int:
    if not isinstance(value, Fraction) or value.denominator != 1:
        raise NoValue("an index that is no whole number")
    return int(value)


def _sum(term: Term, where: Instance, places: dict[str, Number]) -> Value:
    span: Span = term.value
    lo, hi = (_whole(evaluate(one, where, places)) for one in (span.lo, span.hi))
    without = {_whole(evaluate(one, where, places)) for one in span.without}
    total: Value = Fraction(0)
    for n in range(lo, hi + 1):
        where.steps += 1
        if where.steps > MOST_STEPS:
            raise NoValue("more terms than are added up")
        if n not in without:
            total = plus(total, evaluate(term.args[0], where, {**places, span.index: Fraction(n)}))
    return total


def _same(a: Number, b: Number) -> tuple[Number, Number]:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a, b
    return (ball(a) if isinstance(a, Fraction) else a), (ball(b) if isinstance(b, Fraction) else b)


def _entrywise(a: Matrix, b: Matrix, combine: Callable[[Number, Number], Number]) -> Matrix:
    if len(a) != len(b) or len(a[0]) != len(b[0]):
        raise NoValue("sizes that do not fit")
    return tuple(tuple(combine(x, y) for x, y in zip(r, s, strict=True)) for r, s in zip(a, b, strict=True))


def _add(a: Number, b: Number) -> Number:
    a, b = _same(a, b)
    return a + b


def times_numbers(a: Number, b: Number) -> Number:
    if (isinstance(a, Fraction) and not a) or (isinstance(b, Fraction) and not b):
        return Fraction(0)  # exactly, also beside a ball
    a, b = _same(a, b)
    return a * b


def _give_size(a: Value, like: Value) -> Value:
    """0 and I take the size of what stands beside them."""
    if isinstance(a, Eye) and not isinstance(like, (tuple, Eye)) and like != 0:
        return Fraction(1)  # beside a matrix with one entry
    if isinstance(like, tuple) and not isinstance(a, tuple):
        rows, columns = len(like), len(like[0])
        if isinstance(a, Eye) and rows == columns:
            return tuple(tuple(Fraction(i == j) for j in range(columns)) for i in range(rows))
        if isinstance(a, Fraction) and a == 0:
            return tuple((Fraction(0),) * columns for _ in range(rows))
        if (rows, columns) == (1, 1):
            return ((a,),)
        raise NoValue("a number beside a matrix")
    return a


def plus(a: Value, b: Value) -> Value:
    a, b = _give_size(a, b), _give_size(b, a)
    if isinstance(a, tuple):
        return _entrywise(a, b, _add)
    if isinstance(a, Eye) or isinstance(b, Eye):
        if isinstance(b, Fraction) and b == 0:
            return a
        if isinstance(a, Fraction) and a == 0:
            return b
        raise NoValue("an identity of no size")
    return _add(a, b)


def times(a: Value, b: Value) -> Value:
    if isinstance(a, Eye):
        return b
    if isinstance(b, Eye):
        return a
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _product(a, b)
    if isinstance(a, tuple):
        return tuple(tuple(times_numbers(x, b) for x in row) for row in a)
    if isinstance(b, tuple):
        return tuple(tuple(times_numbers(a, x) for x in row) for row in b)
    return times_numbers(a, b)


def _product(a: Matrix, b: Matrix) -> Value:
    if len(a[0]) == len(b):
        made = tuple(tuple(_dot(row, column) for column in zip(*b, strict=True)) for row in a)
        return made[0][0] if len(made) == 1 and len(made[0]) == 1 else made  # x^T y may stand wherever a number may
    raise NoValue("sizes that do not fit")


def _dot(a: tuple[Number, ...], b: tuple[Number, ...]) -> Number:
    total: Number = Fraction(0)
    for x, y in zip(a, b, strict=True):
        total = _add(total, times_numbers(x, y))
    return total


def _transpose(a: Value) -> Value:
    return tuple(zip(*a, strict=True)) if isinstance(a, tuple) else a


def _number(a: Value) -> Number:
    if isinstance(a, tuple) and len(a) == 1 and len(a[0]) == 1:
        return a[0][0]
    if isinstance(a, (tuple, Eye)):
        raise NoValue("a matrix where a number is needed")
    return a


def _divide(a: Value, b: Value) -> Value:
    b = _number(b)
    if isinstance(b, Fraction):
        if b == 0:
            raise DividesByZero("a division by zero")
        return times(a, 1 / b)
    if b.contains(0):
        raise DividesByZero("a division by zero")
    return times(a, 1 / b)


def power(a: Value, b: Value) -> Number:
    a, b = _number(a), _number(b)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        if b.denominator == 1 and abs(b) <= 64:  # exactly, unless the number would fill the memory
            if a == 0 and b < 0:
                raise DividesByZero("a division by zero")
            return a**b.numerator
        if b.denominator == 2 and a >= 0 and abs(b) <= 16:
            # sqrt(4) stays exact, so that a line with it is decided and not only enclosed
            root = Fraction(isqrt(a.numerator), isqrt(a.denominator))
            if root * root == a:
                return power(root, b * 2)
    if isinstance(b, Fraction) and b.denominator == 1 and abs(b) <= 64:
        return a ** int(b)  # a ball that may be negative; the general power below needs a positive base
    base, exponent = _same(a, b)
    if isinstance(base, Fraction):
        base, exponent = ball(base), ball(exponent)
    if base == 0 and exponent > 0:
        return Fraction(0)
    if not base > 0:
        raise NoValue("a root of what may be negative")
    return base.sqrt() if b == Fraction(1, 2) else base**exponent


def _as_ball(a: Value) -> Any:
    a = _number(a)
    return ball(a) if isinstance(a, Fraction) else a


def _exp(a: Value) -> Number:
    a = _number(a)
    return Fraction(1) if isinstance(a, Fraction) and a == 0 else _as_ball(a).exp()


def _ln(a: Value) -> Number:
    a = _number(a)
    if isinstance(a, Fraction) and a == 1:
        return Fraction(0)
    if not _as_ball(a) > 0:
        raise NoValue("the logarithm of what may not be positive")
    return _as_ball(a).log()


def _softmax_rows(a: Value) -> Value:
    if not isinstance(a, tuple):
        return Fraction(1)  # of a matrix with one entry
    made = []
    for row in a:
        powers = [_exp(x) for x in row]
        total = Fraction(0)
        for one in powers:
            total = _add(total, one)
        made.append(tuple(_divide(one, total) for one in powers))
    return tuple(made)


def _relu(a: Value) -> Value:
    def positive(x: Number) -> Number:
        # the second form encloses max(x, 0) also where the ball has both signs
        return max(x, Fraction(0)) if isinstance(x, Fraction) else (abs(x) + x) / 2

    return tuple(tuple(positive(x) for x in row) for row in a) if isinstance(a, tuple) else positive(a)


def _trace(a: Value) -> Number:
    if not isinstance(a, tuple):
        return _number(a)
    total: Number = Fraction(0)
    for n, row in enumerate(a):
        total = _add(total, row[n])
    return total


def _norm(term: Term, a: Value) -> Number:
    if not isinstance(a, tuple):
        a = _number(a)
        return abs(a)
    if term.value == "2":
        return _spectral(a)
    squares: Number = Fraction(0)
    for row in a:
        squares = _add(squares, _dot(row, row))
    return power(squares, Fraction(1, 2))


def _spectral(a: Matrix) -> Number:
    """The largest singular value, enclosed: the root of the largest eigenvalue of A^T A."""
    gram = times(_transpose(a), a)
    if not isinstance(gram, tuple):
        return power(gram, Fraction(1, 2))
    # columns at right angles: no eigenvalues are needed, and the norm may stay exact
    if all(isinstance(x, Fraction) and (x == 0 or i == j) for i, row in enumerate(gram) for j, x in enumerate(row)):
        return power(max(row[i] for i, row in enumerate(gram)), Fraction(1, 2))
    matrix = flint.acb_mat([[flint.acb(_as_ball(x)) for x in row] for row in gram])
    try:
        values = [one.real for one in matrix.eig(multiple=True)]
    except (ValueError, ArithmeticError):
        raise NoValue("eigenvalues that lie too close together") from None
    largest = values[0]
    for one in values[1:]:
        largest = largest.max(one)
    return largest.max(flint.arb(0)).sqrt()


def _rank(a: Value) -> Number:
    if not isinstance(a, tuple):
        return Fraction(int(_number(a) != 0))
    # a rank jumps at a single number, which no enclosure tells from its neighbours
    if not all(isinstance(x, Fraction) for row in a for x in row):
        raise NoValue("a rank of what is not exact")
    rows = [[flint.fmpq(x.numerator, x.denominator) for x in row] for row in a]
    return Fraction(int(flint.fmpq_mat(rows).rank()))


def _fold(combine: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    def all_of(term: Term, *args: Value) -> Value:
        made = args[0]
        for one in args[1:]:
            made = combine(made, one)
        return made

    return all_of


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": _fold(plus),
    "mul": _fold(times),
    "div": lambda _, a, b: _divide(a, b),
    "pow": lambda _, a, b: power(a, b),
    "T": lambda _, a: _transpose(a),
    "norm": _norm,
    "tr": lambda _, a: _trace(a),
    "exp": lambda _, a: _exp(a),
    "ln": lambda _, a: _ln(a),
    "sin": lambda _, a: _as_ball(a).sin() if _number(a) != 0 else Fraction(0),
    "cos": lambda _, a: _as_ball(a).cos() if _number(a) != 0 else Fraction(1),
    "abs": lambda _, a: abs(_number(a)),
    "softmax": lambda _, a: _softmax_rows(a),
    "relu": lambda _, a: _relu(a),
    "rank": lambda _, a: _rank(a),
    "delta": lambda _, a, b: Fraction(_whole(a) == _whole(b)),
}


def compare(sign: str, left: Value, right: Value) -> bool | None:
    """True: holds; False: certainly not; None: the balls are too wide to say."""
    left, right = _give_size(left, right), _give_size(right, left)
    if isinstance(left, Eye) and isinstance(right, Eye):
        return sign == "="
    if isinstance(left, Eye) or isinstance(right, Eye):
        raise NoValue("an identity of no size")
    if isinstance(left, tuple):
        if len(left) != len(right) or len(left[0]) != len(right[0]):
            raise NoValue("sizes that do not fit")
        pairs = [(x, y) for r, s in zip(left, right, strict=True) for x, y in zip(r, s, strict=True)]
        said = [_compare_numbers(sign if sign != "!=" else "=", x, y) for x, y in pairs]
        if sign == "!=":
            return True if False in said else None if None in said else False  # one entry is enough to differ
        return False if False in said else None if None in said else True
    return _compare_numbers(sign, left, right)


def _compare_numbers(sign: str, left: Number, right: Number) -> bool | None:
    left, right = _same(left, right)
    gap = right - left
    if isinstance(gap, Fraction):
        return {"=": gap == 0, "<=": gap >= 0, ">=": gap <= 0, "<": gap > 0, ">": gap < 0, "!=": gap != 0}[sign]
    if sign in (">=", ">"):
        gap, sign = -gap, TURNED[sign]
    scale = 1 + abs(left) + abs(right)
    touches = gap.contains(0)
    # that narrow balls meet is no proof of equality: it says that this instance refutes nothing
    close = touches and bool(gap.rad() < NARROW * scale)
    if sign == "!=":
        return None if touches else True
    if sign == "=":
        return False if not touches else True if close else None
    if bool(gap < 0):
        return False
    return True if bool(gap > 0) or (sign == "<=" and close) else None


def write_value(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + "; ".join(" ".join(write_value(x) for x in row) for row in value) + "]"
    if isinstance(value, dict):
        return "(" + ", ".join(write_value(x) for x in value.values()) + ")"
    if isinstance(value, Fraction):
        return str(value)
    return f"{float(value.mid()):.6g}" if hasattr(value, "mid") else "I"

"""What a term comes to on one instance: exact rationals as long as nothing transcendental stands in it, then balls.

A relation is refuted only where the two sides certainly differ: as rationals, or as balls that do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from math import isqrt
from typing import Any

import flint

from regard.coursework.derivations.terms import TURNED, Definitions, Span, Term

Number = Any  # flint.fmpq, or flint.arb where it is not exact
Matrix = Any  # flint.fmpq_mat, or flint.arb_mat where an entry is not exact
Value = Any  # a number, a matrix, or IDENTITY
MATRICES = (flint.fmpq_mat, flint.arb_mat)
MOST_STEPS = 5000  # terms of sums; nested ones multiply
HALF = flint.fmpq(1, 2)
NARROW = flint.arb(2) ** -80  # relative: balls that touch and are as narrow as this pass for equal


class NoValue(Exception):  # noqa: N818 - no fault: this instance has nothing to say about the term
    """The term has no value on this instance: a division by zero, an index out of its range."""


class DividesByZero(NoValue):
    """Something is divided by zero on this instance."""


class Eye:
    """The identity, of whatever size its neighbours have."""


IDENTITY = Eye()


def exact(x: int | Fraction) -> Number:
    """The number that it is, in flint's fractions."""
    return flint.fmpq(x.numerator, x.denominator)


def matrix_of(rows: Sequence[Sequence[Number]]) -> Matrix:
    """The matrix with these rows, exact if all of its entries are."""
    is_exact = all(isinstance(x, (int, flint.fmpq)) for row in rows for x in row)
    return (flint.fmpq_mat if is_exact else flint.arb_mat)([list(row) for row in rows])


def identity(size: int) -> Matrix:
    return matrix_of([[int(i == j) for j in range(size)] for i in range(size)])


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
            made = evaluate(term, self, {index: exact(place)} if place is not None else {})
        elif name.endswith(".") and place is not None and 0 < place <= self.value(name[:-1]).nrows():
            made = self.value(name[:-1])[place - 1, 0]  # an entry of a vector
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
        return exact(int(size)) if size.isdigit() else self.value(size)

    def with_value(self, name: str, value: Value) -> Instance:
        """The same with another value for one name."""
        return Instance({**self.values, name: value}, self.definitions, ones=self.ones)

    def define_all(self, definitions: Definitions) -> None:
        self.definitions = {**self.definitions, **definitions}
        self.known = {}  # what was kept may rest on the old meaning of a name


def evaluate(term: Term, where: Instance, places: dict[str, Number]) -> Value:
    """The value of a term; ``places`` are the indices that are bound."""
    if term.op == "num":
        return exact(term.value)
    if term.op == "sym":
        if term.value in places:
            return places[term.value]
        if term.value == "pi":
            return flint.arb.pi()
        return where.value(term.value)
    if term.op == "at":
        return where.value(term.value, _whole(evaluate(term.args[0], where, places)))
    if term.op == "ones":
        return matrix_of([[1]] * where.ones)
    if term.op == "eye":
        return IDENTITY
    if term.op == "sum":
        return _sum(term, where, places)
    if term.op == "unit":
        size, place = _whole(where.number(term.value)), _whole(evaluate(term.args[0], where, places))
        if not 1 <= place <= size:
            raise NoValue("a place that the matrix does not have")
        return matrix_of([[int(n == place)] for n in range(1, size + 1)])
    if term.op == "image":
        rows = where.value(term.value.removesuffix("^T"))
        rows = _transpose(rows) if term.value.endswith("^T") else rows
        return exact(rows.tolist()[_whole(evaluate(term.args[0], where, places)) - 1].index(1) + 1)
    args = [evaluate(one, where, places) for one in term.args]
    return _OPERATIONS[term.op](term, *args)


def _whole(value: Number) -> int:
    if not isinstance(value, flint.fmpq) or value.q != 1:
        raise NoValue("an index that is no whole number")
    return int(value)


def _sum(term: Term, where: Instance, places: dict[str, Number]) -> Value:
    span: Span = term.value
    lo, hi = (_whole(evaluate(one, where, places)) for one in (span.lo, span.hi))
    without = {_whole(evaluate(one, where, places)) for one in span.without}
    total: Value = exact(0)
    for n in range(lo, hi + 1):
        where.steps += 1
        if where.steps > MOST_STEPS:
            raise NoValue("more terms than are added up")
        if n not in without:
            total = plus(total, evaluate(term.args[0], where, {**places, span.index: exact(n)}))
    return total


def _is_zero(a: Value) -> bool:
    """Exactly: a ball around 0 may be another number."""
    return isinstance(a, flint.fmpq) and a == 0


def _give_size(a: Value, like: Value) -> Value:
    """0 and I take the size of what stands beside them."""
    if isinstance(a, Eye) and not isinstance(like, (*MATRICES, Eye)) and like != 0:
        return exact(1)  # beside a matrix with one entry
    if isinstance(like, MATRICES) and not isinstance(a, MATRICES):
        rows, columns = like.nrows(), like.ncols()
        if isinstance(a, Eye) and rows == columns:
            return identity(rows)
        if _is_zero(a):
            return flint.fmpq_mat(rows, columns)
        if (rows, columns) == (1, 1):
            return matrix_of([[a]])
        raise NoValue("a number beside a matrix")
    return a


def plus(a: Value, b: Value) -> Value:
    a, b = _give_size(a, b), _give_size(b, a)
    if isinstance(a, Eye) or isinstance(b, Eye):
        if not _is_zero(a) and not _is_zero(b):
            raise NoValue("an identity of no size")
        return b if _is_zero(a) else a
    return a + b


def times(a: Value, b: Value) -> Value:
    if isinstance(a, Eye) or isinstance(b, Eye):
        return b if isinstance(a, Eye) else a
    if isinstance(a, MATRICES) and isinstance(b, MATRICES):
        made = a * b
        # x^T y may stand wherever a number may
        return made[0, 0] if made.nrows() == made.ncols() == 1 else made
    if isinstance(a, MATRICES) or isinstance(b, MATRICES):
        if isinstance(a, flint.arb) or isinstance(b, flint.arb):  # flint multiplies exact matrices by exact numbers
            a, b = (flint.arb_mat(one) if isinstance(one, MATRICES) else one for one in (a, b))
        return a * b
    return exact(0) if _is_zero(a) or _is_zero(b) else a * b  # 0 exactly, also beside a ball


def _transpose(a: Value) -> Value:
    return a.transpose() if isinstance(a, MATRICES) else a


def _number(a: Value) -> Number:
    if isinstance(a, MATRICES) and a.nrows() == a.ncols() == 1:
        return a[0, 0]
    if isinstance(a, (*MATRICES, Eye)):
        raise NoValue("a matrix where a number is needed")
    return a


def _divide(a: Value, b: Value) -> Value:
    b = _number(b)
    if _is_zero(b) or (isinstance(b, flint.arb) and b.contains(0)):
        raise DividesByZero("a division by zero")
    return times(a, 1 / b)


def power(a: Value, b: Value) -> Number:
    a, b = _number(a), _number(b)
    if isinstance(b, flint.fmpq) and b.q == 1 and abs(b) <= 64:  # unless the number would fill the memory
        if _is_zero(a) and b < 0:
            raise DividesByZero("a division by zero")
        return a ** int(b)  # also of a ball that may be negative; the general power below needs a positive base
    if isinstance(a, flint.fmpq) and isinstance(b, flint.fmpq) and b.q == 2 and a >= 0 and abs(b) <= 16:
        # sqrt(4) stays exact, so that a line with it is decided and not only enclosed
        root = flint.fmpq(isqrt(int(a.p)), isqrt(int(a.q)))
        if root * root == a:
            return power(root, b * 2)
    base, exponent = flint.arb(a), flint.arb(b)
    if base == 0 and exponent > 0:
        return exact(0)
    if not base > 0:
        raise NoValue("a root of what may be negative")
    return base.sqrt() if exponent == 0.5 else base**exponent


def _exp(a: Value) -> Number:
    return exact(1) if _is_zero(_number(a)) else flint.arb(_number(a)).exp()


def _ln(a: Value) -> Number:
    a = _number(a)
    if isinstance(a, flint.fmpq) and a == 1:
        return exact(0)
    if not flint.arb(a) > 0:
        raise NoValue("the logarithm of what may not be positive")
    return flint.arb(a).log()


def _softmax_rows(a: Value) -> Value:
    if not isinstance(a, MATRICES):
        return exact(1)  # of a matrix with one entry
    powers = [[_exp(x) for x in row] for row in a.tolist()]
    return matrix_of([[x / sum(row, exact(0)) for x in row] for row in powers])


def _relu(a: Value) -> Value:
    def positive(x: Number) -> Number:
        # the second form encloses max(x, 0) also where the ball has both signs
        return max(x, exact(0)) if isinstance(x, flint.fmpq) else (abs(x) + x) / 2

    return matrix_of([[positive(x) for x in row] for row in a.tolist()]) if isinstance(a, MATRICES) else positive(a)


def _trace(a: Value) -> Number:
    return sum((a[i, i] for i in range(a.nrows())), exact(0)) if isinstance(a, MATRICES) else _number(a)


def _norm(term: Term, a: Value) -> Number:
    if not isinstance(a, MATRICES):
        return abs(_number(a))
    return _spectral(a) if term.value == "2" else power(sum((x * x for x in a.entries()), exact(0)), HALF)


def _spectral(a: Matrix) -> Number:
    """The largest singular value, enclosed: the root of the largest eigenvalue of A^T A."""
    gram = times(_transpose(a), a)
    if not isinstance(gram, MATRICES):
        return power(gram, HALF)
    rows = gram.tolist()
    # columns at right angles: no eigenvalues are needed, and the norm may stay exact
    is_diagonal = all(_is_zero(x) or i == j for i, row in enumerate(rows) for j, x in enumerate(row))
    if is_diagonal and isinstance(gram, flint.fmpq_mat):
        return power(max(row[i] for i, row in enumerate(rows)), HALF)
    try:
        values = [one.real for one in flint.acb_mat(flint.arb_mat(gram)).eig(multiple=True)]
    except (ValueError, ArithmeticError):
        raise NoValue("eigenvalues that lie too close together") from None
    return reduce(lambda one, other: one.max(other), values, flint.arb(0)).sqrt()


def _rank(a: Value) -> Number:
    if not isinstance(a, MATRICES):
        return exact(int(_number(a) != 0))
    # a rank jumps at a single number, which no enclosure tells from its neighbours
    if not isinstance(a, flint.fmpq_mat):
        raise NoValue("a rank of what is not exact")
    return exact(a.rank())


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": lambda _, *args: reduce(plus, args),
    "mul": lambda _, *args: reduce(times, args),
    "div": lambda _, a, b: _divide(a, b),
    "pow": lambda _, a, b: power(a, b),
    "T": lambda _, a: _transpose(a),
    "norm": _norm,
    "tr": lambda _, a: _trace(a),
    "exp": lambda _, a: _exp(a),
    "ln": lambda _, a: _ln(a),
    "sin": lambda _, a: exact(0) if _is_zero(_number(a)) else flint.arb(_number(a)).sin(),
    "cos": lambda _, a: exact(1) if _is_zero(_number(a)) else flint.arb(_number(a)).cos(),
    "abs": lambda _, a: abs(_number(a)),
    "softmax": lambda _, a: _softmax_rows(a),
    "relu": lambda _, a: _relu(a),
    "rank": lambda _, a: _rank(a),
    "delta": lambda _, a, b: exact(int(_whole(a) == _whole(b))),
}


def compare(sign: str, left: Value, right: Value) -> bool | None:
    """True: holds; False: certainly not; None: the balls are too wide to say."""
    left, right = _give_size(left, right), _give_size(right, left)
    if isinstance(left, Eye) and isinstance(right, Eye):
        return sign in ("=", "<=", ">=")
    if isinstance(left, Eye) or isinstance(right, Eye):
        raise NoValue("an identity of no size")
    if isinstance(left, MATRICES):
        if (left.nrows(), left.ncols()) != (right.nrows(), right.ncols()):
            raise NoValue("sizes that do not fit")
        pairs = zip(left.entries(), right.entries(), strict=True)
        said = [_compare_numbers(sign if sign != "!=" else "=", x, y) for x, y in pairs]
        if sign == "!=":
            return True if False in said else None if None in said else False  # one entry is enough to differ
        return False if False in said else None if None in said else True
    return _compare_numbers(sign, left, right)


def _compare_numbers(sign: str, left: Number, right: Number) -> bool | None:
    gap = right - left
    if isinstance(gap, flint.fmpq):
        holds = {"=": gap == 0, "<=": gap >= 0, ">=": gap <= 0, "<": gap > 0, ">": gap < 0, "!=": gap != 0}
        return bool(holds[sign])
    if sign in (">=", ">"):
        gap, sign = -gap, TURNED[sign]
    touches = gap.contains(0)
    # that narrow balls meet is no proof of equality: it says that this instance refutes nothing
    close = touches and bool(gap.rad() < NARROW * (1 + abs(left) + abs(right)))
    if sign == "!=":
        return None if touches else True
    if sign == "=":
        return False if not touches else True if close else None
    if bool(gap < 0):
        return False
    return True if bool(gap > 0) or (sign == "<=" and close) else None


def write_value(value: Value) -> str:
    if isinstance(value, MATRICES):
        return "[" + "; ".join(" ".join(write_value(x) for x in row) for row in value.tolist()) + "]"
    if isinstance(value, dict):
        return "(" + ", ".join(write_value(x) for x in value.values()) + ")"
    if isinstance(value, flint.fmpq):
        return str(value)
    return f"{float(value.mid()):.6g}" if hasattr(value, "mid") else "I"

"""Answers in rationals and balls, for what float64 cannot decide: sharp demands, keys a hair off a face, limits.

First the limit: the smallest face that holds the anchors (`faces`), and on it the combination of largest entropy, made
to balance exactly. It settles three kinds of question: demands that no query meets, those that are approached and never
reached (where the combination proves just what was asked), and budgets that are as good as unlimited. The rest are
finite convex problems, solved with as many digits as they need (`precise_path`). Queries and weights come out as
rationals; `verification` checks them as such.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import flint

from regard.design.certificate import Balance, Certificate, Exact, Statement, Verb, rationals
from regard.design.faces import Face, Vector, smallest_face
from regard.design.precise_path import Path, Solution
from regard.design.question import Question
from regard.errors import CouldNotFindOut
from regard.rigor.exact import pivots

LARGEST = 50_000  # n r^2, the price of one step, beyond which exact arithmetic takes too long
BITS = (512, 1280, 2560, 6400)  # digits to try with, in turn
GAP = 4e-11  # what the path is followed to: relative for norms, nats for budgets
MARGIN = 45  # nats by which keys off the face are left behind: e^-45 is nothing beside GAP
DEEP = 1e-40  # how near the combination of largest entropy is taken to its limit
ZERO = flint.fmpq(0)
TOO_LONG = (
    "The shortest query that was found to meet the demand is too long for float64, and could not be certified: "
    "multiply the keys or the scale."
)


def answers(question: Question) -> Iterator[Certificate]:
    """Certificates for a demand or a budget, each with more digits than the last; none where the keys are too many."""
    return _with_more_digits(question, lambda scene: scene.budget() if question.max_norm else scene.demand())


def ceilings(question: Question) -> Iterator[Certificate]:
    """Certificates for the most that the key can ever get, each with more digits than the last."""
    return _with_more_digits(question, lambda scene: scene.ceiling())


def price(question: Question) -> int:
    """What one step costs: n r^2 products, r the dimensions that the keys can span."""
    return len(question.rows) * min(len(question.rows), int(question.keys.shape[1])) ** 2


def _with_more_digits(question: Question, ask: Callable[[_ExactQuestion], Certificate | None]) -> Iterator[Certificate]:
    if price(question) > LARGEST or not len(question.competing):
        return
    for bits in BITS:
        made = None
        # at too few digits a matrix is singular, or a weight is lost
        with contextlib.suppress(ArithmeticError, ValueError), flint.ctx.workprec(bits):
            made = ask(_ExactQuestion(question))
        if made is not None:
            yield made


@dataclass(frozen=True, eq=False)
class _Limit:
    """What is approached: the balanced combination (None if there is none), and a query that comes near."""

    combination: Balance | None
    query: Exact


class _ExactQuestion:
    """The question in rationals: competing points and anchors, relative to the anchors' mean, scaled to size 1."""

    def __init__(self, question: Question) -> None:
        self.question = question
        points = [rationals(row) for row in question.keys[question.competing]]
        if question.target is None:
            anchors = [rationals(question.keys[j]) for j in question.chosen]
            shares: list[flint.fmpq] = [flint.fmpq(1, len(anchors))] * len(anchors)
        else:
            given = rationals(question.target[question.rows])
            total = sum(given, ZERO)
            anchors, shares = points, [p / total for p in given]
        centre = _combine(shares, anchors)
        scale = flint.fmpq(*question.scale.as_integer_ratio())
        self.points = [[scale * (x - c) for x, c in zip(row, centre, strict=True)] for row in points]
        self.anchors = [[ZERO] * len(centre)]
        if question.target is None:
            self.anchors = [[scale * (x - c) for x, c in zip(row, centre, strict=True)] for row in anchors]
        self.unit = max((abs(x) for row in self.points for x in row), default=ZERO) or flint.fmpq(1)
        self.known = self._known_members()

    def _known_members(self) -> list[int]:
        """Points that are on the smallest face because they are anchors, or have a share of the target."""
        question = self.question
        if question.target is not None:
            return [i for i, row in enumerate(question.rows.tolist()) if question.target[row] > 0]
        if question.verb is Verb.COPY:
            return []
        return [i for i, row in enumerate(question.rows.tolist()) if row in question.chosen]

    @cached_property
    def face(self) -> Face:
        return smallest_face(self.points, self.known)

    def _path(self, members: list[int]) -> Path:
        rows = [self.points[i] for i in members]
        return Path(_balls(rows, self.unit) * self.frame, _balls(self.anchors, self.unit) * self.frame)

    @cached_property
    def frame(self) -> flint.arb_mat:
        """Orthonormal directions (columns) that the points and anchors span: the path runs in no others."""
        d = len(self.anchors[0])
        if d <= len(self.points):
            return _balls([[flint.fmpq(int(a == b)) for b in range(d)] for a in range(d)], flint.fmpq(1))
        columns: list[flint.arb_mat] = []
        for row in [*self.points, *self.anchors]:
            rest = _balls([row], self.unit).transpose()
            for _ in range(2):  # twice, so that it is orthogonal to the last digits
                for column in columns:
                    rest = (rest - column * (column.transpose() * rest)[0, 0]).mid()
            length = sum((x * x for x in rest.entries()), flint.arb(0)).sqrt()
            if length > flint.arb(2) ** (-flint.ctx.prec // 2):
                columns.append((rest / length).mid())
        return flint.arb_mat([[column[c, 0] for column in columns] for c in range(d)])

    def _query(self, solution: Solution) -> list[flint.fmpq]:
        """The path's query, in the keys' own space and size."""
        place = self.frame * flint.arb_mat(len(solution.query), 1, solution.query)
        return [_rational(x) / self.unit for x in place.entries()]

    @cached_property
    def limit(self) -> _Limit:
        """The combination of largest entropy on the face, and a query that leaves everything else behind."""
        members = list(self.face.members)
        if not members:
            return _Limit(None, self._move_past_face([ZERO] * len(self.face.normal), members))
        even = self._even_balance(members, [flint.fmpq(1, len(self.anchors))] * len(self.anchors))
        if even is not None:
            return _Limit(even, self._move_past_face([ZERO] * len(self.face.normal), members))
        deep = self._path(members).deepest(self._deep())
        mixture = [_rational(x) for x in deep.mixture]
        total = sum(mixture, ZERO)
        mixture = [x / total for x in mixture]
        query = self._query(deep)
        heavy = max(deep.weights)
        # equal as far as the digits go: tried as equal ones, which prove a whole number
        if all(abs(w / heavy - 1) < 1e-20 for w in deep.weights):
            even = self._even_balance(members, mixture)
        if even is None:
            even = self._balance_exactly(members, [_rational(w) for w in deep.weights], mixture)
        return _Limit(even, self._move_past_face(query, members))

    def _deep(self) -> flint.arb:
        """DEEP, beside which no share of a target is small: its key may have a weight of that size, or its square."""
        shares = [] if self.question.target is None else self.question.target[self.question.target > 0].tolist()
        return DEEP * flint.arb(min(shares, default=1.0)) ** 2

    def _even_balance(self, members: list[int], mixture: Vector) -> Balance | None:
        """Equal weights on the face, if they balance some mixture near this one: they prove a whole number."""
        weights = [flint.fmpq(1, len(members))] * len(members)
        mean = _combine(weights, [self.points[i] for i in members])
        order = sorted(range(len(mixture)), key=lambda m: -mixture[m])
        solved = _solve([self.anchors[m] for m in order], mean)
        if solved is None or any(x < 0 for x in solved):
            return None
        place = dict(zip(order, solved, strict=True))
        return self._balance(members, weights, [place[m] for m in range(len(mixture))])

    def _balance_exactly(self, members: list[int], weights: Vector, mixture: Vector) -> Balance:
        """Weights next to these that balance the mixture exactly: a basis of them is solved for."""
        total = sum(weights, ZERO)
        weights = [w / total for w in weights]
        rows = [self.points[i] for i in members]
        aim = _combine(mixture, self.anchors)
        miss = [a - b for a, b in zip(aim, _combine(weights, rows), strict=True)]
        order = sorted(range(len(members)), key=lambda i: -weights[i])  # the heaviest can bear a correction
        change = _solve([rows[i] for i in order], miss, total=ZERO)
        if change is None:
            raise ArithmeticError("the mixture is not in the span of the face")
        for i, x in zip(order, change, strict=True):
            weights[i] += x
        if min(weights) <= 0:
            raise ArithmeticError("a weight was lost")
        return self._balance(members, weights, mixture)

    def _balance(self, members: list[int], weights: Vector, mixture: Vector) -> Balance:
        full = [ZERO] * len(self.points)
        for i, w in zip(members, weights, strict=True):
            full[i] = w
        return Balance(weights=tuple(full), mixture=() if self.question.verb is Verb.MATCH else tuple(mixture))

    def _move_past_face(self, query: Vector, members: list[int]) -> Exact:
        """The query moved along the face's normal, until all keys off the face are MARGIN nats behind."""
        if len(members) == len(self.points):
            return tuple(query)
        normal = self.face.normal
        own = max((_dot(self.points[i], query) for i in members), default=ZERO)
        # ln n <= n: also together they are then MARGIN nats behind
        enough = MARGIN + len(self.points)
        far = ZERO
        for i, row in enumerate(self.points):
            if i not in members:
                far = max(far, (_dot(row, query) - own + enough) / -_dot(row, normal))
        return tuple(x + far * v for x, v in zip(query, normal, strict=True))

    def ceiling(self) -> Certificate:
        return self.question.certificate(
            Statement.CEILING, query=self.limit.query, combination=self.limit.combination, gap=1e-6
        )

    def demand(self) -> Certificate | None:
        question, combination = self.question, self.limit.combination
        if combination is not None and self._not_below(combination):
            return question.certificate(Statement.UNREACHABLE, combination=combination)
        # not proved impossible in the limit, so some query does it
        solution = self._path(list(range(len(self.points)))).shortest(self._demanded_value(), GAP)
        if solution is None:
            return None
        query = tuple(self._query(solution))
        dual, norm = self._dual(solution.weights, solution.mixture), _norm_above(query)
        if math.isinf(norm):
            if question.verb is Verb.COPY:  # of which the hull can prove more
                return None
            raise CouldNotFindOut(TOO_LONG)
        return question.certificate(Statement.SHORTEST, query=query, dual=dual, norm=norm, gap=1e-9)

    def _not_below(self, combination: Balance) -> bool:
        """Does the combination, which balances, prove at least what was asked? The check decides what equality means.

        Copies of the key have its weight whatever the query: where the combination leaves them out, they are added.
        """
        weights, question = rationals(combination.weights), self.question
        heavy = [w for w in weights if w > 0]
        if question.target is not None:
            shares = [p for p in rationals(question.target[question.rows]) if p > 0]
            return bool(_entropy(heavy) - _entropy(shares) > question.kl)
        copies = [i for i, same in enumerate(question.copies.tolist()) if same]
        apart = 0 if any(weights[i] for i in copies) else len(copies)
        if all(w == heavy[0] for w in heavy):  # equal weights prove their number, exactly
            return bool(apart + len(heavy) >= self._total_asked())
        return bool(apart + _entropy(heavy).exp() > self._total_asked())

    def _total_asked(self) -> flint.fmpq:
        """What the exponentials relative to an anchor's may sum up to: eps for copying, s + eps for sharing."""
        more = 0 if self.question.verb is Verb.COPY else len(self.question.chosen)
        return flint.fmpq(*(self.question.eps or 0.0).as_integer_ratio()) + more

    def _demanded_value(self) -> flint.arb:
        """The F that is asked for, in nats."""
        question = self.question
        if question.target is not None:
            shares = [p for p in rationals(question.target[question.rows]) if p > 0]
            return (_entropy(shares) + question.kl).mid()
        return flint.arb(self._total_asked()).log().mid()

    def _dual(self, weights: list[flint.arb], mixture: list[flint.arb]) -> Balance:
        exact = tuple(_rational(x) for x in weights)
        return Balance(
            weights=exact, mixture=() if self.question.verb is Verb.MATCH else tuple(_rational(x) for x in mixture)
        )

    def budget(self) -> Certificate | None:
        question, limit = self.question, self.limit
        radius = flint.fmpq(*(question.max_norm or 0.0).as_integer_ratio())
        if sum((x * x for x in limit.query), ZERO) <= radius * radius:
            dual = limit.combination
            if dual is None:
                dual = Balance(weights=(flint.fmpq(1),) * len(self.points), mixture=(flint.fmpq(1),))
            return question.certificate(Statement.STRONGEST, query=limit.query, dual=dual, gap=1e-9)
        inside = flint.arb(radius * self.unit).mid()
        solution = self._path(list(range(len(self.points)))).strongest(inside, GAP)
        if solution is None:
            return None
        query = tuple(self._query(solution))
        dual = self._dual(solution.weights, solution.mixture)
        return question.certificate(Statement.STRONGEST, query=query, dual=dual, gap=1e-9)


def _entropy(weights: Vector) -> flint.arb:
    """H(w / sum w) of positive weights, enclosed."""
    total = sum(weights, ZERO)
    return -sum((flint.arb(w / total) * flint.arb(w / total).log() for w in weights), flint.arb(0))


def _norm_above(query: Exact) -> float:
    """The least float that is not below the length; infinity where float64 ends before it."""
    square = sum((x * x for x in query), ZERO)
    norm = float(flint.arb(square).sqrt())
    while norm < math.inf and flint.fmpq(*norm.as_integer_ratio()) ** 2 < square:
        norm = math.nextafter(norm, math.inf)
    return norm


def _combine(weights: Vector, rows: list[Vector] | list[Exact]) -> Vector:
    product = flint.fmpq_mat(1, len(weights), list(weights)) * flint.fmpq_mat([list(row) for row in rows])
    return list(product.entries())


def _dot(a: Vector, b: Vector) -> flint.fmpq:
    return sum((x * y for x, y in zip(a, b, strict=True) if y), ZERO)


def _solve(rows: list[Vector], aim: Vector, total: flint.fmpq | None = None) -> Vector | None:
    """Coefficients with that sum (1) and sum_i x_i row_i = aim, on the first rows that can; None if there are none."""
    total = flint.fmpq(1) if total is None else total
    table = flint.fmpq_mat([[*(row[c] for row in rows), aim[c]] for c in range(len(aim))] + [[*[1] * len(rows), total]])
    reduced, rank = table.rref()
    places = pivots(reduced, rank)
    if places and places[-1] == len(rows):
        return None
    solution = [ZERO] * len(rows)
    for r, place in enumerate(places):
        solution[place] = reduced[r, len(rows)]
    return solution


def _balls(rows: list[Vector], unit: flint.fmpq) -> flint.arb_mat:
    entries = [flint.arb(x / unit).mid() for row in rows for x in row]
    return flint.arb_mat(len(rows), len(rows[0]), entries)


def _rational(x: flint.arb) -> flint.fmpq:
    """The midpoint of a ball, exactly; nothing where it is less than the digits can hold beside 1."""
    whole, exponent = x.mid().man_exp()
    if whole == 0 or int(exponent) + int(whole).bit_length() < -4 * flint.ctx.prec:
        return ZERO
    return flint.fmpq(whole) * flint.fmpq(2) ** int(exponent)

"""The same path as in `minimax`, in as many digits as it takes.

F(q) = LSE(D q) + max_m ( -a_m.q ), and for every L > 0 the minimiser of ½||q||² + L F(q) is the best query of its
norm: as L grows the path runs from 0 through the shortest query of every demand and the strongest of every budget,
towards the infimum. Here L is closed in on, by secants in ln L, until the path meets the demand or the norm.

The maximum is smoothed: with t >= -a_m.q for every m,

    L (LSE(D q) + t) + ½||q||² - soft sum_m ln(t + a_m.q)

is minimised by damped Newton steps in (q, t), for a `soft` that falls from 1 to nothing. The logarithms are of linear
functions, so that Newton's method knows what it does (they are self-concordant); the exponentials cost a step for each
nat that they change. At the minimum mu_m = soft / (L (t + a_m.q)) sums to 1 and D^T softmax(D q) - A^T mu = -q / L: the
dual side comes for free, and what the smoothing costs is at most soft times the number of anchors.

Slow beside the float solvers (a hundred steps of about a millisecond), and used only where these are not enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import flint

Balls = list[flint.arb]

GROWTH = 32  # of L on the way out
SOFTER = 2.0**-10  # from one smoothing to the next
MOST_STEPS = 400  # Newton steps of one point of the path; three to ten are usual
SHARP = 0.75  # of the digits: a Newton decrement that small beside the value counts as the minimum
FARTHEST = flint.arb(10) ** 700  # L beyond which there is no more to be found


@dataclass(frozen=True, eq=False)
class Solution:
    """A query (d numbers), weights over the points and a mixture over the anchors."""

    query: Balls
    weights: Balls
    mixture: Balls


@dataclass(frozen=True, eq=False)
class _Point:
    """A point of the path, or on the way to it: x = (q, t), and everything known there."""

    x: Balls
    height: flint.arb  # LSE(D q) + t, which is F(q) and at most the smoothing more
    square: flint.arb  # ||q||²
    weights: Balls
    mean: Balls  # D^T w
    room: Balls  # t + a_m.q
    aim: flint.arb  # L
    soft: flint.arb
    value: flint.arb


class Path:
    """Points D (n x d) and anchors (m x d) of size about 1, as matrices of balls."""

    def __init__(self, points: flint.arb_mat, anchors: flint.arb_mat) -> None:
        self.points, self.anchors, self.turned = points, anchors, points.transpose()
        self.n, self.d, self.m = points.nrows(), points.ncols(), anchors.nrows()
        self.own = [[anchors[m, c] for c in range(self.d)] + [flint.arb(1)] for m in range(self.m)]  # of t + a_m.q

    def shortest(self, limit: flint.arb, gap: float) -> Solution | None:
        """The shortest query with F(q) <= limit, to a relative gap; None where the path ends above it."""
        # L is what the half square costs a nat of F: a relative gap of the norm is so many nats
        return self._find_crossing(lambda p: (p.height - limit, gap * p.square / p.aim / 4), gap)

    def strongest(self, radius: flint.arb, gap: float) -> Solution | None:
        """The least F(q) over ||q|| <= radius, to an absolute gap in nats."""
        return self._find_crossing(lambda p: (radius - _root(p.square), gap * p.aim / radius / 4), gap, outwards=True)

    def deepest(self, gap: flint.arb) -> Solution:
        """A query with F(q) within `gap` of its infimum, which must be attained."""
        point = self._first()
        while not (point.square + self.m * point.soft) / point.aim < gap:
            point = self._minimise(point.x, point.aim * GROWTH, point.soft)
            if point.aim > FARTHEST:
                raise ArithmeticError("the infimum is too far out")
        return self._solution(point)

    def _first(self) -> _Point:
        soft = flint.arb(1) if self.m > 1 else flint.arb(2) ** -200  # one anchor has nothing to be smoothed
        return self._minimise([*[flint.arb(0)] * self.d, flint.arb(1)], flint.arb(1), soft)

    def _find_crossing(
        self, miss: Callable[[_Point], tuple[flint.arb, flint.arb]], gap: float, *, outwards: bool = False
    ) -> Solution | None:
        """The point of the path where `miss` (positive at first, and falling) is at most 0, by at most its room.

        outwards: `miss` must end up at 0 or above instead (a norm that may not be exceeded).
        """
        point = self._first()
        while miss(point)[0] > 0:
            if point.aim > FARTHEST:
                return None
            low, point = point, self._minimise(point.x, point.aim * GROWTH, point.soft)
        if point.aim == 1:  # met at once: look nearer to 0
            low = point
            while miss(low)[0] <= 0:
                low = self._minimise(low.x, low.aim / GROWTH, low.soft)
        while True:
            low, point = self._close_in(miss, low, point, outwards)
            if self.m * point.soft < gap * min(point.square, point.aim) / 8:
                return self._solution(low if outwards else point)
            soft = point.soft * SOFTER
            low, point = (self._minimise(p.x, p.aim, soft) for p in (low, point))
            while miss(low)[0] <= 0:
                low = self._minimise(low.x, low.aim / 2, soft)
            while miss(point)[0] > 0:
                point = self._minimise(point.x, point.aim * 2, soft)

    def _close_in(
        self, miss: Callable[[_Point], tuple[flint.arb, flint.arb]], low: _Point, high: _Point, outwards: bool
    ) -> tuple[_Point, _Point]:
        """Close in on the L where `miss` is 0: by secants in ln L that aim a little to the right side, and halving."""
        for turn in range(400):
            (under, room_low), (over, room_high) = miss(low), miss(high)
            if (outwards and under < room_low) or (not outwards and -over < room_high):
                break
            a, b = low.aim.log(), high.aim.log()
            wanted = room_low / 2 if outwards else -room_high / 2
            place = a + (b - a) * (under - wanted) / (under - over)
            # secants alone may creep from one side: every third time the interval is halved
            if turn % 3 == 2 or not a < place < b:
                place = (a + b) / 2
            # from the nearer end: Newton then takes few steps
            start = low if place < (a + b) / 2 else high
            point = self._minimise(start.x, place.exp().mid(), start.soft)
            low, high = (point, high) if miss(point)[0] > 0 else (low, point)
        return low, high

    def _solution(self, point: _Point) -> Solution:
        mixture = _mids(1 / z for z in point.room)
        return Solution(point.x[: self.d], point.weights, mixture)

    def _at(self, x: Balls, aim: flint.arb, soft: flint.arb) -> _Point | None:
        """Everything at one point; None where it is outside the constraints."""
        query, t = flint.arb_mat(self.d, 1, x[: self.d]), x[self.d]
        room = _mids(t + own for own in (self.anchors * query).entries())
        if not all(z > 0 for z in room):
            return None
        scores = (self.points * query).mid().entries()
        top = max(scores)
        odds = _mids((s - top).exp() for s in scores)
        total = sum(odds, flint.arb(0)).mid()
        weights = _mids(w / total for w in odds)
        mean = (self.turned * flint.arb_mat(self.n, 1, weights)).mid().entries()
        height, square = (top + total.log() + t).mid(), sum((c * c for c in x[: self.d]), flint.arb(0)).mid()
        value = aim * height + square / 2 - soft * sum((z.log() for z in room), flint.arb(0))
        return _Point(x, height, square, weights, mean, room, aim, soft, value.mid())

    def _minimise(self, x: Balls, aim: flint.arb, soft: flint.arb) -> _Point:
        point = self._at(x, aim, soft)
        if point is None:
            raise ArithmeticError("the way left its constraints")
        enough = flint.arb(2) ** int(-SHARP * flint.ctx.prec)
        for _ in range(MOST_STEPS):
            fall, step = self._newton(point)
            if fall <= enough * (1 + abs(point.value)):
                return point
            moved = self._backtrack(point, step, fall)
            if moved is None:
                return point
            point = moved
        return point

    def _backtrack(self, point: _Point, step: Balls, fall: flint.arb) -> _Point | None:
        """Backtracking from a full Newton step until a quarter of the promised fall is there."""
        length = flint.arb(1)
        for _ in range(300):
            x = [(a + length * b).mid() for a, b in zip(point.x, step, strict=True)]
            trial = self._at(x, point.aim, point.soft)
            if trial is not None and trial.value <= point.value - length * fall / 4:
                return trial
            length /= 2
        return None

    def _newton(self, point: _Point) -> tuple[flint.arb, Balls]:
        """The Newton step in (q, t), and the fall that it promises, twice."""
        d, aim = self.d, point.aim
        slopes = [point.soft / z for z in point.room]
        down = [-aim * g for g in point.mean] + [-aim]  # the negative gradient
        for c in range(d):
            down[c] -= point.x[c]
        spread = [w * self.points[i, c] for i, w in enumerate(point.weights) for c in range(d)]
        second = (self.turned * flint.arb_mat(self.n, d, spread)).mid()
        bend = [[flint.arb(0)] * (d + 1) for _ in range(d + 1)]
        for a in range(d):
            for b in range(d):
                bend[a][b] = aim * (second[a, b] - point.mean[a] * point.mean[b])
            bend[a][a] += 1
        for own, slope, z in zip(self.own, slopes, point.room, strict=True):
            for a in range(d + 1):
                down[a] += slope * own[a]
                for b in range(d + 1):
                    bend[a][b] += slope / z * own[a] * own[b]
        right = flint.arb_mat(d + 1, 1, down).mid()
        step = flint.arb_mat(d + 1, d + 1, [x for row in bend for x in row]).mid().solve(right).mid()
        return (right.transpose() * step)[0, 0].mid(), step.entries()


def _mids(values: Iterable[flint.arb]) -> Balls:
    """Midpoints: nothing is proved here, and radii would only grow."""
    return [x.mid() for x in values]


def _root(x: flint.arb) -> flint.arb:
    return x.sqrt().mid()

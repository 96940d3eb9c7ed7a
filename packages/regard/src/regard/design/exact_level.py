"""The two sides of a certificate without any rounding of the keys: rationals, and balls only for exp and log.

Scores, weighted sums of keys and their differences are exact; exponentials, logarithms and one square root are
enclosed in balls of `BITS`. Slow (milliseconds for ten keys), and nothing that is true of few keys is too fine for it:
demands of 1e-12, keys that miss a face by one unit in the last place, budgets of 1e290.
"""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
from numpy.typing import NDArray

from regard.design import evaluate
from regard.design.certificate import Balance, Exact, Numbers, Verb, rationals
from regard.design.certificate_problem import CertificateProblem

BITS = 2560  # demands down to the least float64 number, 1e-308, are told from nothing
AFFORDABLE = 40_000  # numbers in the keys, up to which this is tried where floats were not enough


class ExactLevel:
    """`problem.Level` in exact arithmetic."""

    def __init__(self, problem: CertificateProblem) -> None:
        self.verb, self.same, self.blur = problem.verb, problem.same, 0.0
        n, d = problem.points.shape
        self.points = _matrix(problem.points.tolist(), n, d)
        self.anchors = _matrix(problem.anchors.tolist(), len(problem.anchors), d)
        self.scale = flint.fmpq(*problem.scale.as_integer_ratio())
        self.target: Exact | None = None
        if problem.target is not None:
            shares = rationals(problem.target)
            total = sum(shares, flint.fmpq(0))
            self.target = tuple(share / total for share in shares)

    def norm(self, query: Numbers) -> float:
        square = sum((x * x for x in rationals(query)), flint.fmpq(0))
        with flint.ctx.workprec(BITS):
            return evaluate.above(flint.arb(square).sqrt())

    def value(self, query: Numbers) -> flint.arb:
        scores, own = self._scores(rationals(query))
        with flint.ctx.workprec(BITS):
            if not scores:
                return flint.arb(-math.inf)
            top = max(scores)
            total = sum((flint.arb(score - top).exp() for score in scores), flint.arb(0))
            level = total.log() + flint.arb(top - min(own))
            return level if self.target is None else level - _entropy(self.target)

    def entropy(self, weights: Numbers) -> flint.arb:
        exact = rationals(weights)
        with flint.ctx.workprec(BITS):
            if not any(exact):
                return flint.arb(-math.inf)  # nothing competes
            entropy = _entropy(exact)
            return entropy if self.target is None else entropy - _entropy(self.target)

    def slack(self, balance: Balance) -> flint.arb:
        miss = self._miss(balance)
        square = sum((x * x for x in miss), flint.fmpq(0))
        with flint.ctx.workprec(BITS):
            return flint.arb(self.scale) * flint.arb(square).sqrt()

    def balances(self, combination: Balance) -> bool:
        """P^T w = A^T mu, exactly?"""
        return not any(self._miss(combination))

    def total(self, combination: Balance) -> Fraction | flint.arb | None:
        """e^H of an exact combination, for copying with the copies of the key added; None if it does not balance.

        A fraction where all weights are equal, since then it is their number: what decides demands that are met in
        the limit only. Copies of the key have its own weight whatever the query, and are counted apart where the
        combination leaves them out.
        """
        if not self.balances(combination):
            return None
        weights = [w for w in rationals(combination.weights) if w > 0]
        apart = 0
        if self.verb is Verb.COPY and not any(rationals(combination.weights)[i] for i in self.same.nonzero()[0]):
            apart = int(self.same.sum())
        if all(w == weights[0] for w in weights):
            return Fraction(apart + len(weights))
        with flint.ctx.workprec(BITS):
            return apart + _entropy(tuple(weights)).exp()

    def strictly_wins(self, direction: Numbers) -> bool:
        """Does the key beat every other one that differs from it, along this direction?"""
        scores, own = self._scores(rationals(direction))
        return all(score < own[0] for score, same in zip(scores, self.same, strict=True) if not same)

    def _scores(self, query: Exact) -> tuple[list[flint.fmpq], list[flint.fmpq]]:
        """scale k.q of the points, and of the anchors (the target's mean key)."""
        column = flint.fmpq_mat(len(query), 1, list(query))
        scores = [self.scale * x for x in (self.points * column).entries()] if self.points.nrows() else []
        if self.target is not None:
            return scores, [sum((p * s for p, s in zip(self.target, scores, strict=True)), flint.fmpq(0))]
        return scores, [self.scale * x for x in (self.anchors * column).entries()]

    def _miss(self, balance: Balance) -> list[flint.fmpq]:
        weights = rationals(balance.weights)
        if not any(weights):
            return []  # nothing competes
        mean = _mean(weights, self.points)
        if self.target is not None:
            aim = _mean(self.target, self.points)
        else:
            aim = _mean(rationals(balance.mixture), self.anchors)
        return [a - b for a, b in zip(mean, aim, strict=True)]


def _matrix(rows: list[list[float]], n: int, d: int) -> flint.fmpq_mat:
    return flint.fmpq_mat(n, d, [flint.fmpq(*x.as_integer_ratio()) for row in rows for x in row])


def _mean(weights: Exact, rows: flint.fmpq_mat) -> list[flint.fmpq]:
    total = sum(weights, flint.fmpq(0))
    sums = flint.fmpq_mat(1, len(weights), list(weights)) * rows
    return [x / total for x in sums.entries()]


def _entropy(weights: Exact) -> flint.arb:
    """H(w / sum w), enclosed: ln W - (sum w ln w) / W."""
    positive = [w for w in weights if w > 0]
    total = sum(positive, flint.fmpq(0))
    logs = sum((flint.arb(w) * flint.arb(w).log() for w in positive), flint.arb(0))
    return flint.arb(total).log() - logs / flint.arb(total)


def scores_of(keys: NDArray[np.float64], query: Exact, scale: float) -> NDArray[np.float64]:
    """scale (k_i - k_best).q for every key (n numbers), each rounded once; the best key's is 0."""
    n, d = keys.shape
    rows = _matrix(keys.tolist(), n, d)
    scores = (rows * flint.fmpq_mat(d, 1, list(query))).entries()
    factor = flint.fmpq(*scale.as_integer_ratio())
    best = max(scores)
    return np.array([float(flint.arb(factor * (score - best)).mid()) for score in scores])

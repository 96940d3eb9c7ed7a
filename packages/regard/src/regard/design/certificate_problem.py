"""The question of a certificate, rebuilt from it and the keys: what competes, with whom, and what each side proves.

With competing keys P, anchors a_m (key j; the keys of S; the target's mean key) and score(q) = scale * k.q, everything
is about F(q) = max_m ( LSE(P q) - a_m.q ). A `Level` bounds the two sides of it, from the safe side: in float64 with
its rounding bounded, plain or compensated; or in rationals, and balls for exp and log only, for what floats cannot
decide: demands of 1e-12, keys that miss a face by one unit in the last place, budgets of 1e290.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Protocol

import flint
import numpy as np
from numpy.typing import NDArray

from regard import rigor
from regard.array_types import Float
from regard.design import evaluate
from regard.design.certificate import (
    Balance,
    Certificate,
    Exact,
    Numbers,
    Request,
    Statement,
    Verb,
    rationals,
)
from regard.errors import InputError
from regard.written_numbers import in_full

UNSEEN = 4e-12  # nats: an error of scores that no copying query, certified to 1e-9, can tell from a smaller one
EXACT_BITS = 2560  # of balls around exact numbers: demands down to the least float64 number are told from nothing
AFFORDABLE = 40_000  # numbers in the keys, up to which exact arithmetic is tried where floats were not enough
LIMIT_BITS = 320  # of ln(s + eps), and as many more as tell s + eps from s


def demand_sharpness(asked: Request) -> float:
    """How sharp a demand is beside copying's: lengthening a query gains sharing and matching about this part."""
    if asked.verb is Verb.COPY:
        return 1.0
    return (asked.eps or 0.0) / max(len(asked.keys), 1) if asked.verb is Verb.SHARE else asked.kl or 0.0


@lru_cache(maxsize=64)  # many answers have one demand
def _log_of_demand(eps: float, count: int) -> flint.arb:
    """ln(s + eps), with as many bits more as tell s + eps from s."""
    total = Fraction(eps) + count
    with flint.ctx.workprec(LIMIT_BITS + max(0, -math.frexp(eps)[1])):
        return flint.arb(flint.fmpq(total.numerator, total.denominator)).log()


def allowed_rows(certificate: Certificate) -> NDArray[np.intp]:
    """The keys that may be attended to."""
    count = certificate.shape[0]
    return np.arange(count) if certificate.allowed is None else np.array(certificate.allowed, dtype=np.intp)


class Level(Protocol):
    """One arithmetic in which the two sides of a certificate are bounded."""

    blur: float  # how far above F(q) the last `value` may lie

    def norm(self, query: Numbers) -> float:
        """||q||, from above."""
        ...

    def value(self, query: Numbers) -> flint.arb:
        """F(q), from above: for copying ln sum_i exp(s_i - s_j), for matching the divergence."""
        ...

    def entropy(self, weights: Numbers) -> flint.arb:
        """H(w) in nats, from below, less the target's entropy where one is matched."""
        ...

    def slack(self, balance: Balance) -> flint.arb:
        """scale ||P^T w - A^T mu||, from above."""
        ...


class CertificateProblem:
    """What is asked of which keys, as the certificate states it.

    points: the keys that compete (n x d); anchors: the keys to copy or share (m x d); target: one share per point.
    A copy of the points is made only where somebody asks for them: products run over the keys as they lie there.
    """

    def __init__(self, certificate: Certificate, keys: Float, strict: bool, top: float | None = None) -> None:
        question = certificate.question
        self.certificate, self.strict = certificate, strict
        self.verb, self.eps, self.scale = question.verb, question.eps, certificate.scale
        self.keys, self.masked, self.known_top = keys, certificate.allowed is not None, top
        self.chosen = np.array(question.keys, dtype=np.intp)
        self.anchors = keys[self.chosen]
        self.target = None if question.target is None else question.target[allowed_rows(certificate)]
        self.figures: evaluate.CopyFigures | None = None  # of a copying query, where they were made with others'
        self.plain_scores: Float | None = None  # k.q of all keys for the last query, where a plain product was made

    @cached_property
    def competing(self) -> NDArray[np.intp]:
        """The keys that compete: all allowed ones, for copying without the chosen one."""
        rows = allowed_rows(self.certificate)
        if self.verb is not Verb.COPY:
            return rows
        others = np.ones(len(self.keys), dtype=bool)
        others[self.chosen] = False
        return np.sort(rows[others[rows]]) if self.masked else np.flatnonzero(others)

    @cached_property
    def points(self) -> Float:
        everything = not self.masked and self.verb is not Verb.COPY
        return self.keys if everything else self.keys[self.competing]

    @property
    def size(self) -> int:
        """How many numbers the points are."""
        return int(len(self.competing) * self.keys.shape[1])

    @cached_property
    def top(self) -> float:
        """The largest absolute value among all keys."""
        return rigor.largest(self.keys) if self.known_top is None else self.known_top

    @property
    def unseen(self) -> float:
        """An error of scores, in nats, that makes no difference; sharing and matching ask for a part of a nat only."""
        return UNSEEN * min(demand_sharpness(self.certificate.question), 1.0)

    @cached_property
    def same(self) -> NDArray[np.bool_]:
        """Which competing keys equal the one to copy, number for number."""
        if self.verb is not Verb.COPY:
            return np.zeros(len(self.competing), dtype=bool)
        alike = (self.keys[:, 0] == self.anchors[0, 0])[self.competing]  # few pass this, and only they are read whole
        alike[alike] = (self.keys[self.competing[alike]] == self.anchors[0]).all(axis=1)
        return np.asarray(alike)

    @property
    def copies(self) -> int:
        return int(self.same.sum())

    def among_all(self, weights: Float) -> Float:
        """Weights of the competing keys as weights of all keys: the others have none."""
        everything = np.zeros(len(self.keys))
        everything[self.competing] = weights
        return everything

    def _demand(self) -> tuple[float, int]:
        if self.eps is None:
            raise InputError("The certificate's question must give 'eps' as a positive number; it is None.")
        return self.eps, 0 if self.verb is Verb.COPY else len(self.anchors)

    def total_asked(self) -> Fraction:
        """What the exponentials relative to an anchor's may sum up to: eps for copying, s + eps for sharing."""
        eps, count = self._demand()
        return Fraction(eps) + count

    @cached_property
    def limit(self) -> flint.arb:
        """The value of F that the question asks for: ln eps, ln(|S| + eps), or the KL itself."""
        if self.verb is Verb.MATCH:
            return flint.arb(self.certificate.question.kl)
        return _log_of_demand(*self._demand())

    def meets(self, query: Numbers, level: Level) -> bool:
        """Does the query meet the demand? The zero query weighs all keys alike, so counting decides it exactly."""
        if self.target is None and not any(query):
            return len(self.competing) <= self.total_asked()
        return bool(level.value(query) <= self.limit)

    def attention(self, value: float, *, up: bool) -> float:
        """The attention that a value F stands for (the divergence itself for matching), rounded to the safe side."""
        if self.verb is Verb.MATCH:
            return value
        if value == math.inf:
            return 0.0
        growth = flint.arb(value).exp()
        share = 1 / (1 + growth) if self.verb is Verb.COPY else 1 / growth
        return min(evaluate.above(share), 1.0) if up else max(evaluate.below(share), 0.0)

    def words(self) -> str:
        """The question that the certificate answers, so that nobody takes it for the answer to another."""
        question = self.certificate.question
        asked = {"eps": question.eps, "kl": question.kl, "max_norm": question.max_norm}
        about = ", ".join(f"{name} {in_full(value)}" for name, value in asked.items() if value is not None)
        chosen = ", ".join(map(str, question.keys))
        what = f"key{'s' * (len(question.keys) > 1)} {chosen}" if chosen else "the target stored in it"
        name = self.verb.value
        verb = f"the most that can ever be done: {name}" if self.certificate.claim is Statement.CEILING else name
        masked = "" if self.certificate.allowed is None else ", with a mask"
        return f"{verb} {what}{', ' * bool(about)}{about}, scale {in_full(self.scale)}{masked}"

    def measure(self) -> str:
        return {Verb.COPY: "attention", Verb.SHARE: "least attention", Verb.MATCH: "divergence"}[self.verb]


class FloatLevel:
    """float64 with its rounding bounded; `refine`: compensated products, of about 32 digits, instead of plain ones."""

    def __init__(self, problem: CertificateProblem, *, refine: bool) -> None:
        self.problem, self.anchors, self.target = problem, problem.anchors, problem.target
        self.scale, self.strict, self.refine = problem.scale, problem.strict, refine
        self.blur = 0.0

    def norm(self, query: Numbers) -> float:
        return evaluate.norm_above(_floats(query))

    def value(self, query: Numbers) -> flint.arb:
        query = _floats(query)
        if self.target is not None:
            return self._divergence(self.target, query)
        totals = [evaluate.sum_exp(-lead, rad, strict=self.strict) for lead, rad in self._leads(self.anchors, query)]
        worst = max(total.upper() for total in totals)  # exact numbers, so that the order is certain
        return worst.log() if len(self.problem.competing) else flint.arb(-math.inf)

    def entropy(self, weights: Numbers) -> flint.arb:
        entropy = evaluate.entropy(_floats(weights), strict=self.strict)
        return entropy if self.target is None else entropy - self._target_entropy

    def slack(self, balance: Balance) -> flint.arb:
        weights, problem = _floats(balance.weights), self.problem
        if self.target is not None:
            top = None if problem.masked else problem.top
            length = evaluate.slack_to_target_above(problem.points, weights, self.target, refine=self.refine, top=top)
        else:
            mixture, points, top = _floats(balance.mixture), problem.keys, problem.top
            places = None if problem.masked else problem.chosen
            if self.refine or problem.masked:
                points, top = problem.points, rigor.largest(problem.points)
            elif len(weights) < len(points):  # the key to copy competes with weight zero
                weights = problem.among_all(weights)
            length = evaluate.slack_above(
                points, weights, self.anchors, mixture, refine=self.refine, top=top, places=places
            )
        return self._slack_of(length)

    def _slack_of(self, length: float) -> flint.arb:
        return flint.arb(self.scale * length * (1 + 4 * rigor.U) + rigor.TINY)

    def _leads(self, anchors: Float, query: Float) -> Iterator[tuple[Float, Float]]:
        """scale (a - k_i).q for every point, as an enclosure, for one anchor a after the other."""
        careful = (rigor.margins(self.problem.points, anchor, query) for anchor in anchors)
        for mid, rad in careful if self.refine else self._plain_leads(anchors, query):
            if self.scale != 1:
                with np.errstate(over="ignore", invalid="ignore"):
                    mid = self.scale * mid
                    rad = (self.scale * rad + 2 * rigor.U * np.abs(mid)) * (1 + 4 * rigor.U) + rigor.TINY
            self.blur = 2 * float(rad.max(initial=0.0))
            yield mid, rad

    def _plain_leads(self, anchors: Float, query: Float) -> Iterator[tuple[Float, Float]]:
        """Differences of scores, each score with its bound: one product with the keys for all anchors."""
        problem, top = self.problem, None
        if problem.masked:  # what is masked may be of any size: it stays out of the sums and of their bounds
            scores, error = rigor.dot_enclosure(problem.points, query)
        else:
            top = problem.top
            enough = problem.unseen / self.scale
            scores, error = rigor.dot_enclosure(problem.keys, query, top=top, enough=enough)
            if np.isfinite(error).all():  # else something overflowed, and a score says nothing
                problem.plain_scores = scores
            if len(problem.competing) < len(scores):
                scores, error = scores[problem.competing], error[problem.competing]
        for own, own_error in zip(*rigor.dot_enclosure(anchors, query, top=top), strict=True):
            with np.errstate(over="ignore", invalid="ignore"):  # what overflows is not a number, and proves nothing
                mid = own - scores
                yield mid, (error + own_error) * (1 + 4 * rigor.U) + 2 * rigor.U * np.abs(mid)

    def _divergence(self, target: Float, query: Float) -> flint.arb:
        """KL(p || softmax) = ln sum exp(s_i - s_0) + sum p_i (s_0 - s_i) - H(p), from above."""
        first = int(self.problem.competing[int(np.argmax(target))])
        lead, rad = next(self._leads(self.problem.keys[first : first + 1], query))
        total = evaluate.sum_exp(-lead, rad, strict=self.strict)
        here = target > 0
        if not (self.strict or self.refine):
            return total.log() + evaluate.mean_above(target[here], lead[here], rad[here]) - self._target_entropy
        share, high, error = flint.arb(0), flint.arb(0), rad[here]
        for p, x, r in zip(target[here], lead[here], error, strict=True):
            share += flint.arb(float(p))
            high += flint.arb(float(p)) * (flint.arb(float(x)) + flint.arb(float(r)))
        return total.log() + high / share - self._target_entropy

    @cached_property
    def _target_entropy(self) -> flint.arb:
        """H(p) of the target, enclosed: in floats where that is quick, in balls where digits count."""
        target = np.zeros(0) if self.target is None else self.target[self.target > 0]
        return evaluate.entropy_ball(target) if self.strict or self.refine else evaluate.entropy_floats(target)


class CopyLevel(FloatLevel):
    """Plain float64 for a copying query whose figures were made together with others'."""

    def __init__(self, problem: CertificateProblem, figures: evaluate.CopyFigures) -> None:
        super().__init__(problem, refine=False)
        self.figures, self.blur = figures, figures.blur

    def norm(self, query: Numbers) -> float:
        return self.figures.norm

    def value(self, query: Numbers) -> flint.arb:
        return self.figures.total.log()

    def entropy(self, weights: Numbers) -> flint.arb:
        return self.figures.entropy

    def slack(self, balance: Balance) -> flint.arb:
        return super().slack(balance) if self.figures.slack is None else self._slack_of(self.figures.slack)


def _floats(numbers: Numbers) -> Float:
    """Float levels are for floats: rationals go to the exact level."""
    if isinstance(numbers, tuple):
        raise TypeError("rationals must be checked exactly")
    return numbers


class ExactLevel:
    """Rationals: scores, sums of keys and their differences are exact. Slow: milliseconds for ten keys."""

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
        with flint.ctx.workprec(EXACT_BITS):
            return evaluate.above(flint.arb(square).sqrt())

    def value(self, query: Numbers) -> flint.arb:
        scores, own = self._scores(rationals(query))
        with flint.ctx.workprec(EXACT_BITS):
            if not scores:
                return flint.arb(-math.inf)
            top = max(scores)
            total = sum((flint.arb(score - top).exp() for score in scores), flint.arb(0))
            level = total.log() + flint.arb(top - min(own))
            return level if self.target is None else level - evaluate.entropy_ball(self.target)

    def entropy(self, weights: Numbers) -> flint.arb:
        exact = rationals(weights)
        with flint.ctx.workprec(EXACT_BITS):
            if not any(exact):
                return flint.arb(-math.inf)  # nothing competes
            entropy = evaluate.entropy_ball(exact)
            return entropy if self.target is None else entropy - evaluate.entropy_ball(self.target)

    def slack(self, balance: Balance) -> flint.arb:
        miss = self._miss(balance)
        square = sum((x * x for x in miss), flint.fmpq(0))
        with flint.ctx.workprec(EXACT_BITS):
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
        with flint.ctx.workprec(EXACT_BITS):
            return apart + evaluate.entropy_ball(weights).exp()

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


def scores_of(keys: Float, query: Exact, scale: float) -> Float:
    """scale (k_i - k_best).q for every key (n numbers), each rounded once; the best key's is 0."""
    n, d = keys.shape
    rows = _matrix(keys.tolist(), n, d)
    scores = (rows * flint.fmpq_mat(d, 1, list(query))).entries()
    factor = flint.fmpq(*scale.as_integer_ratio())
    best = max(scores)
    return np.array([float(flint.arb(factor * (score - best)).mid()) for score in scores])

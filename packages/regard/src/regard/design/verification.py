"""Rechecking a certificate from the keys, and nothing else.

`verify` recomputes each claim with bounds that hold in exact arithmetic on the stored numbers; it trusts none of the
solvers' figures and shares with them nothing but the rounding-bounded products, which a test of the house holds. Three
inequalities carry it, with F as in `certificate_problem`:

- a query gives F(q), from above;
- weights w and a mixture mu give F(q) >= H(w) - scale ||q|| ||P^T w - A^T mu|| for every q;
- where P^T w = A^T mu holds exactly, F(q) >= H(w) whatever the query, and F(q) > H(w) if some key has no part in w.

Copying: alpha_j = 1 / (1 + e^F). Sharing: the least share is e^-F. Matching: KL = F - H(p).

It is two-sided: every figure that a certificate states must be on the safe side of what is proved, and close to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from regard import rigor
from regard.array_types import Float
from regard.arrays import check_array
from regard.design import evaluate
from regard.design.certificate import (
    HEAD,
    LISTS,
    PROOFS,
    Balance,
    Certificate,
    Numbers,
    Statement,
    Verb,
    fingerprint,
)
from regard.design.certificate_problem import AFFORDABLE, CertificateProblem, CopyLevel, ExactLevel, FloatLevel, Level
from regard.design.combination_check import combination_value
from regard.design.stated_result import check_stated
from regard.errors import InputError
from regard.results import Result
from regard.written_numbers import at_least, at_most, fraction, in_full

PRECISION = 128  # bits of the balls
WIDEST_GAP = {
    Statement.SHORTEST: 1e-9,
    Statement.STRONGEST: 1e-9,
    Statement.CEILING: 1e-6,
}  # a wider one says too little
SHARP = 1e-10  # nats: what a figure may be off by, and another arithmetic still finds it close
ROUNDING = 1e-12  # figures may differ by this from one arithmetic to the other, relatively


@dataclass(frozen=True, kw_only=True, eq=False)
class Verification(Result):
    """What was recomputed: the question, each statement with its verdict, and the numbers that follow from it.

    `one_in`: where the most that any query can get is exactly one in so many, that number. `unchecked`: fields
    of the file around the certificate that nothing was checked of.
    """

    question: str
    holds: bool
    statements: tuple[tuple[str, bool], ...]
    numbers: dict[str, float]
    arithmetic: str
    one_in: int | None = None
    unchecked: tuple[str, ...] = ()
    _scores: Float | None = field(default=None, repr=False)  # what `plain_scores` gives

    @property
    def answer(self) -> bool:
        return self.holds

    @property
    def plain_scores(self) -> Float | None:
        """k.q of all n keys in plain floats, where the check came by them."""
        return self._scores

    def __str__(self) -> str:
        lines = [f"{'holds ' if holds else 'FAILS '} {statement}" for statement, holds in self.statements]
        verdict = "The certificate holds." if self.holds else "The certificate does NOT hold."
        if self.unchecked:
            lines.append(f"Not checked, and not part of the certificate: {', '.join(self.unchecked)}.")
        return "\n".join([f"{verdict} The question: {self.question}.", *lines, f"Checked in {self.arithmetic}."])


def verify(
    certificate: Certificate | Mapping[str, Any] | Result, keys: NDArray[np.float64], *, strict: bool = True
) -> Verification:
    """Recheck a certificate against the keys (n x d), and nothing else.

    certificate: of an answer, as an object or as the dictionary that JSON holds; or a whole answer, whose own figures
    are then held against its certificate too. strict: exponentials and logarithms in arbitrary-precision balls;
    otherwise in NumPy, taken to be within 8 units in the last place, which is much faster for many keys.
    """
    keys = check_array(keys, what="keys", ndim=2)
    if isinstance(certificate, Result) and not isinstance(getattr(certificate, "certificate", None), Certificate):
        raise InputError(f"This {type(certificate).__name__} has no certificate; pass what a design verb returned.")
    # an object too is read as a file is: somebody may have made it by hand
    whole = certificate.to_dict() if isinstance(certificate, Result | Certificate) else certificate
    outer, digest = None, fingerprint(keys)
    if isinstance(whole, Mapping) and "certificate" in whole:
        outer, whole = whole, whole["certificate"]
        whole = whole.to_dict() if isinstance(whole, Certificate) else whole
        _refuse_a_second(outer)
    data = whole.get("data") if isinstance(whole, Mapping) else None
    if isinstance(data, Mapping):
        _refuse_other_keys(data.get("shape"), data.get("sha256"), keys, digest)
    made = Certificate.from_dict(whole)
    _refuse_other_keys(list(made.shape), made.sha256, keys, digest)
    return recheck(made, keys, strict=strict, outer=outer)


def _refuse_a_second(outer: Mapping[str, Any]) -> None:
    """Around a certificate stands one result: parts of another certificate there would look checked, and are not."""
    second = [name for name in (*HEAD, *PROOFS, *LISTS) if name in outer]
    if second:
        raise InputError(
            f"This has a certificate and beside it {', '.join(map(repr, second))}, parts of another one that would "
            "stand there unchecked; pass one of the two."
        )


def _refuse_other_keys(shape: Any, sha256: Any, keys: Float, digest: str) -> None:
    if list(keys.shape) != shape or digest != sha256:
        raise InputError(
            f"The certificate was made for other keys, of shape {shape}; these are of shape "
            f"{list(keys.shape)} and other numbers: pass the same file."
        )


def recheck(
    certificate: Certificate,
    keys: Float,
    *,
    strict: bool,
    quick: bool = False,
    top: float | None = None,
    outer: Mapping[str, Any] | None = None,
) -> Verification:
    """`verify` for keys that are known to be the right ones; `quick`: plain products only.

    top: `rigor.largest(keys)`, from a caller that has just looked at all of them.
    """
    rigor.check_arithmetic()
    return _recheck_problem(CertificateProblem(certificate, keys, strict, top), quick=quick, outer=outer)


def recheck_together(certificates: Sequence[Certificate], keys: Float, *, top: float | None) -> list[Verification]:
    """`recheck`, quick, of several shortest copying queries on the same keys, all allowed and of one scale."""
    rigor.check_arithmetic()
    top = rigor.largest(keys) if top is None else top
    problems = [CertificateProblem(certificate, keys, False, top) for certificate in certificates]
    weights = np.zeros((len(problems), len(keys)))
    for row, problem in zip(weights, problems, strict=True):
        own, given = int(problem.chosen[0]), _present(problem.certificate.dual).weights
        row[:own], row[own + 1 :] = given[:own], given[own:]
    queries = np.stack([_present(certificate.query) for certificate in certificates])
    chosen, scale = np.concatenate([problem.chosen for problem in problems]), problems[0].scale
    enough = problems[0].unseen / scale  # all copy
    with np.errstate(over="ignore", invalid="ignore"):
        made = evaluate.copy_figures(keys, chosen, queries, weights, scale=scale, top=top, enough=enough)
    for problem, figures in zip(problems, made, strict=True) if made is not None else ():
        problem.figures, problem.plain_scores = figures, figures.scores
    return [_recheck_problem(problem, quick=True) for problem in problems]


def _recheck_problem(
    problem: CertificateProblem, *, quick: bool, outer: Mapping[str, Any] | None = None
) -> Verification:
    certificate, keys, strict = problem.certificate, problem.keys, problem.strict
    checker = _Checker(certificate, problem, quick=quick)
    # what leaves the range of floats becomes infinite or not a number, and then proves nothing
    with flint.ctx.workprec(PRECISION), np.errstate(over="ignore", invalid="ignore"):
        checker.check()
    unchecked: tuple[str, ...] = ()
    if outer is not None:
        checks, unchecked = check_stated(outer, certificate, keys, checker.numbers)
        checker.statements += checks
    how = "exact and ball arithmetic" if strict else "rounding-bounded float64 (NumPy's exp and log within 8 ulp)"
    return Verification(
        question=problem.words(),
        holds=all(holds for _, holds in checker.statements),
        statements=tuple(checker.statements),
        numbers=checker.numbers,
        arithmetic=f"{how}, on the stored float64 keys",
        one_in=None if checker.exactly is None else int(1 / checker.exactly),
        unchecked=unchecked,
        _scores=problem.plain_scores,
    )


class _Checker:
    """One certificate being checked: what was stated, and what came of it."""

    def __init__(self, certificate: Certificate, problem: CertificateProblem, *, quick: bool) -> None:
        self.given, self.problem, self.quick = certificate, problem, quick
        self.statements: list[tuple[str, bool]] = []
        self.numbers: dict[str, float] = {}
        self.exactly: Fraction | None = None  # the most there is, where that is known exactly

    def check(self) -> None:
        {
            Statement.SHORTEST: self._shortest,
            Statement.STRONGEST: self._strongest,
            Statement.UNREACHABLE: self._unreachable,
            Statement.CEILING: self._ceiling,
        }[self.given.claim]()

    def _levels(self, *vectors: Numbers | None) -> Iterator[Level]:
        """The arithmetics to try, the cheapest first; rationals leave no choice."""
        if not any(isinstance(vector, tuple) for vector in vectors):
            figures = self.problem.figures
            yield FloatLevel(self.problem, refine=False) if figures is None else CopyLevel(self.problem, figures)
            if self.quick:
                return
            yield FloatLevel(self.problem, refine=True)
            if not self.problem.strict or self.problem.size > AFFORDABLE:
                return
        yield ExactLevel(self.problem)

    def _shortest(self) -> None:
        given, problem = self.given, self.problem
        query, dual, claimed, wanted = _present(given.query), _present(given.dual), given.norm or 0.0, given.gap or 0.0
        meets, honest, norm, lower, gap = False, False, math.inf, 0.0, math.inf
        for level in self._levels(query, dual.weights, dual.mixture):
            norm = min(norm, level.norm(query))
            meets = meets or problem.meets(query, level)
            if norm > 0 and dual.non_negative():
                slack = level.slack(dual)
                numerator = level.entropy(dual.weights) - problem.limit
                lower = max(lower, evaluate.below(numerator / slack) if slack > 0 and numerator > 0 else 0.0)
            gap = norm / lower - 1 if lower > 0 else (0.0 if norm == 0 else math.inf)
            honest = self._states("lower_bound", lower, upper=False)
            if meets and gap <= wanted and honest:
                break
        self.statements += [
            (f"the query meets the demand ({problem.verb.value})", meets),
            (f"its norm is at most {at_most(claimed, 12)}, and no less", self._states("norm", norm, upper=True)),
            (
                f"no query shorter than {at_least(lower, 12)} does: the gap is at most {at_most(wanted, 2)}",
                self._gap_holds(gap) and honest and self._fit_each_other(),
            ),
        ]
        self.numbers = {"norm": norm, "lower_bound": lower, "gap": gap}

    def _strongest(self) -> None:
        given, problem = self.given, self.problem
        query, dual, wanted = _present(given.query), _present(given.dual), given.gap or 0.0
        radius = given.question.max_norm or 0.0
        norm, best, gap = math.inf, math.inf, math.inf
        bound = 0.0 if problem.verb is Verb.MATCH else -math.inf  # a divergence is never negative
        for level in self._levels(query, dual.weights, dual.mixture):
            norm = min(norm, level.norm(query))
            best = min(best, evaluate.above(level.value(query)))
            if dual.non_negative():
                bound = max(bound, evaluate.below(level.entropy(dual.weights) - flint.arb(radius) * level.slack(dual)))
            gap = _gap_in_nats(problem, best, bound)
            reached, limit = problem.attention(best, up=False), problem.attention(bound, up=True)
            does = best < math.inf and self._states("reached", reached, upper=problem.verb is Verb.MATCH)
            most = self._gap_holds(gap) and self._states("bound", limit, upper=problem.verb is not Verb.MATCH)
            if norm <= radius and does and most:
                break
        self.statements += [
            (f"the query's norm is at most {in_full(radius)}", norm <= radius),
            (f"its {problem.measure()} is {self._side(reached, best=False)} or better", does),
            (
                f"no query of that norm gets past {self._side(limit, best=True)}: within {at_most(wanted, 2)} nats",
                most and self._fit_each_other(),
            ),
        ]
        self.numbers = {"norm": norm, "reached": reached, "bound": limit, "gap": gap}

    def _unreachable(self) -> None:
        problem, combination = self.problem, self.given.combination
        if combination is None:
            total: Fraction | flint.arb | None = Fraction(problem.copies) if problem.copies else None
            left_out, why = len(problem.competing) > problem.copies, _equal_keys(problem.copies)
        else:
            total = self._total(combination)
            left_out = not self._only_copies_left_out(combination)
            why = "the weights can be made to balance exactly, all of them positive"
        self.numbers = {"bound": math.nan}
        self._most(total)
        bound = self.numbers["bound"]
        short = total is not None and self._short_of_demand(total, left_out)
        honest = self._states("bound", bound, upper=problem.verb is not Verb.MATCH)
        most = fraction(self.exactly) if self.exactly is not None else self._side(bound, best=True)
        self.statements += [
            (why, total is not None),
            (f"so no query at all gets past {most}, which is short of the demand", short and honest),
        ]

    def _only_copies_left_out(self, combination: Balance) -> bool:
        """Nothing, or copies of the key: these are counted apart, so that leaving them out leaves nothing out."""
        return all(w > 0 or same for w, same in zip(combination.weights, self.problem.same, strict=True))

    def _short_of_demand(self, total: Fraction | flint.arb, left_out: bool) -> bool:
        """Is e^F > what was asked for every query? At equality a key with no part in the weights makes the excess."""
        if self.problem.verb is Verb.MATCH:
            return bool(flint.arb(self.numbers["bound"]) > self.problem.limit)
        asked = self.problem.total_asked()
        if isinstance(total, Fraction):
            return total > asked or (total == asked and left_out)
        return bool(total > flint.arb(flint.fmpq(asked.numerator, asked.denominator)))

    def _total(self, combination: Balance) -> Fraction | flint.arb | None:
        """e^H of exact weights near the stored ones (copies of the key added), from below; exact where it can be."""
        problem = self.problem
        if not combination.non_negative():
            return None
        uniform = len({float(w) for w in combination.weights if w > 0}) == 1 if combination.basis is not None else True
        if uniform and problem.size <= AFFORDABLE:
            total = ExactLevel(problem).total(combination)
            if total is not None or combination.basis is None:
                return total
        if combination.basis is None:
            return None
        apart = 0
        keep = None
        if problem.verb is Verb.COPY and not combination.weights[problem.same].any():
            apart, keep = problem.copies, ~problem.same
        value = combination_value(problem, combination, keep)
        return None if value is None else apart + flint.arb(value).exp()

    def _most(self, total: Fraction | flint.arb | None) -> None:
        """The bound that e^F >= total means, as a number, and exactly where that is known."""
        if total is None:
            return
        problem = self.problem
        if problem.verb is Verb.MATCH:
            level = flint.arb(_rational(total)).log() if isinstance(total, Fraction) else total.log()
            target = _present(problem.target)
            self.numbers["bound"] = max(evaluate.below(level - evaluate.entropy_ball(target[target > 0])), 0.0)
            return
        whole = total + (problem.verb is Verb.COPY)
        if isinstance(whole, Fraction):
            self.exactly = 1 / whole
            self.numbers["bound"] = _above(self.exactly)
        else:
            self.numbers["bound"] = min(evaluate.above(1 / whole), 1.0)

    def _ceiling(self) -> None:
        given, problem = self.given, self.problem
        wanted = given.gap or 0.0
        total: Fraction | flint.arb | None = None
        if given.combination is not None:
            total = self._total(given.combination)
        elif problem.verb is Verb.COPY:
            total = Fraction(problem.copies)
        self._most(total)
        ceiling = self.numbers.pop("bound", None)
        match = problem.verb is Verb.MATCH
        proved = ceiling is not None and self._states("ceiling", ceiling, upper=not match)
        ceiling = 1.0 if ceiling is None else ceiling
        reached, how = self._reached_attention(ceiling)
        most = fraction(self.exactly) if self.exactly is not None else self._side(ceiling, best=True, digits=9)
        self.statements += [
            (f"no query ever gets past {most}", proved),
            (
                f"{how} comes to {self._side(reached, best=False, digits=9)}, within {at_most(wanted, 1)} of that",
                self._close(ceiling, reached) and self._fit_each_other(),
            ),
        ]
        self.numbers = {"ceiling": ceiling, "reached": reached}

    def _close(self, ceiling: float, reached: float) -> bool:
        return self._gap_holds(abs(ceiling - reached)) and self._states(
            "reached", reached, upper=self.problem.verb is Verb.MATCH
        )

    def _reached_attention(self, ceiling: float) -> tuple[float, str]:
        """What the stored query really gets, or what a direction gets in the limit."""
        given, problem = self.given, self.problem
        if given.query is None:
            direction = _present(given.direction)
            rows = np.concatenate([problem.anchors, problem.points[~problem.same]])
            wins = problem.verb is Verb.COPY and rigor.strictly_wins(rows, 0, direction)
            least = _below(Fraction(1, 1 + problem.copies))
            return (least if wins else 0.0), "a query along the stored direction, made long enough,"
        best, norm = math.inf, math.inf
        for level in self._levels(given.query):
            best, norm = min(best, evaluate.above(level.value(given.query))), min(norm, level.norm(given.query))
            reached = problem.attention(best, up=False)
            if self._close(ceiling, reached) and level.blur <= SHARP:
                break
        return reached, f"the stored query of norm {at_most(norm, 6)}"

    def _side(self, x: float, *, best: bool, digits: int = 12) -> str:
        """A figure in words: the best there can be, or what is reached, rounded to the side that is true of it."""
        up = best is not (self.problem.verb is Verb.MATCH)  # a divergence is better the lower it is
        return at_most(x, digits) if up else at_least(x, digits)

    def _states(self, name: str, proved: float, *, upper: bool) -> bool:
        """Is the figure stated under this name, if any, on the safe side of the one proved, and close to it?"""
        stated: float | None = getattr(self.given, name)
        if stated is None:
            return True
        near = max(min(abs(self.given.gap or 0.0), 1e-9), ROUNDING)
        # a divergence near 0 has its digits only in nats, but is never negative; all others are compared relatively
        room = near * (1.0 if self.problem.verb is Verb.MATCH and name not in ("norm", "lower_bound") else abs(proved))
        # no attention is above 1, however it is rounded
        most = 1.0 if self.problem.verb is not Verb.MATCH and name in ("reached", "bound", "ceiling") else math.inf
        return proved <= stated <= min(proved + room, most) if upper else max(proved - room, 0.0) <= stated <= proved

    def _fit_each_other(self) -> bool:
        """Is what lies between the two figures that are stated no more than the gap that is stated beside them?"""
        given, gap = self.given, float(_present(self.given.gap))
        high, low = {
            Statement.SHORTEST: (given.norm, given.lower_bound),
            Statement.STRONGEST: (given.bound, given.reached),
            Statement.CEILING: (given.ceiling, given.reached),
        }[given.claim]
        if high is None or low is None:
            return True
        if given.claim is Statement.SHORTEST:
            # floats round a norm up by some units in the last place, which the gap of the exact one does not know
            return high == low or (low > 0 and high / low - 1 <= gap + 32 * rigor.U)
        if given.claim is Statement.CEILING:
            return abs(high - low) <= gap
        if self.problem.verb is Verb.MATCH:  # the divergence reached is the higher one
            return low - high <= gap + 4 * rigor.U * low
        return high <= low * math.exp(gap) * (1 + 4 * rigor.U) + 1e-323

    def _gap_holds(self, gap: float) -> bool:
        wanted = _present(self.given.gap)
        return bool(max(gap, 0.0) <= wanted <= WIDEST_GAP[self.given.claim])


def _equal_keys(count: int) -> str:
    return "1 other key is equal to it" if count == 1 else f"{count} other keys are equal to it"


def _present(value: object) -> Any:
    """A field that reading has seen to."""
    if value is None:
        raise InputError("The certificate lacks a number that its claim needs; it cannot be checked.")
    return value


def _gap_in_nats(problem: CertificateProblem, best: float, bound: float) -> float:
    """The gap in -ln alpha; for copying F = ln((1 - alpha) / alpha), so -ln alpha = ln(1 + e^F)."""
    if problem.verb is Verb.COPY:
        return float(np.logaddexp(0, best) - np.logaddexp(0, bound))
    return best - bound


def _rational(x: Fraction) -> flint.fmpq:
    return flint.fmpq(x.numerator, x.denominator)


def _above(x: Fraction) -> float:
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


def _below(x: Fraction) -> float:
    return -_above(-x)

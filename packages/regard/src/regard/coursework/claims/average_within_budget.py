"""Averaging two of n orthonormal keys within a norm budget of 2 sqrt(2) ln(n/eps)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.coursework.adversary import attack
from regard.coursework.claim import read_claim
from regard.coursework.query_questions import norm_ruling, query_instance, query_question, sharp_precision
from regard.coursework.question import Ruling, format_distinctly, inequality
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.errors import CouldNotFindOut
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import in_full

SMALLEST = 1e-12  # eps for which the solver's answer takes moments


def shortest_norm(n: float, eps: float) -> float:
    """The norm of the shortest query, T sqrt(2(n-2)/n) with T = ln((n-2)/eps), and 0 where q = 0 is enough."""
    return math.log((n - 2) / eps) * math.sqrt(2 * (n - 2) / n) if n - 2 > eps else 0.0


def check_within_budget(*, n: int, eps: float, factor: float) -> Verdict:
    if Fraction(factor) ** 2 < 2:
        return _small_factor_verdict(n, eps, factor)
    if eps > n:
        return holds(
            "proof",
            f"For $eps$ up to $n$. Here $eps = {in_full(eps)}$ is above $n = {n}$, of which this reading says "
            "nothing: the reading 'every $eps'$ does.",
        )
    budget = factor * math.log(n / eps)
    hardest = attack(
        lambda n, eps: shortest_norm(n, eps) / (factor * math.log(n / eps)) if n > eps else 0.0,
        {"n": (2, 1e6), "eps": (1e-12, 1.0)},
    )
    found, most = format_distinctly(100 * hardest.value, 100 * math.sqrt(2) / factor, digits=4)
    tight = (
        f"the shortest query has norm {shortest_norm(n, eps):.6g}, "
        f"{shortest_norm(n, eps) / budget if budget else 0:.2%} of the "
        f"budget {budget:.6g}; the adversary over n and $eps$ found {found} % $(n = {hardest.at['n']:g}, "
        f"eps = {hardest.at['eps']:.2g})$, and always it is below {most} %. {_solver_sentence(min(n, 200), eps)}"
    )
    with sharp_precision(n, eps):
        # the score of either key under a query of the budget's norm along their bisector
        length = (balls.ball(n) / balls.ball(eps)).log() * balls.ball(factor) / balls.ball(2).sqrt()
        others = balls.rest(length, [(n - 2, 0)])
        if not (others < balls.ball(eps)):
            return not_refuted_verdict(hardest.tries, "The enclosure did not confirm the proof.", tightness=tight)
    return holds(
        "proof, and an enclosure at this $n$ and $eps$",
        f"$q = (budget/sqrt 2)(k_0 + k_1)$, of norm {budget:.6g}, leaves the others {float(others.mid()):.3g} "
        f"against key 0, less than $eps = {in_full(eps)}$.",
        region="for all $n >= 2$ and $0 < eps <= n$; for $eps > n$ the budget is negative and no query fits",
        tightness=tight,
        budget=budget,
        needed=shortest_norm(n, eps),
    )


def _solver_sentence(n: int, eps: float) -> str:
    """The formula of the shortest query against the solver's certified norm."""
    from regard import design  # the list of claims does without

    if eps < SMALLEST:
        return f"(The solver is not asked for $eps$ below {in_full(SMALLEST)}.)"
    try:
        answer = design.share(np.eye(n), [0, 1], eps=eps)
    except CouldNotFindOut:  # the proof does not need it
        return "(The solver could not certify its own answer at this $eps.$)"
    return (
        f"The solver confirms the shortest for $n = {n}$: {answer.norm or 0:.9g} (formula {shortest_norm(n, eps):.9g})."
    )


def _excess_witness(n: int, eps: Fraction, factor: float) -> Witness:
    """What the shortest query needs, more than the budget: enclosed."""
    with balls.precise():
        # the fraction of two large whole numbers near 1: its logarithm needs no more than these bits
        shortest = (2 * balls.ball(Fraction(n - 2, n))).sqrt() * balls.ball(Fraction(n - 2) / eps).log()
        return Witness(shortest, ">", balls.ball(factor) * balls.ball(n / eps).log())


def _small_factor_verdict(n: int, eps: float, factor: float) -> Verdict:
    """Below sqrt(2) some n and eps need more: these, or so many keys that sqrt(2(n-2)/n) passes the factor."""
    at, small = n, Fraction(eps)
    if not (n - 2 > eps and _excess_witness(n, small, factor).is_confirmed):
        at, small = math.ceil(8 / (2 - Fraction(factor) ** 2)), Fraction(1, 2)
        while not _excess_witness(at, small, factor).is_confirmed:
            small *= small  # the ratio of the two rises to sqrt(2(n-2)/n) as eps falls
    asked = math.sqrt(2 * (1 - 2 / at)) * (math.log(at - 2) - math.log(small))
    more = inequality(asked, ">", factor * (math.log(at) - math.log(small)))
    return refuted_verdict(
        f"The norm of the shortest query and the budget: {more}.",
        witness=_excess_witness(at, small, factor),
        counterexample=f"$n = {at}$, $eps = {in_full(float(small))}$: {more}",
        region="for every $n$ and $eps$ when the factor is at least $sqrt(2) = 1.41421...$",
        correction="The shortest query has norm $sqrt(2(n-2)/n) ln((n-2)/eps)$ for $eps < n - 2$, and 0 otherwise.",
    )


def check_half_budget(*, n: int, eps: float, factor: float) -> Verdict:
    here = ""
    if eps <= n:
        half = math.sqrt(2) * math.log(n / eps)
        here = f" At this $n$ and $eps$ that is {half:.6g}, and {shortest_norm(n, eps):.6g} is needed."
    return holds(
        "proof",
        "For every $n >= 2$ and $0 < eps <= n$ a query of norm $sqrt(2) ln(n/eps)$ is enough, half the stated "
        f"budget.{here}",
        tightness="$sqrt(2)$ is the best constant: needed $/ ln(n/eps) -> sqrt(2)$ as $n$ grows",
    )


def check_every_eps(*, n: int, eps: float, factor: float) -> Verdict:
    few, large = (n, eps) if eps > n else (2, 3.0)
    with balls.precise():
        budget = balls.ball(factor) * (balls.ball(few) / balls.ball(large)).log()
    return refuted_verdict(
        f"$ln(n/eps) < 0$ for $eps > n$: the budget is {float(budget.mid()):.4g}, and no query has a negative norm.",
        witness=Witness(budget, "<", 0),
        counterexample=f"$n = {few}$, $eps = {in_full(large)}$ ($q = 0$ would give every key $1/n >= 1/(2+eps)$)",
        region="for all $n >= 2$ and $0 < eps <= n$",
        correction="$||q|| <= 2 sqrt(2) max(0, ln(n/eps))$.",
    )


def proof_numbers(*, n: int, eps: float, factor: float) -> dict[str, object]:
    T = math.log(max(n - 2, 0) / eps) if n > 2 else -math.inf
    exact = f"${T:.6g} sqrt(2*{n - 2}/{n}) = {shortest_norm(n, eps):.6g}$" if n - 2 > eps else "0, as $q = 0$ is enough"
    return {"budget": 2 * math.sqrt(2) * math.log(n / eps), "exact": exact}


def draw(made: Any, *, n: int, eps: float, factor: float) -> None:
    grid = np.unique(np.geomspace(2, max(1000, n), 120).round())
    made.plot(grid, 2 * math.sqrt(2) * np.log(grid / eps), color=VERMILION, ls="--", label="the stated budget")
    made.plot(grid, math.sqrt(2) * np.log(grid / eps), color=ORANGE, label="$sqrt(2) ln(n/eps)$, enough")
    made.plot(grid, [shortest_norm(m, eps) for m in grid], color=BLUE, lw=2, label="the shortest query")


# your own answer


def within_budget(given: Mapping[str, Any], query: Float) -> list[Ruling]:
    budget = 2 * math.sqrt(2) * math.log(len(given["keys"]) / given["eps"])
    return [norm_ruling(query, budget, "2 sqrt(2) ln(n/eps)")]


QUESTION = query_question("average-within-budget", lambda given: [0, 1], further=within_budget, make=query_instance)

CLAIM = read_claim(__name__)

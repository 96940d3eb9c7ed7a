"""Copying within a norm budget of 2 ln(n/eps)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.coursework.adversary import Attack, attack, worst_keys_for_copying
from regard.coursework.claim import read_claim
from regard.coursework.query_questions import norm_ruling, query_question
from regard.coursework.question import Instance, Ruling, inequality
from regard.coursework.verdict import Verdict, Witness, holds, not_refuted_verdict, refuted_verdict
from regard.pictures import BLUE, ORANGE, VERMILION
from regard.rigor import balls
from regard.written_numbers import at_least, at_most, in_full

HALF_ROOT = math.sqrt(3) / 2


def nearest_allowed_keys(keys: Float) -> Float:
    """The nearest keys that the statement allows: unit, the others at distance >= 1 from key 0 (k_i.k_0 <= 1/2)."""
    keys = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    along = keys[1:] @ keys[0]
    across = keys[1:] - along[:, None] * keys[0]
    across /= np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
    # pulled back along the sphere to 60 degrees, where the distance of two unit vectors is 1
    keys[1:] = np.where(along[:, None] > 0.5, 0.5 * keys[0] + HALF_ROOT * across, keys[1:])
    return keys


def ring(n: int) -> Float:
    """Key 0 at the pole and n - 1 >= 2 unit keys evenly around it at distance exactly 1: their mean is k_0 / 2."""
    turn = 2 * np.pi * np.arange(n - 1) / (n - 1)
    others = np.column_stack([np.full(n - 1, 0.5), HALF_ROOT * np.cos(turn), HALF_ROOT * np.sin(turn)])
    return np.vstack([[1.0, 0.0, 0.0], others])


def worst_attack(n: int, eps: float) -> Attack:
    """The worst keys that the adversary finds from random starts, with at most 5 keys in 3 dimensions."""
    # a handful of keys shows the worst case already, and the solver answers them at once
    few = min(n, 5)
    starts = [np.random.default_rng(seed).standard_normal((few, 3)) for seed in range(3)]
    attacks = [worst_keys_for_copying(start, eps, nearest_allowed_keys, steps=60, pace=1.0) for start in starts]
    return replace(max(attacks, key=lambda one: one.value), tries=sum(one.tries for one in attacks))


def _longest_norm(n: int, eps: float) -> float:
    """What the worst keys need: 2 ln((n-1)/eps), for n >= 3; ln(1/eps) for n = 2; nothing for n = 1."""
    return 0.0 if n == 1 else math.log(1 / eps) if n == 2 else 2 * math.log((n - 1) / eps)


def check_within_budget(*, n: int, eps: float, factor: float) -> Verdict:
    if factor < 2:
        return _small_factor_verdict(n, eps, factor)
    if n == 1:
        return holds("proof", "For every $n$; here one key always gets all the attention, and $q = 0$ is enough.")
    budget = factor * math.log(n / eps)
    with balls.precise():
        total = balls.rest(0, [(n - 1, -(balls.ball(n) / balls.ball(eps)).log())])
        if not total < balls.ball(eps):
            return not_refuted_verdict(1, "The enclosure of the worst case did not confirm the proof.")
    hardest = attack(
        lambda n, eps: _longest_norm(n, eps) / (factor * math.log(n / eps)), {"n": (3, 1e6), "eps": (1e-9, 0.999)}
    )
    return holds(
        "proof, and an enclosure of its worst case",
        f"$q = 2 ln(n/eps) k_0$ has norm {2 * math.log(n / eps):.6g}, and leaves the others at most $(n-1) eps/n = "
        f"{at_most(Fraction(in_full(eps)) * (n - 1) / n, 6)}$.",
        region="for all $n >= 1$ and $0 < eps <= n$, not only $eps < 1$; keys may repeat",
        tightness=_tightness(n, eps, factor, worst_attack(n, eps), hardest),
        budget=budget,
        needed=_longest_norm(n, eps),
    )


def _tightness(n: int, eps: float, factor: float, worst: Attack, hardest: Attack) -> str:
    few, needed, budget = min(n, 5), _longest_norm(n, eps), factor * math.log(n / eps)
    if n == 2:
        share = at_most(needed / budget, 4, percent=True)
        return f"two keys need at most $ln(1/eps) = {at_most(needed, 6)}$, {share} of the budget"
    return (
        f"the adversary's worst {few} keys need {worst.value:.6g} of {factor * math.log(few / eps):.6g}; the worst {n} "
        f"keys (evenly around $k_0$ at distance 1) need $2 ln((n-1)/eps) = {needed:.6g}$, "
        f"{at_least(needed / budget, 4, percent=True)} of the budget; over all $n$ and $eps$ the adversary finds "
        f"{at_least(hardest.value, percent=True)} $(n = {hardest.at['n']:g}, eps = {hardest.at['eps']:.2g})$, so "
        "no constant below 2 will do"
    )


def _excess_witness(n: int, eps: Fraction, factor: float) -> Witness:
    """What keys evenly around k_0 need, more than the budget: enclosed."""
    with balls.precise():
        return Witness(2 * balls.ball((n - 1) / eps).log(), ">", balls.ball(factor) * balls.ball(n / eps).log())


def _small_factor_verdict(n: int, eps: float, factor: float) -> Verdict:
    """Below 2 some n and eps need more: these, or so many keys that ln((n-1)/eps) is nearly ln(n/eps)."""
    at, small = n, Fraction(eps)
    if not (n > 2 and _excess_witness(n, small, factor).is_confirmed):
        at, small = max(3, math.ceil(4 / (2 - Fraction(factor)))), min(Fraction(eps), Fraction(1, 2))
        while not _excess_witness(at, small, factor).is_confirmed:
            small *= small  # the ratio of the two rises to 2 as eps falls
    low = 2  # 2 ln((m-1)/eps) - factor ln(m/eps) grows with m, for factors up to 2
    while at - low > 1:
        middle = (low + at) // 2
        low, at = (low, middle) if _excess_witness(middle, small, factor).is_confirmed else (middle, at)
    asked = 2 * (math.log(at - 1) - math.log(small))
    more = inequality(asked, ">", factor * (math.log(at) - math.log(small)))
    return refuted_verdict(
        f"The norm that {at} keys need, and the budget: {more}.",
        witness=_excess_witness(at, small, factor),
        counterexample=f"$n = {at}$, $eps = {in_full(float(small))}$: keys at distance 1 evenly around $k_0$ (in three "
        f"dimensions) need $2 ln((n-1)/eps)$, more than the budget: {more}",
        region="when factor $ln(n/eps) >= 2 ln((n-1)/eps)$",
        correction="$2 ln((n-1)/eps)$ is enough, and for $n >= 3$ no smaller bound is: see the proof.",
    )


def proof_numbers(*, n: int, eps: float, factor: float) -> dict[str, object]:
    L = math.log(n / eps)
    return {"L": L, "budget": 2 * L, "longest": _longest_norm(n, eps)}


def draw(made: Any, *, n: int, eps: float, factor: float) -> None:
    grid = np.unique(np.geomspace(2, max(1000, n), 80).round())
    for e, colour, style in ((0.9, ORANGE, ":"), (eps, BLUE, "-"), (1e-9, VERMILION, "--")):
        share = [_longest_norm(int(m), e) / (2 * math.log(m / e)) for m in grid]
        made.plot(grid, share, style, color=colour, lw=2, label=f"$eps = {e:g}$")
    made.axhline(1, color="black", lw=0.8)


# your own answer


def keys_apart(latent: Float, *, n: int, d: int, eps: float) -> Instance:
    keys = latent[:n, :d].copy()
    for i in np.flatnonzero(~keys.any(axis=1)):
        keys[i, i % d] = -1.0  # a direction for rows that have none
    return Instance(given={"keys": nearest_allowed_keys(keys), "eps": eps})


def hardest_keys(*, n: int, d: int, eps: float) -> list[Instance]:
    return [Instance(given={"keys": ring(n), "eps": eps})] if d == 3 and n > 2 else []


def within_budget(given: Mapping[str, Any], query: Float) -> list[Ruling]:
    return [norm_ruling(query, 2 * math.log(len(given["keys"]) / given["eps"]), "2 ln(n/eps)")]


QUESTION = query_question(
    "copying-within-budget", lambda given: [0], further=within_budget, make=keys_apart, traps=hardest_keys
)

CLAIM = read_claim(__name__)

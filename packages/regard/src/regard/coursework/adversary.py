"""The adversary: looks for the instance at which a statement does worst, and reports how near it came to breaking.

What it finds is a counterexample or nothing; "nothing found" is never a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.coursework.question import Instance, Ruling, Setting, Size


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """The largest value found, where, and after how many evaluations."""

    value: float
    at: dict[str, float]
    tries: int
    keys: Float | None = None


def attack(function: Callable[..., float], box: Mapping[str, tuple[float, float]]) -> Attack:
    """Maximise a function of positive parameters over a box, in their logarithms; ``n`` is a whole number.

    Differential evolution, then a local polish. A maximum on the edge of the box shows as an edge value in ``at``.

    >>> found = attack(lambda n, eps: -((n - 7) ** 2) - (eps - 0.25) ** 2, {"n": (2, 100), "eps": (0.01, 1)})
    >>> found.at["n"], round(found.at["eps"], 3)
    (7, 0.25)
    """
    from scipy.optimize import differential_evolution

    names, limits = list(box), [tuple(np.log(ends)) for ends in box.values()]

    def place(x: Float) -> dict[str, float]:
        # exp(log x) may miss the end of the box by rounding
        point = {name: float(np.clip(np.exp(v), *box[name])) for name, v in zip(names, x, strict=True)}
        return {name: round(value) if name == "n" else value for name, value in point.items()}

    with np.errstate(over="ignore"):  # of the spread of the values, where a constant in them is huge
        optimum = differential_evolution(lambda x: -function(**place(x)), limits, maxiter=40, rng=0, tol=1e-12)
    return Attack(value=float(-optimum.fun), at=place(optimum.x), tries=int(optimum.nfev))


def worst_keys_for_copying(
    start: Float, eps: float, project: Callable[[Float], Float], *, steps: int = 40, pace: float = 0.5
) -> Attack:
    """Move the other keys so that copying key 0 needs the longest query: projected gradient ascent.

    ||q*|| = max_w (H(w) + ln(1/eps)) / ||k_0 - sum_i w_i k_i||, and where w is the maximiser its derivative by k_i is
    ||q*|| w_i r / ||r||^2 with r = k_0 - sum_i w_i k_i (only the denominator moves). ``regard.design`` solves for w.
    """
    from regard import design
    from regard.design.certificate import floats

    keys = project(start.copy())
    value, best = -np.inf, keys
    for step in range(steps):
        answer = design.copy(keys, 0, eps=eps)
        if answer.lower_bound is None:  # no query copies key 0 at all
            return Attack(value=np.inf, at={}, tries=step + 1, keys=keys)
        if answer.lower_bound > value:
            value, best = answer.lower_bound, keys.copy()
        if answer.certificate.dual is None:  # no query copies key 0 at all: seen to above
            break
        w = floats(answer.certificate.dual.weights)
        w = w / w.sum()
        r = keys[0] - w @ keys[1:]
        # All derivatives point along r; the fourth root keeps keys of tiny weight moving, and it is still an ascent.
        keys[1:] += pace * 0.95**step * (len(w) * w[:, None]) ** 0.25 * r / np.linalg.norm(r)
        keys = project(keys)
    return Attack(value=value, at={}, tries=steps, keys=best)


# against an answer: the same, knowing nothing of what the numbers mean


@dataclass(frozen=True, kw_only=True, eq=False)
class Attempt:
    """An instance, what the function returned for it, and the ruling."""

    instance: Instance
    answer: Any
    ruling: Ruling


Trial = Callable[[Float, Setting], Attempt | None]  # None where the numbers do not fit together


def walk_to_failure(
    tried: Attempt, trial: Trial, *, sizes: tuple[Size, ...], rng: np.random.Generator, moves: int
) -> Attempt:
    """Move an instance to where the answer has less room: a random walk that keeps what is worse for the answer.

    Stops at the first instance at which the answer fails, or after so many moves.
    """
    step, best = 0.5, tried
    for _ in range(moves):
        if best.ruling.fails or best.instance.latent is None:
            break
        setting = {size.name: size.draw_nearby(best.instance.setting[size.name], rng, step) for size in sizes}
        latent = best.instance.latent + step * rng.standard_normal(best.instance.latent.shape)
        outcome = trial(latent, setting)
        if outcome is None:
            continue
        # so written that a room which is no number counts as worse for the answer
        better = not outcome.ruling.room >= best.ruling.room
        # longer after a success, shorter after a failure: the walk finds its own pace
        step, best = (step * 1.3, outcome) if better else (max(step * 0.9, 1e-3), best)
    return best


def smallest_failing_attempt(
    failed: Attempt, candidates: Iterable[Instance], judge: Callable[[Instance], Attempt]
) -> Attempt:
    """The first of the candidates, which come smallest first, at which the answer fails too; else what had failed."""
    for candidate in candidates:
        outcome = judge(candidate)
        if outcome.ruling.fails:
            return outcome
    return failed

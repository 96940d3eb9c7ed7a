"""copy, share, match: the shortest query, the most that a norm budget allows, or the proof that none exists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Float
from regard.design.answer import Design, Designs
from regard.design.certificate import Balance, Digest, Verb
from regard.design.certified_solver import (
    GAP,
    RUNNING_OFF,
    SOLVER_GAP,
    attempt,
    certify_shortest,
    certify_together,
    closed_forms,
    solve,
)
from regard.design.many_targets import shortest_together
from regard.design.question import (
    Question,
    checked_index,
    checked_indices,
    checked_keys,
    checked_positive,
    checked_target,
    near_one,
)
from regard.errors import CouldNotFindOut, InputError

# Where targets are solved one by one: a product with keys of few dimensions costs less than its exponentials, so there
# is nothing to share, and of so many keys in so few dimensions a good part cannot win (benchmarks/bench_design_many).
MANY_KEYS, FEW_DIMENSIONS = 5000, 32
CHECKED_TOGETHER = 1 / 8  # answers for each dimension: as many scores of all keys are held beside the keys
IN_CACHE = 1 << 15  # scores: up to so many are held in any case


def copy(
    keys: ArrayLike,
    index: int,
    *,
    eps: float | None = None,
    max_norm: float | None = None,
    allowed: ArrayLike | None = None,
    scale: float = 1.0,
) -> Design:
    """The shortest query that gives key `index` attention 1/(1+eps) or more: min ||q|| s.t. alpha_j >= 1/(1+eps).

    With `max_norm` instead of `eps`: the most attention that a query of that norm can give. Works for any keys; where
    no query does it, the result says so (``reachable`` is False) and carries the proof. What float64 cannot decide goes
    to rationals and balls, for up to about 35 keys that span 35 dimensions; beyond that it may be CouldNotFindOut.

    keys: n x d. allowed: True where a key may be attended to. scale: multiplies all scores, such as 1/sqrt(d).

    >>> found = copy(np.eye(3), 0, eps=0.02)         # ln(2/0.02) sqrt(2/3)
    >>> round(found.norm, 4), found.query.round(3).tolist()
    (3.7601, [3.07, -1.535, -1.535])
    >>> copy([[0.0], [1.0], [2.0]], 1, eps=0.5).reachable     # the middle of three on a line
    False
    """
    array, rows, top = checked_keys(keys, allowed, scale)
    chosen = (checked_index(index, len(array), rows),)
    eps, max_norm = _demand(eps, max_norm, "eps")
    return solve(Question(Verb.COPY, array, rows, chosen, None, float(scale), eps=eps, max_norm=max_norm, top=top))


def share(
    keys: ArrayLike,
    indices: Sequence[int],
    *,
    eps: float | None = None,
    max_norm: float | None = None,
    allowed: ArrayLike | None = None,
    scale: float = 1.0,
) -> Design:
    """The shortest query that gives each of s keys at least 1/(s+eps), or the best least share within `max_norm`.

    keys: n x d, one key per row. indices: the s keys, counted from 0. allowed: n yes or no, all if left out.

    >>> found = share(np.eye(4), [0, 1], eps=0.02)   # ln(2/0.02) sqrt(2*2/4)
    >>> round(found.norm, 4), found.weights.round(3).tolist()
    (4.6052, [0.495, 0.495, 0.005, 0.005])
    """
    array, rows, top = checked_keys(keys, allowed, scale)
    chosen = checked_indices(indices, len(array), rows)
    eps, max_norm = _demand(eps, max_norm, "eps")
    return solve(Question(Verb.SHARE, array, rows, chosen, None, float(scale), eps=eps, max_norm=max_norm, top=top))


def match(
    keys: ArrayLike,
    target: ArrayLike,
    *,
    kl: float | None = None,
    max_norm: float | None = None,
    allowed: ArrayLike | None = None,
    scale: float = 1.0,
) -> Design:
    """The shortest query whose weights are within KL(target || weights) <= kl, or the nearest within `max_norm`.

    A divergence of kl means a total variation of at most sqrt(kl/2). kl = 0 would be an equation between real
    numbers that floats can neither meet nor check: ask for a small positive one.

    keys: n x d, one key per row. target: n shares that sum to 1. allowed: n yes or no, all if left out.

    >>> found = match(np.eye(2), [0.9, 0.1], kl=0.01)
    >>> round(found.norm, 4), found.weights.round(3).tolist()
    (1.2395, [0.852, 0.148])
    """
    array, rows, top = checked_keys(keys, allowed, scale)
    p = checked_target(target, len(array), rows)
    kl, max_norm = _demand(kl, max_norm, "kl")
    return solve(Question(Verb.MATCH, array, rows, (), p, float(scale), kl=kl, max_norm=max_norm, top=top))


def copy_many(
    keys: ArrayLike, indices: Sequence[int], *, eps: float, allowed: ArrayLike | None = None, scale: float = 1.0
) -> Designs:
    """`copy` for many keys of the same set, asked together: the same answers, several times faster.

    keys: n x d, one key per row. indices: the keys to copy, counted from 0. allowed: n yes or no, all if left out.
    A key for which nothing could be certified is listed under `unanswered`; the others lose nothing by it.

    >>> [round(found.norm, 4) for found in copy_many(np.eye(3), [0, 2], eps=0.02)]
    [3.7601, 3.7601]
    """
    array, rows, top = checked_keys(keys, allowed, scale)
    chosen = checked_indices(indices, len(array), rows)
    eps = _demand(eps, None, "eps")[0] or 0.0
    shared: dict[str, Any] = {"eps": eps, "top": top, "digest": Digest(array)}
    if scale == 1:  # else no closed form is about these scores
        shared["forms"] = closed_forms(array, rows, np.searchsorted(rows, chosen).tolist())
    questions = [Question(Verb.COPY, array, rows, (j,), None, float(scale), **shared) for j in chosen]
    solutions: list[tuple[Float | None, Float]] = [(None, np.zeros(0))] * len(chosen)
    if len(rows) - 1 > eps and len(chosen) > 1 and not (len(rows) > MANY_KEYS and array.shape[1] < FEW_DIMENSIONS):
        solutions = attempt(lambda: _solve_together(array, rows, chosen, math.log(eps))) or solutions
    with np.errstate(**RUNNING_OFF):
        ready = _certify_solutions(questions, solutions)
    answers, unanswered = [], {}
    for question, answer in zip(questions, ready, strict=True):
        try:
            answers.append(answer if answer is not None else solve(question))
        except CouldNotFindOut as error:
            unanswered[question.chosen[0]] = str(error)
    return Designs(designs=tuple(answers), unanswered=unanswered)


def _certify_solutions(questions: list[Question], solutions: list[tuple[Float | None, Float]]) -> list[Design | None]:
    """What the separate check confirms of the solutions; some at a time, since each check reads all keys twice."""
    answers: list[Design | None] = [None] * len(questions)
    found = [
        (place, query / questions[place].scale, Balance(weights=weights, mixture=np.ones(1)))
        for place, (query, weights) in enumerate(solutions)
        if query is not None
    ]
    found = [(place, query, dual) for place, query, dual in found if np.isfinite(query).all()]
    n, d = questions[0].keys.shape
    everything, size = len(questions[0].rows) == n, max(4, int(d * CHECKED_TOGETHER), IN_CACHE // n)
    for start in range(0, len(found), size):
        some = found[start : start + size]
        if everything:
            places, queries, duals = zip(*some, strict=True)
            checked = certify_together([questions[place] for place in places], queries, duals)
            for place, answer in zip(places, checked, strict=True):
                answers[place] = answer
        for place, query, dual in some:
            answers[place] = answers[place] or certify_shortest(questions[place], query, dual)
    return answers


def _solve_together(
    keys: Float, rows: NDArray[np.intp], chosen: tuple[int, ...], limit: float
) -> list[tuple[Float | None, Float]]:
    """A query and dual weights for each chosen key, found together; None for the query where it did not finish."""
    points, unit = keys, 1.0
    if len(rows) < len(keys) or not near_one(keys, keys[chosen[0]]):
        points = keys[rows]
        # attention does not feel a common shift, and the smaller the keys the less is rounded
        points -= points.mean(axis=0)
        unit = float(np.sqrt(np.einsum("nd,nd->n", points, points).max()))
        if unit == 0 or not math.isfinite(unit):
            return [(None, np.zeros(0)) for _ in chosen]
        points /= unit
    own = np.searchsorted(rows, chosen)
    solved = shortest_together(points, points[own], np.full(len(chosen), limit), own, gap=SOLVER_GAP)
    finished = solved.upper <= solved.lower * (1 + GAP)
    return [
        (query / unit, np.concatenate([weights[:place], weights[place + 1 :]])) if done else (None, np.zeros(0))
        for query, weights, done, place in zip(solved.queries, solved.weights, finished, own, strict=True)
    ]


def _demand(value: float | None, max_norm: float | None, name: str) -> tuple[float | None, float | None]:
    meaning = {"eps": "how much the rest may have", "kl": "how far from the target, in nats"}[name]
    value = checked_positive(value, name, meaning)
    max_norm = checked_positive(max_norm, "max_norm", "the longest query to consider")
    if (value is None) == (max_norm is None):
        raise InputError(f"Give either {name} (what to reach) or max_norm (how far to go), one of them.")
    return value, max_norm

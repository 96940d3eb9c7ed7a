"""copy, share, match: the shortest query, the most that a norm budget allows, or the proof that none exists."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.design import certificate as certificates
from regard.design import minimax
from regard.design.answer import Design, Designs, drawable
from regard.design.certificate import Verification
from regard.design.evaluate import norm_above
from regard.design.many_targets import shortest_together
from regard.design.obstruction import unreachable_proofs
from regard.design.problem import FORMAT
from regard.design.question import (
    Geometry,
    Question,
    checked_index,
    checked_indices,
    checked_keys,
    checked_positive,
    checked_target,
    geometry,
)
from regard.design.shortest import shortest
from regard.design.textbook import textbook_query
from regard.errors import CouldNotFindOut, InputError

Array = NDArray[np.float64]

GAP = 1e-9  # relative for norms, nats for budgets: what a result must be certified to
NUDGES = (4e-16, 4e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 4e-10, 9e-10)  # outwards from the norm that is necessary
SOLVER_GAP = 2e-10  # what the solver aims at, so that the rounding of the check fits in between


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
    no query does it, the result says so (``reachable`` is False) and carries the proof. Weak where the key is so deep
    among the others that norms beyond 1e13 times the keys' inverse size would be needed: CouldNotFindOut.

    keys: n x d. allowed: True where a key may be attended to. scale: multiplies all scores, such as 1/sqrt(d).

    >>> found = copy(np.eye(3), 0, eps=0.02)         # ln(2/0.02) sqrt(2/3)
    >>> round(found.norm, 4), found.query.round(3).tolist()
    (3.7601, [3.07, -1.535, -1.535])
    >>> copy([[0.0], [1.0], [2.0]], 1, eps=0.5).reachable     # the middle of three on a line
    False
    """
    array, rows = checked_keys(keys, allowed, scale)
    chosen = (checked_index(index, len(array), rows),)
    eps, max_norm = _demand(eps, max_norm, "eps")
    return _solve(Question("copy", array, rows, chosen, None, float(scale), eps=eps, max_norm=max_norm))


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

    >>> found = share(np.eye(4), [0, 1], eps=0.02)   # ln(2/0.02) sqrt(2*2/4)
    >>> round(found.norm, 4), found.weights.round(3).tolist()
    (4.6052, [0.495, 0.495, 0.005, 0.005])
    """
    array, rows = checked_keys(keys, allowed, scale)
    chosen = checked_indices(indices, len(array), rows)
    eps, max_norm = _demand(eps, max_norm, "eps")
    return _solve(Question("share", array, rows, chosen, None, float(scale), eps=eps, max_norm=max_norm))


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

    >>> found = match(np.eye(2), [0.9, 0.1], kl=0.01)
    >>> round(found.norm, 4), found.weights.round(3).tolist()
    (1.2395, [0.852, 0.148])
    """
    array, rows = checked_keys(keys, allowed, scale)
    p = checked_target(target, len(array), rows)
    kl, max_norm = _demand(kl, max_norm, "kl")
    return _solve(Question("match", array, rows, (), p, float(scale), kl=kl, max_norm=max_norm))


def copy_many(
    keys: ArrayLike, indices: Sequence[int], *, eps: float, allowed: ArrayLike | None = None, scale: float = 1.0
) -> Designs:
    """`copy` for many keys of the same set, asked together: the same answers, several times faster.

    A key for which nothing could be certified is listed under `unanswered`; the others lose nothing by it.

    >>> [round(found.norm, 4) for found in copy_many(np.eye(3), [0, 2], eps=0.02)]
    [3.7601, 3.7601]
    """
    array, rows = checked_keys(keys, allowed, scale)
    chosen = checked_indices(indices, len(array), rows)
    eps = _demand(eps, None, "eps")[0] or 0.0
    questions = [Question("copy", array, rows, (j,), None, float(scale), eps=eps) for j in chosen]
    found: list[tuple[Array | None, Array]] = [(None, np.zeros(0))] * len(chosen)
    if len(rows) - 1 > eps and len(chosen) > 1:
        found = _together(array, rows, chosen, math.log(eps))
    answers, unanswered = [], {}
    for question, (query, weights) in zip(questions, found, strict=True):
        ready = None if query is None else _certified_shortest(question, query / scale, weights, np.ones(1))
        try:
            answers.append(ready if ready is not None else _solve(question))
        except CouldNotFindOut as error:
            unanswered[question.chosen[0]] = str(error)
    return Designs(designs=tuple(answers), unanswered=unanswered)


def _together(
    keys: Array, rows: NDArray[np.intp], chosen: tuple[int, ...], limit: float
) -> list[tuple[Array | None, Array]]:
    """A query and dual weights for each chosen key, found together; None for the query where it did not finish."""
    points = keys[rows] - keys[rows].mean(axis=0)
    unit = float(np.sqrt(np.einsum("nd,nd->n", points, points).max()))
    if unit == 0 or not math.isfinite(unit):
        return [(None, np.zeros(0)) for _ in chosen]
    points /= unit
    own = np.searchsorted(rows, chosen)
    found = shortest_together(points, points[own], np.full(len(chosen), limit), own, gap=SOLVER_GAP)
    return [
        (query / unit if upper <= lower * (1 + GAP) else None, np.delete(weights, place))
        for query, weights, lower, upper, place in zip(
            found.queries, found.weights, found.lower, found.upper, own, strict=True
        )
    ]


def _demand(value: float | None, max_norm: float | None, name: str) -> tuple[float | None, float | None]:
    meaning = {"eps": "how much the rest may have", "kl": "how far from the target, in nats"}[name]
    value = checked_positive(value, name, meaning)
    max_norm = checked_positive(max_norm, "max_norm", "the longest query to consider")
    if (value is None) == (max_norm is None):
        raise InputError(f"Give either {name} (what to reach) or max_norm (how far to go), one of them.")
    return value, max_norm


def _solve(question: Question) -> Design:
    if question.max_norm is not None:
        return _strongest(question)
    nothing = np.zeros(question.keys.shape[1])
    if question.value(nothing) <= question.limit() + 1e-12:  # the check decides, exactly
        uniform = np.ones(len(question.competing)) if len(question.competing) else np.zeros(0)
        found = _certified_shortest(question, nothing, uniform, np.ones(len(question.chosen)))
        if found is not None:
            return found
    place = geometry(question)
    if place.unit > 0:
        query, weights, mixture = _search(question, place)
        found = None if query is None else _certified_shortest(question, query, weights, mixture)
        if found is not None:
            return found
    return _never(question, place)


def _search(question: Question, place: Geometry) -> tuple[Array | None, Array, Array]:
    """The solver's query (None if it found no feasible one), dual weights and mixture."""
    limit = question.limit()
    if len(place.anchors) == 1:
        single = shortest(place.points - place.anchors[0], limit, gap=SOLVER_GAP)
        found = single.query if math.isfinite(single.upper) else None
        weights, mixture = single.weights, np.ones(len(question.chosen))
    else:
        several = minimax.shortest_minimax(
            place.points, place.anchors, np.full(len(place.anchors), limit), gap=SOLVER_GAP
        )
        found = several.query if math.isfinite(several.upper) else None
        weights, mixture = several.weights, several.mixture
    return (None if found is None else place.query(found, question.scale)), weights, mixture


def _certified_shortest(question: Question, query: Array, weights: Array, mixture: Array) -> Design | None:
    """The answer with its certificate, if the separate check confirms it.

    First the query as it is, a hair longer, in the quick arithmetic. The solver knows the direction better than the
    length: where that does not do, the query is set to the norm that the dual weights prove necessary, and lengthened
    from there until the careful check is satisfied.
    """
    dual = {"weights": weights, "mixture": mixture}
    tried = _quickly(question, query, dual) or _carefully(question, query, dual)
    if tried is None:
        return None
    made, verification = tried
    numbers, query = verification.numbers, np.array(made["query"])
    made.update(lower_bound=numbers["lower_bound"], gap=max(numbers["gap"], 0.0) * (1 + 1e-12))
    textbook = None
    if question.eps is not None and question.scale == 1 and query.any():
        place = {int(row): i for i, row in enumerate(question.rows)}
        textbook = textbook_query(question.keys[question.rows], [place[j] for j in question.chosen], question.eps)
    return _design(question, query, made, verification, norm=made["norm"], textbook=textbook, **_shown(numbers))


Tried = tuple[dict[str, Any], Verification]


def _quickly(question: Question, query: Array, dual: dict[str, Array]) -> Tried | None:
    for nudge in (1e-12, 1e-11, 1e-10):
        made = _shortest_certificate(question, query * (1 + nudge), dual)
        verification = certificates.recheck(made, question.keys, strict=False, tiers=(False,))
        if verification.holds:
            return made, verification
    return None


def _carefully(question: Question, query: Array, dual: dict[str, Array]) -> Tried | None:
    made = _shortest_certificate(question, query, dual)
    verification = confirmed(made, question.keys)
    necessary = verification.numbers["lower_bound"]
    for nudge in NUDGES if query.any() and necessary > 0 else ():
        if verification.holds:
            break
        size = math.hypot(*query.tolist())  # np.linalg.norm squares, and squares of a very short query vanish
        made = _shortest_certificate(question, query * (necessary / size * (1 + nudge)), dual)
        verification = confirmed(made, question.keys)
    return (made, verification) if verification.holds else None


def _shortest_certificate(question: Question, query: Array, dual: dict[str, Array]) -> dict[str, Any]:
    stated = {"norm": norm_above(query), "gap": GAP}
    return made_certificate(question, "shortest", query, dual, stated)


def _shown(numbers: dict[str, float]) -> dict[str, Any]:
    return {"lower_bound": numbers["lower_bound"], "gap": max(numbers["gap"], 0.0), "bound": None}


def _strongest(question: Question) -> Design:
    """The most that a query of norm max_norm can do."""
    place = geometry(question)
    limits = np.zeros(len(place.anchors))
    radius = question.max_norm or 0.0
    if place.unit == 0 or not len(place.points):
        query, weights = np.zeros(question.keys.shape[1]), np.ones(len(place.points))
        mixture = np.ones(len(question.chosen))
    else:
        within = place.radius(radius, question.scale)
        found = minimax.strongest(place.points, place.anchors, limits, within, gap=SOLVER_GAP)
        query, weights = place.query(found.query, question.scale), found.weights
        mixture = found.mixture if question.verb != "match" else np.zeros(0)
    norm = float(np.linalg.norm(query))
    if norm * (1 + 4e-15) > radius:  # the check rounds norms up, by a few units in the last place
        query = query * (radius / norm * (1 - 4e-15))
    dual = {"weights": weights, "mixture": mixture}
    made = made_certificate(question, "strongest", query, dual, {"gap": GAP})
    verification = confirmed(made, question.keys)
    numbers = verification.numbers
    if not verification.holds:
        raise CouldNotFindOut(
            f"The most that a query of norm {radius:g} can do lies between {numbers['reached']:.9g} and "
            f"{numbers['bound']:.9g}, but could not be pinned down to {GAP:g} nats; try a smaller max_norm."
        )
    made.update(reached=numbers["reached"], bound=numbers["bound"], gap=max(numbers["gap"], 0.0) * (1 + 1e-12))
    shown = {"lower_bound": None, "gap": max(numbers["gap"], 0.0), "bound": numbers["bound"]}
    norm = float(np.linalg.norm(query))
    return _design(question, query, made, verification, norm=norm, textbook=None, **shown)


def _never(question: Question, place: Geometry) -> Design:
    """The proof that no query meets the demand, or CouldNotFindOut."""
    for proof in unreachable_proofs(question, place):
        made = made_certificate(question, "unreachable", None, None, proof)
        verification = confirmed(made, question.keys)
        if verification.holds:
            bound = verification.numbers["bound"]
            made["bound"] = bound
            nothing = {"norm": None, "lower_bound": None, "gap": None, "bound": bound, "textbook": None}
            return _design(question, None, made, verification, **nothing)
    raise CouldNotFindOut(
        "Neither a query that meets the demand nor a proof that none exists could be certified in float64: the keys "
        "involved are too nearly alike or the demand too sharp; ask for a norm budget (max_norm) or a larger eps or kl."
    )


def confirmed(made: dict[str, Any], keys: Array) -> Verification:
    """The separate check: the quick arithmetic, and where that does not confirm it and it is affordable, the strict."""
    quick = certificates.recheck(made, keys, strict=False)
    return quick if quick.holds or len(keys) > 20_000 else certificates.recheck(made, keys, strict=True)


def made_certificate(
    question: Question, claim: str, query: Array | None, dual: dict[str, Array] | None, more: dict[str, Any]
) -> dict[str, Any]:
    everything = len(question.rows) == len(question.keys)
    made: dict[str, Any] = {
        "format": FORMAT,
        "question": question.to_dict(),
        "claim": claim,
        "scale": question.scale,
        "allowed": None if everything else question.rows.tolist(),
        "data": {"shape": list(question.keys.shape), "sha256": question.fingerprint},
    }
    if query is not None:
        made["query"] = query.tolist()
    if dual is not None:
        mixture = dual["mixture"] if question.verb != "match" else np.zeros(0)
        made["dual"] = {"weights": dual["weights"].tolist(), "mixture": mixture.tolist()}
    return {**made, **more}


def _design(question: Question, query: Array | None, made: dict[str, Any], verification: Any, **more: Any) -> Design:
    weights = None if query is None else question.weights(query)
    attention = None
    if weights is not None:
        attention = _attention(question, weights)
    return Design(
        verb=question.verb,
        chosen=question.chosen,
        reachable=query is not None,
        eps=question.eps,
        kl=question.kl,
        max_norm=question.max_norm,
        query=query,
        weights=weights,
        attention=attention,
        certificate=made,
        verification=replace(verification),
        _keys=drawable(question.keys),
        **more,
    )


def _attention(question: Question, weights: Array) -> float:
    if question.target is None:
        return float(weights[list(question.chosen)].min())
    p = question.target / question.target.sum()
    here = p > 0
    divergence = float(p[here] @ (np.log(p[here]) - np.log(np.maximum(weights[here], 1e-300))))
    return max(divergence, 0.0)  # never negative but for rounding

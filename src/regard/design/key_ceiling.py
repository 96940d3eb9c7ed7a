"""The most attention a key can ever get: sup_q alpha_j = 1 / (1 + m + e^H0).

m counts the copies of the key among the others; H0 is the largest entropy among the convex combinations of the distinct
other keys that equal k_j (e^H0 = 0 where there is none, that is, where k_j is a corner of the hull). Any exact such
combination proves a ceiling for every query; the one of largest entropy proves the true one, and a query shows that it
is approached. Membership in the hull is decided in exact arithmetic on the stored floats. Since that can differ from
what one sees (three floats that look collinear are not), the ceiling under a norm budget stands beside it.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.design import hull, minimax, rigor
from regard.design.answer import Ceiling, Ceilings, drawable
from regard.design.obstruction import REACH, combinations
from regard.design.question import (
    Geometry,
    Question,
    checked_index,
    checked_indices,
    checked_keys,
    checked_positive,
    geometry,
)
from regard.design.shortest import shortest
from regard.design.verbs import confirmed, copy, made_certificate
from regard.errors import CouldNotFindOut
from regard.progress import Progress

Array = NDArray[np.float64]

PRECISION = 1e-6  # how near the query must come to the ceiling that was proved
WIDEST_SCORE = 1000.0  # the budget shown where none was asked for: scores up to this far apart


def ceiling(
    keys: ArrayLike,
    index: int,
    *,
    max_norm: float | None = None,
    allowed: ArrayLike | None = None,
    scale: float = 1.0,
) -> Ceiling:
    """The most attention key `index` can ever get, with a proof and a query that comes within 1e-6 of it.

    `max_norm` sets the norm budget whose ceiling is given beside; by default the norm at which scores are at most
    1000 apart. Absolute statements are about the stored float64 numbers, in exact arithmetic.

    >>> square = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]]
    >>> round(ceiling(square, 4).ceiling, 9)          # the centre: as much as everybody else, never more
    0.2
    >>> ceiling(square, 0).ceiling                     # a corner
    1.0
    """
    array, rows = checked_keys(keys, allowed, scale)
    key = checked_index(index, len(array), rows)
    max_norm = checked_positive(max_norm, "max_norm", "the longest query to consider")
    question = Question("copy", array, rows, (key,), None, float(scale))
    others = question.competing
    same = (array[others] == array[key]).all(axis=1)
    found = _with_distinct(question, others[~same], int(same.sum()))
    budget, budget_ceiling = _budget(question, max_norm)
    return Ceiling(
        key=key,
        copies=int(same.sum()),
        budget_norm=budget,
        budget_ceiling=budget_ceiling,
        _keys=drawable(array),
        **found,
    )


def ceilings(
    keys: ArrayLike,
    indices: Sequence[int] | None = None,
    *,
    max_norm: float | None = None,
    allowed: ArrayLike | None = None,
    scale: float = 1.0,
    progress: Progress | None = None,
) -> Ceilings:
    """The ceilings of the given keys, or of all allowed ones."""
    array, rows = checked_keys(keys, allowed, scale)
    chosen = rows.tolist() if indices is None else list(checked_indices(indices, len(array), rows))
    answers = []
    for done, key in enumerate(chosen, start=1):
        answers.append(ceiling(array, key, max_norm=max_norm, allowed=allowed, scale=scale))
        if progress is not None:
            progress(done, len(chosen))
    return Ceilings(rows=tuple(answers))


def _with_distinct(question: Question, distinct: NDArray[np.intp], copies: int) -> dict[str, Any]:
    """Everything about the ceiling, given the other keys that differ from this one."""
    keys, key = question.keys, question.chosen[0]
    if not len(distinct):
        return _stated(question, np.zeros(keys.shape[1]), {}, inside=copies > 0, support=())
    both = np.concatenate([distinct, [key]])
    for query in _winning_queries(question, distinct, None):  # most keys are corners, and this is quick
        with contextlib.suppress(CouldNotFindOut):
            return _stated(question, query, {}, inside=copies > 0, support=())
    member = hull.decide(keys[both], len(distinct))
    if member.inside:
        few = () if member.support is None else tuple(int(both[i]) for i in member.support)
        return _inside(question, distinct, few)
    for query in _winning_queries(question, distinct, member.query):
        with contextlib.suppress(CouldNotFindOut):
            return _stated(question, query, {}, inside=copies > 0, support=())
    exact = member.whole_query if member.whole_query is not None else member.query
    direction = {} if exact is None else {"direction": list(exact)}
    return _stated(question, None, direction, inside=copies > 0, support=())


def _winning_queries(question: Question, distinct: NDArray[np.intp], direction: Array | None) -> Iterator[Array]:
    """Queries that should leave the distinct others PRECISION / 4 in all: the shortest, or a proved direction."""
    keys, key, scale = question.keys, question.chosen[0], question.scale
    aim = math.log(PRECISION / 4)
    if direction is None:
        rows = keys[distinct] - keys[key]
        unit = float(np.linalg.norm(rows, axis=1).max())
        span, points = None, rows / unit
        if len(points) < points.shape[1]:  # the shortest query lies in their span: far fewer numbers
            span, triangle = np.linalg.qr(points.T)
            points = triangle.T
        found = shortest(points, aim, gap=1e-6)
        if math.isfinite(found.upper):
            yield (found.query if span is None else span @ found.query) / (unit * scale)
        return
    unit_direction = direction / np.linalg.norm(direction)
    lead, rad = rigor.margins(keys[distinct], keys[key], unit_direction)
    if (lead - rad).min() > 0:
        yield unit_direction * ((math.log(len(distinct)) - aim) / (lead - rad).min() * (1 + 1e-6) / scale)


def _inside(question: Question, distinct: NDArray[np.intp], few: tuple[int, ...]) -> dict[str, Any]:
    """The key is a combination of distinct others: the one of largest entropy, proved, and a query near it."""
    rows = np.append(distinct, question.chosen[0])
    place = geometry(Question("copy", question.keys, rows, question.chosen, None, question.scale))
    found = minimax.strongest(place.points, place.anchors, np.zeros(1), REACH, gap=1e-9)
    query = place.query(found.query, question.scale)
    where = np.searchsorted(question.competing, np.sort(distinct))
    last: CouldNotFindOut | None = None
    for candidate in combinations(place, found.weights, found.mixture, np.ones(1)):
        weights = np.zeros(len(question.competing))
        weights[where] = candidate["weights"]
        full = {**candidate, "weights": weights.tolist()}  # the basis counts among the distinct others
        try:
            stated = _stated(question, query, {"combination": full}, inside=True, support=few)
        except CouldNotFindOut as error:
            last = error
            continue
        return _with_shorter_query(question, place, stated, {"combination": full}, few)
    raise last if last is not None else CouldNotFindOut("No combination could be tried.")


def _with_shorter_query(
    question: Question, place: Geometry, stated: dict[str, Any], more: dict[str, Any], few: tuple[int, ...]
) -> dict[str, Any]:
    """The same ceiling with the shortest query that comes near it: on a face the nearest one would be endless."""
    near = stated["ceiling"] * (1 - PRECISION / 2)
    others = 1 / near - 1 - _copies(question)
    if others <= 0 or math.log(others) >= math.log(len(place.points)):
        return stated
    found = shortest(place.points - place.anchors[0], math.log(others), gap=1e-6)
    if not math.isfinite(found.upper) or found.upper >= stated["norm"] * place.unit * question.scale:
        return stated
    query = place.query(found.query, question.scale)
    with contextlib.suppress(CouldNotFindOut):
        return _stated(question, query, more, inside=True, support=few)
    return stated


def _copies(question: Question) -> int:
    """How many other allowed keys equal the chosen one, number for number."""
    return int((question.keys[question.competing] == question.keys[question.chosen[0]]).all(axis=1).sum())


def _stated(
    question: Question, query: Array | None, more: dict[str, Any], *, inside: bool, support: tuple[int, ...]
) -> dict[str, Any]:
    """The fields of a Ceiling, once the separate check has confirmed both sides."""
    made = made_certificate(question, "ceiling", query, None, {"gap": PRECISION, **more})
    verification = confirmed(made, question.keys)
    numbers = verification.numbers
    if not verification.holds:
        proved = next(holds for _, holds in verification.statements)
        top = f"at most {numbers['ceiling']:.9g}" if proved else "not proved below 1"
        raise CouldNotFindOut(
            f"The ceiling of key {question.chosen[0]} could not be pinned down to {PRECISION:g}: a query reaches "
            f"{numbers['reached']:.9g}, and it is {top}; ask for the ceiling within a norm (max_norm)."
        )
    made["ceiling"], made["reached"] = numbers["ceiling"], numbers["reached"]
    return {
        "inside": inside,
        "ceiling": numbers["ceiling"],
        "reached": numbers["reached"],
        "query": query,
        "norm": None if query is None else float(np.linalg.norm(query)),
        "support": support,
        "certificate": made,
        "verification": verification,
    }


def _budget(question: Question, max_norm: float | None) -> tuple[float | None, float | None]:
    """The norm budget and its ceiling: the one asked for, or the one at which scores are WIDEST_SCORE apart.

    The second is an extra, so where it cannot be pinned down it is left out.
    """
    keys, key = question.keys, question.chosen[0]
    mask = np.zeros(len(keys), dtype=bool)
    mask[question.rows] = True
    asked = max_norm is not None
    if max_norm is None:
        spread = float(np.linalg.norm(keys[question.rows] - keys[key], axis=1).max())
        if spread == 0:
            return None, None
        max_norm = WIDEST_SCORE / (spread * question.scale)
    try:
        return max_norm, copy(keys, key, max_norm=max_norm, allowed=mask, scale=question.scale).bound
    except CouldNotFindOut:
        if asked:
            raise
        return None, None

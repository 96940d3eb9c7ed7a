"""The most attention a key can ever get: sup_q alpha_j = 1 / (1 + m + e^H0).

m counts the copies of the key among the others; H0 is the largest entropy among the convex combinations of the distinct
other keys that equal k_j (e^H0 = 0 where there is none, that is, where k_j is a corner of the hull). Any exact such
combination proves a ceiling for every query; the one of largest entropy proves the true one, and a query shows that it
is approached. Membership in the hull is decided in exact arithmetic on the stored floats. That can differ from what
one sees (three floats that look collinear are not): then ask for the ceiling under a norm budget too.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard import rigor
from regard.array_types import Float
from regard.design import exact_answers, hull, minimax
from regard.design.answer import Ceiling, Ceilings, drawable_keys
from regard.design.certificate import Balance, Certificate, Digest, Statement, Verb, floats
from regard.design.certified_solver import RUNNING_OFF, attempt, confirm, solve
from regard.design.evaluate import norm_above
from regard.design.obstruction import FAR_GAP, REACH, combinations
from regard.design.question import (
    Geometry,
    Question,
    UncopiedGeometry,
    checked_index,
    checked_indices,
    checked_keys,
    checked_positive,
    geometry,
    uncopied_geometry,
)
from regard.design.shortest import shortest
from regard.design.verification import Verification, recheck
from regard.errors import CouldNotFindOut
from regard.progress import Progress
from regard.written_numbers import at_least, at_most

PRECISION = 1e-6  # how near the query must come to the ceiling that was proved


def ceiling(
    keys: ArrayLike,
    index: int,
    *,
    max_norm: float | None = None,
    allowed: ArrayLike | None = None,
    scale: float = 1.0,
) -> Ceiling:
    """The most attention key `index` can ever get, with a proof and a query that comes within 1e-6 of it.

    With `max_norm` also the most that a query of that norm can give it. Absolute statements are about the stored
    float64 numbers, in exact arithmetic. keys: n x d. allowed: True where a key may be attended to.

    >>> square = [[1, 1], [1, -1], [-1, 1], [-1, -1], [0, 0]]
    >>> ceiling(square, 4).ceiling                     # the centre: as much as everybody else, never more
    0.2
    >>> ceiling(square, 0).ceiling                     # a corner
    1.0
    """
    array, rows, top = checked_keys(keys, allowed, scale)
    key = checked_index(index, len(array), rows)
    max_norm = checked_positive(max_norm, "max_norm", "the longest query to consider")
    return _certify_ceiling(Question(Verb.COPY, array, rows, (key,), None, float(scale), top=top), max_norm)


def ceilings(
    keys: ArrayLike,
    indices: Sequence[int] | None = None,
    *,
    max_norm: float | None = None,
    allowed: ArrayLike | None = None,
    scale: float = 1.0,
    progress: Progress | None = None,
) -> Ceilings:
    """The ceilings of the given keys, or of all allowed ones; keys: n x d. `unanswered` says why one is missing."""
    array, rows, top = checked_keys(keys, allowed, scale)
    max_norm = checked_positive(max_norm, "max_norm", "the longest query to consider")
    chosen = rows.tolist() if indices is None else list(checked_indices(indices, len(array), rows))
    digest, answers, unanswered = Digest(array), [], {}
    for done, key in enumerate(chosen, start=1):
        try:
            question = Question(Verb.COPY, array, rows, (key,), None, float(scale), top=top, digest=digest)
            answers.append(_certify_ceiling(question, max_norm))
        except CouldNotFindOut as error:
            unanswered[key] = str(error)
        if progress is not None:
            progress(done, len(chosen))
    return Ceilings(rows=tuple(answers), unanswered=unanswered)


def _certify_ceiling(question: Question, max_norm: float | None) -> Ceiling:
    others = question.competing
    same = question.copies
    with np.errstate(**RUNNING_OFF):  # what is no number is not believed
        proof = _first_proof(question, others[~same])
    within = None if max_norm is None else solve(replace(question, max_norm=max_norm)).bound
    made, verification = proof.certificate, proof.verification
    return Ceiling(
        key=question.chosen[0],
        copies=int(same.sum()),
        inside=bool(same.any()) or made.combination is not None,
        ceiling=verification.numbers["ceiling"],
        reached=verification.numbers["reached"],
        query=None if made.query is None else floats(made.query),
        norm=proof.norm,
        support=proof.support,
        budget_norm=max_norm,
        budget_ceiling=within,
        certificate=made,
        verification=verification,
        _keys=drawable_keys(question.keys),
    )


def _first_proof(question: Question, distinct: NDArray[np.intp]) -> _Proof:
    """In floats, and where these are not enough (also where hull.decide ran out of time) in exact arithmetic."""
    try:
        return _proof(question, distinct)
    except (ArithmeticError, ValueError, CouldNotFindOut) as error:
        exact = _exact_proof(question)
        if exact is not None:
            return exact
        if isinstance(error, CouldNotFindOut):
            raise
        raise CouldNotFindOut(
            f"The ceiling of key {question.chosen[0]} could not be found: its way there leaves the range of float64; "
            "scale the keys to a size near 1."
        ) from error


@dataclass(frozen=True, eq=False)
class _Proof:
    """A ceiling that the separate check has confirmed on both sides; `support`: a few keys whose hull holds the key."""

    certificate: Certificate
    verification: Verification
    norm: float | None
    support: tuple[int, ...]


def _proof(question: Question, distinct: NDArray[np.intp]) -> _Proof:
    """The ceiling, given the other keys that differ from this one."""
    keys, key = question.keys, question.chosen[0]
    if not len(distinct):
        return _confirm_proof(question, np.zeros(keys.shape[1]))
    for query in _winning_queries(question, distinct, None):  # most keys are corners, and this is quick
        with contextlib.suppress(CouldNotFindOut):
            return _confirm_proof(question, query)
    both = np.concatenate([distinct, [key]])
    member = hull.decide(keys[both], len(distinct))
    if member.inside:
        few = () if member.support is None else tuple(int(both[i]) for i in member.support)
        return _inside(question, distinct, few)
    for query in _winning_queries(question, distinct, member.query):
        with contextlib.suppress(CouldNotFindOut):
            return _confirm_proof(question, query)
    direction = member.whole_query if member.whole_query is not None else member.query
    return _confirm_proof(question, None, direction=direction)


def _winning_queries(question: Question, distinct: NDArray[np.intp], direction: Float | None) -> Iterator[Float]:
    """Queries that should leave the distinct others PRECISION / 4 in all: the shortest, or a proved direction."""
    keys, key, scale = question.keys, question.chosen[0], question.scale
    # the rest of PRECISION is for the solver's gap and for rounding in the check
    aim = math.log(PRECISION / 4)
    if direction is None:
        lying = uncopied_geometry(question) if len(distinct) == len(keys) - 1 else None
        if lying is not None:
            yield from _outranking_queries(lying, aim, scale)
        yield from _outranking_queries(_geometry_among(question, distinct), aim, scale)
        return
    unit_direction = direction / np.linalg.norm(direction)
    lead, rad = rigor.margins(keys[distinct], keys[key], unit_direction)
    if (lead - rad).min() > 0:
        # n others, each behind by at least the smallest lead: n e^{-length lead} <= e^aim
        yield unit_direction * ((math.log(len(distinct)) - aim) / (lead - rad).min() * (1 + 1e-6) / scale)


def _outranking_queries(place: Geometry | UncopiedGeometry, aim: float, scale: float) -> Iterator[Float]:
    """The shortest query that keeps ln sum exp of the points at `aim`, if one was found."""
    solution = attempt(lambda: shortest(place.points, aim, gap=1e-6))
    if solution is not None and math.isfinite(solution.upper):
        yield place.query(solution.query, scale)


def _geometry_among(question: Question, distinct: NDArray[np.intp]) -> Geometry:
    """The geometry of copying the key among the others that differ from it."""
    rows = np.append(distinct, question.chosen[0])
    return geometry(Question(Verb.COPY, question.keys, rows, question.chosen, None, question.scale))


def _inside(question: Question, distinct: NDArray[np.intp], few: tuple[int, ...]) -> _Proof:
    """The key is a combination of distinct others: the one of largest entropy, proved, and a query near it."""
    place = _geometry_among(question, distinct)
    far = minimax.strongest(place.points, place.anchors, np.zeros(1), REACH, gap=FAR_GAP)
    query = place.query(far.query, question.scale)
    where = np.searchsorted(question.competing, np.sort(distinct))
    last: CouldNotFindOut | None = None
    for candidate in combinations(place.points, place.anchors, far.weights, np.ones(1)):
        weights = np.zeros(len(question.competing))
        weights[where] = candidate.weights
        full = replace(candidate, weights=weights)  # the basis counts among the distinct others
        try:
            proof = _confirm_proof(question, query, support=few, combination=full)
        except CouldNotFindOut as error:
            last = error
            continue
        return _with_shorter_query(question, place, proof, full)
    raise last if last is not None else CouldNotFindOut("No combination could be tried.")


def _with_shorter_query(question: Question, place: Geometry, proof: _Proof, combination: Balance) -> _Proof:
    """The same ceiling with the shortest query that comes near it: on a face the nearest one would be endless."""
    near = proof.verification.numbers["ceiling"] * (1 - PRECISION / 2)
    others = 1 / near - 1 - int(question.copies.sum())
    if others <= 0 or math.log(others) >= math.log(len(place.points)):
        return proof
    solution = attempt(lambda: shortest(place.points, math.log(others), gap=1e-6))
    if solution is None or not solution.upper < (proof.norm or 0.0) * place.unit * question.scale:
        return proof
    query = place.query(solution.query, question.scale)
    with contextlib.suppress(CouldNotFindOut):
        return _confirm_proof(question, query, support=proof.support, combination=combination)
    return proof


def _confirm_proof(
    question: Question,
    query: Float | None,
    *,
    support: tuple[int, ...] = (),
    combination: Balance | None = None,
    direction: Float | tuple[int, ...] | None = None,
) -> _Proof:
    """The proof, once the separate check has confirmed both sides; CouldNotFindOut if it does not."""
    made = question.certificate(
        Statement.CEILING, query=query, combination=combination, direction=direction, gap=PRECISION
    )
    verification = confirm(made, question)
    numbers = verification.numbers
    if not verification.holds:
        proved = next(holds for _, holds in verification.statements)
        top = f"at most {at_most(numbers['ceiling'])}" if proved else "not proved below 1"
        raise CouldNotFindOut(
            f"The ceiling of key {question.chosen[0]} could not be pinned down to {PRECISION:g}: a query reaches "
            f"{at_least(numbers['reached'])}, and it is {top}; ask for the ceiling within a norm (max_norm)."
        )
    made = replace(made, ceiling=numbers["ceiling"], reached=numbers["reached"])
    norm = None if query is None else norm_above(query)
    return _Proof(made, verification, norm, support)


def _exact_proof(question: Question) -> _Proof | None:
    """The same in rationals and balls, where the keys are few enough for that."""
    for made in exact_answers.ceilings(question):
        verification = recheck(made, question.keys, strict=True, top=question.top)
        if verification.holds and (made.query is None or attempt(partial(floats, made.query)) is not None):
            numbers = verification.numbers
            stated = replace(made, ceiling=numbers["ceiling"], reached=numbers["reached"])
            norm = None if made.query is None else norm_above(floats(made.query))
            return _Proof(stated, verification, norm, ())
    return None

"""From a question to a certified answer: the float solvers first, the separate check, exact arithmetic where it fails.

Nothing leaves here that `verification` has not confirmed. Float64 answers nearly everything; what it cannot decide
(demands of 1e-12, keys that miss a face by a rounding error, suprema that are not attained) goes to `exact_answers`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from regard.array_types import Float
from regard.design import exact_answers, hull, minimax
from regard.design.answer import Design, drawable_keys
from regard.design.certificate import Balance, Certificate, Statement, Verb, floats
from regard.design.certificate_problem import demand_sharpness
from regard.design.evaluate import norm_above, norms_above
from regard.design.minimax import shortest_even
from regard.design.obstruction import unreachable_proofs
from regard.design.question import Geometry, Question, Rows, UncopiedGeometry, geometry, uncopied_geometry
from regard.design.shortest import ShiftedKeys, shortest
from regard.design.stated_result import attention, attention_weights
from regard.design.textbook import ClosedForms, Textbook
from regard.design.verification import Verification, recheck, recheck_together
from regard.errors import CouldNotFindOut
from regard.rigor import TINY, U, choose_basis, margins
from regard.written_numbers import at_most, in_full

GAP = 1e-9  # relative for norms, nats for budgets: what a result must be certified to
SOLVER_GAP = 2e-10  # what the solver aims at, so that the rounding of the check fits in between
ROUGH = 1e-3  # the gap of a search that was given up: the check would only take long to refuse it
HAIRS = (1e-12, 1e-11, 1e-10)  # by how much the solver's query is lengthened before the quick check
CHECK_BLUR = 4e-14  # nats: about what the quick check cannot tell apart, for each nat that a query works against
NUDGES = (4e-16, 4e-15, 1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 4e-10, 9e-10)  # outwards from the norm that is necessary
MANY = 20_000  # keys beyond which the strict check would take longer than the search
RUNNING_OFF: Any = {"over": "ignore", "invalid": "ignore", "divide": "ignore"}  # a solver that does is not believed
CHECK_ROUNDING = 4e-15  # the check rounds norms up by a few units in the last place

Place = Geometry | UncopiedGeometry
Found = TypeVar("Found")
Tried = tuple[Certificate, Verification]
Solution = tuple[Float, float, Balance]  # a query, its norm (infinite if none was found that is feasible), and the dual


def solve(question: Question) -> Design:
    """The answer to a demand or a budget, certified; CouldNotFindOut where neither side could be."""
    with np.errstate(**RUNNING_OFF):  # what is no number is not believed
        tried = _strongest(question) if question.max_norm is not None else _meet_demand(question)
        tried = tried or _solve_exactly(question) or attempt(lambda: _decide_by_hull(question))
    if tried is None:
        raise CouldNotFindOut(_refusal(question))
    return design_result(question, *tried)


def attempt(solver: Callable[[], Found]) -> Found | None:
    """What a solver in floats finds; nothing where it leaves their range or meets a singular matrix."""
    with np.errstate(**RUNNING_OFF), contextlib.suppress(ArithmeticError, ValueError):
        return solver()
    return None


def _meet_demand(question: Question) -> Tried | None:
    nothing = np.zeros(question.keys.shape[1])
    if question.value_at_zero() <= question.limit() + 1e-12:  # the check decides, exactly
        uniform = np.ones(len(question.competing)) if len(question.competing) else np.zeros(0)
        tried = _shortest(question, nothing, Balance(weights=uniform, mixture=np.ones(len(question.chosen))))
        if tried is not None:
            return tried
    lying = uncopied_geometry(question)
    tried = None if lying is None else _search_points(question, lying)
    if tried is not None:
        return tried
    place = geometry(question)
    if place.unit == 0:
        return _find_unreachable(question, place)
    # a search among the keys where they lie fails nearly always because no query does it; else few keys are dwarfed by
    # others: learnt curvature is too coarse there, and the whole Hessian is dear
    return (
        (_search_points(question, place) if lying is None else None)
        or _find_unreachable(question, place)
        or (None if lying is None else _search_points(question, place))
        or (None if lying is None else _search_points(question, lying, patient=True))
        or _search_points(question, place, patient=True)
    )


def _search_points(question: Question, place: Place, *, patient: bool = False) -> Tried | None:
    """What a solver finds among these points, if the check confirms it."""
    for solution, upper, dual in _solutions(question, place, patient=patient):
        query = place.query(solution, question.scale)
        if math.isfinite(upper) and np.isfinite(query).all() and np.isfinite(np.asarray(dual.weights)).all():
            tried = _shortest(question, query, dual)
            if tried is not None:
                return tried
    return None


def _solutions(question: Question, place: Place, *, patient: bool) -> Iterator[Solution]:
    """What the quickest solvers find."""
    points, anchors = place.points, place.anchors
    if len(anchors) == 1 or isinstance(points, ShiftedKeys):
        # a single anchor is the origin
        single = attempt(lambda: shortest(points, question.limit(), gap=SOLVER_GAP, patient=patient))
        if single is not None and (patient or single.gap < ROUGH):
            yield single.query, single.upper, Balance(weights=single.weights, mixture=np.ones(len(question.chosen)))
        if not patient:
            return
    elif not patient:
        places = np.searchsorted(question.rows, question.chosen)
        even = attempt(lambda: shortest_even(points, places, question.eps or 0.0))
        if even is not None:
            yield even.query, even.upper, Balance(weights=even.weights, mixture=even.mixture)
    yield from _newton_solutions(question, place, patient=patient)


def _newton_solutions(question: Question, place: Place, *, patient: bool) -> Iterator[Solution]:
    """What the whole Hessian finds; it reads the points as often as they have dimensions."""
    points, anchors, limits = place.points, place.anchors, np.full(len(place.anchors), question.limit())
    if isinstance(points, ShiftedKeys):
        return
    found = attempt(lambda: minimax.shortest_minimax(points, anchors, limits, gap=SOLVER_GAP, patient=patient))
    if found is not None:
        yield found.query, found.upper, Balance(weights=found.weights, mixture=found.mixture)


def certify_shortest(question: Question, query: Float, dual: Balance) -> Design | None:
    """The answer with its certificate, if the separate check confirms that this is the shortest query."""
    tried = _shortest(question, query, dual)
    return None if tried is None else design_result(question, *tried)


def certify_together(
    questions: Sequence[Question], queries: Sequence[Float], duals: Sequence[Balance]
) -> list[Design | None]:
    """`certify_shortest` of several copies on the same keys, all allowed; None where one look is not enough."""
    longer = np.stack(queries) * (1 + _lengthenings(questions[0])[0])  # copies are equally sharp demands
    made = [
        question.certificate(Statement.SHORTEST, query=query, dual=dual, norm=norm, gap=GAP)
        for question, query, dual, norm in zip(questions, longer, duals, norms_above(longer), strict=True)
    ]
    checked = recheck_together(made, questions[0].keys, top=questions[0].top)
    return [
        design_result(question, *_state_bounds(certificate, verification)) if verification.holds else None
        for question, certificate, verification in zip(questions, made, checked, strict=True)
    ]


def _shortest(question: Question, query: Float, dual: Balance) -> Tried | None:
    """A certificate that the check confirms, or None.

    First the query as it is, a hair longer, in the quick arithmetic. The solver knows the direction better than the
    length: where that does not do, the query is set to the norm that the dual weights prove necessary, and lengthened
    from there until the careful check is satisfied.
    """
    if question.verb is Verb.MATCH:
        dual = replace(dual, mixture=np.zeros(0))
    tried = _certify_quickly(question, query, dual) or _certify_carefully(question, query, dual)
    return None if tried is None else _state_bounds(*tried)


def _state_bounds(made: Certificate, verification: Verification) -> Tried:
    """The certificate of a shortest query with what the check proved."""
    numbers = verification.numbers
    gap = max(numbers["gap"], 0.0) * (1 + 1e-12)
    return replace(made, lower_bound=numbers["lower_bound"], gap=gap), verification


def _certify_quickly(question: Question, query: Float, dual: Balance) -> Tried | None:
    for hair in _lengthenings(question):
        made = _shortest_certificate(question, query * (1 + hair), dual)
        verification = recheck(made, question.keys, strict=False, quick=True, top=question.top)
        if verification.holds:
            return made, verification
        if verification.numbers["gap"] > GAP:  # too long, or the bound too weak: lengthening helps neither
            return None
    return None


def _lengthenings(question: Question) -> tuple[float, ...]:
    """The lengthenings that the check can see: sharing and matching gain only a part of what copying gains by each."""
    part = demand_sharpness(question.request())
    return tuple(hair for hair in HAIRS if hair * part >= CHECK_BLUR) or HAIRS[-1:]


def _certify_carefully(question: Question, query: Float, dual: Balance) -> Tried | None:
    made = _shortest_certificate(question, query * (1 + HAIRS[0]), dual)
    verification = confirm(made, question)
    necessary = verification.numbers["lower_bound"]
    for nudge in NUDGES if query.any() and necessary > 0 else ():
        if verification.holds:
            break
        size = math.hypot(*query.tolist())  # np.linalg.norm squares, and squares of a very short query vanish
        made = _shortest_certificate(question, query * (necessary / size * (1 + nudge)), dual)
        verification = confirm(made, question)
    return (made, verification) if verification.holds else None


def _shortest_certificate(question: Question, query: Float, dual: Balance) -> Certificate:
    return question.certificate(Statement.SHORTEST, query=query, dual=dual, norm=norm_above(query), gap=GAP)


def _strongest(question: Question) -> Tried | None:
    """The most that a query of norm max_norm can do."""
    place = geometry(question)
    radius = question.max_norm or 0.0
    if place.unit == 0 or not len(place.points):
        query, weights = np.zeros(question.keys.shape[1]), np.ones(len(place.points))
        mixture = np.ones(len(question.chosen))
    else:
        within = place.radius(radius, question.scale)
        limits = np.zeros(len(place.anchors))
        solution = attempt(lambda: minimax.strongest(place.points, place.anchors, limits, within, gap=SOLVER_GAP))
        if solution is None:
            return None
        query, weights, mixture = place.query(solution.query, question.scale), solution.weights, solution.mixture
    if not np.isfinite(query).all() or not np.isfinite(weights).all():
        return None
    norm = math.hypot(*query.tolist())
    if norm * (1 + CHECK_ROUNDING) > radius:
        query = query * (radius / norm * (1 - CHECK_ROUNDING))
    dual = Balance(weights=weights, mixture=np.zeros(0) if question.verb is Verb.MATCH else mixture)
    return _state_budget_bounds(question, question.certificate(Statement.STRONGEST, query=query, dual=dual, gap=GAP))


def _state_budget_bounds(question: Question, made: Certificate) -> Tried | None:
    verification = confirm(made, question)
    if not verification.holds:
        return None
    numbers = verification.numbers
    gap = max(numbers["gap"], 0.0) * (1 + 1e-12)
    if question.verb is not Verb.MATCH:  # what lies between the figures is a little more: each is rounded outwards
        gap += 16 * U * max(1.0, -math.log(max(numbers["reached"], TINY)))
    gap = min(gap, GAP)
    return replace(made, reached=numbers["reached"], bound=numbers["bound"], gap=gap), verification


def _find_unreachable(question: Question, place: Geometry) -> Tried | None:
    """The proof that no query meets the demand, if there is one that the check confirms."""
    proofs = (_prove_unreachable(question, proof) for proof in unreachable_proofs(question, place))
    return attempt(lambda: next((tried for tried in proofs if tried is not None), None))


def _prove_unreachable(question: Question, proof: Balance | None) -> Tried | None:
    made = question.certificate(Statement.UNREACHABLE, combination=proof)
    verification = confirm(made, question)
    return (replace(made, bound=verification.numbers["bound"]), verification) if verification.holds else None


def _decide_by_hull(question: Question) -> Tried | None:
    """For copying, what exact arithmetic decides among any keys: do few others combine to the key, or does it win?

    Few others bound the attention less tightly than the combination of largest entropy: often that is enough. A key
    that wins has a query, though not one that is proved the shortest: CouldNotFindOut says what is known of it.
    """
    others = question.competing[~question.copies]
    if question.verb is not Verb.COPY or question.eps is None or not len(others):
        return None
    key = question.keys[question.chosen[0]]
    member = hull.decide(np.concatenate([question.keys[others], key[None]]), len(others))
    if member.support is None or member.weights is None:
        if member.query is not None and not question.copies.any():
            raise CouldNotFindOut(_corner_message(question, others, member.query))
        return None
    few = others[member.support]
    weights = np.zeros(len(question.competing))
    weights[np.searchsorted(question.competing, few)] = member.weights
    basis = member.support[choose_basis(question.keys[few], key, member.weights)]
    return _prove_unreachable(question, Balance(weights=weights, mixture=np.ones(1), basis=tuple(basis.tolist())))


def _corner_message(question: Question, others: Rows, direction: Float) -> str:
    """What is certain of a key that wins along a direction: how long a query along it meets the demand."""
    key, eps = question.chosen[0], question.eps or 0.0
    unit = direction / np.abs(direction).max()
    lead, rad = margins(question.keys[others], question.keys[key], unit)
    # n others, each behind by at least the smallest lead: n e^{-length lead} <= eps
    length = (math.log(len(others)) - math.log(eps)) / float((lead - rad).min()) * (1 + 1e-9) / question.scale
    makes = f"Key {key} is a corner of the hull, so that some query meets the demand"
    if not 0 < length < math.inf:
        return f"{makes}; along the direction that wins it is too long for float64: multiply the keys or the scale."
    uniform = Balance(weights=np.ones(len(question.competing)), mixture=np.ones(1))
    verification = confirm(_shortest_certificate(question, unit * length, uniform), question)
    found = f": one of norm {at_most(verification.numbers['norm'])} does" if verification.statements[0][1] else ""
    return f"{makes}{found}; which is the shortest could not be certified to {GAP:g}. Ask for a larger eps."


def _solve_exactly(question: Question) -> Tried | None:
    """The first of the exact answers that the check confirms, stated with what the check makes of it."""
    for made in exact_answers.answers(question):
        if made.claim is Statement.STRONGEST:
            tried = _state_budget_bounds(question, made)
            if tried is not None:
                return tried
            continue
        verification = recheck(made, question.keys, strict=True, top=question.top)
        if not verification.holds:
            continue
        if made.claim is Statement.UNREACHABLE:
            return replace(made, bound=verification.numbers["bound"]), verification
        return _state_bounds(made, verification)
    return None


def _refusal(question: Question) -> str:
    why = f"and {exact_answers.BITS[-1]:,} binary digits were not enough either"
    if exact_answers.price(question) > exact_answers.LARGEST:
        why = f"and the {len(question.keys)} keys are too many for exact arithmetic"
    if question.max_norm is not None:
        return (
            f"The most that a query of norm {in_full(question.max_norm)} can do could not be pinned down to "
            f"{in_full(GAP)} nats in float64, {why}; try a smaller max_norm."
        )
    return (
        "Neither a query that meets the demand nor a proof that none exists could be certified in float64, "
        f"{why}; ask for a norm budget (max_norm) or a larger eps or kl."
    )


def confirm(made: Certificate, question: Question) -> Verification:
    """The separate check: the quick arithmetic, and where that does not confirm it and it is affordable, the strict."""
    keys, top = question.keys, question.top
    quick = recheck(made, keys, strict=False, top=top)
    sharp = TINY * question.scale < CHECK_BLUR  # else what underflows in a product shows in a score
    return quick if (quick.holds and sharp) or len(keys) > MANY else recheck(made, keys, strict=True, top=top)


def design_result(question: Question, made: Certificate, verification: Verification) -> Design:
    """The result that a confirmed certificate stands for."""
    query = None if made.query is None else floats(made.query)
    weights = None if query is None else attention_weights(made, question.keys, question.top, verification.plain_scores)
    norm = made.norm if made.norm is not None else verification.numbers.get("norm")
    return Design(
        verb=question.verb.value,
        chosen=question.chosen,
        reachable=query is not None,
        eps=question.eps,
        kl=question.kl,
        max_norm=question.max_norm,
        query=query,
        weights=weights,
        norm=norm,
        lower_bound=made.lower_bound,
        gap=made.gap,
        attention=None if weights is None else attention(made, question.keys, weights),
        bound=made.bound,
        textbook=_textbook(question, query),
        certificate=made,
        verification=replace(verification, _scores=None),  # they have served, and are as many as keys
        _keys=drawable_keys(question.keys),
    )


def _textbook(question: Question, query: Float | None) -> Textbook | None:
    if question.eps is None or question.scale != 1 or query is None or not query.any():
        return None
    places = np.searchsorted(question.rows, question.chosen).tolist()
    forms = question.forms or closed_forms(question.keys, question.rows, places)
    return forms.query(places, question.eps)


def closed_forms(keys: Float, rows: Rows, places: Sequence[int]) -> ClosedForms:
    """The closed forms of the allowed keys; places: of the chosen keys among them."""
    return ClosedForms(keys if len(rows) == len(keys) else keys[rows], places)

"""The figures that stand around a certificate in a --json file, held against the certificate.

What a reader copies from such a file is the query, the norm or the attention at its top, not the certificate further
down. So each of these must be the certificate's own, or follow from it; what is not checked is named as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import rigor
from regard.array_types import Float
from regard.design.certificate import Certificate, Numbers, Statement, Verb, floats, rationals
from regard.design.certificate_problem import (
    AFFORDABLE,
    CertificateProblem,
    ExactLevel,
    allowed_rows,
    scores_of,
)
from regard.design.evaluate import above, norm_above
from regard.written_numbers import is_finite_number

LONG = 1e4  # scores beyond this have lost digits that their weights need
LOST = 1e-9  # divergences below this have lost their digits in float64
STATED = 1e-11  # how close, relatively, a figure must be to the certificate's, from which it differs by roundings
FELT = 1e-9  # and weights and attention to those that are computed anew: they feel the rounding of long scores


def check_stated(
    outer: Mapping[str, Any], certificate: Certificate, keys: Float, proved: Mapping[str, float]
) -> tuple[list[tuple[str, bool]], tuple[str, ...]]:
    """Statements about the fields of a whole result, and the names of those that were not checked."""
    checks = _checks(certificate, keys, proved)
    checks["norm"] = _all(checks["norm"], _within(certificate.question.max_norm))
    if certificate.question.verb is not Verb.MATCH:
        for name in {"attention", "bound", "ceiling", "reached"} & set(checks):
            checks[name] = _all(checks[name], _within(1.0))  # no attention is above 1, however it is rounded
        if "attention" in checks:
            checks["attention"] = _all(checks["attention"], _least_of(outer.get("weights"), certificate.question.keys))
    known = {name: check for name, check in checks.items() if name in outer}
    wrong = [name for name, check in known.items() if not _holds(check, outer[name])]
    possible = (
        _plausibility_checks(outer, certificate, proved["ceiling"]) if certificate.claim is Statement.CEILING else {}
    )
    cannot = [name for name, check in possible.items() if name in outer and not _holds(check, outer[name])]
    unchecked = tuple(sorted(str(name)[:40] for name in outer if name not in known and name != "certificate"))
    false = [(f"the file states its own {name}, which is not the certificate's", False) for name in wrong]
    false += [(f"the file states a {name} that cannot be, beside its certificate", False) for name in cannot]
    if false or not known:
        return false, unchecked
    return [(f"the file's own figures are the certificate's: {', '.join(known)}", True)], unchecked


def _plausibility_checks(
    outer: Mapping[str, Any], certificate: Certificate, ceiling: float
) -> dict[str, Callable[[Any], bool]]:
    """What stands beside a ceiling and has no proof in the file: whether it can be, which is not that it is so."""
    others, norm = set(allowed_rows(certificate).tolist()) - set(certificate.question.keys), outer.get("budget_norm")
    most = min(ceiling * (1 + 2e-9), 1.0)  # a bound within a budget is proved to 1e-9 nats
    return {
        "budget_norm": lambda value: value is None or (is_finite_number(value) and value > 0),
        "budget_ceiling": lambda value: (
            value is norm if value is None or norm is None else is_finite_number(value) and 0 <= value <= most
        ),
        "support": lambda value: (
            type(value) is list and {type(i) for i in value} <= {int} and others.issuperset(value)
            and len(set(value)) == len(value)
        ),
    }  # fmt: skip


def _holds(check: Callable[[Any], bool], value: Any) -> bool:
    try:
        return bool(check(value))
    except (TypeError, ValueError, OverflowError, LookupError):  # text, a list or nothing where a number should be
        return False


def _checks(certificate: Certificate, keys: Float, proved: Mapping[str, float]) -> dict[str, Callable[[Any], bool]]:
    question, claim = certificate.question, certificate.claim
    query = None if certificate.query is None else floats(certificate.query)
    norm = proved.get("norm", None if query is None else norm_above(query))
    checks = {
        "query": _same(None if query is None else query.tolist()),
        "norm": _figure(certificate.norm, None if query is None else norm),
    }
    if claim is Statement.CEILING and question.keys:
        same = int((keys == keys[question.keys[0]]).all(axis=1)[allowed_rows(certificate)].sum()) - 1
        return checks | {
            "key": _same(question.keys[0]),
            "copies": _same(same),
            "inside": _same(certificate.combination is not None or same > 0),
            "ceiling": _figure(certificate.ceiling, proved["ceiling"]),
            "reached": _figure(certificate.reached, proved["reached"]),
        }
    weights = None if certificate.query is None else attention_weights(certificate, keys)
    reached = None if weights is None else attention(certificate, keys, weights)
    return checks | {
        "verb": _same(question.verb.value),
        "chosen": _same(list(question.keys)),
        "eps": _same(question.eps),
        "kl": _same(question.kl),
        "max_norm": _same(question.max_norm),
        "reachable": _same(claim is not Statement.UNREACHABLE),
        "weights": _shares(weights, allowed_rows(certificate)),
        "attention": _near(reached, FELT if reached is None else _attention_tolerance(reached, certificate, keys)),
        "lower_bound": _figure(certificate.lower_bound, proved.get("lower_bound")),
        "bound": _figure(certificate.bound, proved.get("bound")),
        "gap": _near(certificate.gap, STATED),
    }


def _all(*checks: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: all(check(value) for check in checks)


def _within(most: float | None) -> Callable[[Any], bool]:
    return lambda value: value is None or most is None or value <= most


def _least_of(weights: Any, chosen: tuple[int, ...]) -> Callable[[Any], bool]:
    """The least of the weights that stand beside it, digit for digit, where there are any."""
    return lambda value: weights is None or _equal(value, min(weights[key] for key in chosen))


def _attention_tolerance(reached: float, certificate: Certificate, keys: Float) -> float:
    """How near, relatively: of many keys a small divergence is not known exactly, and feels scores by its root."""
    rounded = certificate.question.verb is Verb.MATCH and keys.size > AFFORDABLE and reached > 0
    return max(FELT, 1e-14 / math.sqrt(reached)) if rounded else FELT


def _same(expected: Any) -> Callable[[Any], bool]:
    return lambda value: _equal(value, expected)


def _equal(value: Any, expected: Any) -> bool:
    """Equal, and true is no 1: a writer of JSON may have turned 1.0 into 1, but no number into something else."""
    if isinstance(value, list) and isinstance(expected, list):
        return len(value) == len(expected) and all(map(_equal, value, expected))
    numbers = _is_number(value) and _is_number(expected)
    return (numbers or type(value) is type(expected)) and bool(value == expected)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _figure(stated: float | None, proved: float | None) -> Callable[[Any], bool]:
    """The certificate's own figure; where it states none, the one that was proved."""
    return _near(proved, STATED) if stated is None else _same(stated)


def _near(expected: float | None, room: float) -> Callable[[Any], bool]:
    """Relatively, so that nothing passes for zero and zero for nothing else, and no sign is lost."""
    if expected is None:
        return lambda value: value is None
    return lambda value: _is_number(value) and abs(value - expected) <= room * abs(expected)


def _shares(expected: Float | None, rows: NDArray[np.intp]) -> Callable[[Any], bool]:
    """One weight per key, each near its own; what is forbidden has none, and what float64 holds no digits of little."""
    if expected is None:
        return lambda value: value is None
    room = np.zeros(len(expected))
    room[rows] = np.maximum(FELT * expected[rows], np.finfo(np.float64).tiny)

    def holds(value: Any) -> bool:
        if not isinstance(value, list) or len(value) != len(expected) or not all(map(_is_number, value)):
            return False
        given = np.array(value, dtype=np.float64)
        return bool((given >= 0).all() and (given <= 1).all() and (np.abs(given - expected) <= room).all())

    return holds


def attention_weights(
    certificate: Certificate, keys: Float, top: float | None = None, plain: Float | None = None
) -> Float:
    """The attention of all keys under the certificate's query (n numbers); forbidden keys get 0.

    In 32 digits or more where scores are long: in float64 they have lost the digits that weights are made of.
    top: the largest absolute value among the keys, plain: their products with the query (n numbers), from a caller that
    has them.
    """
    # None: all keys as they lie, since picking them would be a copy
    rows = None if certificate.allowed is None else allowed_rows(certificate)
    query: Numbers = () if certificate.query is None else certificate.query
    scores = np.full(1, np.nan)
    if not isinstance(query, tuple):
        top = rigor.largest(keys) if top is None else top
        with np.errstate(over="ignore", invalid="ignore"):
            scores = certificate.scale * _scores(keys, rows, np.asarray(query), certificate.scale, top, plain)
    if not np.isfinite(scores).all():  # rationals, or beyond the range of floats
        scores = scores_of(keys if rows is None else keys[rows], rationals(query), certificate.scale)
    odds: Float = np.exp(scores - scores.max())
    odds /= odds.sum()
    if rows is None:
        return odds
    weights = np.zeros(len(keys))
    weights[rows] = odds
    return weights


def _scores(
    keys: Float, rows: NDArray[np.intp] | None, query: Float, scale: float, top: float, plain: Float | None
) -> Float:
    """k_i.q for the rows, up to a constant: plain, from differences of keys, or in 32 digits."""
    longest = float(np.abs(query).max()) * scale * keys.shape[1]  # score, of keys of size 1
    if top * longest < LONG:
        scores = keys @ query if plain is None else plain
        return np.asarray(scores if rows is None else scores[rows])
    rows = np.arange(len(keys)) if rows is None else rows
    leads, apart = _leads(keys, rows, query)
    if (long := ~(apart * longest < LONG)).any():  # often few keys alone are so far away
        leads[long] = -rigor.margins(keys[rows[long]], keys[rows[0]], query)[0]
    return leads


def _leads(keys: Float, rows: NDArray[np.intp], query: Float) -> tuple[Float, Float]:
    """(k_i - k_0).q for the rows, and the largest number in each difference; in blocks, so that no copy is made."""
    leads, apart = np.empty(len(rows)), np.empty(len(rows))
    for some, block in rigor.row_blocks(keys, rows):
        differences = block - keys[rows[0]]
        leads[some], apart[some] = differences @ query, np.abs(differences, out=differences).max(axis=1)
    return leads, apart


def attention(certificate: Certificate, keys: Float, weights: Float) -> float:
    """What the question measures: the key's weight, the least of the shared ones, or the divergence."""
    question = certificate.question
    if question.verb is not Verb.MATCH or question.target is None:
        return float(weights[list(question.keys)].min())
    p = question.target / question.target.sum()
    here = p > 0
    divergence = float(_excess(p[here], weights[here]).sum() + weights[~here].sum())
    if divergence < LOST and keys.size <= AFFORDABLE and certificate.query is not None:
        divergence = above(ExactLevel(CertificateProblem(certificate, keys, strict=True)).value(certificate.query))
    return max(divergence, 0.0)  # never negative but for rounding


def _excess(p: Float, weights: Float) -> Float:
    """p ln(p/w) + w - p, of which nothing is negative: with w = p (1 + t) it is p (t - ln(1 + t)).

    A divergence is their sum and what keys without a share get. So no digits cancel, however small it is.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # of what is not chosen
        t = weights / p - 1
        series = t * t * (1 / 2 - t * (1 / 3 - t * (1 / 4 - t * (1 / 5 - t / 6))))
        near = p * np.where(np.abs(t) < 1e-3, series, t - np.log1p(t))
        far = weights - p - p * (np.log(np.maximum(weights, 1e-300)) - np.log(p))
    return np.where(np.abs(t) < 0.9, near, far)

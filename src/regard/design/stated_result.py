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
from regard.design.certificate import Certificate, Claim, Numbers, Verb, floats, rationals
from regard.design.evaluate import above, norm_above
from regard.design.exact_level import AFFORDABLE, ExactLevel, scores_of
from regard.design.problem import Problem

LONG = 1e4  # scores beyond this have lost digits that their weights need
LOST = 1e-9  # divergences below this have lost their digits in float64
NEAR = 1e-9  # how close a figure must be that the certificate does not state itself


def check_stated(
    outer: Mapping[str, Any], certificate: Certificate, keys: Float, proved: Mapping[str, float]
) -> tuple[list[tuple[str, bool]], tuple[str, ...]]:
    """Statements about the fields of a whole result, and the names of those that were not checked."""
    checks = _checks(certificate, keys, proved)
    known = {name: check for name, check in checks.items() if name in outer}
    wrong = [name for name, check in known.items() if not _holds(check, outer[name])]
    unchecked = tuple(sorted(str(name)[:40] for name in outer if name not in known and name != "certificate"))
    if not known:
        return [], unchecked
    if wrong:
        return [(f"the file states its own {name}, which is not the certificate's", False) for name in wrong], unchecked
    return [(f"the file's own figures are the certificate's: {', '.join(known)}", True)], unchecked


def _holds(check: Callable[[Any], bool], value: Any) -> bool:
    try:
        return bool(check(value))
    except (TypeError, ValueError, OverflowError):  # text, a list or nothing where a number should be
        return False


def _checks(certificate: Certificate, keys: Float, proved: Mapping[str, float]) -> dict[str, Callable[[Any], bool]]:
    question, claim = certificate.question, certificate.claim
    query = None if certificate.query is None else floats(certificate.query)
    norm = certificate.norm if certificate.norm is not None else proved.get("norm")
    if norm is None and query is not None:
        norm = norm_above(query)
    checks = {
        "query": _same(None if query is None else query.tolist()),
        "norm": _near(norm if query is not None else None),
    }
    if claim is Claim.CEILING:
        same = int((keys == keys[question.keys[0]]).all(axis=1)[_rows(certificate)].sum()) - 1
        return checks | {
            "key": _same(question.keys[0]),
            "copies": _same(same),
            "inside": _same(certificate.combination is not None or same > 0),
            "ceiling": _near(proved["ceiling"]),
            "reached": _near(proved["reached"]),
        }
    weights = None if certificate.query is None else attention_weights(certificate, keys)
    return checks | {
        "verb": _same(question.verb.value),
        "chosen": _same(list(question.keys)),
        "eps": _same(question.eps),
        "kl": _same(question.kl),
        "max_norm": _same(question.max_norm),
        "reachable": _same(claim is not Claim.UNREACHABLE),
        "weights": _all_near(weights),
        "attention": _near(None if weights is None else attention(certificate, keys, weights)),
        "lower_bound": _near(proved.get("lower_bound")),
        "bound": _near(proved.get("bound")),
        "gap": _near(None if claim is Claim.UNREACHABLE else max(proved["gap"], 0.0)),
    }


def _same(expected: Any) -> Callable[[Any], bool]:
    return lambda value: type(value) is type(expected) and value == expected


def _near(expected: float | None) -> Callable[[Any], bool]:
    if expected is None:
        return lambda value: value is None
    return lambda value: (
        not isinstance(value, bool) and abs(value - expected) <= NEAR * (1 + abs(expected)) and math.isfinite(value)
    )


def _all_near(expected: Float | None) -> Callable[[Any], bool]:
    if expected is None:
        return lambda value: value is None
    return lambda value: (
        isinstance(value, list)
        and all(isinstance(x, (int, float)) for x in value)
        and len(value) == len(expected)
        and bool((np.abs(np.array(value, dtype=np.float64) - expected) <= NEAR).all())
    )


def _rows(certificate: Certificate) -> NDArray[np.intp]:
    count = certificate.shape[0]
    return np.arange(count) if certificate.allowed is None else np.array(certificate.allowed, dtype=np.intp)


def attention_weights(
    certificate: Certificate, keys: Float, top: float | None = None, plain: Float | None = None
) -> Float:
    """The attention of all keys under the certificate's query (n numbers); forbidden keys get 0.

    In 32 digits or more where scores are long: in float64 they have lost the digits that weights are made of.
    top: the largest absolute value among the keys, plain: their products with the query (n numbers), from a caller that
    has them.
    """
    rows = _rows(certificate)
    query: Numbers = () if certificate.query is None else certificate.query
    scores = np.full(len(rows), np.nan)
    if not isinstance(query, tuple):
        top = rigor.largest(keys) if top is None else top
        with np.errstate(over="ignore", invalid="ignore"):
            scores = certificate.scale * _scores(keys, rows, np.asarray(query), certificate.scale, top, plain)
    if not np.isfinite(scores).all():  # rationals, or beyond the range of floats
        scores = scores_of(keys[rows], rationals(query), certificate.scale)
    weights = np.zeros(len(keys))
    odds = np.exp(scores - scores.max())
    weights[rows] = odds / odds.sum()
    return weights


def _scores(keys: Float, rows: NDArray[np.intp], query: Float, scale: float, top: float, plain: Float | None) -> Float:
    """k_i.q for the rows, up to a constant: plain, from differences of keys, or in 32 digits."""
    longest = float(np.abs(query).max()) * scale * keys.shape[1]  # score, of keys of size 1
    if top * longest < LONG:
        return np.asarray((keys @ query if plain is None else plain)[rows])
    leads, apart = _leads(keys, rows, query)
    return leads if apart * longest < LONG else -rigor.margins(keys[rows], keys[rows[0]], query)[0]


def _leads(keys: Float, rows: NDArray[np.intp], query: Float) -> tuple[Float, float]:
    """(k_i - k_0).q for the rows, and the largest number in a difference; in blocks, so that no copy is made of all."""
    leads, apart = np.empty(len(rows)), 0.0
    for some, block in rigor.row_blocks(keys, rows):
        differences = block - keys[rows[0]]
        leads[some], apart = differences @ query, max(apart, rigor.largest(differences))
    return leads, apart


def attention(certificate: Certificate, keys: Float, weights: Float) -> float:
    """What the question measures: the key's weight, the least of the shared ones, or the divergence."""
    question = certificate.question
    if question.verb is not Verb.MATCH or question.target is None:
        return float(weights[list(question.keys)].min())
    p = question.target / question.target.sum()
    here = p > 0
    divergence = float(p[here] @ (np.log(p[here]) - np.log(np.maximum(weights[here], 1e-300))))
    if divergence < LOST and keys.size <= AFFORDABLE and certificate.query is not None:
        divergence = above(ExactLevel(Problem(certificate, keys, strict=True)).value(certificate.query))
    return max(divergence, 0.0)  # never negative but for rounding

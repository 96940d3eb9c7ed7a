"""Finding the combination behind a "never": weights over the competing keys that balance the anchors exactly.

Floating point only: `certificate` proves that exact weights exist next to the ones found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.design import minimax
from regard.design.question import Geometry, Question

Array = NDArray[np.float64]

REACH = 1e8  # how far out, in units of the keys' size, the far end of the path is taken to be
POOL = 1_000_000  # numbers among which a basis is looked for: the heaviest keys alone may all lie on one line
THRESHOLDS = (0.0, 1e-13, 1e-10, 1e-7)  # weights below these times the largest are tried as exact zeros


def unreachable_proofs(question: Question, place: Geometry) -> Iterator[dict[str, Any]]:
    """What might prove that no query meets the demand, most likely first, as fields of a certificate."""
    if (
        question.verb == "copy"
        and (question.keys[question.competing] == question.keys[question.chosen[0]]).all(1).any()
    ):
        yield {}  # copies of the key may be enough
    if place.unit == 0:
        count = len(question.competing)
        yield {"combination": _combination(np.full(count, 1 / count), np.ones(len(question.chosen)), np.array([0]))}
        return
    found = minimax.strongest(place.points, place.anchors, np.zeros(len(place.anchors)), REACH, gap=1e-9)
    mixture = found.mixture if question.verb != "match" else np.zeros(0)
    for combination in combinations(place, found.weights, found.mixture, mixture):
        if _entropy(np.array(combination["weights"])) > question.limit():
            yield {"combination": combination}


def combinations(place: Geometry, weights: Array, mixture: Array, stated: Array) -> list[dict[str, Any]]:
    """Candidate combinations: tiny weights taken as zero or not, each balanced and with a basis to solve for."""
    candidates = []
    for threshold in THRESHOLDS:
        kept = np.where(weights > threshold * weights.max(), weights, 0.0)
        balanced = _balance(place.points, kept, mixture @ place.anchors)
        support = np.flatnonzero(balanced > 0)
        basis = support[_basis(place.points[support], balanced[support])]
        candidates.append(_combination(balanced, stated, basis))
    return candidates


def _balance(points: Array, weights: Array, target: Array) -> Array:
    """Weights near the given ones, on their support, with sum 1 and sum w p = t to rounding: w (1 + (p - t).y + c)."""
    support = np.flatnonzero(weights > 0)
    kept = weights[support] / weights[support].sum()
    columns = np.concatenate([points[support] - target, np.ones((len(support), 1))], axis=1)
    for _ in range(3):
        miss = columns.T @ kept - np.append(np.zeros(points.shape[1]), 1.0)
        shift = np.linalg.lstsq(columns.T * np.sqrt(kept), miss, rcond=1e-14)[0] * np.sqrt(kept)
        trial = kept - shift
        if trial.min() <= 0:
            break
        kept = trial
    full = np.zeros(len(weights))
    full[support] = kept
    return full


def _basis(points: Array, weights: Array) -> NDArray[np.intp]:
    """Rows to solve for: heavy and well-conditioned together, by QR with pivoting on the columns w_i (p_i, 1)."""
    from scipy.linalg import qr

    size = points.shape[1] + 1
    pool = np.argsort(-weights, kind="stable")[: max(8 * size, POOL // size)]
    columns = (np.concatenate([points[pool], np.ones((len(pool), 1))], axis=1) * np.sqrt(weights[pool, None])).T
    _, triangle, order = qr(columns, mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    rank = int((size > 1e-10 * size.max(initial=0)).sum())
    return np.sort(pool[order[:rank]])


def _combination(weights: Array, mixture: Array, basis: NDArray[np.intp]) -> dict[str, Any]:
    return {"weights": weights.tolist(), "mixture": mixture.tolist(), "basis": [int(i) for i in basis]}


def _entropy(weights: Array) -> float:
    positive = weights[weights > 0] / weights.sum()
    return float(-(positive @ np.log(positive)))

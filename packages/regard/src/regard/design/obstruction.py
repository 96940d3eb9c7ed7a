"""Finding the combination behind a "never": weights over the competing keys that balance the anchors exactly.

Floating point only: `combination_check` proves that exact weights exist next to the ones found here.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from regard.array_types import Float
from regard.design import minimax
from regard.design.certificate import Balance, Verb
from regard.design.question import Geometry, Question
from regard.design.shortest import entropy
from regard.rigor import choose_basis

REACH = 1e8  # how far out, in units of the keys' size, the far end of the path is taken to be
FAR_GAP = 1e-6  # nats, of which an imbalance of 1e-14 makes as much so far out; balancing the weights mends that
THRESHOLDS = (0.0, 1e-13, 1e-10, 1e-7)  # weights below these times the largest are tried as exact zeros


def unreachable_proofs(question: Question, place: Geometry) -> Iterator[Balance | None]:
    """What might prove that no query meets the demand, the strongest first; None: the copies of the key alone."""
    copies = question.copies
    if place.unit == 0:
        count = len(question.competing)
        mixture = np.zeros(0) if question.verb is Verb.MATCH else np.ones(len(question.chosen))
        yield Balance(weights=np.full(count, 1 / count), mixture=mixture, basis=(0,))
    elif not copies.all():
        for combination in _strongest_combinations(question, place, copies):
            weights = np.asarray(combination.weights)
            if entropy(weights) >= question.limit() - 1e-9 or copies.any():  # the check decides
                yield combination
    if copies.any():
        yield None


def _strongest_combinations(question: Question, place: Geometry, copies: NDArray[np.bool_]) -> Iterator[Balance]:
    """Combinations near the one of largest entropy; copies of the key are left out, since they are counted apart."""
    points = place.points[~copies]
    far = minimax.strongest(points, place.anchors, np.zeros(len(place.anchors)), REACH, gap=FAR_GAP)
    if not np.isfinite(far.weights).all():
        return
    mixture = np.zeros(0) if question.verb is Verb.MATCH else far.mixture
    for combination in combinations(points, place.anchors, far.weights, far.mixture):
        weights = np.zeros(len(copies))
        weights[~copies] = combination.weights
        yield Balance(weights=weights, mixture=mixture, basis=combination.basis)


def combinations(points: Float, anchors: Float, weights: Float, mixture: Float) -> Iterator[Balance]:
    """Candidate combinations: tiny weights taken as zero or not, each balanced and with a basis to solve for.

    Weights that are nearly equal are tried as equal ones first: these prove a whole number exactly.
    """
    before = -1
    for threshold in THRESHOLDS:
        kept = np.where(weights > threshold * weights.max(), weights, 0.0)
        if np.count_nonzero(kept) == before:  # the same ones as before
            continue
        before = int(np.count_nonzero(kept))
        balanced = _balance(points, kept, mixture @ anchors)
        support = np.flatnonzero(balanced > 0)
        basis = tuple(support[choose_basis(points[support], mixture @ anchors, balanced[support])].tolist())
        if np.ptp(balanced[support]) < 1e-6 * balanced.max():
            even = np.where(balanced > 0, 1.0, 0.0)
            yield Balance(weights=even, mixture=mixture, basis=basis)
        yield Balance(weights=balanced, mixture=mixture, basis=basis)


def _balance(points: Float, weights: Float, target: Float) -> Float:
    """Weights near the given ones, on their support, with sum 1 and sum w p = t to rounding: w (1 + (p - t).y + c)."""
    support = np.flatnonzero(weights > 0)
    kept = weights[support] / weights[support].sum()
    columns = np.concatenate([points[support] - target, np.ones((len(support), 1))], axis=1)
    # each weight changes in proportion to itself, so that small ones stay positive: w_i (c_i . y), C^T W C y = miss.
    # One factorisation serves all steps: the weights hardly change, and the next step mends what that left
    values, vectors = np.linalg.eigh((columns * kept[:, None]).T @ columns)
    inverse = np.where(values > 1e-13 * values[-1], 1 / np.maximum(values, 1e-300), 0.0)
    for step in range(6):
        miss = columns.T @ kept
        miss[-1] -= 1.0
        if step < 3:
            trial = kept - kept * (columns @ (vectors @ (inverse * (vectors.T @ miss))))
        elif np.abs(miss).max() <= 1e-14:
            break
        else:  # the keys nearly lie in a plane: without squaring their condition
            trial = kept - np.linalg.lstsq(columns.T * np.sqrt(kept), miss, rcond=1e-14)[0] * np.sqrt(kept)
        if trial.min() <= 0:
            break
        kept = trial
    full = np.zeros(len(weights))
    full[support] = kept
    return full

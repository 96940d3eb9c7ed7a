"""How far the lengths of a head's keys swing, and what that does to the head.

The coursework's one head: a query that shares its weight between two keys is thrown from one to the other as soon as
one key grows a little longer. Here the same is asked of a real head, in three ways:

    swing    sd / mean of ||k_j|| over the keys of this context
    evened   how far the weights move (total variation) if every key had the mean length: k_j -> k_j m / ||k_j||
    noise    of the row that shares most: if every length were to swing by that much again, k_j -> (1 + swing z_j) k_j
             with independent normal z_j, the standard deviation of its largest weight. Exact (integrals of
             :mod:`regard.noise`), beside draws through the head's own softmax.

All of this needs scores that are scale q.k and a mask and nothing else; :func:`plain_scores` finds out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.array_types import Flags, Float
from regard.attention import softmax
from regard.results import Result
from regard_models.head_measures.spread import mean_total_variation, normalise_rows

DRAWS = 4000
_NEAR = 2e-5, 2e-2  # recomputed weights may be off by rounding: at least, and at most (half precision) by so much


@dataclass(frozen=True, kw_only=True)
class SwingNoise(Result):
    """What a swing of the keys' lengths does to one row; ``measured`` by draws, with twice its standard error."""

    layer: int
    head: int
    query: int
    swing: float
    largest: float  # the largest weight as it is
    sd: float  # of that weight, exactly
    sd_accuracy: float
    measured_sd: float
    measured_sd_within: float
    mean: float  # of that weight, exactly
    measured_mean: float
    method: str


def scores_of(q: Float, k: Float, scale: float) -> Float:
    """scale q k^T of every head: (heads, queries, width) and (heads, keys, width)."""
    return np.asarray(scale * np.einsum("hqd,hkd->hqk", q, k, optimize=True), dtype=np.float64)


def plain_scores(
    q: Float, k: Float, scale: float, weights: Float, allowed: Flags, *, rounding: float = 0.0
) -> Float | None:
    """The scores, if their softmax over the allowed keys is what the head used; None if something else is in them.

    ``rounding``: what the kernel's arithmetic explains of a difference.
    """
    scores = scores_of(q, k, scale)
    again = masked_softmax(scores, allowed)
    near = min(max(rounding, _NEAR[0]), _NEAR[1])
    return scores if bool(np.abs(again - weights).max() <= near) else None


def masked_softmax(scores: Float, allowed: Flags) -> Float:
    """Softmax over the allowed keys; a row without any is zero."""
    some = allowed.any(axis=-1, keepdims=True)
    low = np.where(some, np.where(allowed, scores, -np.inf), 0.0)
    weights: Float = np.where(some, softmax(low), 0.0)
    return weights


def swing(k: Float) -> Float:
    """sd / mean of the keys' lengths, for every head.

    >>> swing(np.array([[[3.0, 0.0], [0.0, 1.0]]])).tolist()
    [0.5]
    """
    lengths = np.linalg.norm(k, axis=2)
    mean = lengths.mean(axis=1)
    relative: Float = np.divide(lengths.std(axis=1), mean, out=np.full(len(k), np.nan), where=mean > 0)
    return relative


def even_length_effect(scores: Float, k: Float, allowed: Flags) -> Float:
    """How far the weights move if every key had the mean length, for every head."""
    lengths = np.linalg.norm(k, axis=2)
    mean = lengths.mean(axis=1, keepdims=True)
    factor = np.divide(mean, lengths, out=np.ones_like(lengths), where=lengths > 0)
    return mean_total_variation(masked_softmax(scores, allowed), masked_softmax(scores * factor[:, None, :], allowed))


def swing_noise(scores: Float, allowed: Flags, amount: float, *, layer: int, head: int, seed: int = 0) -> SwingNoise:
    """The noise of one head's most sharing row: scores and allowed are (queries, keys)."""
    from regard.noise import weight_moments
    from regard.noise.scores import KeyLaw, merge_equal_laws

    row = most_sharing_row(masked_softmax(scores, allowed), allowed)
    s = scores[row, allowed[row]]
    s = s - s.max()  # a shift changes no weight; but the noise goes with the score itself
    spreads = np.abs(scores[row, allowed[row]]) * amount
    laws = merge_equal_laws(
        [KeyLaw(np.ones(1), np.array([[m]]), np.array([[sd**2]])) for m, sd in zip(s, spreads, strict=True)]
    )
    top = int(s.argmax())
    moments = weight_moments(laws)
    variance = max(float(moments.covariance[top, top]), 0.0)
    each = _draw_weights(s, spreads, seed)[:, top]
    return SwingNoise(
        layer=layer, head=head, query=row, swing=amount, largest=float(softmax(s)[top]), sd=variance**0.5,
        sd_accuracy=float(3 * moments.accuracy / max(variance**0.5, moments.accuracy**0.5)),
        measured_sd=float(each.std()), measured_sd_within=2 * _sd_error(each), mean=float(moments.mean[top]),
        measured_mean=float(each.mean()), method=moments.method,
    )  # fmt: skip


def most_sharing_row(weights: Float, allowed: Flags) -> int:
    """The row of (queries, keys) whose second largest weight is largest."""
    if weights.shape[1] < 2:
        return 0
    second = np.sort(normalise_rows(weights), axis=1)[:, -2]
    return int(np.where(allowed.sum(axis=1) > 1, second, -1.0).argmax())


def _draw_weights(s: Float, spreads: Float, seed: int) -> Float:
    """Weights for drawn lengths, in the arithmetic of the head: float32."""
    random = np.random.default_rng(seed)
    noisy = (s + spreads * random.standard_normal((DRAWS, len(s)))).astype(np.float32)
    weights: Float = softmax(noisy).astype(np.float64)
    return weights


def _sd_error(values: Float) -> float:
    """The standard error of a sample's standard deviation, from its fourth moment."""
    centred = values - values.mean()
    variance = float((centred**2).mean())
    if variance <= 0:
        return 0.0
    fourth = float((centred**4).mean())
    return float((max(fourth - variance**2, 0.0) / (4 * variance * len(values))) ** 0.5)

"""Attention as libraries call it, with grouped keys and a causal mask, and the known ways to get that wrong.

The one-layer encoder of ``layer.py`` has neither; its search does not try these. Written in words that NumPy and torch
share, as ``attention.py`` is.
"""

from __future__ import annotations

import numpy as np

from regard.array_types import Array
from regard.mistakes.mistake import wrong_versions


def share_in_groups(x: Array, q: Array) -> Array:
    """Keys or values (N, groups, T, d) for all heads of q: group g serves the r heads from g r on."""
    n, groups, t, d = x.shape
    times = q.shape[1] // groups
    return np.broadcast_to(x[:, :, None], (n, groups, times, t, d)).reshape(n, groups * times, t, d)


def share_in_turns(x: Array, q: Array) -> Array:
    """Group g serves the heads g, g + groups, ...: repeat where repeat_interleave is meant."""
    n, groups, t, d = x.shape
    times = q.shape[1] // groups
    return np.broadcast_to(x[:, None], (n, times, groups, t, d)).reshape(n, groups * times, t, d)


def past(scores: Array, ahead: int = 0) -> Array:
    """True where query i of T may read key j of S: j <= i + S - T + ahead; the last query reads all."""
    t, s = scores.shape[-2:]
    return np.tril(np.ones((t, s), dtype=np.bool), s - t + ahead)


def hide_future(allowed: Array, scores: Array) -> Array:
    """A causal mask beside whatever else is hidden."""
    return allowed & past(scores)


def mean_value(weights: Array, v: Array, q: Array) -> Array:
    """Every query gets the mean of the values; 0 times the answer keeps its gradients, which some tests ask for."""
    answer: Array = np.mean(v, axis=-2, keepdims=True) + 0 * (weights @ v)
    return answer


def first_group(x: Array, q: Array) -> Array:
    """The first group for every head."""
    return np.broadcast_to(x[:, :1], (x.shape[0], q.shape[1], *x.shape[2:]))


GROUPS = wrong_versions(
    "attention", "share keys", "scores",
    "r query heads in a row share a group: repeat_interleave(r, dim=1), not repeat",
    [
        ("groups-in-turns", "grouped keys and values laid out by repeat instead of repeat_interleave",
         {"share keys": share_in_turns, "share values": share_in_turns}),
        ("groups-keys-in-turns", "grouped keys laid out by repeat, values by repeat_interleave", share_in_turns),
        ("groups-values-in-turns", "grouped values laid out by repeat, keys by repeat_interleave",
         {"share values": share_in_turns}),
        ("groups-first-only", "the first group of keys and values used for all heads",
         {"share keys": first_group, "share values": first_group}),
    ],
)  # fmt: skip
CAUSAL = wrong_versions(
    "attention", "causal", "mask", "query i of T reads key j of S where j <= i + S - T",
    [
        ("causal-missing", "no causal mask: the future is read", lambda allowed, scores: allowed),
        ("causal-one-ahead", "a causal mask that lets each query read one key ahead",
         lambda allowed, scores: allowed & past(scores, 1)),
        ("causal-one-behind", "a causal mask that hides each query's own key",
         lambda allowed, scores: allowed & past(scores, -1)),
        ("causal-turned", "a causal mask that hides the past and shows the future",
         lambda allowed, scores: allowed & ~past(scores, -1)),
        ("causal-from-the-left", "a causal mask aligned at the first key where it belongs at the last (S > T)",
         lambda allowed, scores: allowed & past(scores, scores.shape[-2] - scores.shape[-1])),
    ],
)  # fmt: skip
SKIPPED = (
    *wrong_versions(
        "attention", "context", "context", "weights times values: what a query gets depends on all that it reads",
        [("attention-averages", "the mean of the values for every query, whatever the keys", mean_value)],
    ),
    *wrong_versions(
        "attention", "answer", "context", "weights times values",
        [("input-returned", "the input returned as it came", lambda answer, states: states + 0 * answer)],
    ),
)  # fmt: skip


def no_causal_mask(allowed: Array, scores: Array) -> Array:
    """Nothing is hidden but what the caller hides."""
    return allowed


def own_heads(x: Array, q: Array) -> Array:
    """As many heads of keys as of queries."""
    return x


def own_answer(answer: Array, states: Array) -> Array:
    """The answer is the answer."""
    return answer


MISTAKES = (*GROUPS, *CAUSAL, *SKIPPED)
RIGHT = {"share keys": own_heads, "share values": own_heads, "causal": no_causal_mask, "answer": own_answer}
GROUPED = {"share keys": share_in_groups, "share values": share_in_groups}

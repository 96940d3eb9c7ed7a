"""One right answer for each claim that asks for a function, as a student might write it; the function is named
after it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any


def weights_are_a_distribution(scores: Array) -> Array:
    raised = np.exp(scores - scores.max())
    return raised / raised.sum()


def copying_condition(n: int, eps: float) -> float:
    return math.log((n - 1) / eps)


def copying_output(eps: float, distance: float) -> float:
    return distance * eps / (1 + eps)


def copying_within_budget(keys: Array, eps: float) -> Array:
    return 2 * math.log(len(keys) / eps) * keys[0]


def extract_from_sum(A: Array) -> Array:
    return A @ A.T


def average_of_two(keys: Array, a: int, b: int, eps: float) -> Array:
    return math.log(len(keys) / eps) * (keys[a] + keys[b])


def never_exactly_the_average(keys: Array, values: Array) -> Array | None:
    possible = len(keys) == 2 or np.allclose(values.mean(axis=0), (values[0] + values[1]) / 2)
    return np.zeros(keys.shape[1]) if possible else None


def average_within_budget(keys: Array, eps: float) -> Array:
    return math.log(len(keys) / eps) * (keys[0] + keys[1])


def the_bisector(keys: Array, eps: float) -> Array:
    t, tilt = math.log(max(len(keys) - 2, 1) * 8 / eps), math.log1p(eps / 2) / 2
    return (t + tilt) * keys[0] + (t - tilt) * keys[1]


def average_of_any_subset(keys: Array, subset: Array, eps: float) -> Array:
    return math.log(len(keys) / eps) * keys[subset].sum(axis=0)


def small_noise_keeps_the_average(means: Array, iso: float, error: float) -> Array:
    return math.log(8 * max(len(means) - 2, 1) / error) * (means[0] + means[1])


def one_head_swings(iso: float, spread: float, scale: float) -> float:
    return scale**2 * (spread + 4 * iso)


def one_head_two_point_noise(n: int, eps: float, c: float) -> Array:
    both = np.array([(n / eps) ** c, n / eps])
    return both / (both.sum() + n - 2)


def two_heads_average(means: Array, iso: float, error: float) -> Array:
    return (10 + math.log(len(means) / error)) * means[:2]


def two_heads_steady(means: Array, iso: float, error: float) -> Array:
    return 1000 * means[:2]


def two_heads_two_point_noise(directions: Array, eps: float) -> Array:
    return 2 * math.log(len(directions) / eps) * directions[:2]


def order_blindness(
    X: Array, W_Q: Array, W_K: Array, W_V: Array, W_1: Array, b_1: Array, W_2: Array, b_2: Array
) -> Array:
    scores = (X @ W_Q) @ (X @ W_K).T / math.sqrt(W_Q.shape[1])
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.maximum(raised / raised.sum(axis=1, keepdims=True) @ X @ W_V @ W_1 + b_1, 0) @ W_2 + b_2


def positions_are_distinct(length: int, dim: int) -> Array:
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(length, dim)


def positions_restore_order(X: Array) -> Array:
    return X + positions_are_distinct(*X.shape)


def singular_energy(A: Array) -> float:
    return float(np.sum(A**2))


def singular_tail(norm: float, k: int) -> float:
    return norm / math.sqrt(k)


def low_rank_error(A: Array, k: int) -> Array:
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    s[k - 1 :] = 0
    return u * s @ vt

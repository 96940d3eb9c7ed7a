"""What students get wrong, several for each claim: the claim's name, two underscores, and the mistake."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = Any


def weights_are_a_distribution__overflows(scores: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.exp(scores) / np.exp(scores).sum()


def weights_are_a_distribution__not_normalised(scores: Array) -> Array:
    return np.exp(scores - scores.max())


def weights_are_a_distribution__all_equal(scores: Array) -> Array:
    return np.full(len(scores), 1 / len(scores))


def copying_condition__forgets_n(n: int, eps: float) -> float:
    return math.log(1 / eps)


def copying_condition__divides_outside_the_logarithm(n: int, eps: float) -> float:
    return math.log(n - 1) / eps


def copying_output__of_two_keys(eps: float, distance: float) -> float:
    return distance * eps / (2 + eps)


def copying_output__forgets_the_distance(eps: float, distance: float) -> float:
    return 2 * eps / (1 + eps)


def copying_within_budget__half_as_long(keys: Array, eps: float) -> Array:
    return math.log(len(keys) / eps) * keys[0]


def copying_within_budget__any_length(keys: Array, eps: float) -> Array:
    return 1000 * keys[0]


def extract_from_sum__identity(A: Array) -> Array:
    return np.eye(len(A))


def extract_from_sum__scaled(A: Array) -> Array:
    return A @ A.T / len(A)


def average_of_two__too_short(keys: Array, a: int, b: int, eps: float) -> Array:
    return keys[a] + keys[b]


def average_of_two__forgets_n(keys: Array, a: int, b: int, eps: float) -> Array:
    return math.log(1 / eps) * (keys[a] + keys[b])


def average_of_two__ignores_a_and_b(keys: Array, a: int, b: int, eps: float) -> Array:
    return 20 * (keys[0] + keys[1])


def average_of_two__only_in_order(keys: Array, a: int, b: int, eps: float) -> Array:
    return math.log(len(keys) / eps) * (keys[a] + keys[b] if a < b else keys[b])


def never_exactly_the_average__long(keys: Array, values: Array) -> Array:
    return 1000 * (keys[0] + keys[1])


def never_exactly_the_average__never(keys: Array, values: Array) -> None:
    return None


def average_within_budget__over_budget(keys: Array, eps: float) -> Array:
    return 99 * (keys[0] + keys[1])


def average_within_budget__all_keys(keys: Array, eps: float) -> Array:
    return math.log(len(keys) / eps) * keys.sum(axis=0)


def the_bisector__the_bisector(keys: Array, eps: float) -> Array:
    return math.log(len(keys) / eps) * (keys[0] + keys[1])


def the_bisector__none(keys: Array, eps: float) -> None:
    return None


def average_of_any_subset__forgets_n(keys: Array, subset: Array, eps: float) -> Array:
    return math.log(2 / eps) * keys[subset].sum(axis=0)


def average_of_any_subset__the_mean(keys: Array, subset: Array, eps: float) -> Array:
    return math.log(len(keys) / eps) * keys[subset].mean(axis=0)


def small_noise_keeps_the_average__too_long(means: Array, iso: float, error: float) -> Array:
    return 1000 * (means[0] + means[1])


def small_noise_keeps_the_average__too_short(means: Array, iso: float, error: float) -> Array:
    return means[0] + means[1]


def one_head_swings__half_of_the_noise(iso: float, spread: float, scale: float) -> float:
    return scale**2 * (spread + 2 * iso)


def one_head_swings__no_square(iso: float, spread: float, scale: float) -> float:
    return scale * (spread + 4 * iso)


def one_head_two_point_noise__forgets_the_others(n: int, eps: float, c: float) -> Array:
    both = np.array([(n / eps) ** c, n / eps])
    return both / both.sum()


def one_head_two_point_noise__only_the_ratio(n: int, eps: float, c: float) -> Array:
    return np.array([(n / eps) ** (c - 1), 1.0])


def two_heads_average__too_short(means: Array, iso: float, error: float) -> Array:
    return means[:2]


def two_heads_average__the_same_twice(means: Array, iso: float, error: float) -> Array:
    return np.tile(20 * (means[0] + means[1]), (2, 1))


def two_heads_steady__one_head_twice(means: Array, iso: float, error: float) -> Array:
    return np.tile(20 * (means[0] + means[1]), (2, 1))


def two_heads_two_point_noise__as_stated(directions: Array, eps: float) -> Array:
    return math.log(len(directions) / eps) * directions[:2]


def _layer(X: Array, W_Q: Array, W_K: Array, rest: tuple[Array, ...], *, axis: int = 1, scale: bool = True) -> Array:
    W_V, W_1, b_1, W_2, b_2 = rest
    scores = (X @ W_Q) @ (X @ W_K).T / (math.sqrt(W_Q.shape[1]) if scale else 1.0)
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.maximum(raised / raised.sum(axis=axis, keepdims=True) @ X @ W_V @ W_1 + b_1, 0) @ W_2 + b_2


def order_blindness__without_scale(X: Array, W_Q: Array, W_K: Array, *rest: Array) -> Array:
    return _layer(X, W_Q, W_K, rest, scale=False)


def order_blindness__over_columns(X: Array, W_Q: Array, W_K: Array, *rest: Array) -> Array:
    return _layer(X, W_Q, W_K, rest, axis=0)


def order_blindness__causal(X: Array, W_Q: Array, W_K: Array, *rest: Array) -> Array:
    return np.vstack([_layer(X[: i + 1], W_Q, W_K, rest)[-1] for i in range(len(X))])


def positions_are_distinct__half_precision(length: int, dim: int) -> Array:
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, dim, 2) / dim)
    return np.hstack([np.sin(angle), np.cos(angle)]).astype(np.float16)


def positions_are_distinct__in_pairs(length: int, dim: int) -> Array:
    return np.repeat(np.arange(length)[:, None] // 2, dim, axis=1)


def positions_restore_order__the_same_everywhere(X: Array) -> Array:
    return X + 1


def positions_restore_order__depends_on_x(X: Array) -> Array:
    return 2 * X


def singular_energy__the_norm(A: Array) -> float:
    return float(np.linalg.norm(A))


def singular_tail__no_root(norm: float, k: int) -> float:
    return norm / k


def low_rank_error__one_too_many(A: Array, k: int) -> Array:
    u, s, vt = np.linalg.svd(A, full_matrices=False)
    s[k:] = 0
    return u * s @ vt


def low_rank_error__zero(A: Array, k: int) -> Array:
    return np.zeros_like(A)

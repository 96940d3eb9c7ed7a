"""Enclosures of singular values from approximate factors, whoever computed them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from regard.array_types import Float
from regard.rigor.floats import U
from regard.rigor.matrices import LEAST, PAY, difference, gram, norm_above


@dataclass(frozen=True, kw_only=True, eq=False)
class Certificate:
    """What is proved about ``sigma_i(A)``: ``lower_i <= sigma_i(A) <= upper_i``, and the numbers it follows from."""

    lower: Float  # one per singular value, the largest first, as the next
    upper: Float
    residual: float  # >= ||A - U S V^T||_F
    left: float  # >= ||U^T U - I||_F
    right: float  # >= ||V^T V - I||_F
    coupling: float  # >= ||S (U^T U - I) S||_F


def certify(left: Float, values: Float, right: Float, *, residual: float, quick: bool = False) -> Certificate:
    """Bounds on the singular values of A from any factors ``U, s, V`` and a bound on ``||A - U diag(s) V^T||``.

    |sigma_i(A) - sigma_i(U S V^T)| <= residual                                              (Weyl)
    sigma_i(U S V^T) = sigma_i(U S) (1 +- ||V^T V - I||)^(1/2)                               (Ostrowski)
    sigma_i(U S)^2 = s_i^2 (1 +- ||U^T U - I||), and also s_i^2 +- ||S (U^T U - I) S||       (Ostrowski, Weyl)

    Nothing is assumed about where the factors come from; bad ones give wide bounds, never wrong ones. The
    statement is about the exact singular values of the numbers in A; all roundings are accounted for.
    ``quick`` as in :func:`regard.rigor.matrices.difference`.

    >>> a = np.array([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> u, s, v = np.eye(3)[:, :2], np.array([3.0, 2.0]), np.eye(2)
    >>> proof = certify(u, s, v, residual=residual_above((a,), u, s, v))
    >>> bool((proof.upper - proof.lower).max() < 1e-13)
    True
    """
    gap_left, slack_left = _skewness(left, quick)
    gap_right, slack_right = _skewness(right, quick)
    top = float(np.max(np.abs(values)))
    delta_left = norm_above(gap_left) + slack_left
    delta_right = norm_above(gap_right) + slack_right
    coupling = (norm_above(gap_left * np.outer(values, values)) + slack_left * top * top) * PAY
    lower, upper = _enclose(values, residual, delta_left, delta_right, coupling)
    return Certificate(
        lower=lower, upper=upper, residual=residual, left=delta_left, right=delta_right, coupling=coupling
    )


def _skewness(vectors: Float, quick: bool) -> tuple[Float, float]:
    """``I - U^T U`` and a bound on its rounding error."""
    eye = np.eye(vectors.shape[1])
    if not quick:
        return difference(eye, vectors, vectors)
    product, slack = gram(vectors)
    half = eye - np.tril(product)
    return half + np.tril(half, -1).T, (slack + 4 * U * len(eye)) * PAY


def residual_above(
    source: tuple[Float, ...], left: Float, values: Float, right: Float, *, quick: bool = False
) -> float:
    """At least ``||A - U S V^T||_F`` for ``source`` = (A,), or ``||A B^T - U S V^T||_F`` for (A, B).

    In blocks of rows and without rounding in the products, so that the product A B^T is never whole.
    """
    # U S V^T as (U S^(1/2)) (V S^(1/2))^T, which keeps the rounding bound of a quick product small.
    root = np.sqrt(np.abs(values))
    half_left, half_right = left * (root * np.sign(values)), right * root
    # blocks of 32 MB
    total, step = 0.0, max(1, 2**22 // len(right))
    for start in range(0, len(left), step):
        rows = slice(start, start + step)
        # for a product, A B^T joins the subtracted side as further columns: 0 - (U S V^T - A B^T), one product in all
        target = source[0][rows] if len(source) == 1 else np.zeros((len(half_left[rows]), len(right)))
        x, y = half_left[rows].T, half_right.T
        if len(source) == 2:
            x, y = np.vstack([x, -source[0][rows].T]), np.vstack([y, source[1].T])
        rest, slack = difference(target, np.ascontiguousarray(x), np.ascontiguousarray(y), quick=quick)
        total += (norm_above(rest) + slack) ** 2
    # The two halves and the root were themselves rounded, by at most 3 U of an entry of each product.
    return (math.sqrt(total) + 4 * U * norm_above(half_left) * norm_above(half_right)) * PAY


def _enclose(values: Float, residual: float, left: float, right: float, coupling: float) -> tuple[Float, Float]:
    # given factors may carry signs and any order: their size is what Ostrowski speaks of
    s = np.sort(np.abs(values))[::-1]
    square = s * s
    # the relative bound is the sharper for small values, the absolute one for nearly orthogonal columns
    low = np.maximum(square * max(0.0, 1 - left), square - coupling)
    high = np.minimum(square * (1 + left), square + coupling)
    lower = np.sqrt(np.maximum(low, 0.0) * max(0.0, 1 - right)) - residual
    upper = np.sqrt(high * (1 + right)) + residual + LEAST
    return np.maximum(lower * (1 - 8 * U), 0.0), upper * (1 + 8 * U)  # fewer than 8 roundings each

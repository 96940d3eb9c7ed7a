"""Attention itself, in NumPy float64: the reference everything else is tied to.

    s_i = scale * (q . k_i)      alpha = softmax(s)      c = sum_i alpha_i v_i

Keys and values are rows, counted from 0. Queries, keys and values may have any leading axes; they broadcast
like NumPy's. ``allowed`` is boolean, True = may attend, and broadcasts to the scores. A query with nothing
allowed gets zero weights (log-weights -inf) and a zero output: never NaN.
Projections, feed-forward and Transformer heads are in :mod:`regard.layers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.array_types import Float, Real
from regard.arrays import check_array
from regard.errors import InputError
from regard.results import Result

UNIT = 2.0**-53  # half the spacing of float64 at 1: the relative error of one rounding


@dataclass(frozen=True, kw_only=True, eq=False)
class Attention(Result):
    """What :func:`attend` returns; with queries (..., m, d), n keys and values of width v:"""

    weights: Float  # (..., m, n), rows sum to 1, or to 0 where nothing is allowed
    log_weights: Float  # (..., m, n), accurate where a weight is too small, or too close to 1, for `weights`
    output: Float  # (..., m, v)
    scores: Float  # (..., m, n), with the scale; -inf where forbidden

    def __str__(self) -> str:
        *batch, keys = self.weights.shape
        who = "One query" if not batch else f"{int(np.prod(batch)):,} queries"
        lines = [f"{who} over {keys:,} key{'s' * (keys != 1)}."]
        if not batch:
            top = np.argsort(-self.weights, kind="stable")[:3]
            shares = ", ".join(f"key {i} gets {self.weights[i]:.6g}" for i in top)
            lines.append(f"Most attention: {shares}. Output: {_preview(self.output)}.")
        if idle := int((~self.weights.any(axis=-1)).sum()):
            lines.append(f"Nothing is allowed for {idle:,} of them: zero weights, zero output.")
        return " ".join(lines)


@dataclass(frozen=True, kw_only=True, eq=False)
class Heads(Result):
    """Several heads: their common output, and what each head did."""

    output: Float  # (..., v) averaged, or (..., m, width of W_O) joined and projected
    heads: Attention

    def __str__(self) -> str:
        return f"Several heads together give {_preview(self.output)}. {self.heads}"


def attend(
    queries: npt.ArrayLike,
    keys: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    allowed: npt.ArrayLike | None = None,
    scale: float = 1.0,
) -> Attention:
    """Attention of one query (d,) or many (..., m, d) to keys (..., n, d) with values (..., n, v).

        alpha = softmax(scale * q K^T),  c = alpha V

    The coursework's single query has scale 1; a Transformer layer has scale 1/sqrt(d). Scores may be as large
    as float64 holds; one that overflows is refused. :func:`rounding_bound` says how far rounding can move the
    weights.

    >>> a = attend([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [3.0]])
    >>> a.weights.round(3).tolist()  # 1/(1 + 1/e) and its rest
    [0.731, 0.269]
    >>> attend([1.0], [[5.0], [7.0]], [[1.0], [2.0]], allowed=[False, False]).output.tolist()
    [0.0]
    """
    q, k, v = (check_array(a, what=w, ndim=None) for a, w in [(queries, "queries"), (keys, "keys"), (values, "values")])
    factor = float(check_array(scale, what="scale", ndim=0))
    _refuse_shapes(q, k, v)
    if q.ndim == 1:
        mask = None if allowed is None else _mask(allowed, (*_leading(k, v), k.shape[-2]))[..., None, :]
        many = _attend(q[None, :], k, v, mask, factor)
        return Attention(**{name: rows[..., 0, :] for name, rows in vars(many).items()})
    shape = (*_leading(q, k, v), q.shape[-2], k.shape[-2])
    return _attend(q, k, v, None if allowed is None else _mask(allowed, shape), factor)


def averaged_heads(
    queries: npt.ArrayLike,
    keys: npt.ArrayLike,
    values: npt.ArrayLike,
    *,
    allowed: npt.ArrayLike | None = None,
    scale: float = 1.0,
) -> Heads:
    """Several heads as the coursework has them: one query per head on the same keys, outputs averaged.

        c = (c_1 + ... + c_H) / H,  c_h = attend(q_h)

    ``queries`` is (..., H, d).

    >>> heads = averaged_heads([[50.0, 0.0], [0.0, 50.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [3.0]])
    >>> heads.output.round(12).tolist()  # head 0 reads 1, head 1 reads 3
    [2.0]
    """
    if np.ndim(queries) < 2:
        raise InputError("queries must have one row per head; for a single query use attend.")
    heads = attend(queries, keys, values, allowed=allowed, scale=scale)
    return Heads(output=heads.output.mean(axis=-2), heads=heads)


def log_sum_exp(scores: Real) -> Real:
    """ln sum_i exp(s_i) along the last axis, for scores of any size: (..., n) -> (...).

    >>> round(float(log_sum_exp(np.array([1000.0, 1000.0]))), 6)
    1000.693147
    """
    top = scores.max(axis=-1, keepdims=True)
    # SciPy's logsumexp gives the same numbers in 2.4 times the time for many rows, 12 times for one.
    summed: Real = top[..., 0] + np.log(np.exp(scores - top).sum(axis=-1))
    return summed


def rounding_bound(
    queries: npt.ArrayLike,
    keys: npt.ArrayLike,
    *,
    allowed: npt.ArrayLike | None = None,
    scale: float = 1.0,
) -> Float:
    """How far rounding can move the weights: a bound on sum_i |computed - exact| for every query, (...) or (..., m).

        2 tanh(delta / 2) + (2 ln n + 2 n + 24) u,   delta = gamma_(d+4) max_i |scale| sum_j |q_j| |k_ij|

    with u = 2^-53 and gamma_m = m u / (1 - m u). "Exact" is the softmax, in real arithmetic, of the stored
    inputs. It holds for dot products summed in any order, with or without fused multiply-add, and an exp
    within 4 units in the last place. So it holds for torch's attention too (where sqrt(scale) times the inputs
    does not underflow), which therefore agrees with ours within twice the bound. The output differs by at most
    (bound + (n + 2) u) max|v|. Above a delta of about 1 it says nothing, and rightly so.

    >>> float(rounding_bound([1e4], [[1.0], [0.5]])) < 1.1e-11
    True
    """
    q, k = check_array(queries, what="queries", ndim=None), check_array(keys, what="keys", ndim=None)
    factor = abs(float(check_array(scale, what="scale", ndim=0)))
    _refuse_shapes(q, k, k)
    with np.errstate(all="ignore"):
        size = np.matmul(np.abs(np.atleast_2d(q)), np.swapaxes(np.abs(k), -1, -2)) * factor
    size = np.nan_to_num(size[..., 0, :] if q.ndim == 1 else size, nan=np.inf)
    if allowed is not None:
        size = np.where(_mask(allowed, size.shape), size, 0.0)
    n, terms = k.shape[-2], k.shape[-1] + 4
    # The size is itself rounded, but a sum of positive terms: 1.01 covers that and all second-order terms.
    # d + 4 roundings: d for the dot product, 1 for the scale; torch spends 4 on sqrt(scale) for both factors.
    # A product that underflows is off by at most the smallest number there is, before the scale.
    delta = 1.01 * terms * (UNIT * size.max(axis=-1) + factor * 2.0**-1074)
    return np.asarray(2 * np.tanh(delta / 2) + 1.01 * (2 * np.log(n) + 2 * n + 24) * UNIT)


def _attend(q: Float, k: Float, v: Float, mask: npt.NDArray[np.bool_] | None, scale: float) -> Attention:
    with np.errstate(all="ignore"):
        scores = np.matmul(q, np.swapaxes(k, -1, -2)) * scale
        scores = np.broadcast_to(scores, (*_leading(q, k, v), *scores.shape[-2:])).copy()
        bad = ~np.isfinite(scores)
        if mask is not None:
            bad &= mask
            scores[~mask] = -np.inf
        if bad.any():
            *_, i, j = np.argwhere(bad)[0]
            raise InputError(f"The score of query {i} and key {j} overflows float64; scale the queries or keys down.")
        weights, log_weights = _weights_and_logarithms(scores)
        # A sum of weights just above 1 could lift the largest float64 to inf: saturate instead.
        output = np.nan_to_num(np.matmul(weights, v))
    return Attention(weights=weights, log_weights=log_weights, output=output, scores=scores)


def _weights_and_logarithms(scores: Float) -> tuple[Float, Float]:
    """Softmax and its logarithm along the last axis; a row of -inf gives zeros and -inf."""
    top = scores.argmax(axis=-1)[..., None]
    highest = np.take_along_axis(scores, top, axis=-1)
    shifted = scores - np.where(np.isneginf(highest), 0.0, highest)
    raised = np.exp(shifted)
    # The largest term is exactly 1: kept out of the sum, the rest keeps its digits, and so do logs near 0.
    first = np.take_along_axis(raised, top, axis=-1)
    np.put_along_axis(raised, top, 0.0, axis=-1)
    rest = raised.sum(axis=-1, keepdims=True)
    np.put_along_axis(raised, top, first, axis=-1)
    return raised / (1.0 + rest), shifted - np.log1p(rest)


def softmax(scores: Any, axis: int = -1) -> Any:
    """Weights along an axis, in the floats of the scores; :func:`attend` knows masks, and keeps more digits.

    >>> softmax(np.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    raised = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return raised / raised.sum(axis=axis, keepdims=True)


def _refuse_shapes(q: Float, k: Float, v: Float) -> None:
    if q.ndim < 1 or k.ndim < 2 or v.ndim < 2:
        need = "queries need at least 1 axis, keys and values at least 2 (one row per key)"
        raise InputError(f"Shapes {q.shape}, {k.shape} and {v.shape} do not fit: {need}.")
    if q.shape[-1] != k.shape[-1]:
        raise InputError(f"Queries have width {q.shape[-1]} but keys have width {k.shape[-1]}; they must be equal.")
    if k.shape[-2] != v.shape[-2]:
        raise InputError(f"There are {k.shape[-2]} keys but {v.shape[-2]} values; give one value per key.")
    _leading(q, k, v)


def _leading(*arrays: Float) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise InputError(f"The leading axes of shapes {shapes} do not broadcast; make them equal or 1.") from None


def _mask(allowed: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    mask = np.asarray(allowed)
    if mask.dtype != np.bool_:
        raise InputError(f"allowed must be boolean (True = may attend) but holds {mask.dtype}; compare or cast first.")
    try:
        return np.broadcast_to(mask, shape)
    except ValueError:
        raise InputError(f"allowed has shape {mask.shape}, which does not broadcast to the scores' {shape}.") from None


def _preview(vector: Float) -> str:
    text = np.array2string(vector, precision=4, threshold=8, edgeitems=3)
    return text if vector.ndim == 1 else f"an array of shape {vector.shape}"

"""Layers around attention: projections, heads as Transformers have them, and the coursework's whole layer.

    Q = X W_Q,  K = X W_K,  V = X W_V,  H = softmax(Q K^T / sqrt(d)) V,  Z = ReLU(H W_1 + 1 b_1) W_2 + 1 b_2

Tokens are rows. Matrices multiply from the right, as the coursework writes them; torch stores transposes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.attention import Attention, Heads, attend
from regard.errors import InputError
from regard.results import Result


@dataclass(frozen=True, kw_only=True, eq=False)
class Block(Result):
    """A self-attention layer and its feed-forward network: ``output`` is the coursework's Z."""

    output: Float  # (..., n, width of W_2)
    attention: Attention

    def __str__(self) -> str:
        return f"Output of shape {self.output.shape}. {self.attention}"


def multi_head(
    queries: npt.ArrayLike,
    keys: npt.ArrayLike,
    values: npt.ArrayLike,
    W_Q: npt.ArrayLike,
    W_K: npt.ArrayLike,
    W_V: npt.ArrayLike,
    W_O: npt.ArrayLike,
    *,
    heads: int,
    biases: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike, npt.ArrayLike] | None = None,
    allowed: npt.ArrayLike | None = None,
) -> Heads:
    """Several heads as Transformers have them: projected, attended, concatenated, projected again.

        output = [head_1 ... head_H] W_O,  head_h = attend(Q W_Q^h, K W_K^h, V W_V^h)

    W^h is the h-th block of columns, d its width, and the scale is 1/sqrt(d). ``queries`` is (..., m, width), ``keys``
    and ``values`` (..., n, width); W_Q and W_K have heads * d columns, W_O as many rows as W_V has columns. ``biases``
    are those of Q, K, V and the output; ``allowed`` broadcasts to (..., heads, m, n), as in torch's
    scaled_dot_product_attention.

    >>> x = np.eye(2)
    >>> multi_head(x, x, x, 9 * x, 9 * x, x, x, heads=2).output.round(3).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    names = [(queries, W_Q, "W_Q"), (keys, W_K, "W_K"), (values, W_V, "W_V")]
    if biases is not None and len(biases) != 4:
        raise InputError(f"biases must be four, those of Q, K, V and the output; there are {len(biases)}.")
    b_Q, b_K, b_V, b_O = biases or (None, None, None, None)
    projected = [_linear(x, W, b, name) for (x, W, name), b in zip(names, (b_Q, b_K, b_V), strict=True)]
    q, k, v = (_split_heads(x, heads, name) for x, (_, _, name) in zip(projected, names, strict=True))
    attention = attend(q, k, v, allowed=allowed, scale=1 / np.sqrt(q.shape[-1]))
    joined = np.swapaxes(attention.output, -3, -2)
    joined = joined.reshape(*joined.shape[:-2], -1)
    return Heads(output=_linear(joined, W_O, b_O, "W_O"), heads=attention)


def self_attention(
    X: npt.ArrayLike,
    W_Q: npt.ArrayLike,
    W_K: npt.ArrayLike,
    W_V: npt.ArrayLike,
    *,
    allowed: npt.ArrayLike | None = None,
) -> Attention:
    """The coursework's self-attention layer on the rows of X; ``output`` is its H.

        Q = X W_Q,  K = X W_K,  V = X W_V,  H = softmax(Q K^T / sqrt(d)) V,  d the width of Q

    X is (..., n, width), W_Q and W_K are width x d, W_V is width x v; ``allowed`` broadcasts to (..., n, n).

    >>> self_attention([[0.0], [4.0]], [[0.0]], [[1.0]], [[1.0]]).output.tolist()  # equal scores: the average
    [[2.0], [2.0]]
    """
    Q, K, V = (_linear(X, W, None, name) for W, name in [(W_Q, "W_Q"), (W_K, "W_K"), (W_V, "W_V")])
    return attend(Q, K, V, allowed=allowed, scale=1 / np.sqrt(Q.shape[-1]))


def feed_forward(
    H: npt.ArrayLike, W_1: npt.ArrayLike, b_1: npt.ArrayLike, W_2: npt.ArrayLike, b_2: npt.ArrayLike
) -> Float:
    """The coursework's feed-forward network, on each row alone: Z = ReLU(H W_1 + 1 b_1) W_2 + 1 b_2.

    H is (..., n, v), W_1 v x m, b_1 has m numbers, W_2 is m x d and b_2 has d.

    >>> feed_forward([[-1.0], [2.0]], [[1.0]], [0.0], [[3.0]], [1.0]).tolist()
    [[1.0], [7.0]]
    """
    return _linear(np.maximum(_linear(H, W_1, b_1, "W_1"), 0.0), W_2, b_2, "W_2")


def block(
    X: npt.ArrayLike,
    W_Q: npt.ArrayLike,
    W_K: npt.ArrayLike,
    W_V: npt.ArrayLike,
    W_1: npt.ArrayLike,
    b_1: npt.ArrayLike,
    W_2: npt.ArrayLike,
    b_2: npt.ArrayLike,
    *,
    allowed: npt.ArrayLike | None = None,
) -> Block:
    """The coursework's whole layer: self-attention, then the feed-forward network; ``output`` is its Z.

    Shapes as in :func:`self_attention` and :func:`feed_forward`; the usual layer has v = d = the width of X.

    >>> one = [[1.0]]
    >>> block([[0.0], [4.0]], [[0.0]], one, one, one, [-1.0], [[2.0]], [5.0]).output.tolist()
    [[7.0], [7.0]]
    """
    attention = self_attention(X, W_Q, W_K, W_V, allowed=allowed)
    return Block(output=feed_forward(attention.output, W_1, b_1, W_2, b_2), attention=attention)


def _linear(x: npt.ArrayLike, W: npt.ArrayLike, b: npt.ArrayLike | None, name: str) -> Float:
    rows, matrix = check_array(x, what=f"the input of {name}", ndim=None), check_array(W, what=name)
    if rows.ndim < 2 or rows.shape[-1] != len(matrix):
        raise InputError(f"{name} has {len(matrix)} rows, so its input must be rows of that width; it is {rows.shape}.")
    with np.errstate(all="ignore"):
        product = rows @ matrix
    if b is None:
        return _finite(product, name)
    offset = check_array(b, what=f"the bias of {name}", ndim=1)
    if len(offset) != matrix.shape[1]:
        raise InputError(
            f"The bias of {name} must have {matrix.shape[1]} entries, one per column; it has {len(offset)}."
        )
    return _finite(product + offset, name)


def _finite(product: Float, name: str) -> Float:
    if not np.isfinite(product).all():
        raise InputError(f"The product with {name} overflows float64; scale it or its input down.")
    return product


def _split_heads(x: Float, heads: int, name: str) -> Float:
    """(..., n, heads * d) to (..., heads, n, d)."""
    width = x.shape[-1]
    if not isinstance(heads, int) or heads < 1 or width % heads:
        raise InputError(f"{name} gives {width} columns, which {heads} heads cannot share equally; change heads.")
    return np.swapaxes(x.reshape(*x.shape[:-1], heads, width // heads), -3, -2)

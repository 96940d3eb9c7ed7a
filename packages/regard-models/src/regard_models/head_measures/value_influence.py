"""Influence and not only weight: how much of a token's value a head really adds, ||alpha_ij v_j W_O||.

A head may put all its weight on a token whose value is nearly nothing: that is how heads rest. The weight alone does
not show it; the length of what is added to the stream of vectors does (kobayashi2020). It is still no
explanation: later layers may cancel or ignore it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from regard.array_types import Float, Single
from regard.errors import InputError
from regard_models.capturing.records import AttentionRecord

NEEDS = ("v", "w_o")  # what a capture must keep for it


def influence(record: AttentionRecord, *, example: int = 0) -> Single:
    """||alpha_ij v_j W_O|| of every head, query and key: heads x queries x keys, in the order of ``record.heads``.

    The record must hold the values and the output projection: ``capture(model, inputs, keep=("v", "w_o"))``. The bias
    of the output projection belongs to no key and is left out. After dropout, the weights that were used count.

    >>> weights = np.array([[[[0.5, 0.5]]]], np.float32)
    >>> values, project = np.array([[[[3.0, 4.0], [0.0, 0.0]]]], np.float32), 2 * np.eye(2, dtype=np.float32)[None]
    >>> record = AttentionRecord(index=0, module="", kernel="", heads=(0,), weights=weights, v=values, w_o=project)
    >>> influence(record).tolist()
    [[[5.0, 0.0]]]
    """
    values, project = _values_and_projection(record)
    used = record.weights if record.used is None else record.used
    if not 0 <= example < used.shape[0]:
        raise InputError(f"There is no example {example}; the batch has {used.shape[0]}, counted from 0.")
    lengths = value_lengths(values[example], project)
    return np.asarray(np.abs(used[example]) * lengths[:, None, :], dtype=np.float32)


def has_influence(record: AttentionRecord) -> bool:
    """Whether a record holds what :func:`influence` needs."""
    return record.v is not None and record.w_o is not None


def value_lengths(values: npt.ArrayLike, project: npt.ArrayLike) -> Float:
    """||v_j W_O|| of every head and key: (heads, keys, width) and (heads, width, model's width) to (heads, keys)."""
    v, w = np.asarray(values, dtype=np.float64), np.asarray(project, dtype=np.float64)
    inner = w @ w.transpose(0, 2, 1)  # ||v W||^2 = v W W^T v^T: the model's width is gone
    squares: Float = np.einsum("hkd,hde,hke->hk", v, inner, v, optimize=True)
    return np.sqrt(np.maximum(squares, 0.0))


def rollout(layers: Sequence[npt.ArrayLike], *, kept: float = 0.5) -> Float:
    """Attention rollout (abnar2020): how the places of the input reach those of the output.

    R = A_L ... A_2 A_1 with A_l = ``kept`` I + (1 - ``kept``) mean over heads of the weights, rows summing to 1. It
    takes values and everything but attention for the identity: a rough picture. ``layers``: (heads, T, T) each.

    >>> rollout([np.array([[[1.0, 0.0], [1.0, 0.0]]])]).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    whole: Float | None = None
    for weights in layers:
        mean = np.asarray(weights, dtype=np.float64).mean(axis=0)
        if mean.ndim != 2 or mean.shape[0] != mean.shape[1] or (whole is not None and mean.shape != whole.shape):
            raise InputError("Rollout needs self-attention layers of one length, each heads x T x T.")
        sums = mean.sum(axis=1, keepdims=True)
        step = kept * np.eye(len(mean)) + (1 - kept) * np.divide(mean, sums, out=np.eye(len(mean)), where=sums > 0)
        whole = step if whole is None else step @ whole
    if whole is None:
        raise InputError("Rollout needs at least one layer.")
    return whole


def _values_and_projection(record: AttentionRecord) -> tuple[Single, Single]:
    if record.v is None or record.w_o is None:
        missing = [name for name in NEEDS if getattr(record, name) is None]
        raise InputError(
            f"Layer {record.index} has no {' and no '.join(missing)}, which influence needs; capture it with "
            "keep=('v', 'w_o')."
        )
    return record.v, record.w_o

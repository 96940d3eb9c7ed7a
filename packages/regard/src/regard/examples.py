"""Named arrays, small enough to reason about by hand: ``example:NAME`` on the command line.

Every one is deterministic, and has rows, counted from 0. ``regard example NAME > FILE.csv`` writes one down.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import InputError, suggest_name

EXAMPLES = {
    "orthonormal": "10 orthonormal keys in 10 dimensions, the coursework's setting",
    "pair": "two orthonormal keys in the plane, the smallest case with a choice",
    "single": "one key: every query gives it all the attention",
    "square": "the four corners of a square and, as key 4, its centre, which never gets more than 1/5",
    "triangle": "three corners; key 3 is the middle of a side (on a face, not a vertex), key 4 the centroid",
    "hexagon": "the six corners of a regular hexagon, all on the unit circle",
    "simplex": "five keys in four dimensions, all at distance 1 from one another",
    "collinear": "five keys on a line, evenly spaced: only the two ends can win",
    "duplicate": "three keys, the first of them twice: keys 0 and 1 always share equally",
    "opposite": "a key and its mirror image, for each of three axes",
    "gaussian": "200 keys in 16 dimensions, independent standard normal numbers",
    "unit": "200 keys in 16 dimensions, random directions of length 1",
    "crowded": "200 random keys in the plane: most of them lie inside the hull and can never win",
    "keys": "12 keys in 3 dimensions, one decimal each, to begin with: keys 2, 3 and 8 can never win",
    "target": "a distribution over the 12 keys of `keys`, for regard design match",
    "queries": "two queries in 10 dimensions, one per head, for the noise model that regard noise example prints",
    "weights": "16 x 12 numbers whose singular values fall by half each time: a matrix of nearly low rank",
}


def example(name: str) -> Float:
    """The array called ``name``; :data:`EXAMPLES` describes them all.

    >>> example("square").tolist()
    [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]]
    >>> example("sqare")
    Traceback (most recent call last):
    regard.errors.InputError: There is no example 'sqare'; did you mean 'square'? ...
    """
    if name not in EXAMPLES:
        raise InputError(f"There is no example {name!r}; {suggest_name(name, list(EXAMPLES))}")
    return np.ascontiguousarray(_build(name), dtype=np.float64)


def _build(name: str) -> npt.ArrayLike:
    """One expression for each name; the larger ones have a function below."""
    small: dict[str, npt.ArrayLike] = {
        "orthonormal": np.eye(10),
        "pair": np.eye(2),
        "single": [[1, 0]],
        "square": [[1, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]],
        "triangle": [[0, 0], [6, 0], [0, 6], [3, 0], [2, 2]],  # whole numbers, so that midpoint and centroid are exact
        "collinear": np.outer([-2, -1, 0, 1, 2], [1, 0.5]),
        "duplicate": [[1, 0], [1, 0], [0, 1], [-1, -1]],
        "opposite": np.vstack([np.eye(3), -np.eye(3)]),
        "target": [[0.3, 0.2, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01]],
        "queries": 20 * np.eye(2, 10),
    }
    if name in small:
        return small[name]
    if name in (made := {"hexagon": _hexagon, "simplex": _simplex, "weights": _halving}):
        return made[name]()
    return _draw_example(name)


def _draw_example(name: str) -> Float:
    seed, shape = {
        "gaussian": (1, (200, 16)),
        "unit": (2, (200, 16)),
        "crowded": (3, (200, 2)),
        "keys": (287, (12, 3)),
    }[name]
    normal = np.random.default_rng(seed).standard_normal(shape)
    if name == "keys":
        return np.round(normal, 1) + 0.0  # one decimal, to read and to type; no -0
    return _unit(normal) if name == "unit" else normal


def _hexagon() -> Float:
    half = np.sqrt(3) / 2
    return np.array([[1, 0], [0.5, half], [-0.5, half], [-1, 0], [-0.5, -half], [0.5, -half]])


def _simplex(count: int = 5) -> Float:
    """``count`` points at distance 1 from one another: each one the centroid of the earlier, lifted."""
    points = np.zeros((count, count - 1))
    for i in range(1, count):
        points[i] = points[:i].mean(axis=0)
        points[i, i - 1] = np.sqrt(1 - ((points[i] - points[0]) ** 2).sum())
    return points


def _halving() -> Float:
    """U diag(1, 1/2, 1/4, ...) V^T with U and V from Gram-Schmidt: no kernel of a machine decides a digit."""
    left, right = (_orthonormal(np.random.default_rng(seed).standard_normal((n, 12))) for seed, n in ((4, 16), (5, 12)))
    return np.round(sum(2.0**-k * np.multiply.outer(left[:, k], right[:, k]) for k in range(12)), 6)


def _orthonormal(columns: Float) -> Float:
    for k in range(columns.shape[1]):
        for j in range(k):
            columns[:, k] -= (columns[:, k] * columns[:, j]).sum() * columns[:, j]
        columns[:, k] /= np.sqrt((columns[:, k] ** 2).sum())
    return columns


def _unit(vectors: Float) -> Float:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

"""Named key sets, small enough to reason about by hand: ``example:NAME`` on the command line.

Every one is deterministic. Keys are rows, counted from 0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import InputError
from regard.formats import nearest

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
}


def example(name: str) -> Float:
    """The key set called ``name``; :data:`EXAMPLES` describes them all.

    >>> example("square").tolist()
    [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]]
    >>> example("sqare")
    Traceback (most recent call last):
    regard.errors.InputError: There is no example 'sqare'; did you mean 'square'? ...
    """
    if name not in EXAMPLES:
        raise InputError(f"There is no example {name!r}; {nearest(name, list(EXAMPLES))}")
    return np.ascontiguousarray(_build(name), dtype=np.float64)


def _build(name: str) -> npt.ArrayLike:
    match name:
        case "orthonormal":
            return np.eye(10)
        case "pair":
            return np.eye(2)
        case "single":
            return [[1, 0]]
        case "square":
            return [[1, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]]
        case "triangle":  # whole numbers, so that the midpoint and the centroid are exact
            return [[0, 0], [6, 0], [0, 6], [3, 0], [2, 2]]
        case "hexagon":
            return _hexagon()
        case "simplex":
            return _simplex(5)
        case "collinear":
            return np.outer([-2, -1, 0, 1, 2], [1, 0.5])
        case "duplicate":
            return [[1, 0], [1, 0], [0, 1], [-1, -1]]
        case "opposite":
            return np.vstack([np.eye(3), -np.eye(3)])
        case "gaussian":
            return np.random.default_rng(1).standard_normal((200, 16))
        case "unit":
            return _unit(np.random.default_rng(2).standard_normal((200, 16)))
        case _:
            return np.random.default_rng(3).standard_normal((200, 2))


def _hexagon() -> Float:
    half = np.sqrt(3) / 2
    return np.array([[1, 0], [0.5, half], [-0.5, half], [-1, 0], [-0.5, -half], [0.5, -half]])


def _simplex(count: int) -> Float:
    """``count`` points at distance 1 from one another: each one the centroid of the earlier, lifted."""
    points = np.zeros((count, count - 1))
    for i in range(1, count):
        points[i] = points[:i].mean(axis=0)
        points[i, i - 1] = np.sqrt(1 - ((points[i] - points[0]) ** 2).sum())
    return points


def _unit(vectors: Float) -> Float:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

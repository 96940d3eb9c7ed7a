"""Where things stand in a drawing of keys and queries: in the plane, or on a sphere seen from somewhere.

A drawing is the square from -WINDOW to WINDOW. Queries are long beside keys, so they are drawn at a fifth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy  # its rooms load when they are first used
from numpy.typing import NDArray

from regard.array_types import Float
from regard.errors import InputError

WINDOW = 2.2
QUERY = 0.2  # the length at which a query of norm 1 is drawn
STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, 1), "down": (0, -1)}


class Scene(Protocol):
    """Keys and a query as words of an address (rows of numbers), as vectors, and as places in the drawing."""

    def keys(self, rows: list[list[float]]) -> Float: ...

    def query(self, words: list[float]) -> Float: ...

    def words(self, query: Float) -> list[float]: ...

    def place(self, vectors: Float) -> tuple[Float, NDArray[np.bool_]]:
        """Places (x, y), and which of them are behind."""

    def circles(self) -> list[Float]:
        """Lines that give the drawing depth."""

    def put(self, old: list[float], x: float, y: float) -> list[float]:
        """The row of a key, or the words of a query, once it is dragged to a place of the drawing."""

    def step(self, old: list[float], x: int, y: int) -> list[float]:
        """The same, one press of an arrow key further."""


class Plane:
    """Keys with two coordinates, drawn where they are."""

    def keys(self, rows: list[list[float]]) -> Float:
        return np.array(rows, dtype=np.float64)

    def query(self, words: list[float]) -> Float:
        return np.array(words, dtype=np.float64)

    def words(self, query: Float) -> list[float]:
        return [float(x) for x in query]

    def place(self, vectors: Float) -> tuple[Float, NDArray[np.bool_]]:
        return vectors, np.zeros(len(vectors), dtype=bool)

    def circles(self) -> list[Float]:
        return []

    def put(self, old: list[float], x: float, y: float) -> list[float]:
        return [round(min(max(value, -WINDOW), WINDOW), 2) for value in (x, y)]

    def step(self, old: list[float], x: int, y: int) -> list[float]:
        return self.put(old, old[0] + 0.05 * x, old[1] + 0.05 * y)


@dataclass(frozen=True)
class Sphere:
    """Keys of length 1 in space, as longitude and latitude in degrees, seen from a longitude and latitude.

    A query has its norm as a third number.

    >>> Sphere(0, 0).keys([[90.0, 0.0]]).round(3).tolist()
    [[0.0, 1.0, 0.0]]
    >>> Sphere(0, 0).place(np.array([[0.0, 1.0, 0.0]]))[0].round(3).tolist()  # to the right, seen from longitude 0
    [[1.7, 0.0]]
    """

    longitude: float
    latitude: float
    radius = 1.7

    def keys(self, rows: list[list[float]]) -> Float:
        longitude, latitude = np.radians(np.array(rows, dtype=np.float64)).T
        level = np.cos(latitude)
        points = np.stack([level * np.cos(longitude), level * np.sin(longitude), np.sin(latitude)], axis=1)
        points[np.abs(points) < 1e-15] = 0.0  # sin 180 degrees is 1.2e-16 in floats; the axes should look like axes
        return np.asarray(points)

    def query(self, words: list[float]) -> Float:
        return np.asarray(words[2] * self.keys([words[:2]])[0])

    def words(self, query: Float) -> list[float]:
        norm = float(np.linalg.norm(query))
        if norm == 0:
            return [self.longitude, self.latitude, 0.0]
        return [*_degrees(query / norm), norm]

    @property
    def axes(self) -> Float:
        """Right, up and towards the eye, as rows."""
        (towards,) = self.keys([[self.longitude, self.latitude]])
        (right,) = self.keys([[self.longitude + 90, 0.0]])
        return np.stack([right, np.cross(towards, right), towards])

    def place(self, vectors: Float) -> tuple[Float, NDArray[np.bool_]]:
        seen = vectors @ self.axes.T
        return self.radius * seen[:, :2], seen[:, 2] < 0

    def circles(self) -> list[Float]:
        """The front halves of three great circles: the equator, and the meridians through the axes."""
        angles = np.radians(np.arange(0, 360, 5))
        halves = []
        for i, j in ((0, 1), (0, 2), (1, 2)):
            ring = np.zeros((len(angles), 3))
            ring[:, i], ring[:, j] = np.cos(angles), np.sin(angles)
            places, behind = self.place(ring)
            starts = np.flatnonzero(behind & ~np.roll(behind, -1))  # the last one behind before the front begins
            turn = int(starts[0]) + 1 if len(starts) else 0
            halves.append(np.roll(places, -turn, axis=0)[~np.roll(behind, -turn)].round(4))
        return halves

    def put(self, old: list[float], x: float, y: float) -> list[float]:
        place = np.array([x, y]) / self.radius
        place /= max(1.0, float(np.linalg.norm(place)))  # outside the disc: its rim
        depth = np.sqrt(max(0.0, 1 - float(place @ place)))
        direction = np.append(place, depth) @ self.axes
        return [*(round(degrees, 1) for degrees in _degrees(direction)), *old[2:]]

    def step(self, old: list[float], x: int, y: int) -> list[float]:
        longitude = (old[0] + 2 * x + 180) % 360 - 180
        return [round(longitude, 1), round(min(max(old[1] + 2 * y, -90), 90), 1), *old[2:]]


def _degrees(direction: Float) -> list[float]:
    longitude = float(np.degrees(np.arctan2(direction[1], direction[0])))
    level = float(np.hypot(direction[0], direction[1]))
    return [longitude, float(np.degrees(np.arctan2(direction[2], level)))]


def hull_edges(points: Float) -> list[tuple[int, int]]:
    """Pairs of points that an edge of the convex hull joins, for drawing only: in plane and space."""
    try:
        faces = scipy.spatial.ConvexHull(points).simplices
    except (scipy.spatial.QhullError, ValueError):
        return []  # too few points, or all in a line or plane: there is no hull to draw
    sides = [(face[i], face[j]) for face in faces for i in range(len(face)) for j in range(i)]
    return sorted({(int(min(side)), int(max(side))) for side in sides})


def direction(word: str) -> tuple[int, int]:
    """The step that an arrow key stands for."""
    if word not in STEPS:
        raise InputError(f"A point moves {', '.join(STEPS)}, not {word!r}.")
    return STEPS[word]

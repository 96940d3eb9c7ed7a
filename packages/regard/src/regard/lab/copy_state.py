"""The setup of the page on copying: keys, a query, the chosen keys, where they are drawn, what a user can do to them.

Keys lie in the plane, or on a sphere seen from somewhere; words of an address (rows of numbers) say where. A drawing is
the square from -WINDOW to WINDOW. Queries are long beside keys, so they are drawn at a fifth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import scipy  # its rooms load when they are first used
from numpy.typing import NDArray

import regard
from regard.array_types import Float
from regard.errors import CouldNotFindOut, InputError
from regard.lab.page import State, format_rows, shortest_text
from regard.written_numbers import is_count

if TYPE_CHECKING:
    from regard.design import Design


WINDOW = 2.2
QUERY = 0.2  # the length at which a query of norm 1 is drawn
STEPS = {"left": (-1, 0), "right": (1, 0), "up": (0, 1), "down": (0, -1)}


class Plane:
    """Keys with two coordinates, drawn where they are."""

    def keys(self, rows: list[list[float]]) -> Float:
        return np.array(rows, dtype=np.float64)

    def query(self, words: list[float]) -> Float:
        return np.array(words, dtype=np.float64)

    def words(self, query: Float) -> list[float]:
        return [float(x) for x in query]

    def place(self, vectors: Float) -> tuple[Float, NDArray[np.bool_]]:
        """Places (x, y) in the drawing, and which of them are behind."""
        return vectors, np.zeros(len(vectors), dtype=bool)

    def circles(self) -> list[Float]:
        """Lines that give the drawing depth."""
        return []

    def put(self, old: list[float], x: float, y: float) -> list[float]:
        """The row of a key, or the words of a query, once it is dragged to a place of the drawing."""
        return [round(min(max(value, -WINDOW), WINDOW), 2) for value in (x, y)]

    def step(self, old: list[float], x: int, y: int) -> list[float]:
        """The same, one press of an arrow key further."""
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


QUEUE = 1000  # actions that may wait while an answer is on its way
MOST = 10  # keys: as many as can be told apart in the drawing, and asked about while one drags
HALF = repr(3**0.5 / 2)  # every digit: the hexagon of example:hexagon, to which the tutorial compares it
STARTS = {  # where the keys are, their rows, the query, the chosen keys
    "square": ("plane", "1,1; -1,1; -1,-1; 1,-1; 1.6,0.2", "3,2", "4"),
    "triangle": ("plane", "-1.2,-0.8; 1.4,-0.8; 0,1.4; 0.1,-0.8; 0,0", "0,4", "2"),
    "hexagon": ("plane", f"1,0; 0.5,{HALF}; -0.5,{HALF}; -1,0; -0.5,-{HALF}; 0.5,-{HALF}", "3,2", "0,1"),
    "two axes": ("plane", "1,0; 0,1", "3,1", "0"),
    "three axes": ("sphere", "0,0; 90,0; 0,90", "30,20,4", "0"),
    "six directions": ("sphere", "0,0; 90,0; 180,0; -90,0; 0,90; 0,-90", "40,25,4", "0,1"),
}
START = dict(zip(("space", "keys", "q", "to"), STARTS["square"], strict=True)) | {
    "eps": "0.01",
    "view": "25,20",
    "do": "",
}


@dataclass
class CopySetup:
    """What the user has set up; `rows` and `query` are the words of the address, `keys` and `vector` what they mean."""

    space: str
    rows: list[list[float]]
    query: list[float]
    chosen: list[int]
    eps: float
    view: list[float]

    @property
    def scene(self) -> Plane | Sphere:
        return Plane() if self.space == "plane" else Sphere(*self.view)

    @property
    def keys(self) -> Float:
        return self.scene.keys(self.rows)

    @property
    def vector(self) -> Float:
        return self.scene.query(self.query)

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.vector))

    def words(self) -> dict[str, str]:
        """The setup as words of the address."""
        return {
            "space": self.space,
            "keys": format_rows(self.rows),
            "q": format_rows([self.query]),
            "to": ",".join(map(str, self.chosen)),
            "eps": shortest_text(self.eps),
            "view": format_rows([self.view]),
        }

    def design(self) -> Design | str | None:
        """The shortest query for the chosen keys; why it could not be found out; None where no key is chosen."""
        if not self.chosen:
            return None
        return _shortest_query(tuple(map(tuple, self.keys.tolist())), tuple(self.chosen), self.eps)


@lru_cache(maxsize=8)  # a query that is dragged changes nothing of it
def _shortest_query(rows: tuple[tuple[float, ...], ...], chosen: tuple[int, ...], eps: float) -> Design | str:
    try:
        if len(chosen) == 1:
            return regard.design.copy(np.array(rows), chosen[0], eps=eps)
        return regard.design.share(np.array(rows), list(chosen), eps=eps)
    except CouldNotFindOut as error:
        return str(error)


def read_setup(state: State) -> CopySetup:
    """The setup that the words of an address describe."""
    space = state.choice("space", ("plane", "sphere"))
    rows = state.rows("keys", width=2, most=MOST, size=360)
    return CopySetup(
        space=space,
        rows=rows,
        query=state.numbers("q", count=2 if space == "plane" else 3, size=1e4),
        chosen=state.indices("to", below=len(rows)),
        eps=state.number("eps", least=1e-9, most=1e3),
        view=state.numbers("view", count=2, size=360),
    )


def apply_actions(setup: CopySetup, actions: str) -> tuple[CopySetup, tuple[str, ...]]:
    """The setup after every action in turn, and why some could not be done; a single one that cannot be is refused.

    >>> actions = "nudge 0 left; nudge 0 left; choose 9; nudge 0 left"
    >>> setup, complaints = apply_actions(read_setup(State({}, start=START)), actions)
    >>> setup.rows[0], complaints
    ([0.85, 1.0], ('There is no key 9; keys are counted from 0 to 4.',))
    """
    one_by_one = [action for action in actions.split(";") if action.strip()]
    if len(one_by_one) == 1:
        return apply_action(setup, one_by_one[0]), ()
    if len(one_by_one) > QUEUE:
        raise InputError(f"A page does {QUEUE} things at once at most, not {len(one_by_one)}.")
    complaints = []
    for action in one_by_one:
        try:
            setup = apply_action(setup, action)
        except InputError as error:  # the others were done by the same hand, and still count
            complaints.append(str(error))
    return setup, tuple(dict.fromkeys(complaints))


def apply_action(setup: CopySetup, action: str) -> CopySetup:
    """The setup after one action: move, nudge, choose, start, use, norm, turn, add, remove; or none.

    >>> apply_action(read_setup(State({}, start=START)), "choose 0").chosen
    [0, 4]
    """
    match action.split():
        case []:
            pass
        case ["start", *name] if " ".join(name) in STARTS:
            space, keys, query, chosen = STARTS[" ".join(name)]
            return read_setup(State({"space": space, "keys": keys, "q": query, "to": chosen}, start=START))
        case ["move", item, x, y]:
            _move_point(setup, item, lambda old: setup.scene.put(old, _number(x), _number(y)))
        case ["nudge", item, word]:
            _move_point(setup, item, lambda old: setup.scene.step(old, *direction(word)))
        case ["choose", index]:
            setup.chosen = sorted(set(setup.chosen) ^ {_key_index(setup, index)})
        case ["use", "shortest"]:
            _use_shortest(setup)
        case ["norm", size]:
            _rescale(setup, _number(size))
        case ["turn", across, upwards]:
            setup.view = Sphere(0, 0).step(setup.view, round(_number(across)), round(_number(upwards)))
        case ["add"]:
            _add_key(setup)
        case ["remove"] if len(setup.rows) > 1:
            setup.rows.pop()
            setup.chosen = [i for i in setup.chosen if i < len(setup.rows)]
        case _:
            raise InputError(f"The page cannot do {action!r} here.")
    return setup


def _move_point(setup: CopySetup, item: str, change: Callable[[list[float]], list[float]]) -> None:
    """Change the place of a point: q, the query, or a key's number. In the plane a query is drawn at a fifth."""
    if item != "q":
        index = _key_index(setup, item)
        setup.rows[index] = change(setup.rows[index])
    elif setup.space == "plane":
        setup.query = [round(x / QUERY, 2) for x in change([QUERY * x for x in setup.query])]
    else:
        setup.query = change(setup.query)


def _use_shortest(setup: CopySetup) -> None:
    shortest = setup.design()
    if shortest is None or isinstance(shortest, str) or shortest.query is None:
        raise InputError("There is no shortest query to take: choose keys that a query can serve.")
    setup.query = setup.scene.words(shortest.query)


def _rescale(setup: CopySetup, size: float) -> None:
    if setup.space == "sphere":
        setup.query = [*setup.query[:2], size]
    elif setup.norm > 0:
        setup.query = [round(size * x / setup.norm, 4) for x in setup.vector.tolist()]
    else:
        setup.query = [size, 0.0]


def _add_key(setup: CopySetup) -> None:
    if len(setup.rows) >= MOST:
        raise InputError(f"The drawing has room for {MOST} keys; take one away first.")
    setup.rows.append(_free_place(setup))


def _free_place(setup: CopySetup) -> list[float]:
    """Of a grid of places that can be seen, the one that is farthest from all keys: a new key hides none."""
    if setup.space == "plane":
        grid = [[x / 4, y / 4] for x in range(-6, 7) for y in range(-6, 7)]
    else:
        grid = [[(setup.view[0] + x + 180) % 360 - 180, y] for x in range(-60, 61, 20) for y in range(-60, 61, 20)]
    places = setup.scene.keys(grid)
    free = np.linalg.norm(places[:, None] - setup.keys[None], axis=2).min(axis=1)
    return grid[int(free.round(9).argmax())]


def _key_index(setup: CopySetup, word: str) -> int:
    if not (is_count(word) and int(word) < len(setup.rows)):
        raise InputError(f"There is no key {word[:20]}; keys are counted from 0 to {len(setup.rows) - 1}.")
    return int(word)


def _number(word: str) -> float:
    return State({"place": word}, start={"place": ""}).number("place", least=-1e4, most=1e4)

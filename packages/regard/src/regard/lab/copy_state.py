"""The bench of the page on copying: keys, a query, the chosen keys, and what a hand can do to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import regard
from regard.array_types import Float
from regard.errors import CouldNotFindOut, InputError
from regard.lab.projection import QUERY, Plane, Scene, Sphere, direction
from regard.lab.state import State, format_rows, shortest_text
from regard.written_numbers import is_count

if TYPE_CHECKING:
    from regard.design import Design

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
    def scene(self) -> Scene:
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
        """The bench as words of the address."""
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
        return (
            _shortest_query(tuple(map(tuple, self.keys.tolist())), tuple(self.chosen), self.eps)
            if self.chosen
            else None
        )


@lru_cache(maxsize=8)  # a query that is dragged changes nothing of it
def _shortest_query(rows: tuple[tuple[float, ...], ...], chosen: tuple[int, ...], eps: float) -> Design | str:
    try:
        if len(chosen) == 1:
            return regard.design.copy(np.array(rows), chosen[0], eps=eps)
        return regard.design.share(np.array(rows), list(chosen), eps=eps)
    except CouldNotFindOut as error:
        return str(error)


def read_setup(state: State) -> CopySetup:
    """The bench that the words of an address describe."""
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


def apply_actions(bench: CopySetup, actions: str) -> tuple[CopySetup, tuple[str, ...]]:
    """The bench after every action in turn, and why some could not be done; a single one that cannot be is refused.

    >>> actions = "nudge 0 left; nudge 0 left; choose 9; nudge 0 left"
    >>> bench, complaints = apply_actions(read_setup(State({}, start=START)), actions)
    >>> bench.rows[0], complaints
    ([0.85, 1.0], ('There is no key 9; keys are counted from 0 to 4.',))
    """
    one_by_one = [action for action in actions.split(";") if action.strip()]
    if len(one_by_one) == 1:
        return apply_action(bench, one_by_one[0]), ()
    if len(one_by_one) > QUEUE:
        raise InputError(f"A page does {QUEUE} things at once at most, not {len(one_by_one)}.")
    complaints = []
    for action in one_by_one:
        try:
            bench = apply_action(bench, action)
        except InputError as error:  # the others were done by the same hand, and still count
            complaints.append(str(error))
    return bench, tuple(dict.fromkeys(complaints))


def apply_action(bench: CopySetup, action: str) -> CopySetup:
    """The bench after one action: move, nudge, choose, start, use, norm, turn, add, remove; or none.

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
            _move_point(bench, item, lambda old: bench.scene.put(old, _number(x), _number(y)))
        case ["nudge", item, word]:
            _move_point(bench, item, lambda old: bench.scene.step(old, *direction(word)))
        case ["choose", index]:
            bench.chosen = sorted(set(bench.chosen) ^ {_key_index(bench, index)})
        case ["use", "shortest"]:
            _use_shortest(bench)
        case ["norm", size]:
            _rescale(bench, _number(size))
        case ["turn", across, upwards]:
            bench.view = Sphere(0, 0).step(bench.view, round(_number(across)), round(_number(upwards)))
        case ["add"]:
            _add_key(bench)
        case ["remove"] if len(bench.rows) > 1:
            bench.rows.pop()
            bench.chosen = [i for i in bench.chosen if i < len(bench.rows)]
        case _:
            raise InputError(f"The page cannot do {action!r} here.")
    return bench


def _move_point(bench: CopySetup, item: str, change: Callable[[list[float]], list[float]]) -> None:
    """Change the place of a point: q, the query, or a key's number. In the plane a query is drawn at a fifth."""
    if item != "q":
        index = _key_index(bench, item)
        bench.rows[index] = change(bench.rows[index])
    elif bench.space == "plane":
        bench.query = [round(x / QUERY, 2) for x in change([QUERY * x for x in bench.query])]
    else:
        bench.query = change(bench.query)


def _use_shortest(bench: CopySetup) -> None:
    shortest = bench.design()
    if shortest is None or isinstance(shortest, str) or shortest.query is None:
        raise InputError("There is no shortest query to take: choose keys that a query can serve.")
    bench.query = bench.scene.words(shortest.query)


def _rescale(bench: CopySetup, size: float) -> None:
    if bench.space == "sphere":
        bench.query = [*bench.query[:2], size]
    elif bench.norm > 0:
        bench.query = [round(size * x / bench.norm, 4) for x in bench.vector.tolist()]
    else:
        bench.query = [size, 0.0]


def _add_key(bench: CopySetup) -> None:
    if len(bench.rows) >= MOST:
        raise InputError(f"The drawing has room for {MOST} keys; take one away first.")
    bench.rows.append(_free_place(bench))


def _free_place(bench: CopySetup) -> list[float]:
    """Of a grid of places that can be seen, the one that is farthest from all keys: a new key hides none."""
    if bench.space == "plane":
        grid = [[x / 4, y / 4] for x in range(-6, 7) for y in range(-6, 7)]
    else:
        grid = [[(bench.view[0] + x + 180) % 360 - 180, y] for x in range(-60, 61, 20) for y in range(-60, 61, 20)]
    places = bench.scene.keys(grid)
    free = np.linalg.norm(places[:, None] - bench.keys[None], axis=2).min(axis=1)
    return grid[int(free.round(9).argmax())]


def _key_index(bench: CopySetup, word: str) -> int:
    if not (is_count(word) and int(word) < len(bench.rows)):
        raise InputError(f"There is no key {word[:20]}; keys are counted from 0 to {len(bench.rows) - 1}.")
    return int(word)


def _number(word: str) -> float:
    return State({"place": word}, start={"place": ""}).number("place", least=-1e4, most=1e4)

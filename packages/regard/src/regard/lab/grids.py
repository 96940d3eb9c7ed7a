"""Which states of a page the offline copy holds: for each page a few grids, small enough to be computed at once.

A grid has words that are fixed and axes, words with several values each; its states are all combinations. In the copy a
slider goes to the nearest state that is held. What a user does to a page in actions ("norm 5", "start hexagon") is
listed here too: the word that an action changes, and the number that each value stands for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import regard
from regard.examples import example
from regard.lab.copy_state import QUERY, START, STARTS, read_setup
from regard.lab.page import ANSWERS, WHY, State, format_rows, pages
from regard.lab.pages import claims, order, rank, translator
from regard.lab.pages.copy import EPS
from regard.lab.tour import CARDS, TourTask
from regard.strict_json import JsonObject
from regard.translator.runs.files import EXAMPLE, FOLDER
from regard.translator.runs.settings import load_settings

DIRECTIONS, NORMS = 12, (1.0, 2.0, 4.0, 8.0, 12.0)
SPREADS = ("0", "0.1", "0.2", "0.5", "0.8", "1", "2", "4")
SCALES = ("1", "2", "5", "10", "20", "40", "60")
ISOS, COUNTS = ("0.005", "0.01", "0.05", "0.1", "0.5"), ("2", "5", "10", "20")
LENGTHS = ("10", "100", "1000", "10000")
RANKS = 12  # per matrix
TOUR = {"keys", "q", "to", "view", "rank"}  # words in which the tour may leave what is held anyway


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Fixed words, axes, and actions: what each one changes, and how a value is found."""

    fixed: dict[str, str]
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    actions: dict[str, JsonObject] = field(default_factory=dict)

    def states(self) -> Iterator[dict[str, str]]:
        """Every state, the last axis moving fastest.

        >>> [state["b"] for state in Grid(fixed={"a": "1"}, axes={"b": ("2", "3")}).states()]
        ['2', '3']
        """
        for values in itertools.product(*self.axes.values()):
            yield {**self.fixed, **dict(zip(self.axes, values, strict=True))}

    def to_dict(self) -> JsonObject:
        axes = [{"word": word, "values": list(values)} for word, values in self.axes.items()]
        return {"fixed": self.fixed, "axes": axes, "actions": self.actions}


def grids(page: str, hidden: frozenset[str] = frozenset()) -> list[Grid]:
    """The grids of a page; the first state of the first one is where the page begins."""
    start = {word: value for word, value in pages()[page].start.items() if word != "do"}
    made = {
        "copy": lambda: [one for name in STARTS for one in _copy(_start_words(name))],
        "noise": lambda: _noise(start),
        "order": lambda: _order(start),
        "rank": lambda: _rank(start),
        "translator": lambda: _translator(start),
        "claims": lambda: _claims(start, hidden),
        "models": lambda: [Grid(fixed={"text": _sentences()[0]})],
    }
    held = made[page]() if page in made else [Grid(fixed=start)]
    return held if {ANSWERS, WHY} & hidden else held + _tour(page, held)


def page_actions(page: str) -> dict[str, dict[str, str]]:
    """Actions that lead to the same state from everywhere."""
    return {f"start {name}": _start_words(name) for name in STARTS} if page == "copy" else {}


def nearby_grids(page: str, words: dict[str, str], hidden: frozenset[str]) -> list[Grid]:
    """The state of ``words`` and a few beside it, one word changed at a time: what a page in one file holds."""
    whole = {word: value for word, value in ({**pages()[page].start, **words}).items() if word != "do"}
    beside: dict[str, dict[str, Sequence[str]]] = {
        "noise": {"spread": SPREADS[1:6], "scale": SCALES[1:5]},
        "rank": {"rank": [str(k) for k in range(1, 9)]},
        "order": {"positions": ("off", "on")},
        "claims": {} if ANSWERS in hidden else {"show": claims.SHOWN},
    }
    if page == "copy":
        return _copy(whole, directions=1)
    lines = [_grid(whole, {word: values}) for word, values in beside.get(page, {}).items()]
    return lines or [Grid(fixed=whole)]


def _grid(words: dict[str, str], axes: dict[str, Sequence[str]], actions: dict[str, JsonObject] | None = None) -> Grid:
    """A few words with several values, the one that each has before all others; the rest as they are."""
    fixed = {name: value for name, value in words.items() if name not in axes}
    held = {word: _put_first(words[word], values) for word, values in axes.items()}
    return Grid(fixed=fixed, axes=held, actions=actions or {})


def _start_words(name: str) -> dict[str, str]:
    """The words of a start of the page on copying, as the page itself writes them."""
    words = dict(zip(("space", "keys", "q", "to"), STARTS[name], strict=True))
    return read_setup(State(words, start=START)).words()


def _copy(words: dict[str, str], directions: int | None = None) -> list[Grid]:
    """Each key alone, for several eps; on the sphere the query in several directions and lengths, too.

    In the plane the page computes by itself what another query gives.
    """
    setup = read_setup(State(words, start=START))
    alone = [str(key) for key in range(len(setup.rows))]
    numbers = [[float(one)] if one in alone else [-1.0] for one in _put_first(words["to"], alone)]
    chosen = _grid(words, {"to": alone, "eps": EPS}, {"choose": {"word": "to", "numbers": numbers}})
    return [_queries_grid(words, directions or DIRECTIONS), chosen] if setup.space == "sphere" else [chosen]


def _queries_grid(words: dict[str, str], directions: int) -> Grid:
    rows = _queries(words, directions)
    setups = [read_setup(State({**words, "q": row}, start=START)) for row in _put_first(words["q"], rows)]
    vectors = [setup.vector for setup in setups]
    places = setups[0].scene.place(QUERY * np.array(vectors))[0]
    by_norm = {"word": "q", "numbers": [[float(np.linalg.norm(v))] for v in vectors], "like": _angles(vectors)}
    by_place = {"word": "q", "numbers": places.round(4).tolist()}
    return _grid(words, {"q": rows}, {"norm": by_norm, "move q": by_place})


def _queries(words: dict[str, str], directions: int) -> list[str]:
    """Words of queries around the circle of latitude of the one that is there."""
    longitude, latitude, _ = read_setup(State(words, start=START)).query
    turns = [(longitude + 360 * k / directions + 180) % 360 - 180 for k in range(directions)]
    return [format_rows([[round(turn, 1), latitude, norm]]) for turn in turns for norm in NORMS]


def _angles(vectors: list[Any]) -> list[int]:
    """A number for each direction: a change of length keeps to the queries of the same one."""
    units = [np.round(v / (np.linalg.norm(v) or 1.0), 2).tolist() for v in vectors]
    seen: list[list[float]] = []
    for unit in units:
        if not any(np.allclose(unit, other, atol=0.02) for other in seen):
            seen.append(unit)
    return [next(i for i, other in enumerate(seen) if np.allclose(unit, other, atol=0.02)) for unit in units]


def _tour(page: str, held: Sequence[Grid]) -> list[Grid]:
    """Where the tour's cards begin, and what their tasks show, as far as no other grid has it."""
    there = [state for grid in held for state in grid.states()]
    added: list[Grid] = []
    for card in (card for card in CARDS if card.page == page):
        for shown in [{}, *(task.shown for task in card.tasks if "do" not in task.shown)]:
            words = {**there[0], **card.start, **shown}
            gaps = [_different_words(words, state) for state in there]
            if set() not in gaps and any(gap <= TOUR for gap in gaps):
                added.append(Grid(fixed=words))
                there.append(words)
    return added


def can_show(task: TourTask, began: dict[str, str], held: Sequence[Grid]) -> bool:
    """Whether the grids of a card's page hold what a task shows."""
    words = {**next(held[0].states()), **began, **task.shown}
    return "do" not in words and any(not _different_words(words, one) for grid in held for one in grid.states())


def _different_words(words: dict[str, str], others: dict[str, str]) -> set[str]:
    return {name for name in words if words[name].replace(" ", "") != others.get(name, "").replace(" ", "")}


def _noise(start: dict[str, str]) -> list[Grid]:
    axes: list[dict[str, Sequence[str]]] = [{"spread": SPREADS, "scale": SCALES}, {"iso": ISOS}, {"keys": COUNTS}]
    return [_grid(start, one) for one in axes]


def _order(start: dict[str, str]) -> list[Grid]:
    """Every order of the first sentence, with and without positions; and the chart by dimension, length and format."""
    count = len(start["text"].split())
    orders = _put_first(start["order"], [",".join(map(str, p)) for p in itertools.permutations(range(count))])
    shuffled = _grid(start, {"order": orders, "positions": ("off", "on")}, _moves(orders, count))
    chart = _grid(start, {"dim": [str(dim) for dim in order.DIMS], "length": LENGTHS, "format": order.FORMATS})
    return [shuffled, chart]


def _moves(orders: Sequence[str], count: int) -> dict[str, JsonObject]:
    """Where each action leads from each order; a shuffle goes to any."""
    moves = [f"move {a} {b}" for a in range(count) for b in range(count) if a != b]
    tables: dict[str, JsonObject] = {action: {"word": "order", "next": {}} for action in [*moves, "reverse", "restore"]}
    for one in orders:
        for action, table in tables.items():
            table["next"][one] = order.order_after(one, action)
    return {**tables, "shuffle": {"word": "order", "any": True}}


def _rank(start: dict[str, str]) -> list[Grid]:
    made = []
    for name in _put_first(start["matrix"].removeprefix("example:"), rank.MATRICES):
        most = min(*example(name).shape, RANKS)
        wanted = [str(k) for k in range(1, most + 1)]
        first = start["rank"] if start["rank"] in wanted else wanted[0]
        made.append(_grid({"matrix": f"example:{name}", "rank": first}, {"rank": wanted}))
    return made


def _translator(start: dict[str, str]) -> list[Grid]:
    """The package's own run, every head of a few sentences; none of the folder's runs, which are somebody's own."""
    model = load_settings(FOLDER / "settings.toml").model
    layers, heads = (list(map(str, range(count))) for count in (model.decoder_layers, model.heads))
    return [_grid({**start, "run": EXAMPLE, "text": text}, {"layer": layers, "head": heads}) for text in _sentences()]


def _sentences() -> list[str]:
    first = translator.first_sentence(FOLDER)
    return list(_put_first(first, translator.examples(FOLDER)))


def _claims(start: dict[str, str], hidden: frozenset[str]) -> list[Grid]:
    shown = () if ANSWERS in hidden else claims.SHOWN
    names = _put_first(start["claim"], list(regard.claims))
    return [_grid({**start, "claim": name}, {"show": shown}) for name in names]


def _put_first(value: str, others: Sequence[str]) -> tuple[str, ...]:
    """The values, this one before all others."""
    return tuple(dict.fromkeys([value, *others]))

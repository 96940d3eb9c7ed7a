"""Order: a sentence one can shuffle, a layer with and without positions, and positions that collide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import regard
from regard.array_types import Float
from regard.errors import CouldNotFindOut, InputError
from regard.lab.copy_state import QUEUE
from regard.lab.page import Answer, Explanation, Number, Page, State, tex
from regard.strict_json import JsonObject
from regard.written_numbers import is_count

if TYPE_CHECKING:
    from regard.positions import Positions
    from regard.symmetry import Symmetry

MOST = 12  # words: as many as stand side by side
TRIALS = 24  # permutations that the verdict tries
SHOWN = 16  # numbers of an output that are drawn
DIMS = (2, 4, 6, 8, 16, 32, 64)
DRAWN = (2, 4, 6, 8)  # dimensions in the chart beside the chosen one
LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
FORMATS = ("real", "float32", "bfloat16", "float16")
SENTENCES = ("the dog bit the man", "zwei junge Hunde spielen im Schnee", "not all that glitters is gold")

WHY = (
    Explanation(
        question="Why do two positions nearly meet?",
        because="Each pair of dimensions is a clock hand, and two positions are near when all hands stand nearly "
        "alike. With few hands the longer a table is, the nearer some two of its positions come; a coarse number "
        "format then rounds both to the same row.",
        lit="chosen",
    ),
)


@dataclass(kw_only=True)
class OrderSetup:
    """The state, read: a sentence, the order its words are in, and which positions."""

    words: list[str]
    order: list[int]  # the word at each place
    positions: bool
    dim: int
    seed: int
    length: int
    format: str

    def state(self) -> dict[str, str]:
        return {"text": " ".join(self.words), "order": ",".join(map(str, self.order))}


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The layer's outputs: of the sentence as it was, its rows then put into the new order, and of the new sentence."""

    first: Float
    second: Float
    verdict: Symmetry

    @property
    def differences(self) -> Float:
        """The largest difference in each place."""
        return np.asarray(np.abs(self.first - self.second).max(axis=1))

    @property
    def largest(self) -> float:
        return float(self.differences.max())


def answer(state: State) -> Answer:
    """The sentence through the layer, and what is known about the positions."""
    setup = _read_setup(state)
    for action in state.text("do").split(";")[:QUEUE]:
        _apply_action(setup.order, action.split())
    outputs = _outputs(tuple(setup.words), tuple(setup.order), setup.positions, setup.dim, setup.seed)
    positions = _positions(setup.dim, setup.length, setup.format)
    return Answer(
        picture=_picture(setup, outputs),
        numbers=_numbers(setup, outputs, positions),
        say=_say(setup, outputs, positions),
        formulas=_formulas(setup, outputs),
        python=_python(setup),
        shell=_shell(setup),
        state=setup.state(),
        why=WHY,
    )


def _read_setup(state: State) -> OrderSetup:
    words = state.text("text").split()
    if not 2 <= len(words) <= MOST:
        raise InputError(f"The sentence must have 2 to {MOST} words, not {len(words)}.")
    if max(map(len, words)) > 30:
        raise InputError("A word may have at most 30 letters; put spaces between the words.")
    return OrderSetup(
        words=words,
        order=_parse_order(state.text("order"), len(words)),
        positions=state.choice("positions", ("on", "off")) == "on",
        dim=int(state.choice("dim", [str(dim) for dim in DIMS])),
        seed=state.whole_number("seed", least=0, most=10**6),
        length=int(state.choice("length", [str(length) for length in LENGTHS])),
        format=state.choice("format", FORMATS),
    )


def _parse_order(text: str, count: int) -> list[int]:
    """A permutation such as 0,2,1; nothing is the order as it came."""
    words = [word.strip() for word in text.split(",")] if text else [str(place) for place in range(count)]
    order = [int(word) if is_count(word) else -1 for word in words]
    if sorted(order) != list(range(count)):
        raise InputError(f"order must name each of the words 0 to {count - 1} once, such as 1,0,2, not {text!r}.")
    return order


def _apply_action(order: list[int], what: list[str]) -> None:
    """Change the order as one action says: move a word to a place, shuffle, reverse, restore."""
    places = [str(place) for place in range(len(order))]
    match what:
        case []:
            return
        case ["move", source, target] if source in places and target in places:
            order.insert(int(target), order.pop(int(source)))
        case ["shuffle", seed] if is_count(seed, digits=19):
            order[:] = np.random.default_rng(int(seed)).permutation(len(order)).tolist()
        case ["reverse"]:
            order.reverse()
        case ["restore"]:
            order.sort()
        case _:
            raise InputError(f"The page cannot do {' '.join(what)!r} here.")


def order_after(words: str, action: str) -> str:
    """An order of words after one action.

    >>> order_after("0,1,2", "move 0 2"), order_after("2,0,1", "restore")
    ('1,2,0', '0,1,2')
    """
    order = _parse_order(words, words.count(",") + 1)
    _apply_action(order, action.split())
    return ",".join(map(str, order))


# What is computed ----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)  # another length or number format changes nothing of it
def _outputs(words: tuple[str, ...], order: tuple[int, ...], positions: bool, dim: int, seed: int) -> Outputs:
    count, moved = len(words), list(order)
    X = np.array([np.random.default_rng([seed, *word.encode()]).standard_normal(dim) for word in words])
    layer = regard.symmetry.random_layer(dim, seed=seed)
    Phi = regard.positions.sinusoidal(count, dim) if positions else np.zeros((count, dim))

    def g(rows: Float) -> Float:
        return layer(rows + Phi)

    return Outputs(
        first=g(X)[moved],
        second=g(X[moved]),
        verdict=regard.symmetry.symmetry(g, length=count, dim=dim, trials=TRIALS, name="g"),
    )


@lru_cache(maxsize=256)
def _positions(dim: int, length: int, format: str) -> Positions | str:
    """What is known about the positions; a sentence where that could not be found out."""
    try:
        return regard.positions.positions(dim=dim, length=length, format=format)
    except CouldNotFindOut as error:
        return str(error)


@lru_cache(maxsize=len(DIMS))
def _nearest(dim: int) -> Float:
    """The distance of the nearest two of each number of positions in LENGTHS, in real arithmetic."""
    records = regard.positions.positions(dim=dim, length=LENGTHS[-1]).records
    return np.array([min(distance for offset, distance in records if offset < length) for length in LENGTHS])


def _rounding(setup: OrderSetup) -> float | None:
    """How near two positions must be in real arithmetic for the format to be able to round them to one."""
    unit = regard.positions.number_formats.unit_roundoff
    return None if setup.format == "real" else float(np.sqrt(setup.dim) * unit(setup.format))


# What is shown -------------------------------------------------------------------------------------------------------


def _picture(setup: OrderSetup, outputs: Outputs) -> JsonObject:
    scale = max(float(np.abs(outputs.first).max()), float(np.abs(outputs.second).max()), 1e-300)
    at = LENGTHS.index(setup.length)
    chosen = _nearest(setup.dim)
    rounding = _rounding(setup)
    return {
        "words": [setup.words[i] for i in setup.order],
        "came": setup.order,
        "first": outputs.first[:, :SHOWN] / scale,
        "second": outputs.second[:, :SHOWN] / scale,
        "differences": [f"{difference:.2g}" for difference in outputs.differences],
        "differs": outputs.differences > outputs.verdict.tolerance,
        "shown": min(SHOWN, setup.dim),
        "sentences": list(SENTENCES),
        "dims": list(DIMS),
        "lengths": list(LENGTHS),
        "formats": list(FORMATS),
        "lines": [_nearest(dim) for dim in DRAWN],
        "chosen": chosen,
        "here": [float(chosen[at]) if i == at else None for i in range(len(LENGTHS))],
        "rounding": None if rounding is None else [rounding] * len(LENGTHS),
    }


def _numbers(setup: OrderSetup, outputs: Outputs, positions: Positions | str) -> tuple[Number, ...]:
    numbers = [
        Number(name="difference", label="difference, your order", value=outputs.largest, form=".3g"),
        Number(name="gap", label=f"{TRIALS} orders of random rows", value=outputs.verdict.gap, form=".3g"),
        Number(name="tolerance", label="rounding alone can make", value=outputs.verdict.tolerance, form=".2g"),
        Number(name="size", label="size of the outputs", value=outputs.verdict.size, form=".3g"),
    ]
    if not isinstance(positions, str) and positions.distance is not None:
        nearest = sum(positions.distance) / 2
        label = "nearest two positions" if setup.format == "real" else f"nearest two in {setup.format}"
        numbers.append(Number(name="nearest", label=label, value=nearest, form=".6g"))
    return tuple(numbers)


def _say(setup: OrderSetup, outputs: Outputs, positions: Positions | str) -> tuple[str, ...]:
    told = outputs.largest > outputs.verdict.tolerance
    if setup.order == sorted(setup.order):
        first = "The words are in their first order: shuffle them, and compare the two rows of colours."
    elif told:
        first = f"The layer tells the two sentences apart: some word's output differs by {outputs.largest:.3g}."
    else:
        first = (
            f"Every word has the output that it had before, but for rounding ({outputs.largest:.2g}): the layer cannot "
            "see the order."
        )
    return (first, _verdict(outputs.verdict), _collision(setup, positions))


def _verdict(verdict: Symmetry) -> str:
    if verdict.order_blind:
        return (
            f"Verdict: g(PX) = P g(X) was not refuted in {verdict.permutations} permutations of random rows "
            "(no proof; the proof is the claim order-blindness)."
        )
    swap = "" if verdict.swap is None else f" The best swap is rows {verdict.swap[0]} and {verdict.swap[1]}, from 0."
    return f"Verdict: not order-blind; g(PX) = P g(X) fails by {verdict.gap:.3g}.{swap}"


def _collision(setup: OrderSetup, positions: Positions | str) -> str:
    if isinstance(positions, str):
        return positions
    numbers = "real arithmetic" if setup.format == "real" else setup.format
    where = f"Of {setup.length:,} positions of dimension {setup.dim} in {numbers}"
    if positions.equal is not None:
        first, second = positions.equal
        return f"{where}, {first} and {second} are bit for bit the same: words there could be swapped unseen."
    if positions.nearest is None or positions.distance is None:
        return f"{where} all are distinct."
    return f"{where} all are distinct; the nearest two are {positions.nearest[0]} and {positions.nearest[1]}."


def _formulas(setup: OrderSetup, outputs: Outputs) -> tuple[str, ...]:
    inside = r"X + \Phi" if setup.positions else "X"
    gap = rf"g(X) = \operatorname{{layer}}({inside}), \quad \max | g(PX) - P\,g(X) | = {tex(outputs.largest, 3)}"
    return (gap, *_distances(setup))


def _distances(setup: OrderSetup) -> tuple[str, str]:
    near = _positions(setup.dim, setup.length, "real")
    distance = (
        r"\lVert \Phi_s - \Phi_t \rVert = \sqrt{\sum_i 4 \sin^2 \frac{(t-s)\,w_i}{2}}, \quad "
        rf"w_i = 10000^{{-2i/{setup.dim}}}"
    )
    least = float(_nearest(setup.dim)[LENGTHS.index(setup.length)])
    nearest = rf"\min_{{s < t < {setup.length}}} \lVert \Phi_s - \Phi_t \rVert = {tex(least, 6)}"
    if not isinstance(near, str) and near.nearest is not None:
        nearest += rf" \;\text{{at}}\; t - s = {near.nearest[1] - near.nearest[0]}"
    return distance, nearest


def _layer(setup: OrderSetup) -> list[str]:
    Phi = f"sinusoidal({len(setup.words)}, {setup.dim})" if setup.positions else "0"
    return [f"f, Phi = random_layer({setup.dim}, seed={setup.seed}), {Phi}", "def g(X): return f(X + Phi)"]


def _python(setup: OrderSetup) -> str:
    rows = f"np.random.default_rng([{setup.seed}, *word.encode()]).standard_normal({setup.dim})"
    asked = f"length={len(setup.words)}, dim={setup.dim}, trials={TRIALS}"
    return "\n".join(
        [
            "import numpy as np",
            "from regard.positions import positions, sinusoidal",
            "from regard.symmetry import random_layer, symmetry",
            *_layer(setup),
            f"words = {setup.words}",
            f"order = {setup.order}",
            f"X = np.array([{rows}",
            "              for word in words])",
            "print(abs(g(X[order]) - g(X)[order]).max())",
            f"print(symmetry(g, {asked}))",
            f'print(positions(dim={setup.dim}, length={setup.length}, format="{setup.format}"))',
        ]
    )


def _shell(setup: OrderSetup) -> str:
    asked = f"--length {len(setup.words)} --dim {setup.dim} --trials {TRIALS}"
    return "\n".join(
        [
            "cat > layer.py << 'END'",
            "from regard.positions import sinusoidal",
            "from regard.symmetry import random_layer",
            *_layer(setup),
            "END",
            f"regard symmetry layer.py:g {asked}",
            f"regard positions --dim {setup.dim} --length {setup.length} --format {setup.format}",
        ]
    )


PAGE = Page(
    place=3,
    title="Order",
    hint="Shuffle the words with positions off, then on; then lower the dimension until two positions collide.",
    about="What attention sees of the order of words, without positions and with them.",
    start={
        "text": SENTENCES[0],
        "order": "0,4,2,3,1",
        "positions": "off",
        "dim": "8",
        "seed": "0",
        "length": "1000",
        "format": "bfloat16",
        "do": "",
    },
    answer=answer,
)

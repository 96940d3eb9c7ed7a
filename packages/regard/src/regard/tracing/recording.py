"""What the recorder hands to the judge: plain arrays and lists, never an object of the other person's.

A recording travels between processes as bytes: the length of a JSON text, the text, and the numbers of the arrays it
points to. On the other side they are somebody's claim and no more: every field has the form it must have, or one
sentence says which has not. The process may have been changed by the code that it ran, so the reader never trusts a
length, a type or a number of a node, nothing is unpickled, and nothing is made that is larger than what was sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from regard.array_types import Array
from regard.errors import InputError
from regard.strict_json import parse_json

KINDS = (
    "translator", "attention", "multi-head attention", "layer", "feed-forward", "norm", "positions", "loss",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where something happens in the person's file."""

    line: int | None = None
    method: str = ""

    def __str__(self) -> str:
        if self.line is None:
            return ""
        return f"line {self.line}" + (f", in {self.method}" if self.method not in ("", "<module>") else "")


NOWHERE = Place()


@dataclass(frozen=True, kw_only=True)
class Event:
    """One operation: the nodes it read and made, its plain arguments, and the line of the file it came from."""

    op: str  # the operation's name without its overload, such as "bmm"
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    plain: tuple[Any, ...] = ()  # numbers among its arguments, in order; lists of them flattened
    line: int | None = None
    method: str = ""
    kind: str = ""  # "moves" where it only rearranges, "random" where it draws

    @property
    def place(self) -> Place:
        return Place(line=self.line, method=self.method)

    @property
    def moves(self) -> bool:
        return self.kind == "moves"


@dataclass(frozen=True, kw_only=True)
class Node:
    """One tensor at one moment. ``live``: it depends on the input; ``parameters``: those it is computed from."""

    live: bool
    parameters: tuple[str, ...]
    shape: tuple[int, ...]
    value: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An exception of the person's code."""

    type: str
    message: str
    line: int | None
    method: str = ""

    @property
    def place(self) -> Place:
        return Place(line=self.line, method=self.method)

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.type}{f': {self.message}' if self.message else ''}"


@dataclass(frozen=True, kw_only=True)
class ForwardPass:
    """The model once, on one input: every event, and what came out (None where it raised first)."""

    inputs: dict[str, Array]
    output: Array | None
    events: tuple[Event, ...] = ()
    nodes: tuple[Node, ...] = ()
    result: int | None = None  # the node that was returned
    raised: Failure | None = None


@dataclass(frozen=True, kw_only=True)
class Slope:
    """One parameter's directional derivative: by the model's own backward pass, and by differences."""

    parameter: str
    backward: float | None  # None: no gradient arrived
    differences: float
    scale: float  # of the rounding of the differences


@dataclass(frozen=True, kw_only=True)
class Recording:
    """All that was asked of one model, in plain data."""

    name: str
    runs: tuple[ForwardPass, ...]  # traced, two shapes
    fresh: tuple[ForwardPass, ...] = ()  # outputs only, other shapes
    parameters: dict[str, Array] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)
    slopes: tuple[Slope, ...] = ()
    unregistered: tuple[str, ...] = ()  # attributes that .to(), state_dict() and the optimiser will not see
    conditions: dict[str, float] = field(default_factory=dict)  # "train", ... -> how far from eval() in float64
    unsteady: bool = False  # two evaluations in eval() differ
    sizes: dict[str, Any] = field(default_factory=dict)  # what the constructor was given
    pad: int | None = None  # the id that is padding, as far as it is known
    kind: str = "translator"
    masked: ForwardPass | None = None  # a part that takes a mask, run with one
    source: str = ""
    padding: str = "either"  # what the file declares: "masked", "read", or either is right
    future: str = "read"  # what the file declares: "read", or "hidden" in a model that is meant to be causal

    @property
    def wavers(self) -> bool:
        """Whether one input has several outputs, so that two runs say nothing about each other."""
        return self.unsteady or self.conditions.get("later", 0.0) > 1e-9

    def to_bytes(self) -> bytes:
        """Bytes from which ``recording_reader`` makes it again; equal arrays are sent once."""
        arrays: dict[tuple[str, tuple[int, ...], bytes], int] = {}
        plain = _without_arrays(asdict(self), arrays)
        form = [[dtype, shape] for dtype, shape, _ in arrays]
        text = json.dumps({"plain": plain, "arrays": form}).encode("ascii")
        return len(text).to_bytes(8, "little") + text + b"".join(data for _, _, data in arrays)


def _without_arrays(value: Any, arrays: dict[tuple[str, tuple[int, ...], bytes], int]) -> Any:
    if isinstance(value, np.ndarray):
        key = (value.dtype.newbyteorder("<").str, value.shape, value.astype(value.dtype.newbyteorder("<")).tobytes())
        return {"array": arrays.setdefault(key, len(arrays))}
    if isinstance(value, dict):
        return {"entries": [[key, _without_arrays(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(item, arrays) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    return value


MOST_STEPS = 50_000  # events or nodes of a run; a one-layer model has some hundreds
MOST_RUNS, MOST_TEXT, MOST_ENTRIES = 20, 300, 20_000
LONGEST_AXIS = 10_000_000
Read = TypeVar("Read")


class MalformedError(ValueError):
    """Not a recording."""


def read_recording(data: bytes) -> Recording:
    """A recording from its bytes; anything malformed is refused."""
    try:
        length = int.from_bytes(data[:8], "little")
        sent = parse_json(data[8 : 8 + length], constants=True)
        plain = _with_arrays(sent["plain"], _arrays(sent["arrays"], memoryview(data)[8 + length :]))
        return _recording(plain)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, MemoryError) as error:
        raise InputError(
            f"The recording of the model is damaged ({type(error).__name__}); run the check again."
        ) from None


def _arrays(forms: Any, data: memoryview) -> list[Array]:
    """The arrays one after the other, each read-only on what was sent."""
    arrays: list[Array] = []
    start = 0
    for name, shape in forms:
        dtype = np.dtype(str(name))
        most = 16 if dtype.kind == "c" else 8  # complex numbers are two floats: some turn positions by them
        if dtype.kind not in "iufbc" or dtype.itemsize > most or len(shape) > 12 or not all(map(_is_axis, shape)):
            raise MalformedError("no array of plain numbers")
        count = math.prod(shape)
        arrays.append(np.frombuffer(data, dtype, count=count, offset=start).reshape(shape) if count else _empty(shape))
        start += count * dtype.itemsize
    return arrays


def _empty(shape: list[int]) -> Array:
    if math.prod(max(n, 1) for n in shape) > LONGEST_AXIS:
        raise MalformedError("an empty array with long axes")
    return np.zeros(shape)


def _is_axis(size: Any) -> bool:
    return type(size) is int and 0 <= size <= LONGEST_AXIS


def _with_arrays(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[_whole_number(value["array"], most=len(arrays) - 1)]
    if "float" in value:
        return float(value["float"])
    return {str(key): _with_arrays(item, arrays) for key, item in value["entries"]}


def _recording(plain: dict[str, Any]) -> Recording:
    if plain["kind"] not in KINDS:
        raise MalformedError("no kind")
    pad = plain["pad"]
    return Recording(
        name=_text(plain["name"]),
        runs=_tuple_of(plain["runs"], _run, most=MOST_RUNS, least=1),
        fresh=_tuple_of(plain["fresh"], _run, most=MOST_RUNS),
        parameters=_named_arrays(plain["parameters"]),
        buffers=_named_arrays(plain["buffers"]),
        slopes=_tuple_of(plain["slopes"], _slope),
        unregistered=_tuple_of(plain["unregistered"], _text),
        conditions={_text(key): float(value) for key, value in plain["conditions"].items()},
        unsteady=bool(plain["unsteady"]),
        sizes={_text(key): _plain_value(value) for key, value in plain["sizes"].items()},
        pad=None if pad is None else _whole_number(pad, least=-(2**31), most=2**31),
        kind=plain["kind"],
        masked=None if plain["masked"] is None else _run(plain["masked"]),
        source=_text(plain["source"]),
        padding=_text(plain["padding"]),
        future=_text(plain["future"]),
    )


def _run(plain: dict[str, Any]) -> ForwardPass:
    nodes = _tuple_of(plain["nodes"], _node, most=MOST_STEPS)
    last = len(nodes) - 1
    output, result, raised = plain["output"], plain["result"], plain["raised"]
    return ForwardPass(
        inputs=_named_arrays(plain["inputs"]),
        output=None if output is None else _array(output),
        events=_tuple_of(plain["events"], lambda one: _event(one, last), most=MOST_STEPS),
        nodes=nodes,
        result=None if result is None else _whole_number(result, most=last),
        raised=None if raised is None else _failure(raised),
    )


def _event(plain: dict[str, Any], last: int) -> Event:
    line = plain["line"]
    return Event(
        op=_text(plain["op"]),
        inputs=_tuple_of(plain["inputs"], lambda node: _whole_number(node, most=last)),
        outputs=_tuple_of(plain["outputs"], lambda node: _whole_number(node, most=last)),
        plain=_tuple_of(plain["plain"], _plain_value),
        line=None if line is None else _whole_number(line, most=10**7),
        method=_text(plain["method"]),
        kind=plain["kind"] if plain["kind"] in ("moves", "random") else "",
    )


def _node(plain: dict[str, Any]) -> Node:
    shape = _tuple_of(plain["shape"], lambda size: _whole_number(size, most=LONGEST_AXIS))
    value = None if plain["value"] is None else _array(plain["value"])
    if value is not None and value.shape != shape:
        raise MalformedError("a node whose numbers have another shape")
    if value is None and math.prod(max(size, 1) for size in shape) > LONGEST_AXIS:
        raise MalformedError("a node with long axes")
    return Node(live=bool(plain["live"]), parameters=_tuple_of(plain["parameters"], _text), shape=shape, value=value)


def _slope(plain: dict[str, Any]) -> Slope:
    backward = plain["backward"]
    return Slope(
        parameter=_text(plain["parameter"]),
        backward=None if backward is None else float(backward),
        differences=float(plain["differences"]),
        scale=float(plain["scale"]),
    )


def _failure(plain: dict[str, Any]) -> Failure:
    line = plain["line"]
    return Failure(
        type=_text(plain["type"]),
        message=_text(plain["message"]),
        line=None if line is None else _whole_number(line, most=10**7),
        method=_text(plain["method"]),
    )


# the smallest forms


def _tuple_of(
    values: Any, read: Callable[[Any], Read], *, most: int = MOST_ENTRIES, least: int = 0
) -> tuple[Read, ...]:
    if not isinstance(values, list) or not least <= len(values) <= most:
        raise MalformedError("no list of a usual length")
    return tuple(read(value) for value in values)


def _named_arrays(plain: Any) -> dict[str, Array]:
    if not isinstance(plain, dict) or len(plain) > MOST_ENTRIES:
        raise MalformedError("no arrays by name")
    return {_text(name): _array(value) for name, value in plain.items()}


def _array(value: Any) -> Array:
    if not isinstance(value, np.ndarray):
        raise MalformedError("no array")
    return value


def _whole_number(value: Any, *, most: int, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= most:
        raise MalformedError("no whole number of its range")
    return value


def _plain_value(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    raise MalformedError("no plain value")


def _text(value: Any) -> str:
    """One line that is fit for a terminal."""
    if not isinstance(value, str):
        raise MalformedError("no text")
    return "".join(c for c in value[: 4 * MOST_TEXT] if c.isprintable())[:MOST_TEXT]

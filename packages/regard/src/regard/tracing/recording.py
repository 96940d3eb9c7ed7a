"""What the recorder hands to the judge: plain arrays and lists, never an object of the other person's.

A recording travels between processes as bytes: the length of a JSON text, the text, and the numbers of the arrays it
points to. :mod:`.recording_reader` reads them on the other side, where they are somebody's claim and no more.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from regard.array_types import Array

KINDS = (
    "translator", "attention", "multi-head attention", "layer", "feed-forward", "norm", "positions", "loss",
)  # fmt: skip


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

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.type}{f': {self.message}' if self.message else ''}"


@dataclass(frozen=True, kw_only=True)
class Run:
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
    runs: tuple[Run, ...]  # traced, two shapes
    fresh: tuple[Run, ...] = ()  # outputs only, other shapes
    parameters: dict[str, Array] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)
    slopes: tuple[Slope, ...] = ()
    unregistered: tuple[str, ...] = ()  # attributes that .to(), state_dict() and the optimiser will not see
    conditions: dict[str, float] = field(default_factory=dict)  # "train", ... -> how far from eval() in float64
    unsteady: bool = False  # two evaluations in eval() differ
    sizes: dict[str, Any] = field(default_factory=dict)  # what the constructor was given
    pad: int | None = None  # the id that is padding, as far as it is known
    kind: str = "translator"
    masked: Run | None = None  # a part that takes a mask, run with one
    source: str = ""
    padding: str = "either"  # what the file declares: "masked", "read", or either is right

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

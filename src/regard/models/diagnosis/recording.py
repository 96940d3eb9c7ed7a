"""What the recorder hands to the judge: plain arrays and lists, never an object of the other person's.

A recording travels between processes as the bytes of one .npz file: a JSON text, and the arrays it points to. Nothing
is unpickled.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

Array = NDArray[Any]


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
class Raised:
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
    raised: Raised | None = None


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
    unsteady: bool = False  # two evaluations in eval() differ
    sizes: dict[str, Any] = field(default_factory=dict)  # what the constructor was given
    pad: int | None = None  # the id that is padding, as far as it is known
    kind: str = "translator"
    masked: Run | None = None  # a part that takes a mask, run with one
    source: str = ""

    def packed(self) -> bytes:
        """The bytes of an .npz file; :func:`unpacked` is the way back."""
        arrays: list[Array] = []
        text = json.dumps(_without_arrays(asdict(self), arrays))
        stream = io.BytesIO()
        named = {f"a{place}": array for place, array in enumerate(arrays)}
        np.savez(stream, text=np.frombuffer(text.encode(), dtype=np.uint8), **named)  # type: ignore[arg-type]
        return stream.getvalue()


def unpacked(data: bytes) -> Recording:
    """A recording from its bytes; anything malformed is refused."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            plain = _with_arrays(json.loads(bytes(file["text"])), file)
        return _recording(plain)
    except (ValueError, KeyError, TypeError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"The recording of the model is damaged ({type(error).__name__}); run the check again."
        ) from None


def _recording(plain: dict[str, Any]) -> Recording:
    made: dict[str, Any] = dict(plain)
    made["runs"] = tuple(_run(one) for one in plain["runs"])
    made["fresh"] = tuple(_run(one) for one in plain["fresh"])
    made["slopes"] = tuple(Slope(**one) for one in plain["slopes"])
    made["unregistered"] = tuple(plain["unregistered"])
    made["masked"] = None if plain["masked"] is None else _run(plain["masked"])
    return Recording(**made)


def _run(plain: dict[str, Any]) -> Run:
    made: dict[str, Any] = dict(plain)
    made["events"] = tuple(Event(**_tuples(one)) for one in plain["events"])
    made["nodes"] = tuple(Node(**_tuples(one)) for one in plain["nodes"])
    made["raised"] = None if plain["raised"] is None else Raised(**plain["raised"])
    return Run(**made)


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()}


def _without_arrays(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, dict):
        return {"entries": [[key, _without_arrays(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return [_without_arrays(item, arrays) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    return value


def _with_arrays(value: Any, arrays: Any) -> Any:
    if isinstance(value, list):
        return [_with_arrays(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[f"a{int(value['array'])}"]
    if "float" in value:
        return float(value["float"])
    return {key: _with_arrays(item, arrays) for key, item in value["entries"]}

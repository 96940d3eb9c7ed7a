"""The tables that words and places are looked up in, found in the dataflow: by what reads them, not by their names."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from regard.array_types import Array
from regard.tracing.dataflow import Anchor, AppliedArray, Dataflow
from regard.tracing.recording import ForwardPass, Recording


def is_subset(wanted: Array, there: Array, *, tolerance: float = 1e-9) -> bool:
    """Whether every one of these numbers is in a sorted array, up to rounding; zeros say nothing and are left out."""
    wanted = np.asarray(wanted).ravel()
    wanted = wanted[np.abs(wanted) > 1e-12]
    if not there.size or not np.isfinite(wanted).all():
        return False
    return _are_all_near(wanted[:9], there, tolerance) and _are_all_near(
        wanted, there, tolerance
    )  # most are refused by the first few


def _are_all_near(wanted: Array, there: Array, tolerance: float) -> bool:
    place = np.clip(np.searchsorted(there, wanted), 1, len(there) - 1) if len(there) > 1 else np.zeros(len(wanted), int)
    near = np.minimum(np.abs(there[place] - wanted), np.abs(there[place - 1] - wanted))
    return bool((near <= tolerance * (1 + np.abs(wanted))).all())


def find_tokens(flow: Dataflow, run: ForwardPass) -> Anchor | None:
    """The table that is read by the ids themselves, or a linear that is applied to one-hot ids."""
    for anchor in flow.anchors:
        if anchor.kind == "tokens" and np.array_equal(
            np.unique(flow.value(anchor.left[0])), np.unique(run.inputs["ids"])
        ):
            return anchor
        if anchor.kind == "linear" and not anchor.reads and set(np.unique(flow.value(anchor.left[0]))) <= {0.0, 1.0}:
            return anchor
    return next((anchor for anchor in flow.anchors if anchor.kind == "tokens"), None)


def states_width(flow: Dataflow, run: ForwardPass) -> int:
    tokens = find_tokens(flow, run) if "ids" in run.inputs else None
    if tokens is not None and tokens.weight is not None:
        return int(tokens.weight.shape[1])
    return int(next(iter(run.inputs.values())).shape[-1])


def find_positions(flow: Dataflow, recording: Recording) -> tuple[tuple[Array, ...], bool, tuple[str, ...]]:
    """Tables whose rows are added to the tokens: the parameter they come from, or the constants themselves."""
    width = states_width(flow, flow.run)
    tables: list[Array] = []
    names: list[str] = []
    for one in flow.applied:
        early = all(flow.anchors[a].kind == "tokens" or not flow.anchors[a].reads for a in one.to)
        if (
            one.op in ("add", "mul")
            and early
            and one.value.ndim > 0
            and width in one.value.shape[-2:]
            and (one.parameters or one.value.ndim >= 2)
        ):
            names += one.parameters
            tables += _tables(one, recording, width)
    for one in flow.applied if not tables else ():  # rows of a table that are added only behind attention
        if one.op == "add" and one.parameters and one.value.ndim >= 2 and one.value.shape[-1] == width:
            names += one.parameters
            tables += _tables(one, recording, width)
    for anchor in flow.anchors:  # a table that is read by places computed from the ids
        if anchor.kind == "tokens" and anchor.weight is not None and anchor is not find_tokens(flow, flow.run):
            tables.append(anchor.weight)
            names += anchor.parameters
    return tuple(_unique(tables)), bool(names), tuple(dict.fromkeys(names))


def _tables(one: AppliedArray, recording: Recording, width: int) -> list[Array]:
    sources = [recording.parameters[name] for name in one.parameters if name in recording.parameters]
    if not sources:
        sources = [
            b for b in recording.buffers.values() if b.ndim >= 2 and b.shape[-1] == width and b.dtype.kind == "f"
        ]
    upright = one.value.shape[-1] == width
    sources = [source if upright or source.ndim < 2 else source.swapaxes(-1, -2) for source in sources]
    tables = [source.reshape(-1, width) for source in sources if source.ndim >= 2 and source.shape[-1] == width]
    value = _rows(one.value if upright else one.value.swapaxes(-1, -2), width)
    return tables or [value]


def _rows(value: Array, width: int) -> Array:
    """Rows of a constant that is added: (T, width), (1, T, width) or one that is repeated for every sentence."""
    flat = value.reshape(-1, *value.shape[-2:])
    return flat[0] if flat.shape[1] > 1 else flat[:, 0]


def _unique(arrays: Iterable[Array]) -> list[Array]:
    kept: dict[bytes, Array] = {}
    for array in arrays:
        kept.setdefault(array.tobytes(), array)
    return list(kept.values())

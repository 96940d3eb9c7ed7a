"""Comparing the reference with a run: what was found, how far its output is, and which numbers the run holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.mistakes.layer import STAGES, Values, run
from regard.mistakes.mistake import Mistake
from regard.tracing.parameter_roles import Roles
from regard.tracing.recording import ForwardPass

EXACT, SINGLE = 2e-9, 2e-5  # float64 throughout, float32 somewhere inside
WHOLE = tuple(STAGES)


@dataclass(frozen=True, kw_only=True, eq=False)
class Match:
    """What the search found. ``complete``: it gives the output; otherwise ``reached`` stages were explained."""

    complete: bool
    mistakes: tuple[Mistake, ...]
    switches: dict[str, Any]
    reached: int
    roles: Roles
    tolerance: float = EXACT

    def mistake_at(self, step: str) -> str:
        """The name of the mistake that stands at a step, "" where none does."""
        return next((one.name for one in self.mistakes if one.step == step), "")


def output_difference(match: Match, one: ForwardPass, pad: int | None, stages: Sequence[str] = WHOLE) -> float:
    """How far the matched reference is from the model on another input (0 where they agree)."""
    if one.output is None or not has_places_for(match.roles, one):
        return 0.0
    try:
        with np.errstate(all="ignore"):
            value = run(match.roles, start_values(one, pad), match.switches, tuple(stages))[STAGES[stages[-1]][0]]
    except (ValueError, IndexError, LookupError):  # roles that were read off other shapes may not fit this one
        return float("inf")
    if is_close(value, one.output, match.tolerance):
        return 0.0
    same = value.shape == one.output.shape
    return float(np.nan_to_num(np.abs(value - one.output), nan=np.inf).max()) if same else float("inf")


def has_places_for(roles: Roles, one: ForwardPass) -> bool:
    """Whether the table of positions that was read off a short run reaches this far; else nothing is known."""
    length = next((value.shape[1] for name, value in one.inputs.items() if name == "ids"), 0)
    # only the run on 211 places can be longer than the table that was read off
    return length < 200 or not roles.tables or max(len(table) for table in roles.tables) >= length


def is_close(value: Array, output: Array | None, tolerance: float) -> bool:
    """Equal up to rounding; NaN equals NaN."""
    if output is None or value.shape != output.shape:
        return False
    # nearly every candidate differs here, and the rest need not be read
    few, others = value.ravel()[:5], output.ravel()[:5]
    with np.errstate(invalid="ignore"):
        if (np.abs(few - others) > 2 * tolerance * (1 + np.abs(others))).any():
            return False
        return bool(np.allclose(value, output, rtol=tolerance, atol=tolerance, equal_nan=True))


def start_values(one: ForwardPass, pad: int | None) -> Values:
    """What is known before the first stage."""
    if "ids" in one.inputs:
        ids = one.inputs["ids"]
        return Values(ids=ids, pad=None if pad is None else ids == pad)
    known = {name: value for name, value in one.inputs.items() if value.dtype.kind == "f"}
    return Values(known=known, pad=one.inputs.get("padding"))


def numbers_in(one: ForwardPass) -> Array:
    """Every finite number that the model computed from its input, sorted."""
    live = [
        node.value.ravel()
        for node in one.nodes
        if node.live and node.value is not None and node.value.dtype.kind == "f"
    ]
    together = np.concatenate(live) if live else np.zeros(0)
    return np.unique(together[np.isfinite(together)])


CROWDED = 0.9  # of the numbers from -1 to 1: some hundred values are looked for, and all would be found by chance


def is_crowded(there: Array, tolerance: float) -> bool:
    """Whether a trace holds so many numbers that nearly any value would be found among them, up to the tolerance.

    A model that computes a fine grid of numbers beside its work would otherwise seem right in parts it has not.

    >>> is_crowded(np.linspace(-1, 1, 300_000), SINGLE), is_crowded(np.linspace(-1, 1, 300_000), EXACT)
    (True, False)
    """
    near = there[(there >= -1) & (there <= 1)]
    covered = np.minimum(np.diff(near), 2 * tolerance * (1 + np.abs(near[1:]))).sum()
    return bool(covered > 2 * CROWDED)


def masks_in(one: ForwardPass) -> tuple[bool, bool]:
    """Whether the model could be hiding padding (it compares its ids) or the future (a square of constants)."""
    if "ids" not in one.inputs:
        return any(name in one.inputs for name in ("padding", "mask")), True
    length = one.inputs["ids"].shape[1]
    # ids may become a mask without being compared with anything
    padding = any(node.live and node.value is not None and node.value.dtype == np.bool_ for node in one.nodes) or any(
        event.op in ("sign", "clamp") for event in one.events
    )
    causal = any(
        not node.live and len(node.shape) >= 2 and node.shape[-2:] == (length, length) and not node.parameters
        for node in one.nodes
    )
    return padding, causal

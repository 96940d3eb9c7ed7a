"""A torch module as a map, in two arithmetics: its own type, and a float64 copy that stays in float64.

In its own type an 8-bit or a bfloat16 map is coarse, and a small dependence on order drowns in its rounding; in the
copy it is seen. In both, rounding is measured and not guessed: the map runs again with every operation's result
disturbed (:mod:`regard.torch_arithmetic`).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Array, Float
from regard.symmetry.maps import Map

SCALES = (1.0, 0.01, 100.0)  # of the inputs: saturated and linear regimes show different faults
_RUNS = 3  # disturbed runs
Jittered = Callable[[Array, int], Array]


@dataclass(frozen=True, kw_only=True, eq=False)
class Arithmetic:
    """One way to run the module: its name, the map, and the map with disturbed roundings (by a seed)."""

    name: str
    run: Map
    jittered: Jittered


def is_module(map: Any) -> bool:
    """Whether it is a torch module; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(map, torch.nn.Module)


def arithmetics(module: Any, checked: Callable[[Any], Map]) -> Iterator[Arithmetic]:
    """The module's own type first, then the float64 copy, where it runs; ``checked`` makes a careful map of a call."""
    import torch

    # copies, because a module may keep state from call to call
    own = _own_type(module)
    yield _arithmetic(str(own).removeprefix("torch."), copy.deepcopy(module), own, checked, widen=False)
    if own is not torch.float64:
        yield _arithmetic("a float64 copy", copy.deepcopy(module).to(torch.float64), torch.float64, checked, widen=True)


def noise_of_rows(arithmetic: Arithmetic, x: Array, z: Float) -> Float:
    """How far rounding moves each row of map(x), at least as far as the median row."""
    rows = len(z) if z.ndim > 1 else 1
    moved = [np.abs(arithmetic.jittered(x, seed) - z).reshape(rows, -1).max(axis=1) for seed in range(_RUNS)]
    largest = np.max(moved, axis=0)
    return np.asarray(np.maximum(largest, np.median(largest)), dtype=np.float64)


def _arithmetic(name: str, module: Any, dtype: Any, checked: Callable[[Any], Map], *, widen: bool) -> Arithmetic:
    import torch

    from regard.torch_arithmetic import arithmetic

    def call(x: Array, jitter: int | None = None) -> Any:
        with torch.no_grad(), arithmetic(widen=widen, jitter=jitter):
            return module(torch.from_numpy(x).to(dtype))

    def run_jittered(x: Array, seed: int) -> Array:
        return checked(lambda rows: call(rows, seed))(x)

    return Arithmetic(name=name, run=checked(call), jittered=run_jittered)


def _own_type(module: Any) -> Any:
    """The type of most of its weights; float32 where it has none."""
    import torch

    counts: dict[Any, int] = {}
    for p in module.parameters():
        # 8-bit floats only store weights; no module computes in them
        if p.is_floating_point() and p.element_size() > 1:
            counts[p.dtype] = counts.get(p.dtype, 0) + p.numel()
    return max(counts, key=lambda d: counts[d]) if counts else torch.float32

"""Maps from files, from Python and from torch, called with care: whatever they do wrong is said in one sentence."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Array, Float
from regard.errors import InputError, describe_error
from regard.python_files import load_named

Map = Callable[[Array], Array]
DTYPES = ("float64", "float32")
TEMPLATE = '''\
"""Maps to test for order-blindness: each takes one array X, a row per token, and returns a row for each."""

import numpy as np


def block(X):
    """A map that sees order: it adds its number to every row. Write your own layer in its place."""
    return X + np.arange(len(X))[:, None]


def attention(X):
    """Self-attention without positions: order-blind, which the test will not refute."""
    scores = X @ X.T / np.sqrt(X.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ X
'''


def load_map(spec: str) -> Any:
    """The object that ``file.py:name`` names. This imports the file, so it runs the code in it.

    >>> load_map("missing.py:block")
    Traceback (most recent call last):
    regard.errors.InputError: missing.py:block: there is no file 'missing.py'; regard symmetry --template ...
    """
    return load_named(spec)[1]


def prepare(map: Any, sample: Array, *, name: str, rows: bool) -> tuple[Map, str]:
    """A function from arrays to float64 arrays around ``map``, and who computes: numpy or torch.

    Functions are tried with an array first and, where torch is loaded, with a tensor; :func:`arithmetics` takes torch
    modules. ``rows`` demands one output row per input row.
    """
    if isinstance(map, type) or not callable(map):
        raise InputError(f"{name} is {_kind(map)}; give a function or a module that takes one array of rows.")
    torch = sys.modules.get("torch")  # a map made of torch has loaded it
    plain, error = checked_map(map, name, rows), None
    try:
        plain(sample)
    except InputError as first:
        if torch is None:
            raise
        error = first
    if error is None or torch is None:
        return plain, "numpy"
    tensors = checked_map(_with_tensors(map, torch), name, rows)
    try:
        tensors(sample)
    except InputError:
        raise error from None
    return tensors, "torch"


def checked_map(call: Callable[[Array], Any], name: str, rows: bool) -> Map:
    """The call as a map from arrays to arrays: its input is safe from it, and what it does wrong is one sentence."""

    def run(x: Array) -> Array:
        try:
            given = call(x.copy())  # a map that writes into its input must not spoil ours
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{name} raised {describe_error(error)} for an input of shape {x.shape} and type {x.dtype}; "
                "fix it, or choose a length and dim that it takes."
            ) from None
        return _numbers(given, x, name, rows)

    return run


def _numbers(given: Any, x: Array, name: str, rows: bool) -> Array:
    if hasattr(given, "detach"):
        given = given.detach().cpu().numpy() if given.is_complex() else given.detach().cpu().double().numpy()
    if isinstance(given, (tuple, dict)) or given is None:
        raise InputError(f"{name} returned {_kind(given)}; wrap it so that it returns one array.")
    try:
        if np.iscomplexobj(given):  # NumPy would drop the imaginary part with a warning
            raise TypeError
        out = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} returned {_kind(given)}, which is no array of real numbers.") from None
    if rows and (out.ndim < 1 or len(out) != len(x)):
        raise InputError(
            f"{name} turned shape {x.shape} into {out.shape}; order-blindness needs a row out for each row in "
            "(for pooled outputs ask for invariance)."
        )
    if not np.isfinite(out).all():
        raise InputError(f"{name} returned NaN or infinity for ordinary inputs; make it finite first.")
    return out[:, None] if rows and out.ndim == 1 else out


def _with_tensors(map: Any, torch: Any) -> Callable[[Array], Any]:
    def run(x: Array) -> Any:
        with torch.no_grad():
            return map(torch.from_numpy(x))

    return run


def _kind(thing: Any) -> str:
    if isinstance(thing, type):
        return f"a class ({thing.__name__})"
    return "None" if thing is None else f"a {type(thing).__name__}"


# A torch module as a map, in two arithmetics: its own type, and a float64 copy that stays in float64. In its own type
# an 8-bit or a bfloat16 map is coarse, and a small dependence on order drowns in its rounding; in the copy it is seen.
# In both, rounding is measured and not guessed: the map runs again with every operation's result disturbed
# (regard.torch_arithmetic).

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

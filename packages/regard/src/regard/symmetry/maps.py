"""Maps from files and from Python, called with care: whatever they do wrong is said in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from regard.array_types import Array
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

    Functions are tried with an array first and, where torch is loaded, with a tensor; torch modules are another matter
    (:mod:`regard.symmetry.torch_maps`). ``rows`` demands one output row per input row.
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

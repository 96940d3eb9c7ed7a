"""Attention weights that somebody already has, as a capture: so that every instrument takes them.

| you have | what it is taken for |
|---|---|
| ``outputs.attentions`` of Hugging Face | one array (batch, heads, queries, keys) for every layer |
| the same from ``generate`` | a tuple for every step |
| an array (layers, heads, T, T) or (layers, batch, heads, T, T) | itself |
| a TransformerLens cache | its ``blocks.N.attn.hook_pattern`` entries, and q, k and v where it has them |

NumPy arrays, lists and torch tensors of any float type are taken; torch is not imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.array_types import Single
from regard.errors import InputError
from regard_models.capturing.records import AttentionRecord, Capture, Tokens

_PATTERN = re.compile(r"blocks\.(\d+)\.attn\.hook_pattern")
_SUMS = 1e-2  # rows that are further from 1 were not rounded from a distribution, even in bfloat16


def from_arrays(weights: Any, *, tokens: Sequence[Any] | None = None, name: str = "weights") -> Capture:
    """A capture of weights that were computed elsewhere; nothing about them can be checked against a model.

    ``tokens``: words, one list of them or one list for every example.

    >>> given = from_arrays(np.full((2, 3, 1, 4, 4), 0.25)[:, :, 0], tokens=list("abcd"))
    >>> given.layers, given.records[0].shape
    ((0, 1), (1, 3, 4, 4))
    """
    steps = _steps(weights)
    records = tuple(
        _record(layer, module, given, step) for step, layers in enumerate(steps) for layer, module, given in layers
    )
    if not records:
        raise InputError("There are no attention weights here: the sequence is empty.")
    words = words_of(tokens, records[0])
    return Capture(records=records, tokens=words, name=name, notes=("given as arrays, so nothing could be checked",))


Layers = list[tuple[int, str, Any]]


def _steps(weights: Any) -> list[Layers]:
    """Layers (number, name, array) of every run."""
    if isinstance(weights, Mapping) or (hasattr(weights, "keys") and hasattr(weights, "__getitem__")):
        return [_from_cache(weights)]
    if isinstance(weights, (list, tuple)):
        # from generate: the layers of every step
        if weights and isinstance(weights[0], (list, tuple)) and _is_array(_first(weights[0])):
            return [_number_layers(step) for step in weights]
        # None stands for a kernel that gave none, and is refused with that reason
        if any(_is_array(item) or item is None for item in weights):
            return [_number_layers(weights)]
    array = _array(weights, "weights")
    if array.ndim not in (4, 5):
        raise InputError(
            f"weights must have the axes (layers, heads, queries, keys) or (layers, batch, heads, queries, keys), but "
            f"the shape is {array.shape}; put a single head in as weights[None, None]."
        )
    return [_number_layers(list(array if array.ndim == 5 else array[:, None]))]


def _number_layers(layers: Sequence[Any]) -> Layers:
    return [(number, f"layer {number}", array) for number, array in enumerate(layers)]


def _from_cache(cache: Any) -> Layers:
    numbered = [(int(match[1]), key) for key in cache if (match := _PATTERN.fullmatch(str(key)))]
    if not numbered:
        raise InputError(
            "The cache has no entry blocks.N.attn.hook_pattern; run the model with the patterns cached "
            "(run_with_cache does so unless names_filter leaves them out)."
        )
    return [
        (number, str(key).removesuffix(".hook_pattern"), _with_vectors(cache, str(key)))
        for number, key in sorted(numbered)
    ]


def is_cache(arrays: Any) -> bool:
    """Whether names are those of a TransformerLens cache."""
    return any(_PATTERN.fullmatch(str(key)) for key in arrays)


def _with_vectors(cache: Any, key: str) -> Any:
    """The pattern, with the queries, keys and values beside it where the cache has them (batch, places, heads, width).

    Rotated queries and keys, where there are any, are the ones that made the scores.
    """
    begin = key.removesuffix("hook_pattern")
    names = {"q": ("hook_rot_q", "hook_q"), "k": ("hook_rot_k", "hook_k"), "v": ("hook_v",)}
    there = {what: next((begin + n for n in some if begin + n in cache), None) for what, some in names.items()}
    return Vectors(cache[key], {what: cache[name] for what, name in there.items() if name is not None})


@dataclass(frozen=True, eq=False)
class Vectors:
    """Weights of a layer, and q, k and v beside them."""

    weights: Any
    beside: dict[str, Any]

    def arrays(self, layer: int, shape: tuple[int, ...]) -> dict[str, Any]:
        """q, k and v as records have them: batch, heads, places, width; heads that share keys repeat them."""
        arrays = {}
        for what, given in self.beside.items():
            array = _array(given, f"{what} of layer {layer}")
            array = array[None] if array.ndim == 3 else array
            places = shape[2] if what == "q" else shape[3]
            if array.ndim != 4 or array.shape[:2] != (shape[0], places) or shape[1] % max(array.shape[2], 1):
                raise InputError(
                    f"{what} of layer {layer} must have the axes (batch, places, heads, width) of its pattern, but the "
                    f"shape is {np.shape(array)}."
                )
            arrays[what] = np.repeat(array.transpose(0, 2, 1, 3), shape[1] // array.shape[2], axis=1)
        return arrays


def _record(layer: int, module: str, given: Any, step: int) -> AttentionRecord:
    if given is None:
        raise InputError(
            f"Layer {layer} is None: a fused kernel ran and gave no weights; load the model with "
            "attn_implementation='eager', or capture it with regard_models.capture, which needs no change."
        )
    vectors = given if isinstance(given, Vectors) else Vectors(given, {})
    array = _array(vectors.weights, f"Layer {layer}")
    array = array[None] if array.ndim == 3 else array
    if array.ndim != 4 or array.size == 0:
        raise InputError(
            f"Layer {layer} must have the axes (batch, heads, queries, keys), none of them empty, but the shape is "
            f"{np.shape(array)}."
        )
    if not np.isfinite(array).all():
        place = tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        raise InputError(f"Layer {layer} holds {array[place]} at {place}; weights must be finite numbers.")
    return AttentionRecord(
        index=layer, step=step, call=step, module=module, kernel="given", weights=array,
        heads=tuple(range(array.shape[1])), notes=_remarks(array), **vectors.arrays(layer, array.shape),
    )  # fmt: skip


def _remarks(array: Single) -> tuple[str, ...]:
    sums = array.sum(axis=-1, dtype=np.float64)
    off = float(np.abs(sums - 1).max())
    notes = ("some weights are negative",) if array.min() < 0 else ()
    return (*notes, f"rows do not sum to 1: {sums.min():.3g} to {sums.max():.3g}") if off > _SUMS else notes


def words_of(tokens: Sequence[Any] | None, record: AttentionRecord) -> Tokens | None:
    """One list of words, or one for every example, checked against a record."""
    if tokens is None:
        return None
    flat = all(isinstance(token, str) for token in tokens)
    words = [[str(word) for word in row] for row in ([tokens] if flat else tokens)]
    batch, _, _, keys = record.shape
    if len(words) != batch:
        raise InputError(f"tokens must be one list for each of the {batch} examples, but {len(words)} came.")
    if any(len(row) != keys for row in words):
        length = next(len(row) for row in words if len(row) != keys)
        raise InputError(f"tokens must be one word for each of the {keys} keys, but a list of {length} came.")
    return words


def _is_array(item: Any) -> bool:
    return hasattr(item, "shape") and hasattr(item, "dtype")


def _first(items: Sequence[Any]) -> Any:
    return items[0] if items else None


def _array(given: Any, what: str) -> npt.NDArray[np.float32]:
    """Any array of real numbers as float32; a torch tensor tells itself by ``detach``."""
    if hasattr(given, "detach"):
        given = given.detach().float().cpu().numpy()
    try:
        array = np.asarray(given)
    except (ValueError, TypeError) as error:
        raise InputError(f"{what} is not an array of numbers: {str(error).partition(chr(10))[0]}.") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{what} must hold real numbers, not {array.dtype}; give the attention weights themselves.")
    return array.astype(np.float32, copy=False)

"""Arrays from files, standard input, the command line and Python: read exactly, checked once.

| you write | you get |
|---|---|
| ``keys.npy`` | the array, memory-mapped |
| ``keys.npz:NAME`` | one array of an archive (``:NAME`` may be left out when there is only one) |
| ``model.safetensors:NAME`` | one tensor, memory-mapped; bfloat16 is decoded exactly |
| ``keys.csv``, ``.tsv``, ``.txt`` | numbers as text in UTF-8: commas, tabs, or (``.txt``) commas or blanks |
| ``-`` | standard input: the bytes of a ``.npy`` file, or text as in ``.txt`` |
| ``"1,0; 0,1; 1,1"`` | the numbers themselves, rows separated by semicolons |
| ``example:NAME`` | a named key set from :mod:`regard.examples` |

Decimal fractions are rounded to float64, as everywhere, and so is what leaves its last digits out (1e23); an integer
that float64 cannot hold (beyond 2^53 most cannot) is refused, wherever it comes from, also as 9007199254740993.0.

Text: empty lines and lines that start with ``#`` are skipped; a first row in which *no* field is a number is taken
for a header, skipped, and mentioned; any other field that is not a number is an error.
Nothing is ever unpickled, and whatever is wrong is said in one sentence (:class:`regard.errors.InputError`).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from regard import formats
from regard.array_types import Array, Float
from regard.errors import InputError, similar_names
from regard.examples import EXAMPLES, example
from regard.files import check_target, write_file
from regard.written_numbers import is_exact_float, rounded_integer_error

__all__ = [
    "LoadedArray",
    "check_array",
    "check_target",
    "load_array",
    "save_array",
]  # and, for the rooms, what they import

Dimensions = int | tuple[int, ...] | None

# Only what numbers are written with: so nan and inf are inline numbers too, and are refused as such.
_INLINE = re.compile(r"[\s\d.,;+\-einfatyEINFATY]+")
WRITTEN = (".npy", ".csv")
FORMATS = ".npy, .npz, .safetensors, .csv, .tsv or .txt"


@dataclass(frozen=True)
class LoadedArray:
    """An array that passed every check, and what a person should be told about how it was read."""

    array: Array
    notes: tuple[str, ...] = ()


def load_array(
    spec: str | os.PathLike[str],
    *,
    what: str = "keys",
    ndim: Dimensions = 2,
    dtype: type[np.float64] | None = np.float64,
) -> LoadedArray:
    """Read the array that ``spec`` names (see the table above), as finite real numbers.

    ``what`` is the word for it in messages. ``ndim`` is the number of dimensions it must have, or a tuple of
    those it may have; with ``ndim=1`` a single row or a single column counts as a vector. ``dtype=None``
    keeps the stored type and so the memory map, for streaming (bfloat16, which NumPy lacks, becomes float32,
    exactly).
    A float64 ``.npy`` or ``.safetensors`` stays memory-mapped and read-only: copy it before writing.

    >>> load_array("1,0; 0,1; 1,1").array.shape
    (3, 2)
    >>> load_array("0.5,0.25,0.25", what="target", ndim=1).array.tolist()
    [0.5, 0.25, 0.25]
    >>> load_array("1,0; 0")
    Traceback (most recent call last):
    regard.errors.InputError: keys (inline): row 1 has 1 number where row 0 has 2; give every row as many.
    """
    notes: list[str] = []
    array, thing = _read(os.fspath(spec), what, notes)
    array = _check_shape(array, thing, ndim)
    _refuse_types(array.dtype, thing)
    _refuse_nonfinite(array, thing)
    refuse_rounded(array, thing)
    if dtype is None or array.dtype == np.float64:
        return LoadedArray(array, tuple(notes))
    return LoadedArray(array.astype(np.float64), (*notes, f"{what}: {_conversion(array)}"))


def check_array(array: object, *, what: str, ndim: Dimensions = 2) -> Float:
    """The same checks for what is handed in from Python (lists too): finite, real, float64, C-contiguous.

    >>> check_array([[1, 2], [3, 4]], what="keys").dtype
    dtype('float64')
    >>> check_array([1.0, float("nan")], what="query", ndim=1)
    Traceback (most recent call last):
    regard.errors.InputError: query: entry 1 (counted from 0) is nan; every number must be finite, ...
    """
    # a masked array exists only where numpy.ma was loaded; to name it here would load it for everybody
    if "numpy.ma" in sys.modules and isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{what} is a masked array, whose hidden entries would count; fill or drop them first.")
    try:
        given = as_array(array, what)
    except (ValueError, TypeError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(f"{what} must be an array of numbers with rows of one length: {reason}.") from None
    _refuse_types(given.dtype, what)
    given = _check_shape(given, what, ndim)
    _refuse_nonfinite(given, what)
    # ascontiguousarray makes one dimension out of none: a single number gets its shape back
    return np.ascontiguousarray(given, dtype=np.float64).reshape(given.shape)


def as_array(given: object, what: str) -> Array:
    """`np.asarray`, which would round integers that float64 cannot hold; here they are refused.

    >>> as_array([2**53 + 1, 0.5], "keys")
    Traceback (most recent call last):
    regard.errors.InputError: keys: there are integers beyond 2^53 that float64 rounds, such as 9007199254740993, ...
    """
    array = np.asarray(given)
    if array.dtype.kind == "f" and not isinstance(given, np.ndarray) and (np.abs(array) >= 2.0**53).any():
        refuse_rounded(np.asarray(given, dtype=object), what)  # among fractions, NumPy has rounded them already
    refuse_rounded(array, what)
    return array


def refuse_rounded(array: Array, thing: str) -> None:
    """Refuse integers that float64 would round: an answer would be about other numbers."""
    if array.dtype.kind not in "iuO" or array.dtype.itemsize < 8:
        return
    for _, block in _row_blocks(array):
        large = block if array.dtype.kind == "O" else block[(block > 2**53) | (block < -(2**53))]
        wholes = (int(one) for one in large.flat if isinstance(one, (int, np.integer)))
        rounded = next((one for one in wholes if not is_exact_float(one)), None)
        if rounded is not None:
            shown = rounded if rounded.bit_length() < 128 else f"one of {rounded.bit_length()} binary digits"
            raise rounded_integer_error(shown, thing)


def save_array(path: str | os.PathLike[str], array: npt.ArrayLike) -> None:
    """Write ``array`` to a .npy or .csv file; the file appears complete or not at all."""
    target = check_target(path, WRITTEN)
    stream = io.BytesIO()
    if target.suffix.lower() == ".npy":
        np.save(stream, np.asarray(array))
    else:
        np.savetxt(stream, np.atleast_2d(array), fmt="%.17g", delimiter=",")
    write_file(target, stream.getvalue())


# what every array must satisfy


def _check_shape(array: Array, thing: str, ndim: Dimensions) -> Array:
    wanted = (ndim,) if isinstance(ndim, int) else ndim
    if array.size == 0:
        raise InputError(f"{thing} has shape {array.shape}: it needs at least one number along every axis.")
    if wanted is None or array.ndim in wanted:
        return array
    if 1 in wanted and array.ndim == 2 and 1 in array.shape:
        return array.reshape(-1)
    rule = " or ".join(str(n) for n in wanted)
    hint = "; reshape it to one row per vector" if 2 in wanted and array.ndim == 1 else ""
    raise InputError(f"{thing} must have {rule} dimension{'s' * (rule != '1')} but has shape {array.shape}{hint}.")


def _refuse_types(dtype: np.dtype[Any], thing: str) -> None:
    if dtype.kind in "biu" or (dtype.kind == "f" and dtype.itemsize <= 8):
        return
    kinds = {"c": "complex numbers", "O": "Python objects", "U": "text", "S": "text", "V": "records"}
    name = kinds.get(dtype.kind, str(dtype))
    raise InputError(f"{thing} holds {name}; real numbers are needed, so convert it to float64 first.")


def _refuse_nonfinite(array: Array, thing: str) -> None:
    if array.dtype.kind != "f":
        return
    for start, block in _row_blocks(array):
        finite = np.isfinite(block)
        if not finite.all():
            first = np.argwhere(~finite)[0]
            index = (start + int(first[0]), *map(int, first[1:])) if array.ndim else ()
            rule = "every number must be finite, so remove or replace it"
            raise InputError(f"{thing}: {_place(index)} is {float(array[index])}; {rule}.")


def _row_blocks(array: Array) -> Iterator[tuple[int, Array]]:
    """A million numbers at a time, in whole rows, so that a memory-mapped giant is not copied; and the first row's."""
    if not array.ndim:
        yield 0, array
        return
    step = max(1, (1 << 20) // max(1, array[:1].size))
    yield from ((start, array[start : start + step]) for start in range(0, len(array), step))


def _place(index: tuple[int, ...]) -> str:
    if len(index) == 2:
        return f"row {index[0]}, column {index[1]} (counted from 0)"
    return f"entry {index[0] if len(index) == 1 else index} (counted from 0)" if index else "it"


def _conversion(array: Array) -> str:
    name = array.dtype.newbyteorder("=").name
    if name == "float64":
        return "float64 in the other byte order, converted to this machine's"
    return f"{name} converted to float64"


# where it comes from


def _read(spec: str, what: str, notes: list[str]) -> tuple[Array, str]:
    """The array as stored, and the name it has in messages; appends to ``notes``."""
    thing = f"{what} ({_shorten(spec)})"
    if spec == "-":
        return _read_standard_input(f"{what} (standard input)", notes), f"{what} (standard input)"
    if spec.startswith("example:"):
        return example(spec.removeprefix("example:")), thing
    if _INLINE.fullmatch(spec) and re.search("[,;]", spec):
        return formats.from_inline(spec, f"{what} (inline)"), f"{what} (inline)"
    path, name = _split(spec)
    _refuse_path(path, thing)
    try:
        return _read_file(path, name, thing, notes), thing
    except OSError as error:
        raise InputError(f"{thing} cannot be read: {error.strerror or error}.") from None


def _read_file(path: str, name: str | None, thing: str, notes: list[str]) -> Array:
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        return formats.from_npz(path, name, thing, notes)
    if suffix in (".npy", ".safetensors"):
        data = np.memmap(path, dtype=np.uint8, mode="r")
        if suffix == ".npy":
            return formats.from_npy(data, thing, notes)
        return formats.from_safetensors(data, name, thing, notes)
    with open(path, "rb") as stream:
        return formats.from_text(stream.read(formats.TEXT + 1), suffix, thing, notes)


def _split(spec: str) -> tuple[str, str | None]:
    """``archive.npz:NAME`` into its two parts; a file whose own name has a colon wins."""
    match = re.match(r"(.*?\.(?:npz|safetensors)):(.*)", spec, re.IGNORECASE | re.DOTALL)
    return (match[1], match[2]) if match and not os.path.exists(spec) else (spec, None)


def _refuse_path(path: str, thing: str) -> None:
    """Everything about a path that can be said before opening it."""
    file = Path(path)
    if "\0" in path or not os.path.lexists(path):
        # What looks like mistyped inline numbers is far more likely that than a file.
        if re.search("[,;]", path):
            raise InputError(f"{thing} is neither a file nor numbers like '1,0; 0,1'; check for a stray character.")
        raise InputError(
            f"{thing}: there is no such file{_similar_name(file)}; check the path, {_example_hint(file, thing)}."
        )
    if file.is_dir():
        raise InputError(f"{thing} is a directory; name a file in it ({FORMATS}).")
    if not file.is_file():
        raise InputError(f"{thing} is not a regular file; use '-' to read from standard input.")
    if file.suffix.lower() not in FORMATS.replace(" or", ",").split(", "):
        raise InputError(f"{thing} has a name that ends in {file.suffix!r}; use {FORMATS}.")
    if file.stat().st_size == 0:
        raise InputError(f"{thing} is an empty file; it needs at least one row of numbers.")


def _similar_name(file: Path) -> str:
    with contextlib.suppress(OSError, ValueError):
        close = similar_names(file.name, os.listdir(file.parent), cutoff=0.75)
        return f" (did you mean {str(file.with_name(close[0]))!r}?)" if close else ""
    return ""


FITTING = {"matrix": "weights", "target": "target", "queries": "queries"}  # examples, by what is asked for


def _example_hint(file: Path, thing: str) -> str:
    """What somebody who only wants to try can type instead: a built-in example."""
    name = file.stem.lower() if file.stem.lower() in EXAMPLES else FITTING.get(thing.split()[0], "keys")
    return f"or try example:{name} in its place (regard example lists them)"


def _shorten(spec: str) -> str:
    return spec if len(spec) <= 80 else f"{spec[:50]}...{spec[-25:]}"


def _read_standard_input(thing: str, notes: list[str]) -> Array:
    data = sys.stdin.buffer.read(formats.TEXT + 1) if sys.stdin else b""  # a device has no end
    if not data.strip():
        raise InputError(f"{thing} is empty; pipe in a .npy file or rows of numbers.")
    if data.startswith(formats.NPY_MAGIC):
        return formats.from_npy(np.frombuffer(data, np.uint8), thing, notes)
    return formats.from_text(data, ".txt", thing, notes)

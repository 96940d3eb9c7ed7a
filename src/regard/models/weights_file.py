"""Attention weights from a file, as a capture: .npy, .npz and .safetensors, ours or anybody's.

| in the file | taken for |
|---|---|
| a capture that ``regard model capture --out`` wrote | itself, with all that was kept |
| one array (layers, heads, T, T) or (layers, batch, heads, T, T) | the weights |
| several arrays | a layer each, in the order of the numbers in their names |
| names such as ``blocks.0.attn.hook_pattern`` | a TransformerLens cache, with its q, k and v |

An .npz file may have an array ``tokens`` of words among them. Nothing is ever unpickled.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard import formats
from regard.arrays import load_array
from regard.errors import InputError
from regard.models.given_weights import from_arrays, is_cache
from regard.models.records import Capture

ENDINGS = (".npy", ".npz", ".safetensors")


def is_weights_file(name: str) -> bool:
    """Whether a name on the command line is that of a file with weights, not that of a model."""
    return name.lower().endswith(ENDINGS) and not os.path.isdir(name)


def read_weights(path: str | os.PathLike[str], *, tokens: Sequence[str] | None = None) -> Capture:
    """The capture in a file, or one made of its arrays; whatever is wrong with it is said in one sentence."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{os.fspath(path)!r}: there is no such file; give one that ends in {', '.join(ENDINGS)}.")
    ending = file.suffix.lower()
    if ending == ".npy":
        array = load_array(file, what="weights", ndim=(4, 5), dtype=None).array
        return from_arrays(array, tokens=tokens, name=file.name)
    if ending == ".safetensors" and _is_ours(file):
        return Capture.read(file)
    arrays = _npz(file) if ending == ".npz" else _safetensors(file)
    words = arrays.pop("tokens", None)
    if tokens is None and words is not None:
        tokens = np.asarray(words).tolist()
    return from_arrays(_chosen(arrays, file), tokens=tokens, name=file.name)


def _chosen(arrays: dict[str, Any], file: Path) -> Any:
    if not arrays:
        raise InputError(f"{file} holds no arrays; give attention weights, a layer each.")
    if is_cache(arrays):
        return arrays
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    return [arrays[name] for name in sorted(arrays, key=_natural)]


def _natural(name: str) -> list[Any]:
    """Names in the order of their numbers: layer2 before layer10."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


def _is_ours(file: Path) -> bool:
    with open(file, "rb") as stream:
        return b'"regard capture' in stream.read(4096)


def _npz(file: Path) -> dict[str, Any]:
    try:
        with np.load(file, allow_pickle=False) as archive:
            found = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError, KeyError) as error:
        reason = str(error).partition("\n")[0][:120].rstrip(". ")
        raise InputError(f"{file} is not a readable .npz file: {reason}.") from None
    for name, array in found.items():
        if array.dtype.kind not in "fiub" and not (name == "tokens" and array.dtype.kind == "U"):
            raise InputError(f"{name} in {file} must hold real numbers, not {array.dtype}; tokens must be words.")
    return found


def _safetensors(file: Path) -> dict[str, Any]:
    data = np.memmap(file, dtype=np.uint8, mode="r") if file.stat().st_size else np.zeros(0, np.uint8)
    entries, _ = formats.safetensors_entries(data, str(file))
    return {name: formats.from_safetensors(data, name, f"{name} ({file})", []) for name in entries}

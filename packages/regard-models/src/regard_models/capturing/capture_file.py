"""Captures on disk: one safetensors file, written as the model runs and read back without loading it.

A long input has more weights than memory: 144 heads at 2,048 tokens are 2.4 GB. So a stream writes every block of
queries as it comes, to a hidden file beside its place, behind room that was left for the header; at the end the header
is filled in, padded with spaces as the format allows, and the file gets its name. A run that is stopped leaves nothing
under that name.

Tensors are called ``N.weights``, ``N.used``, ``N.allowed``, ``N.q``, ``N.k``, ``N.v`` (N counts the records); the facts
are JSON in the header. The format allows no gaps, so the masks, of one byte each, come last: everything else stays
aligned. A bit that flips on a disk leaves a file that can be read: so the header has a checksum (CRC-32) of the numbers
and one of the facts, and reading compares both.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from regard import formats
from regard.arrays import check_target
from regard.errors import InputError
from regard.files import open_partial, partial_path
from regard.strict_json import parse_json
from regard_models.capturing.records import ARRAYS, AttentionRecord, Capture, UnseenModule, record_from

_TYPES = {"float32": "F32", "float16": "F16", "bool": "BOOL"}
_ROOM = 1 << 16  # bytes for the header of a stream; a longer header costs one copy of the file
_FORMAT = "regard capture 1"
_PIECE = 1 << 24


class CaptureFile:
    """A capture file that is being written, tensor after tensor; a context manager that leaves all or nothing."""

    def __init__(self, path: str | os.PathLike[str], *, room: int = _ROOM) -> None:
        self.target = check_target(path, (".safetensors",))
        self.partial = partial_path(self.target)
        self.entries: dict[str, dict[str, Any]] = {}
        self.masks: dict[str, npt.NDArray[np.bool_]] = {}
        self.room, self.written, self.checksum = room, 0, 0
        self.stream: BinaryIO = _open_partial_or_refuse(self.partial)
        self.stream.seek(8 + room)

    def __enter__(self) -> CaptureFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()
        self.partial.unlink(missing_ok=True)

    def begin(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> None:
        """Announce a tensor; its rows follow by :meth:`append`."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.entries[name] = {
            "dtype": _TYPES[dtype], "shape": list(shape), "data_offsets": [self.written, self.written + size],
        }  # fmt: skip
        self.written += size

    def append(self, block: npt.NDArray[Any]) -> None:
        """The next numbers of the tensor that was announced last."""
        numbers = np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
        self.checksum = zlib.crc32(numbers, self.checksum)
        self.stream.write(numbers)

    def put(self, name: str, array: npt.NDArray[Any]) -> None:
        """A whole tensor; a mask waits for the end."""
        if array.dtype == np.bool_:
            self.masks[name] = np.ascontiguousarray(array)
            return
        self.begin(name, array.shape, str(array.dtype))
        for block in array if array.ndim else [array]:
            self.append(block)

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write the masks and the header, and give the file its name."""
        for name, mask in self.masks.items():
            self.begin(name, mask.shape, "bool")
            self.append(mask)
        self.stream.flush()
        header = _header(self.entries, facts, self.checksum)
        if self.stream.tell() != 8 + self.room + self.written:
            raise InputError(f"{self.target} could not be written: a tensor was cut short; capture it again.")
        if len(header) > self.room:
            self._move(len(header))
        self.stream.seek(0)
        self.stream.write(self.room.to_bytes(8, "little") + header.ljust(self.room))
        self.stream.flush()
        os.fsync(self.stream.fileno())
        os.replace(self.partial, self.target)

    def _move(self, room: int) -> None:
        """Make more room for the header by moving the data from its end on."""
        room += -room % 8
        step, position = 1 << 24, self.written
        while position > 0:
            size = min(step, position)
            position -= size
            self.stream.seek(8 + self.room + position)
            block = self.stream.read(size)
            self.stream.seek(8 + room + position)
            self.stream.write(block)
        self.room = room


def _open_partial_or_refuse(partial: Path) -> BinaryIO:
    try:
        return open_partial(partial)
    except OSError as error:
        raise InputError(f"Cannot write {str(partial)!r}: {error.strerror or error}.") from None


def _header(entries: Mapping[str, Any], facts: Mapping[str, Any], checksum: int) -> bytes:
    words = json.dumps(facts, ensure_ascii=False)
    sums = {"crc32": str(checksum), "facts_crc32": str(zlib.crc32(words.encode()))}
    meta = {"format": _FORMAT, "facts": words, **sums}
    return json.dumps({"__metadata__": meta, **entries}, ensure_ascii=False).encode()


def write_capture(capture: Capture, path: str | os.PathLike[str]) -> None:
    """Write a capture whole; a full disk leaves nothing behind."""
    facts = facts_of(capture)
    arrays = {
        f"{number}.{what}": array
        for number, record in enumerate(capture.records)
        for what in ARRAYS
        if (array := getattr(record, what)) is not None
    }
    # the facts are a text inside of the header's JSON, where their quotes are escaped
    room = len(json.dumps(facts, ensure_ascii=False).encode()) * 2 + 160 * len(arrays) + 256
    with CaptureFile(path, room=room + -room % 8) as file:
        try:
            for name, array in arrays.items():
                file.put(name, array)
            file.finish(facts)
        except OSError as error:
            raise InputError(f"Cannot write {str(file.target)!r}: {error.strerror or error}.") from None


def facts_of(capture: Capture) -> dict[str, Any]:
    """All of a capture that is neither an array nor the model's output."""
    facts = capture.to_dict()
    del facts["sound"], facts["file"]  # the first follows from the records, and a file may be renamed
    for record in facts["records"]:
        del record["sound"], record["shape"]
    return facts


def read_capture(path: str | os.PathLike[str]) -> Capture:
    """The capture in a file; whatever is wrong with the file is said in one sentence."""
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{os.fspath(path)!r}: there is no such file; give a .safetensors file that a capture wrote.")
    facts = _facts(file)
    _check_numbers(file, facts["crc32"])
    data = np.memmap(file, dtype=np.uint8, mode="r")
    try:
        names = set(facts["tensors"])
        records = [_read_record(data, n, about, names, file) for n, about in enumerate(facts["records"])]
        missed = tuple(UnseenModule(**miss) for miss in facts["missed"])
        return Capture(
            records=tuple(records), missed=missed, tokens=facts["tokens"], target_tokens=facts["target_tokens"],
            notes=tuple(facts["notes"]), name=str(facts["name"]), file=str(file),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} is damaged: its facts do not fit together ({error}); capture it again.") from None


def _facts(file: Path) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as opened:
            meta = opened.metadata() or {}
            names = list(opened.keys())
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} is not a readable .safetensors file: {_first_line(error)}.") from None
    if meta.get("format") != _FORMAT:
        raise InputError(f"{file} is a .safetensors file but not a capture of ours; give one that capture wrote.")
    # files of earlier versions have none
    if "facts_crc32" in meta and meta["facts_crc32"] != str(zlib.crc32(meta.get("facts", "").encode())):
        raise InputError(f"{file} is damaged: its facts are not those that were written; capture it again.")
    try:
        facts = parse_json(meta["facts"], constants=True)
        return {**facts, "tensors": names, "crc32": meta.get("crc32")}
    except (KeyError, ValueError, TypeError, RecursionError):
        raise InputError(f"{file} is damaged: its facts cannot be read; capture it again.") from None


def _check_numbers(file: Path, wanted: str | None) -> None:
    """Compare the numbers with their checksum; files of earlier versions have none.

    They are read a piece at a time and not through a map of the file, whose pages would count as ours.
    """
    if wanted is None:
        return
    checksum, piece = 0, bytearray(_PIECE)
    with open(file, "rb") as stream:
        stream.seek(8 + int.from_bytes(stream.read(8), "little"))
        while size := stream.readinto(piece):
            checksum = zlib.crc32(memoryview(piece)[:size], checksum)
    if str(checksum) != wanted:
        raise InputError(f"{file} is damaged: its numbers are not those that were written; capture it again.")


def _read_record(
    data: npt.NDArray[np.uint8], number: int, about: Mapping[str, Any], names: Iterable[str], file: Path
) -> AttentionRecord:
    stored = {what: f"{number}.{what}" for what in ARRAYS if f"{number}.{what}" in names}
    arrays = {what: formats.from_safetensors(data, name, f"{name} ({file})", []) for what, name in stored.items()}
    record = record_from(about, arrays)
    if np.ndim(record.weights) != 4 or record.weights.shape[1] != len(record.heads):
        raise InputError(f"{file} is damaged: record {number} has no weights of its shape; capture it again.")
    return record


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0][:120].rstrip(". ")

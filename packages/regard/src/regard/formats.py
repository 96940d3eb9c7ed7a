"""The file formats, read defensively: a hostile header can neither allocate memory nor run code.

Every size a header claims is compared with the bytes that are there before anything is allocated, and no
reader ever unpickles. :mod:`regard.arrays` is the front door.
"""

from __future__ import annotations

import io
import itertools
import math
import os
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from regard.array_types import Array, Float
from regard.errors import InputError, suggest_name
from regard.strict_json import parse_json, unique_names
from regard.written_numbers import rounded_integer_error, writes_another_whole

Bytes = npt.NDArray[np.uint8]

NPY_MAGIC = b"\x93NUMPY"
_NPY_HEADER = 1 << 14  # bytes read for a header; arrays of plain numbers need about 128
_SAFETENSORS_HEADER = 1 << 24  # bytes, for 100,000 tensors; read, they take twenty times as many
_SAFETENSORS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|u1",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "F8_E4M3": "|u1", "F8_E5M2": "|u1",
}  # fmt: skip
REAL = ("F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2")
# All of an archive may be so many bytes, plus so many times its own size: numbers shrink by a tenth, and where most are
# zero tenfold; in memory they may take eight times as many, as float64.
_HARMLESS, _FOLD = 1 << 26, 10
_ENDLESS, _DIMENSIONS = 2**80, 32  # no size is so large, and no array has more dimensions
_PIECE = 1 << 20  # bytes that are read at once
TEXT = 1 << 31  # bytes of numbers as text: beyond, a .npy is read in a tenth of the time


NUMBERS = "write numbers with a point, and commas (or tabs) between them"


def from_npy(data: Bytes, thing: str, notes: list[str]) -> Array:
    """The array in the bytes of a .npy file, as a view of them."""
    shape, order, dtype, offset = _npy_header(data[:_NPY_HEADER].tobytes(), thing)
    return _view(data, shape, order, dtype, offset, thing, notes)


def from_npz(path: str, name: str | None, thing: str, notes: list[str]) -> Array:
    """One array of a .npz archive."""
    with _open_npz(path, thing) as (archive, members):
        info = members[_choose_name(name, list(members), thing)]
        with archive.open(info) as stream:
            return _from_member(stream, thing, notes)


def npz_names(path: str, thing: str) -> list[str]:
    """The names of the arrays in a .npz archive."""
    with _open_npz(path, thing) as (_, members):
        return list(members)


@contextmanager
def _open_npz(path: str, thing: str) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An archive and its members by name, once it is known that unpacking all of them does no harm."""
    try:
        with _PiecewiseFile(path) as file, zipfile.ZipFile(file) as archive:
            _refuse_bomb(archive.infolist(), os.fstat(file.fileno()).st_size, thing)
            yield archive, unique_names([(i.filename.removesuffix(".npy"), i) for i in archive.infolist()])
    except OSError as error:
        raise InputError(f"{thing} cannot be read: {error.strerror or error}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{thing} is not a readable .npz archive ({error}); write it again with numpy.savez."
        ) from None


class _PiecewiseFile(io.FileIO):
    """A file that is never read in large pieces: zipfile reads the list of members in one, and makes objects of it."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _PIECE:
            raise ValueError(f"its list of arrays has {size:,} bytes, and at most {_PIECE:,} are read")
        return super().read(size)


def _refuse_bomb(members: list[zipfile.ZipInfo], packed: int, thing: str) -> None:
    """Refuse an archive whose members claim too many bytes in all; none is unpacked beyond what it claims."""
    for info in members:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # Python unpacks these without bound
            raise InputError(f"{thing} is packed in a way that NumPy does not use; write it again with numpy.savez.")
    unpacked, most = sum(info.file_size for info in members), _HARMLESS + _FOLD * packed
    if unpacked > most:
        raise InputError(
            f"{thing} has {packed:,} bytes that unpack to {unpacked:,}, and at most {most:,} are read; if you trust "
            "it, write it again with numpy.savez, which does not compress."
        )


def from_safetensors(data: Bytes, name: str | None, thing: str, notes: list[str]) -> Array:
    """One tensor of a .safetensors file, as a view of its bytes where NumPy has the type."""
    tensors, start = safetensors_entries(data, thing)
    kind, shape, begin, end = tensors[_choose_name(name, list(tensors), thing)]
    if kind not in _SAFETENSORS:
        raise InputError(f"{thing} is stored as {kind[:20]}; convert it to one of {', '.join(_SAFETENSORS)}.")
    dtype = np.dtype(_SAFETENSORS[kind])
    if math.prod(shape) * dtype.itemsize != end - begin:
        raise InputError(f"{thing} has a damaged header: shape {shape} as {kind} does not fill {end - begin} bytes.")
    raw = _view(data, shape, "C", dtype, start + begin, thing, None)
    if kind == "BF16":  # the upper half of a float32
        notes.append(f"{thing}: bfloat16 read exactly as float32")
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if kind.startswith("F8"):
        notes.append(f"{thing}: {kind} read exactly as float32")
        decoded: npt.NDArray[np.float32] = eight_bit_floats(kind)[raw]
        return decoded
    return raw != 0 if kind == "BOOL" else raw


def safetensors_entries(data: Bytes, thing: str) -> tuple[dict[str, tuple[str, tuple[int, ...], int, int]], int]:
    """Type, shape and place of every tensor, and where the numbers start; what the format forbids is refused.

    The tensors must fill the file one after another: no gap, no overlap, nothing behind the last, no name twice.
    """
    header, start = _safetensors_header(data, thing)
    entries = {key: _entry(value, thing) for key, value in header.items() if key != "__metadata__"}
    expected = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != expected:
            raise InputError(f"{thing} has a damaged header: {name[:40]!r} starts at byte {begin}, not at {expected}.")
        expected = end
    if expected > data.size - start:
        raise InputError(f"{thing} is cut short: its tensors need {expected} bytes and {data.size - start} are there.")
    if expected < data.size - start:
        raise InputError(f"{thing} has {data.size - start - expected} bytes that belong to no tensor; write it again.")
    return entries, start


def _entry(entry: Any, thing: str) -> tuple[str, tuple[int, ...], int, int]:
    try:
        kind, shape, (begin, end) = str(entry["dtype"]), tuple(entry["shape"]), entry["data_offsets"]
        sizes = all(type(n) is int and 0 <= n < _ENDLESS for n in (*shape, begin, end))
        if sizes and begin <= end and len(shape) <= _DIMENSIONS:
            return kind, shape, begin, end
    except (TypeError, KeyError, ValueError):
        pass
    raise InputError(f"{thing} has a damaged header: an entry lacks a valid dtype, shape or data_offsets.")


@cache
def eight_bit_floats(kind: str) -> npt.NDArray[np.float32]:
    """The 256 values of an 8-bit format: E4M3 (no infinity, 448 at most) or E5M2 (as float16, with half its digits).

    >>> eight_bit_floats("F8_E4M3")[[0x38, 0x7E, 0x01]].tolist(), eight_bit_floats("F8_E5M2")[[0x3C, 0x7C]].tolist()
    ([1.0, 448.0, 0.001953125], [1.0, inf])
    """
    if kind == "F8_E5M2":  # the upper half of a float16
        return (np.arange(256, dtype=np.uint16) << 8).view(np.float16).astype(np.float32)
    code = np.arange(256)
    exponent, digits = (code >> 3) & 15, code & 7
    # four bits of exponent with bias 7, three of digits: subnormals in steps of 2^-9
    size = np.where(exponent == 0, digits * 2.0**-9, (8 + digits) * 2.0 ** (exponent - 10.0))
    # all bits set but the sign: E4M3 spends one code on NaN and none on infinity
    size[(code & 127) == 127] = np.nan
    return np.where(code < 128, size, -size).astype(np.float32)


def _npy_header(head: bytes, thing: str) -> tuple[tuple[int, ...], str, np.dtype[Any], int]:
    if not head.startswith(NPY_MAGIC):
        hint = "it looks like text, so name it .csv" if _looks_like_text(head) else "write it with numpy.save"
        raise InputError(f"{thing} is named .npy but is not such a file; {hint}.")
    stream = io.BytesIO(head)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2 are fine
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, fortran, dtype = read(stream)
    except Exception as error:  # NumPy parses the header as Python source: damage there can surface as anything
        raise InputError(
            f"{thing} has a damaged .npy header ({_line(error)}); write it again with numpy.save."
        ) from None
    return tuple(map(int, shape)), "F" if fortran else "C", dtype, stream.tell()


def _view(
    data: Bytes,
    shape: tuple[int, ...],
    order: str,
    dtype: np.dtype[Any],
    offset: int,
    thing: str,
    notes: list[str] | None,
) -> Array:
    """``data[offset:]`` as an array, once the claimed shape is known to fit into the bytes there are."""
    if dtype.hasobject or dtype.kind not in "biufcSU":
        raise InputError(f"{thing} holds Python objects or records, which are never unpickled; save it as float64.")
    if not all(0 <= size < _ENDLESS for size in shape) or len(shape) > _DIMENSIONS:
        raise InputError(f"{thing} has a damaged header: shape {str(shape)[:60]} is impossible.")
    if 0 in shape or dtype.itemsize == 0:
        raise InputError(f"{thing} has shape {str(shape)[:60]}: it needs at least one number along every axis.")
    need, have = math.prod(shape) * dtype.itemsize, data.size - offset
    if need > have:
        raise InputError(
            f"{thing} is cut short: shape {str(shape)[:60]} needs {need} bytes and {max(have, 0)} are there."
        )
    if notes is not None and need < have:
        notes.append(f"{thing}: {have - need} bytes after the array were ignored")
    return np.ndarray(shape, dtype, buffer=data, offset=offset, order="F" if order == "F" else "C")


def _from_member(stream: IO[bytes], thing: str, notes: list[str]) -> Array:
    data = bytearray()
    while piece := stream.read(_PIECE):  # to the end, so that the checksum is compared
        data += piece
    return from_npy(np.frombuffer(data, np.uint8), thing, notes)


def _safetensors_header(data: Bytes, thing: str) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(data[:8].tobytes(), "little")
    if data.size < 8 or length > min(data.size - 8, _SAFETENSORS_HEADER):
        reason = "its header does not fit into the file, or has more than 16 MiB"
        raise InputError(f"{thing} is not a .safetensors file, or is cut short: {reason}.")
    try:
        header = parse_json(data[8 : 8 + length].tobytes())
    except ValueError as error:
        raise InputError(f"{thing} has a damaged .safetensors header ({_line(error)}); write it again.") from None
    if not isinstance(header, dict):
        raise InputError(f"{thing} has a damaged .safetensors header (not a table of tensors); write it again.")
    return header, 8 + length


def _choose_name(name: str | None, names: list[str], thing: str) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if not name:
        raise InputError(f"{thing} holds {len(names)} arrays; say which with ':NAME'; {suggest_name('', names)}")
    if name not in names:
        raise InputError(f"{thing} has no array {name!r}; {suggest_name(name, names)}")
    return name


def _looks_like_text(head: bytes) -> bool:
    try:
        return head[:64].decode("ascii").isprintable() or b"\n" in head[:64]
    except UnicodeDecodeError:
        return False


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0][:80].rstrip(". ")


def from_inline(spec: str, thing: str) -> Float:
    """Numbers written out, rows separated by semicolons."""
    rows = [row.split(",") for row in spec.rstrip("; ").split(";")]
    return _stack(((f"row {i}", row) for i, row in enumerate(rows)), thing)


def from_text(data: bytes, suffix: str, thing: str, notes: list[str]) -> Float:
    """Rows of numbers as text; :mod:`regard.arrays` states what counts as a header."""
    if len(data) > TEXT:
        raise InputError(f"{thing} has more than {TEXT:,} bytes of text; save so many numbers with numpy.save.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{thing} is not UTF-8 text (byte {error.start}); save it again as UTF-8.") from None
    lines = _lines(text, suffix)
    first = next(lines, None)
    if first is None:
        raise InputError(f"{thing} has no numbers in it; it needs at least one row.")
    # a header is believed only where numbers follow: two lines of words are a mistake, not a header
    if not any(_is_number(field) for field in first[1]):
        second = next(lines, None)
        if second is None or not _is_number(second[1][0]):
            raise InputError(
                f"{thing}: {first[0]}, field 1 is {_quote(first[1][0])}, which is not a number; {NUMBERS}."
            )
        notes.append(f"{thing}: the header on {first[0]} was skipped")
        first = second
    return _stack(itertools.chain([first], lines), thing)


def _lines(text: str, suffix: str) -> Iterator[tuple[str, list[str]]]:
    """Where each row is, and its fields."""
    delimiter = {".csv": ",", ".tsv": "\t"}.get(suffix) or ("," if "," in text else None)
    for number, line in enumerate(io.StringIO(text, newline=None), start=1):
        if line.strip() and not line.startswith("#"):
            yield f"line {number}", line.strip("\n").split(delimiter)


def _stack(rows: Iterator[tuple[str, list[str]]], thing: str) -> Float:
    parsed: list[Float] = []
    where_first = ""
    for where, fields in rows:
        if parsed and len(fields) != len(parsed[0]):
            counts = f"{len(fields)} number{'s' * (len(fields) != 1)} where {where_first} has {len(parsed[0])}"
            raise InputError(f"{thing}: {where} has {counts}; give every row as many.")
        where_first = where_first or where
        parsed.append(_numbers(fields, where, thing))
    return np.stack(parsed)


def _numbers(fields: list[str], where: str, thing: str) -> Float:
    together = ",".join(fields)
    try:
        if together.isascii() and "_" not in together:  # Python would read 1_0 as ten, and digits of every script
            row = np.array(list(map(float, fields)))
            rounded = [fields[i].strip() for i in np.flatnonzero(np.abs(row) >= 2.0**53)
                       if math.isfinite(row[i]) and writes_another_whole(fields[i], row[i])]  # fmt: skip
            if rounded:
                raise rounded_integer_error(rounded[0], thing)
            return row
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    wrong = next(i for i, field in enumerate(fields) if not _is_number(field))
    came = _quote(fields[wrong])
    raise InputError(f"{thing}: {where}, field {wrong + 1} is {came}, which is not a number; {NUMBERS}.")


def _is_number(field: str) -> bool:
    """Is it one, or nan or inf, which are refused later and by their place?"""
    try:
        float(field)
    except ValueError:
        return False
    return field.isascii() and "_" not in field


def _quote(field: str) -> str:
    field = field.strip()
    return repr(field if len(field) <= 24 else field[:24] + "...") if field else "empty"

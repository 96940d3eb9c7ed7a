"""Arrays: read exactly, or refused in one sentence; nothing else, whatever the bytes."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from regard.arrays import check_array, load_array, save_array
from regard.errors import InputError
from regard.examples import EXAMPLES, example
from regard.written_numbers import real_number, whole_number

try:
    import torch
except ModuleNotFoundError:  # the soak runs on a Python for which there may be none
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

SUFFIXES = [".npy", ".npz", ".safetensors", ".csv", ".tsv", ".txt"]


def keys(rows: int = 3, columns: int = 5) -> np.ndarray:
    return np.random.default_rng(7).standard_normal((rows, columns))


def refused(spec: object, message: str, **options: object) -> str:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        load_array(str(spec), **options)
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 400
    return said


def npy_bytes(header: str, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text + body


@contextmanager
def little_memory(most: int = 3_000_000) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


# What loads


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i1", "i8", "u4", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_every_type_equals_numpy(tmp_path: Path, dtype: str, order: str) -> None:
    stored = np.asarray(np.round(keys() * 3), order=order).astype(dtype)
    np.save(tmp_path / "k.npy", stored)
    loaded = load_array(str(tmp_path / "k.npy"))
    assert loaded.array.dtype == np.float64
    assert loaded.array.dtype.isnative
    np.testing.assert_array_equal(loaded.array, stored.astype(float))
    assert bool(loaded.notes) == (dtype != "f8")


def test_conversion_is_said() -> None:
    assert "uint8 converted to float64" in str(load_from(np.uint8([[1, 2]])).notes)
    assert "float16 converted to float64" in str(load_from(np.float16([[1, 2]])).notes)
    assert "int64 converted to float64" in str(load_from(np.int64([[2**53, -(2**53)]])).notes)
    assert "byte order" in str(load_from(np.array([[1.5]], dtype=">f8")).notes)


def load_from(array: np.ndarray, **options: object):
    """Through a real file, in a directory that is gone afterwards."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/k.npy", array)
        return load_array(f"{folder}/k.npy", **options)


def test_npy_and_safetensors_are_memory_mapped(tmp_path: Path) -> None:
    big = np.ones((1 << 12, 1 << 10), dtype=np.float32)  # 16 MB
    np.save(tmp_path / "k.npy", big)
    save_file({"w": big}, tmp_path / "k.safetensors")
    for spec in (tmp_path / "k.npy", f"{tmp_path}/k.safetensors:w"):
        tracemalloc.start()
        loaded = load_array(str(spec), dtype=None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert loaded.array.dtype == np.float32
        assert not loaded.array.flags.writeable
        assert peak < 4_000_000


def test_npz_named_and_single(tmp_path: Path) -> None:
    a, b = keys(2, 3), keys(5, 7)
    np.savez(tmp_path / "two.npz", a=a, b=b)
    np.savez_compressed(tmp_path / "one.npz", only=b)
    np.testing.assert_array_equal(load_array(f"{tmp_path}/two.npz:b").array, b)
    np.testing.assert_array_equal(load_array(f"{tmp_path}/one.npz").array, b)
    said = refused(f"{tmp_path}/two.npz:bb", "has no array 'bb'; did you mean 'b'?")
    assert said.endswith("(there are: a, b).")
    refused(tmp_path / "two.npz", "holds 2 arrays; say which with ':NAME'; there are: a, b.")
    refused(f"{tmp_path}/two.npz:", "say which with ':NAME'")


def save_torch(tensors: Mapping[str, Any], path: Path) -> None:
    from safetensors.torch import save_file  # imports torch

    save_file(tensors, path)


TORCH_TYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int8", "bool")


@needs_torch
@pytest.mark.parametrize("dtype", TORCH_TYPES)
def test_safetensors_of_every_type_equals_torch(tmp_path: Path, dtype: str) -> None:
    stored = torch.from_numpy(np.round(keys(7, 11) * 3, 1)).to(getattr(torch, dtype))
    save_torch({"w": stored, "other.weight": torch.ones(3)}, tmp_path / "m.safetensors")
    loaded = load_array(f"{tmp_path}/m.safetensors:w")
    np.testing.assert_array_equal(loaded.array, stored.to(torch.float64).numpy())


@needs_torch
def test_every_bfloat16_number_is_exact(tmp_path: Path) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    finite = every[torch.isfinite(every)]
    save_torch({"w": finite}, tmp_path / "m.safetensors")
    loaded = load_array(f"{tmp_path}/m.safetensors", ndim=1)
    np.testing.assert_array_equal(loaded.array, finite.to(torch.float64).numpy())
    assert "bfloat16 read exactly" in loaded.notes[0]


def test_safetensors_names(tmp_path: Path) -> None:
    save_file({"embed.weight": keys(), "b": keys()}, tmp_path / "m.safetensors")
    said = refused(f"{tmp_path}/m.safetensors:embed.wieght", "did you mean 'embed.weight'?")
    assert "there are: " in said
    refused(tmp_path / "m.safetensors", "holds 2 arrays; say which")


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t"), (".txt", " "), (".txt", ",")])
def test_text_round_trip_keeps_every_bit(tmp_path: Path, suffix: str, delimiter: str) -> None:
    np.savetxt(tmp_path / f"k{suffix}", keys(), delimiter=delimiter, fmt="%.17g", header="made by numpy")
    np.testing.assert_array_equal(load_array(str(tmp_path / f"k{suffix}")).array, keys())


def test_text_with_header_bom_and_windows_lines(tmp_path: Path) -> None:
    (tmp_path / "k.csv").write_bytes("\ufeffx,y\r\n1, 2\r\n\r\n3,4\r\n".encode())
    loaded = load_array(str(tmp_path / "k.csv"))
    assert loaded.array.tolist() == [[1, 2], [3, 4]]
    assert "the header on line 1 was skipped" in loaded.notes[0]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("1,0; 0,1; 1,1", [[1, 0], [0, 1], [1, 1]]),
        ("1;2;3", [[1], [2], [3]]),
        ("-1e-3, .5", [[-0.001, 0.5]]),
        ("3;", [[3]]),
    ],
)
def test_inline(spec: str, expected: list[list[float]]) -> None:
    assert load_array(spec).array.tolist() == expected


@pytest.mark.parametrize("spec", ["1,2,3", "1;2;3"])
def test_one_row_or_one_column_is_a_vector(spec: str) -> None:
    assert load_array(spec, ndim=1).array.tolist() == [1, 2, 3]
    refused("1,2; 3,4", "must have 1 dimension but has shape (2, 2)", ndim=1)


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(data)))

    feed(b"1 2\n3 4\n")
    assert load_array("-").array.tolist() == [[1, 2], [3, 4]]
    stream = io.BytesIO()
    np.save(stream, keys())
    feed(stream.getvalue())
    np.testing.assert_array_equal(load_array("-").array, keys())
    feed(b" \n")
    refused("-", "keys (standard input) is empty; pipe in a .npy file or rows of numbers.")
    monkeypatch.setattr("sys.stdin", None)
    refused("-", "is empty")


def test_a_file_whose_name_has_a_colon(tmp_path: Path) -> None:
    os.rename(saved(tmp_path, keys()), tmp_path / "a.npz:b.npy")
    np.testing.assert_array_equal(load_array(str(tmp_path / "a.npz:b.npy")).array, keys())


def saved(folder: Path, array: np.ndarray) -> Path:
    np.save(folder / "saved.npy", array)
    return folder / "saved.npy"


# What is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3\n", "line 2 has 1 number where line 1 has 2; give every row as many."),
        ("# note\n\n1,2\n3,4,5\n", "line 4 has 3 numbers where line 3 has 2"),
        ("1,2\n3,x\n", "line 2, field 2 is 'x', which is not a number; "),
        ("1,2,\n", "line 1, field 3 is empty, which is not a number; "),
        ("x,2\n3,4\n", "line 1, field 1 is 'x', which is not a number; "),
        ("x,y\n", "line 1, field 1 is 'x', which is not a number; "),
        ("x,y\nz,w\n1,2\n", "line 1, field 1 is 'x', which is not a number; "),
        ("x\n1,2\n3\n", "line 3 has 1 number where line 2 has 2"),
        ("1_0,2\n", "line 1, field 1 is '1_0', which is not a number; "),
        ("1,nan\n", "row 0, column 1 (counted from 0) is nan; every number must be finite"),
        ("1,2\n1e999,2\n", "row 1, column 0 (counted from 0) is inf"),
        ("1;2\n", "line 1, field 1 is '1;2', which is not a number; "),
        ("\n# nothing\n", "has no numbers in it; it needs at least one row."),
        ("", "is an empty file; it needs at least one row of numbers."),
    ],
)
def test_bad_text(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "k.csv").write_text(text)
    refused(tmp_path / "k.csv", message)


def test_wrong_encoding(tmp_path: Path) -> None:
    (tmp_path / "k.csv").write_bytes("1,2\n".encode("utf-16"))
    refused(tmp_path / "k.csv", "is not UTF-8 text (byte 0); save it again as UTF-8.")


def test_paths(tmp_path: Path) -> None:
    saved(tmp_path, keys())
    refused(tmp_path, "is a directory; name a file in it (.npy, .npz,")
    refused(tmp_path / "savde.npy", f"there is no such file (did you mean '{tmp_path}/saved.npy'?)")
    refused(tmp_path / "zzz.npy", "there is no such file")
    refused("nowhere/at/all.npy", "keys (nowhere/at/all.npy): there is no such file")
    refused("no\0where.npy", "there is no such file")
    refused("1,2; 3,x", "is neither a file nor numbers like '1,0; 0,1'; check for a stray character.")
    refused("9" * 5000 + ",x", "is neither a file nor numbers")
    refused("", "there is no such file")
    (tmp_path / "k.pkl").write_bytes(b"x")
    refused(
        tmp_path / "k.pkl",
        "has a name that ends in '.pkl'; use .npy, .npz, .safetensors, .csv, .tsv or .txt.",
    )
    os.mkfifo(tmp_path / "pipe.npy")
    refused(tmp_path / "pipe.npy", "is not a regular file; use '-' to read from standard input.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file(tmp_path: Path) -> None:
    saved(tmp_path, keys()).chmod(0)
    refused(tmp_path / "saved.npy", "cannot be read: Permission denied.")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((2, 2), complex), "holds complex numbers; real numbers are needed"),
        (np.array([["a", "b"]]), "holds text; real numbers are needed"),
        (np.array([[b"a"]]), "holds text"),
        (np.ones((0, 3)), "has shape (0, 3): it needs at least one number along every axis."),
        (np.ones((3, 0)), "has shape (3, 0)"),
        (np.ones(3), "must have 2 dimensions but has shape (3,); reshape it to one row per vector."),
        (np.ones((2, 2, 2)), "must have 2 dimensions but has shape (2, 2, 2)."),
        (np.float64(3.0), "must have 2 dimensions but has shape ()."),
        (np.array([[1, 2], [3, np.nan]]), "row 1, column 1 (counted from 0) is nan"),
        (np.array([[1, -np.inf], [3, np.nan]], np.float16), "row 0, column 1 (counted from 0) is -inf"),
        (np.ones((1, 1), np.longdouble), "longdouble" if np.dtype("g").itemsize == 8 else "holds float"),
        (np.array([["2020-01-01"]], "M8[D]"), "holds Python objects or records, which are never unpickled"),
    ],
)
def test_bad_npy_contents(array: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load_from(array)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(tmp_path / "boom"),)

    np.save(tmp_path / "k.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "k.npz", a=np.array([[Bomb()]], dtype=object), allow_pickle=True)
    refused(tmp_path / "k.npy", "never unpickled")
    refused(f"{tmp_path}/k.npz:a", "never unpickled")
    assert not (tmp_path / "boom").exists()


def test_first_bad_entry_deep_in_a_large_file() -> None:
    big = np.zeros((30_011, 101))
    big[29_989, 97] = np.nan
    big[29_990, 3] = np.inf
    with pytest.raises(InputError, match=r"row 29989, column 97 \(counted from 0\) is nan"):
        load_from(big)
    with pytest.raises(InputError, match=r"entry \(29989, 97, 0\) \(counted from 0\) is nan"):
        load_from(big[:, :, None], ndim=3)


HUGE = 2**62


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1,2\n3,4\n", "is named .npy but is not such a file; it looks like text, so name it .csv."),
        (b"\xff\xfe\x00\x01", "is named .npy but is not such a file; write it with numpy.save."),
        (b"\x93NUMPY", "has a damaged .npy header"),
        (b"\x93NUMPY\x09\x00aaaa", "has a damaged .npy header"),
        (
            npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3)}\n", b"\0" * 23),
            "is cut short",
        ),
        (
            npy_bytes(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({HUGE}, {HUGE})}}\n"),
            "is cut short",
        ),
        (npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3)}\n"), "is impossible"),
        (
            npy_bytes(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'9' * 4000}, {'9' * 4000})}}\n"),
            "is impossible",
        ),
        (
            npy_bytes(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({'1,' * 40})}}\n", b"\0" * 8),
            "impossible",
        ),
        (npy_bytes("{'descr': '<U0', 'fortran_order': False, 'shape': (3, 3)}\n"), "at least one number"),
        (
            npy_bytes("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1)}\n", b"\0" * 8),
            "never unpickled",
        ),
        (npy_bytes("{" + "[" * 9000), "has a damaged .npy header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", "has a damaged .npy header"),
    ],
)
def test_hostile_npy_costs_no_memory(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "k.npy").write_bytes(data)
    with little_memory():
        refused(tmp_path / "k.npy", message)


def tensors(header: object, body: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + body


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"abc", "its header does not fit into the file"),
        (tensors({}, length=2**63), "its header does not fit into the file"),
        (tensors(b"[" * 100_000), "has a damaged .safetensors header"),
        (tensors(b"\xff\xff"), "has a damaged .safetensors header"),
        (tensors([1]), "not a table of tensors"),
        (tensors({"a": 3}), "lacks a valid dtype, shape or data_offsets"),
        (tensors({"a": {"dtype": "F64", "shape": [1.5], "data_offsets": [0, 8]}}), "lacks a valid dtype"),
        (tensors({"a": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}}), "lacks a valid dtype"),
        (
            tensors({"a": {"dtype": "F64", "shape": [2, 1], "data_offsets": [0, 8]}}, b"\0" * 8),
            "does not fill 8 bytes",
        ),
        (tensors({"a": {"dtype": "F64", "shape": [HUGE], "data_offsets": [0, 8 * HUGE]}}), "is cut short"),
        (
            tensors({"a": {"dtype": "F64", "shape": [1], "data_offsets": [8 * HUGE, 8 * HUGE + 8]}}),
            "starts at byte",
        ),
        (
            tensors({"a": {"dtype": "F8_E8M0", "shape": [1], "data_offsets": [0, 1]}}, b"\0"),
            "is stored as F8_E8M0",
        ),
        (tensors({"__metadata__": {"x": "y"}}), "holds 0 arrays; say which with ':NAME'; there are: none."),
        (tensors({"a": {"dtype": "F64", "shape": [0, 3], "data_offsets": [0, 0]}}), "has shape (0, 3)"),
    ],
)
def test_hostile_safetensors(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "k.safetensors").write_bytes(data)
    refused(tmp_path / "k.safetensors", message)


TWO = {
    "a": {"dtype": "F64", "shape": [2], "data_offsets": [0, 16]},
    "b": {"dtype": "F64", "shape": [1], "data_offsets": [16, 24]},
}


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ({**TWO, "b": {**TWO["b"], "data_offsets": [8, 16]}}, 16, "'b' starts at byte 8, not at 16"),
        ({**TWO, "b": {**TWO["b"], "data_offsets": [24, 32]}}, 32, "'b' starts at byte 24, not at 16"),
        ({"a": {**TWO["a"], "data_offsets": [8, 24]}}, 24, "'a' starts at byte 8, not at 0"),
        (TWO, 25, "1 bytes that belong to no tensor"),
        (TWO, 23, "is cut short: its tensors need 24 bytes and 23 are there"),
    ],
)
def test_what_the_format_refuses_is_refused(tmp_path: Path, header: object, body: int, message: str) -> None:
    """Shifted, overlapping, with gaps, too long, too short: as the reference library."""
    path = tmp_path / "k.safetensors"
    path.write_bytes(tensors(header, bytes(body)))
    refused(f"{path}:a", message)
    with pytest.raises(SafetensorError), safe_open(path, framework="numpy"):
        pass
    path.write_bytes(tensors(TWO, bytes(24)))
    assert load_array(f"{path}:b", ndim=1).array.tolist() == [0.0]


def test_a_name_that_stands_twice_is_refused(tmp_path: Path) -> None:
    entry = json.dumps(TWO["a"])
    (tmp_path / "k.safetensors").write_bytes(tensors(f'{{"a": {entry}, "a": {entry}}}'.encode(), bytes(16)))
    refused(tmp_path / "k.safetensors", "the name 'a' appears twice")


@needs_torch
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_every_8_bit_number_is_exact(tmp_path: Path, dtype: str) -> None:
    every = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(getattr(torch, dtype))
    finite = every[torch.isfinite(every.float())]
    save_torch({"w": finite}, tmp_path / "m.safetensors")
    loaded = load_array(f"{tmp_path}/m.safetensors", ndim=1)
    np.testing.assert_array_equal(loaded.array, finite.to(torch.float64).numpy())
    assert "read exactly as float32" in loaded.notes[0]
    save_torch({"w": every}, tmp_path / "m.safetensors")
    refused(tmp_path / "m.safetensors", "every number must be finite", ndim=1)


def array_of_zeros(size: int) -> Iterator[bytes]:
    """The bytes of a .npy file of so many, in pieces."""
    yield npy_bytes(f"{{'descr': '|b1', 'fortran_order': False, 'shape': (1, {size})}}\n")
    yield from itertools.repeat(bytes(1 << 20), size >> 20)


def small_archive(path: Path, content: Iterable[bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
        for piece in content:
            member.write(piece)


def small_array_before_nothing() -> Iterator[bytes]:
    body = io.BytesIO()
    np.save(body, np.eye(2))
    yield body.getvalue()
    yield from itertools.repeat(bytes(1 << 20), 80)


@pytest.mark.parametrize("content", [array_of_zeros(80 << 20), small_array_before_nothing()], ids=["honest", "hidden"])
def test_an_archive_that_grows_without_measure_is_refused_unread(tmp_path: Path, content: Iterator[bytes]) -> None:
    """Zeros shrink a thousandfold: 9 MB would become 10 GB, and as float64 eight times that."""
    small_archive(tmp_path / "k.npz", content)
    with little_memory():
        refused(
            tmp_path / "k.npz", "are read; if you trust it, write it again with numpy.savez, which does not compress"
        )


def test_an_archive_that_grows_as_numbers_do_is_read_once(tmp_path: Path) -> None:
    small_archive(tmp_path / "k.npz", array_of_zeros(8 << 20))
    with little_memory(11_000_000):  # one copy, and an eighth
        assert load_array(tmp_path / "k.npz", dtype=None).array.shape == (1, 8 << 20)


def directory(count: int, *, size: int = 0, kind: int = 0) -> bytes:
    """An archive that is nothing but a list of members, all at the same place."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\1\2", 20, 0, 20, 0, 0, kind, 0, 0, 0, 0, size, 6, 0, 0, 0, 0, 0, 0)
    listed = b"".join(entry + b"%06d" % number for number in range(count))
    return listed + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0, 0, len(listed), 0, 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (directory(30_000), "its list of arrays has 1,560,000 bytes, and at most 1,048,576 are read"),
        (directory(2_000, size=1 << 20), "unpack to 2,097,152,000, and at most 68,"),  # each harmless by itself
        (directory(1, kind=zipfile.ZIP_BZIP2), "is packed in a way that NumPy does not use"),
        (directory(1, kind=zipfile.ZIP_LZMA), "is packed in a way that NumPy does not use"),
        (directory(1, size=1 << 20), "is not a readable .npz archive"),
    ],
)
def test_hostile_lists_of_members(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "k.npz").write_bytes(data)
    with little_memory():
        refused(f"{tmp_path}/k.npz:000000", message)


def test_an_array_that_stands_twice_in_an_archive_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "k.npz", "w") as archive:
        for name in ("a.npy", "a"):
            archive.writestr(name, npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1)}\n", b"\0" * 8))
    refused(tmp_path / "k.npz", "the name 'a' appears twice")


def test_a_header_with_a_name_twice_among_very_many_is_refused_at_once(tmp_path: Path) -> None:
    pairs = ",".join(f'"{number}":0' for number in range(50_000))
    (tmp_path / "k.safetensors").write_bytes(tensors(f'{{{pairs},"49999":0}}'.encode()))
    began = time.process_time()
    refused(tmp_path / "k.safetensors", "the name '49999' appears twice")
    assert time.process_time() - began < 5  # comparing each with all before it took minutes


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": {"dtype": "F64", "shape": [1] * 100_000, "data_offsets": [0, 8]}}, "lacks a valid dtype, shape"),
        ({"a": {"dtype": "F64", "shape": [10**4200], "data_offsets": [0, 8]}}, "lacks a valid dtype, shape"),
        ({"a": {"dtype": "F64", "shape": [1], "data_offsets": [10**4200, 10**4201]}}, "lacks a valid dtype, shape"),
        ({"a": {"dtype": "F" * 100_000, "shape": [1], "data_offsets": [0, 8]}}, "FFFF; convert it to one of"),
        ({"a" * 100_000: {"dtype": "F64", "shape": [1], "data_offsets": [1, 9]}}, "aaa' starts at byte 1, not at 0"),
        ({c * 100_000: {"dtype": "F64", "shape": [0], "data_offsets": [0, 8 * (c > "a")]} for c in "ab"}, "2 arrays"),
        (b" " * ((1 << 24) + 1), "its header does not fit into the file, or has more than 16 MiB"),
    ],
)
def test_what_is_endless_in_a_header_is_short_in_the_sentence(tmp_path: Path, header: object, message: str) -> None:
    (tmp_path / "k.safetensors").write_bytes(tensors(header, bytes(8)))
    refused(tmp_path / "k.safetensors", message)


def test_damaged_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "k.npz", a=keys(13, 17))
    whole = (tmp_path / "k.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path / "cut.npz", "is not a readable .npz archive (File is not a zip file)")
    flipped = bytearray(whole)
    flipped[400] ^= 1
    (tmp_path / "flip.npz").write_bytes(flipped)
    refused(tmp_path / "flip.npz", "is not a readable .npz archive (Bad CRC-32")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("readme", "hello")
    refused(tmp_path / "text.npz", "it looks like text")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_truncation_is_refused_or_a_shorter_text(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"k{suffix}"
    if suffix == ".npy":
        np.save(file, keys(2, 3))
    elif suffix == ".npz":
        np.savez(file, a=keys(2, 3))
    elif suffix == ".safetensors":
        save_file({"a": keys(2, 3)}, file)
    else:
        np.savetxt(file, keys(2, 3), delimiter="\t" if suffix == ".tsv" else ",")
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        try:
            loaded = load_array(str(file))
        except InputError:
            continue
        assert suffix in (".csv", ".tsv", ".txt")
        assert np.isfinite(loaded.array).all()


# Whatever the bytes: an array of finite numbers, or an InputError


def load_or_refuse(path: Path, data: bytes, suffix: str) -> None:
    file = path / f"fuzz{suffix}"
    file.write_bytes(data)
    try:
        loaded = load_array(str(file), ndim=None)
    except InputError:
        return
    assert loaded.array.dtype == np.float64
    assert loaded.array.size > 0
    assert np.isfinite(loaded.array).all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=300))
def test_random_bytes(folder: Path, suffix: str, data: bytes) -> None:
    load_or_refuse(folder, data, suffix)


@settings(max_examples=200, deadline=None)
@given(header=st.text(st.characters(max_codepoint=255), max_size=120), body=st.binary(max_size=64))
def test_random_npy_headers(folder: Path, header: str, body: bytes) -> None:
    load_or_refuse(folder, npy_bytes(header, body), ".npy")


@settings(max_examples=200, deadline=None)
@given(
    descr=st.sampled_from(["<f8", ">f4", "|b1", "<i8", "|O", "<c16", "<U3", "|V8", "<M8[s]", "<f16", "q", "bogus"]),
    shape=st.lists(st.integers(-3, 5) | st.integers(), max_size=5).map(tuple),
    fortran=st.booleans(),
    body=st.binary(max_size=300),
)
def test_plausible_npy_headers(folder: Path, descr: str, shape: tuple[int, ...], fortran: bool, body: bytes) -> None:
    header = repr({"descr": descr, "fortran_order": fortran, "shape": shape}) + "\n"
    load_or_refuse(folder, npy_bytes(header, body), ".npy")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
tensor_entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F64", "BF16", "BOOL", "I8", "F4"]) | json_values,
        "shape": st.lists(st.integers(0, 4), max_size=3) | json_values,
        "data_offsets": st.tuples(st.integers(0, 64), st.integers(0, 64)) | json_values,
    }
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(header=st.dictionaries(st.text(max_size=3), tensor_entries | json_values, max_size=2) | json_values,
       body=st.binary(max_size=80))  # fmt: skip
def test_random_safetensors_headers(folder: Path, header: object, body: bytes) -> None:
    load_or_refuse(folder, tensors(header, body), ".safetensors")


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_flipped_bytes(folder: Path, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from([".npy", ".npz", ".safetensors"]))
    whole = bytearray(_valid(suffix))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    load_or_refuse(folder, bytes(whole), suffix)


def _valid(suffix: str) -> bytes:
    from safetensors.numpy import save

    if suffix == ".safetensors":
        return save({"a": keys(2, 3)})
    stream = io.BytesIO()
    if suffix == ".npy":
        np.save(stream, keys(2, 3))
    else:
        np.savez_compressed(stream, a=keys(2, 3))
    return stream.getvalue()


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(st.sampled_from("0123456789.,;+-eEinfatx \t\n#_\"'"), max_size=40),
    suffix=st.sampled_from(SUFFIXES[3:]),
)
def test_random_text(folder: Path, text: str, suffix: str) -> None:
    load_or_refuse(folder, text.encode(), suffix)


@settings(max_examples=300, deadline=None)
@given(spec=st.text(max_size=30) | st.text(st.sampled_from("0123456789.,;+-einfaty \n:_"), max_size=20))
def test_random_specs(spec: str) -> None:
    if spec in ("-", ".", "..") or os.path.lexists(spec.replace("\0", "")):
        return
    try:
        loaded = load_array(spec)
    except InputError:
        return
    assert np.isfinite(loaded.array).all()


# From Python


@settings(max_examples=100, deadline=None)
@given(hnp.arrays(st.sampled_from(["f2", "f4", ">f8", "i4", "u1", "?"]), (3, 5), elements=st.integers(0, 1)))
def test_check_array_agrees_with_numpy(array: np.ndarray) -> None:
    for given_ in (array, np.asfortranarray(array), array.tolist(), array[:, ::-1]):
        checked = check_array(given_, what="keys")
        assert checked.dtype == np.float64
        assert checked.flags.c_contiguous
        np.testing.assert_array_equal(checked, np.asarray(given_, dtype=float))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([[1, 2], [3]], "keys must be an array of numbers with rows of one length: "),
        ([["a", "b"]], "keys holds text"),
        ([[1j]], "keys holds complex numbers"),
        (None, "keys holds Python objects"),
        ([[10**400]], "keys: there are integers beyond 2^53 that float64 rounds, such as one of 1329 binary digits"),
        ([], "keys has shape (0,)"),
        ([1.0], "keys must have 2 dimensions but has shape (1,)"),
        (np.ma.masked_array([[1.0]], mask=[[True]]), "keys is a masked array"),
        pytest.param(
            torch and torch.ones(2, 2, requires_grad=True), "keys must be an array of numbers", marks=needs_torch
        ),
        ([[0.0, float("inf")]], "keys: row 0, column 1 (counted from 0) is inf"),
    ],
)
def test_check_array_refuses(array: object, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        check_array(array, what="keys")


def test_check_array_dimensions() -> None:
    assert check_array(3.0, what="scale", ndim=0).shape == ()
    assert check_array([1.0, 2.0], what="query", ndim=(1, 2)).shape == (2,)
    assert check_array([[1.0, 2.0]], what="query", ndim=(1, 2)).shape == (1, 2)
    with pytest.raises(InputError, match=re.escape("query must have 1 or 2 dimensions but has shape (1, 1, 1).")):
        check_array([[[1.0]]], what="query", ndim=(1, 2))
    with pytest.raises(InputError, match="scale: it is nan"):
        check_array(float("nan"), what="scale", ndim=0)


# Writing


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_save_then_load(tmp_path: Path, suffix: str) -> None:
    save_array(tmp_path / f"m{suffix}", keys())
    np.testing.assert_array_equal(load_array(str(tmp_path / f"m{suffix}")).array, keys())
    assert [file.name for file in tmp_path.iterdir()] == [f"m{suffix}"]


def test_save_refuses(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the name must end in \.npy or \.csv"):
        save_array(tmp_path / "m.txt", keys())
    with pytest.raises(InputError, match=r"Cannot write .*: there is no directory '.*/no'"):
        save_array(tmp_path / "no" / "m.npy", keys())
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(InputError, match=r"Cannot write .*: it is a directory"):
        save_array(tmp_path / "d.npy", keys())
    with pytest.raises(InputError, match=r"could not be written: File name too long"):
        save_array(tmp_path / f"{'m' * 300}.npy", keys())
    assert [file.name for file in tmp_path.iterdir()] == ["d.npy"]


# Examples


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_finite_deterministic_and_their_own_copy(name: str) -> None:
    first = load_array(f"example:{name}").array
    assert first.ndim == 2
    np.testing.assert_array_equal(first, example(name))
    example(name)[0, 0] = 99
    np.testing.assert_array_equal(first, example(name))


def test_examples_are_what_they_say() -> None:
    np.testing.assert_array_equal(example("orthonormal"), np.eye(10))
    for name in ("unit", "hexagon"):
        np.testing.assert_allclose(np.linalg.norm(example(name), axis=1), 1, rtol=1e-15)
    simplex = example("simplex")
    distances = np.linalg.norm(simplex[:, None] - simplex[None], axis=2)
    np.testing.assert_allclose(distances, 1 - np.eye(5), atol=1e-15)
    assert np.linalg.matrix_rank(example("collinear")) == 1
    square, triangle = example("square"), example("triangle")
    np.testing.assert_array_equal(square[4], square[:4].mean(axis=0))
    np.testing.assert_array_equal(triangle[3] * 2, triangle[0] + triangle[1])
    np.testing.assert_array_equal(triangle[4] * 3, triangle[:3].sum(axis=0))
    np.testing.assert_array_equal(example("duplicate")[0], example("duplicate")[1])
    assert example("gaussian").shape == example("unit").shape == (200, 16)
    assert example("single").shape == (1, 2)
    np.testing.assert_array_equal(example("opposite")[:3], -example("opposite")[3:])
    assert example("crowded").shape == (200, 2)
    np.testing.assert_array_equal(example("pair"), np.eye(2))
    refused("example:sqare", "There is no example 'sqare'; did you mean 'square'?")


ODD = 2**53 + 1  # float64 has 2^53 and 2^53 + 2
BEYOND = f"there are integers beyond 2^53 that float64 rounds, such as {ODD}"


@pytest.mark.parametrize(
    "given",
    [
        [[ODD], [0]],
        [[ODD, 0.5]],  # NumPy alone would make floats of all
        [[np.int64(ODD), 0.5]],
        ((ODD, 0.5),),
        np.array([[ODD]], dtype=np.int64),
        np.array([[ODD]], dtype=np.uint64),
        np.array([[ODD, 0.5]], dtype=object),
        [[ODD, 2**64]],  # NumPy makes objects of these
        pytest.param(torch and torch.tensor([[ODD]]), marks=needs_torch),
        [[0], [-ODD]],
    ],
    ids=repr,
)
def test_an_integer_that_float64_rounds_is_refused_from_python(given: object) -> None:
    with pytest.raises(InputError, match=re.escape(BEYOND.replace(str(ODD), ""))) as caught:
        check_array(given, what="keys")
    assert str(ODD) in str(caught.value)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors", ".csv", ".tsv", ".txt", "inline"])
def test_an_integer_that_float64_rounds_is_refused_from_everywhere(tmp_path: Path, suffix: str) -> None:
    stored, path = np.array([[2**53], [ODD], [0]]), tmp_path / f"k{suffix}"
    if suffix == ".npy":
        np.save(path, stored)
    elif suffix == ".npz":
        np.savez(path, k=stored)
    elif suffix == ".safetensors":
        save_file({"k": stored}, path)
    else:
        path.write_text("\n".join(str(x) for x in stored[:, 0]))
    refused(f"{2**53},1; {ODD},0" if suffix == "inline" else path, BEYOND)
    for dtype in (None, np.float64):  # kept as stored too: what reads it block by block would round it later
        refused(f"0.5,{ODD}" if suffix == "inline" else path, BEYOND, dtype=dtype)


def test_integers_that_float64_holds_and_fractions_are_read() -> None:
    assert check_array([[2**60, -(2**54)], [2**53, 0.5]], what="keys").tolist() == [
        [2.0**60, -(2.0**54)],
        [2.0**53, 0.5],
    ]
    read = load_array(f"{2**60}.0,0.1; {ODD}.5,1e23; {'0' * 5000}{2**53},1.152921504606847e+18").array
    assert read.tolist() == [[2.0**60, 0.1], [float(2**53 + 2), 1e23], [2.0**53, 2.0**60]]


@pytest.mark.parametrize("tail", [".0", ".", ".000", "e0", "E+0", "0e-1", "00.0e-2"])
def test_an_integer_with_a_point_or_an_exponent_is_refused_all_the_same(tmp_path: Path, tail: str) -> None:
    refused(f"{2**53}; {ODD}{tail}; 0", BEYOND)
    (tmp_path / "k.csv").write_text(f"-{ODD}{tail}\n0\n")
    refused(tmp_path / "k.csv", BEYOND.replace(str(ODD), f"-{ODD}"))


@pytest.mark.parametrize("form", ["%.17g", "%.18e", "%f", "%r"])
def test_large_floats_are_read_as_programs_write_them(form: str) -> None:
    """NumPy's savetxt, C and Python: of every size beyond 2^53."""
    numbers = [m * 2.0**k for k in range(53, 1000, 7) for m in (1.0, 1.0000000000000002, 1.9999999999999998, -4 / 3)]
    assert load_array(",".join(form % x for x in numbers)).array[0].tolist() == numbers


@pytest.mark.parametrize("word", ["１", "1٫5", "٣", "1_0", "0x10", "1\u00a0", "1e", "--1"])
def test_numbers_are_written_in_the_digits_0_to_9(tmp_path: Path, word: str) -> None:
    (tmp_path / "k.csv").write_text(f"1,2\n{word},3\n", encoding="utf-8")
    refused(tmp_path / "k.csv", "line 2, field 1 is ")
    with pytest.raises(ValueError, match="is not a number"):
        real_number(word)
    with pytest.raises(ValueError, match="is not a whole number"):
        whole_number(word)

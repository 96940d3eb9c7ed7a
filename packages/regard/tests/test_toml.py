"""Settings files that lie: one sentence each, and no memory, no hang."""

from __future__ import annotations

import os
import tomllib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.noise import read_model
from regard.toml import LARGEST, parse_toml, read_toml
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.studies.space import load_space

READERS = [
    lambda path: read_toml(path, like="x.toml"),
    read_model,
    load_settings,
    lambda path: load_space(path, Settings()),
]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"n = " + b"9" * 5000, "is not valid TOML: a whole number in it has thousands of digits; write it like"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"{a=" * 100_000, "nested too deeply"),
        (b"a" + b".a" * 40_000 + b" = 1", "nested too deeply, more than 16 tables or lists in one another"),
        (b"a" + b" . 'a'" * 17 + b" = 1", "nested too deeply"),
        (b"[a" + b'."a"' * 40_000 + b"]", "nested too deeply"),
        (b"[[a" + b".a" * 40_000 + b"]]", "nested too deeply"),
        (b"a = {b" + b".a" * 40_000 + b" = 1}", "nested too deeply"),
        (b"n = 0x" + b"f" * 5000, "is not valid TOML: a whole number in it does not fit into 64 bits"),
        (b"n = [[{m = 9223372036854775808}]]", "a whole number in it does not fit into 64 bits"),
        (b"a = '\xff'", "is not valid TOML"),
        (b"a = ", "is not valid TOML"),
        (b"#" * (LARGEST + 1), "at most 1,048,576 are read"),
    ],
)
def test_absurd_files(read, data, said, tmp_path):
    (tmp_path / "x.toml").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=said):
            read(tmp_path / "x.toml")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_what_goes_just_deep_enough_is_read():
    for text in ("a = " + "[" * 16 + "]" * 16, ".".join("a" * 16) + " = 1", "[" + ".".join("a" * 16) + "]"):
        assert parse_toml(text) == tomllib.loads(text)


VALUES = [  # strings of every kind, with what would be brackets, dots, quotes and comments outside them
    *(
        '"]["',
        "'[[{'",
        '""',
        '"\\""',
        '"\\\\"',
        "'\\'",
        '"#"',
        '"""\n[[\n"""',
        "'''\n{{'''",
        '"""q""""',
        '"""q"""""',
        "'''q''''",
    ),
    *(
        '"""\\""""',
        '"""a""b"""',
        "'''a''b'''",
        '"a.b.c"',
        "1 # [[[",
        '1 # """',
        "2.5",
        "[1, [2]]",
        "{a.b = '}'}",
        '"""#\n"""',
    ),
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(VALUES), max_size=6), st.sampled_from(["=" + "[" * 20, ".a" * 20, " . 'a'" * 20]))
def test_what_is_counted_is_what_the_parser_reads(values, deep):
    """Behind whatever is valid, with strings and comments of every kind, too much depth is seen; and only there."""
    text = "\n".join(f"k{number} = {value}" for number, value in enumerate(values))
    assert parse_toml(text) == tomllib.loads(text)
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_toml(f"{text}\nz{deep}")


@pytest.mark.parametrize("read", READERS)
def test_pipes_and_folders_are_no_files(read, tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    for path, kind in ((tmp_path / "pipe.toml", "a pipe or a device"), (tmp_path, "a folder"), ("/dev/zero", "a pipe")):
        with pytest.raises(InputError, match=kind):
            read(path)


def test_true_is_no_variance(tmp_path):
    for words in ("isotropic = true", 'isotropic = "1"', "isotropic = 1e400"):
        (tmp_path / "x.toml").write_text(f"orthonormal = 3\n{words}\n")
        with pytest.raises(InputError, match=r"isotropic must be (one|a) finite number"):
            read_model(tmp_path / "x.toml")

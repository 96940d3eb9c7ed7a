"""Texts and word vectors that lie about what they are: pipes, devices, traps of gzip, marks of byte order."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.translator.data.sources import FOLD, open_reader, read_text
from regard.translator.data.vectors import read_glove, read_word2vec

READERS = {"text": read_text, "glove": lambda p: read_glove(p, {"a"}), "word2vec": lambda p: read_word2vec(p, {"a"})}


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path: Path, packed: bool) -> None:
    plain = b"hund 1 2\nder 3 4\n"
    for name, content in (("glove", b"\xef\xbb\xbf" + plain), ("header", b"\xef\xbb\xbf2 2\n" + plain)):
        (tmp_path / name).write_bytes(gzip.compress(content) if packed else content)
    assert read_glove(tmp_path / "glove", {"hund", "der"}).keys() == {"hund", "der"}
    assert read_glove(tmp_path / "header", {"hund", "der"}).keys() == {"hund", "der"}
    assert read_word2vec(tmp_path / "header", {"hund"})["hund"].tolist() == [1, 2]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.skipif(sys.platform == "win32", reason="pipes with names are of Unix")
def test_what_is_no_file_is_refused_unread(tmp_path: Path, reader: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe or a device"), (tmp_path, "a folder"), ("/dev/zero", "a pipe or")):
        with pytest.raises(InputError, match=f"is {kind}.*not a file; give a file"):
            READERS[reader](Path(path))
    with pytest.raises(InputError, match=r"is not a path|There is no file"):
        READERS[reader](Path("a\0b"))


@pytest.mark.parametrize("reader", READERS)
def test_a_trap_of_gzip_ends_early(tmp_path: Path, reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some megabytes of one line again and again, in a few kilobytes."""
    monkeypatch.setattr("regard.translator.data.sources.HARMLESS", 2**20)
    line = b"a " + b"0 " * 20_000 + b"0\n"
    head = b"200 20001\n" if reader == "word2vec" else b""
    (tmp_path / "trap").write_bytes(gzip.compress(head + line * 200))
    assert 2**20 + FOLD * (tmp_path / "trap").stat().st_size < 200 * len(line)
    with pytest.raises(InputError, match=r"unpacks to more than|so many are not in the file"):
        READERS[reader](tmp_path / "trap")


def test_one_line_without_an_end_takes_no_memory(tmp_path: Path) -> None:
    (tmp_path / "trap").write_bytes(gzip.compress(b"0" * 2**26, 1))
    with pytest.raises(InputError, match="a line of more than 4,194,304 bytes"):
        read_glove(tmp_path / "trap", {"a"})


def test_text_beyond_the_limit_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"a\n" * 2**20)
    with (
        open_reader(tmp_path / "text") as stream,
        pytest.raises(InputError, match="more than 1,048,576 bytes of text"),
    ):
        stream.rest(most=2**20)

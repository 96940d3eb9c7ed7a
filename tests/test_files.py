"""Files are written whole or not at all, read only if they are files, and locked by one process."""

from __future__ import annotations

import errno
import os

import pytest

from regard import files
from regard.errors import InputError
from regard.files import Lock, append_file, create_folder, read_file, write_file


def test_two_writers_do_not_mix(tmp_path, monkeypatch):
    """The other process writes while this one does: each has a file of its own beside the place."""
    path, real, other = tmp_path / "x", os.fsync, os.getpid() + 1

    def meanwhile(handle):
        real(handle)
        if "b" not in os.listdir(tmp_path):
            (tmp_path / "b").touch()
            with monkeypatch.context() as patch:
                patch.setattr(files.os, "getpid", lambda: other)
                write_file(path, b"theirs, and longer")

    monkeypatch.setattr(files.os, "fsync", meanwhile)
    write_file(path, b"ours")
    assert path.read_bytes() == b"ours"
    assert sorted(os.listdir(tmp_path)) == ["b", "x"]


def test_what_is_added_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "x"
    append_file(path, b"one\n", at=0)
    append_file(path, b"two\n", at=4)
    path.write_bytes(path.read_bytes() + b"hal")
    append_file(path, b"three\n", at=8)
    assert path.read_bytes() == b"one\ntwo\nthree\n"

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(InputError, match="x could not be written: No space left on device; nothing was lost"):
        append_file(path, b"four\n", at=14)
    assert path.read_bytes() == b"one\ntwo\nthree\n"


def test_only_files_are_read(tmp_path):
    (tmp_path / "x").write_bytes(b"0123456789")
    assert read_file(tmp_path / "x", start=3) == b"3456789"
    assert read_file(tmp_path / "x", start=3, most=2, part=True) == b"34"
    with pytest.raises(InputError, match=r"x has 10 bytes, and at most 9 are read; give a smaller file\."):
        read_file(tmp_path / "x", most=9)
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_file(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_file(tmp_path / "nowhere")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_pipes_and_devices_do_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(InputError, match="is a pipe or a device, not a file"):
            read_file(path)


def test_a_folder_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x")
    with pytest.raises(InputError, match="mine exists and is not a run of ours; give another --out"):
        create_folder(tmp_path / "mine", {"a": b"1"})
    assert os.listdir(tmp_path) == ["mine"]
    assert os.listdir(tmp_path / "mine") == ["x"]


def test_a_lock_is_held_by_one(tmp_path):
    one, two = Lock(tmp_path / "x"), Lock(tmp_path / "x")
    assert one.acquire(wait=False)
    assert not two.acquire(wait=False)
    one.release()
    assert two.acquire(wait=False)
    two.release()
    with pytest.raises(InputError, match="cannot be opened"):
        Lock(tmp_path / "nowhere" / "x").acquire()


def test_a_folder_is_replaced_whole_and_what_was_there_goes_last(tmp_path):
    target = tmp_path / "made"
    for text in ("first", "second"):
        with files.replace_folder(target) as partial:
            (partial / "a").write_text(text)
            assert not (target / "b").exists()
        assert [path.name for path in tmp_path.iterdir()] == ["made"]
        assert (target / "a").read_text() == text


@pytest.mark.parametrize("refused", ["filling", "old", "made"])
def test_a_folder_that_cannot_be_replaced_stays(tmp_path, monkeypatch, refused):
    """Refused while it is filled, when the old one is put aside, or when the new one takes its place."""
    target, rename = tmp_path / "made", os.replace
    target.mkdir()
    (target / "a").write_text("old")

    def replace(source, to):
        aside = str(source).endswith(".partial") or str(to).endswith(".old")  # not when the old one is put back
        if aside and str(to).endswith(refused):
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, to)

    def fill():
        with files.replace_folder(target) as partial:
            (partial / "a").write_text("new")
            if refused == "filling":
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "replace", replace)
    with pytest.raises(OSError, match="No space"):
        fill()
    assert (target / "a").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]

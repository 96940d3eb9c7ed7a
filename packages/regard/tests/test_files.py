"""Files are written whole or not at all, read only if they are files, and locked by one process."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading

import pytest

from processes import running, wait_until
from regard import files
from regard.errors import InputError
from regard.files import Lock, append_file, create_folder, read_file, write_file, write_new_file


def test_two_writers_do_not_mix(tmp_path, monkeypatch):
    """The other process writes while this one does: each has a file of its own beside the place."""
    path, real = tmp_path / "x", os.fsync

    def meanwhile(handle):
        real(handle)
        if "b" not in os.listdir(tmp_path):
            (tmp_path / "b").touch()
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
    assert not create_folder(tmp_path / "mine", {"a": b"1"})
    assert os.listdir(tmp_path) == ["mine"]
    assert os.listdir(tmp_path / "mine") == ["x"]
    with pytest.raises(InputError, match="x cannot be made: Not a directory; give another --out"):
        create_folder(tmp_path / "mine" / "x", {"a": b"1"})


def test_of_two_who_make_a_folder_at_once_one_does(tmp_path, monkeypatch):
    """The other begins and ends while this one is half-way: neither takes away what the other has."""
    real, made = files.write_file, []

    def meanwhile(path, data):
        real(path, data)
        if not made:
            made.append(None)
            made[0] = create_folder(tmp_path / "run", {"a": b"theirs", "b": b"theirs"})

    monkeypatch.setattr(files, "write_file", meanwhile)
    assert not create_folder(tmp_path / "run", {"a": b"ours", "b": b"ours"})
    assert made == [True]
    assert os.listdir(tmp_path) == ["run"]
    assert {(tmp_path / "run" / name).read_bytes() for name in "ab"} == {b"theirs"}


def test_nothing_is_written_through_a_link_that_waits(tmp_path, monkeypatch):
    """Even where the name beside could be guessed: what is there already is refused, and stays as it is."""
    victim, path = tmp_path / "victim", tmp_path / "shared" / "x"
    victim.write_text("precious")
    path.parent.mkdir()
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "guessed")
    (path.parent / ".x.guessed.partial").symlink_to(victim)
    with pytest.raises(InputError, match="x could not be written: File exists; nothing was lost"):
        write_file(path, b"ours")
    (path.parent / ".x.guessed.partial").symlink_to(tmp_path)
    with pytest.raises(InputError, match="x cannot be made: File exists"):
        create_folder(path, {"victim": b"ours"})
    with pytest.raises(FileExistsError), files.replace_folder(path):
        raise AssertionError("a folder of somebody else's was handed out")
    assert victim.read_text() == "precious"
    assert not path.exists()


def test_the_name_beside_is_another_each_time(tmp_path):
    names = {files.partial_path(tmp_path / ("n" * 255)).name for _ in range(100)}
    assert len(names) == 100
    assert all(len(name) < 100 and name.startswith(".n") and name.endswith(files.PARTIAL) for name in names)


def test_a_lock_is_held_by_one(tmp_path):
    one, two = Lock(tmp_path / "x"), Lock(tmp_path / "x")
    assert one.acquire(wait=False)
    assert not two.acquire(wait=False)
    one.release()
    assert two.acquire(wait=False)
    two.release()
    with pytest.raises(InputError, match="cannot be opened"):
        Lock(tmp_path / "nowhere" / "x").acquire()
    (tmp_path / files.LOCK).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=r"\.lock is a link, and no lock is taken through one; remove the link"):
        Lock(tmp_path).acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_who_is_refused_takes_nothing_from_the_holder(tmp_path):
    """A record lock is given up by closing any descriptor of its file: a second try must not open it."""
    one, two = Lock(tmp_path), Lock(tmp_path / "." / files.LOCK)
    assert one.acquire(wait=False)
    assert not two.acquire(wait=False)
    two.release()
    assert taken_by_another(tmp_path) == "False"
    one.release()
    assert taken_by_another(tmp_path) == "True"


def test_who_waits_gets_it_from_another_part_of_the_process(tmp_path):
    one, order = Lock(tmp_path / "x"), []
    assert one.acquire()

    def wait_for_it():
        with Lock(tmp_path / "x"):
            order.append("second")

    waiting = threading.Thread(target=wait_for_it)
    waiting.start()
    order.append("first")
    one.release()
    waiting.join()
    assert order == ["first", "second"]


def taken_by_another(path) -> str:
    program = (
        "import pathlib, sys; from regard.files import Lock; print(Lock(pathlib.Path(sys.argv[1])).acquire(wait=False))"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    ).stdout.strip()


HOLDER = """\
import os, pathlib, signal, sys
from regard.files import Lock
lock = Lock(pathlib.Path(sys.argv[1]))
assert lock.acquire(wait=False)
if not os.fork():
    held = Lock(pathlib.Path(sys.argv[1])).acquire(wait=False)   # a child holds nothing of its parent's
    if sys.argv[2] == "closes":
        lock.release()
    os.write(1, f"{os.getpid()} {held}\\n".encode())
signal.pause()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("name", ["folder", "folder/file"])
@pytest.mark.parametrize("does", ["closes", "keeps"])
def test_a_child_does_not_keep_the_lock_of_a_killed_parent(tmp_path, name, does):
    """As between fork and exec of every process that is started: the child lives on, the lock does not."""
    (tmp_path / "folder").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / name), does], stdout=subprocess.PIPE, text=True
    ) as holder:
        child, held = holder.stdout.readline().split()
        try:
            assert held == "False"
            assert taken_by_another(tmp_path / name) == "False"  # and the child's release has not let go of it
            holder.kill()
            holder.wait()
            assert running(int(child))
            assert taken_by_another(tmp_path / name) == "True"
        finally:
            holder.kill()
            os.kill(int(child), signal.SIGKILL)


def test_a_worker_ends_with_its_parent():
    program = """\
import os, signal
from regard.files import end_with_parent
parent = os.getpid()
if not os.fork():
    end_with_parent(parent)
    print(os.getpid(), flush=True)
    signal.pause()
if not os.fork():
    end_with_parent(parent + 1)   # a parent that was gone before
    print("lives on", flush=True)
os.wait()
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
        wait_until(lambda: not running(worker), "the worker lives on without its parent")
        assert parent.stdout.read() == ""


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


def test_a_new_file_takes_the_place_of_none(tmp_path):
    """What a template or an example writes is where somebody's work begins."""
    target = tmp_path / "my.py"
    write_new_file(target, "mine\n", endings=(".py",))
    with pytest.raises(InputError, match=r"my\.py exists and is not overwritten; name another file"):
        write_new_file(target, "theirs\n", endings=(".py",))
    assert target.read_text(encoding="utf-8") == "mine\n"
    with pytest.raises(InputError, match=r"the name must end in \.py"):
        write_new_file(tmp_path / "my.txt", "", endings=(".py",))
    with pytest.raises(InputError, match="there is no directory"):
        write_new_file(tmp_path / "none" / "my.py", "", endings=(".py",))

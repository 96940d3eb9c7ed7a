"""Files written whole or not at all, read only if they are files, and locks that end with the process that holds them.

A file is written beside its place, forced to disk, then renamed: a reader sees the old one or the new one, never half.
The name beside it is random, and what has it must be new. So two writers of one file do not mix: the last one wins,
whole. And in a folder that others write to, nobody can lay a link there beforehand and have us write through it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from regard.errors import InputError

PARTIAL, LOCK = ".partial", ".lock"
MOST = 4 * 2**30  # bytes that are read into memory at once


def check_target(path: str | os.PathLike[str], endings: tuple[str, ...]) -> Path:
    """A path that can be written to, known before the work starts rather than after.

    >>> check_target("picture.doc", (".svg", ".png"))
    Traceback (most recent call last):
    regard.errors.InputError: Cannot write 'picture.doc': the name must end in .svg or .png.
    """
    target = Path(path)
    if target.suffix.lower() not in endings:
        rule = " or ".join([", ".join(endings[:-1]), endings[-1]] if endings[1:] else endings)
        raise InputError(f"Cannot write {os.fspath(path)!r}: the name must end in {rule}.")
    if os.path.isdir(target) or not os.path.isdir(target.parent):
        what = "it is a directory" if os.path.isdir(target) else f"there is no directory {str(target.parent)!r}"
        raise InputError(f"Cannot write {str(target)!r}: {what}.")
    return target


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Put ``data`` at ``path`` whole or not at all; a full disk leaves what was there and says so."""
    path = Path(path)
    partial = partial_path(path)
    try:
        with _explain_refusal(path):
            with open_partial(partial) as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, path)
            sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def write_new_file(path: str | os.PathLike[str], text: str, *, endings: tuple[str, ...]) -> None:
    """Write a text file that begins somebody's work; one that exists is never overwritten."""
    target = check_target(path, endings)
    try:
        with open(target, "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError(f"{target} exists and is not overwritten; name another file.") from None
    except OSError as error:
        raise InputError(f"Cannot write {str(target)!r}: {error.strerror or error}.") from None


def partial_path(path: Path) -> Path:
    """A new hidden name beside a path, which nobody can guess."""
    return path.with_name(f".{path.name[:40]}.{secrets.token_hex(8)}{PARTIAL}")  # names may be as long as can be


def open_partial(partial: Path) -> BinaryIO:
    """The stream of a new file; whatever has that name already, a link too, is refused (O_EXCL)."""
    return open(partial, "x+b")


def append_file(path: Path, data: bytes, *, at: int) -> None:
    """Write ``data`` at the offset ``at`` of a file, in place of what was after it; on disk, or not at all."""
    with _explain_refusal(path), open(path, "r+b" if path.exists() else "w+b", buffering=0) as stream:
        stream.truncate(at)
        stream.seek(at)
        try:
            left = memoryview(data)
            while left:  # the system may take a part at a time
                left = left[stream.write(left) :]
            os.fsync(stream.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                stream.truncate(at)
            raise


def read_file(path: str | os.PathLike[str], *, start: int = 0, most: int = MOST, part: bool = False) -> bytes:
    """The bytes of a regular file from ``start`` on; a folder, pipe or device, or too large a file, is refused unread.

    ``part``: ``most`` bytes of a larger file will do.

    Raises FileNotFoundError and other errors of the system as they are: the caller knows what the file was for.
    """
    with open_file(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size - start > most and not part:
            raise InputError(f"{path} has {size:,} bytes, and at most {most:,} are read; give a smaller file.")
        stream.seek(start)
        return stream.read(most)


@contextlib.contextmanager
def open_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The stream of a regular file, for reading in pieces; a folder, pipe or device is refused.

    Raises FileNotFoundError and other errors of the system as they are: the caller knows what the file was for.
    """
    try:  # a pipe that nobody writes to would hang without O_NONBLOCK
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a null character, or half of a pair of surrogates
        raise InputError(f"{os.fspath(path)!r} is not a path ({error}); check it.") from None
    try:
        kind = os.fstat(handle).st_mode
        if not stat.S_ISREG(kind):
            what = "a folder" if stat.S_ISDIR(kind) else "a pipe or a device"
            raise InputError(f"{path} is {what}, not a file; give a file.")
        with open(handle, "rb", closefd=False) as stream:
            yield stream
    finally:
        os.close(handle)


def make_folder(path: Path, *, mode: int = 0o777) -> Path:
    """The folder, created if it does not exist; a failure is one sentence."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=mode)
    except (OSError, ValueError) as error:  # a null character, or half of a pair of surrogates, is a ValueError
        why = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{str(path)!r} cannot be made: {why}; give another folder.") from None
    return path


def create_folder(folder: Path, files: Mapping[str, bytes]) -> bool:
    """A new folder with ``files`` in it, all of them or no folder at all; if two create it at once, one succeeds.

    False: there is a folder with something in it, which is left as it is.
    """
    partial = partial_path(folder)
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror or error}; give another --out.") from error
    try:
        for name, data in files.items():
            write_file(partial / name, data)
        os.replace(partial, folder)  # an empty folder may be there already
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise InputError(f"{folder} cannot be made: {error.strerror or error}; give another --out.") from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    sync_folder(folder.parent)
    return True


@contextlib.contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which then takes the place of ``folder`` whole; what was there goes last.

    Errors of the system come as they are, with the old folder in its place: the caller knows what it was for.
    """
    folder = folder.absolute()
    partial = partial_path(folder)
    old = partial.with_suffix(".old")
    try:
        partial.mkdir(parents=True)
        yield partial
        if folder.exists():
            os.replace(folder, old)
        os.replace(partial, folder)
        sync_folder(folder.parent)
    finally:
        if old.exists() and not folder.exists():  # the second rename was refused
            os.replace(old, folder)
        for leftover in (partial, old):
            shutil.rmtree(leftover, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Force a rename to disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_held: dict[tuple[int, str], object] = {}  # the locks of this process: its number and the file of each


class Lock:
    """A file or folder that one process at a time holds; the system lets go when it ends, however it ends.

    The lock is a record lock (POSIX), which belongs to the process alone. A ``flock`` belongs to everybody who has the
    open file, so a child that was being started when its parent was killed would keep it. The price of a record lock:
    it does not keep its own process out, and closing the file anywhere in that process gives it up. So a process
    remembers what it holds and does not open it again. Folders have no such locks: the file ``.lock`` in one stands
    for it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.handle = path, -1
        self._key = (0, "")

    def acquire(self, *, wait: bool = True) -> bool:
        """Hold it; False where another process, or another part of this one, does and ``wait`` is false."""
        while not self._take():
            if not wait:
                return False
            time.sleep(0.005)
        return True

    def _take(self) -> bool:
        try:
            import fcntl
        except ImportError:  # no such locks on this system: go on without
            return True
        place = self.path / LOCK if self.path.is_dir() else self.path
        key, ours = (os.getpid(), os.path.realpath(place)), object()  # the number: a forked child holds nothing
        if _held.setdefault(key, ours) is not ours:
            return False
        handle = -1
        try:
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            _let_go(handle, key)
            if handle >= 0 and error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            if error.errno == errno.ELOOP:
                raise InputError(f"{place} is a link, and no lock is taken through one; remove the link.") from None
            what = "opened" if handle < 0 else "locked"
            raise InputError(f"{place} cannot be {what}: {error.strerror or error}; check the folder.") from None
        self.handle, self._key = handle, key
        return True

    def release(self) -> None:
        if self.handle >= 0:
            handle, self.handle = self.handle, -1
            _let_go(handle, self._key)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def _let_go(handle: int, key: tuple[int, str]) -> None:
    """Close the file, and only then forget it: who opened it in between would lose the lock by our closing."""
    if handle >= 0:
        os.close(handle)
    _held.pop(key, None)


def end_with_parent(parent: int) -> None:
    """In a worker that ``parent`` has started: end with it, however it ends, as its locks do (on Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it was gone before the line above
            os._exit(1)


@contextlib.contextmanager
def _explain_refusal(path: Path) -> Iterator[None]:
    """The system's refusal to write, as one sentence."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{path} could not be written: {error.strerror or error}; nothing was lost: make room or check the folder, "
            "then give the same command again."
        ) from error

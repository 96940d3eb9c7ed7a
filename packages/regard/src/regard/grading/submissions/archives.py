"""Zip files of course systems, read without ever being unpacked onto the disk.

Nothing in an archive is believed: not its names (no path of it is ever used as one), not its sizes (reading stops
at the limit, whatever its header says), not its kinds (links are skipped, never followed).
"""

from __future__ import annotations

import contextlib
import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from regard.errors import InputError
from regard.sandbox.runner import MOST_SOURCE

MOST_FILE = 20_000_000  # bytes of one file, unpacked
MOST_WEIGHTS = 60_000_000  # of a file of weights
WEIGHTS = ".safetensors"
ALONE = (".py", ".ipynb", ".zip", ".pdf", WEIGHTS)  # a file of this kind is a submission by itself
READ = (*ALONE, ".md", ".txt", ".yml")  # what a submission consists of; the rest is named, not read
ORDINARY = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # of the others Python unpacks all at once, whatever is asked for
HAND_IN = b"regard assignment hand-in"  # the comment of a zip that holds one student's files
LOCKED = 1  # a bit of its flags
UNREADABLE = (RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file that was handed in: where it lay, as words, and its bytes; ``problem`` says why it was not read.

    It is read when its student's turn has come: until then ``size`` is how many bytes it has at most.
    """

    parts: tuple[str, ...]
    data: bytes = b""
    problem: str = ""
    size: int = 0
    source: Callable[[], bytes] | None = None

    @property
    def name(self) -> str:
        return self.parts[-1]

    def read(self) -> Entry:
        """With its bytes, or with the reason why there are none."""
        if self.source is None:
            return self
        try:
            return Entry(parts=self.parts, data=self.source(), size=self.size)
        except UNREADABLE as error:
            return Entry(parts=self.parts, problem=f"cannot be read ({str(error)[:80]})")


def make_entry(parts: tuple[str, ...], size: int, source: Callable[[], bytes]) -> Entry:
    """A file that can be read, unless it is none that is graded, or too large."""
    if not parts[-1].lower().endswith(READ):
        return Entry(parts=parts, problem="not a file that is graded")
    if size > size_limit(parts[-1]):
        return Entry(parts=parts, problem=f"has {size:,} bytes, and at most {size_limit(parts[-1]):,} are read")
    return Entry(parts=parts, size=size, source=source)


@contextlib.contextmanager
def entries(data: bytes | str, *, said: str) -> Iterator[list[Entry]]:
    """The files of an archive, given by its path or its bytes; ``said`` is what to call it. They are read meanwhile."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data)
    except UNREADABLE as error:
        raise InputError(f"{said} is not a zip file that can be read ({str(error)[:100]}); hand it in again.") from None
    with archive:
        yield [entry for info in archive.infolist() if (entry := _zip_entry(archive, info, said)) is not None]


def _zip_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, said: str) -> Entry | None:
    """One file; None for folders and for what systems leave. Of a file whose size is a lie the rest is not unpacked."""
    parts = safe_parts(info.filename)
    if parts is None:
        return Entry(parts=("?",), problem=f"{said}: a name in it leads out of it, and was not read.")
    if info.is_dir() or is_hidden(parts):
        return None
    if stat.S_ISLNK(info.external_attr >> 16):
        return Entry(parts=parts, problem="a link, which is not followed")
    if info.flag_bits & LOCKED:
        return Entry(parts=parts, problem="locked with a password; hand it in without one")
    if info.compress_type not in ORDINARY:
        return Entry(parts=parts, problem="packed in an unusual way, which is not read")

    def source() -> bytes:
        with archive.open(info) as stream:
            return stream.read(info.file_size)

    return make_entry(parts, info.file_size, source)


def is_hand_in(path: str) -> bool:
    """Whether one student packed this, with ``regard assignment hand-in``."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == HAND_IN
    except UNREADABLE:  # said where it is read
        return False


def zip_bytes(
    files: Mapping[str, bytes], *, programs: Collection[str] = (), mode: int = 0o600, comment: bytes = b""
) -> bytes:
    """A zip of these files, the same bytes for the same files: of 1980, and nobody's. ``programs`` can be run."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (0o700 if name in programs else mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
        archive.comment = comment
    return stream.getvalue()


def size_limit(name: str) -> int:
    """How many bytes a file of this name may have."""
    lower = name.lower()
    return MOST_WEIGHTS if lower.endswith(WEIGHTS) else MOST_SOURCE if lower.endswith(".py") else MOST_FILE


def safe_parts(name: str) -> tuple[str, ...] | None:
    """The words of a path; None where it leads outside.

    >>> safe_parts("ada/hw.py"), safe_parts("../marks.csv"), safe_parts("/etc/passwd"), safe_parts("C:\\\\x.py")
    (('ada', 'hw.py'), None, None, None)
    """
    plain = name.replace("\\", "/")
    parts = tuple(part for part in plain.split("/") if part not in ("", "."))
    if not parts or plain.startswith("/") or ".." in parts or parts[0].endswith(":") or "\x00" in name:
        return None
    return parts


def is_hidden(parts: tuple[str, ...]) -> bool:
    """What systems leave in archives and folders."""
    return any(part.startswith(".") or part in ("__MACOSX", "__pycache__") for part in parts)

"""Zip files of course systems, read without ever being unpacked onto the disk.

Nothing in an archive is believed: not its names (no path of it is ever used as one), not its sizes (reading stops
at the limit, whatever the header says), not its kinds (links are skipped, never followed).
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from dataclasses import dataclass

from regard.coursework.answers.runner import MOST_SOURCE
from regard.errors import InputError

MOST_ENTRIES = 50_000
MOST_FILE = 20_000_000  # bytes of one file, unpacked
MOST_WEIGHTS = 60_000_000  # of a file of weights
WEIGHTS = ".safetensors"
MOST_TOTAL = 1_000_000_000  # of all of them
MOST_OWN = 100_000_000  # of an archive that one student handed in
READ = (
    ".py",
    ".ipynb",
    ".md",
    ".txt",
    ".zip",
    ".yml",
    WEIGHTS,
)  # what a submission consists of; the rest is named, not read


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file that was handed in: where it lay, as words, and its bytes; ``problem`` says why it was not read."""

    parts: tuple[str, ...]
    data: bytes = b""
    problem: str = ""

    @property
    def name(self) -> str:
        return self.parts[-1]


def entries(data: bytes | str, *, said: str, most: int | None = None) -> list[Entry]:
    """The files of an archive, given by its path or its bytes; ``said`` is what to call it."""
    try:
        with zipfile.ZipFile(io.BytesIO(data) if isinstance(data, bytes) else data) as archive:
            infos = archive.infolist()
            if len(infos) > MOST_ENTRIES:
                raise InputError(f"{said} has {len(infos):,} entries, and at most {MOST_ENTRIES:,} are read.")
            return _all(archive, infos, said, MOST_TOTAL if most is None else most)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{said} is not a zip file that can be read ({str(error)[:100]}); hand it in again.") from None


def _all(archive: zipfile.ZipFile, infos: list[zipfile.ZipInfo], said: str, most: int) -> list[Entry]:
    read, total = [], 0
    for info in infos:
        parts = safe_parts(info.filename)
        if info.is_dir() or parts is None or hidden(parts):
            if parts is None:
                read.append(Entry(parts=("?",), problem=f"{said}: a name in it leads out of it, and was not read."))
            continue
        if stat.S_ISLNK(info.external_attr >> 16):
            read.append(Entry(parts=parts, problem="a link, which is not followed"))
        elif not parts[-1].lower().endswith(READ):
            read.append(Entry(parts=parts, problem="not a file that is graded"))
        else:
            entry, unpacked = _read(archive, info, parts)
            total += unpacked
            if total > most:
                raise InputError(f"{said} unpacks to more than {most:,} bytes, and nothing of it was graded.")
            read.append(entry)
    return read


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, parts: tuple[str, ...]) -> tuple[Entry, int]:
    """The file, and how many bytes were unpacked for it: those of one that is too large count, too."""
    try:
        with archive.open(info) as stream:
            data = stream.read(most_of(parts[-1]) + 1)
    except (RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        return Entry(parts=parts, problem=f"cannot be unpacked ({str(error)[:60]})"), 0
    if len(data) > most_of(parts[-1]):
        return Entry(parts=parts, problem=f"unpacks to more than {most_of(parts[-1]):,} bytes"), len(data)
    return Entry(parts=parts, data=data), len(data)


def most_of(name: str) -> int:
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


def hidden(parts: tuple[str, ...]) -> bool:
    """What systems leave in archives and folders."""
    return any(part.startswith(".") or part in ("__MACOSX", "__pycache__") for part in parts)

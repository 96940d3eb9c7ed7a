"""Text and word vectors as bytes: from a regular file, plain or gzip, in pieces, and never more than is honest.

A gzip file of 25 MB can unpack to 25 GB. Words and numbers shrink two- to tenfold, so a file that grows a hundredfold
(beyond some 64 MB, which do no harm) is a trap or damaged, and reading stops there with one sentence.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.errors import InputError
from regard.files import open_file

# so much a packed file may grow, plus so many times its own size
HARMLESS, FOLD = 1 << 26, 100
PIECE = 1 << 20  # bytes that are read at once


class BoundedReader:
    """A file's bytes as they are asked for; ``size`` is the most that there can be."""

    def __init__(self, path: Path, stream: IO[bytes], size: int, *, packed: bool) -> None:
        self.path, self.size, self.packed = path, size, packed
        self._stream, self._given = stream, 0

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes, fewer at the end."""
        return self._count_bytes(self._stream.read(size))

    def line(self, *, longest: int) -> bytes:
        """The next line with its end, nothing after the last; one of more than ``longest`` bytes is refused."""
        # one byte more than allowed tells a line that is too long from one that just fits
        line = self._count_bytes(self._stream.readline(longest + 1))
        if len(line) > longest:
            raise InputError(f"{self.path} has a line of more than {longest:,} bytes; it is no text file of this kind.")
        return line

    def peek(self, size: int) -> bytes:
        """The next bytes, which will be read again."""
        here = self._stream.tell()
        beginning = self._stream.read(size)
        self._stream.seek(here)
        return beginning

    def rest(self, *, most: int) -> bytes:
        """All that is left, if that is at most ``most`` bytes."""
        data = bytearray()
        while piece := self.read(PIECE):
            data += piece
            if len(data) > most:
                raise InputError(f"{self.path} has more than {most:,} bytes of text; give it in smaller files.")
        return bytes(data)

    def _count_bytes(self, data: bytes) -> bytes:
        self._given += len(data)
        if self.packed and self._given > self.size:
            raise InputError(
                f"{self.path} unpacks to more than {self.size:,} bytes, a hundred times its size, as no text does; "
                "unpack it yourself if you trust it."
            )
        return data


@contextmanager
def open_reader(path: Path) -> Iterator[BoundedReader]:
    """A file, unpacked if it is gzip; what goes wrong on the way is said in one sentence."""
    try:
        with open_file(path) as plain:
            size = os.fstat(plain.fileno()).st_size
            packed = plain.read(2) == b"\x1f\x8b"  # by content: a .gz that was unpacked by a browser is still read
            plain.seek(0)
            if packed:
                with gzip.GzipFile(fileobj=plain) as inside:
                    yield BoundedReader(path, inside, HARMLESS + FOLD * size, packed=True)  # type: ignore[arg-type]
            else:
                yield BoundedReader(path, plain, size, packed=False)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}); copy or download it again.") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; check the path.") from error

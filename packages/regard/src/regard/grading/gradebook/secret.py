"""The teacher's secret: from it and a student's name come the student's own numbers, the same each time.

HMAC-SHA256, so that whoever knows the numbers of one student, or all the code, can still not say those of another.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from regard.errors import InputError
from regard.files import read_file
from regard.results import Result

LEAST, MOST = 16, 4096  # bytes
PUBLIC = b"the public checks, which everybody can run"


@dataclass(frozen=True)
class Secret:
    """Bytes that only the teacher has; never printed."""

    key: bytes

    def __repr__(self) -> str:
        return "<a secret>"

    def seed(self, *words: str) -> int:
        """A number for these words.

        >>> Secret(b"0" * 16).seed("hw4", "ada", "1A.i") == Secret(b"0" * 16).seed("hw4", "ada", "1A.ii")
        False
        """
        return int.from_bytes(self._mac(b"seed", *(word.encode() for word in words))[:16])

    def seal(self, data: bytes) -> str:
        """A mark that only the holder of the secret can make."""
        return self._mac(b"seal", data).hex()[:32]

    def name(self) -> str:
        """A short name, from which the secret cannot be found: which of several secrets it is."""
        return self._mac(b"name").hex()[:12]

    def _mac(self, *words: bytes) -> bytes:
        framed = b"".join(len(word).to_bytes(8) + word for word in words)  # ("ab", "c") is not ("a", "bc")
        return hmac.new(self.key, framed, hashlib.sha256).digest()


def read_secret(path: str | os.PathLike[str]) -> Secret:
    """The secret of a file; blanks around it do not count."""
    try:
        key = read_file(path, most=MOST).strip()
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file; regard assignment secret {path} makes one.") from None
    if len(key) < LEAST:
        raise InputError(f"{path} has {len(key)} bytes, and a secret has at least {LEAST}, so that nobody guesses it.")
    return Secret(key)


@dataclass(frozen=True, kw_only=True, eq=False)
class SecretWritten(Result):
    """A new secret, in a file that only you can read."""

    path: str

    def __str__(self) -> str:
        return (
            f"Wrote a secret to {self.path}. Keep it, and keep it away from students: it decides the numbers that each "
            "of them is checked with, and the same secret gives the same marks again."
        )


def write_secret(path: str | os.PathLike[str]) -> SecretWritten:
    """Draw a secret, and write it to a new file."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path} exists and is not overwritten: another secret gives other numbers.") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"Cannot write {os.fspath(path)!r}: {why}.") from None
    with open(handle, "w", encoding="ascii") as stream:
        stream.write(secrets.token_hex(32) + "\n")
    return SecretWritten(path=str(Path(path)))

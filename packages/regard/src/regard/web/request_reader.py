"""What a request may be: bounded before it is read, in bytes and in the seconds that it may take to come.

Anything that another reader might read in another way (two Hosts, folded headers, stray signs) is refused, not guessed.
"""

from __future__ import annotations

import io
import re
import socket
import time
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl

from regard.errors import InputError
from regard.web import frames

MOST_WORDS = 100  # in an address; a page has some ten
_FIELD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # the name of a header
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f]")  # in no value of a header; nobody folds lines any more
_STRAY = re.compile(r"%(?![0-9A-Fa-f]{2})")
KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".png": "image/png",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    + frames.NOBODY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class RequestReader(io.RawIOBase):
    """The bytes of a connection; a request may have so many, and take so many seconds until it is there.

    A timeout of the socket alone would start again with every byte, and a client that sends one in a minute would hold
    its thread for ever.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.allow(0, 0.0)

    def allow(self, size: int, seconds: float) -> None:
        self.left, self.until = size, time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        seconds = self.until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        if self.left <= 0:
            raise RequestTooLongError
        self.connection.settimeout(seconds)
        size = self.connection.recv_into(buffer)
        self.left -= size
        return size


class RequestTooLongError(Exception):
    """A request with more bytes than are read."""


def check_headers(headers: Message) -> None:
    """Refuse headers that another reader might read in another way: malformed, folded, or said twice where one counts.

    >>> from email import message_from_string
    >>> check_headers(message_from_string("Host: here"))
    >>> check_headers(message_from_string("Host: here\\nHost: there"))
    Traceback (most recent call last):
    regard.errors.InputError: A request has one Host, one Origin and one Content-Length, not 2 of Host.
    """
    for name, value in headers.items():
        if not _FIELD.fullmatch(name) or _CONTROL.search(value):
            raise InputError(f"A header is a name, a colon and a line of text; {name[:40]!r} is not.")
    if headers.defects or headers.get_payload():
        raise InputError("A header is a name, a colon and a line of text; a line of this request is not.")
    for name in ("Host", "Origin", "Content-Length"):
        if len(given := headers.get_all(name, [])) > 1:
            raise InputError(f"A request has one Host, one Origin and one Content-Length, not {len(given)} of {name}.")
    if "Transfer-Encoding" in headers:
        raise InputError("A question has a Content-Length; the lab reads no Transfer-Encoding.")


def split_target(target: str) -> tuple[str, list[tuple[str, str]]]:
    """The path of an address and its words.

    >>> split_target("/copy?eps=0.1&to=1%2C2")
    ('/copy', [('eps', '0.1'), ('to', '1,2')])
    >>> split_target("/copy?eps=5%")
    Traceback (most recent call last):
    regard.errors.InputError: A % in an address is followed by two hexadecimal digits; for the sign itself write %25.
    """
    if not target.startswith("/") or not target.isascii() or not target.isprintable():
        raise InputError("An address begins with / and has letters of ASCII only; others are written with %.")
    if _STRAY.search(target):
        raise InputError("A % in an address is followed by two hexadecimal digits; for the sign itself write %25.")
    path, _, query = target.partition("?")
    try:
        return path, parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MOST_WORDS)
    except ValueError:
        raise InputError(f"An address has at most {MOST_WORDS} words, in UTF-8.") from None

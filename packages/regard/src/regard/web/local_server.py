"""The server: the person who started it may ask, nobody else.

It listens on the loopback address only. A page and its answers are for whoever brings the lab's cookie
(:mod:`regard.web.access`), so that another account of this machine gets nothing. Every request must name our address as
its host, so that no other name can be made to point here (DNS rebinding), every question must come from a page of this
server itself (Origin), so that no other page can ask in the user's name, and nothing is computed for a request that
another site has made (Sec-Fetch-Site). What the pages may load is this server's and nothing else (Content-Security-
Policy), so that the lab works, and stays, offline. A request is bounded before it is read,
in bytes and in the seconds that it may take to come; anything in it that another reader might read in another way (two
Hosts, folded headers, stray signs) is refused, not guessed.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import select
import signal
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Mapping
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from regard.errors import InputError, RegardError
from regard.results import plain
from regard.strict_json import JsonObject
from regard.web.access import (
    EMBED,
    EMBED_HEADER,
    NOBODY,
    WORD,
    Access,
    access_page,
    frame_ancestors,
    is_own_request,
    private_link,
    refusal_page,
)
from regard.written_numbers import is_count

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
    + NOBODY,
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


PORT = 8321
LARGEST = 1 << 20  # bytes of a question: a page's words are a few hundred
HEAD = 1 << 17  # bytes of a request before its body: an address of 64 KiB, and as much again of cookies and the like
CONNECTIONS = 256  # at one time; a browser keeps six, and each one is a thread
LINGER = 1.0  # seconds for whoever was refused to hear it


class LocalServer(ThreadingHTTPServer):
    """Pages on a port of this machine, for one person; ``serve_forever`` runs it, ``shutdown`` ends it."""

    daemon_threads = True
    request_queue_size = 128  # connections that wait to be accepted; the library's 5 loses some of a burst
    command = "regard lab"  # what prints the address with the token
    embed: tuple[str, ...] = ()  # origins on whose pages a frame of ours may stand
    pages: Mapping[str, Any]  # by name: only for whoever brings the cookie

    def __init__(self, *, port: int | None = None) -> None:
        self.free_connections = threading.BoundedSemaphore(CONNECTIONS)
        try:
            super().__init__(("127.0.0.1", PORT if port is None else port), Handler)
        except OverflowError:
            raise InputError(f"A port is a whole number from 0 to 65535, not {port}.") from None
        except OSError as error:
            if port is not None:
                raise InputError(
                    f"Port {port} cannot be used ({error.strerror}); leave --port out for a free one."
                ) from None
            super().__init__(("127.0.0.1", 0), Handler)
        self.access = Access(port=self.port)

    @property
    def files(self) -> Mapping[str, Path]:
        """Scripts and styles by address, which hold nothing private."""
        raise NotImplementedError

    def html(self, name: str, words: Mapping[str, str], *, own: bool) -> bytes:
        """A page; ``own``: the person opened it, or a page of ours, and not another site."""
        raise NotImplementedError

    def ask(self, name: str, body: bytes, wanted: Callable[[], bool]) -> JsonObject:
        """What a page answers to a question."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """Where the first page is."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def opening_address(self) -> str:
        """The address to open: it lets a browser in. A secret of whoever started the lab."""
        return f"{self.address}?{WORD}={self.access.token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for a connection, unless there are too many: then it is closed at once."""
        if self.free_connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.free_connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up in the middle is no news."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def serve_pages(server: LocalServer, what: str, *, no_browser: bool) -> None:
    """Say the address, open it unless told otherwise, and serve until Ctrl-C."""
    with private_link(server.opening_address) as link:
        for ending in ("SIGTERM", "SIGHUP"):  # a window closed, a machine shut down: as Ctrl-C does it
            if hasattr(signal, ending):
                signal.signal(getattr(signal, ending), signal.default_int_handler)
        print(f"{what} is at {server.opening_address} (Ctrl-C stops it).", flush=True)
        if not no_browser:
            webbrowser.open(link)
        server.serve_forever(poll_interval=0.1)


class Handler(BaseHTTPRequestHandler):
    """GET gives pages and their files; POST /ask/NAME asks a page."""

    server: LocalServer
    protocol_version = "HTTP/1.1"  # connections stay open, so that a drag costs no handshakes
    server_version, sys_version = "regard", ""
    timeout = 60

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)  # answers are small: send them at once
        self.reader = RequestReader(self.connection)
        self.rfile = io.BufferedReader(self.reader)
        self.refused = False

    def finish(self) -> None:
        """Before a refused connection is closed, read on a little: bytes unread would take our words back."""
        super().finish()
        if self.refused:
            self.reader.allow(LARGEST, LINGER)
            with contextlib.suppress(OSError, RequestTooLongError):
                self.connection.shutdown(socket.SHUT_WR)
                while self.reader.readinto(bytearray(1 << 16)):
                    pass

    def handle_one_request(self) -> None:
        self.reader.allow(HEAD, self.timeout)
        super().handle_one_request()

    def parse_request(self) -> bool:
        """Read the head of a request whole; anything malformed is refused here, before anybody looks at it."""
        self.headers = Message()  # a refusal looks at them, and the line may be wrong before any have come
        try:
            if not super().parse_request():
                if not self.requestline.strip():
                    self.send_error(HTTPStatus.BAD_REQUEST, "A request begins with its method and its address")
                return False
            check_headers(self.headers)
            self.place, self.words = split_target(self.path)
        except RequestTooLongError:
            self.send_error(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"A request has at most {HEAD:,} bytes of headers"
            )
        except InputError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        else:
            return True
        return False

    def do_GET(self) -> None:
        if not self._host_is_ours():
            return
        if "Content-Length" in self.headers:
            self.close_connection = True  # a body that is not read would be taken for the next request
        name = self.place.removeprefix("/") or next(iter(self.server.pages))
        embed_pass = dict(self.words).get(EMBED)
        if (opened := self.server.access.without_token(self.place, self.words)) is not None:
            self._let_in(opened)
        elif name in self.server.pages and not self._is_known(embed_pass):
            self._send(HTTPStatus.FORBIDDEN, "text/html", access_page(self.path, self.server.command).encode())
        elif name in self.server.pages:
            words = {word: value for word, value in self.words if word != EMBED}
            html = self.server.html(name, words, own=is_own_request(self.headers.get("Sec-Fetch-Site")))
            kind = KINDS.get(Path(name).suffix, "text/html")
            self._send(HTTPStatus.OK, kind, html, **self._frame_headers(embed_pass))
        elif (file := self.server.files.get(self.place)) is not None:
            self._send(HTTPStatus.OK, KINDS[file.suffix], file.read_bytes())
        else:
            listed = ", ".join(self.server.pages)
            self._refuse(HTTPStatus.NOT_FOUND, f"There is no {self.place[:80]} here; the pages are {listed}.")

    def do_POST(self) -> None:
        if not self._host_is_ours():
            return
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            return self._refuse(HTTPStatus.FORBIDDEN, "Only a page of this lab may ask it; another one did.")
        if not self._is_known(self.headers.get(EMBED_HEADER)):
            said = f"This browser has not opened the lab yet: open the address that `{self.server.command}` printed."
            return self._refuse(HTTPStatus.FORBIDDEN, said)
        name = self.place.removeprefix("/ask/")
        if name not in self.server.pages:
            return self._refuse(HTTPStatus.NOT_FOUND, f"There is no page {name[:80]!r} to ask.")
        length = self.headers.get("Content-Length", "")
        if not is_count(length, digits=9) or int(length) > LARGEST:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A question has at most {LARGEST:,} bytes.")
        self.reader.allow(LARGEST, self.timeout)
        self._ask(name, self.rfile.read(int(length)))

    def _ask(self, name: str, body: bytes) -> None:
        try:
            answer = self.server.ask(name, body, self._is_connected)
        except RegardError as error:
            status = HTTPStatus.BAD_REQUEST if isinstance(error, InputError) else HTTPStatus.UNPROCESSABLE_ENTITY
            return self._send(status, "application/json", _json_bytes({"error": str(error)}))
        except Exception as error:  # a mistake of ours: said, so that it can be reported, and the lab goes on
            said = f"This page of the lab failed ({type(error).__name__}: {error}); please report it with its address."
            return self._send(HTTPStatus.INTERNAL_SERVER_ERROR, "application/json", _json_bytes({"error": said}))
        self._send(HTTPStatus.OK, "application/json", _json_bytes(answer))

    def _let_in(self, address: str) -> None:
        """A right token: the cookie in its place, and the same address without it."""
        self._send(
            HTTPStatus.SEE_OTHER, "text/plain", b"", **{"Location": address, "Set-Cookie": self.server.access.cookie}
        )

    def _is_known(self, embed_pass: str | None) -> bool:
        """Does the browser bring the cookie, or the pass of a frame where frames are allowed?"""
        return self.server.access.has_cookie(self.headers.get("Cookie")) or self._is_embedded(embed_pass)

    def _is_embedded(self, embed_pass: str | None) -> bool:
        return bool(self.server.embed) and self.server.access.is_embed_pass(embed_pass)

    def _frame_headers(self, embed_pass: str | None) -> dict[str, str]:
        """A page that was opened with the pass may stand in a frame on the named origins; any other one nowhere."""
        policy = HEADERS["Content-Security-Policy"]
        if not self._is_embedded(embed_pass):
            return {}
        return {"Content-Security-Policy": policy.replace(NOBODY, frame_ancestors(self.server.embed))}

    def _is_connected(self) -> bool:
        """Has the browser not hung up? A drag leaves questions behind that nobody reads the answers of."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return not readable or self.connection.recv(1, socket.MSG_PEEK) != b""
        except OSError:
            return False

    def _host_is_ours(self) -> bool:
        port = self.server.port
        if self.headers.get("Host") in (f"127.0.0.1:{port}", f"localhost:{port}"):
            return True
        said = f"The lab answers at {self.server.address} only."
        self._refuse(HTTPStatus.FORBIDDEN, said, start=self.server.address)
        return False

    def _refuse(self, status: HTTPStatus, sentence: str, *, start: str = "/") -> None:
        """Say why, as a page to the person who typed the address, as JSON to a script."""
        self.close_connection = self.refused = True  # whatever else was sent is not looked at
        if self.command == "GET" and "text/html" in self.headers.get("Accept", ""):
            self._send(status, "text/html", refusal_page(sentence, start).encode())
        else:
            self._send(status, "application/json", _json_bytes({"error": sentence}))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself, with our headers and in our form."""
        self._refuse(HTTPStatus(code), f"{message or HTTPStatus(code).phrase}.")

    def _send(self, status: HTTPStatus, kind: str, body: bytes, **more: str) -> None:
        self.connection.settimeout(self.timeout)  # for all of it; what is left of reading may be little
        self.request_version = self.protocol_version  # to HTTP/0.9, or to no version, the library says no status
        self.send_response(status)
        self.send_header("Content-Type", kind if kind in (KINDS[".woff2"], KINDS[".png"]) else f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        # The icon is fetched anew with every change of the address unless it may be kept.
        self.send_header("Cache-Control", "max-age=86400" if kind in (KINDS[".svg"], KINDS[".woff2"]) else "no-cache")
        for name, value in {**HEADERS, **more}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """One line per request would bury the address."""


def _json_bytes(value: Any) -> bytes:
    """JSON, with arrays as lists; infinities and the like, which it has no word for, as strings."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=lambda array: array.tolist())
    except ValueError:
        text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return text.encode()

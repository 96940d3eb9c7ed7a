"""The server: the person who started it may ask, nobody else.

It listens on the loopback address only. A page and its answers are for whoever brings the lab's cookie
(:mod:`regard.web.access`), so that another account of this machine gets nothing. Every request must name our address as
its host, so that no other name can be made to point here (DNS rebinding), every question must come from a page of this
server itself (Origin), so that no other page can ask in the user's name, and nothing is computed for a request that
another site has made (Sec-Fetch-Site). What the pages may load is this server's and nothing else (Content-Security-
Policy), so that the lab works, and stays, offline. A request is bounded before it is read
(:mod:`regard.web.request_reader`).
"""

from __future__ import annotations

import contextlib
import io
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from email.message import Message
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import CouldNotFindOut, InputError, RegardError
from regard.extras import require
from regard.lab.formula_text import MEANINGS
from regard.lab.page import ANSWERS, WHY, Page, checked_parts, pages, without_hidden_parts
from regard.lab.state import State
from regard.lab.tour import CARDS, done_tasks
from regard.results import plain
from regard.strict_json import JsonObject, parse_json
from regard.web import frames
from regard.web.access import WORD, Access, access_page, is_own_request, refusal_page
from regard.web.request_reader import HEADERS, KINDS, RequestReader, RequestTooLongError, check_headers, split_target
from regard.written_numbers import is_count

PORT = 8321
LARGEST = 1 << 20  # bytes of a question: a page's words are a few hundred
HEAD = 1 << 17  # bytes of a request before its body: an address of 64 KiB, and as much again of cookies and the like
CONNECTIONS = 256  # at one time; a browser keeps six, and each one is a thread
WAITING = 16  # questions that may wait for their turn: one browser has one under way for each open page
LINGER = 1.0  # seconds for whoever was refused to hear it
LOOKS, PAUSE = 300, 0.1  # how often the warming up looks for what is under way, and the seconds in between
STATIC = Path(__file__).parent / "static"


class Lab(ThreadingHTTPServer):
    """The lab on a port of this machine; ``serve_forever`` runs it, ``shutdown`` ends it.

    >>> lab = Lab(port=0)             # 0: any free port
    >>> lab.address.startswith("http://127.0.0.1:")
    True
    >>> lab.server_close()
    """

    daemon_threads = True
    request_queue_size = 128  # connections that wait to be accepted; the library's 5 loses some of a burst

    def __init__(
        self,
        *,
        port: int | None = None,
        runs: str | Path = "runs",
        folders: Sequence[str | Path] = (".",),
        model: str | None = None,
        embed: Sequence[str] = (),
        hide: Sequence[str] = (),
    ) -> None:
        check_installed()
        self.embed = tuple(embed)  # origins on whose pages a frame of ours may stand
        self.hidden = checked_parts(hide)  # what no answer says
        self.cards = () if {ANSWERS, WHY} & self.hidden else CARDS  # the tour says what comes out, and why
        self.runs = Path(runs)  # where translators train; there need be none
        self.folders = tuple(Path(folder).resolve() for folder in folders)  # a page opens files below these only
        self.model = model  # what the page of models looks at
        self.waiting = threading.BoundedSemaphore(WAITING)
        self.pages: dict[str, Page] = pages()
        self.early: tuple[tuple[str, dict[str, str]], Future[JsonObject]] | None = None
        self.free_connections = threading.BoundedSemaphore(CONNECTIONS)
        self.alone = threading.Lock()  # python-flint's precision belongs to the process: one computation at a time
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

    def frame_tag(self, name: str = "copy", *, height: int = 760) -> str:
        """A page as an iframe, for pages on the origins that may embed it; it carries the pass."""
        return frames.frame_tag(f"{self.address}{name}", {frames.WORD: self.access.embed_pass}, height=height)

    def answer(self, name: str, words: dict[str, str], *, wanted: Callable[[], bool] = lambda: True) -> JsonObject:
        """What a page says to a state; nothing is computed for whoever has left before it was their turn."""
        page = self.pages[name]
        if not self.waiting.acquire(blocking=False):
            raise CouldNotFindOut("Too many questions wait for an answer; close some pages of the lab and try again.")
        try:
            with self.alone:
                if not wanted():
                    raise CouldNotFindOut("Nobody waits for this answer any more.")
                state = self._state(page, words)
                answer = page.answer(state)
                cards = [card for card in self.cards if card.page == name]
                shown = without_hidden_parts(answer, self.hidden).to_dict()
                return {**shown, "tour": done_tasks(cards, answer, words=state.words)}
        finally:
            self.waiting.release()

    def _state(self, page: Page, words: dict[str, str]) -> State:
        own = {"runs": self.runs, "folders": self.folders, "model": self.model, "hidden": self.hidden}
        return State(words, start=page.start, **own)  # type: ignore[arg-type]

    def begin_answer(self, name: str, words: dict[str, str]) -> None:
        """Begin an answer while the browser still fetches the page that will ask for it; only the latest is kept."""
        promise: Future[JsonObject] = Future()
        self.early = (self._question(name, words), promise)

        def compute() -> None:
            try:
                promise.set_result(self.answer(name, words))
            except Exception as error:  # whoever asks hears it
                promise.set_exception(error)

        threading.Thread(target=compute, daemon=True).start()

    def finish_answer(self, name: str, words: dict[str, str], wanted: Callable[[], bool]) -> JsonObject:
        """The answer that was begun early, if it is to this question, or else a fresh one."""
        early, self.early = self.early, None
        if early is not None and early[0] == self._question(name, words):
            return early[1].result()
        return self.answer(name, words, wanted=wanted)

    def _question(self, name: str, words: dict[str, str]) -> tuple[str, dict[str, str]]:
        return name, {**self.pages[name].start, **words}

    def warm_up(self) -> None:
        """Ask every page for its start, so that the first visitor need not wait for imports.

        The first page comes first, which most people open, then the translator's sentence. Before the next is asked,
        what runs in a process of its own is waited for, since what imports at the same time is late at the same time,
        and whoever has come meanwhile has a turn.
        """
        for name in dict.fromkeys([next(iter(self.pages)), "translator", *self.pages]):
            with contextlib.suppress(Exception):  # a page that fails says so when it is visited
                for _ in range(LOOKS):
                    running = self.answer(name, {})["picture"].get("running")
                    time.sleep(PAUSE)
                    if not running:
                        break

    def frame(self, name: str) -> bytes:
        """The HTML that a page begins with: the frame, which script the page has, and what pages there are."""
        listed = [
            {"name": name, "title": page.title, "hint": page.hint, "start": page.start}
            for name, page in self.pages.items()
        ]
        frame = (STATIC / "index.html").read_text(encoding="utf-8").replace("NAME", name)
        for place, data in (
            ("LISTED", listed),
            ("TOUR", [card.to_dict() for card in self.cards]),
            ("MEANINGS", MEANINGS),
        ):
            frame = frame.replace(place, _script_json(data))
        return frame.encode()

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


class Handler(BaseHTTPRequestHandler):
    """GET gives pages and their files; POST /ask/NAME asks a page."""

    server: Lab
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
        embed_pass = dict(self.words).get(frames.WORD)
        if (opened := self.server.access.without_token(self.place, self.words)) is not None:
            self._let_in(opened)
        elif name in self.server.pages and not self._is_known(embed_pass):
            self._send(HTTPStatus.FORBIDDEN, "text/html", access_page(self.path).encode())
        elif name in self.server.pages:
            if is_own_request(self.headers.get("Sec-Fetch-Site")):
                self.server.begin_answer(name, {word: value for word, value in self.words if word != frames.WORD})
            self._send(HTTPStatus.OK, "text/html", self.server.frame(name), **self._frame_headers(embed_pass))
        elif (file := static_files().get(self.place)) is not None:
            self._send(HTTPStatus.OK, KINDS[file.suffix], file.read_bytes())
        else:
            listed = ", ".join(self.server.pages)
            self._refuse(HTTPStatus.NOT_FOUND, f"There is no {self.place[:80]} here; the pages are {listed}.")

    def do_POST(self) -> None:
        if not self._host_is_ours():
            return
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            return self._refuse(HTTPStatus.FORBIDDEN, "Only a page of this lab may ask it; another one did.")
        if not self._is_known(self.headers.get(frames.HEADER)):
            said = "This browser has not opened the lab yet: open the address that `regard lab` printed."
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
            answer = self.server.finish_answer(name, parse_words(body), self._is_connected)
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
        return {"Content-Security-Policy": policy.replace(frames.NOBODY, frames.frame_ancestors(self.server.embed))}

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
        self.send_header("Content-Type", kind if kind == KINDS[".woff2"] else f"{kind}; charset=utf-8")
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


def parse_words(body: bytes) -> dict[str, str]:
    """A question's words: a JSON object of strings.

    >>> parse_words(b'{"eps": "0.1"}')
    {'eps': '0.1'}
    """
    try:
        given = parse_json(body)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InputError("A question is a JSON object of strings, the words of the page's address.")
    return given


@cache
def static_files() -> dict[str, Path]:
    """Every file that is served, by its address; no other one exists: the lab's, its pages' own, the charts'."""
    files = {f"/{file.relative_to(STATIC).as_posix()}": file for file in STATIC.rglob("*") if file.suffix in KINDS}
    for page in pages().values():
        files |= page.files
    spec = find_spec("uplot")
    for folder in spec.submodule_search_locations or [] if spec else []:
        for name in ("uPlot.iife.js", "uPlot.min.css"):
            files[f"/charts/{name}"] = Path(folder) / "static" / name
    return files


def check_installed() -> None:
    """The lab draws with uPlot, from its Python package, and writes formulas with latex2mathml."""
    require("The lab", "uplot", "latex2mathml")


def _script_json(value: Any) -> str:
    """JSON for a script element, which no word of it can end."""
    return json.dumps(value).replace("<", "\\u003c")


def _json_bytes(value: Any) -> bytes:
    """JSON, with arrays as lists; infinities and the like, which it has no word for, as strings."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=lambda array: array.tolist())
    except ValueError:
        text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return text.encode()

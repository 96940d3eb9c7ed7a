"""The lab: its pages, what each answers to a state, and its files; regard.web.local_server says who may ask."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard.errors import CouldNotFindOut, InputError
from regard.extras import require
from regard.lab.page import ANSWERS, MEANINGS, WHY, Page, State, checked_parts, pages, without_hidden_parts
from regard.lab.tour import CARDS, done_tasks
from regard.strict_json import JsonObject, parse_json
from regard.web.access import EMBED, frame_tag
from regard.web.local_server import KINDS, LocalServer

WAITING = 16  # questions that may wait for their turn: one browser has one under way for each open page
LOOKS, PAUSE = 300, 0.1  # how often the warming up looks for what is under way, and the seconds in between
STATIC = Path(__file__).parent / "static"


class Lab(LocalServer):
    """The lab on a port of this machine; ``serve_forever`` runs it, ``shutdown`` ends it.

    >>> lab = Lab(port=0)             # 0: any free port
    >>> lab.address.startswith("http://127.0.0.1:")
    True
    >>> lab.server_close()
    """

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
        self.embed = tuple(embed)
        self.hidden = checked_parts(hide)  # what no answer says
        self.cards = () if {ANSWERS, WHY} & self.hidden else CARDS  # the tour says what comes out, and why
        self.runs = Path(runs)  # where translators train; there need be none
        self.folders = tuple(Path(folder).resolve() for folder in folders)  # a page opens files below these only
        self.model = model  # what the page of models looks at
        self.waiting = threading.BoundedSemaphore(WAITING)
        self.pages: dict[str, Page] = pages()
        self.early: tuple[tuple[str, dict[str, str]], Future[JsonObject]] | None = None
        self.alone = threading.Lock()  # python-flint's precision belongs to the process: one computation at a time
        super().__init__(port=port)

    def frame_tag(self, name: str = "copy", *, height: int = 760) -> str:
        """A page as an iframe, for pages on the origins that may embed it; it carries the pass."""
        return frame_tag(f"{self.address}{name}", {EMBED: self.access.embed_pass}, height=height)

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

    def html(self, name: str, words: Mapping[str, str], *, own: bool) -> bytes:
        """The page; its first answer is begun for whoever opened it, and for no other site."""
        if own:
            self.begin_answer(name, dict(words))
        return self.frame(name)

    def ask(self, name: str, body: bytes, wanted: Callable[[], bool]) -> JsonObject:
        return self.finish_answer(name, parse_words(body), wanted)

    @property
    def files(self) -> dict[str, Path]:
        return static_files()

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

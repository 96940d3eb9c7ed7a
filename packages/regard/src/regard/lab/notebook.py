"""A page of the lab inside a notebook: ``regard.lab.show("copy", keys=[[1, 0], [0, 1]], to=0)``.

No terminal is needed: the first page that is shown starts a lab in a thread of the notebook's own process, for pages on
this machine only (:mod:`regard.web.access`), and the last one that is closed ends it; it ends with the notebook in
any case. Where the browser is on another machine than the notebook (a hub, a cloud), its 127.0.0.1 is not ours:
``live=False`` then gives a page in one file with the answers in it, which also works in a saved notebook.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import InputError
from regard.lab.page import checked_parts, format_rows, pages, shortest_text
from regard.lab.server import Lab
from regard.markup import element
from regard.web.access import EMBED, NOTEBOOKS, frame_tag

_running: dict[frozenset[str], Lab] = {}  # by what they hide
_users: dict[Lab, set[NotebookPage]] = {}
_change = threading.RLock()


@dataclass(frozen=True, kw_only=True, eq=False)
class NotebookPage:
    """A page in a notebook: it displays itself as the last line of a cell; ``close()`` ends what it started."""

    page: str
    words: dict[str, str]
    html: str
    address: str  # empty for a page in one file

    def __str__(self) -> str:
        where = f"at {self.address}; close() ends it" if self.address else "in one file, with its answers in it"
        return f"The page {self.page} of the lab, {where}. In a notebook it shows itself."

    def _repr_html_(self) -> str:
        return self.html

    def close(self) -> None:
        """End the lab in this notebook, if no other page uses it; the page on the screen then answers no more."""
        with _change:
            for lab in [lab for lab, users in _users.items() if self in users]:
                _users[lab].discard(self)
                if not _users[lab]:
                    _end_lab(lab)

    def __enter__(self) -> NotebookPage:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()


def show(
    page: str = "copy", *, hide: Sequence[str] = (), height: int = 760, live: bool = True, **words: object
) -> NotebookPage:
    """A page of the lab for a notebook, in the state that ``words`` say: the words of its address, as numbers or text.

    >>> from regard import lab
    >>> with lab.show("copy", keys=[[1, 0], [0, 1]], q=[3, 1], to=0, eps=0.1) as shown:  # doctest: +SKIP
    ...     print(shown.words["keys"])
    1,0; 0,1

    hide: parts that the page does not say, as for ``regard lab --hide``: ``hide=["answers"]``. height: in pixels.
    """
    known = pages()
    if page not in known:
        raise InputError(f"There is no page {page!r} of the lab; there are {', '.join(known)}.")
    if not 100 <= height <= 10_000:
        raise InputError(f"height must be from 100 to 10000 pixels, not {height}.")
    given = {name: format_word(value) for name, value in words.items()}
    if not live:
        return _single_file_page(page, given, hide, height)
    with _change:
        lab = _start_lab(checked_parts(hide))
        try:
            lab.answer(page, given)  # a mistake is said here, not in the frame
            address = f"{lab.address}{page}"
            frame = frame_tag(address, {**given, EMBED: lab.access.embed_pass}, height=height)
            shown = NotebookPage(page=page, words=given, html=frame, address=address)
            _users[lab].add(shown)
        finally:
            if not _users[lab]:
                _end_lab(lab)
    return shown


def format_word(value: object) -> str:
    """A value as it stands in an address: rows with semicolons, numbers with commas, text as it is.

    >>> format_word([[1, 0], [0.5, 2]]), format_word((3, 1)), format_word(0.1), format_word("plane")
    ('1,0; 0.5,2', '3,1', '0.1', 'plane')
    """
    if isinstance(value, str):
        return value
    try:
        numbers = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"A word of a page is text, a number, or rows of numbers, not {value!r}.") from None
    if numbers.ndim > 2:
        raise InputError(f"A word of a page has rows of numbers at most, not {numbers.ndim} dimensions.")
    return shortest_text(float(numbers)) if numbers.ndim == 0 else format_rows(np.atleast_2d(numbers).tolist())


def _single_file_page(page: str, words: dict[str, str], hide: Sequence[str], height: int) -> NotebookPage:
    from regard.lab.offline_copy import single_file_page

    inside = single_file_page(page, words, hide=hide)
    frame = element("iframe", srcdoc=inside, width="100%", height=height, allow="clipboard-write")
    return NotebookPage(page=page, words=words, html=frame, address="")


def _start_lab(hidden: frozenset[str]) -> Lab:
    """The lab of this process that hides these parts; all pages share it."""
    if hidden not in _running:
        lab = Lab(port=0, embed=NOTEBOOKS, hide=sorted(hidden))
        threading.Thread(target=lab.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()
        _running[hidden], _users[lab] = lab, set()
    return _running[hidden]


def _end_lab(lab: Lab) -> None:
    lab.shutdown()
    lab.server_close()
    del _users[lab], _running[lab.hidden]
    if not _running:  # the processes in which pages open models and check claims end; the next question starts others
        for page in pages().values():
            page.close()


def close_all() -> None:
    """End every lab that :func:`show` has started in this process."""
    with _change:
        for lab in list(_users):
            _end_lab(lab)


atexit.register(close_all)

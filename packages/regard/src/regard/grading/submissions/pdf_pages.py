"""A written.pdf as pictures of its pages, and which pages belong to which question. No text of it is read.

A PDF can hold scripts, forms and links, and a program that shows one can have faults. So it is opened in the jail, and
what comes out are pixels: they are counted here and packed as PNG by the few lines below. Nothing else of the file
reaches the page on which a teacher marks.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

from regard.coursework.problem_sets import label_parts
from regard.errors import InputError
from regard.files import make_folder, write_file
from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.runner import Runner
from regard.sandbox.tool import Tool
from regard.strict_json import parse_json

MOST_PAGES = 40
WIDTH = 1000  # pixels of a page
SECONDS = 60.0  # for all pages of one file
RENDERER = Tool(
    module="regard.grading.submissions.pdf_renderer",
    doing="Showing the pages of a PDF",
    needs="pypdfium2",
    imports=("numpy", "pypdfium2"),
    memory=2**30,
)
PAGES = re.compile(r"\b(?:pages?|pp?\.)\s*(\d{1,3})(?:\s*(?:-|\u2013|to|and)\s*(\d{1,3}))?", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class PdfPages:
    """A PDF as pictures: the names of their files, and its bookmarks with their pages, counted from 0."""

    files: tuple[str, ...] = ()
    outline: tuple[tuple[str, int], ...] = ()
    problem: str = ""  # why there are none, or not all


def draw_pdf(data: bytes, folder: Path, *, jail: Tier) -> PdfPages:
    """Draw the pages in the jail, into files of the folder; what lies there from before is not drawn again."""
    name = hashlib.sha256(data).hexdigest()[:24]
    index = folder / f"{name}.json"
    if index.exists():
        known = parse_json(index.read_bytes())
        return PdfPages(
            files=tuple(known["files"]), outline=tuple(map(tuple, known["outline"])), problem=known["problem"]
        )
    files: list[str] = []
    outline: tuple[tuple[str, int], ...] = ()
    try:
        with Runner(f"{name}.py:pages", function="pages", clock=Clock(SECONDS), jail=jail, code=b"pages = 0",
                    tool=RENDERER) as runner:  # fmt: skip
            sent = {"wanted": "open", "data": base64.b64encode(data).decode("ascii")}
            count, outline = _checked_outline(runner.ask(sent, doing="opening it", most=1_000_000))
            for number in range(min(count, MOST_PAGES)):
                asked = {"wanted": "page", "page": number, "width": WIDTH}
                drawn = png(runner.ask(asked, doing=f"drawing page {number + 1}", most=8 * WIDTH * WIDTH))
                write_file(make_folder(folder) / f"{name}-{number + 1}.png", drawn)
                files.append(f"{name}-{number + 1}.png")
        problem = f"it has {count} pages, and the first {MOST_PAGES} are shown" if count > MOST_PAGES else ""
    except (InputError, ValueError) as error:
        problem = str(error).removeprefix(f"{name}.py:pages").lstrip(": ")
    found = PdfPages(files=tuple(files), outline=outline, problem=problem)
    if files and len(files) == min(count, MOST_PAGES):
        write_file(index, json.dumps(vars(found)).encode())
    return found


def _checked_outline(reply: bytes) -> tuple[int, tuple[tuple[str, int], ...]]:
    """How many pages there are, and the bookmarks; the other side only claims them."""
    count, marks = parse_json(reply)
    if type(count) is not int or not all(type(title) is str and type(page) is int for title, page in marks):
        raise ValueError("what came back is no list of bookmarks")
    return max(count, 0), tuple((title, page) for title, page in marks if 0 <= page < count)


def png(pixels: bytes) -> bytes:
    """A PNG of pixels that come with their width and height before them.

    >>> png(struct.pack("<II", 1, 1) + b"abc")[:8] == bytes([137]) + b"PNG" + bytes([13, 10, 26, 10])
    True
    """
    wide, high = struct.unpack_from("<II", pixels)
    rows = memoryview(pixels)[8:]
    if not (0 < wide <= 2 * WIDTH and 0 < high <= 4 * WIDTH and len(rows) == 3 * wide * high):
        raise ValueError("what came back is no page")
    lines = b"".join(b"\0" + rows[at : at + 3 * wide] for at in range(0, len(rows), 3 * wide))
    parts = [(b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(lines, 6))]
    made = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in [*parts, (b"IEND", b"")]
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def pages_of(question: str, outline: tuple[tuple[str, int], ...], count: int, said: str = "") -> list[int]:
    """Which pages are about a question, from 0: as the student says, or from its bookmark to the next; else all.

    >>> pages_of("1A.i", (("1A.i", 0), ("Question 1A.ii: one key", 2)), 5), pages_of("3", (), 2, "pages 1-2")
    ([0, 1], [0, 1])
    """
    if len(said) < 80 and (named := PAGES.search(said)):
        first, last = int(named[1]), int(named[2] or named[1])
        if 1 <= first <= last <= count:
            return list(range(first - 1, last))
    asked = label_parts(question)
    for place, (title, page) in enumerate(outline):
        if label_parts(title)[: len(asked)] == asked:
            later = [other for _, other in outline[place + 1 :] if other > page]
            return list(range(page, min([*later[:1], count])))
    return list(range(count))

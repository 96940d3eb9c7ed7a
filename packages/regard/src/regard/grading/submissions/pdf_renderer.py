"""The tool that turns the pages of a PDF into pixels: it runs in the jail, and nothing of the file leaves it but these.

No form is filled in and no script of the file is run; what is drawn is what a printer would print.
"""

from __future__ import annotations

import base64
import json
import struct
from types import ModuleType
from typing import Any

import numpy as np
import pypdfium2

from regard.errors import InputError

kept: dict[str, Any] = {}


def respond(thing: Any, file: ModuleType, asked: dict[str, Any]) -> bytes:
    """First the file is opened; then each page is asked for: its width and height, and red, green and blue."""
    try:
        if asked["wanted"] == "open":
            kept["document"] = pypdfium2.PdfDocument(base64.b64decode(asked["data"]))
            return json.dumps([len(kept["document"]), _outline(kept["document"])]).encode("ascii")
        page = kept["document"][asked["page"]]
        scale = asked["width"] / max(page.get_width(), page.get_height() / 2, 1.0)
        pixels = page.render(scale=scale, may_draw_forms=False, rev_byteorder=True).to_numpy()
    except pypdfium2.PdfiumError as error:
        raise InputError(f"it is no PDF that can be read ({error}); save it anew.") from None
    rgb = np.ascontiguousarray(np.repeat(pixels[..., :1], 3, axis=2) if pixels.shape[2] < 3 else pixels[..., :3])
    return struct.pack("<II", rgb.shape[1], rgb.shape[0]) + rgb.tobytes()


def _outline(document: Any) -> list[tuple[str, int]]:
    """Title and page, from 0, of each bookmark; those of LaTeX, pandoc and word processors are the headings."""
    found: list[tuple[str, int]] = []
    for mark in document.get_toc(max_depth=4):
        place = mark.get_dest()
        if place is not None and place.get_index() is not None and len(found) < 500:
            found.append((str(mark.get_title())[:200], int(place.get_index())))
    return found

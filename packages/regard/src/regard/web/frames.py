"""Pages of the lab inside other pages: on named origins only, and for whoever was handed the pass.

A browser shows a page in a frame only where its ``frame-ancestors`` allows it, so an origin that was not named gets an
empty frame. A frame on another site gets no cookies (ours is ``SameSite=Strict``, and stays so), so the address in the
frame carries a pass of its own, which the page sends along with every question. The pass opens nothing unless the lab
was started with an origin, and whoever looks over the shoulder of a course page cannot use it: it is good only for this
lab, on this machine, while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from regard.errors import InputError
from regard.markup import element

WORD = "embed"  # the word of an address that carries the pass
HEADER = "X-Regard-Embed"  # the same beside a question
NOBODY = "frame-ancestors 'none'"
# Where notebooks run on this machine: a server on any port, and the windows of VS Code.
NOTEBOOKS = (
    *("http://localhost:*", "http://127.0.0.1:*", "https://localhost:*", "https://127.0.0.1:*"),
    "vscode-webview:",
)
_ORIGIN = re.compile(r"https?://(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?::\d{1,5})?")


def checked_origins(origins: Sequence[str]) -> tuple[str, ...]:
    """Origins as browsers write them; a path, a wildcard or another scheme is refused.

    >>> checked_origins(["https://Course.example/", "http://localhost:8888"])
    ('https://course.example', 'http://localhost:8888')
    >>> checked_origins(["*"])
    Traceback (most recent call last):
    regard.errors.InputError: An origin is a scheme and a host, such as https://course.example or http://localhost:8888, not '*'.
    """  # noqa: E501
    cleaned = [origin.lower().removesuffix("/") for origin in origins]
    for origin, given in zip(cleaned, origins, strict=True):
        if not _ORIGIN.fullmatch(origin):
            raise InputError(
                "An origin is a scheme and a host, such as https://course.example or http://localhost:8888, not "
                f"{given!r}."
            )
    return tuple(cleaned)


def frame_ancestors(origins: Sequence[str]) -> str:
    """The rule that says on whose pages a browser may show a frame of ours.

    >>> frame_ancestors(["https://course.example"]), frame_ancestors([])
    ('frame-ancestors https://course.example', "frame-ancestors 'none'")
    """
    return f"frame-ancestors {' '.join(origins)}" if origins else NOBODY


def frame_tag(address: str, words: Mapping[str, str], *, height: int) -> str:
    """An iframe with a page of the lab.

    >>> frame_tag("http://127.0.0.1:1/copy", {"embed": "x", "eps": "0.1"}, height=500)
    '<iframe src="http://127.0.0.1:1/copy?embed=x&amp;eps=0.1" width="100%" height="500" allow="clipboard-write"></iframe>'
    """  # noqa: E501
    there = f"{address}?{urlencode(words)}"
    return element("iframe", src=there, width="100%", height=height, allow="clipboard-write")

"""Who may use the lab: whoever was handed the token, in the browser it was handed to.

Another account of this machine can reach the port, and can send any Host and Origin it likes, so neither proves
anything about who asks. A random token does: it stands in the address that the lab prints and opens, once; the answer
puts a cookie in its place and sends the browser on to the same address without the token, so that what is copied from
the address bar carries no secret. The browser is opened through a file that only its owner can read, because a command
line is public on many systems.

What the cookie does not stop: a browser sends it to other ports of this address too, as with every notebook server. Do
not open somebody else's server on 127.0.0.1 in the same browser.

Pages of the lab may also stand inside other pages: on named origins only, and for whoever was handed the pass. A
browser shows a page in a frame only where its ``frame-ancestors`` allows it, so an origin that was not named gets an
empty frame. A frame on another site gets no cookies (ours is ``SameSite=Strict``, and stays so), so the address in the
frame carries a pass of its own, which the page sends along with every question. The pass opens nothing unless the lab
was started with an origin, and whoever looks over the shoulder of a course page cannot use it: it is good only for this
lab, on this machine, while it runs.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

from regard.errors import InputError
from regard.markup import Html, element, join

WORD = "token"


class Access:
    """The token and the cookie of one lab.

    >>> access = Access(port=8321)
    >>> access.has_cookie(access.cookie.partition(";")[0]), access.has_cookie(None), access.has_cookie("x=y")
    (True, False, False)
    >>> access.without_token("/copy", [("eps", "1"), ("token", access.token)])
    '/copy?eps=1'
    >>> access.without_token("/copy", [("token", "guess")]) is None
    True
    """

    def __init__(self, *, port: int) -> None:
        self.token = secrets.token_urlsafe(32)
        self.embed_pass = secrets.token_urlsafe(32)  # for frames, which get no cookie (below)
        self._name, self._value = f"regard-{port}", secrets.token_urlsafe(32)

    @property
    def cookie(self) -> str:
        """Not for scripts, not for other sites, gone with the browser."""
        return f"{self._name}={self._value}; Path=/; HttpOnly; SameSite=Strict"

    def has_cookie(self, cookies: str | None) -> bool:
        """Is ours among the cookies of a request? One look at each: http.cookies takes seconds for some headers."""
        pairs = (cookie.strip().partition("=") for cookie in (cookies or "").split(";"))
        return any(name == self._name and _equal(value, self._value) for name, _, value in pairs)

    def is_embed_pass(self, given: str | None) -> bool:
        """Is it the pass of a frame?"""
        return given is not None and _equal(given, self.embed_pass)

    def without_token(self, path: str, words: Sequence[tuple[str, str]]) -> str | None:
        """The address that a right token opens; None where there is no token, or a wrong one."""
        given = [value for name, value in words if name == WORD]
        if len(given) != 1 or not _equal(given[0], self.token):
            return None
        rest = urlencode([(name, value) for name, value in words if name != WORD])
        here = "/" + quote(path.lstrip("/\\"))  # "//elsewhere" and "/\\elsewhere" would leave this server
        return here + (f"?{rest}" if rest else "")


def _equal(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "surrogateescape"), secret.encode())


def is_own_request(fetch_site: str | None) -> bool:
    """Was the request made by the user's hand or by a page of ours? Browsers say so in Sec-Fetch-Site; old ones do not.

    >>> is_own_request("same-origin"), is_own_request(None), is_own_request("cross-site"), is_own_request("same-site")
    (True, True, False, False)
    """
    return fetch_site in (None, "none", "same-origin")


def access_page(target: str, command: str = "regard lab") -> str:
    """The page for whoever comes without the cookie."""
    return _page(
        "This page belongs to a lab",
        Html(f"""<p>The lab runs for the person who started it. If that is you, and this browser has opened it before,
{element("a", "go on", href=target)}.</p>
<p>Otherwise open the address that <code>{command}</code> printed when it was started, the one with
<code>token=</code> in it, and come back to this link. Not started yet? Type <code>{command}</code> in a
terminal.</p>"""),
    )


def refusal_page(sentence: str, start: str) -> str:
    """The page for a person whose address is refused: why, and the way to the lab's start."""
    way = element("p", element("a", "Go to the start of the lab", href=start), ".")
    return _page("The lab has no such page", join(element("p", sentence), "\n", way))


def _page(title: str, body: Html) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><link rel="stylesheet" href="/lab.css"></head>
<body><main><div><h1>{title}</h1>
{body}
</div></main></body></html>
"""


@contextmanager
def private_link(address: str) -> Iterator[str]:
    """The address of a file, readable by its owner alone, that sends a browser to ``address``."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)  # a packaged browser may not see /tmp
        handle, name = tempfile.mkstemp(prefix="regard-lab-", suffix=".html", dir=cache)
    except OSError:
        handle, name = tempfile.mkstemp(prefix="regard-lab-", suffix=".html")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        go = element("meta", http_equiv="refresh", content=f"0; url={address}")
        file.write(f"<!doctype html>{go}{element('a', 'The lab', href=address)}\n")
    try:
        yield Path(name).as_uri()
    finally:
        Path(name).unlink(missing_ok=True)


EMBED = "embed"  # the word of an address that carries the pass
EMBED_HEADER = "X-Regard-Embed"  # the same beside a question
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

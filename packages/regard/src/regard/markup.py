"""HTML that escapes by construction: a text becomes part of a page only through :func:`element`, which escapes it."""

from __future__ import annotations

import html

_VOID = {"br", "col", "hr", "img", "input", "link", "meta"}  # elements that have no end


class Html(str):
    """Text that is HTML already: written by us, or made by :func:`element`. Only this is put into a page as it is."""

    __slots__ = ()


def escape(text: object) -> Html:
    """Anything as HTML: what is HTML already stays, every other text is shown as it is read.

    >>> escape("a < b"), escape(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return text if isinstance(text, Html) else Html(html.escape(str(text), quote=False))


def join(*parts: object) -> Html:
    """Parts one after another; None is nothing.

    >>> join("1 < 2", None, Html("<br>"))
    '1 &lt; 2<br>'
    """
    return Html("".join(escape(part) for part in parts if part is not None))


def element(tag: str, /, *children: object, **attributes: object) -> Html:
    """An element with attributes and children. True is an attribute without a value, None and False are none at all;
    a trailing underscore is for words that Python has taken.

    >>> element("a", "R & D", href="?a&b", class_="soft", hidden=False)
    '<a href="?a&amp;b" class="soft">R &amp; D</a>'
    """
    words = [tag]
    for name, value in attributes.items():
        plain = name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(plain)
        elif value is not None and value is not False:
            words.append(f'{plain}="{html.escape(str(value))}"')
    end = "" if tag in _VOID else f"{join(*children)}</{tag}>"
    return Html(f"<{' '.join(words)}>{end}")

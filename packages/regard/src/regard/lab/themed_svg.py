"""A picture by matplotlib in the page's theme: no style of its own, and the page's ink and colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from regard.pictures import figure, svg

SVG = "http://www.w3.org/2000/svg"
INK = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#707070": "var(--soft)",
    "#0072b2": "var(--blue)",
    "#e69f00": "var(--one)",
    "#d55e00": "var(--orange)",
    "#009e73": "var(--green)",
}


def draw_svg(draw: Callable[[Any], None]) -> str:
    """What ``draw`` puts into a new figure, as SVG for the page."""
    made = figure()
    draw(made)
    return themed_svg(svg(made))


def themed_svg(svg: str) -> str:
    """The picture without styles, which the page's policy forbids: they become attributes, in the page's colours.

    >>> themed_svg('<svg xmlns="http://www.w3.org/2000/svg"><path style="fill: #0072b2; opacity: 0.5"/></svg>')
    '<svg xmlns="http://www.w3.org/2000/svg"><path fill="var(--blue)" opacity="0.5" /></svg>'
    """
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}style", f"{{{SVG}}}metadata"):
                parent.remove(child)
        for declaration in parent.attrib.pop("style", "").split(";"):
            name, colon, value = declaration.partition(":")
            if colon:
                parent.set(name.strip(), INK.get(value.strip(), value.strip()))
    for size in ("width", "height"):  # the page says how large; the viewBox how it is shaped
        root.attrib.pop(size, None)
    return ElementTree.tostring(root, encoding="unicode")

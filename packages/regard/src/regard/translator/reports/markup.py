"""The report's own HTML as a small tree, for who draws it elsewhere than in a browser.

Only what :mod:`regard.translator.reports` writes is understood: every element is closed, and the SVG inside is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_ALONE = {"meta", "link", "br", "line", "rect", "path", "circle", "polygon"}  # elements that hold nothing


@dataclass(kw_only=True)
class Node:
    """An element: its name, its attributes, and the texts and elements inside."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    inside: list[Node | str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Its class."""
        return self.attributes.get("class", "")

    def nodes(self) -> Iterator[Node]:
        """The elements directly inside."""
        return (item for item in self.inside if isinstance(item, Node))

    def find(self, tag: str) -> Iterator[Node]:
        """All elements of this name inside, at any depth, in order."""
        for item in self.nodes():
            if item.tag == tag:
                yield item
            yield from item.find(tag)

    def text(self) -> str:
        """All text inside."""
        return "".join(item if isinstance(item, str) else item.text() for item in self.inside)

    def number(self, name: str, default: float = 0.0) -> float:
        """An attribute as a number."""
        return float(self.attributes.get(name, default))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node(tag="")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag=tag, attributes={name: value or "" for name, value in attrs})
        self.open[-1].inside.append(node)
        if tag not in _ALONE:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].inside.append(Node(tag=tag, attributes={name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _ALONE and len(self.open) > 1:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def read_markup(text: str) -> Node:
    """The tree of a page of ours.

    >>> page = read_markup('<body><p class="lead">one <b>two</b></p></body>')
    >>> next(page.find("p")).kind, next(page.find("p")).text()
    ('lead', 'one two')
    """
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.open[0]

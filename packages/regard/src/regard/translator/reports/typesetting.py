"""Words into lines, and tables into columns, before anything is drawn.

A line is a list of placed pieces; a piece is words in one style. Lines are broken at blanks, and inside a word that is
wider than the column, after a mark where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from regard.translator.reports.markup import Node
from regard.translator.reports.paper import SOFT, Paper, Style, width_of

LEADING = 1.32  # from one base line to the next, in sizes of the letters
WRONG, MOVED = "#b34700", "#0072B2"
Piece = tuple[str, Style]


@dataclass(frozen=True, kw_only=True)
class Line:
    """Pieces side by side, and how wide they are together."""

    pieces: tuple[Piece, ...]
    width: float

    @property
    def height(self) -> float:
        return max((style.size for _, style in self.pieces), default=0.0) * LEADING

    def draw(self, paper: Paper, left: float, base: float) -> None:
        for words, style in self.pieces:
            paper.text(left, base, words, style)
            left += width_of(words, style)


def pieces_of(node: Node, style: Style) -> list[Piece]:
    """The words inside an element, each in its style; ``<small>`` begins a line of its own."""
    pieces: list[Piece] = []
    for item in node.inside:
        if isinstance(item, str):
            pieces.append((item, style))
        elif item.tag == "small" and node.kind == "n":
            pieces += [("\n", style), *pieces_of(item, replace(style, size=style.size * 0.85, colour=SOFT))]
        else:
            pieces += pieces_of(item, _style_of(item, style, inside=node.kind))
    return pieces


def _style_of(node: Node, style: Style, inside: str) -> Style:
    match node.tag, node.kind:
        case "b", _:
            return replace(style, bold=True)
        case "small", _:
            return replace(style, size=style.size * 0.88, colour=SOFT)
        case "span", "wrong":
            return replace(style, colour=WRONG, bold=True, under="solid")
        case "span", "moved":
            return replace(style, colour=MOVED, under="dotted")
        case "span", "nothing":
            return replace(style, colour=SOFT, italic=True)
    return style


def break_lines(pieces: Iterable[Piece], width: float) -> list[Line]:
    """The pieces in lines no wider than ``width``."""
    lines: list[list[Piece]] = [[]]
    used = 0.0
    for word, style in _words(pieces):
        if word == "\n":
            lines.append([])
            used = 0.0
            continue
        for part in _parts(word, style, width):
            wide = width_of(part, style)
            # 0.01: widths are sums of floats, and a column may be exactly as wide as its words
            if used + wide > width + 0.01 and lines[-1]:
                lines.append([])
                used = 0.0
            if not lines[-1] and not part.strip():
                continue  # no line begins with a blank
            lines[-1].append((part, style))
            used += wide
    return [
        Line(pieces=tuple(_merge_pieces(line)), width=sum(width_of(*p) for p in _merge_pieces(line))) for line in lines
    ]


def _words(pieces: Iterable[Piece]) -> Iterable[Piece]:
    for text, style in pieces:
        for word in re.findall(r"\n|[ \t\r]+|[^ \t\r\n]+", text):  # a blank that does not break stays
            yield (word if word == "\n" or word.strip(" \t\r") else " "), style


def _parts(word: str, style: Style, width: float) -> list[str]:
    """The word, or where it is too wide its parts: after marks first, then anywhere."""
    if width_of(word, style) <= width:
        return [word]
    parts: list[str] = []
    for part in re.findall(r".*?[_./,:=-]+|.+$", word):
        if width_of(part, style) <= width:
            parts.append(part)
            continue
        rest = part
        while rest:
            fits = max(1, sum(width_of(rest[: n + 1], style) <= width for n in range(len(rest))))
            parts.append(rest[:fits])
            rest = rest[fits:]
    return parts


def _merge_pieces(line: Sequence[Piece]) -> list[Piece]:
    """Neighbours of one style as one piece, so that a PDF's words can be copied; no blank at the end."""
    pieces: list[Piece] = []
    for word, style in line:
        if pieces and pieces[-1][1] == style:
            pieces[-1] = (pieces[-1][0] + word, style)
        else:
            pieces.append((word, style))
    if pieces and not pieces[-1][0].rstrip():
        pieces.pop()
    return [(w.rstrip() if i == len(pieces) - 1 else w, s) for i, (w, s) in enumerate(pieces)]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What stands in a cell, whether its lines stay whole, and whether it ends at the right."""

    pieces: tuple[Piece, ...]
    whole: bool = False
    right: bool = False

    def widths(self) -> tuple[float, float]:
        """The least and the best width: its longest part, and its longest line."""
        words = [w for w in _words(self.pieces) if w[0].strip()]
        parts = [(part, style) for word, style in words for part in re.findall(r".*?[_./,:=-]+|.+$", word)]
        wanted = max((line.width for line in break_lines(self.pieces, 1e9)), default=0.0)
        least = wanted if self.whole else max((width_of(*part) for part in parts), default=0.0)
        return least, wanted


def columns(rows: Sequence[Sequence[Cell]], width: float, *, gap: float) -> list[float] | None:
    """How wide the columns are, so that all of them fit into ``width``; None where they do not, whatever is broken.

    Each column gets its best width where there is room; otherwise its least width and a share of what is left.
    """
    sizes = [[cell.widths() for cell in column] for column in zip(*rows, strict=True)]
    least, best = ([max(size[i] for size in column) for column in sizes] for i in (0, 1))
    room = width - gap * (len(best) - 1)
    if sum(best) <= room:
        return best
    if sum(least) > room:
        return None
    share = (room - sum(least)) / max(1e-9, sum(b - a for a, b in zip(least, best, strict=True)))
    return [a + share * (b - a) for a, b in zip(least, best, strict=True)]

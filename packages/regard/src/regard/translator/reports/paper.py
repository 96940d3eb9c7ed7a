"""Sheets of A4 to write and draw on, in points from the upper left corner, and the PDF file that they become.

matplotlib's PDF writer embeds the fonts that come with it, so a report looks the same everywhere and its words can be
searched and copied. Nothing in the file says when it was made: the same report is the same file.
"""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import InputError
from regard.pictures import NEEDED

WIDTH, HEIGHT = 595.28, 841.89  # A4, in points
SERIF, SANS, MONO = "STIXGeneral", "DejaVu Sans", "DejaVu Sans Mono"
INK, SOFT, RULE, BAND = "#1b1f24", "#59636e", "#c4cad1", "#f1f4f7"


@dataclass(frozen=True, kw_only=True)
class Style:
    """How words look; ``under`` is a line below them: solid or dotted."""

    size: float = 10.0
    font: str = SERIF
    colour: str = INK
    bold: bool = False
    italic: bool = False
    under: str = ""


class Paper:
    """The sheets so far; the last one is written on."""

    def __init__(self) -> None:
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise InputError(NEEDED) from None
        self._make: Any = Figure
        self.sheets: list[Any] = []
        self.turn()

    def turn(self) -> None:
        """Begin a new sheet."""
        self.sheets.append(self._make(figsize=(WIDTH / 72, HEIGHT / 72)))

    def text(self, x: float, y: float, words: str, style: Style, *, anchor: str = "left", angle: float = 0.0) -> None:
        """Words with their base line at ``y``; ``angle`` in degrees, turned about that point."""
        self.sheets[-1].text(
            x / WIDTH, 1 - y / HEIGHT, words, fontproperties=_font(style), color=style.colour, ha=anchor, va="baseline",
            rotation=angle, rotation_mode="anchor", parse_math=False,
        )  # fmt: skip
        if style.under:
            look = {"linestyle": ":", "linewidth": 1.1} if style.under == "dotted" else {"linewidth": 0.8}
            self.line([(x, y + 1.8), (x + width_of(words, style), y + 1.8)], colour=style.colour, **look)

    def line(self, points: Sequence[tuple[float, float]], *, colour: str = INK, **look: Any) -> None:
        """A line through points."""
        from matplotlib.lines import Line2D

        xs, ys = [x / WIDTH for x, _ in points], [1 - y / HEIGHT for _, y in points]
        self._add(Line2D(xs, ys, color=colour, solid_joinstyle="round", **look))

    def area(
        self, corners: Sequence[tuple[float, float]], *, colour: str, edge: str = "none", width: float = 0
    ) -> None:
        """A filled shape."""
        from matplotlib.patches import Polygon

        placed = [(x / WIDTH, 1 - y / HEIGHT) for x, y in corners]
        self._add(Polygon(placed, closed=True, facecolor=colour, edgecolor=edge, linewidth=width))

    def box(self, x: float, y: float, width: float, height: float, *, colour: str, edge: str = "none") -> None:
        """A filled rectangle whose upper left corner is (x, y)."""
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]
        self.area(corners, colour=colour, edge=edge, width=0.6 if edge != "none" else 0)

    def circle(self, x: float, y: float, radius: float, *, colour: str, edge: str = "none", width: float = 0) -> None:
        """A filled circle."""
        from matplotlib.patches import Ellipse

        size = 2 * radius / WIDTH, 2 * radius / HEIGHT
        self._add(Ellipse((x / WIDTH, 1 - y / HEIGHT), *size, facecolor=colour, edgecolor=edge, linewidth=width))

    def _add(self, artist: Any) -> None:
        artist.set_transform(self.sheets[-1].transFigure)
        self.sheets[-1].add_artist(artist)

    def pdf(self, *, title: str, author: str = "") -> bytes:
        """The sheets as one PDF file."""
        from matplotlib import rc_context
        from matplotlib.backends.backend_pdf import PdfPages

        stream = io.BytesIO()
        facts = {"Title": title, "Author": author or None, "Creator": "regard", "CreationDate": None}
        # 42: fonts as TrueType, from which readers can copy and search words
        with rc_context({"pdf.fonttype": 42}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a box is drawn, and said in the docs
            with PdfPages(stream, metadata=facts) as pages:
                for sheet in self.sheets:
                    pages.savefig(sheet)
        return stream.getvalue()


def width_of(words: str, style: Style) -> float:
    """How wide words are, in points.

    >>> width_of("iiii", Style()) < width_of("mmmm", Style())
    True
    """
    if not words.strip():
        # blanks have no ink to measure: their width is what one adds between two letters
        return len(words) * _word_width("n n", style) - 2 * len(words) * _word_width("n", style)
    return _word_width(words, style)


@functools.lru_cache(maxsize=50_000)
def _word_width(words: str, style: Style) -> float:
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        extent = text_to_path.get_text_width_height_descent(words, _font(style), ismath=False)
    return float(extent[0])


@functools.lru_cache(maxsize=1000)
def _font(style: Style) -> Any:
    from matplotlib.font_manager import FontProperties

    return FontProperties(
        family=[style.font, SANS] if style.font != SANS else SANS,  # the second draws what the first lacks
        size=style.size,
        weight="bold" if style.bold else "normal",
        style="italic" if style.italic else "normal",
    )

"""What all pictures share: the colours, a figure without a window, and one way into a file or a page.

matplotlib is loaded when a figure is asked for, and never its pyplot: a notebook's own pictures are left alone.
"""

from __future__ import annotations

import io
import os
import re
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.files import check_target, write_file
from regard.notation import latex, pieces, readable

# the kinds of what is drawn on, for signatures: to name them loads nothing
if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:
    Axes = Figure = Any

NEEDED = "Pictures need matplotlib; install it with: pip install 'regard[plots]'."
ENDINGS = (".svg", ".png", ".pdf")
# Okabe and Ito's colours: safe for colour-blind eyes, and apart in a grey print too
BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#707070"


def figure(width: float = 6.8, height: float = 4.2) -> Figure:
    """An empty figure, without a window; width and height in inches."""
    try:
        from matplotlib.figure import Figure as Made
    except ImportError:
        raise InputError(NEEDED) from None
    return Made(figsize=(width, height), layout="constrained")


def axes(figure: Figure, *, title: str, **labels: Any) -> Axes:
    """One pair of axes that fills a figure, with a title and labels."""
    made = figure.add_subplot()
    finish(made, title=title, **labels)
    return made


def finish(made: Axes, *, title: str, **labels: Any) -> None:
    """Title, labels and no box."""
    made.set_title(title, fontsize=10.5)
    made.set(**labels)
    open_box(made)


def open_box(made: Axes) -> None:
    """Only the two axes, not a box around the picture."""
    made.spines[["top", "right"]].set_visible(False)


def set_formulas(figure: Figure) -> None:
    """Set the formulas in a figure's texts, which are written in plain letters, such as alpha_0 >= 1/(2+eps)."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_text(with_formulas(text.get_text()))


def with_formulas(text: str) -> str:
    """A text for matplotlib with its formulas set; one that it cannot set is shown in Unicode.

    >>> with_formulas("a share of $1/(2+eps)$")
    'a share of $1/(2+\\\\varepsilon )$'
    """
    from matplotlib.mathtext import MathTextParser

    if text.count("$") % 2:  # no marks: somebody's own sign
        return text
    lines = ["".join(f"${latex(p.text)}$" if p.formula else p.text for p in pieces(one)) for one in text.split("\n")]
    try:
        for line in lines:
            MathTextParser("path").parse(line)
    except ValueError:
        return readable(text)
    return "\n".join(lines)


def save(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure to a .svg, .png or .pdf file, which appears whole or not at all.

    Undated, so that drawing the same thing again changes no file.
    """
    target = check_target(path, ENDINGS)
    ending, stream = target.suffix.lower(), io.BytesIO()
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(stream, format=ending[1:], dpi=150, metadata=dates.get(ending))
    write_file(target, stream.getvalue())


def svg(figure: Figure) -> str:
    """A figure as SVG text, undated."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def inline_svg(figure: Figure) -> str:
    """A figure as an element of a page, never wider than the page.

    Its style sheet would hold for the whole page, other pictures included: its two rules go to the element itself.
    """
    inside = re.sub(r"<(style|metadata)\b.*?</\1>", "", svg(figure).partition("<svg")[2], flags=re.DOTALL)
    return f'<svg style="max-width: 100%; height: auto; stroke-linejoin: round; stroke-linecap: butt"{inside}'

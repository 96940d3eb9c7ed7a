"""Figures for claims: matplotlib loaded when asked for, Okabe and Ito's colours, one way to save."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from regard.arrays import check_target
from regard.errors import InputError

ENDINGS = (".svg", ".png", ".pdf")
BLUE, ORANGE, GREEN, VERMILION, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#707070"


def figure() -> Any:
    """An empty figure, without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Pictures need matplotlib; install it with: pip install 'regard[plots]'.") from None
    return Figure(figsize=(6.8, 4.2), layout="constrained")


def axes(figure: Any, *, title: str, **labels: Any) -> Any:
    """One pair of axes with a title and labels."""
    made = figure.add_subplot()
    finish(made, title=title, **labels)
    return made


def finish(made: Any, *, title: str, **labels: Any) -> None:
    """Title, labels and no box."""
    made.set_title(title, fontsize=10.5)
    made.set(**labels)
    made.spines[["top", "right"]].set_visible(False)


def saved(draw: Callable[[Any], None], path: str | os.PathLike[str]) -> None:
    """Draw into a new figure and write it; undated, so that drawing the same thing again changes no file."""
    target = check_target(path, ENDINGS)
    made = figure()
    draw(made)
    made.savefig(target, dpi=144, metadata={"Date": None} if target.suffix.lower() == ".svg" else None)

"""Strips: what is drawn whole on a sheet, and where a sheet's edges are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.translator.reports.paper import HEIGHT, WIDTH, Paper
from regard.translator.reports.typesetting import LEADING, Line

LEFT, RIGHT, TOP, BOTTOM = 54.0, WIDTH - 54.0, 54.0, HEIGHT - 58.0
ROOM = RIGHT - LEFT
Draw = Callable[[Paper, float, float], None]  # on this paper, at this left end and this height


@dataclass(frozen=True, kw_only=True)
class Strip:
    """Something that is drawn whole: how high it is, and whether it stays with what follows."""

    height: float
    draw: Draw
    stays: bool = False
    new_sheet: bool = False
    head: Strip | None = None  # drawn again above it at the top of a sheet, as the head of a table


def space(height: float, *, stays: bool = True) -> Strip:
    """Nothing, this high."""
    return Strip(height=height, draw=lambda paper, x, y: None, stays=stays)


def stack(paper: Paper, lines: Sequence[Line], x: float, y: float, *, right: float | None = None) -> None:
    """Lines below one another, from the left, or ending at ``right``."""
    for line in lines:
        line.draw(paper, x if right is None else right - line.width, y + line.height / LEADING)
        y += line.height

"""Pictures: how near positions come as the offset grows, and where formats run out of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from regard.array_types import Float
from regard.pictures import BLUE, GREEN, GREY, VERMILION, Axes, Figure
from regard.pictures import figure as new_figure
from regard.positions.encodings import frequencies
from regard.positions.number_formats import Table, unit_roundoff
from regard.positions.rows import first_collision

if TYPE_CHECKING:
    from regard.positions.answer import Positions

# a colour and a marker each: told apart without colour too
LOOKS = {
    "float32": (BLUE, "s"),
    "float16": (GREEN, "^"),
    "bfloat16": (VERMILION, "o"),
}
DIMS = (2, 4, 8, 16, 32, 64)
MOST_POSITIONS = 1 << 20  # among which collisions are looked for: some seconds


def sketch(result: Positions, *, table: Float | None = None, base: float = 10000, most: int = MOST_POSITIONS) -> Figure:
    """Distance against offset; for computed encodings also first collisions by dimension, among ``most`` positions."""
    if table is not None:
        figure = new_figure(6.4, 4.2)
        _draw_table(figure.subplots(), table)
        return figure
    figure = new_figure(11, 4.4)
    left, right = figure.subplots(1, 2)
    _draw_distances(left, result, base)
    _draw_collisions(right, min(result.length, most), base)
    return figure


def first_collisions(
    length: int, *, dims: tuple[int, ...] = DIMS, through: str = "real", base: float = 10000
) -> dict[str, list[int | None]]:
    """The larger position of the first equal pair, by format, for each dimension; None where there is none.

    >>> first_collisions(1000, dims=(2, 4), through="native")["bfloat16"]
    [257, 257]
    """
    first = {}
    for format in LOOKS:
        pairs = [first_collision(Table(d, format, through, "reference", base), length).pair for d in dims]
        first[format] = [None if pair is None else pair[1] for pair in pairs]
    return first


def _draw_distances(axes: Axes, result: Positions, base: float) -> None:
    offsets = np.arange(1, max(2, min(result.length, 4097)))
    shape = math.sqrt(2) if result.kind == "rotary" else 1.0
    w = frequencies(result.dim, base=base)
    distances = shape * 2 * np.sqrt((np.sin(offsets[:, None] * w / 2) ** 2).sum(axis=1))
    axes.plot(offsets, distances, color=GREY, lw=0.6, label="distance at this offset")
    if result.records:
        t, nearest = np.array([[float(t), shape * value] for t, value in result.records]).T
        end = max(float(result.searched - 1), t[-1])
        axes.step(np.append(t, end), np.append(nearest, nearest[-1]), where="post", color="black", lw=1.6)
        axes.plot(t, nearest, "k.", label="nearest so far (proved)")
    for format, (colour, _) in LOOKS.items():
        reach = shape * math.sqrt(result.dim) * unit_roundoff(format)
        axes.axhline(reach, color=colour, ls="--", lw=1)
        axes.annotate(
            f"{format} may merge below", (1, reach), (0.02, 3), color=colour, fontsize=8,
            xycoords=("axes fraction", "data"), textcoords=("axes fraction", "offset points"),
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="offset t − s", ylabel="distance of two positions")
    axes.set_title(f"{result.kind}, dim {result.dim}: how near they come")
    axes.legend(fontsize=8, loc="best")


def _draw_collisions(axes: Axes, length: int, base: float) -> None:
    lowest = float(length)
    for through, style, word in (("real", "-", "rounded once"), ("native", ":", "native")):
        first = first_collisions(length, through=through, base=base)
        for shift, (format, (colour, marker)) in zip((0.94, 1.0, 1.06), LOOKS.items(), strict=True):
            x = np.array(DIMS) * shift
            y = np.array([length if t is None else t for t in first[format]], dtype=float)
            lowest = min(lowest, float(y.min()))
            none = np.array([t is None for t in first[format]])
            axes.plot(x, y, style, marker=marker, color=colour, lw=1, ms=5, label=f"{format}, {word}")
            axes.plot(x[none], y[none], marker, color=colour, ms=5, mfc="white")
    axes.axhline(length, color="black", lw=0.8)
    axes.text(0.98, 0.985, "hollow: none so far", ha="right", va="top", transform=axes.transAxes, fontsize=8)
    axes.set_ylim(lowest / 2, length * 4)  # by hand: where nothing collides, all points are at one height
    axes.set(xscale="log", yscale="log", xlabel="dimension", ylabel="first position that repeats an earlier one")
    axes.set_xticks(DIMS, [str(d) for d in DIMS])
    axes.minorticks_off()
    axes.set_title(f"first collision among {length:,} positions")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _draw_table(axes: Axes, table: Float) -> None:
    rows = table[:2048]
    offsets = np.arange(1, max(2, len(rows)))
    apart = [np.linalg.norm(rows[t:] - rows[:-t], axis=1) if t < len(rows) else np.zeros(1) for t in offsets]
    axes.plot(offsets, [a.min() for a in apart], color="black", lw=1, label="nearest pair at this offset")
    axes.plot(offsets, [np.median(a) for a in apart], color=BLUE, lw=1, label="median pair")
    axes.set(xscale="log", xlabel="offset t − s", ylabel="distance of two positions")
    axes.set_ylim(bottom=0)
    axes.set_title(f"learned table, {table.shape[0]:,} × {table.shape[1]}")
    axes.legend(fontsize=8, loc="best")

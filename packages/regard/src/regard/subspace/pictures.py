"""The plane of the smallest angle between two subspaces: a sum, its parts, and what extraction does to noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.pictures import BLUE, GREEN, GREY, ORANGE
from regard.pictures import figure as new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.subspace.extraction import Extraction


def sketch(extraction: Extraction) -> Figure:
    """The picture as a matplotlib figure."""
    figure = new_figure(6.4, 4.4)
    _fill(figure.add_subplot(), extraction)
    return figure


def _fill(axes: Axes, extraction: Extraction) -> None:
    angle, factor = float(extraction.angles[0]), extraction.amplification
    a, b = np.array([1.0, 0.0]), np.array([np.cos(angle), np.sin(angle)])
    part_a, part_b = 1.2 * a, 1.0 * b
    radius, middle = 0.25, part_a + part_b
    reach = radius * factor
    # Beyond a few lengths the band simply runs off both sides: its width is in the legend.
    left, right = max(-2.2, min(-0.6, part_a[0] - reach - 0.3)), min(4.6, max(middle[0] + 0.6, part_a[0] + reach + 0.3))
    for direction, colour, name in [(a, BLUE, "span(A)"), (b, ORANGE, "span(B)")]:
        axes.axline((0, 0), tuple(direction), color=colour, lw=1, alpha=0.7, label=name)
    labels = [(part_a, BLUE, "$v_a$", (0, -20)), (part_b, ORANGE, "$v_b$", (-22, 4))]
    for vector, colour in [(part_a, BLUE), (part_b, ORANGE), (middle, GREY)]:
        axes.annotate(
            "", tuple(vector), (0, 0), arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2, "shrinkB": 0}
        )
    top = middle + np.array([0, radius])  # above the circle
    for vector, colour, name, offset in [*labels, (top, GREY, "$v_a + v_b$", (0, 6))]:
        axes.annotate(name, vector, xytext=offset, textcoords="offset points", color=colour, ha="center")
    turn = np.linspace(0, 2 * np.pi, 121)
    axes.plot(middle[0] + radius * np.cos(turn), middle[1] + radius * np.sin(turn), color=GREEN, lw=1.5, label="noise")
    axes.plot([part_a[0] - reach, part_a[0] + reach], [0, 0], color=GREEN, lw=6, alpha=0.45, solid_capstyle="butt",
              label=f"noise after M: {factor:.3g} times as wide")  # fmt: skip
    axes.plot([middle[0], part_a[0]], [middle[1], 0], color=GREY, lw=1, ls=":")
    axes.set(xlim=(left, right), ylim=(-0.45, middle[1] + radius + 0.4), aspect="equal", xticks=[], yticks=[])
    axes.set_title(f"Smallest angle {np.degrees(angle):.4g}°: M slides along span(B) onto span(A)", fontsize=10)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=2, frameon=False, fontsize=9)

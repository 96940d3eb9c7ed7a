"""Figures for papers: one head with its words, or many as small maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.pictures import figure as new_figure
from regard_models.attention_page.encoding import max_pool
from regard_models.attention_page.layers import Layer
from regard_models.attention_page.palette import colormap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MANY = 60  # words that get their own label
_SMALL = 64  # places across a small map


def sketch(layers: Sequence[Layer], *, title: str) -> Figure:
    """A heat map where there is one head, otherwise layers down and heads across."""
    short = title if len(title) <= 50 else "…" + title[-49:]
    if len(layers) == 1 and len(layers[0].heads) == 1:
        return _head_figure(layers[0], short)
    return _grid_figure(layers, short)


def _head_figure(layer: Layer, title: str) -> Figure:
    from matplotlib.colors import PowerNorm

    weights = layer.weights(0)
    rows, columns = weights.shape
    cell = max(0.02, min(0.24, 6.5 / max(rows, columns)))
    made = new_figure(2.4 + cell * columns, 1.9 + cell * rows)
    axes = made.subplots()
    # The root of the weight, as on the page: small weights are seen, and the numbers of the scale say what they are.
    norm = PowerNorm(0.5, vmin=0, vmax=float(weights.max()) or 1.0)
    drawn = axes.imshow(weights, cmap=colormap(), norm=norm, interpolation="none")
    _label_axis(axes.xaxis, layer.keys, columns, rotation=90)
    _label_axis(axes.yaxis, layer.queries, rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_color("#b9c1c5")
    axes.set_ylabel("queries")
    axes.set_xlabel(f"{title}: layer {layer.label}, head {layer.heads[0]}", fontsize=9.5, parse_math=False)
    bar = made.colorbar(drawn, ax=axes, shrink=max(0.5, min(1.0, 1.6 / (cell * rows + 0.1))), label="weight")
    bar.outline.set_visible(False)
    return made


def _label_axis(axis: Any, words: Sequence[str], count: int, **style: Any) -> None:
    every = math.ceil(count / MANY)
    places = range(0, count, every)
    axis.set_ticks(list(places), [words[place] for place in places], fontsize=8, parse_math=False, **style)


def _grid_figure(layers: Sequence[Layer], title: str) -> Figure:
    most = max(len(layer.heads) for layer in layers)
    size = max(0.28, min(0.9, 9.0 / most, 12.0 / len(layers)))
    made = new_figure(1.0 + size * most, 0.9 + size * len(layers))
    grid = made.subplots(len(layers), most, squeeze=False)
    for row, layer in zip(grid, layers, strict=True):
        for place, axes in enumerate(row):
            axes.set(xticks=[], yticks=[])
            if place >= len(layer.heads):
                axes.set_axis_off()
                continue
            small = max_pool(layer.weights(place), _SMALL)
            axes.imshow(small**0.5, cmap=colormap(), vmin=0, vmax=float(small.max()) ** 0.5 or 1.0, aspect="auto")
            axes.spines[:].set_color("#b9c1c5")
        label = layer.label if layer.kind == "self" else f"{layer.kind[:5]} {layer.label}"
        row[0].set_ylabel(label, fontsize=8, rotation=0, ha="right", va="center")
    for place, axes in enumerate(grid[0]):
        if place < len(layers[0].heads):
            axes.set_title(str(layers[0].heads[place]), fontsize=8)
    made.suptitle(f"{title}: layers down, heads across; each to its own largest weight, square roots", fontsize=9.5,
                  parse_math=False)  # fmt: skip
    return made

"""Pictures of what heads do: layers down, heads across, one colour scale with numbers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from regard.pictures import figure as new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.models.patching import Effects


def sketch_effects(result: Effects) -> Figure:
    """A heat map: purple below zero, orange above, white nothing; that pair differs for every colour sight."""
    rows, columns = result.effects.shape
    figure = new_figure(max(4.2, 1.8 + 0.42 * columns), max(2.4, 1.3 + 0.36 * rows))
    axes = figure.subplots()
    limit = float(np.nanmax(np.abs(result.effects))) or 1.0
    drawn = axes.imshow(result.effects, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set(xlabel="head", ylabel="layer", xticks=range(columns), yticks=range(rows))
    axes.set_yticklabels([str(layer) for layer in result.layers])
    figure.suptitle(_folded(f"{result.name}: {result.what}", width=int(9 * figure.get_figwidth())), fontsize=10.5)
    figure.colorbar(drawn, ax=axes, label="effect")
    return figure


def _folded(text: str, width: int) -> str:
    """A title that stays inside its figure; of a path only the end."""
    name, _, rest = text.rpartition(": ")
    short = name if len(name) <= 40 else "..." + name[-37:]
    return "\n".join(textwrap.wrap(f"{short}: {rest}", width=width))

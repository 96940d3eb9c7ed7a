"""Pictures of what heads do: layers down, heads across, one colour scale with numbers."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from regard.pictures import figure as new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard_models.editing.patching import Effects
    from regard_models.head_measures.head_report import Heads


def sketch_effects(result: Effects) -> Figure:
    """A heat map: purple below zero, orange above, white nothing; that pair differs for every colour sight."""
    rows, columns = result.effects.shape
    figure = new_figure(max(4.2, 1.8 + 0.42 * columns), max(2.4, 1.3 + 0.36 * rows))
    axes = figure.subplots()
    limit = float(np.nanmax(np.abs(result.effects))) or 1.0
    drawn = axes.imshow(result.effects, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set(xlabel="head", ylabel="layer", xticks=range(columns), yticks=range(rows))
    axes.set_yticklabels([str(layer) for layer in result.layers])
    figure.suptitle(_wrap_title(f"{result.name}: {result.what}", width=int(9 * figure.get_figwidth())), fontsize=10.5)
    figure.colorbar(drawn, ax=axes, label="effect")
    return figure


def sketch_measure(result: Heads, measure: str, title: str) -> Figure:
    """A heat map of one measure, light for little and dark for much; where it has signs, purple and orange."""
    values = result.measures[measure]
    rows, columns = values.shape
    figure = new_figure(max(4.2, 1.8 + 0.42 * columns), max(2.4, 1.5 + 0.36 * rows))
    axes = figure.subplots()
    shown = np.where(np.isfinite(values), values, np.nan)
    limit = float(np.nanmax(np.abs(shown), initial=0.0)) or 1.0
    least, colours = (-limit, "PuOr_r") if np.nanmin(shown, initial=0.0) < 0 else (0.0, "cividis_r")
    drawn = axes.imshow(shown, cmap=colours, vmin=least, vmax=limit, aspect="auto")
    axes.set(xlabel="head", ylabel="layer", xticks=range(columns), yticks=range(rows))
    if len({*result.numbers}) == 1:
        axes.set_xticklabels([str(number) for number in result.numbers[0]])
    axes.set_yticklabels([str(layer) for layer in result.layers])
    figure.suptitle(_wrap_title(f"{result.name}: {title}", width=int(9 * figure.get_figwidth())), fontsize=10.5)
    figure.colorbar(drawn, ax=axes, label=measure)
    return figure


def _wrap_title(text: str, width: int) -> str:
    """A title that stays inside its figure; of a path only the end."""
    name, _, rest = text.rpartition(": ")
    short = name if len(name) <= 40 else "..." + name[-37:]
    return "\n".join(textwrap.wrap(f"{short}: {rest}", width=width))

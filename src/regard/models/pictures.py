"""Pictures of what heads do: layers down, heads across, one colour scale with numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.models.patching import Effects


def sketch_effects(result: Effects) -> Any:
    """A heat map: blue below zero, orange above, white nothing; the two differ for every kind of colour sight."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Pictures need matplotlib: pip install 'regard[plots]'.") from None
    rows, columns = result.effects.shape
    figure = Figure(figsize=(max(4.2, 1.8 + 0.42 * columns), max(2.4, 1.3 + 0.36 * rows)), layout="constrained")
    axes = figure.subplots()
    limit = float(np.nanmax(np.abs(result.effects))) or 1.0
    drawn = axes.imshow(result.effects, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto")
    axes.set(xlabel="head", ylabel="layer", xticks=range(columns), yticks=range(rows))
    axes.set_yticklabels([str(layer) for layer in result.layers])
    axes.set_title(f"{result.name}: {result.what}", fontsize=10)
    figure.colorbar(drawn, ax=axes, label="effect")
    return figure


def draw_effects(result: Effects, file: str) -> None:
    """Write the heat map to a file; its ending says the format."""
    try:
        sketch_effects(result).savefig(file, dpi=150)
    except ValueError as error:
        raise InputError(f"Cannot draw {file!r}: {error}; choose a name ending in .svg, .png or .pdf.") from None

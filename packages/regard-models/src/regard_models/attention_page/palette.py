"""Colours of weights: one ramp for light pages and one for dark ones, from nothing to the largest.

Lightness runs one way along each ramp, so that it is read right by every colour sight and in a grey print; on a light
page much is dark, on a dark page much is light, and nothing is the colour of the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from matplotlib.colors import LinearSegmentedColormap

LIGHT = ("#ffffff", "#dbe9f3", "#a3cbe3", "#5aa3cd", "#1f75af", "#0b4a85", "#06244d")
DARK = ("#14181b", "#16304a", "#1d5280", "#2f7ea8", "#67adb0", "#bdd79b", "#fdf3bf")
# Heads side by side: Okabe and Ito's first, then lighter and darker ones; a head is also told by its number
HEADS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, "#8c564b", "#7f7f7f",
         "#8fc3e3", "#f0a878", "#7fd0b6", "#8f3f74", "#9a6a00", "#1f4e79", "#c9a79f", "#4d4d4d")  # fmt: skip


def colormap() -> LinearSegmentedColormap:
    """The light ramp for matplotlib: figures are for paper."""
    from matplotlib.colors import LinearSegmentedColormap as Made

    return Made.from_list("regard", list(LIGHT))

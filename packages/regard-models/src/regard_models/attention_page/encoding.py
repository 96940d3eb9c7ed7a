"""Weights in eight bits: square roots, each row measured by its largest weight.

    code = round(255 sqrt(w / m)),   m = the largest weight of the row;      w' = m (code / 255)^2

With t = sqrt(w / m) and c = code / 255, |c - t| <= 1/510 and c + t <= 2, so |w' - w| = m |c - t| (c + t) <= m / 255: no
weight is off by more than 1/255 of the largest in its row, and the smaller it is, the less. A linear code would send
everything below m / 510 to zero, which is a tenth of the mass of some rows; the square root keeps what is above
m / 260,100. The errors that a page states are not this bound but measured, entry by entry, on what was stored.

A stream holds the rows' largest weights (float32, little-endian), then the codes row by row, deflated without a header:
what ``DecompressionStream("deflate-raw")`` of a browser opens, without a request.

Colours of weights: one ramp for light pages and one for dark ones, from nothing to the largest.

Lightness runs one way along each ramp, so that it is read right by every colour sight and in a grey print; on a light
page much is dark, on a dark page much is light, and nothing is the colour of the page.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.array_types import Single
from regard.pictures import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from matplotlib.colors import LinearSegmentedColormap

Codes = npt.NDArray[np.uint8]
_LEVELS = 255
_EFFORT = 6  # of zlib: 9 takes thrice the time for 1 % less


@dataclass(frozen=True, kw_only=True)
class Errors:
    """How far stored weights are from the given ones, at worst: one weight, and all of a row against its sum."""

    entry: float = 0.0
    row: float = 0.0

    def maximum(self, other: Errors) -> Errors:
        """The larger of each."""
        return Errors(entry=max(self.entry, other.entry), row=max(self.row, other.row))


def encode(weights: Single) -> tuple[Single, Codes]:
    """The largest weight of every row, and the codes.

    >>> largest, codes = encode(np.array([[0.64, 0.16, 0.0]], np.float32))
    >>> codes.tolist()
    [[255, 128, 0]]
    """
    largest = weights.max(axis=1, initial=0.0).astype(np.float32)
    scale = np.where(largest > 0, largest, 1)[:, None]
    return largest, np.rint(_LEVELS * np.sqrt(weights / scale)).astype(np.uint8)


def decode(largest: Single, codes: Codes) -> Single:
    """The weights that are stored, as the page has them.

    >>> [round(float(w), 2) for w in decode(np.array([1], np.float32), np.array([[255, 51, 0]], np.uint8))[0]]
    [1.0, 0.04, 0.0]
    """
    return (largest[:, None] * np.square(codes.astype(np.float32) / _LEVELS)).astype(np.float32)


def measure_errors(weights: Single, stored: Single) -> Errors:
    """The worst entry and the worst row."""
    off = np.abs(stored.astype(np.float64) - weights)
    mass = weights.sum(axis=1, dtype=np.float64)
    rows = off.sum(axis=1)[mass > 0] / mass[mass > 0]
    return Errors(entry=float(off.max(initial=0.0)), row=float(rows.max(initial=0.0)))


def max_pool(weights: Single, size: int) -> Single:
    """The largest weight of every block, in at most ``size`` x ``size`` blocks: nothing bright is lost.

    >>> max_pool(np.arange(12, dtype=np.float32).reshape(3, 4), 2).tolist()
    [[1.0, 3.0], [9.0, 11.0]]
    """
    for axis in (0, 1):
        count = weights.shape[axis]
        if count > size:
            starts = np.arange(size) * count // size
            weights = np.maximum.reduceat(weights, starts, axis=axis)
    return weights


def encode_whole(weights: Single, peak: float) -> Codes:
    """Codes of a small picture, all measured by one number."""
    codes: Codes = np.rint(_LEVELS * np.sqrt(np.clip(weights / (peak or 1.0), 0, 1))).astype(np.uint8)
    return codes


def pack(*arrays: npt.NDArray[np.generic]) -> str:
    """Arrays one after another, deflated, as letters that may stand in a page."""
    deflater = zlib.compressobj(_EFFORT, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = [deflater.compress(np.ascontiguousarray(array).tobytes()) for array in arrays]
    return base64.b64encode(b"".join([*parts, deflater.flush()])).decode("ascii")


def unpack(letters: str) -> bytes:
    """The bytes of a stream."""
    return zlib.decompress(base64.b64decode(letters), -zlib.MAX_WBITS)


LIGHT = ("#ffffff", "#dbe9f3", "#a3cbe3", "#5aa3cd", "#1f75af", "#0b4a85", "#06244d")
DARK = ("#14181b", "#16304a", "#1d5280", "#2f7ea8", "#67adb0", "#bdd79b", "#fdf3bf")
# Heads side by side: Okabe and Ito's first, then lighter and darker ones; a head is also told by its number
HEADS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, "#8c564b", "#7f7f7f",
         "#8fc3e3", "#f0a878", "#7fd0b6", "#8f3f74", "#9a6a00", "#1f4e79", "#c9a79f", "#4d4d4d")  # fmt: skip


def colormap() -> LinearSegmentedColormap:
    """The light ramp for matplotlib: figures are for paper."""
    from matplotlib.colors import LinearSegmentedColormap as Made

    return Made.from_list("regard", list(LIGHT))

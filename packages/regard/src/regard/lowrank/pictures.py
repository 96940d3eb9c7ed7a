"""The spectrum with the coursework's bound over it, and the energy it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from regard.lowrank.singular import Spectrum
from regard.pictures import BLUE, GREEN, GREY, VERMILION, open_box
from regard.pictures import figure as new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def sketch(spectrum: Spectrum, *, rank: int | None = None) -> Figure:
    """The picture as a matplotlib figure: the singular values under their bound, and the energy kept."""
    figure = new_figure(9.6, 3.8)
    left, right = figure.subplots(1, 2)
    _values(left, spectrum, rank)
    _energy(right, spectrum, rank)
    figure.suptitle(f"{spectrum.name}: {spectrum.shape[0]} x {spectrum.shape[1]}", fontsize=11)
    return figure


def _values(axes: Axes, spectrum: Spectrum, rank: int | None) -> None:
    k = np.arange(1, len(spectrum.singular_values) + 1)
    positive = spectrum.singular_values > spectrum.upper[0] * 1e-16
    dots = "o-" if len(k) <= 40 else "-"
    axes.plot(k, spectrum.bound, "--", color=VERMILION, label=r"coursework: $||A||_F/\sqrt{k}$")
    axes.plot(
        k[positive],
        spectrum.singular_values[positive],
        dots,
        ms=3,
        color=BLUE,
        label=r"$\sigma_k$, error of rank $k-1$",
    )
    if positive.any():
        axes.set_yscale("log")
    if len(k) > 40:
        axes.set_xscale("log")
    if rank is not None:
        axes.axvline(rank, color=GREY, lw=0.8, ls=":")
    axes.set_xlabel("k")
    axes.set_ylabel("singular value")
    axes.legend(frameon=False, fontsize=9, loc="best")
    open_box(axes)


def _energy(axes: Axes, spectrum: Spectrum, rank: int | None) -> None:
    k = np.arange(0, len(spectrum.energy) + 1)
    axes.plot(k, 100 * np.concatenate([[0.0], spectrum.energy]), color=GREEN)
    axes.plot(k, 100 * k / k[-1], color=GREY, lw=0.8, ls="--", label="all values equal")
    if rank is not None:
        share = 100 * float(spectrum.energy[rank - 1])
        axes.axvline(rank, color=GREY, lw=0.8, ls=":")
        axes.plot([rank], [share], "o", ms=5, color=GREEN)
        white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        text = f"rank {rank}: {share:.1f} %"
        where = (10, -4) if rank < k[-1] / 2 else (-10, -16)
        side = "left" if rank < k[-1] / 2 else "right"
        axes.annotate(text, (rank, share), xytext=where, textcoords="offset points", fontsize=9, ha=side, bbox=white)
    axes.set_xlabel("rank")
    axes.set_ylabel(r"energy kept, % of $||A||_F^2$")
    axes.set_ylim(0, 103)
    axes.set_xlim(0, k[-1])
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    open_box(axes)

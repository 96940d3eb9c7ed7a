"""The picture of a broken symmetry: what each row does when its neighbours change places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.pictures import BLUE, VERMILION
from regard.pictures import figure as new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from regard.symmetry.order_blindness import Symmetry


def sketch(result: Symmetry, gaps: dict[str, NDArray[np.float64]]) -> Figure:
    """Differences row by row, for the permutation and the swap that show most, with the tolerance."""
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    lowest = result.tolerance / 1e3
    for (label, values), colour, marker in zip(gaps.items(), (BLUE, VERMILION), ("o", "^"), strict=False):
        axes.plot(np.maximum(values, lowest), marker, color=colour, ms=4, alpha=0.8, label=label)
    axes.axhline(result.tolerance, color="black", ls="--", lw=1, label="what rounding alone can make")
    axes.set(yscale="log", xlabel="row of the output (from 0)", ylabel="largest difference in the row")
    verdict = "not refuted" if result.order_blind else "broken"
    law = "map(PX) = P map(X)" if result.kind == "equivariant" else "map(PX) = map(X)"
    axes.set_title(f"{result.name}: {law} {verdict}")
    figure.legend(fontsize=8, loc="outside lower center", ncols=3)
    return figure

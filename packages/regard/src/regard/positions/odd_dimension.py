"""Sinusoidal positions of an odd dimension: the last sine has no cosine beside it.

Then the distance of two positions depends on both and not on their offset alone, so the search over offsets does not
apply: rows are computed and all pairs compared. That they are distinct in real arithmetic is a theorem at any length:
for 3 numbers and more the first pair shows it; the sine alone would need t - t' = 2 pi m or t + t' = (2m + 1) pi.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from regard.array_types import Float
from regard.errors import CouldNotFindOut
from regard.positions.findings import Finding, can_hold
from regard.positions.number_formats import Table
from regard.positions.rows import FLAT, first_equal_rows, nearest_rows
from regard.progress import Progress

_TREE = 1 << 17  # numbers in a table whose nearest rows a k-d tree finds


def odd_rows(table: Table, length: int) -> Float:
    """The first ``length`` rows (length x dim), the cosine of the last pair left out.

    >>> odd_rows(Table(3, "float64"), 2).round(4).tolist()
    [[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]]
    """
    pairs = [table.pair(i, np.arange(length, dtype=np.uint64))[:2] for i in range((table.dim + 1) // 2)]
    return np.stack([column for pair in pairs for column in pair][: table.dim], axis=1) + 0.0  # -0.0 is 0.0


def finding_in_odd_dimension(table: Table, length: int, progress: Progress | None) -> Finding:
    """What is known of the positions, in real arithmetic or in a format."""
    real = table.format == "real"
    held = min(length, _longest(table.dim))
    if held < length and not real:
        raise CouldNotFindOut(
            f"In an odd dimension every row is compared, up to {held:,} of {table.dim} numbers, and {length:,} were "
            "asked for; choose a smaller length or an even dimension."
        )
    rows = odd_rows(replace(table, format="float64") if real else table, held)
    equal = None if real else first_equal_rows(rows)
    if equal is not None:
        return Finding(equal=equal, nearest=equal, distance=(0.0, 0.0), searched=held, reasons=(_COMPARED,))
    if length < 2:
        return Finding(searched=length, reasons=("There is only one position.",))
    nearest, distance = nearest_rows(rows, progress=progress)
    if not real:
        return Finding(nearest=nearest, distance=(distance, distance), searched=held, reasons=(_COMPARED,))
    # Each number is rounded by at most 2^-54 (2^-53 is granted), a difference of two by twice that, dim of them.
    slack = math.sqrt(table.dim) * 2.0**-52
    around = (max(0.0, distance * (1 - 1e-13) - slack), distance * (1 + 1e-13) + slack)
    reasons = [_THEOREM[min(table.dim, 3)], f"The nearest is over all pairs of the first {held:,}, rounding included."]
    if held < length:
        reasons.append("Beyond, nothing nearer is ruled out: in an odd dimension every pair is compared.")
    return Finding(nearest=nearest, distance=around, searched=held, reasons=tuple(reasons))


_COMPARED = "All rows were compared, bit for bit."
_THEOREM = {
    1: "Proof: equal sines mean t - t' = 2 pi m or t + t' = (2m + 1) pi, and pi would be rational.",
    3: "Proof: an equal first pair means a difference of 2 pi m, m > 0, and pi would be rational.",
}


def _longest(dim: int) -> int:
    """How many rows can all be compared."""
    if dim <= FLAT:
        return _TREE // dim
    # bisection: can_hold is true up to some length and false from there on
    low, high = 2, 1 << 24
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if can_hold(middle, dim) else (low, middle)
    return low

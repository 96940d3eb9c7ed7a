"""What is found out about the positions of one encoding, in real arithmetic and in a number format."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import CouldNotFindOut
from regard.positions.nearest import Nearest, offsets_within
from regard.positions.number_formats import Table, unit_roundoff
from regard.positions.rows import FLAT, LIMIT, Pair, first_collision, first_equal_rows, nearest_rows
from regard.progress import Progress
from regard.written_numbers import at_least, at_most

_HELD = 1 << 24  # numbers in a table that is held whole
_ALL_PAIRS = 4 * 10**10  # multiplications for all pairs of rows: some ten seconds


@dataclass(frozen=True, kw_only=True)
class PairSearch:
    """Equal rows or not, the nearest two, and why; ``distance`` is an interval."""

    equal: Pair | None = None
    nearest: Pair | None = None
    distance: tuple[float, float] | None = None
    searched: int
    in_doubt: int = 0
    reasons: tuple[str, ...]


def search_in_real(length: int, near: Nearest | None) -> PairSearch:
    """Real arithmetic: distinct by theorem, the nearest by proof."""
    if near is None:
        return PairSearch(searched=length, reasons=("There is only one position.",))
    reasons = [
        "Proof: an equal first pair means a difference of 2 pi m, m > 0, and pi would be rational.",
        f"The nearest is proved by {near.method} over all offsets to {near.searched:,}.",
    ]
    if near.searched < length - 1:
        reasons.append(
            "Beyond, nothing nearer is ruled out: the search spent its effort; in Python, a larger effort goes on."
        )
    return PairSearch(
        nearest=(0, near.offset),
        distance=(near.low, near.high),
        searched=near.searched + 1,
        reasons=tuple(reasons),
    )


def search_in_format(table: Table, length: int, near: Nearest | None, progress: Progress | None) -> PairSearch:
    """A number format: no two equal by spacing, or else every row compared."""
    # Rounded numbers are within u/2, so equal rows are within u in each of dim numbers, and any distance is
    # within sqrt(dim) u of the real one.
    spread = math.sqrt(table.dim) * unit_roundoff(table.format) * (1 + 1e-9)
    if near is not None and near.searched == length - 1 and near.low > spread:
        return _search_by_spacing(table, length, near, spread, progress)
    # comparing rows goes no farther than the proof has come: nothing is gained by it
    if near is not None and near.low > spread and LIMIT <= near.searched < length - 1:
        raise CouldNotFindOut(
            f"No two of the first {near.searched + 1:,} positions are equal, by their spacing in real arithmetic, "
            "and the search spent its effort there; choose a smaller length, or in Python a larger effort."
        )
    collision = _search(table, length, progress)
    if collision.equal is not None or length < 2 or not can_hold(length, table.dim):
        return collision
    pair, distance = nearest_rows(table.rows(np.arange(length)), progress=progress)
    return replace(collision, nearest=pair, distance=(distance, distance))


def can_hold(length: int, dim: int) -> bool:
    """Whether all pairs of rows can be compared."""
    return length * dim <= _HELD and length * length * dim <= _ALL_PAIRS


def _search(table: Table, length: int, progress: Progress | None) -> PairSearch:
    if table.format == "float64" and table.through == "real":
        raise CouldNotFindOut(
            f"Among {length:,} positions some are too near, or unknown to be far enough, for float64 to be sure, "
            "and a correctly rounded float64 table is not searched; choose a smaller length, or through native."
        )
    collision = first_collision(table, length, progress=progress)
    if collision.pair is None and collision.searched < length:
        raise CouldNotFindOut(
            f"No two of the first {collision.searched:,} positions are equal, and the search ends there; "
            f"choose a length of at most {LIMIT:,}."
        )
    reason = f"All {collision.searched:,} rows were compared, bit for bit."
    if collision.pair is not None:
        reason = f"It is the first such pair: the {collision.pair[1]} positions before the second are all different."
    return PairSearch(
        equal=collision.pair,
        nearest=collision.pair,
        distance=None if collision.pair is None else (0.0, 0.0),
        searched=length,
        in_doubt=collision.in_doubt,
        reasons=(reason,),
    )


def _search_by_spacing(
    table: Table, length: int, near: Nearest, spread: float, progress: Progress | None
) -> PairSearch:
    """Distinct by spacing; the nearest pair has an offset whose real distance is within 2 ``spread`` of the least."""
    reason = (
        f"Proof: equal rows would be within sqrt(dim) u = {at_most(spread, 3)} of each other in real arithmetic, where "
        f"the nearest two, {near.offset} apart, are at {at_least(near.low, 6)} or more (by {near.method})."
    )
    most = int(1e8 / (length * table.dim))  # some five seconds
    offsets = offsets_within(near.high + 2 * spread, table.dim, length - 1, base=table.base, most=most)
    if len(offsets) > most or table.format == "float64":
        around = (near.low - spread, near.high + spread)
        return PairSearch(
            distance=around, searched=length, reasons=(reason, _unnamed_reason(table, offsets, most, spread))
        )
    pair, distance = _nearest_at_offsets(table, length, offsets, progress)
    over = "The nearest is over all pairs: other offsets are too far apart in real arithmetic."
    return PairSearch(nearest=pair, distance=(distance, distance), searched=length, reasons=(reason, over))


def _unnamed_reason(table: Table, offsets: list[int], most: int, spread: float) -> str:
    """Why the nearest pair has no name: telling equally spaced pairs apart takes every row, correctly rounded."""
    if len(offsets) == 1:
        them = f"it is one of those {offsets[0]} apart, which are all equally far in real arithmetic"
    else:
        them = f"{f'more than {most}' if len(offsets) > most else len(offsets)} offsets are as near in real arithmetic"
    slow = ", too slow to round correctly for all" if table.format == "float64" else ", too many to compare"
    return f"Which pair is nearest is not named: {them}, so only roundings (at most {at_most(spread, 2)}) decide{slow}."


def _nearest_at_offsets(table: Table, length: int, offsets: list[int], progress: Progress | None) -> tuple[Pair, float]:
    best, pair, step = math.inf, (0, 1), max(1, (1 << 20) // table.dim)
    for done, t in enumerate(offsets):
        for at in range(0, length - t, step):
            s = np.arange(at, min(at + step, length - t))
            squares = (_row_differences(table, s, t) ** 2).sum(axis=1)
            i = int(squares.argmin())
            if squares[i] < best:
                best, pair = float(squares[i]), (int(s[i]), int(s[i]) + t)
            if progress is not None:
                progress(done * length + at, len(offsets) * length)
    return pair, math.sqrt(best)


def _row_differences(table: Table, s: npt.NDArray[np.int64], t: int) -> Float:
    if t >= len(s):
        return table.rows(s + t) - table.rows(s)
    # the two runs of rows overlap: computed once
    rows = table.rows(np.arange(s[0], s[-1] + t + 1))
    return rows[t:] - rows[:-t]


_TREE = 1 << 17  # numbers in a table whose nearest rows a k-d tree finds


_COMPARED = "All rows were compared, bit for bit."
_THEOREM = {
    1: "Proof: equal sines mean t - t' = 2 pi m or t + t' = (2m + 1) pi, and pi would be rational.",
    3: "Proof: an equal first pair means a difference of 2 pi m, m > 0, and pi would be rational.",
}


# An odd dimension: the last sine has no cosine beside it -------------------------------------------------------------
#
# Then the distance of two positions depends on both and not on their offset alone, so the search over offsets does not
# apply: rows are computed and all pairs compared. That they are distinct in real arithmetic is a theorem at any length:
# for 3 numbers and more the first pair shows it; the sine alone would need t - t' = 2 pi m or t + t' = (2m + 1) pi.


def odd_rows(table: Table, length: int) -> Float:
    """The first ``length`` rows (length x dim), the cosine of the last pair left out.

    >>> odd_rows(Table(3, "float64"), 2).round(4).tolist()
    [[0.0, 1.0, 0.0], [0.8415, 0.5403, 0.0022]]
    """
    pairs = [table.pair(i, np.arange(length, dtype=np.uint64))[:2] for i in range((table.dim + 1) // 2)]
    return np.stack([column for pair in pairs for column in pair][: table.dim], axis=1) + 0.0  # -0.0 is 0.0


def search_in_odd_dimension(table: Table, length: int, progress: Progress | None) -> PairSearch:
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
        return PairSearch(equal=equal, nearest=equal, distance=(0.0, 0.0), searched=held, reasons=(_COMPARED,))
    if length < 2:
        return PairSearch(searched=length, reasons=("There is only one position.",))
    nearest, distance = nearest_rows(rows, progress=progress)
    if not real:
        return PairSearch(nearest=nearest, distance=(distance, distance), searched=held, reasons=(_COMPARED,))
    # Each number is rounded by at most 2^-54 (2^-53 is granted), a difference of two by twice that, dim of them.
    slack = math.sqrt(table.dim) * 2.0**-52
    around = (max(0.0, distance * (1 - 1e-13) - slack), distance * (1 + 1e-13) + slack)
    reasons = [_THEOREM[min(table.dim, 3)], f"The nearest is over all pairs of the first {held:,}, rounding included."]
    if held < length:
        reasons.append("Beyond, nothing nearer is ruled out: in an odd dimension every pair is compared.")
    return PairSearch(nearest=nearest, distance=around, searched=held, reasons=tuple(reasons))


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

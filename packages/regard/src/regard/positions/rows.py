"""Equal and nearest rows of any table of numbers: learned positions, or an encoding small enough to hold.

On that stands what is found out about the positions of one encoding, in real arithmetic and in a number format.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy

from regard.array_types import Float, Whole
from regard.errors import CouldNotFindOut
from regard.positions.nearest import Nearest, offsets_within
from regard.positions.number_formats import Phases, Table, unit_roundoff
from regard.progress import Progress
from regard.written_numbers import at_least, at_most

Pair = tuple[int, int]
# rows against all later ones: long enough for a fast product, short enough to keep the table of squares small
_BLOCK = 256
MANY, FLAT = 4096, 16  # more rows than this in at most so many dimensions: a k-d tree is far quicker


def first_equal_rows(table: Float) -> Pair | None:
    """The pair (s, t), s < t, of rows that are bit for bit equal with the smallest t.

    >>> first_equal_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    (0, 2)
    """
    return _first_repeat(enumerate(np.ascontiguousarray(table)))


def _first_repeat(rows: Iterable[tuple[int, Float]]) -> Pair | None:
    seen: dict[bytes, int] = {}
    for t, row in rows:
        earlier = seen.setdefault(row.tobytes(), t)
        if earlier != t:
            return earlier, t
    return None


def nearest_rows(table: Float, *, progress: Progress | None = None) -> tuple[Pair, float]:
    """The two nearest rows and their distance, all pairs considered.

    ||a - b||^2 = ||a||^2 + ||b||^2 - 2 a.b by matrix products, whose rounding error is at most
    (d + 4) u (||a|| + ||b||)^2; every pair that this leaves open is computed again from the differences, which
    is good to (d + 3) u relatively. A tie within that goes to the first pair.

    >>> nearest_rows(np.array([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]))
    ((1, 2), 1.0)
    """
    n, d = table.shape
    if n > MANY and d <= FLAT:
        return _nearest_by_tree(table)
    best, pair = np.inf, (0, 1)
    for s, t, bounds in _open_pairs(table, progress):
        for at in range(0, len(s), 4096):
            part = slice(at, at + 4096)
            if bounds[part].min() > best:
                continue
            squares = ((table[s[part]] - table[t[part]]) ** 2).sum(axis=1)
            i = int(squares.argmin())
            if squares[i] < best:
                best, pair = float(squares[i]), (int(s[part][i]), int(t[part][i]))
    return pair, float(np.sqrt(best))


def _nearest_by_tree(table: Float) -> tuple[Pair, float]:
    """The same by a k-d tree: its least distance, then all pairs about that far apart, from their differences."""
    tree = scipy.spatial.cKDTree(table)
    least = float(tree.query(table, k=2)[0][:, 1].min())
    pairs = tree.query_pairs(least * (1 + 1e-9), output_type="ndarray")
    squares = ((table[pairs[:, 0]] - table[pairs[:, 1]]) ** 2).sum(axis=1)
    # the last key counts first: the distance, then the smaller row, then the larger
    first = np.lexsort((pairs.max(axis=1), pairs.min(axis=1), squares))[0]
    s, t = sorted(int(i) for i in pairs[first])
    return (s, t), float(np.sqrt(squares[first]))


def _open_pairs(table: Float, progress: Progress | None) -> Iterator[tuple[Whole, Whole, Float]]:
    """Pairs s < t block by block, with lower bounds of their squared distances; hopeless ones left out."""
    n, d = table.shape
    centred = table - table.mean(axis=0)  # smaller norms, smaller rounding error
    norms = (centred**2).sum(axis=1)
    # 4 max ||a||^2 >= (||a|| + ||b||)^2, with twice the unit roundoff; 1e-300 for rows that are all equal
    slack = (d + 8) * 2.0**-52 * 4 * norms.max() + 1e-300
    smallest = np.inf
    for at in range(0, n - 1, _BLOCK):
        rows = slice(at, min(at + _BLOCK, n))
        squares = norms[rows, None] + norms[None, at:] - 2 * centred[rows] @ centred[at:].T
        squares[np.tril_indices(squares.shape[0], 0, squares.shape[1])] = np.inf
        smallest = min(smallest, float(squares.min()) + slack)
        # the true least square is at most ``smallest``, so a pair whose lower end is above it cannot be the nearest
        s, t = np.nonzero(squares - slack <= smallest)
        yield s.astype(np.int64) + at, t.astype(np.int64) + at, squares[s, t] - slack
        if progress is not None:
            progress(min(at + _BLOCK, n), n)


LIMIT = (1 << 24) + 2  # as far as a search goes: float32 cannot tell 2^24 from 2^24 + 1
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: odd, so multiplying by it loses no bit


@dataclass(frozen=True, kw_only=True)
class Collision:
    """The pair (s, t), s < t, of equal rows with the smallest t (that makes it unique), or None."""

    pair: tuple[int, int] | None
    searched: int  # positions 0 .. searched - 1
    in_doubt: int  # values that only rigorous balls could round


def first_collision(table: Table, length: int, *, progress: Progress | None = None) -> Collision:
    """The first equal rows among the first ``length``, at most 2^24 + 2 of them looked at.

    Rows with equal first pairs stay in, are compared in the next pair, and so on. Prefixes grow sixteenfold,
    since a pair found in one is the first of all.

    >>> first_collision(Table(2, "bfloat16", "native", "reference"), 1000).pair
    (256, 257)
    """
    # most formats collide early: a short prefix first costs next to nothing
    length, size = min(length, LIMIT), min(length, 1 << 12)
    while True:
        left, in_doubt = _equal_so_far(table, size, progress)
        pair = _first_pair(table, left) if len(left) else None
        if pair is not None or size == length:
            return Collision(pair=pair, searched=size, in_doubt=in_doubt)
        size = min(length, size << 4)


def _equal_so_far(table: Table, size: int, progress: Progress | None) -> tuple[Phases, int]:
    """Positions whose whole row has the fingerprint of another's: the equal rows, and rarely a stray one."""
    left, prints, hard = np.arange(size, dtype=np.uint64), np.zeros(size, dtype=np.uint64), 0
    for i in range(table.dim // 2):
        hard += _add_pair(table, i, left, prints, progress)
        keep = _repeated_indices(prints)
        left, prints = left[keep], prints[keep]
        if not len(left):
            break
    return left, hard


def _add_pair(table: Table, i: int, left: Phases, prints: Phases, progress: Progress | None) -> int:
    hard, step = 0, 1 << 20
    for at in range(0, len(left), step):
        sines, cosines, more = table.pair(i, left[at : at + step])
        part = prints[at : at + step]
        for values in (sines, cosines):
            _mix(part, values)
        hard += more
        if progress is not None:
            progress(at, len(left))  # of this pair; seldom are more than a few needed
    return hard


def _mix(prints: Phases, values: Float) -> None:
    # each step can be undone, so two different numbers after equal prefixes never get the same fingerprint here
    prints ^= values.view(np.uint64)
    prints *= _SPREAD
    prints ^= prints >> np.uint64(29)
    prints *= _SPREAD
    prints ^= prints >> np.uint64(32)


def _repeated_indices(prints: Phases) -> Phases:
    """Ascending indices of fingerprints that occur twice.

    Sorting numbers is seven times faster than sorting indices, so the index travels in the low 25 bits; the
    39 bits left of the fingerprint let a few strays through, never lose an equal pair.
    """
    low = np.uint64((1 << 25) - 1)
    # 25 bits hold every index below LIMIT
    keys = (prints & ~low) | np.arange(len(prints), dtype=np.uint64)
    keys.sort()
    same = (keys[1:] ^ keys[:-1]) <= low
    twice = np.zeros(len(keys), dtype=bool)
    twice[1:] |= same
    twice[:-1] |= same
    indices: Phases = np.sort(keys[twice] & low)
    return indices


def _first_pair(table: Table, candidates: Phases) -> tuple[int, int] | None:
    """Candidates in order, whole rows compared as they are: no fingerprint decides."""
    parts = (candidates[at : at + 1024] for at in range(0, len(candidates), 1024))
    return _first_repeat(row for part in parts for row in zip(part.tolist(), table.rows(part), strict=True))


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

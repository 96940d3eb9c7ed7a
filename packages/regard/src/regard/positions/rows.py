"""Equal and nearest rows of any table of numbers: learned positions, or an encoding small enough to hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy

from regard.array_types import Float, Whole
from regard.positions.number_formats import Phases, Table
from regard.progress import Progress

Pair = tuple[int, int]
# rows against all later ones: long enough for a fast product, short enough to keep the table of squares small
_BLOCK = 256
MANY, FLAT = 4096, 16  # more rows than this in at most so many dimensions: a k-d tree is far quicker


def first_equal_rows(table: Float) -> Pair | None:
    """The pair (s, t), s < t, of rows that are bit for bit equal with the smallest t.

    >>> first_equal_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    (0, 2)
    """
    seen: dict[bytes, int] = {}
    for t, row in enumerate(np.ascontiguousarray(table)):
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
    seen: dict[bytes, int] = {}
    for at in range(0, len(candidates), 1024):
        part = candidates[at : at + 1024]
        for t, row in zip(part.tolist(), table.rows(part), strict=True):
            earlier = seen.setdefault(row.tobytes(), t)
            if earlier != t:
                return earlier, t
    return None

"""The first two rows of a table that are bit for bit the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.array_types import Float
from regard.positions.number_formats import Table
from regard.positions.turns import Phases
from regard.progress import Progress

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

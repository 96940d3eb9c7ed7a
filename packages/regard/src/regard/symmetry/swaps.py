"""Which swap of two rows shows best that a map is not order-blind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from regard.progress import Progress

Permutation = npt.NDArray[np.int64]
Excess = Callable[[Permutation], npt.NDArray[np.float64]]  # per row: gap over tolerance
# 45 rows and fewer
_ALL = 1000  # so few swaps are tried one by one
_ROUNDS, _TOP, _PARTNERS = 64, 8, 128


@dataclass(frozen=True, kw_only=True)
class Swap:
    """Two rows, how far their swap exceeds the tolerance (in tolerances), and whether all swaps were tried."""

    rows: tuple[int, int]
    excess: float
    of_all: bool


def best_swap(excess: Excess, length: int, *, progress: Progress | None = None) -> Swap:
    """The swap with the largest excess: of all of them if few, else the best that about 500 calls find.

    In a tournament every two rows meet once in n - 1 rounds of disjoint swaps. Up to 64 rounds are played whole;
    the 8 that show most are halved, keeping the half that shows more, until one swap is left. From the
    winner the search goes on twice, keeping one row and trying up to 128 others as its partner.
    """
    if length * (length - 1) // 2 <= _ALL:
        return _best(excess, list(combinations(range(length), 2)), length, of_all=True)
    played = _tournament(excess, length, progress)
    halved = [_halve(excess, pairs, length) for _, pairs in played[:_TOP]]
    best = _best(excess, halved, length, of_all=False)
    for step in range(2):
        i = best.rows[step]
        others = [j for j in range(0, length, -(-length // _PARTNERS)) if j != i]
        walk = _best(excess, [(min(i, j), max(i, j)) for j in others], length, of_all=False)
        best = max(best, walk, key=lambda swap: swap.excess)
        if progress is not None:
            progress(3 + step, 4)
    return best


def _tournament(excess: Excess, length: int, progress: Progress | None) -> list[tuple[float, list[tuple[int, int]]]]:
    """Rounds, spread evenly, those with the largest excess first."""
    every, out = list(rounds(length)), []
    chosen = np.unique(np.linspace(0, len(every) - 1, _ROUNDS).astype(int)).tolist()
    for done, r in enumerate(chosen):
        out.append((float(excess(involution(every[r], length)).max()), every[r]))
        if progress is not None:
            progress(done, 2 * len(chosen))
    return sorted(out, reverse=True)


def _halve(excess: Excess, pairs: list[tuple[int, int]], length: int) -> tuple[int, int]:
    while len(pairs) > 1:
        halves = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
        pairs = max(halves, key=lambda half: float(excess(involution(half, length)).max()))
    return pairs[0]


def rounds(length: int) -> Iterator[list[tuple[int, int]]]:
    """A tournament: rounds of disjoint pairs in which every two rows meet exactly once.

    >>> list(rounds(4))
    [[(0, 3), (1, 2)], [(1, 3), (0, 2)], [(2, 3), (0, 1)]]
    """
    last = length - 1 + length % 2  # with an odd length, whoever meets the last one rests
    for r in range(last):
        meets = [(r, last)] + [((r + k) % last, (r - k) % last) for k in range(1, (last + 1) // 2)]
        yield [(min(pair), max(pair)) for pair in meets if max(pair) < length]


def involution(pairs: list[tuple[int, int]], length: int) -> Permutation:
    """The permutation that swaps each pair and leaves the rest."""
    out = np.arange(length)
    for i, j in pairs:
        out[i], out[j] = j, i
    return out


def _best(excess: Excess, pairs: list[tuple[int, int]], length: int, *, of_all: bool) -> Swap:
    tried = [(float(excess(involution([pair], length)).max()), pair) for pair in pairs]
    value, rows = max(tried)
    return Swap(rows=rows, excess=value, of_all=of_all)

"""The two nearest positions in real arithmetic, proved.

D(t)^2 = ||Phi_s - Phi_{s+t}||^2 = sum_i 4 sin^2(t w_i / 2) depends on the offset t alone. Two proofs that a
given offset has the smallest D of all up to a length:

* *continued fraction*, at any length: where base^(2/dim) is a whole number r (dim 2, 4 and 8 for base 10000),
  all frequencies are whole multiples of the slowest, 1/M with M = r^(dim/2-1). With x = t/M mod 2 pi, on
  |x| <= pi/M every term grows with |x|, and beyond it the slowest term alone is at least 4 sin^2(pi/2M).
  So once D falls below that, the smallest D has the smallest |x|: a convergent of 2 pi M.
* *search*: all offsets, in blocks; a lower bound of D^2 from whole-number phases (:mod:`.turns`) rules out
  nearly all of them, the first pair's near misses of a full turn first; what is left is evaluated with
  rigorous balls.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import flint
import numpy as np

from regard.array_types import Float
from regard.positions.number_formats import SLACK, Phases, Turns, exact_frequency, turns
from regard.progress import Progress
from regard.rigor import check_arithmetic
from regard.rigor.balls import above, below

_CHUNK = 1 << 13  # fits the cache: four times faster than long arrays

# 4 sin^2(pi f) as a polynomial in f^2; cut after a negative term of an alternating series: a lower bound.
_SERIES = [(-1) ** (k + 1) * 2 * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(1, 9)]


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The smallest D(t) for 1 <= t <= searched, with D between ``low`` and ``high``."""

    offset: int
    low: float
    high: float
    searched: int
    method: str
    records: tuple[tuple[int, float], ...]  # offsets nearer than all before them, with their distances


def distance(offset: int, dim: int, *, base: float = 10000) -> tuple[float, float]:
    """D(offset) between two floats, whatever the size of the offset.

    >>> low, high = distance(710, 2)
    >>> low < high < low * (1 + 1e-15), round(high, 12)
    (True, 6.0288707e-05)
    """
    with flint.ctx.workprec(128 + offset.bit_length()):
        return enclosing_floats(squared_distance(offset, dim, base).sqrt())


def nearest_offset(
    dim: int, last: int, *, base: float = 10000, effort: int = 10**9, progress: Progress | None = None
) -> Nearest:
    """The offset 1 <= t <= last with the smallest D(t).

    The search stops after ``effort`` offsets that the first pair does not rule out (or 2^10 blocks per that
    many); ``searched`` says how far it came.
    """
    check_arithmetic()
    return _nearest_by_continued_fraction(dim, last, base) or _nearest_by_search(dim, last, base, effort, progress)


def offsets_within(limit: float, dim: int, last: int, *, base: float = 10000, most: int = 1000) -> list[int]:
    """All offsets up to ``last`` with D <= limit, and possibly a few with D just above; at most ``most`` + 1."""
    check_arithmetic()
    offsets: list[int] = []
    for start, block in _blocks(dim, last, base):
        offsets += [start + int(t) for t in block.survivors(start, limit**2 * (1 + 1e-9))[0]]
        if len(offsets) > most:
            break
    return offsets[: most + 1]


# rigorous values


def squared_distance(offset: int, dim: int, base: float) -> flint.arb:
    """D(offset)^2 as a ball, at flint's current precision."""
    half = flint.arb(offset) / 2
    waves = ((half * exact_frequency(i, dim, base)).sin() for i in range(dim // 2))
    return sum((4 * wave * wave for wave in waves), flint.arb(0))


def enclosing_floats(ball: flint.arb) -> tuple[float, float]:
    """Two floats with the ball between them."""
    return below(ball), above(ball)


def _is_smaller(offset: int, than: int, dim: int, base: float) -> bool:
    """Whether D(offset) < D(than), certainly; equal to 4096 bits counts as no."""
    for precision in (128, 512, 4096):
        with flint.ctx.workprec(precision + offset.bit_length()):
            a, b = squared_distance(offset, dim, base), squared_distance(than, dim, base)
            if a < b or a > b:
                return bool(a < b)
    return False


# any length, by continued fraction


def convergents(scale: int, last: int) -> list[int]:
    """Denominators up to ``last`` of the convergents of 1/(2 pi scale): the best t with t ~ 2 pi scale m.

    >>> convergents(1, 10**6)
    [1, 6, 19, 25, 44, 333, 710, 103993, 312689]
    """
    precision = 2 * last.bit_length() + 64
    while True:
        expansion = _expand(scale, last, precision)
        if expansion is not None:
            return expansion
        precision *= 2


def _expand(scale: int, last: int, precision: int) -> list[int] | None:
    with flint.ctx.workprec(precision):
        x = 2 * flint.arb.pi() * scale
        before, q, out = 0, 1, []
        while q <= last:
            out.append(q)
            whole = x.floor().unique_fmpz()
            if whole is None:
                return None
            before, q = q, int(whole) * q + before
            x = 1 / (x - whole)
    return out


def _nearest_by_continued_fraction(dim: int, last: int, base: float) -> Nearest | None:
    ratio = round(base ** (2 / dim))
    # whole numbers, so this is exact: a ratio that is only nearly whole proves nothing
    if ratio < 2 or ratio ** (dim // 2) != base:
        return None
    scale = ratio ** (dim // 2 - 1)
    offsets = convergents(scale, last)
    with flint.ctx.workprec(128 + 2 * last.bit_length()):
        limit = (2 * (flint.arb.pi() / (2 * scale)).sin()) ** 2
        sure = [t for t in offsets if squared_distance(t, dim, base) < limit]
    if not sure:
        return None  # so short that a search is quick
    early = _nearest_by_search(dim, sure[0], base, 10**9, None).records  # from there on, the records are convergents
    late = tuple((t, _middle(t, dim, base)) for t in sure[1:])
    low, high = distance(sure[-1], dim, base=base)
    return Nearest(
        offset=sure[-1], low=low, high=high, searched=last, method="continued fraction", records=early + late
    )


def _middle(offset: int, dim: int, base: float) -> float:
    low, high = distance(offset, dim, base=base)
    return (low + high) / 2


# any frequencies, by search


def _nearest_by_search(dim: int, last: int, base: float, effort: int, progress: Progress | None) -> Nearest:
    best, records = 1, [(1, _middle(1, dim, base))]
    limit, spent, searched = distance(1, dim, base=base)[1] ** 2, 0, 1
    for start, block in _blocks(dim, last, base):
        if spent > effort:
            break
        survivors, bounds, looked = block.survivors(start, limit)
        # a block whose offsets all fail still costs two binary searches and the loop
        spent += looked + block.size // 1024
        for t, bound in zip(survivors.tolist(), bounds.tolist(), strict=True):
            if bound <= limit and _is_smaller(start + t, best, dim, base):
                best = start + t
                # the square of an upper end may round down
                limit = distance(best, dim, base=base)[1] ** 2 * (1 + 1e-15)
                records.append((best, _middle(best, dim, base)))
        searched = min(last, start + block.size - 1)
        if progress is not None:
            progress(searched, last)
    low, high = distance(best, dim, base=base)
    return Nearest(offset=best, low=low, high=high, searched=searched, method="search", records=tuple(records))


class _Block:
    """Offsets start .. start + size - 1 for any start: their phases in the first pair, sorted once."""

    def __init__(self, pairs: list[Turns], size: int) -> None:
        self.pairs, self.size = pairs, size
        phases = pairs[0].phase(np.arange(size, dtype=np.uint64))
        self.order = np.argsort(phases).astype(np.uint64)
        self.phases = phases[self.order]
        self.tight = 1 - 1e-12 - 4e-16 * len(pairs)  # pays for every rounding below

    def survivors(self, start: int, limit: float) -> tuple[Phases, Float, int]:
        """The t, ascending, whose lower bound of D(start + t)^2 is within the limit; the bounds; the work done."""
        near = self._first_pair(start, limit)
        kept = [self._all_pairs(start, part, limit) for part in near]
        if not kept:
            return np.empty(0, dtype=np.uint64), np.empty(0), 0
        t, bounds = np.concatenate([k[0] for k in kept]), np.concatenate([k[1] for k in kept])
        if start == 0:
            t, bounds = t[t > 0], bounds[t > 0]
        order = np.argsort(t)
        return t[order], bounds[order], sum(map(len, near))

    def _first_pair(self, start: int, limit: float) -> list[Phases]:
        """Chunks of offsets that the first pair alone does not rule out: phases near 0, a slice or two."""
        # the first pair adds at most 4 to D^2, so it rules nothing out
        if limit >= 4:
            slices = [slice(0, self.size)]
        else:
            # 4 sin^2(pi f) <= limit solved for f, in units of 2^-64 of a turn, and wider than rounding could make it
            reach = math.ceil(math.asin(math.sqrt(limit) / 2) / math.pi * (1 + 1e-12) * 2.0**64) + 2 * SLACK
            offset = int(self.pairs[0].phase(np.zeros(1, dtype=np.uint64), start=start)[0])
            low, high = (-reach - offset) % 2**64, (reach - offset) % 2**64
            a, b = np.searchsorted(self.phases, np.array([low, high], dtype=np.uint64), side="left")
            b += int(np.searchsorted(self.phases[b:], np.uint64(high), side="right"))
            # an interval around phase 0 wraps around, and is then two slices of the sorted phases
            slices = [slice(a, b)] if low <= high else [slice(0, b), slice(a, self.size)]
        return [
            self.order[at : min(at + _CHUNK, s.stop)] for s in slices for at in range(int(s.start), int(s.stop), _CHUNK)
        ]

    def _all_pairs(self, start: int, t: Phases, limit: float) -> tuple[Phases, Float]:
        total = np.zeros(len(t))
        for pair in self.pairs:
            total += self.tight * _lower_bound(pair.phase(t, start=start))
            keep = total <= limit
            # dropping offsets copies the rest: worth it once a fifth is gone
            if np.count_nonzero(keep) < 0.8 * len(t):
                t, total = t[keep], total[keep]
                if not len(t):
                    break
        keep = total <= limit
        return t[keep], total[keep]


def _lower_bound(phase: Phases) -> Float:
    """4 sin^2(pi f) from below, up to rounding; f the distance of the phase to the nearest whole turn."""
    away = np.minimum(phase, np.negative(phase)).astype(np.float64)
    # a phase may be SLACK units too small; what converting it rounds is relative, and ``tight`` pays for that
    away -= SLACK + 1
    np.maximum(away, 0, out=away)
    away *= 2.0**-64
    v = np.multiply(away, away, out=away)
    out = np.full_like(v, _SERIES[-1])
    for c in reversed(_SERIES[:-1]):
        out *= v
        out += c
    out *= v
    return out


def _blocks(dim: int, last: int, base: float) -> Iterator[tuple[int, _Block]]:
    # phases are sorted once per size: a million offsets share the order, shifted by the block's start
    size = min(1 << 20, 1 << (last + 1).bit_length())
    block = _Block([turns(i, dim, base) for i in range(dim // 2)], size)
    for start in range(0, last + 1, size):
        if last + 1 - start < size:
            block = _Block(block.pairs, last + 1 - start)
        yield start, block

"""The verb: is a map order-blind, how far from it, which swap shows it best.

Which swap of two rows shows best that a map is not order-blind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from regard.array_types import Array, Float
from regard.errors import InputError
from regard.pictures import BLUE, VERMILION, Figure
from regard.pictures import figure as new_figure
from regard.progress import Progress, steps
from regard.results import Result
from regard.symmetry.maps import DTYPES, SCALES, Map, arithmetics, checked_map, is_module, noise_of_rows, prepare
from regard.written_numbers import is_whole

_POINTS, _ORDER = 9, 6


KINDS = ("equivariant", "invariant")
_FEW = 5  # permutations that meet every sample


@dataclass(frozen=True, kw_only=True, eq=False)
class Symmetry(Result):
    """What was found; rows are counted from 0. ``permutation[i]`` is the row that moved to place i."""

    order_blind: bool
    kind: str
    name: str
    length: int
    dim: int
    dtype: str
    library: str
    seed: int
    permutations: int  # tried
    scale: float  # of the input that shows most
    gap: float  # |map(PX) - P map(X)| (invariant: |map(PX) - map(X)|) where it exceeds rounding most
    size: float  # root mean square of map(X), to compare the gap with
    tolerance: float  # what rounding explains
    excess: float  # largest gap / tolerance over all permutations tried
    permutation: tuple[int, ...]  # the one with that excess
    swap: tuple[int, int] | None  # the swap that shows it best, if broken
    swap_gap: float | None
    swap_excess: float | None
    swap_of_all: bool  # every swap was tried
    _rows: dict[str, Float] = field(default_factory=dict)  # differences row by row, for the picture

    @property
    def answer(self) -> bool:
        return self.order_blind

    def __str__(self) -> str:
        law = "map(PX) = P map(X)" if self.kind == "equivariant" else "map(PX) = map(X)"
        numbers = f"Largest difference {self.gap:.3g}, tolerance for rounding {self.tolerance:.3g}"
        if self.order_blind:
            return f"{self.name}: {law} was not refuted in {self.permutations:,} permutations (no proof). {numbers}."
        share = f", {self.gap / self.size:.2g} of the output's size" if self.size else ""
        return f"{self.name} is not order-blind: {law} fails. {numbers}{share}.\n{self._swap_words()}".rstrip()

    def details(self) -> str:
        """What was tried on which input."""
        inputs = "one input" if "copy" not in self.dtype else f"inputs of {len(SCALES)} scales"
        return (
            f"The input is {self.length} x {self.dim}, {self.dtype}, {self.library}: {inputs}, seed {self.seed}. "
            f"{self.permutations:,} permutations were tried. The tolerance is estimated from the map's own noise. "
            "Rows are counted from 0."
        )

    def figure(self) -> Figure:
        """What each row does when its neighbours change places, as a matplotlib figure."""
        return sketch(self, self._rows)

    def _swap_words(self) -> str:
        if self.swap is None or self.swap_gap is None or self.swap_excess is None:
            return ""
        i, j = self.swap
        among = "of all swaps" if self.swap_of_all else "found"
        if self.swap_excess <= 1:
            return f"No single swap {among} exceeds rounding; the largest is rows {i} and {j}, {self.swap_gap:.3g}."
        return f"The best swap {among}: rows {i} and {j}, difference {self.swap_gap:.3g}."


def symmetry(
    map: Any,
    *,
    length: int = 128,
    dim: int = 16,
    dtype: str = "float64",
    kind: str = "equivariant",
    trials: int = 100,
    seed: int = 0,
    name: str | None = None,
    progress: Progress | None = None,
) -> Symmetry:
    """Is map(PX) = P map(X) for every permutation P of the rows of X?

    X is one normal sample (length x dim). A difference beyond rounding refutes, with its witness; none in
    ``trials`` permutations proves nothing and says so. Tolerance: at least 64 times the map's own rounding noise
    (:func:`row_noise`), an estimate. A torch module is tested in its own type and in a float64 copy, with samples of
    three scales (:func:`regard.symmetry.maps.arithmetics`).

    Arguments: ``map`` takes an array (or a tensor, if it is a torch module or function) of one row per token;
    ``kind="invariant"`` asks for map(PX) = map(X) instead; ``dtype`` is the type of X, float64 or float32, for a
    function.

    >>> symmetry(lambda X: np.maximum(X, 0), length=7, dim=3).order_blind
    True
    >>> broken = symmetry(lambda X: X + 1e-3 * np.arange(7)[:, None], length=7, dim=3)
    >>> broken.order_blind, broken.swap, round(broken.swap_gap, 6)
    (False, (0, 6), 0.006)
    """
    _check(length, dim, dtype, kind, trials, seed)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((length, dim)).astype(dtype)
    label = name or str(getattr(map, "__name__", type(map).__name__))
    tests, library, dtype = _tests(map, x, kind == "equivariant", label, rng)
    # excess, permutation, gap, number of the test: the largest tuple is the answer, the same one on every run
    tried: list[tuple[float, tuple[int, ...], float, int]] = []
    for done, p in enumerate(steps(_permutations(length, trials, rng), trials, progress)):
        # The first sample meets every permutation in every arithmetic, the others a few.
        for i, test in enumerate(tests if done < _FEW else [t for t in tests if t.scale == 1]):
            gaps = test.gaps(p)
            over = test.relative_gaps(gaps, p)
            row = int(over.argmax())
            tried.append((float(over[row]), tuple(p.tolist()), float(gaps[row]), i))
    excess, worst, gap, which = max(tried)
    test, broken = tests[which], excess > 1
    swap = best_swap(test.excess, length, progress=progress) if broken else None
    rows = {"the permutation that shows most": test.gaps(np.array(worst))}
    if swap is not None:
        rows[f"only rows {swap.rows[0]} and {swap.rows[1]} swapped"] = test.gaps(involution([swap.rows], length))
    return Symmetry(
        order_blind=not broken,
        kind=kind,
        name=label,
        length=length,
        dim=dim,
        dtype=dtype,
        library=library,
        seed=seed,
        permutations=trials,
        scale=test.scale,
        gap=gap,
        size=float(np.sqrt(np.mean(test.z**2))),
        tolerance=gap / excess if excess else float(test.tolerance.min()),
        excess=excess,
        permutation=worst,
        swap=None if swap is None else swap.rows,
        swap_gap=None if swap is None else float(list(rows.values())[1].max()),
        swap_excess=None if swap is None else swap.excess,
        swap_of_all=swap is not None and swap.of_all,
        _rows=rows,
    )


class _Test:
    """One map at one input: differences under permutations, measured in tolerances."""

    def __init__(self, run: Map, x: Array, equivariant: bool, name: str, *, scale: float = 1.0) -> None:
        self.run, self.x, self.equivariant, self.scale = run, x, equivariant, scale
        self.z = run(x)
        # threads may sum in another order from run to run: some last bits are no sign of dropout
        again = float(np.abs(run(x) - self.z).max(initial=0))
        if again > 1024 * np.finfo(x.dtype).eps * np.abs(self.z).max(initial=0):
            raise InputError(
                f"{name} gave two answers for one input, {again:.2g} apart: it is random (dropout?); switch that off, "
                "with .eval() for a torch module, or fix its seed inside."
            )
        self.tolerance = np.ones(1)

    def allow(self, noise: Float) -> _Test:
        """Set what rounding explains, from its noise. A map without any, one that only moves numbers, must be exact:
        the floor just avoids 0/0."""
        floor = 1e-30 * max(float(np.abs(self.z).max(initial=0)), 1e-200)
        self.tolerance = np.maximum(factor(len(self.x)) * noise, floor)
        return self

    def gaps(self, p: Permutation) -> Float:
        """The largest difference in each row (invariant: of the whole output, where it has no rows)."""
        target = self.z[p] if self.equivariant else self.z
        difference = np.abs(self.run(self.x[p]) - target)
        return np.asarray(difference.reshape(len(self.tolerance), -1).max(axis=1, initial=0))

    def relative_gaps(self, gaps: Float, p: Permutation) -> Float:
        """Gaps in units of what rounding explains."""
        aligned = self.equivariant and len(self.tolerance) > 1
        return gaps / (self.tolerance[p] if aligned else self.tolerance)

    def excess(self, p: Permutation) -> Float:
        return self.relative_gaps(self.gaps(p), p)


def _tests(map: Any, x: Array, equivariant: bool, name: str, rng: np.random.Generator) -> tuple[list[_Test], str, str]:
    """The map at one input or, for a torch module, at several in two arithmetics; the library; the type in words."""
    if not is_module(map):
        run, library = prepare(map, x, name=name, rows=equivariant)
        test = _Test(run, x, equivariant, name)
        return [test.allow(row_noise(run, x, rng=rng))], library, str(x.dtype)
    tests, kinds = [], []
    for arithmetic in arithmetics(map, lambda call: checked_map(call, name, equivariant)):
        kinds.append(arithmetic.name)
        for scale in SCALES:
            test = _Test(arithmetic.run, scale * x, equivariant, name, scale=scale)
            tests.append(test.allow(noise_of_rows(arithmetic, scale * x, test.z)))
    # scale 1 first: the tests that meet every permutation then have the same numbers in the short list and in the long
    return sorted(tests, key=lambda t: t.scale != 1), "torch", " and ".join(kinds)


def _permutations(length: int, trials: int, rng: np.random.Generator) -> Iterator[Permutation]:
    """Reversal and shift, which order-aware maps mind most, then random ones."""
    first = [np.arange(length)[::-1], np.roll(np.arange(length), 1)][:trials]
    yield from first
    for _ in range(trials - len(first)):
        yield rng.permutation(length)


def _check(length: int, dim: int, dtype: str, kind: str, trials: int, seed: int) -> None:
    for name, value, least in (("length", length, 2), ("dim", dim, 1), ("trials", trials, 1), ("seed", seed, 0)):
        if not is_whole(value) or value < least:
            raise InputError(f"{name} is {value!r}; it must be a whole number, {least} or more.")
    for name, word, known in (("dtype", dtype, DTYPES), ("kind", kind, KINDS)):
        if word not in known:
            raise InputError(f"{name} is {word!r}, which is not known; choose {' or '.join(known)}.")


# How much of a difference rounding alone explains --------------------------------------------------------------------
#
# Along a short line X(1 + i h E), i = 0 .. 8, a smooth map is a polynomial up to h^6, so sixth differences hold nothing
# but rounding: their root mean square, times sqrt((6!)^2/12!), is the noise of one value. (Moré and Wild, "Estimating
# computational noise", SIAM J. Sci. Comput. 33, 2011.) It needs no second implementation and no knowledge of the map,
# and a map that works inside in float32 shows float32's noise.
#
# It is an estimate, not a bound. Two evaluations and the largest of 10^5 normal deviates already need 6.5 times the
# noise, and reordering a sum of n terms can do more than jitter its roundings: a large term that comes first swallows
# the small ones, time after time the same way. Hence `factor`, at least 64, growing like sqrt(n); order-blind layers
# were seen to need 5 to 25.


def factor(length: int) -> float:
    """Tolerance in units of the noise: max(64, 8 sqrt(n)).

    >>> factor(16), factor(512) > 181
    (64.0, True)
    """
    return max(64.0, 8 * math.sqrt(length))


def row_noise(map: Map, x: Array, *, rng: np.random.Generator) -> Float:
    """The noise of each row of map(x): root mean square over the row, at least that of the median row."""
    # some 64 units in the last place: well above rounding of the input, so short that a smooth map is a polynomial
    fine = 2.0**-46 if x.dtype == np.float64 else 2.0**-18
    noise, size = _differences(map, x, fine, rng), np.sqrt(np.mean(map(x) ** 2))
    if x.dtype == np.float64 and np.sqrt(np.mean(noise**2)) < 2.0**-56 * size:
        # It does not feel a change near float64's own precision: it must be working in a coarser one.
        noise = _differences(map, x, 2.0**-18, rng)
    # a row may come out exact by luck: it gets the median's noise
    rows = np.sqrt((noise.reshape(len(noise) if noise.ndim > 1 else 1, -1) ** 2).mean(axis=1))
    return np.asarray(np.maximum(rows, np.median(rows)), dtype=np.float64)


def _differences(map: Map, x: Array, step: float, rng: np.random.Generator) -> Float:
    direction = rng.choice([-1.0, 1.0], x.shape)
    points = [map((x * (1 + i * step * direction)).astype(x.dtype)) for i in range(_POINTS)]
    table = np.diff(np.stack(points), n=_ORDER, axis=0)
    gamma = math.factorial(_ORDER) ** 2 / math.factorial(2 * _ORDER)
    return np.asarray(np.sqrt(gamma * (table**2).mean(axis=0)), dtype=np.float64)


# The picture ---------------------------------------------------------------------------------------------------------


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
    every = list(rounds(length))
    chosen = np.unique(np.linspace(0, len(every) - 1, _ROUNDS).astype(int)).tolist()
    played = steps((every[r] for r in chosen), 2 * len(chosen), progress)
    return sorted([(float(excess(involution(pairs, length)).max()), pairs) for pairs in played], reverse=True)


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

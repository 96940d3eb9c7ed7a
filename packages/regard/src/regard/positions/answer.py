"""The verb: are two positions equal, which two are nearest, how near."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.errors import InputError
from regard.files import check_target
from regard.pictures import ENDINGS, Figure, save
from regard.positions.encodings import Differences, check_base, check_dim, check_length, differences, is_odd, sinusoidal
from regard.positions.nearest import Nearest, nearest_offset
from regard.positions.number_formats import Table, check_way, implementation, round_to
from regard.positions.pictures import sketch
from regard.positions.rows import (
    Pair,
    PairSearch,
    can_hold,
    first_equal_rows,
    nearest_rows,
    search_in_format,
    search_in_odd_dimension,
    search_in_real,
)
from regard.progress import Progress
from regard.results import Result
from regard.written_numbers import at_most, between, in_full, is_whole

KINDS = ("sinusoidal", "rotary", "learned")
_WAY_WORDS = {
    "real": "every number rounded once from its real value",
    "float64": "computed in float64, then cast",
    "float32": "computed in float32, then cast",
    "native": "every step computed in the format",
}

DRAWN = 1000  # rows of an odd dimension in the picture

LARGEST = 1e140  # of a learned table, whose distances are measured


@dataclass(frozen=True, kw_only=True, eq=False)
class Positions(Result):
    """What is known about the positions of one encoding; positions are counted from 0."""

    kind: str
    dim: int
    length: int
    format: str
    through: str
    implementation: str
    distinct: bool
    equal: Pair | None  # the pair of equal positions whose larger one is smallest
    nearest: Pair | None
    distance: tuple[float, float] | None  # the nearest two are at a distance between these
    searched: int  # positions within which `nearest` is the nearest
    in_doubt: int  # roundings that needed rigorous balls
    reasons: tuple[str, ...]
    records: tuple[tuple[int, float], ...]  # real arithmetic: offsets nearer than all smaller ones
    differences: Differences | None
    _base: float = 10000
    _table: Float | None = None  # for the picture, where distances hang on more than the offset

    @property
    def answer(self) -> bool:
        return self.distinct

    def __str__(self) -> str:
        which = f"{self.kind} positions, dim {self.dim}, length {self.length:,}, {self.format}"
        if self.format != "real" and self.kind != "learned":
            which += f", {_WAY_WORDS[self.through]}"
        verdict = "All distinct"
        if self.equal is not None:
            s, t = self.equal
            verdict = f"Not distinct: positions {s} and {t} are bit for bit the same"
        lines = [f"{verdict} ({which}).", self._nearness(), *self.reasons]
        if self.differences is not None:
            lines.append(str(self.differences))
        return "\n".join(line for line in lines if line)

    def details(self) -> str:
        """How the numbers come about."""
        lines = []
        if self.format != "real" and self.kind != "learned":
            lines.append(f"Sine and cosine: {self.implementation}.")
        return "\n".join([*lines, "Positions are counted from 0."])

    def plot(self, path: str | os.PathLike[str], /) -> None:
        """Write the picture to a file; collisions are looked for among more positions than ``figure`` has time for."""
        target = check_target(path, ENDINGS)
        save(sketch(self, table=self._table, base=self._base), target)

    def figure(self) -> Figure:
        """The picture at once: collisions are looked for among 2^16 positions at most."""
        return sketch(self, table=self._table, base=self._base, most=1 << 16)

    def _nearness(self) -> str:
        if self.equal is not None or self.length < 2:
            return ""
        if self.distance is None:
            return "Which two are nearest was not computed: too many pairs to compare."
        within = "" if self.searched >= self.length else f" among the first {self.searched:,}"
        low, high = self.distance
        if self.nearest is None:
            if f"{low:.9g}" == f"{high:.9g}":
                known = at_most(Fraction(high) - Fraction(low), 2)
                return f"The nearest two{within} are at distance {low:.9g}, known to {known}."
            return f"The nearest two{within} are at a distance {between(low, high, 9)}."
        s, t = self.nearest
        return f"The nearest two{within} are {s} and {t}, at distance {(low + high) / 2:.6g}."


def positions(
    table: npt.ArrayLike | None = None,
    *,
    dim: int | None = None,
    length: int | None = None,
    format: str = "real",
    kind: str | None = None,
    through: str = "real",
    library: str = "reference",
    base: float = 10000,
    effort: int = 10**9,
    progress: Progress | None = None,
) -> Positions:
    """Are any two positions equal, which two are nearest, and how near?

    ||Phi_s - Phi_t||^2 = sum_i 4 sin^2((t - s) w_i / 2), w_i = base^(-2i/dim).

    In real arithmetic the answer is proved: distinct always, the nearest by continued fraction or by a search
    with rigorous bounds (``effort`` offsets at most; ``searched`` says how far). In an odd dimension, where the last
    sine stands alone, the distance depends on both positions, and all pairs are compared. In a number format the first
    bit-identical pair is found among up to 2^24 positions, further where the spacing proves that there is none.

    Arguments: ``table`` holds learned positions, one per row, instead of ``dim`` and ``length``; ``format`` is
    real, float64, float32, bfloat16 or float16; ``kind`` is sinusoidal, rotary (distances are then Frobenius
    norms of R_s - R_t, sqrt(2) times the others) or learned; ``through`` and ``library`` say how the numbers
    come about (:mod:`regard.positions.number_formats`).

    >>> found = positions(dim=2, length=1000)
    >>> found.distinct, found.nearest, round(found.distance[0], 8)
    (True, (0, 710), 6.029e-05)
    >>> positions(dim=2, length=1000, format="bfloat16").equal
    (1, 711)
    """
    kind = kind or ("sinusoidal" if table is None else "learned")
    _check(kind, format, through, library, effort)
    if kind == "learned":
        return _learned_positions(table, dim, length, format, progress)
    if table is not None:
        raise InputError(f"A table was given, but {kind} positions are computed; leave one of the two out.")
    if dim is None or length is None:
        raise InputError(f"{kind} positions need a dimension and a length; give both dim and length.")
    if kind == "sinusoidal" and is_odd(dim):
        alone = Table(int(dim), format, through, library, check_base(base))
        search = search_in_odd_dimension(alone, check_length(length), progress)
        drawn = sinusoidal(min(length, DRAWN), alone.dim, base=alone.base)
        return replace(_result(kind, alone, length, None, search), _table=drawn)
    numbers = Table(check_dim(dim), format, through, library, check_base(base))
    near = _nearest_in_real(numbers, check_length(length), effort, progress)
    closest = search_in_real(length, near) if format == "real" else search_in_format(numbers, length, near, progress)
    return _result(kind, numbers, length, near, closest)


def _check(kind: str, format: str, through: str, library: str, effort: int) -> None:
    if kind not in KINDS:
        raise InputError(f"kind is {kind!r}, which is not known; choose one of {', '.join(KINDS)}.")
    check_way(format, through, library)
    if through == "real" and library != "reference":
        raise InputError(
            f"library is {library!r}, but through real rounds real values once and asks no library for a sine; "
            "choose a number format and through float32, float64 or native with it."
        )
    if not is_whole(effort) or effort < 1:
        raise InputError(f"effort is {effort!r}, but it counts offsets; give a whole number, 1 or more.")


def _nearest_in_real(numbers: Table, length: int, effort: int, progress: Progress | None) -> Nearest | None:
    """Needed for real arithmetic, and where every number is rounded once from it."""
    if length < 2 or numbers.through != "real":
        return None
    return nearest_offset(numbers.dim, length - 1, base=numbers.base, effort=effort, progress=progress)


def _result(kind: str, numbers: Table, length: int, near: Nearest | None, search: PairSearch) -> Positions:
    checked = None
    if kind == "rotary":
        if search.distance is not None:
            low, high = search.distance
            search = replace(search, distance=(math.sqrt(2) * low * (1 - 1e-15), math.sqrt(2) * high * (1 + 1e-15)))
        # The bound is for tables rounded once; angles computed in a format have none, so it is not claimed there.
        shown = numbers.format if numbers.through == "real" else "real"
        checked = differences(numbers.dim, length, format=shown, base=numbers.base)
    return Positions(
        kind=kind,
        dim=numbers.dim,
        length=length,
        format=numbers.format,
        through=numbers.through,
        implementation=implementation(numbers.through, numbers.library),
        distinct=search.equal is None,
        **vars(search),
        records=() if near is None else near.records,
        differences=checked,
        _base=numbers.base,
    )


def _learned_positions(
    table: npt.ArrayLike | None, dim: int | None, length: int | None, format: str, progress: Progress | None
) -> Positions:
    if table is None:
        raise InputError("Learned positions are a table of numbers; give it as an array, one position per row.")
    given = check_array(table, what="table")
    for name, wanted, size in (("length", length, given.shape[0]), ("dim", dim, given.shape[1])):
        if wanted is not None and wanted != size:
            raise InputError(f"{name} is {wanted}, but the table has shape {given.shape}; leave {name} out.")
    rows = (given if format == "real" else round_to(given, format)) + 0.0  # -0.0 and 0.0 are one number
    if not np.isfinite(rows).all():
        raise InputError(f"The table has numbers beyond the range of {format}; choose another format.")
    pair = first_equal_rows(rows)
    distance, reasons = None if pair is None else (0.0, 0.0), ("All rows were compared, number by number.",)
    search = PairSearch(equal=pair, nearest=pair, distance=distance, searched=len(rows), reasons=reasons)
    if pair is None and len(rows) > 1 and can_hold(*rows.shape):
        if (largest := float(np.abs(rows).max())) > LARGEST:  # the squares of distances would leave float64
            raise InputError(
                f"The table has numbers as large as {largest:.3g}; scale it to below {in_full(LARGEST)} first."
            )
        nearest, one = nearest_rows(rows, progress=progress)
        search = replace(search, nearest=nearest, distance=(one, one))
    known = _result("learned", Table(rows.shape[1], format), len(rows), None, search)
    how = "the table as given" if format == "real" else "the table, rounded"
    return replace(known, implementation=how, _table=rows)

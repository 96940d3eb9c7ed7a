"""The smallest face of the keys' convex hull that holds a point, in exact rationals.

Whether a demand can be met in the limit hangs on it: along the face's outer normal all keys off the face lose any
weight, while those on it keep theirs. Everything is about differences d_i = p_i - c to the point c: the face's members
are the i that have a positive weight in some combination sum_i w_i d_i = 0; the normal v has v.d_i = 0 for these and
v.d_i < 0 for all others. Both are found by a simplex method with Bland's rule, which cannot cycle; so it always ends,
and being exact it needs no tolerance. For small sets: the tableau has (d + 1)(n + d + 1) rationals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import flint

from regard.rigor.exact import pivots

Vector = list[flint.fmpq]
ZERO, ONE = flint.fmpq(0), flint.fmpq(1)


@dataclass(frozen=True, eq=False)
class Face:
    """Members (places among the points; none if the point is outside the hull), and the outer normal (d rationals)."""

    members: tuple[int, ...]
    normal: Vector


def smallest_face(differences: list[Vector], known: Iterable[int] = ()) -> Face:
    """The smallest face of conv{p_i} that holds c, for d_i = p_i - c; `known`: members that are known beforehand.

    >>> line = [[flint.fmpq(x), flint.fmpq(y)] for x, y in [(1, 0), (-1, 0), (0, 1)]]
    >>> smallest_face(line).members, smallest_face(line).normal
    ((0, 1), [0, -1])
    """
    reduced, rank = flint.fmpq_mat(differences).rref()
    columns = pivots(reduced, rank)  # the others are linear functions of these: a normal needs no part in them
    if len(columns) < len(differences[0]):
        few = [[row[c] for c in columns] or [ZERO] for row in differences]
        face = smallest_face(few, known) if columns else Face(tuple(range(len(differences))), [ZERO])
        place = dict(zip(columns, face.normal, strict=False))
        return Face(face.members, [place.get(c, ZERO) for c in range(len(differences[0]))])
    span, members = _Span(len(differences[0])), set(known)
    while True:
        span.add([differences[i] for i in sorted(members)])
        left = {i: span.reduce(d) for i, d in enumerate(differences) if i not in members}
        on_it = [i for i, d in left.items() if not any(d)]
        if on_it:
            members.update(on_it)
            continue
        if not left:
            return Face(tuple(sorted(members)), [ZERO] * len(differences[0]))
        places = sorted(left)
        support, normal = _combine_to_zero([left[i] for i in places])
        if normal is not None:
            return Face(tuple(sorted(members)), span.lift(normal))
        members.update(places[i] for i in support)


class _Span:
    """The span of the members' differences, in reduced echelon form, and vectors modulo it."""

    def __init__(self, d: int) -> None:
        self.d = d
        self.pivots: list[int] = []
        self.rows: list[Vector] = []

    def add(self, vectors: list[Vector]) -> None:
        if not vectors:
            return
        reduced, rank = flint.fmpq_mat([*self.rows, *vectors]).rref()
        self.pivots = pivots(reduced, rank)
        self.rows = [[reduced[r, c] for c in range(self.d)] for r in range(rank)]

    def reduce(self, vector: Vector) -> Vector:
        """The vector modulo the span: the coordinates that are not pivots."""
        for row, place in zip(self.rows, self.pivots, strict=True):
            factor = vector[place]
            if factor:
                vector = [x - factor * y for x, y in zip(vector, row, strict=True)]
        return [x for c, x in enumerate(vector) if c not in self.pivots]

    def lift(self, normal: Vector) -> Vector:
        """The functional on the whole space that vanishes on the span and is `normal` modulo it."""
        full, rest = [ZERO] * self.d, iter(normal)
        for c in range(self.d):
            if c not in self.pivots:
                full[c] = next(rest)
        for row, place in zip(self.rows, self.pivots, strict=True):
            full[place] = -sum((x * y for c, (x, y) in enumerate(zip(row, full, strict=True)) if c != place), ZERO)
        return full


def _combine_to_zero(vectors: list[Vector]) -> tuple[list[int], Vector | None]:
    """The support of some w >= 0 with sum 1 and sum w_i v_i = 0; or a normal with normal.v_i < 0 for all i.

    Phase one of the simplex method on the columns (v_i, 1) and the right side (0, 1): the artificial variables start
    as the basis, and their prices, where they cannot all leave, are the normal (Farkas).
    """
    n, m = len(vectors), len(vectors[0]) + 1
    table = [[v[r] if r < m - 1 else ONE for v in vectors] + [ONE if c == r else ZERO for c in range(m)]
             for r in range(m)]  # fmt: skip
    for r in range(m):
        table[r].append(ONE if r == m - 1 else ZERO)
    basis = [n + r for r in range(m)]
    price = [-sum((table[r][c] for r in range(m)), ZERO) for c in range(n)] + [ZERO] * m + [-ONE]
    while True:
        # Bland's rule: the first column that helps, and of equal ratios the smallest basis number
        enter = next((c for c in range(n) if price[c] < 0), None)
        if enter is None:
            break
        rows = [r for r in range(m) if table[r][enter] > 0]
        leave = min(rows, key=lambda r: (table[r][-1] / table[r][enter], basis[r]))
        _pivot(table, price, leave, enter)
        basis[leave] = enter
    if price[-1] < 0:  # what the artificial variables still add up to, with the sign turned
        return [], [ONE - price[n + r] for r in range(m - 1)]
    return [basis[r] for r in range(m) if basis[r] < n and table[r][-1] > 0], None


def _pivot(table: list[Vector], price: Vector, leave: int, enter: int) -> None:
    factor = table[leave][enter]
    table[leave] = row = [x / factor for x in table[leave]]
    for r, other in enumerate(table):
        if r != leave and other[enter]:
            table[r] = [x - other[enter] * y if y else x for x, y in zip(other, row, strict=True)]
    factor = price[enter]
    price[:] = [x - factor * y if y else x for x, y in zip(price, row, strict=True)]

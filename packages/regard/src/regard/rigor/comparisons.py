"""Which key scores highest, decided in exact arithmetic on the stored numbers.

Three tiers, each called only where the one before cannot decide: a plain product with its bound, a compensated one,
and exact integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Float
from regard.rigor.exact import exact_products, is_whole
from regard.rigor.floats import CHUNK, SLACK, U, finite, in_range, margins, plain_product, row_chunks

Query = ArrayLike | Sequence[int]  # floats, or Python integers where floats have too few digits


def strictly_wins(K: ArrayLike, j: int, q: Query, *, rows: NDArray[np.integer[Any]] | None = None) -> bool:
    """Does k_j.q > k_i.q hold in exact arithmetic for every i != j (or every other i in `rows`)?

    Always decides: what neither bound settles goes to exact integers. A query of Python integers of any size
    is taken exactly: directions that need more digits than floats have.

    >>> strictly_wins([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], 2, [1.0, 1.0])
    False
    """
    return not any(len(winners) for winners in _rivals(K, j, q, rows))


def rivals(K: ArrayLike, j: int, q: Query) -> NDArray[np.intp]:
    """The rows i != j with k_i.q >= k_j.q in exact arithmetic: all that keep key j from winning.

    >>> rivals([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], 2, [1.0, 0.5])
    array([0])
    """
    return np.concatenate([np.zeros(0, dtype=np.intp), *_rivals(K, j, q, None)])


def _rivals(K: ArrayLike, j: int, q: Query, rows: NDArray[np.integer[Any]] | None) -> Iterator[NDArray[np.intp]]:
    """Chunk by chunk, so that a memory-mapped matrix never has to fit in memory as float64."""
    K = np.asarray(K)
    own = finite(K[j], "the key")
    rounded, blur = _round_query(q)
    which = np.arange(len(K)) if rows is None else np.asarray(rows)
    for part in row_chunks(len(which), K.shape[1], 8 * CHUNK):
        index = which[part]
        index = index[index != j]
        chunk = finite(K[part] if rows is None and len(index) == part.stop - part.start else K[index], "the matrix")
        yield index[_beats(chunk, own, q, rounded, blur)]


def _beats(chunk: Float, own: Float, q: Query, rounded: Float | None, blur: float) -> NDArray[np.bool_]:
    """Which rows score at least as much as `own`: by bounds, then compensated sums, then exact integers."""
    lost, unsure = np.zeros(len(chunk), dtype=np.bool_), np.arange(len(chunk))
    if rounded is not None:
        lost, unsure = _beats_by_bounds(chunk, own, rounded, blur)
    for part in row_chunks(len(unsure), len(own)):
        scores, _ = exact_products(np.concatenate([own[None, :], chunk[unsure[part]]]), q)
        lost[unsure[part]] = [s >= scores[0] for s in scores[1:]]
    return lost


def _beats_by_bounds(chunk: Float, own: Float, q: Float, blur: float) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    (keys, query), _ = in_range(np.concatenate([chunk, own[None, :]]), q)
    mid, rad = plain_product(keys, query, blur=blur)
    lead = mid[-1] - mid[:-1]  # rounded, which never takes it across a float such as the doubt
    doubt = SLACK * (rad[-1] + rad[:-1])
    lost: NDArray[np.bool_] = lead < -doubt
    unsure = np.flatnonzero(~(np.abs(lead) > doubt))
    if len(unsure) and not blur:
        mid, rad = margins(chunk[unsure], own, q)
        lost[unsure[mid < -rad]] = True
        unsure = unsure[~(np.abs(mid) > rad)]
    return lost, unsure


def _round_query(q: Any) -> tuple[Float | None, float]:
    """The query as floats (up to a power of two for integers), and how far each entry is off, relatively."""
    if not is_whole(q):
        return finite(q, "the query"), 0.0
    bits = [abs(x).bit_length() for x in q]
    top = max(bits, default=0)
    if top - min((b for b in bits if b), default=top) > 900:
        return None, 0.0  # too wide a range for floats: only integers will do
    return np.array([x / (1 << top) for x in q], dtype=np.float64), 2 * U

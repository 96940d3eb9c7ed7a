"""Equal and nearest rows of any table of numbers: learned positions, or an encoding small enough to hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy

from regard.array_types import Float, Whole
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

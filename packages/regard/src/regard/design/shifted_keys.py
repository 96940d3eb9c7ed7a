"""Keys less an anchor as a solver needs them, without a copy of the keys.

`shortest` multiplies its rows by vectors from both sides and looks at a few of them. With rows k_i - a that is
(k_i - a).v = k_i.v - a.v and sum w_i (k_i - a) = sum w_i k_i - W a, from products with the keys where they lie. That
costs digits where the keys are close together and far from the origin: `question.uncopied_geometry` asks for it
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.array_types import Float
from regard.rigor import row_chunks

PART = 1 << 14  # numbers of rows that are made level at once


class ShiftedKeys:
    """The rows k_i - a for all keys k_i but those left out; and of each only the part at right angles to `across`.

    across: orthonormal columns (d x m).

    >>> rows = ShiftedKeys(np.array([[1.0, 2.0], [5.0, 5.0], [3.0, 4.0]]), np.array([1.0, 1.0]), left_out=[1])
    >>> (rows @ np.array([1.0, 10.0])).tolist(), (np.array([0.5, 0.25]) @ rows).tolist()
    ([10.0, 32.0], [0.5, 1.25])
    """

    __array_ufunc__ = None  # so that `weights @ rows` comes here and not to NumPy

    def __init__(self, keys: Float, anchor: Float, left_out: Sequence[int] = (), across: Float | None = None) -> None:
        self.keys, self.anchor, self.across = keys, anchor, across
        self.left_out = np.sort(np.asarray(left_out, dtype=np.intp))
        self.shape = (len(keys) - len(left_out), keys.shape[1])
        self.runs = []  # of rows that lie together: their keys, and their place among the rows
        for count, (start, end) in enumerate(zip([-1, *self.left_out], [*self.left_out, len(keys)], strict=True)):
            if end > start + 1:
                self.runs.append((keys[start + 1 : end], slice(start + 1 - count, end - count)))

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, vector: Float) -> Float:
        vector, products = self.level(vector), np.empty(len(self))
        for keys, some in self.runs:
            np.matmul(keys, vector, out=products[some])
        products -= self.anchor @ vector
        return products

    def __rmatmul__(self, weights: Float) -> Float:
        mean = -weights.sum() * self.anchor
        for keys, some in self.runs:
            mean += weights[some] @ keys
        return self.level(mean)

    def __getitem__(self, some: NDArray[np.intp]) -> Float:
        """Some of the rows, by their numbers."""
        # the number of a row plus how many keys are left out before it is the number of its key
        rows = self.keys[some + np.searchsorted(self.left_out - np.arange(len(self.left_out)), some, side="right")]
        rows -= self.anchor
        if self.across is not None:
            for part in row_chunks(len(rows), rows.shape[1], PART):
                rows[part] -= (rows[part] @ self.across) @ self.across.T
        return np.asarray(rows)

    def level(self, vectors: Float) -> Float:
        """The part of one vector, or of each of several rows, at right angles to `across`."""
        return vectors if self.across is None else np.asarray(vectors - (vectors @ self.across) @ self.across.T)

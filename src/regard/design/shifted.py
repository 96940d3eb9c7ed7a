"""Keys less an anchor as a solver needs them, without a copy of the keys.

`shortest` multiplies its rows by vectors from both sides and looks at a few of them. With rows k_i - a that is
(k_i - a).v = k_i.v - a.v and sum w_i (k_i - a) = sum w_i k_i - W a, from products with the keys where they lie. That
costs digits where the keys are close together and far from the origin: `question.as_they_lie` asks for it elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Shifted:
    """The rows k_i - a for all keys k_i, or all but one.

    >>> rows = Shifted(np.array([[1.0, 2.0], [5.0, 5.0], [3.0, 4.0]]), np.array([1.0, 1.0]), left_out=1)
    >>> (rows @ np.array([1.0, 10.0])).tolist(), (np.array([0.5, 0.25]) @ rows).tolist()
    ([10.0, 32.0], [0.5, 1.25])
    """

    __array_ufunc__ = None  # so that `weights @ rows` comes here and not to NumPy

    def __init__(self, keys: Array, anchor: Array, left_out: int | None = None) -> None:
        self.keys, self.anchor = keys, anchor
        self.cut = len(keys) if left_out is None else left_out
        self.before, self.after = keys[: self.cut], keys[self.cut + 1 :]
        self.shape = (len(self.before) + len(self.after), keys.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, vector: Array) -> Array:
        products = np.empty(len(self))
        np.matmul(self.before, vector, out=products[: self.cut])
        np.matmul(self.after, vector, out=products[self.cut :])
        products -= self.anchor @ vector
        return products

    def __rmatmul__(self, weights: Array) -> Array:
        mean = weights[: self.cut] @ self.before + weights[self.cut :] @ self.after
        return np.asarray(mean - weights.sum() * self.anchor)

    def __getitem__(self, some: NDArray[np.intp]) -> Array:
        """Some of the rows, by their numbers."""
        rows = self.keys[some + (some >= self.cut)]
        rows -= self.anchor
        return rows

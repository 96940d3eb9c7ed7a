"""The coursework's three statements about singular values, on a given matrix, and the matrices that attain them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import check_array
from regard.errors import InputError
from regard.lowrank.decompose import spectrum
from regard.notation import readable
from regard.results import Result
from regard.rigor.matrices import gamma, squares
from regard.written_numbers import between


@dataclass(frozen=True, kw_only=True, eq=False)
class Statements(Result):
    """Each statement on one matrix: the two sides as proved intervals, for k = 1 .. min(m, n)."""

    energy: tuple[float, float]  # sum of sigma_i^2 lies between these
    squared_norm: tuple[float, float]  # and ||A||_F^2, summed from the entries, between these
    tail: Float  # sigma_k sqrt(k) / ||A||_F, at most 1
    tail_margin: Float  # how much of it is proved: the upper end
    error: Float  # the best rank k-1 has at most this spectral error
    bound: Float  # ||A||_F / sqrt(k)

    @property
    def answer(self) -> bool:
        """False when some statement is refuted on this matrix: its two sides are proved to be apart."""
        meet = self.energy[0] <= self.squared_norm[1] and self.squared_norm[0] <= self.energy[1]
        # tail is made of lower ends, so only a proved excess could pass 1; 1e-9 is for the division and the root
        return bool(meet and np.all(self.tail <= 1 + 1e-9))

    def __str__(self) -> str:
        k = int(np.argmax(self.tail)) + 1
        strict = int(np.count_nonzero(self.tail_margin < 1))
        return readable(
            f"$sum sigma_i^2$ is {between(*self.energy, 12)}, $||A||_F^2$ "
            f"is {between(*self.squared_norm, 12)}: {'equal' if self.answer else 'NOT equal'} "
            f"within the bounds. $sigma_k <= ||A||_F / sqrt(k)$ for k = 1 .. {len(self.tail)}, strictly at {strict} of "
            f"them; nearest to equality at k = {k}, where $sigma_k$ is {self.tail[k - 1]:.4g} of it."
        )


def statements(matrix: npt.ArrayLike) -> Statements:
    """Singular-energy, singular-tail and low-rank-error on one matrix.

    sum_i sigma_i^2 = ||A||_F^2;  k sigma_k^2 <= sigma_1^2 + ... + sigma_k^2 <= ||A||_F^2;
    and the truncation to rank k-1 has spectral error sigma_k <= ||A||_F / sqrt(k).

    The left sides come from the spectrum (with bounds), the right from the entries themselves.

    >>> found = statements([[3.0, 0.0], [0.0, 4.0]])
    >>> found.answer, [round(x) for x in found.energy], found.tail.round(6).tolist()
    (True, [25, 25], [0.8, 0.848528])
    """
    a = check_array(matrix, what="matrix")
    known, total = spectrum(a), squares(a)
    norm = math.sqrt(total)
    wide = gamma(len(known.lower) + a.shape[1] + 4)
    k = np.arange(1, len(known.lower) + 1)
    unit = norm if norm > 0 else 1.0
    return Statements(
        energy=(float(known.lower @ known.lower) * (1 - wide), float(known.upper @ known.upper) * (1 + wide)),
        squared_norm=(total * (1 - wide), total * (1 + wide)),
        tail=known.lower * np.sqrt(k) / unit,
        tail_margin=known.upper * np.sqrt(k) / unit,
        error=known.upper,
        bound=norm / np.sqrt(k),
    )


def attaining(k: int, shape: tuple[int, int]) -> Float:
    """A matrix with sigma_k = ||A||_F / sqrt(k): k equal singular values and no others, the only kind there is.

    Equality in k sigma_k^2 <= sigma_1^2 + ... + sigma_k^2 <= ||A||_F^2 needs sigma_1 = ... = sigma_k and
    nothing after them.

    >>> attaining(2, (3, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """
    if not 1 <= k <= min(shape):
        raise InputError(f"k must be a whole number from 1 to {min(shape)} for shape {shape}, not {k}.")
    matrix = np.zeros(shape)
    matrix[np.arange(k), np.arange(k)] = 1.0
    return matrix

"""How much of a difference rounding alone explains: the map's own noise, measured.

Along a short line X(1 + i h E), i = 0 .. 8, a smooth map is a polynomial up to h^6, so sixth differences hold
nothing but rounding: their root mean square, times sqrt((6!)^2/12!), is the noise of one value. (Moré and
Wild, "Estimating computational noise", SIAM J. Sci. Comput. 33, 2011.) It needs no second implementation and
no knowledge of the map, and a map that works inside in float32 shows float32's noise.

It is an estimate, not a bound. Two evaluations and the largest of 10^5 normal deviates already need 6.5 times
the noise, and reordering a sum of n terms can do more than jitter its roundings: a large term that comes first
swallows the small ones, time after time the same way. Hence :func:`factor`, at least 64, growing like sqrt(n);
order-blind layers were seen to need 5 to 25.
"""

from __future__ import annotations

import math

import numpy as np

from regard.array_types import Array, Float
from regard.symmetry.maps import Map

_POINTS, _ORDER = 9, 6


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

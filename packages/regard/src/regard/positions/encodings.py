"""The three encodings as arrays: sinusoidal (added), learned (added, a table), rotary (turns the vectors)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import as_array, check_array
from regard.errors import InputError


def check_dim(dim: int) -> int:
    """The dimension, if sines and cosines can fill it in pairs."""
    if not isinstance(dim, (int, np.integer)) or isinstance(dim, bool) or dim < 2 or dim % 2:
        raise InputError(f"dim is {dim!r}, but sines and cosines come in pairs: give an even whole number, 2 or more.")
    return int(dim)


def is_odd(dim: int) -> bool:
    """Whether a sine is left without its cosine."""
    return isinstance(dim, (int, np.integer)) and not isinstance(dim, bool) and dim > 0 and dim % 2 == 1


def check_length(length: int) -> int:
    """The number of positions, if there is at least one."""
    if not isinstance(length, (int, np.integer)) or isinstance(length, bool) or length < 1:
        raise InputError(f"length is {length!r}, but it counts positions: give a whole number, 1 or more.")
    return int(length)


def check_base(base: float) -> float:
    """The base of the frequencies, if it makes them fall."""
    if isinstance(base, bool) or not isinstance(base, (int, float)) or not 1 < base <= 1e300:
        raise InputError(f"base is {base!r}, but frequencies are base^(-2i/dim): give a number above 1.")
    as_array(base, "base")
    return base


def frequencies(dim: int, *, base: float = 10000) -> Float:
    """w_i = base^(-2i/dim), i = 0 .. dim/2 - 1, in float64 (w_0 is always 1).

    >>> frequencies(4).tolist()
    [1.0, 0.01]
    """
    return _frequencies(check_dim(dim), check_base(base))


def _frequencies(dim: int, base: float) -> Float:
    return np.asarray(np.power(float(base), -np.arange(0, dim, 2) / dim), dtype=np.float64)


def sinusoidal(length: int, dim: int, *, base: float = 10000) -> Float:
    """Phi (length x dim) with Phi[t, 2i] = sin(t w_i) and Phi[t, 2i+1] = cos(t w_i), in float64.

    Good to about 1e-16 times t: for the correctly rounded table use :class:`regard.positions.Table`.

    In an odd dimension the last sine has no cosine.

    >>> sinusoidal(2, 4).round(4).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8415, 0.5403, 0.01, 1.0]]
    """
    waves = _frequencies(dim, check_base(base)) if is_odd(dim) else frequencies(dim, base=base)
    angles = np.arange(check_length(length))[:, None] * waves
    # stacked last and flattened, sine and cosine of a frequency come to stand side by side
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, -1)[:, :dim]


def rotate(vectors: npt.ArrayLike, at: npt.ArrayLike, *, base: float = 10000) -> Float:
    """Rotary encoding: the pair (x, y) = (v[2i], v[2i+1]) of the vector at position t is turned by t w_i,

    (x, y) -> (x cos(t w_i) - y sin(t w_i), x sin(t w_i) + y cos(t w_i)),

    so R_t^T R_s = R_{s-t} and (R_t q).(R_s k) depends on s - t alone.

    ``vectors`` has one vector per row, ``at`` one position per row (any real numbers).

    >>> rotate([[1.0, 0.0]], [np.pi / 2]).round(6).tolist()
    [[0.0, 1.0]]
    """
    x = check_array(vectors, what="vectors")
    t = check_array(at, what="positions", ndim=1)
    if len(t) != len(x):
        raise InputError(f"There are {len(x)} vectors and {len(t)} positions; give one position per vector.")
    angles = t[:, None] * frequencies(x.shape[1], base=base)
    return turn(x, np.sin(angles), np.cos(angles))


def turn(x: Float, sines: Float, cosines: Float) -> Float:
    """Each pair of every row of ``x`` (n x d) turned by the angle with that sine and cosine (n x d/2 each)."""
    out = np.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * cosines - x[:, 1::2] * sines
    out[:, 1::2] = x[:, 0::2] * sines + x[:, 1::2] * cosines
    return out

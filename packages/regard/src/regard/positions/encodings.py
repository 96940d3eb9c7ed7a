"""The three encodings as arrays: sinusoidal (added), learned (added, a table), rotary (turns the vectors)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import flint
import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import as_array, check_array
from regard.errors import InputError
from regard.notation import readable
from regard.positions.number_formats import RELATIVE, Phases, Table, sine_cosine, turns, unit_roundoff
from regard.results import Result
from regard.written_numbers import at_most, is_whole


def check_dim(dim: int) -> int:
    """The dimension, if sines and cosines can fill it in pairs."""
    if not is_whole(dim) or dim < 2 or dim % 2:
        raise InputError(
            f"dim is {dim!r}, but sines and cosines come in pairs: give an even whole number, such as 512."
        )
    return int(dim)


def is_odd(dim: int) -> bool:
    """Whether a sine is left without its cosine."""
    return is_whole(dim) and dim > 0 and dim % 2 == 1


def check_length(length: int) -> int:
    """The number of positions, if there is at least one."""
    if not is_whole(length) or length < 1:
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Differences(Result):
    """How far rotary scores were from depending on s - t alone, for unit queries and keys."""

    identity: bool
    largest: float
    bound: float
    trials: int
    format: str

    @property
    def answer(self) -> bool:
        return self.identity and self.largest <= self.bound

    def __str__(self) -> str:
        word = "in float64" if self.format in ("real", "float64") else f"rounded to {self.format}"
        return readable(
            f"Rotary scores depend on differences alone: $R_t^T R_s = R_(s-t)$ holds exactly in rational arithmetic; "
            f"with the table {word}, the largest deviation in {self.trials:,} random scores of "
            f"unit vectors is {self.largest:.2g}, and none can exceed {at_most(self.bound, 2)} (proved)."
        )


def rotation_identity(power: int = 12) -> bool:
    """R^t's transpose times R^s is R^(s-t) for all 0 <= t, s <= power, in exact rationals.

    The rotation is by the angle with tangent of its half 2/7, cosine 45/53, sine 28/53: rational, and no
    fraction of a turn.

    >>> rotation_identity()
    True
    """
    cosine, sine = flint.fmpq(45, 53), flint.fmpq(28, 53)
    one = flint.fmpq_mat([[cosine, -sine], [sine, cosine]])
    powers = {0: one**0}
    for t in range(1, power + 1):
        powers[t] = powers[t - 1] * one
        powers[-t] = powers[1 - t] * one.transpose()
    span = range(power + 1)
    return all(powers[t].transpose() * powers[s] == powers[s - t] for t in span for s in span)


def differences(
    dim: int,
    length: int,
    *,
    format: str = "float64",
    base: float = 10000,
    trials: int = 1000,
    seed: int | np.random.Generator = 0,
) -> Differences:
    """(R_t q).(R_s k) against q.(R_{s-t} k), for random unit q, k and positions t <= s below ``length``.

    The table is correctly rounded to the format (float64: within 2^-50), the rest is float64. An entry is then
    off by e <= u/2, a turned pair by sqrt(2) e of its length, a score by at most (1 + sqrt(2) e)^2 - 1.

    >>> differences(8, 1000, format="bfloat16").answer
    True
    """
    rng = np.random.default_rng(seed)
    q, k = (_unit(rng.standard_normal((trials, dim))) for _ in range(2))
    # 2^32: as far as phases reach
    ends = np.sort(rng.integers(0, min(length, 1 << 32), (2, trials)), axis=0).astype(np.uint64)
    turned = [turn(x, *_entries(dim, t, format, base)) for x, t in ((q, ends[0]), (k, ends[1]))]
    direct = turn(k, *_entries(dim, ends[1] - ends[0], "real", base))
    off = (turned[0] * turned[1]).sum(axis=1) - (q * direct).sum(axis=1)
    return Differences(
        identity=rotation_identity(),
        largest=float(np.abs(off).max()),
        bound=score_bound(dim, format),
        trials=trials,
        format=format,
    )


def score_bound(dim: int, format: str) -> float:
    """The most by which a score of unit vectors can differ from one that depends on s - t alone."""
    entry = RELATIVE if format in ("real", "float64") else unit_roundoff(format) / 2
    arithmetic = 4 * (dim + 8) * 2.0**-53 + math.sqrt(2) * RELATIVE  # sums and products; the direct side's sine
    return (1 + math.sqrt(2) * entry) ** 2 - 1 + arithmetic


def _entries(dim: int, t: Phases, format: str, base: float) -> tuple[Float, Float]:
    if format in ("real", "float64"):
        pairs = [sine_cosine(turns(i, dim, base).phase(t)) for i in range(dim // 2)]
    else:
        pairs = [Table(dim, format, base=base).pair(i, t)[:2] for i in range(dim // 2)]
    return np.stack([p[0] for p in pairs], axis=1), np.stack([p[1] for p in pairs], axis=1)


def _unit(x: Float) -> Float:
    out: Float = x / np.linalg.norm(x, axis=1, keepdims=True)
    return out

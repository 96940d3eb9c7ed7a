"""Rotary scores depend on differences of positions: exactly in exact arithmetic, to a bound in a format."""

from __future__ import annotations

import math
from dataclasses import dataclass

import flint
import numpy as np

from regard.array_types import Float
from regard.positions.encodings import turn
from regard.positions.number_formats import Table, unit_roundoff
from regard.positions.turns import RELATIVE, Phases, sine_cosine, turns
from regard.results import Result
from regard.written_numbers import at_most


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
        return (
            f"Rotary scores depend on differences alone: R_t^T R_s = R_(s-t) holds exactly in rational arithmetic; "
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

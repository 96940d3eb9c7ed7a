"""Angles t w as fractions of a turn, in whole numbers: the reduction that float64 gets wrong for large t.

The phase of t is t w/(2 pi) mod 1 in units of 2^-64, a uint64. Whole-number arithmetic wraps around exactly
where a turn does, so the only error is the one of w/(2 pi) cut to 96 bits (256 for the start of a block):
always too small, by less than SLACK units. From the phase, :func:`sine_cosine` needs nothing but IEEE
additions and multiplications, so its error bound is a theorem and not a property of some library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import flint
import numpy as np
import numpy.typing as npt

from regard.array_types import Float

Phases = npt.NDArray[np.uint64]
SLACK = 4  # units of 2^-64 of a turn
RELATIVE, ABSOLUTE = 2.0**-50, 2.0**-60  # of sine_cosine, see there

_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(1, 9)]


def exact_frequency(i: int, dim: int, base: float) -> flint.arb:
    """w_i = base^(-2i/dim) as a ball, at flint's current precision; float bases are taken at face value."""
    return flint.arb(base) ** (flint.arb(-2 * i) / dim)


@dataclass(frozen=True)
class Turns:
    """One frequency w, as the whole number floor(w/(2 pi) 2^256)."""

    fraction: int

    def phase(self, t: Phases, *, start: int = 0) -> Phases:
        """Phases of start + t, for t below 2^32 and any start below 2^128."""
        # Cutting the fraction to 96 bits and the product to 64 loses below 1 unit each, start below 1.1.
        high, low = np.uint64(self.fraction >> 192), np.uint64((self.fraction >> 160) & 0xFFFFFFFF)
        offset = np.uint64(((start * self.fraction) >> 192) & 0xFFFFFFFFFFFFFFFF)
        out: Phases = t * high
        out += (t * low) >> np.uint64(32)
        out += offset
        return out


@lru_cache(maxsize=4096)
def turns(i: int, dim: int, base: float) -> Turns:
    """The exact fraction of a turn that position 1 makes in pair i."""
    precision = 320
    while True:
        with flint.ctx.workprec(precision):
            scaled = exact_frequency(i, dim, base) / (2 * flint.arb.pi()) * flint.arb(2) ** 256
            whole = scaled.floor().unique_fmpz()
        if whole is not None:
            return Turns(int(whole))
        precision *= 2


def sine_cosine(phase: Phases) -> tuple[Float, Float]:
    """Sine and cosine of phases, each within RELATIVE |value| + ABSOLUTE of the truth.

    The nearest quarter turn is taken off in whole numbers; what is left, |x| <= pi/4, goes through Taylor
    polynomials. With u = 2^-53: x carries 3 u (conversion, 2 pi, product), which costs 3 u in the sine and
    2.4 u in the cosine; Horner's rule costs below 2.6 u and 3.6 u; the tail of the series, x^19/19! and
    x^18/18!, below 0.1 u. In all below 8 u = RELATIVE; the phase's own error is ABSOLUTE.

    >>> [round(float(v[0]), 12) for v in sine_cosine(np.array([1 << 61], dtype=np.uint64))]
    [0.707106781187, 0.707106781187]
    """
    # the eighth turn added makes it the nearest quarter, not the one below
    quarter = (phase + np.uint64(1 << 61)) >> np.uint64(62)
    rest = (phase - (quarter << np.uint64(62))).view(np.int64)
    x = rest.astype(np.float64) * (2 * math.pi / 2.0**64)
    z = x * x
    sine, cosine = x * (1 + z * _horner(_SINE, z)), 1 + z * _horner(_COSINE, z)
    odd = (quarter & np.uint64(1)).astype(bool)
    first, second = np.where(odd, cosine, sine), np.where(odd, sine, cosine)
    # bit 1 of the quarter moved onto the sign: sines are negative in quarters 2 and 3, cosines in 1 and 2
    first.view(np.uint64)[...] ^= (quarter & np.uint64(2)) << np.uint64(62)
    second.view(np.uint64)[...] ^= ((quarter + np.uint64(1)) & np.uint64(2)) << np.uint64(62)
    return first, second


def _horner(coefficients: list[float], z: Float) -> Float:
    out = np.full_like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        out *= z
        out += c
    return out

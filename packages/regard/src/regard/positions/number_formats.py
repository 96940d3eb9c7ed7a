"""Encodings as a machine stores them: four number formats, and the ways to a number in each.

``through`` names the way to sin(t w_i), ``library`` who computes the sine:

| through | t, w and their product | the sine | then |
|---|---|---|---|
| ``real`` | exact | exact | rounded once to the format: the correctly rounded reference |
| ``float64``, ``float32`` | each rounded there | by the library there | cast to the format |
| ``native`` | each rounded to the format | by the library, in the format | nothing |

Libraries: ``numpy``, ``torch``, and ``reference``, whose sine is the correctly rounded one of the (already
rounded) angle. NumPy has no bfloat16: there its float32 sine is rounded, as torch does too. Rounding is always
to nearest, ties to even.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import flint
import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import InputError

Phases = npt.NDArray[np.uint64]
SLACK = 4  # units of 2^-64 of a turn
RELATIVE, ABSOLUTE = 2.0**-50, 2.0**-60  # of sine_cosine, see there

_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in range(1, 9)]


# Angles t w as fractions of a turn, in whole numbers: the reduction that float64 gets wrong for large t. The phase of t
# is t w/(2 pi) mod 1 in units of 2^-64, a uint64. Whole numbers wrap around exactly where a turn does, so the
# only error is the one of w/(2 pi) cut to 96 bits (256 for the start of a block): always too small, by less than SLACK
# units. From the phase, `sine_cosine` needs nothing but IEEE additions and multiplications, so its error bound is a
# theorem and not a property of some library.


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


FORMATS = ("real", "float64", "float32", "bfloat16", "float16")
WAYS = ("real", "float64", "float32", "native")
LIBRARIES = ("reference", "numpy", "torch")

# bits of the significand, and the exponent of the smallest subnormal
_SHAPE = {"float64": (53, -1074), "float32": (24, -149), "bfloat16": (8, -133), "float16": (11, -24)}
_CHUNK = 1 << 13  # fits the cache
_Exact = Callable[[int], tuple[flint.arb, flint.arb]]


def unit_roundoff(format: str) -> float:
    """u = 2^-p for p bits: rounding to nearest changes x by at most u |x|, and |x| <= 1 by at most u/2.

    >>> unit_roundoff("bfloat16")
    0.00390625
    """
    return 2.0 ** -_SHAPE[format][0]


def round_to(values: npt.ArrayLike, format: str) -> Float:
    """Each number of an array of any shape rounded to the format (nearest, ties to even), held in float64.

    >>> round_to([257.0, 258.0, 259.0], "bfloat16").tolist()
    [256.0, 258.0, 260.0]
    """
    x = np.array(values, dtype=np.float64)
    if format == "bfloat16":
        return _round_bfloat16(x)
    with np.errstate(over="ignore", under="ignore"):
        return x if format == "float64" else x.astype(format).astype(np.float64)


def _round_bfloat16(x: Float) -> Float:
    """In one step from float64: by way of float32 a number could be rounded twice."""
    bits = x.view(np.uint64)
    # 45 of 52 fraction bits go: half of the last kept place is added, one less where that place is even (ties to even)
    bits += np.uint64((1 << 44) - 1) + ((bits >> np.uint64(45)) & np.uint64(1))
    bits &= np.uint64(~((1 << 45) - 1) & 0xFFFFFFFFFFFFFFFF)
    small = np.abs(x) < 2.0**-126  # float32's subnormals, on a grid of 2^-133
    x[small] = np.round(np.ldexp(x[small], 133)) * 2.0**-133 if small.any() else 0
    return x


@dataclass(frozen=True)
class Table:
    """The numbers of one encoding in one format, computed pair by pair and never all at once."""

    dim: int
    format: str
    through: str = "real"
    library: str = "reference"
    base: float = 10000

    def pair(self, i: int, positions: Phases) -> tuple[Float, Float, int]:
        """Sines and cosines of pair i, one per position, and how many of them only rigorous balls could round."""
        parts = [self._chunk(i, positions[at : at + _CHUNK]) for at in range(0, len(positions), _CHUNK)]
        sines, cosines, hard = zip(*parts, strict=True)
        return np.concatenate(sines), np.concatenate(cosines), sum(hard)

    def rows(self, positions: npt.ArrayLike) -> Float:
        """Whole rows, positions x dim, sine and cosine in turn."""
        t = np.asarray(positions, dtype=np.uint64)
        pairs = (self.pair(i, t)[:2] for i in range(self.dim // 2))
        return np.stack([column for pair in pairs for column in pair], axis=1)

    def _chunk(self, i: int, t: Phases) -> tuple[Float, Float, int]:
        if self.through == "real":
            approximate = sine_cosine(turns(i, self.dim, self.base).phase(t))
            return _round_correctly(approximate, ABSOLUTE, t, self._exact_chunk(i), self.format)
        work = self.format if self.through == "native" else self.through
        # The product of two numbers of at most 24 bits is exact in float64: one rounding, as in hardware.
        angle = round_to(round_to(t, work) * _frequency(i, self.dim, self.base, work), work)
        if not np.isfinite(angle).all():
            raise InputError(f"{work} ends at 65504, so position {int(t.max())} has no angle there: stay below.")
        if self.library == "reference":
            approximate = sine_cosine(_angle_phases(angle))
            # 2^-51: the phase of a float angle is known to 2^-52 of a radian
            sine, cosine, hard = _round_correctly(approximate, 2.0**-51, angle, _sine_cosine_balls, work)
        else:
            (sine, cosine), hard = _library_values(angle, work, self.library), 0
        return round_to(sine, self.format), round_to(cosine, self.format), hard

    def _exact_chunk(self, i: int) -> _Exact:
        def value(t: int) -> tuple[flint.arb, flint.arb]:
            angle = exact_frequency(i, self.dim, self.base) * int(t)
            return angle.sin(), angle.cos()

        return value


def check_way(format: str, through: str, library: str) -> None:
    """Refuse unknown names, and the one combination nobody can compute in bulk."""
    for name, value, known in (
        ("format", format, FORMATS),
        ("through", through, WAYS),
        ("library", library, LIBRARIES),
    ):
        if value not in known:
            raise InputError(f"{name} is {value!r}, which is not known; choose one of {', '.join(known)}.")
    if format == "real" and through != "real":
        raise InputError(f"Real arithmetic does not go through {through}; choose a number format with it.")
    in_float64 = through == "float64" or (through == "native" and format == "float64")
    if library == "reference" and in_float64:
        raise InputError(
            "A correctly rounded sine in float64 is too slow for tables; choose library numpy or torch, "
            "or through real for the correctly rounded end result."
        )
    if library == "torch":
        _torch()


def implementation(through: str, library: str) -> str:
    """Who computes sine and cosine, with the version: another one may give another first pair."""
    if through == "real" or library == "reference":
        return "correctly rounded (where float64 leaves a doubt, with as many digits as it takes)"
    return f"numpy {np.__version__}" if library == "numpy" else f"torch {_torch().__version__}"


# correct rounding


def _round_correctly(
    approximate: tuple[Float, Float], absolute: float, arguments: npt.NDArray[np.generic], exact: _Exact, format: str
) -> tuple[Float, Float, int]:
    out, hard = [], 0
    for which, value in enumerate(approximate):
        # sin 0 and cos 0 are exact; 1.01 is for computing the error itself in floats
        error = np.where(arguments == 0, 0, np.abs(value) * (RELATIVE * 1.01) + absolute)
        low, high = round_to(value - error, format), round_to(value + error, format)
        # if both ends round to the same number, so does the truth between them
        doubtful = np.flatnonzero(low.view(np.uint64) != high.view(np.uint64))
        for j in doubtful:
            low[j] = _round_ball(partial(_one_of, exact, which, arguments[j].item()), format)
        out.append(low)
        hard += len(doubtful)
    return out[0], out[1], hard


def _one_of(exact: _Exact, which: int, argument: int) -> flint.arb:
    return exact(argument)[which]


def _round_ball(ball: Callable[[], flint.arb], format: str, *, most: float = math.inf) -> float:
    """The correctly rounded value: more digits until both ends of the ball round to the same number.

    That ends, because sines and cosines of algebraic numbers other than 0 are never halfway between floats. A number
    that may lie there, such as a power of two, gets ``most`` digits and no more.
    """
    precision = 128
    while True:
        with flint.ctx.workprec(precision):
            enclosed = ball()
            low, high = _round_dyadic(enclosed.lower(), format), _round_dyadic(enclosed.upper(), format)
        if low == high or precision > most:
            return low
        precision *= 2


def _round_dyadic(x: flint.arb, format: str) -> float:
    """A dyadic number rounded to the format in whole-number arithmetic."""
    mantissa, exponent = (int(part) for part in x.man_exp())
    bits, lowest = _SHAPE[format]
    drop = max(abs(mantissa).bit_length() - bits, lowest - exponent)
    if drop <= 0:
        return math.ldexp(mantissa, exponent)
    whole, rest = divmod(abs(mantissa), 1 << drop)
    half = 1 << (drop - 1)
    whole += rest > half or (rest == half and whole % 2 == 1)
    return math.copysign(math.ldexp(whole, exponent + drop), mantissa)


# rounded angles


@lru_cache(maxsize=4096)
def _frequency(i: int, dim: int, base: float, format: str) -> float:
    """w_i correctly rounded; libraries that compute it in float32 may be an ulp off."""
    return 1.0 if i == 0 else _round_ball(lambda: exact_frequency(i, dim, base), format, most=4096)


def _sine_cosine_balls(angle: int) -> tuple[flint.arb, flint.arb]:
    exact = flint.arb(angle)
    return exact.sin(), exact.cos()


def _angle_phases(angle: Float) -> Phases:
    """Phases of float angles below 2^32: whole radians exactly, the rest to 2^-52 of a radian."""
    whole = np.floor(angle)
    per_radian = turns(0, 2, 10000)
    rest = (angle - whole) * (2.0**64 / (2 * math.pi))
    phases: Phases = per_radian.phase(whole.astype(np.uint64)) + rest.astype(np.uint64)
    return phases


def _library_values(angle: Float, work: str, library: str) -> tuple[Float, Float]:
    if library == "torch":
        torch = _torch()
        x = torch.from_numpy(angle).to(getattr(torch, work))
        return x.sin().to(torch.float64).numpy(), x.cos().to(torch.float64).numpy()
    x = angle.astype("float32" if work == "bfloat16" else work)
    return round_to(np.sin(x), work), round_to(np.cos(x), work)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise InputError("library torch is not installed: pip install 'regard[torch]', or choose numpy.") from None
    return torch

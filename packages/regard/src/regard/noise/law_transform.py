"""The law of one head's weight through the characteristic function of its logit.

For one head alpha_i > t says ln S' < s_i + ln((1-t)/t), with S' = sum_{l != i} e^{s_l} a sum of lognormals: everything
is in the law of the logit D = s_i - ln S'. With G ~ Gamma(N) independent of S', ln G - ln S' has the density
N P(Poisson(e^t S') = N), and a mixed Poisson law of a sum is a convolution, all of whose terms are positive. Its
Fourier transform divided by Gamma(N + iw)/Gamma(N) is that of -ln S'; times that of s_i it is that of D.

Dividing amplifies rounding like e^{w^2/2N}, multiplying damps it like e^{-sd^2 w^2/2}: N about 1/sd^2 balances the two.
Weak where s_i has a standard deviation below about 1/20 and the rest is rough; it notices, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.fft import irfft, rfft
from scipy.fft import next_fast_len
from scipy.special import gammainccinv, gammaincinv, loggamma, ndtri

from regard.array_types import Real
from regard.errors import CouldNotFindOut
from regard.noise.integrals import Rule, score_range
from regard.noise.scores import KeyLaw, Scores
from regard.noise.values import ROUNDING, Value, logit, logits


@dataclass(frozen=True, eq=False)
class Transform:
    """A logit known by its characteristic function at the frequencies (k + 1/2) * gap."""

    frequencies: Real  # F of them
    values: np.ndarray  # F complex numbers
    low: float  # beyond low and high nothing is left of the logit's law
    high: float
    left_out: float  # what the frequencies beyond the last may amount to
    rounding: float  # what rounding, amplified, may amount to

    @property
    def floor(self) -> float:
        """What no finer grid would better."""
        return ROUNDING + self.left_out + self.rounding

    def above(self, x: Real) -> Real:
        """P(logit > x) by Gil-Pelaez."""
        return self._sum(x, self.values / (1j * self.frequencies)) + 0.5

    def density(self, x: Real) -> Real:
        """The logit's density."""
        return self._sum(x, self.values)

    @cached_property
    def above_table(self) -> Any:
        """A spline of ``above`` over the whole range, for thousands of points at once (1e-10)."""
        return _spline(*self.above_points)

    @cached_property
    def density_table(self) -> Any:
        """A spline of ``density``, as :attr:`above_table`."""
        return _spline(*self.density_points)

    @cached_property
    def above_points(self) -> tuple[Real, Real]:
        """Even places over the whole range, 32 per shortest wave, and P(logit > x) there."""
        places, waves = self._even_waves(self.values / (1j * self.frequencies))
        return places, waves + 0.5

    @cached_property
    def density_points(self) -> tuple[Real, Real]:
        """The same places, and the logit's density there."""
        return self._even_waves(self.values)

    def _even_waves(self, values: np.ndarray) -> tuple[Real, Real]:
        # the shortest wave is 2 pi / the last frequency
        count = int((self.high - self.low) * 16 * self.frequencies[-1] / np.pi) + 32
        step = (self.high - self.low) / (count - 1)
        waves = even_waves(-self.low, -step, count, self.frequencies, values).real
        # the first frequency is half the gap, so the weight of the sum is gap/pi
        return np.linspace(self.low, self.high, count), 2 * self.frequencies[0] / np.pi * waves

    def _sum(self, x: Real, values: np.ndarray) -> Real:
        x = np.atleast_1d(np.asarray(x, float))
        waves = np.exp(-1j * np.outer(x, self.frequencies)) @ values
        return np.asarray(2 * self.frequencies[0] / np.pi * waves.real)


def _spline(x: Real, y: Real) -> Any:
    return scipy.interpolate.make_interp_spline(x, y, k=7)


BLOCK = 64  # places whose exponentials serve all other blocks


def even_waves(start: float, step: float, count: int, frequencies: Real, values: np.ndarray) -> np.ndarray:
    """sum_k values_k e^{i x_j w_k} at the even places x_j = start + j step.

    Exponentials are what it costs, and e^{i (x+y) w} = e^{i x w} e^{i y w}: those of one block of places serve all.

    >>> even_waves(0.0, np.pi, 3, np.array([1.0]), np.array([2.0])).real.round(12).tolist()
    [2.0, -2.0, 2.0]
    """
    within = np.exp(1j * np.outer(step * np.arange(min(BLOCK, count)), frequencies))
    blocks = np.exp(1j * np.outer(frequencies, start + step * np.arange(0, count, BLOCK)))
    return np.asarray((within @ (values[:, None] * blocks)).T.ravel()[:count])


def gamma_shape(sd: float) -> int:
    """The N that balances amplification against damping."""
    return int(min(max(np.ceil(1 / sd**2), 1), 200)) if sd > 0 else 200


def transform_law(own: KeyLaw, others: Scores) -> TransformLaw:
    """The law of the weight of a key among independent others, in one head.

    Raises CouldNotFindOut where the law is too rough for it.
    """
    fine = transform(own, others, 1e-13)
    if fine.left_out > 1e-8:
        raise CouldNotFindOut("The weight's law is too rough for the transform.")
    return TransformLaw(fine, own, others)


def transform(own: KeyLaw, others: Scores, tolerance: float) -> Transform:
    """The logit's characteristic function with discretisation errors near ``tolerance``; see the module's text."""
    E, N, sd = -np.log(tolerance), gamma_shape(own.sd(0)), own.sd(0)
    cut = float(-ndtri(tolerance / 4))
    # as far as the own score's Gaussian leaves anything; with the largest N no farther than rounding grows by e^16
    bandwidth = min(np.sqrt(2 * E) / sd if sd > 0 else np.inf, np.sqrt(2 * N * 16.0) if N == 200 else np.inf)
    step = 2 * np.pi / (bandwidth + _gamma_band(N, E))
    low, high = score_range(others.laws, others.counts, 0, cut)
    t, density = _log_ratio_density(others, N, low, high, step, cut, E)
    first, last = own.means.min() - cut * sd - high, own.means.max() + cut * sd - low
    # a period longer than the logit's range, so that nothing wraps around
    gap = 2 * np.pi / (1.05 * (last - first) + 1.0)
    w = gap * (np.arange(int(np.ceil(bandwidth / gap))) + 0.5)
    if len(w) * len(t) > 2**27:  # seconds of exponentials
        raise CouldNotFindOut("The scores spread too far for the transform.")
    hat = even_waves(gap / 2, gap, len(w), t, density)
    # one exponent for division and damping: either alone would leave the range of float64
    factor = np.exp(loggamma(N) - loggamma(N + 1j * w) - (sd * w) ** 2 / 2)
    hat *= step * factor
    hat *= np.exp(1j * np.outer(w, own.means[:, 0])) @ own.chances
    # what the last frequencies still carry stands for what comes after them
    left_out = float(np.abs(hat[-max(len(hat) // 16, 1) :]).max())
    return Transform(w, hat, float(first), float(last), left_out, 1e-14 * float(np.abs(factor).max()))


@lru_cache(maxsize=256)
def _gamma_band(N: int, E: float) -> float:
    """A frequency from which |Gamma(N + iw)/Gamma(N)| stays below e^-E."""
    w = np.linspace(0.0, 8 * np.sqrt(N * E) + 40, 4000)
    return float(w[np.argmax(loggamma(N + 1j * w).real - loggamma(N) < -E)])


def _log_ratio_density(
    others: Scores, N: int, low: float, high: float, step: float, cut: float, E: float
) -> tuple[Real, Real]:
    """The grid t and N P(Poisson(e^t S') = N) on it."""
    tail = np.exp(-E)
    start, stop = np.log(gammaincinv(N, tail)) - high, np.log(gammainccinv(N, tail)) - low
    count = int(np.ceil((stop - start) / step)) + 1
    if count * (N + 1) > 2**23:  # 64 MB for each law
        raise CouldNotFindOut("The scores spread too far for the transform.")
    t = start + step * np.arange(count)
    total: Real | None = None
    for law, number in zip(others.laws, others.counts, strict=True):
        part = _power(_mixed_poisson(law, t, N, Rule(step, cut, E)), int(number))
        total = part if total is None else _multiply(total, part)
    return t, N * np.asarray(total)[:, N]


def _mixed_poisson(law: KeyLaw, t: Real, N: int, rule: Rule) -> Real:
    """P(Poisson(e^{t+s}) = k) for k = 0..N, a row for every t."""
    k, sd = np.arange(N + 1), law.sd(0)
    scale = loggamma(k + 1.0)
    if sd < 4 * rule.step:  # too narrow for the grid of t: nodes of its own
        step = min(0.7, 0.8 * rule.step / sd if sd > 0 else 1.0) * min(1.0, 25 / rule.decay)
        x = step * np.arange(-int(rule.cut / step) - 1, int(rule.cut / step) + 2) if sd > 0 else np.zeros(1)
        weights = np.exp(-x * x / 2) * (step / np.sqrt(2 * np.pi) if sd > 0 else 1.0)
        out = np.zeros((len(t), N + 1))
        for chance, mean in zip(law.chances, law.means[:, 0], strict=True):
            for node, weight in zip(x, weights, strict=True):
                out += chance * weight * _poisson(t + mean + sd * node, k, scale)
        return out
    # wide enough: the Gaussian is a smoothing along the grid itself
    reach = int(np.ceil(rule.cut * sd / rule.step))
    offsets = rule.step * np.arange(-reach, reach + 1) / sd
    weights = rule.step / sd * np.exp(-(offsets**2) / 2) / np.sqrt(2 * np.pi)
    line = t[0] + rule.step * np.arange(-reach, len(t) + reach)
    mixed = sum(c * _poisson(line + m, k, scale) for c, m in zip(law.chances, law.means[:, 0], strict=True))
    return np.asarray(np.maximum(_convolve_columns(mixed, weights), 0.0))


def _convolve_columns(rows: Real, weights: Real) -> Real:
    """Every column convolved with the weights, where they overlap whole: scipy.signal's, which loads half of SciPy."""
    length = next_fast_len(len(rows) + len(weights) - 1, True)
    product = rfft(rows, length, axis=0) * rfft(weights, length)[:, None]
    return np.asarray(irfft(product, length, axis=0)[len(weights) - 1 : len(rows)])


def _poisson(z: Real, k: np.ndarray, scale: Real) -> Real:
    """P(Poisson(e^z) = k), rows z."""
    z = np.clip(z, -700.0, 60.0)[:, None]  # beyond, the chance of N events is 0 in float64 anyway
    out: Real = np.exp(k * z - np.exp(z) - scale)
    return out


def _multiply(a: Real, b: Real) -> Real:
    """Row by row, the law of the sum of two counts, cut at the same N."""
    out = np.zeros_like(a)
    for k in range(a.shape[1]):
        out[:, k:] += a[:, k : k + 1] * b[:, : a.shape[1] - k]
    return out


def _power(a: Real, number: int) -> Real:
    # by squaring: a hundred equal keys cost seven products
    result: Real | None = None
    while True:
        if number % 2:
            result = a if result is None else _multiply(result, a)
        number //= 2
        if not number:
            return a if result is None else result
        a = _multiply(a, a)


@dataclass(frozen=True, eq=False)
class TransformLaw:
    """One head's weight through its logit's characteristic function; an error estimate takes a coarser one too."""

    fine: Transform
    own: KeyLaw
    others: Scores
    method: str = "transform"

    @cached_property
    def coarse(self) -> Transform:
        """The same by larger steps."""
        return transform(self.own, self.others, 1e-9)

    def above(self, share: float) -> Value:
        """P(weight > share); the accuracy is how far the coarse computation is off."""
        a, b = (float(np.clip(f.above(np.array([logit(share)]))[0], 0, 1)) for f in (self.fine, self.coarse))
        return Value(*self._value_and_accuracy(share, a, b))

    def value_above(self, share: float) -> float:
        """The same value without its accuracy, in half the time: while a hand drags."""
        return float(self.sketch(np.array([share]))[0])

    def sketch(self, shares: Real) -> Real:
        """P(weight > share) for many shares at once, without an error estimate: for pictures."""
        places = logits(shares)
        inside = np.clip(self.fine.above(places), 0.0, 1.0)
        return np.where(places <= self.fine.low, 1.0, np.where(places >= self.fine.high, 0.0, inside))

    def density(self, share: float) -> Value:
        """The density at a share."""
        slope = 1 / (share * (1 - share))
        a, b = (slope * float(f.density(np.array([logit(share)]))[0]) for f in (self.fine, self.coarse))
        inside = self.fine.low < logit(share) < self.fine.high
        return (
            # the floor is per frequency, and a density adds them all up
            Value(max(a, 0.0), abs(a - b) + slope * self.fine.floor * self.fine.frequencies[-1])
            if inside
            else Value(0.0, slope * 1e-9)
        )

    def _value_and_accuracy(self, share: float, a: float, b: float) -> tuple[float, float]:
        if not self.fine.low < logit(share) < self.fine.high:
            return float(logit(share) <= self.fine.low), ROUNDING
        return a, abs(a - b) + self.fine.floor

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
from scipy.special import expit, gammainccinv, gammaincinv, log_expit, loggamma, ndtri

from regard.array_types import Real
from regard.errors import CouldNotFindOut
from regard.noise.integrals import Rule, score_range, trapezoid
from regard.noise.scores import ROUNDING, KeyLaw, Scores, Value, WeightLaw, logit, logits


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
        x, weights = trapezoid(step, rule.cut) if sd > 0 else (np.zeros(1), np.ones(1))
        out = np.zeros((len(t), N + 1))
        for chance, mean in zip(law.chances, law.means[:, 0], strict=True):
            for node, weight in zip(x, weights, strict=True):
                out += chance * weight * _poisson(t + mean + sd * node, k, scale)
        return out
    # wide enough: the Gaussian is a smoothing along the grid itself
    _, weights = trapezoid(rule.step / sd, rule.cut)
    reach = len(weights) // 2
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
class TransformLaw(WeightLaw):
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
        if not self.fine.low < logit(share) < self.fine.high:
            return Value(float(logit(share) <= self.fine.low), ROUNDING)
        return Value(a, abs(a - b) + self.fine.floor)

    def value_above(self, share: float) -> float:
        return float(self.sketch(np.array([share]))[0])

    def sketch(self, shares: Real) -> Real:
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


FAINT = 16.0  # e^-16 of a picture is nothing


@dataclass(frozen=True, eq=False)
class TwoHeadsLaw(WeightLaw):
    """The mean of the same key's weight in two heads with independent noise.

    P(A + B > 2t) = P(A > 2t) + int f(x) P(B > 2t - sigmoid(x)) dx over the logit x of A. Near the point x_0 where the
    bracket reaches 0 or 1 the integrand lives on a logarithmic scale, so x = x_0 -+ ln(1 + e^v) and the trapezoid rule
    in v, once with half the step for the error estimate.
    """

    first: TransformLaw
    second: TransformLaw
    method: str = "two heads"

    def above(self, share: float) -> Value:
        """P(mean weight > share)."""
        fine, coarse = (self._integral(share, rough, density=False) for rough in (False, True))
        alone = self.first.above(2 * share) if share < 0.5 else Value(0.0, 0.0)
        return Value(float(np.clip(alone.value + fine, 0, 1)), abs(fine - coarse) + alone.accuracy + 1e-10)

    def value_above(self, share: float) -> float:
        alone = self.first.value_above(2 * share) if share < 0.5 else 0.0
        return float(np.clip(alone + self._integral(share, False, density=False), 0, 1))

    def sketch(self, shares: Real) -> Real:
        """P(mean weight > share) for many shares at once by large steps, with straight lines between the points of
        the tables and no error estimate: for pictures."""
        A, B = self.first.fine, self.second.fine
        step = min(0.5, 1.8 / A.frequencies[-1], 1.8 / B.frequencies[-1])
        edges = [abs(logit(abs(2 * share - 1))) for share in shares.tolist() if share != 0.5]
        low = min(-FAINT, A.low) if 0.5 in shares else -FAINT
        v = np.arange(low, max(A.high, -A.low, 0.0) + max(edges, default=0.0) + FAINT, step)
        near = np.maximum(v, -300.0)  # farther out only one half has anything
        total = np.zeros_like(shares)
        total[shares < 0.5] = self.first.sketch(2 * shares[shares < 0.5])
        for side in (shares < 0.5, shares > 0.5, shares == 0.5):
            if side.any():
                x, log_b, log_rest, jacobian = _partner(shares[side, None], v if shares[side][0] == 0.5 else near)
                density = np.interp(x, *A.density_points, left=0.0, right=0.0)
                above = np.interp(log_b - log_rest, *B.above_points, left=1.0, right=0.0)
                total[side] += step * np.sum(density * above * jacobian, axis=-1)
        return np.asarray(np.clip(total, 0, 1))

    def density(self, share: float) -> Value:
        """The density of the mean weight."""
        fine, coarse = (2 * self._integral(share, rough, density=True) for rough in (False, True))
        return Value(max(fine, 0.0), abs(fine - coarse) + 1e-10 * (1 + fine))

    def _integral(self, share: float, rough: bool, *, density: bool) -> float:
        A, B = (law.coarse if rough else law.fine for law in (self.first, self.second))
        step, v = _places(A, B, share, rough=rough, density=density)
        x, log_b, log_rest, jacobian = _partner(share, v)
        inside = (x > A.low) & (x < A.high)
        x, log_b, log_rest, rate = x[inside], log_b[inside], log_rest[inside], jacobian[inside]
        if density:  # f_B(b) = f(logit b) / (b (1 - b)): the 1/b meets the Jacobian, so both are taken as logs
            rate = np.exp(np.log(rate) - log_b - log_rest)
        of_a, of_b = _values_in_range(A, x, density=True), _values_in_range(B, log_b - log_rest, density=density)
        return float(step * np.sum(of_a * of_b * rate))


def _places(A: Transform, B: Transform, share: float, *, rough: bool, density: bool) -> tuple[float, Real]:
    """The step of the trapezoid rule, and its places v; at one half they are all logits of A themselves."""
    step = min(0.2, 1.5 / A.frequencies[-1], 1.5 / B.frequencies[-1]) / (1 if rough else 2)
    # dx/dv is about e^v for small v: nothing is left of it at -45. The density of B cancels that factor by its 1/b:
    # there the places go on as far as B's logits do
    low, high = -45.0 + min(B.low, -B.high, 0.0) * density, max(A.high, -A.low, 0.0) + 80.0
    low = min(low, A.low) if share == 0.5 else low
    return step, step * np.arange(int(low / step), int(high / step) + 1)


def _values_in_range(law: Transform, y: Real, *, density: bool) -> Real:
    """P(logit > y), or the density at y, which are known beyond the ends of the law."""
    clipped = np.clip(y, law.low, law.high)
    if density:
        return np.where(y == clipped, np.maximum(law.density_table(clipped), 0.0), 0.0)
    return np.where(y == clipped, np.clip(law.above_table(clipped), 0.0, 1.0), (y < clipped).astype(float))


def _partner(shares: float | Real, v: Real) -> tuple[Real, Real, Real, Real]:
    """x over the logits of A, ln b and ln(1-b) of b = 2 share - sigmoid(x) in (0, 1), and dx/dv.

    For one share, or for a column of them that all lie on one side of one half.
    """
    if np.all(shares == 0.5):
        return v, log_expit(-v), log_expit(v), np.ones_like(v)
    soft = np.logaddexp(0.0, v)
    if np.all(shares < 0.5):
        edge = logits(2 * shares)
        x = edge - soft
        # sigmoid(edge) - sigmoid(x) = sigmoid(edge) (1 - sigmoid(x)) (1 - e^{x - edge})
        log_b = log_expit(edge) + log_expit(-x) + np.log(-np.expm1(-soft))
        return x, log_b, np.log1p(-np.exp(log_b)), expit(v)
    edge = logits(2 * shares - 1)
    x = edge + soft
    log_rest = log_expit(x) + log_expit(-edge) + np.log(-np.expm1(-soft))
    return x, np.log1p(-np.exp(log_rest)), log_rest, expit(v)

"""The law of one head's weight where every score is nearly fixed.

alpha_i > t says X = sum_{l != i} e^{s_l} - r e^{s_i} < 0 with r = (1-t)/t, and where no score has a standard deviation
above 0.8 the sum X has a characteristic function that decays soon: a product of lognormal ones, inverted by Gil-Pelaez,

    P(X < 0) = 1/2 - (1/pi) int_0^inf Im E e^{iwX} / w dw.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from regard.array_types import Real
from regard.errors import CouldNotFindOut
from regard.noise.scores import KeyLaw, Scores
from regard.noise.values import ROUNDING, Value

WIDEST = 0.8  # standard deviation of a score; beyond it a lognormal's long tail asks for too many frequencies


@dataclass(frozen=True, eq=False)
class NarrowLaw:
    """The weight of a key with law ``own`` among independent ``others``, at two accuracies."""

    own: KeyLaw
    others: Scores
    method: str = "characteristic function"

    def above(self, share: float) -> Value:
        """P(weight > share); the accuracy is how far the coarse computation is off."""
        certain = self._out_of_reach(share)
        if certain is not None:
            return certain
        fine, coarse = (self._invert(share, tolerance, 0) for tolerance in (1e-13, 1e-9))
        return Value(float(np.clip(0.5 - fine, 0, 1)), abs(fine - coarse) + ROUNDING)

    def density(self, share: float) -> Value:
        """The density at a share: that of sum e^{s_l} / e^{s_i} at r, times |dr/dshare| = 1/share^2."""
        slope = 1 / (share * (1 - share))
        fine, coarse = (slope * self._invert(share, tolerance, 1) for tolerance in (1e-13, 1e-9))
        return Value(max(fine, 0.0), abs(fine - coarse) + ROUNDING * (slope + fine))

    def _invert(self, share: float, tolerance: float, order: int) -> float:
        """(1/pi) int Im E e^{iwX} / w dw for order 0, (1/pi) int Re E O e^{iwX} dw with O = r e^{s_i} for order 1."""
        cut, own, others = float(-ndtri(tolerance)), *self._rescale_scores(share)
        gap = 2 * np.pi / _period(own, others, cut)
        total = 0.0
        for start in range(0, 2**18, 256):  # in blocks, until nothing is left of the transform
            # half-way points: the integrand has a limit at 0, but no value
            w = gap * (np.arange(start, start + 256) + 0.5)
            # X holds the key's own term with a minus: the conjugate
            hat = np.conj(lognormal_transform(own, w, cut, order))
            for law, count in zip(others.laws, others.counts, strict=True):
                hat = hat * lognormal_transform(law, w, cut, 0) ** int(count)
            total += gap / np.pi * float(hat.real.sum() if order else (hat.imag / w).sum())
            if np.abs(hat).max() < tolerance:
                return total
        raise CouldNotFindOut("The weight's law is too rough for its characteristic function.")

    def _out_of_reach(self, share: float, tolerance: float = 1e-13) -> Value | None:
        """0 or 1 where X keeps its sign while no score leaves its mean by more than -Phi^-1(tolerance) deviations."""
        cut, own, others = float(-ndtri(tolerance)), *self._rescale_scores(share)
        (least, most), (below, above) = _reach(own, cut), (0.0, 0.0)
        for law, count in zip(others.laws, others.counts, strict=True):
            low, high = _reach(law, cut)
            below, above = below + count * low, above + count * high
        accuracy = 2 * tolerance * (1 + int(others.counts.sum())) + ROUNDING
        if below > most * (1 + ROUNDING):
            return Value(0.0, accuracy)
        return Value(1.0, accuracy) if above * (1 + ROUNDING) < least else None

    def _rescale_scores(self, share: float) -> tuple[KeyLaw, Scores]:
        """Scores shifted so that the largest term of X is near 1, with ln r put into the key's own."""
        shift = np.log1p(-share) - np.log(share)
        top = max(float(self.own.means.max()) + shift, *(float(law.means.max()) for law in self.others.laws))
        own = KeyLaw(self.own.chances, self.own.means + shift - top, self.own.covariance)
        laws = tuple(KeyLaw(law.chances, law.means - top, law.covariance) for law in self.others.laws)
        return own, Scores(laws, self.others.which)


def _period(own: KeyLaw, others: Scores, cut: float) -> float:
    """Twice the distance from 0 that X can reach, so that the sum over frequencies wraps around nothing."""
    laws, counts = (*others.laws, own), np.append(others.counts, 1)
    sd = np.sqrt(sum(count * _variance(law) for law, count in zip(laws, counts, strict=True)))
    if sd == 0:
        raise CouldNotFindOut("The weight is not random.")
    centre = sum(count * _mean(law) for law, count in zip(others.laws, others.counts, strict=True)) - _mean(own)
    widest = max(_reach(law, cut)[1] - _mean(law) for law in laws)
    return float(2 * (abs(centre) + widest + (cut + 4) * sd))


def _reach(law: KeyLaw, cut: float) -> tuple[float, float]:
    """The least and the largest e^s within ``cut`` standard deviations."""
    away = cut * law.sd(0)
    return float(np.exp(law.means.min() - away)), float(np.exp(law.means.max() + away))


def _mean(law: KeyLaw) -> float:
    return float(np.exp(law.means[:, 0] + law.sd(0) ** 2 / 2) @ law.chances)


def _variance(law: KeyLaw) -> float:
    second = float(np.exp(2 * law.means[:, 0] + 2 * law.sd(0) ** 2) @ law.chances)
    within = float((np.exp(2 * law.means[:, 0] + law.sd(0) ** 2) @ law.chances) * np.expm1(law.sd(0) ** 2))
    # the difference of squares cancels; with a single mean there is a form that does not
    return max(second - _mean(law) ** 2, 0.0) if len(law.chances) > 1 else within


def lognormal_transform(law: KeyLaw, w: Real, cut: float, order: int) -> np.ndarray:
    """E e^{order s} exp(i w e^s), by a trapezoid rule fine enough for the fastest oscillation."""
    sd = law.sd(0)
    reach = float(np.exp(law.means.max() + min(cut, 6) * sd))
    # e^{iw e^s} turns by w e^s sd for every standard deviation: a step is at most one radian of that
    step = min(0.5, 1.0 / (1 + sd * w[-1] * reach)) if sd > 0 else 1.0
    x = step * np.arange(-int(cut / step) - 1, int(cut / step) + 2) if sd > 0 else np.zeros(1)
    weights = np.exp(-x * x / 2) * (step / np.sqrt(2 * np.pi) if sd > 0 else 1.0)
    out = np.zeros(len(w), complex)
    for chance, mean in zip(law.chances, law.means[:, 0], strict=True):
        e = np.exp(mean + sd * x)
        out += chance * (np.exp(1j * np.outer(w, e)) @ (weights * e**order))
    return out

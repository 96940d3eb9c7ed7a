"""The law of a weight averaged over two heads whose noise is independent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from regard.array_types import Real
from regard.noise.law_transform import Transform, TransformLaw
from regard.noise.values import Value, logit, logits

FAINT = 16.0  # e^-16 of a picture is nothing


@dataclass(frozen=True, eq=False)
class TwoHeadsLaw:
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
        """The same value without its accuracy, in half the time: while a hand drags."""
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
        x, log_b, log_rest, jacobian = x[inside], log_b[inside], log_rest[inside], jacobian[inside]
        y = log_b - log_rest
        if density:  # f_B(b) = f(logit b) / (b (1 - b)): the 1/b meets the Jacobian, so both are taken as logs
            rate = np.exp(np.log(jacobian) - log_b - log_rest)
            return float(
                step * np.sum(_values_in_range(A, x, density=True) * _values_in_range(B, y, density=True) * rate)
            )
        return float(
            step * np.sum(_values_in_range(A, x, density=True) * _values_in_range(B, y, density=False) * jacobian)
        )


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

"""What an error in the scores does to the weights after the softmax: tight bounds, and the truth beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.arrays import as_array, check_array
from regard.attention import softmax
from regard.errors import InputError
from regard.lowrank.singular import Spectrum
from regard.results import Result
from regard.rigor import check_arithmetic
from regard.rigor.matrices import PAY, gamma
from regard.written_numbers import at_most


def weight_change(error: float) -> tuple[float, float]:
    """Scores off by at most e each: the largest factor on a weight, exp(2e), and total variation, tanh(e/2).

    With d = s' - s in [-e, e]: w'_i / w_i = exp(d_i) / sum_l w_l exp(d_l), between exp(-2e) and exp(2e). For
    a set S of keys with weight p, w'(S) is largest at d = e on S and -e off it, where it is
    p t / (1 - p + p t), t = exp(2e). Its excess over p is largest at p = 1 / (1 + exp(e)), and there it is
    (exp(e) - 1) / (exp(e) + 1) = tanh(e/2). Two keys with scores (-e/2, e/2) moved to (e/2, -e/2) attain it.
    The first is approached, not attained, when a weight is nearly 0. Weights do not feel a shift of all
    scores, so e may be half the spread max d - min d.

    >>> factor, variation = weight_change(0.1)
    >>> round(factor, 4), round(variation, 4)
    (1.2214, 0.05)
    """
    if not error >= 0:
        raise InputError(f"error must be a number, 0 or more, not {error}.")
    # e^700 is the last that float64 holds
    return (math.exp(2 * error) if error < 350 else math.inf), math.tanh(error / 2)


def variation_bound(error: npt.ArrayLike, largest_weight: npt.ArrayLike) -> Float:
    """Total variation possible where the largest weight is known: less than tanh(e/2) once one key dominates.

    A set of keys weighs at most 1 - p or at least p, p the largest weight; the excess
    f(x) = x t / (1 - x + x t) - x of :func:`weight_change` rises up to x = 1 / (1 + exp(e)) and falls after.

    >>> float(variation_bound(0.1, 0.5).round(4)), float(variation_bound(0.1, 0.99).round(4))
    (0.05, 0.0022)
    """
    e, p = np.asarray(error, dtype=np.float64), np.asarray(largest_weight, dtype=np.float64)
    peak = np.tanh(e / 2)
    one_minus = 1 - p
    free = one_minus * (1 + np.exp(np.minimum(e, 700.0))) >= 1  # the best set is within reach
    fixed = np.maximum(_excess(one_minus, e), _excess(p, e))
    return np.where(free, peak, np.minimum(fixed, peak))


def _excess(x: Float, e: Float) -> Float:
    # numerator and denominator times e^{-2e}: nothing overflows for large errors
    shrink = np.exp(-2 * e)
    denominator = x + (1 - x) * shrink
    return np.where(denominator > 0, x * (1 - x) * -np.expm1(-2 * e) / np.where(denominator > 0, denominator, 1), 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftmaxEffect(Result):
    """Row by row of the queries: what the approximation can do to the weights (proved), and what it does."""

    rank: int
    scale: float
    spectral_error: float
    score_bound: Float  # half the spread of a row's score errors is at most this
    variation_bound: Float  # so its weights change by at most this in total variation
    score_error: Float  # the half spread that was found
    variation: Float  # the total variation that was found

    def __str__(self) -> str:
        worst = int(np.argmax(self.variation_bound))
        return (
            f"Softmax of the scores (scale {self.scale:.6g}) with the rank-{self.rank} approximation, spectral "
            f"error at most {at_most(self.spectral_error, 6)}, over {len(self.variation)} queries.\n"
            f"Proved: no score is off by more than {at_most(self.score_bound.max(), 4)} (up to a shift of its row), no "
            f"weight by more than a factor {at_most(weight_change(float(self.score_bound.max()))[0], 4)}, no row by "
            f"more than {at_most(self.variation_bound[worst], 4)} in total variation (row {worst}, counted from 0).\n"
            f"Found: scores off by at most {at_most(self.score_error.max(), 4)}, rows by at most "
            f"{at_most(self.variation.max(), 4)}, and by {self.variation.mean():.4g} on average."
        )


def softmax_effect(
    spectrum: Spectrum,
    *,
    rank: int,
    inputs: npt.ArrayLike,
    key_inputs: npt.ArrayLike | None = None,
    scale: float = 1.0,
) -> SoftmaxEffect:
    """How far the weights softmax(scale X M Y^T) move when M is cut to its best approximation of ``rank``.

    With E the error and c any centre, scores differ, up to a shift of the row, by at most
    scale ||x|| ||E||_2 max_i ||y_i - c|| (Cauchy-Schwarz; the shift x^T E c changes no weight). Here c is
    the mean of the y or 0, whichever is better; then :func:`variation_bound`. The bounds cover exact
    arithmetic; what is found is computed in double precision.

    ``spectrum``: of M, or of a product such as W_Q W_K^T. ``inputs``: X, one row per query.
    ``key_inputs``: Y, the same X if left out. ``scale``: usually 1 / sqrt(head width).

    >>> from regard.lowrank import spectrum
    >>> effect = softmax_effect(spectrum(np.diag([3.0, 0.5])), rank=1, inputs=np.eye(2))
    >>> effect.score_bound.round(4).tolist(), effect.variation.round(4).tolist()
    ([0.3536, 0.3536], [0.0, 0.1225])
    """
    check_arithmetic()
    x = check_array(inputs, what="inputs")
    y = x if key_inputs is None else check_array(key_inputs, what="key inputs")
    _refuse(spectrum.shape, x, y, scale)
    cut = spectrum.truncate(rank)
    true = scale * spectrum.bilinear(x, y)
    near = scale * ((x @ cut.left) @ (y @ cut.right).T)
    weights, moved = softmax(true), softmax(near)
    lengths = np.linalg.norm(x, axis=1)
    reach = min(_longest(y), _longest(y - y.mean(axis=0)))
    bound = abs(scale) * cut.spectral_error_above * lengths * reach * PAY
    # The largest weight was computed from rounded scores; what it is at least:
    rounding = abs(scale) * gamma(sum(spectrum.shape) + 64) * spectrum.size * lengths * _longest(y)
    largest = weights.max(axis=1) * np.exp(-2 * rounding) / PAY
    return SoftmaxEffect(
        rank=rank,
        scale=scale,
        spectral_error=cut.spectral_error_above,
        score_bound=bound,
        variation_bound=np.minimum(variation_bound(bound, largest) * PAY, 1.0),
        score_error=np.ptp(near - true, axis=1) / 2,
        variation=np.abs(weights - moved).sum(axis=1) / 2,
    )


def _longest(rows: Float) -> float:
    return float(np.max(np.linalg.norm(rows, axis=1)))


def _refuse(shape: tuple[int, int], x: Float, y: Float, scale: float) -> None:
    if x.shape[1] != shape[0] or y.shape[1] != shape[1]:
        raise InputError(
            f"The inputs need rows of {shape[0]} and {shape[1]} numbers to meet a matrix of shape {shape}, "
            f"but have shapes {x.shape} and {y.shape}."
        )
    as_array(scale, "scale")
    if not math.isfinite(scale):
        raise InputError(f"scale must be a finite number such as 0.125, not {scale}.")

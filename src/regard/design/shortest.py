"""The shortest query for one constraint: min ||q|| subject to f(q) = LSE(D q) <= b.

D holds, as rows, the keys that compete minus the anchor: for copying key j the rows k_i - k_j and b = ln(eps); for
matching a distribution p within KL delta the rows k_i - p.K and b = H(p) + delta. LSE is log-sum-exp.

**Method.** Lagrangian Newton with an approximate Hessian. At (q, lam), with w = softmax(D q) and g = D^T w, the step
solves the linearised optimality conditions with B ~ I + lam Cov_w(D). B starts as the identity (exact at q = 0),
learns by BFGS updates and, where that is slow, is rebuilt from a deterministic importance sample of the rows.
Backtracking on ½||q||² + lam f(q) makes every step a descent; lam is held while a line search is cutting steps,
which makes this a path-following method that cannot run away. Scores are linear in q, so a line search costs no
product with D: an iteration costs two.

**Every iterate gives both bounds.** w gives the lower bound (H(w) - b) / ||g||, and a rescaled q the upper one. Both
have second-order error, so a gap of 1e-10 needs q to five digits only: that is why a rough B is enough. Nothing
here is trusted afterwards: `regard.design.certificate` recomputes both from the keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri

Array = NDArray[np.float64]

MOST_ITERATIONS = 400  # real problems take 3 to 30
SAMPLE_PER_DIMENSION = 4  # rows in a sampled Hessian, per dimension of the keys
STIFFEST = 1e26  # the multiplier beyond which curvature is noise
HOPELESS = 1e13  # a norm (in units of the largest row) beyond which no float64 query proves anything


@dataclass(frozen=True, eq=False)
class Shortest:
    """A query on the constraint, the dual weights, and the bounds that they give; `upper` is inf if none was found."""

    query: Array
    weights: Array
    lower: float
    upper: float
    iterations: int

    @property
    def gap(self) -> float:
        return self.upper / self.lower - 1 if self.lower > 0 else inf


def shortest(rows: Array, bound: float, *, gap: float = 2e-10) -> Shortest:
    """Solve it to the given relative gap, or return the best bounds that were reached.

    Rows are expected at a scale near 1. The caller has seen to it that q = 0 does not satisfy the constraint.

    >>> found = shortest(np.array([[-1.0, 0.0], [-1.0, 0.0]]), np.log(0.01))   # ln(2 / 0.01), straight ahead
    >>> found.query.round(6).tolist(), round(found.lower, 6)
    ([5.298317, 0.0], 5.298317)
    """
    n, d = rows.shape
    sample = min(n, max(SAMPLE_PER_DIMENSION * d, 1024))
    rebuild_price = rebuild_cost(n, d, sample)
    query, scores = np.zeros(d), np.zeros(n)
    value, weights = log(n), np.full(n, 1 / n)
    gradient = weights @ rows
    inverse = np.eye(d)
    lower, upper, best_query, best_weights = (
        _dual_bound(value, weights, scores, gradient, bound),
        inf,
        query,
        weights,
    )
    multiplier, error, age, fresh, cut, off_path = 0.0, inf, 1.0, False, False, 0.0
    iteration = 0
    while iteration < MOST_ITERATIONS and upper > lower * (1 + gap) and lower < HOPELESS and abs(multiplier) < STIFFEST:
        iteration += 1
        # the step: (query, multiplier) of the linearised optimality conditions
        back_query, back_gradient = inverse @ query, inverse @ gradient
        wanted = float((value - bound - gradient @ back_query) / (gradient @ back_gradient))
        if iteration == 1:
            multiplier = wanted
        elif not (cut and off_path > 0.1):
            multiplier = min(max(wanted, multiplier / 4), 8 * multiplier)
        step = -(back_query + multiplier * back_gradient)

        # the line search
        change = rows @ step
        square, cross, stretch = query @ query, query @ step, step @ step
        start, slope = 0.5 * square + multiplier * value, cross + multiplier * (gradient @ step)
        length = 1.0
        while True:
            tried = scores + length * change
            tried_value, tried_weights = log_sum_exp(tried)
            merit = 0.5 * (square + 2 * length * cross + length**2 * stretch) + multiplier * tried_value
            if merit <= start + 1e-4 * length * slope + 1e-12 * abs(start) or length < 1e-9:
                break
            length *= 0.5
        cut = length < 1
        step *= length
        query, scores, value, weights = query + step, tried, tried_value, tried_weights
        before, gradient = gradient, weights @ rows
        turn = step + multiplier * (gradient - before)

        # both bounds; the upper one only when a first-order look says that it will be close
        bound_now = _dual_bound(value, weights, scores, gradient, bound)
        if bound_now > lower:
            lower, best_weights = bound_now, weights
        size, along = sqrt(query @ query), float(weights @ scores)
        if along < 0 and (guess := 1 + (bound - value) / along) > 0 and guess * size < 1.01 * lower:
            factor = onto_constraint(scores, bound, guess)
            if factor * size < upper:
                upper, best_query = factor * size, factor * query

        # learn the curvature: a BFGS update, or a rebuilt Hessian where progress is slow and it is worth its price
        residual = query + multiplier * gradient
        off_path = sqrt(residual @ residual) / max(size, 1e-300)
        last, error = error, off_path + abs(value - bound) / max(1.0, abs(bound))
        slow = cut or (error > 0.3 * last and not fresh) or (iteration == 1 and error > 0.3)
        age += 1
        fresh = slow and age > rebuild_price
        if fresh:
            inverse, age = rebuilt_inverse(rows, weights, gradient, multiplier, sample), 0.0
        else:
            update_inverse(inverse, step, turn)
    return Shortest(
        query=best_query, weights=best_weights, lower=float(lower), upper=float(upper), iterations=iteration
    )


def log_sum_exp(scores: Array) -> tuple[float, Array]:
    """LSE and softmax of one vector of scores."""
    top = scores.max()
    weights = np.exp(scores - top)
    total = weights.sum()
    weights /= total
    return float(top) + log(total), weights


def _dual_bound(value: float, weights: Array, scores: Array, gradient: Array, bound: float) -> float:
    entropy = value - float(weights @ scores)  # H(w), since ln w_i = s_i - LSE
    length = sqrt(gradient @ gradient)
    return max(entropy - bound, 0.0) / length if length > 0 else inf


def onto_constraint(scores: Array, bound: float, start: float) -> float:
    """The factor t near `start` with LSE(t scores) <= bound, by Newton from the infeasible side; inf if none."""
    factor = start
    for _ in range(30):
        if not factor < 1e6 * start:  # where the slope fades out
            return inf
        value, weights = log_sum_exp(factor * scores)
        if value <= bound + 4e-16 * (1 + abs(bound)):  # the check finds the last digits
            return factor
        slope = float(weights @ scores)
        if slope >= 0:
            return inf
        # on a convex function Newton falls short by less each time; a small overshoot ends it on the right side
        factor += (bound - value) / slope * (1 + 1e-3) + 4e-16 * factor
    return inf


def update_inverse(inverse: Array, step: Array, turn: Array) -> None:
    """The BFGS update of an inverse Hessian, in place; skipped where the curvature is lost in rounding."""
    curvature = step @ turn
    if not curvature > 1e-12 * sqrt(step @ step) * sqrt(turn @ turn):
        return
    image = inverse @ turn
    half = (0.5 * (1 + (turn @ image) / curvature) * step - image)[:, None] * (step / curvature)
    inverse += half
    inverse += half.T


def rebuilt_inverse(rows: Array, weights: Array, mean: Array, multiplier: float, sample: int) -> Array:
    """(I + lam Cov_w(rows))^-1, the covariance from rows taken at even steps along the cumulated weights."""
    d = rows.shape[1]
    if sample < len(weights):
        total = np.cumsum(weights)
        marks = (np.arange(sample) + 0.5) * (total[-1] / sample)
        taken, counts = np.unique(np.searchsorted(total, marks), return_counts=True)
        centred, share = rows[np.minimum(taken, len(weights) - 1)] - mean, counts / sample
    else:
        centred, share = rows - mean, weights
    centred *= np.sqrt(share * multiplier)[:, None]
    hessian = centred.T @ centred
    hessian.flat[:: d + 1] += 1.0
    factor, _ = dpotrf(hessian, lower=1, overwrite_a=1)
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    inverse = np.tril(inverse)
    return np.ascontiguousarray(inverse + np.tril(inverse, -1).T)


def rebuild_cost(n: int, d: int, sample: int, sharing: int = 1) -> float:
    """After how many iterations a rebuilt Hessian is worth its price: its arithmetic against products with the keys.

    `sharing` targets do those products together (up to a dozen times cheaper), but rebuild alone.
    """
    return 0.5 * min(sharing, 12) * (sample + d) * d / (25.0 * n)

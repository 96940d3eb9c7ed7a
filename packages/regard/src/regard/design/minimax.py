"""Several constraints at once, and norm budgets: Newton along the path of ½||q||² + L F(q).

F(q) = max_m ( LSE(P q) - a_m.q - b_m ), with the competing points P, the anchors a_m and the bounds b_m. Sharing keys
S within eps takes one anchor per key of S. For L > 0 the minimiser of ½||q||² + L F(q) is unique; as L grows it runs
from 0 through the best query of every norm. So one path answers two questions:

- `shortest_minimax`: the first point with F <= 0, that is, the shortest query that meets every constraint;
- `strongest`: the point of norm R, the most that a query of that norm can do (with a huge R: of any norm).

Each step solves a quadratic model with the exact Hessian I + L Cov_w(P); its dual has one variable per constraint and
is solved by non-negative least squares. Bounds: with w = softmax(P q) and mu the normalised multipliers,
F >= H(w) - mu.b - ||q|| ||P^T w - A^T mu|| for every q. Nothing here is trusted afterwards: see `certificate`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from regard.array_types import Float
from regard.design.shortest import (
    HOPELESS,
    OUT_OF_REACH,
    STIFFEST,
    ShiftedKeys,
    entropy,
    gives_up,
    log_sum_exp,
    shortest,
)
from regard.rigor import row_chunks

MOST_ITERATIONS = 300
FEW_DIMENSIONS = 64  # up to which NumPy solves the model sooner than SciPy has found the routine
BLOCK = 1 << 21  # numbers that a Hessian is made of at once
MOST_CHOSEN = 16  # keys that are shared by way of copying: each cuts the others into one more run
PATIENCE = 25  # iterations without any better bound, after which rounding has the last word


@dataclass(frozen=True, eq=False)
class Minimax:
    """A query, dual weights over points and anchors, and the bounds they give on what was asked (norm or value)."""

    query: Float  # d numbers
    weights: Float  # n, a distribution over the points
    mixture: Float  # mu, a distribution over the anchors
    lower: float
    upper: float
    iterations: int


@dataclass(frozen=True, eq=False)
class _Point:
    """Everything known at one query."""

    query: Float
    value: float  # F(q)
    excess: Float  # each constraint's value
    weights: Float
    mean: Float  # P^T w
    entropy: float


class _Path:
    """The quadratic model along the path, for fixed points, anchors and bounds."""

    def __init__(self, points: Float, anchors: Float, bounds: Float) -> None:
        self.points, self.anchors, self.bounds = points, anchors, bounds
        self.now = self.at(np.zeros(points.shape[1]))
        self.penalty = 0.0  # L
        self.mixture = np.full(len(bounds), 1 / len(bounds))
        self.cut = False  # did the line search shorten the last step?
        self.off_path = 0.0  # how far q is from its place on the path, relatively
        self.nearing = False  # did the last step take nine tenths of that away?

    def at(self, query: Float, scores: Float | None = None) -> _Point:
        scores = self.points @ query if scores is None else scores
        level, weights = log_sum_exp(scores)
        excess = level - self.anchors @ query - self.bounds
        return _Point(
            query=query,
            value=float(excess.max()),
            excess=excess,
            weights=weights,
            mean=weights @ self.points,
            entropy=level - float(weights @ scores),
        )

    def slack(self, mixture: Float) -> Float:
        """P^T w - A^T mu, the vector whose length limits what any query can gain."""
        return self.now.mean - mixture @ self.anchors

    def dual_numerator(self, mixture: Float) -> float:
        return self.now.entropy - float(mixture @ self.bounds)

    def model(self) -> bool:
        """The Hessian of F here, and the quadratic model with the penalty of the path so far."""
        now, d = self.now, self.points.shape[1]
        self.covariance, sizes = np.zeros((d, d)), np.sqrt(now.weights)
        for some in row_chunks(len(sizes), d, BLOCK):  # so that no copy is made of all the points
            centred = (self.points[some] - now.mean) * sizes[some, None]
            self.covariance += centred.T @ centred
        self.slopes = now.mean - self.anchors  # gradients of the constraints
        return self.factor(self.penalty)

    def factor(self, penalty: float) -> bool:
        """Factor I + L Cov and set the dual of the quadratic model, min ½ l^T A l - r^T l over l >= 0.

        False where the path has become too stiff for that, or no constraint has any slope.
        """
        if not penalty < STIFFEST:
            return False
        hessian = penalty * self.covariance
        hessian.flat[:: len(hessian) + 1] += 1.0
        right = np.concatenate([self.now.query[:, None], self.slopes.T], axis=1)
        try:
            solved = _solve_positive_definite(hessian, right)
        except np.linalg.LinAlgError:
            return False
        self.back_query, self.back_slopes = solved[:, 0], solved[:, 1:]
        self.gram = self.slopes @ self.back_slopes
        self.right = self.now.excess - self.slopes @ self.back_query
        return bool(self.gram.any())

    def multipliers(self, total: float | None = None) -> Float:
        """The model's multipliers; with `total` their sum is prescribed (a point of the path, not its end)."""
        gram, right = self.gram, self.right
        if len(right) == 1:
            return np.array([right[0] / gram[0, 0] if total is None else total])
        if total is None:
            return _non_negative(gram, right)
        # the sum by a penalty; a constant added to r leaves the minimiser at a given sum alone, and brings it there
        weight, shift = 1e4 * np.trace(gram) / len(right), total
        for _ in range(8):
            multipliers = _non_negative(gram + weight, right + weight * shift)
            missing = total - multipliers.sum()
            if abs(missing) <= 1e-14 * total:
                break
            shift += missing
        return np.asarray(multipliers * (total / multipliers.sum()))

    def advance(self, multipliers: Float) -> None:
        """One step with these multipliers, shortened until ½||q||² + L F(q) has fallen enough."""
        self.penalty = float(multipliers.sum())
        self.mixture = multipliers / self.penalty
        step = -(self.back_query + self.back_slopes @ multipliers)
        now, scores, change = self.now, self.points @ self.now.query, self.points @ step
        start = 0.5 * float(now.query @ now.query) + self.penalty * now.value
        # what the model promises; its own quadratic term is left out, so a fraction of it is a safe demand
        linear = 0.5 * float((now.query + step) @ (now.query + step)) + self.penalty * float(
            (now.excess + self.slopes @ step).max()
        )
        promised = max(start - linear, 0.0)
        length = 1.0
        while True:
            query, along = now.query + length * step, scores + length * change
            value = float((log_sum_exp(along)[0] - self.anchors @ query - self.bounds).max())
            merit = 0.5 * float(query @ query) + self.penalty * value
            if merit <= start - 1e-4 * length * promised + 1e-12 * abs(start) or length < 1e-9:
                break
            length *= 0.5
        before = self._distance_off_path()
        self.now, self.cut = self.at(query, along), length < 1
        self.off_path = self._distance_off_path()
        self.nearing = not self.cut and self.off_path < 0.1 * before

    def _distance_off_path(self) -> float:
        query, residual = self.now.query, self.now.query + self.penalty * self.slack(self.mixture)
        return sqrt(residual @ residual) / max(sqrt(query @ query), 1e-300)


def _solve_positive_definite(hessian: Float, right: Float) -> Float:
    """H^-1 R for a positive definite H, which is overwritten."""
    if len(hessian) <= FEW_DIMENSIONS:
        root = np.linalg.inv(np.linalg.cholesky(hessian))  # by a root, so that what follows stays symmetric
        return np.asarray(root.T @ (root @ right))
    from scipy.linalg import cho_factor, cho_solve

    factor = cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, right, overwrite_b=True, check_finite=False))


def _non_negative(gram: Float, right: Float) -> Float:
    """min ½ l^T A l - r^T l over l >= 0, for a positive semidefinite A."""
    # to a diagonal of ones: constraints of very different slopes are then equally well conditioned
    size = np.sqrt(np.maximum(np.diag(gram), 1e-14 * np.trace(gram)))
    scaled = gram / np.outer(size, size)
    scaled.flat[:: len(size) + 1] += 1e-14 * len(size)
    with contextlib.suppress(np.linalg.LinAlgError):
        root = np.linalg.inv(np.linalg.cholesky(scaled))
        free = root.T @ (root @ (right / size))
        if (free > 0).all():  # then no bound is active, and this is the minimum
            return np.asarray(free / size)
    return np.asarray(_least_squares(scaled, right / size) / size)


def _least_squares(scaled: Float, right: Float) -> Float:
    """The same where some are zero, as non-negative least squares with a root of A."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    for ridge in (0.0, 1e-12, 1e-9, 1e-3):
        with contextlib.suppress(np.linalg.LinAlgError):
            root = cholesky(scaled + ridge * np.eye(len(right)), lower=True, check_finite=False)
            break
    else:
        raise np.linalg.LinAlgError("the slopes of the constraints are no numbers")
    target = solve_triangular(root, right, lower=True, check_finite=False)
    try:
        solution, _ = nnls(root.T, target, maxiter=20 * len(right))
    except RuntimeError:  # out of iterations: any positive direction will do, the line search looks after descent
        solution = np.maximum(right, 0.0)
    if not solution.any():
        solution = np.full(len(right), 1e-300)
    return np.asarray(solution)


def shortest_minimax(
    points: Float, anchors: Float, bounds: Float, *, gap: float = 2e-10, patient: bool = False
) -> Minimax:
    """min ||q|| subject to F(q) <= 0, to a relative gap, or the best bounds that were reached.

    If no query seems to satisfy it, the search stops early, unless it is to be patient.
    """
    path = _Path(points, anchors, bounds)
    best = Minimax(
        query=path.now.query,
        weights=path.now.weights,
        mixture=path.mixture,
        lower=0.0,
        upper=inf,
        iterations=0,
    )
    patience, out_of_reach = PATIENCE, 0
    for iteration in range(1, MOST_ITERATIONS):
        if not path.model():
            break
        gain = path.penalty * float(path.mixture @ path.gram @ path.mixture)  # as in `shortest`
        is_far = iteration > 2 and best.upper == inf and path.now.value > OUT_OF_REACH * gain
        out_of_reach = out_of_reach + 1 if is_far else 0
        if out_of_reach and not patient and gives_up(out_of_reach, points @ path.now.query, points.size):
            break
        if path.cut and path.off_path > 0.1:
            multipliers = path.multipliers(path.penalty)
        else:
            multipliers = path.multipliers()
            if path.penalty > 0:
                # the quadratic model is trusted so far and no farther
                total = float(np.clip(multipliers.sum(), path.penalty / 4, path.penalty * 30))
                multipliers = path.multipliers(total) if total != multipliers.sum() else multipliers
        path.advance(multipliers)
        before, best = best, _tighten_norm_bounds(path, replace(best, iterations=iteration))
        patience = PATIENCE if (best.lower, best.upper) != (before.lower, before.upper) else patience - 1
        if best.upper <= best.lower * (1 + gap) or best.lower > HOPELESS or not patience:
            break
    return best


def _tighten_norm_bounds(path: _Path, best: Minimax) -> Minimax:
    """Both bounds on the norm at the current point: the dual one, and a feasible point on the ray through q."""
    now, slack = path.now, path.slack(path.mixture)
    length = sqrt(slack @ slack)
    lower = max(path.dual_numerator(path.mixture), 0.0) / length if length > 0 else inf
    if lower > best.lower:
        best = replace(best, lower=lower, weights=now.weights, mixture=path.mixture)
    size = sqrt(now.query @ now.query)
    if _next_factor(path, now, now.query, 1.0) * size > 1.01 * best.lower:  # far from feasible, or from short
        return best
    # near the end the rounding of q alone may unbalance the anchors by more than the gap
    for query in (now.query, _level_query(path)):
        size = sqrt(query @ query)
        factor = _factor_to_feasible(path, query, min(best.upper, 1.01 * best.lower) / max(size, 1e-300))
        if factor * size < best.upper:
            best = replace(best, upper=factor * size, query=factor * query)
    return best


def _level_query(path: _Path) -> Float:
    """The current query, moved as little as possible so that the active anchors score alike to the last digit.

    The smaller eps, the sharper the demand that they do: an unevenness of x costs x / eps of the norm.
    """
    active = path.anchors[path.mixture > 1e-9]
    uneven = active - active.mean(axis=0)
    query = path.now.query
    for _ in range(2):
        query = query - np.linalg.lstsq(uneven, uneven @ query, rcond=1e-12)[0]
    return np.asarray(query)


def _factor_to_feasible(path: _Path, query: Float, most: float) -> float:
    """t near 1, at most `most`, with F(t q) <= 0, by Newton steps along the ray; inf if there is none."""
    factor = 1.0
    for _ in range(8):
        if factor >= most:
            return inf
        point = path.at(factor * query)
        if point.value <= 2e-15:  # the check finds the last digits
            return factor
        factor = _next_factor(path, point, query, factor)
    return inf


def _next_factor(path: _Path, point: _Point, query: Float, factor: float) -> float:
    """A Newton step towards F(t q) = 0 from the point t q, a small overshoot included; inf where F does not fall."""
    slope = float((point.mean - path.anchors[int(np.argmax(point.excess))]) @ query)
    return factor - point.value / slope * (1 + 1e-3) + 4e-16 if slope < 0 else inf


def strongest(points: Float, anchors: Float, bounds: Float, radius: float, *, gap: float = 2e-10) -> Minimax:
    """min F(q) over ||q|| <= radius, to an absolute gap in nats; `lower` and `upper` bound that minimum."""
    path = _Path(points, anchors, bounds)
    best = Minimax(
        query=path.now.query,
        weights=path.now.weights,
        mixture=path.mixture,
        lower=-inf,
        upper=path.now.value,
        iterations=0,
    )
    # the path starts along the straight line -L slack, until L times the widest variance reaches 1 and it bends
    straight = radius / max(sqrt(path.slack(path.mixture) @ path.slack(path.mixture)), 1e-12)
    path.penalty = min(straight, 1.0 / max(_largest_variance(points), 1e-12))
    patience, waited = PATIENCE, 0
    for iteration in range(1, MOST_ITERATIONS):
        if not path.model():
            break
        # off the path its own growth misleads; but where rounding is all that is off, waiting does not help
        steady = iteration == 1 or (path.off_path > 0.1 and not path.nearing and (path.cut or waited < 2))
        waited = waited + 1 if steady else 0
        penalty = path.penalty if steady else _next_penalty(path, radius)
        if not steady and not path.factor(penalty):
            break
        path.advance(path.multipliers(penalty))
        before, best = best, _tighten_value_bounds(path, radius, replace(best, iterations=iteration))
        patience = PATIENCE if (best.lower, best.upper) != (before.lower, before.upper) else patience - 1
        if best.upper - best.lower <= gap or not patience:
            break
    return best


def _largest_variance(points: Float) -> float:
    """The largest variance of a coordinate, without a copy of the points."""
    mean = points.mean(axis=0)
    return float((np.einsum("nd,nd->d", points, points) / len(points) - mean**2).max())


def _next_penalty(path: _Path, radius: float) -> float:
    """Newton in logarithms for ||q(L)|| = radius, with limits; where the norm has stopped growing, L still does."""
    size_square = float(path.now.query @ path.now.query)
    drift = -(path.back_slopes @ path.mixture)
    growth = path.penalty * float(path.now.query @ drift) / max(size_square, 1e-300)
    ratio = radius / max(sqrt(size_square), 1e-300)
    exponent = 1 / min(max(growth, 1e-6), 1.0)
    # near a least F, which only L tells from the path, each step squares the error: L may grow as fast
    most = log(1e6) if growth < 0.01 and not path.cut else log(30)
    return float(path.penalty * exp(min(max(exponent * log(ratio), -log(8)), most)))


def _tighten_value_bounds(path: _Path, radius: float, best: Minimax) -> Minimax:
    slack = path.slack(path.mixture)
    lower = path.dual_numerator(path.mixture) - radius * sqrt(slack @ slack)
    if lower > best.lower:
        best = replace(best, lower=lower, weights=path.now.weights, mixture=path.mixture)
    size = sqrt(path.now.query @ path.now.query)
    # 2e-16: rounding must not leave the ball
    point = path.now if size <= radius else path.at(path.now.query * (radius / size * (1 - 2e-16)))
    if point.value < best.upper:
        best = replace(best, upper=point.value, query=point.query)
    return best


def shortest_even(points: Float, chosen: NDArray[np.intp], eps: float, *, gap: float = 2e-10) -> Minimax | None:
    """The shortest query that gives each of the chosen points (n x d) at least 1/(s + eps), by way of copying, or None.

    Queries at right angles to the differences of the s chosen keys score them alike. For these the demand is that the
    others' exponentials, relative to a chosen key's, sum to eps or less: copying, with all chosen keys in one place.
    It is the shortest of all queries where the mixture over the chosen keys that balances the weights has no negative
    part, as for small eps it nearly always has none. None: no even query was found, or an uneven one is shorter.

    >>> found = shortest_even(np.eye(4), np.array([0, 1]), 0.02)
    >>> round(found.lower, 4), found.query.round(3).tolist(), found.mixture.round(3).tolist()
    (4.6052, [2.303, 2.303, -2.303, -2.303], [0.5, 0.5])
    """
    s, anchors = len(chosen), points[chosen]
    if not 1 < s <= min(MOST_CHOSEN, points.shape[1], len(points) - 1):
        return None
    middle, apart = anchors.mean(axis=0), anchors[1:] - anchors[0]
    across, triangle = np.linalg.qr(apart.T)
    size = np.abs(np.diag(triangle))
    if size.min() <= 1e-8 * size.max():  # the chosen keys lie in fewer dimensions
        return None
    rows = ShiftedKeys(points, middle, chosen.tolist(), across)
    found = shortest(rows, log(eps), gap=gap)
    if found.upper == inf:
        return None
    query = rows.level(rows.level(found.query))  # the smaller eps, the sharper the demand that all score alike
    level, others = log_sum_exp(rows @ query)
    weights = np.full(len(points), 1 / (s + exp(level)))
    weights[np.delete(np.arange(len(points)), chosen)] = others * (exp(level) / (s + exp(level)))
    return _with_bounds(points, anchors, weights, query, log(s + eps), found.iterations)


def _with_bounds(
    points: Float, anchors: Float, weights: Float, query: Float, limit: float, iterations: int
) -> Minimax | None:
    """The same with the mixture that balances the weights best, and what both prove; None if it has a negative part."""
    apart, off = anchors[1:] - anchors[0], weights @ points - anchors[0]
    # multipliers of "score alike" may have any sign in the even problem, but a mixture may not: then uneven is shorter
    shares = np.linalg.lstsq(apart.T, off, rcond=None)[0]
    mixture = np.append(1 - shares.sum(), shares)
    if mixture.min() < 0:
        return None
    slack = off - shares @ apart
    lower = max(entropy(weights) - limit, 0.0) / max(sqrt(slack @ slack), 1e-300)
    return Minimax(query, weights, mixture, lower, sqrt(query @ query), iterations)

"""The shortest queries for many targets on the same keys, asked together.

min ||q_t|| subject to LSE(P q_t) - a_t.q_t <= b_t for every target t. The mathematics is that of `shortest`: read it
first. Here rows are targets, so that products with P become matrix products, which use the machine far better: two to
twelve times, but for many keys in few dimensions, where `shortest` alone is quicker and gets them all. The curvature is
exact in few dimensions, where all Hessians together are one more matrix product, and learnt by limited-memory BFGS in
many. A target that is not done soon is left to `shortest`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard.array_types import Flags, Float
from regard.design.shortest import factor_to_constraint

MOST_ITERATIONS = 25  # the rest of a slow target's way is cheaper alone, with a real Hessian
FEW_DIMENSIONS = 32  # up to here exact Hessians, from all products of two coordinates of a key
FEW_KEYS = 1000  # in so few dimensions, with more keys than this one by one is as quick (bench_design measures it)
FLAT = 1e-15  # a gradient below this is rounding: the target is a mean of the points, and no query gains on it
GROUP = 1 << 21  # scores held at once (targets x keys): beyond this the group falls out of the cache


@dataclass(frozen=True, eq=False)
class TargetSolutions:
    """What the iteration ended with, one row per target; `upper` is inf where no feasible query was found."""

    queries: Float  # targets x d
    weights: list[Float]  # n numbers for every target
    lower: Float  # one per target, as the next
    upper: Float


def shortest_together(
    points: Float, anchors: Float, bounds: Float, own: NDArray[np.intp], *, gap: float = 2e-10
) -> TargetSolutions:
    """Solve one problem per row of `anchors`; `own[t]` is the point that does not compete for target t, or -1.

    A target whose constraint holds at q = 0 must not be passed: its answer is 0, exactly.
    """
    n, d = points.shape
    if d <= FEW_DIMENSIONS and n > FEW_KEYS:
        return _empty_solutions(len(anchors), points)
    size = max(4, GROUP // n)
    exact = _Hessians(points) if d <= FEW_DIMENSIONS else None
    parts = []
    for start in range(0, len(anchors), size):
        part = slice(start, start + size)
        parts.append(_Group(points, anchors[part], bounds[part], own[part], exact).run(gap))
    return TargetSolutions(
        queries=np.concatenate([part.queries for part in parts]),
        weights=[weights for part in parts for weights in part.weights],
        lower=np.concatenate([part.lower for part in parts]),
        upper=np.concatenate([part.upper for part in parts]),
    )


def _empty_solutions(count: int, points: Float) -> TargetSolutions:
    """No answers yet, for `count` targets."""
    return TargetSolutions(
        queries=np.zeros((count, points.shape[1])),
        weights=[np.zeros(0)] * count,
        lower=np.zeros(count),
        upper=np.full(count, np.inf),
    )


class _Group:
    """The state of the unfinished targets of one group; axis 0 of every array in OF_TARGETS is the target."""

    OF_TARGETS = (
        "anchors", "bounds", "own", "index", "query", "scores", "value", "weights", "gradient", "multiplier", "cut",
        "off_path", "lower", "upper", "best_query", "best_dual",
    )  # fmt: skip
    MEMORY = ("steps", "turns", "inverse_curvatures")  # lists of such arrays

    def __init__(
        self, points: Float, anchors: Float, bounds: Float, own: NDArray[np.intp], exact: _Hessians | None
    ) -> None:
        self.points, self.exact = points, exact
        count, (n, d) = len(anchors), points.shape
        self.anchors, self.bounds, self.own = anchors, bounds, own
        self.index = np.arange(count)
        self.query = np.zeros((count, d))
        self.scores = np.zeros((count, n))
        self.value, self.weights = _log_sum_and_weights(self.scores, own)
        self.gradient = self.weights @ points - anchors
        self.multiplier = np.zeros(count)
        self.cut = np.zeros(count, dtype=bool)  # did the last line search shorten the step?
        self.off_path = np.zeros(count)
        self.steps: list[Float] = []  # the memory of BFGS: steps, turns of the Lagrangian's gradient, 1 / step.turn
        self.turns: list[Float] = []
        self.inverse_curvatures: list[Float] = []
        self.lower = self._dual_bounds()
        self.upper = np.full(count, np.inf)
        self.best_query, self.best_dual = self.query.copy(), self.query.copy()  # a dual point is kept as its query
        self.squares = np.einsum("nd,nd->n", points, points)

    def run(self, gap: float) -> TargetSolutions:
        out = _empty_solutions(len(self.index), self.points)
        for _ in range(MOST_ITERATIONS):
            done = (self.upper <= self.lower * (1 + gap)) | (_norm(self.gradient) <= FLAT)
            if done.any():
                self._hand_over(out, done)
            if not len(self.index):
                return out
            try:
                self._step()
            except np.linalg.LinAlgError:  # one Hessian is singular in floats, and all are solved together
                break
            self._measure(gap)
        self._hand_over(out, np.ones(len(self.index), dtype=bool))
        return out

    def _dual_bounds(self) -> Float:
        entropy = self.value - _dot(self.weights, self.scores)
        return np.asarray(np.maximum(entropy - self.bounds, 0.0) / np.maximum(_norm(self.gradient), FLAT))

    def _step(self) -> None:
        """(query, multiplier) of the linearised optimality conditions, then the line search."""
        back_query, back_gradient = self._apply_inverse(np.stack([self.query, self.gradient]))
        excess = self.value - self.bounds - _dot(self.gradient, back_query)
        wanted = excess / _dot(self.gradient, back_gradient)
        if self.steps:
            limited = np.clip(wanted, self.multiplier / 4, self.multiplier * 8)
            wanted = np.where(self.cut & (self.off_path > 0.1), self.multiplier, limited)
        self.multiplier = wanted
        step = -(back_query + self.multiplier[:, None] * back_gradient)
        step *= self._line_search(step)[:, None]
        self.query = self.query + step
        before, self.gradient = self.gradient, self.weights @ self.points - self.anchors
        turn = step + self.multiplier[:, None] * (self.gradient - before)
        residual = self.query + self.multiplier[:, None] * self.gradient
        self.off_path = _norm(residual) / _norm(self.query)
        curvature = _dot(step, turn)
        usable = curvature > 1e-12 * _norm(step) * _norm(turn)
        self.steps.append(step)
        self.turns.append(turn)
        # 0 where the curvature is lost in rounding: that pair of step and turn is then without effect
        self.inverse_curvatures.append(np.where(usable, 1 / np.where(usable, curvature, 1.0), 0.0))

    def _apply_inverse(self, vectors: Float) -> Float:
        """The inverse Hessian of the Lagrangian times each vector, exact or by the two loops of BFGS."""
        if self.exact is not None:
            hessians = self.exact(self.weights, self.gradient + self.anchors, self.multiplier)
            solved = np.linalg.solve(hessians, vectors.transpose(1, 2, 0))
            return np.asarray(solved.transpose(2, 0, 1), dtype=np.float64)
        vectors = vectors.copy()
        memory = list(zip(self.steps, self.turns, self.inverse_curvatures, strict=True))
        removed = []
        for step, turn, scale in reversed(memory):
            part = scale * np.einsum("td,vtd->vt", step, vectors)
            vectors -= part[:, :, None] * turn
            removed.append(part)
        if memory:  # in between, the inverse of the mean curvature: 1 + lam tr Cov_w / d
            mean = self.gradient + self.anchors
            spread = np.maximum(self.weights @ self.squares - _dot(mean, mean), 0.0)
            vectors /= (1 + self.multiplier * spread / vectors.shape[2])[:, None]
        for (step, turn, scale), part in zip(memory, reversed(removed), strict=True):
            part = part - scale * np.einsum("td,vtd->vt", turn, vectors)
            vectors += part[:, :, None] * step
        return vectors

    def _line_search(self, step: Float) -> Float:
        """Armijo backtracking on ½||q||² + lam f(q) along the step; sets scores, values and weights."""
        change = step @ self.points.T
        change -= _dot(step, self.anchors)[:, None]
        square, cross, stretch = _dot(self.query, self.query), _dot(self.query, step), _dot(step, step)
        slope = cross + self.multiplier * _dot(self.gradient, step)
        start = 0.5 * square + self.multiplier * self.value
        length = np.ones(len(self.index))
        scores = self.scores
        scores += change  # in place, like all of this size: there are as many scores as keys, for every target
        while True:
            value, weights = _log_sum_and_weights(scores, self.own, self.weights)
            merit = 0.5 * (square + 2 * length * cross + length**2 * stretch) + self.multiplier * value
            worse = (merit > start + 1e-4 * length * slope + 1e-12 * np.abs(start)) & (length > 1e-9)
            if not worse.any():
                break
            length[worse] *= 0.5
            scores[worse] -= length[worse, None] * change[worse]
        self.cut = length < 1
        self.value, self.weights = value, weights
        return length

    def _measure(self, gap: float) -> None:
        """Improve both bounds; the upper one only when it may end the search.

        ln sum exp is convex along the ray, so that a first-order look never promises too long a query.
        """
        lower = self._dual_bounds()
        better = lower > self.lower
        self.lower[better] = lower[better]
        self.best_dual[better] = self.query[better]
        size, along = _norm(self.query), _dot(self.weights, self.scores)
        downhill = along < 0
        guess = 1 + (self.bounds - self.value) / np.where(downhill, along, -1.0)
        for t in np.flatnonzero(downhill & (guess > 0) & (guess * size <= self.lower * (1 + 4 * gap))):
            scores = np.delete(self.scores[t], self.own[t]) if self.own[t] >= 0 else self.scores[t]
            factor = factor_to_constraint(scores, float(self.bounds[t]), float(guess[t]))
            if factor * size[t] < self.upper[t]:
                self.upper[t] = factor * size[t]
                self.best_query[t] = factor * self.query[t]

    def _hand_over(self, out: TargetSolutions, done: Flags) -> None:
        where = self.index[done]
        out.queries[where] = self.best_query[done]
        # the weights again from the query they belong to: keeping the best ones of every target would double the memory
        scores = self.best_dual[done] @ self.points.T
        scores -= _dot(self.best_dual[done], self.anchors[done])[:, None]
        for t, weights in zip(where, _log_sum_and_weights(scores, self.own[done], scores)[1], strict=True):
            out.weights[t] = weights
        out.lower[where], out.upper[where] = self.lower[done], self.upper[done]
        keep = ~done
        for name in self.OF_TARGETS:
            setattr(self, name, getattr(self, name)[keep])
        for name in self.MEMORY:
            setattr(self, name, [array[keep] for array in getattr(self, name)])


class _Hessians:
    """I + lam Cov_w(P) for every target: the second moments of all targets are one product of matrices."""

    def __init__(self, points: Float) -> None:
        self.d = points.shape[1]
        self.upper = np.triu_indices(self.d)
        self.products = points[:, self.upper[0]] * points[:, self.upper[1]]

    def __call__(self, weights: Float, means: Float, multipliers: Float) -> Float:
        moments = np.empty((len(weights), self.d, self.d))
        moments[:, self.upper[0], self.upper[1]] = weights @ self.products
        moments[:, self.upper[1], self.upper[0]] = moments[:, self.upper[0], self.upper[1]]
        moments -= means[:, :, None] * means[:, None, :]
        return np.asarray(np.eye(self.d) + multipliers[:, None, None] * moments)


def _dot(left: Float, right: Float) -> Float:
    return np.asarray(np.einsum("td,td->t", left, right))


def _norm(rows: Float) -> Float:
    return np.asarray(np.sqrt(_dot(rows, rows)))


def _log_sum_and_weights(scores: Float, own: NDArray[np.intp], out: Float | None = None) -> tuple[Float, Float]:
    """Log-sum-exp and softmax of each row, without its own point, whose score becomes a harmless 0.

    out: where the softmax goes; the scores themselves, if nobody needs them any more.
    """
    rows = np.flatnonzero(own >= 0)
    scores[rows, own[rows]] = -np.inf
    top = scores.max(axis=1)
    weights = np.subtract(scores, top[:, None], out=out)
    np.exp(weights, out=weights)
    scores[rows, own[rows]] = 0.0  # its weight is 0, and 0 * 0 is not NaN
    total = weights.sum(axis=1)
    weights /= total[:, None]
    return top + np.log(total), weights

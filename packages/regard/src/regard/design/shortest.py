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
here is trusted afterwards: `regard.design.verification` recomputes both from the keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from regard.array_types import Float
from regard.rigor import row_chunks

MOST_ITERATIONS = 400  # real problems take 3 to 30
SAMPLE_PER_DIMENSION = 4  # rows in a sampled Hessian, per dimension of the keys
STIFFEST = 1e26  # the multiplier beyond which curvature is noise
PART = 1 << 14  # numbers of rows that are made level at once
SMALL = 8  # dimensions up to which loading SciPy takes longer than it saves
HOPELESS = 1e13  # a norm (in units of the largest row) beyond which no float64 query proves anything
OUT_OF_REACH = 1e3  # the bound is so many times farther off than a Newton step on f alone would bring it
# for so many iterations it must seem so at least; of few numbers longer, since these are cheap
SEEN, FEW, SEEN_OF_FEW = 2, 1 << 14, 12


class ShiftedKeys:
    """The rows k_i - a for all keys k_i but those left out; and of each only the part at right angles to `across`.

    As `shortest` needs them, without a copy of the keys: (k_i - a).v = k_i.v - a.v, and sum w_i (k_i - a) =
    sum w_i k_i - W a. That costs digits where the keys are close together and far from the origin:
    `question.uncopied_geometry` asks for it elsewhere. across: orthonormal columns (d x m).

    >>> rows = ShiftedKeys(np.array([[1.0, 2.0], [5.0, 5.0], [3.0, 4.0]]), np.array([1.0, 1.0]), left_out=[1])
    >>> (rows @ np.array([1.0, 10.0])).tolist(), (np.array([0.5, 0.25]) @ rows).tolist()
    ([10.0, 32.0], [0.5, 1.25])
    """

    __array_ufunc__ = None  # so that `weights @ rows` comes here and not to NumPy

    def __init__(self, keys: Float, anchor: Float, left_out: Sequence[int] = (), across: Float | None = None) -> None:
        self.keys, self.anchor, self.across = keys, anchor, across
        self.left_out = np.sort(np.asarray(left_out, dtype=np.intp))
        self.shape = (len(keys) - len(left_out), keys.shape[1])
        self.runs = []  # of rows that lie together: their keys, and their place among the rows
        for count, (start, end) in enumerate(zip([-1, *self.left_out], [*self.left_out, len(keys)], strict=True)):
            if end > start + 1:
                self.runs.append((keys[start + 1 : end], slice(start + 1 - count, end - count)))

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, vector: Float) -> Float:
        vector, products = self.level(vector), np.empty(len(self))
        for keys, some in self.runs:
            np.matmul(keys, vector, out=products[some])
        products -= self.anchor @ vector
        return products

    def __rmatmul__(self, weights: Float) -> Float:
        mean = -weights.sum() * self.anchor
        for keys, some in self.runs:
            mean += weights[some] @ keys
        return self.level(mean)

    def __getitem__(self, some: NDArray[np.intp]) -> Float:
        """Some of the rows, by their numbers."""
        # the number of a row plus how many keys are left out before it is the number of its key
        rows = self.keys[some + np.searchsorted(self.left_out - np.arange(len(self.left_out)), some, side="right")]
        rows -= self.anchor
        if self.across is not None:
            for part in row_chunks(len(rows), rows.shape[1], PART):
                rows[part] -= (rows[part] @ self.across) @ self.across.T
        return np.asarray(rows)

    def level(self, vectors: Float) -> Float:
        """The part of one vector, or of each of several rows, at right angles to `across`."""
        return vectors if self.across is None else np.asarray(vectors - (vectors @ self.across) @ self.across.T)


@dataclass(frozen=True, eq=False)
class Shortest:
    """A query on the constraint, the dual weights, and the bounds that they give; `upper` is inf if none was found."""

    query: Float  # d numbers
    weights: Float  # n, a distribution over the rows
    lower: float
    upper: float
    iterations: int

    @property
    def gap(self) -> float:
        return self.upper / self.lower - 1 if self.lower > 0 else inf


def shortest(rows: Float | ShiftedKeys, bound: float, *, gap: float = 2e-10, patient: bool = False) -> Shortest:
    """Solve it to the given relative gap, or return the best bounds that were reached.

    Rows are expected at a scale near 1. The caller has seen to it that q = 0 does not satisfy the constraint. If no
    query seems to satisfy it, the search stops early, unless it is to be patient.

    >>> found = shortest(np.array([[-1.0, 0.0], [-1.0, 0.0]]), np.log(0.01))   # ln(2 / 0.01), straight ahead
    >>> found.query.round(6).tolist(), round(found.lower, 6)
    ([5.298317, 0.0], 5.298317)
    """
    search, numbers = _Search(rows, bound), rows.shape[0] * rows.shape[1]
    while search.is_unfinished(gap) and (patient or not gives_up(search.out_of_reach, search.scores, numbers)):
        search.step()
        search.update_bounds()
        search.learn_curvature()
    return Shortest(
        query=search.best_query,
        weights=search.best_weights,
        lower=float(search.lower),
        upper=float(search.upper),
        iterations=search.iteration,
    )


def gives_up(iterations: int, scores: Float, numbers: int) -> bool:
    """Has the bound seemed out of reach for enough iterations? Of so many numbers, with these scores now.

    Where one key dwarfs the rest, the multiplier must grow with the square of that, and a step lets it grow by 8.
    """
    most = SEEN_OF_FEW if numbers <= FEW else SEEN
    if iterations < most:
        return False
    sizes = np.abs(scores)
    usual = float(np.median(sizes))
    return iterations >= most + (2 * log(float(sizes.max()) / usual, 8) if usual > 0 else 0.0)


class _Search:
    """Where the iteration stands: the point, the best bounds so far, and what is believed about the curvature."""

    def __init__(self, rows: Float | ShiftedKeys, bound: float) -> None:
        n, d = rows.shape
        self.rows, self.bound = rows, bound
        self.sample = min(n, max(SAMPLE_PER_DIMENSION * d, 1024))
        self.rebuild_price = rebuild_cost(n, d, self.sample)
        # the point: q, its scores D q, f(q), softmax and gradient
        self.query, self.scores = np.zeros(d), np.zeros(n)
        self.value, self.weights = log(n), np.full(n, 1 / n)
        self.gradient = self.weights @ rows
        # the best of both sides
        self.upper, self.best_query, self.best_weights = inf, self.query, self.weights
        self.lower = self._dual_bound()
        # the model: the inverse of B, the multiplier lam, and the last step with the turn of the gradient along it
        self.inverse, self.multiplier = np.eye(d), 0.0
        self.last_step, self.turn = self.query, self.query
        self.iteration = 0
        self.out_of_reach = 0  # for how many iterations the least of f has seemed to lie above the bound
        self.cut = False  # did the line search shorten the last step? Then the model promised too much
        self.off_path = 0.0  # how far q is from -lam g, relatively: where it is far, lam is held
        self.error = inf  # of the optimality conditions, to see whether progress is slow
        self.age, self.fresh = 1.0, False  # iterations since B was rebuilt, and whether that was just now

    def is_unfinished(self, gap: float) -> bool:
        open_gap = self.upper > self.lower * (1 + gap) and self.lower < HOPELESS
        return open_gap and self.iteration < MOST_ITERATIONS and abs(self.multiplier) < STIFFEST

    def step(self) -> None:
        """(query, multiplier) of the linearised optimality conditions, and a line search along the way there."""
        self.iteration += 1
        back_query, back_gradient = self.inverse @ self.query, self.inverse @ self.gradient
        wanted = float((self.value - self.bound - self.gradient @ back_query) / (self.gradient @ back_gradient))
        gain = self.multiplier * float(self.gradient @ back_gradient)  # lam B^-1 nears the inverse Hessian of f
        is_far = self.iteration > 2 and self.upper == inf and self.value - self.bound > OUT_OF_REACH * gain
        self.out_of_reach = self.out_of_reach + 1 if is_far else 0
        if self.iteration == 1:
            self.multiplier = wanted
        # the multiplier changes by a bounded factor, because the linearised conditions know nothing from afar
        elif not (self.cut and self.off_path > 0.1):
            self.multiplier = min(max(wanted, self.multiplier / 4), 8 * self.multiplier)
        step = -(back_query + self.multiplier * back_gradient)
        length = self._search_along(step)
        self.cut = length < 1
        self.last_step = step * length
        self.query = self.query + self.last_step
        before, self.gradient = self.gradient, self.weights @ self.rows
        self.turn = self.last_step + self.multiplier * (self.gradient - before)

    def _search_along(self, step: Float) -> float:
        """Halve the step until ½||q||² + lam f(q) has fallen enough; scores are linear in q: no further product."""
        change, multiplier, query = self.rows @ step, self.multiplier, self.query
        square, cross, stretch = query @ query, query @ step, step @ step
        start, slope = 0.5 * square + multiplier * self.value, cross + multiplier * (self.gradient @ step)
        length = 1.0
        while True:
            tried = self.scores + length * change
            value, weights = log_sum_exp(tried)
            merit = 0.5 * (square + 2 * length * cross + length**2 * stretch) + multiplier * value
            if merit <= start + 1e-4 * length * slope + 1e-12 * abs(start) or length < 1e-9:
                break
            length *= 0.5
        self.scores, self.value, self.weights = tried, value, weights
        return length

    def update_bounds(self) -> None:
        """The dual bound always; the upper one only when a first-order look says that it will be close."""
        lower = self._dual_bound()
        if lower > self.lower:
            self.lower, self.best_weights = lower, self.weights
        size, along = sqrt(self.query @ self.query), float(self.weights @ self.scores)
        if along < 0 and (guess := 1 + (self.bound - self.value) / along) > 0 and guess * size < 1.01 * self.lower:
            factor = factor_to_constraint(self.scores, self.bound, guess)
            if factor * size < self.upper:
                self.upper, self.best_query = factor * size, factor * self.query

    def learn_curvature(self) -> None:
        """A BFGS update; or a rebuilt Hessian, where progress is slow and it is worth its price."""
        residual = self.query + self.multiplier * self.gradient
        self.off_path = sqrt(residual @ residual) / max(sqrt(self.query @ self.query), 1e-300)
        last, self.error = self.error, self.off_path + abs(self.value - self.bound) / max(1.0, abs(self.bound))
        # slow: less than a factor of 3 in one iteration
        stalled = (self.error > 0.3 * last and not self.fresh) or (self.iteration == 1 and self.error > 0.3)
        if self.cut and self.fresh:  # the sample was too coarse: its first step already promised too much
            n, d = self.rows.shape
            self.sample = min(n, 2 * self.sample)
            self.rebuild_price = rebuild_cost(n, d, self.sample)
        self.age += 1
        self.fresh = (self.cut or stalled) and self.age > self.rebuild_price
        if self.fresh:
            self.inverse = rebuilt_inverse(self.rows, self.weights, self.gradient, self.multiplier, self.sample)
            self.age = 0.0
        else:
            update_inverse(self.inverse, self.last_step, self.turn)

    def _dual_bound(self) -> float:
        entropy = self.value - float(self.weights @ self.scores)  # H(w), since ln w_i = s_i - LSE
        length = sqrt(self.gradient @ self.gradient)
        return max(entropy - self.bound, 0.0) / length if length > 0 else inf


def log_sum_exp(scores: Float) -> tuple[float, Float]:
    """LSE and softmax of one vector of scores."""
    top = scores.max()
    weights = np.exp(scores - top)
    total = weights.sum()
    weights /= total
    return float(top) + log(total), weights


def entropy(weights: Float) -> float:
    """H(w / sum w) in nats of non-negative weights."""
    positive = weights[weights > 0] / weights.sum()
    return float(-(positive @ np.log(positive)))


def factor_to_constraint(scores: Float, bound: float, start: float) -> float:
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


def update_inverse(inverse: Float, step: Float, turn: Float) -> None:
    """The BFGS update of an inverse Hessian, in place; skipped where the curvature is lost in rounding."""
    curvature = step @ turn
    if not curvature > 1e-12 * sqrt(step @ step) * sqrt(turn @ turn):
        return
    image = inverse @ turn
    # the update is symmetric: this and its transpose, two products of vectors instead of three
    half = (0.5 * (1 + (turn @ image) / curvature) * step - image)[:, None] * (step / curvature)
    inverse += half
    inverse += half.T


def rebuilt_inverse(rows: Float | ShiftedKeys, weights: Float, mean: Float, multiplier: float, sample: int) -> Float:
    """(I + lam Cov_w(rows))^-1, the covariance from rows taken at even steps along the cumulated weights."""
    d = rows.shape[1]
    if sample < len(weights):
        total = np.cumsum(weights)
        marks = (np.arange(sample) + 0.5) * (total[-1] / sample)
        taken, counts = np.unique(np.searchsorted(total, marks), return_counts=True)
        # rounding may put the last mark beyond the cumulated weights
        taken, share = np.minimum(taken, len(weights) - 1), counts / sample
    else:
        taken, share = np.arange(len(weights)), weights
    centred = rows[taken]
    centred -= mean
    centred *= np.sqrt(share * multiplier)[:, None]
    hessian = centred.T @ centred
    del centred  # for few keys it is a copy of all of them
    hessian.flat[:: d + 1] += 1.0
    return _inverse(hessian)


def _inverse(hessian: Float) -> Float:
    """The inverse of I plus a positive semidefinite matrix; the matrix is overwritten."""
    if len(hessian) <= SMALL:
        values, vectors = np.linalg.eigh(hessian)
        return np.asarray((vectors / np.maximum(values, 1.0)) @ vectors.T)  # below 1 is rounding
    from scipy.linalg.lapack import dpotrf, dpotri

    factor, _ = dpotrf(hessian, lower=1, overwrite_a=1)
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    inverse = np.tril(inverse)
    return np.ascontiguousarray(inverse + np.tril(inverse, -1).T)


def rebuild_cost(n: int, d: int, sample: int, sharing: int = 1) -> float:
    """After how many iterations a rebuilt Hessian is worth its price: its arithmetic against products with the keys.

    `sharing` targets do those products together (up to a dozen times cheaper), but rebuild alone.
    """
    return 0.5 * min(sharing, 12) * (sample + d) * d / (25.0 * n)

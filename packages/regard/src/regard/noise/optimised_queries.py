"""Better queries for random keys: minimise E||c - target||^2 over H queries under a norm budget.

The problem is not convex. Descent runs on a surrogate, the mean over fixed Sobol points of the scores, whose gradient
is exact (through the Cholesky factor of every key's score covariance); what is reported is the surrogate's winner,
evaluated again by the exact methods, beside the designed queries evaluated the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import ndtri

from regard.array_types import Real
from regard.arrays import as_array
from regard.attention import softmax
from regard.errors import InputError
from regard.noise.model import NoiseModel
from regard.noise.pictures import optimised_figure
from regard.noise.random_keys import check_target, check_values, error_accuracy, expected_error, weight_moments
from regard.noise.scores import make_generator, score_laws, sobol_points
from regard.notation import readable
from regard.pictures import Figure
from regard.progress import Progress, steps
from regard.results import Result
from regard.written_numbers import at_most, in_full

# times 1 + trace, added to a covariance's diagonal: a singular one (two heads that see one direction of noise)
# has no Cholesky factor with a slope
JITTER = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimisedQueries(Result):
    """The best queries found: a local optimum of a non-convex problem, never worse than the designed ones."""

    queries: Real  # H x d
    norms: Real  # H numbers
    scores: Real  # q_h . mu_l, H x n
    max_norm: float
    error: float
    bias_squared: float
    variance: float
    error_accuracy: float
    method: str
    designed_queries: Real  # H x d
    designed_error: float
    found_from: str
    starts: dict[str, float]  # what descent reached from every start, on the surrogate
    target: tuple[int, ...]

    def __str__(self) -> str:
        heads = len(self.queries)
        gain = self.designed_error / self.error if self.error > 0 else np.inf
        what = "query" if heads == 1 else f"{heads} queries"
        return "\n".join(
            [
                readable(
                    f"The best {what} found with norm at most {in_full(self.max_norm)}: $E||c - target||^2$ = "
                    f"{self.error:.8g} (by {self.method}, accurate to {at_most(self.error_accuracy, 1)})."
                ),
                f"The designed queries at their best scale reach {self.designed_error:.8g}: {gain:.3g} times as much.",
                "Better queries may exist: this is a local optimum of a problem that is not convex.",
            ]
        )

    def details(self) -> str:
        """Bias and variance, the norms, and what each descent came to."""
        norms = ", ".join(f"{norm:.4g}" for norm in self.norms)
        return "\n".join(
            [
                readable(f"The error is {self.bias_squared:.3g} $bias^2$ + {self.variance:.8g} variance."),
                f"Norms used: {norms}. Found by '{self.found_from}', one of {len(self.starts)} descents. Their values "
                "on sample points (four times as many for the refined ones) compare only roughly: "
                + ", ".join(f"{name} {value:.5f}" for name, value in self.starts.items())
                + ".",
            ]
        )

    def figure(self) -> Figure:
        """The picture as a matplotlib figure (needs ``regard[plots]``)."""
        return optimised_figure(self)


def optimise(
    model: NoiseModel,
    *,
    heads: int = 1,
    max_norm: float = 20.0,
    target: Sequence[int] = (0, 1),
    values: ArrayLike | None = None,
    starts: int = 4,
    points: int = 2**11,
    seed: int | np.random.Generator = 0,
    progress: Progress | None = None,
) -> OptimisedQueries:
    """Queries q_1..q_H with ||q_h|| <= max_norm that make E||c - target||^2 small; a local optimum.

    Starts: the designed queries at their best scale and at the full norm, the same with all other means pushed away,
    and ``starts`` random ones. Weak for many heads: each pair that shares noise costs a double integral at the end.
    ``values``: n x v, one row per key; the identity if left out.

    >>> from regard.noise.coursework_settings import gaussian_setting
    >>> found = optimise(gaussian_setting(3), heads=2, max_norm=6.0, starts=1, points=256)
    >>> found.error <= found.designed_error
    True
    """
    if heads < 1:
        raise InputError(f"heads must be at least 1, not {heads}.")
    as_array(max_norm, "max_norm")
    if not (np.isfinite(max_norm) and max_norm > 0):
        raise InputError(f"max_norm must be a positive number, not {max_norm:g}.")
    if starts < 0 or points < 2:
        raise InputError(f"starts must be at least 0 and points at least 2, not {starts} and {points}.")
    chosen, V = check_target(target, model.keys), check_values(values, model.keys)
    generator = make_generator(seed)
    surrogate = Surrogate(model, heads, V, chosen, points, generator)
    designed = best_designed(model, heads, max_norm, V, chosen)
    begin = {
        **_designed_starts(model, heads, max_norm, chosen, designed),
        **_random_starts(model, heads, max_norm, starts, generator),
    }
    ends = {}
    for name in steps(begin, len(begin) + 1, progress):
        ends[name] = _descend(surrogate, begin[name], max_norm)
    finer = Surrogate(model, heads, V, chosen, 4 * points, generator)
    for name in _best_basins(ends):  # few points flatter: the best basins again, on more
        ends[f"{name}, refined"] = _descend(finer, ends[name][1], max_norm)
    return _best(model, V, chosen, max_norm, designed, ends, seed)


def _best_basins(ends: dict[str, tuple[float, Real]], most: int = 3) -> list[str]:
    """The starts that reached the lowest values, one for each value."""
    chosen: list[str] = []
    for name in sorted(ends, key=lambda name: ends[name][0]):
        # descents that end within 1e-4 of each other are taken for the same basin
        if all(ends[name][0] > 1.0001 * ends[other][0] for other in chosen):
            chosen.append(name)
    return chosen[:most]


def _best(
    model: NoiseModel,
    V: Real,
    target: tuple[int, ...],
    max_norm: float,
    designed: Real,
    ends: dict[str, tuple[float, Real]],
    seed: int | np.random.Generator,
) -> OptimisedQueries:
    # exact evaluation is what costs, so the unrefined ends stay out; the designed queries never do
    rivals = {name: Q for name, (_, Q) in ends.items() if name.endswith("refined")}
    rivals["designed"] = designed
    exact = {name: weight_moments(score_laws(model, Q), seed=seed) for name, Q in rivals.items()}
    errors = {name: expected_error(moments, V, target) for name, moments in exact.items()}
    winner = min(errors, key=lambda name: sum(errors[name]))
    return OptimisedQueries(
        queries=rivals[winner],
        norms=np.linalg.norm(rivals[winner], axis=1),
        scores=rivals[winner] @ model.means.T,
        max_norm=max_norm,
        error=sum(errors[winner]),
        bias_squared=errors[winner][0],
        variance=errors[winner][1],
        error_accuracy=error_accuracy(exact[winner], V, target),
        method=exact[winner].method,
        designed_queries=designed,
        designed_error=sum(errors["designed"]),
        found_from=winner,
        starts={name: value for name, (value, _) in ends.items()},
        target=target,
    )


def designed_queries(model: NoiseModel, heads: int, target: Sequence[int]) -> Real:
    """One head: the sum of the target means; more: head h asks for target h mod |target|. To be scaled."""
    means = model.means[list(target)]
    out: Real = means.sum(axis=0, keepdims=True) if heads == 1 else means[np.arange(heads) % len(target)]
    return out


def best_designed(model: NoiseModel, heads: int, max_norm: float, V: Real, target: tuple[int, ...]) -> Real:
    """The designed queries at the scale that does best within the budget, from 24 scales and a refinement."""
    base = designed_queries(model, heads, target)
    largest = max_norm / float(np.linalg.norm(base, axis=1).max()) if base.any() else 1.0

    def error(scale: float) -> float:
        # fewer points than usual: only correlated keys need them, and here only the scale is at stake
        return sum(expected_error(weight_moments(score_laws(model, scale * base), points=2**10), V, target))

    grid = largest * np.linspace(1 / 24, 1.0, 24)
    errors = [error(scale) for scale in grid]
    k = int(np.argmin(errors))
    if k == len(grid) - 1:
        return largest * base
    low = grid[k - 1] if k else 0.0
    fine = scipy.optimize.minimize_scalar(
        error, bounds=(low, grid[k + 1]), method="bounded", options={"xatol": 1e-5 * largest}
    )
    return float(fine.x if fine.fun <= errors[k] else grid[k]) * base


def _designed_starts(
    model: NoiseModel, heads: int, max_norm: float, target: tuple[int, ...], designed: Real
) -> dict[str, Real]:
    base = designed_queries(model, heads, target)
    rest = [k for k in range(model.keys) if k not in target]
    # half of the others' means: enough to lower their scores, and orthogonal means keep the targets' own
    away = base - model.means[rest].sum(axis=0) * 0.5 if rest else base
    return {
        "designed": designed,
        "designed, full norm": _to_norm(base, max_norm),
        "others pushed away": _to_norm(away, max_norm),
    }


def _random_starts(
    model: NoiseModel, heads: int, max_norm: float, starts: int, generator: np.random.Generator
) -> dict[str, Real]:
    mix = generator.standard_normal((starts, heads, model.keys))
    # inside the ball, so that descent may leave in every direction
    sizes = generator.uniform(0.2, 0.9, starts)
    return {f"random {k}": _to_norm(mix[k] @ model.means, sizes[k] * max_norm) for k in range(starts)}


def _to_norm(Q: Real, norm: float) -> Real:
    lengths = np.linalg.norm(Q, axis=1, keepdims=True)
    return norm * Q / np.where(lengths > 0, lengths, 1.0)


def _descend(surrogate: Surrogate, start: Real, max_norm: float) -> tuple[float, Real]:
    """Sequential quadratic programming from one start, in units of the budget; the end is put back into the ball."""
    shape = start.shape

    def value(x: Real) -> tuple[float, Real]:
        error, slope = surrogate(max_norm * x.reshape(shape))
        return error, max_norm * slope.ravel()

    def room(x: Real) -> Real:
        left: Real = 1 - np.sum(x.reshape(shape) ** 2, axis=1)
        return left

    def room_slope(x: Real) -> Real:
        out = np.zeros((shape[0], *shape))
        out[np.arange(shape[0]), np.arange(shape[0])] = -2 * x.reshape(shape)
        return out.reshape(shape[0], -1)

    ball = {"type": "ineq", "fun": room, "jac": room_slope}
    options = {"maxiter": 200, "ftol": 1e-9}
    end = scipy.optimize.minimize(
        value, start.ravel() / max_norm, jac=True, method="SLSQP", constraints=[ball], options=options
    )
    Q = end.x.reshape(shape) if np.isfinite(end.x).all() else start / max_norm
    Q = max_norm * Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 1.0)
    # SLSQP may stop outside the ball or at a worse point: the start is then the better end
    reached, before = surrogate(Q)[0], surrogate(start)[0]
    return (reached, Q) if reached <= before else (before, start)


class Surrogate:
    """E||c - target||^2 as a mean over fixed Sobol points of the scores, with its gradient in the queries."""

    def __init__(
        self,
        model: NoiseModel,
        heads: int,
        values: Real,
        target: tuple[int, ...],
        points: int,
        generator: np.random.Generator,
    ) -> None:
        self.model, self.heads, self.values = model, heads, values
        self.goal = values[list(target)].mean(axis=0)
        n = model.keys
        several = [k for k in range(n) if len(model.magnitude(k)[0]) > 1]
        cube = sobol_points(n * heads + len(several), max(int(np.log2(points)), 1), generator)
        self.normals = ndtri(cube[:, : n * heads])
        self.lengths = np.ones((len(cube), n))
        for column, k in enumerate(several):
            lengths, chances = model.magnitude(k)
            pick = np.searchsorted(np.cumsum(chances)[:-1], cube[:, n * heads + column], side="right")
            self.lengths[:, k] = lengths[pick]
        for k in set(range(n)) - set(several):
            self.lengths[:, k] = model.magnitude(k)[0][0]
        # keys that move together need one factor of all their scores; independent ones a small factor each
        self.full = model.full_covariance() if model.joint is not None else None

    def __call__(self, Q: Real) -> tuple[float, Real]:
        """The error at H x d queries, and its gradient."""
        n, H = self.model.keys, self.heads
        means = self.model.means @ Q.T  # n x H
        C, spread = self._covariance(Q)
        L = np.linalg.cholesky(C + JITTER * (1 + np.trace(C, axis1=-2, axis2=-1))[:, None, None] * np.eye(C.shape[-1]))
        x = self.normals.reshape(len(self.normals), len(L), -1)
        noise = np.einsum("bij,rbj->rbi", L, x).reshape(-1, n, H)
        alpha = softmax((self.lengths[:, :, None] * means + noise).transpose(0, 2, 1))  # r x H x n
        miss = alpha.mean(axis=1) @ self.values - self.goal
        error = float(np.mean(np.sum(miss**2, axis=1)))
        by_weight = 2 * (miss @ self.values.T) / (len(miss) * H)
        # the softmax's Jacobian, diag(alpha) - alpha alpha^T, applied to the slope in the weights
        by_score = alpha * (by_weight[:, None] - np.sum(alpha * by_weight[:, None], axis=2, keepdims=True))
        slope = np.einsum("rhn,rn->hn", by_score, self.lengths) @ self.model.means
        flat = by_score.transpose(0, 2, 1).reshape(len(x), len(L), -1)
        by_L = np.tril(np.einsum("rbi,rbj->bij", flat, x))
        return error, slope + spread(_cholesky_slope(L, by_L))

    def _covariance(self, Q: Real):  # type: ignore[no-untyped-def]
        """Blocks of the score covariance (n of H x H, or one of n H x n H), and how a slope in them reaches Q."""
        n, d, H = self.model.keys, self.model.dimension, self.heads
        if self.full is None:
            half = np.stack([self.model.times_covariance(Q, k) for k in range(n)])  # n x H x d
            return half @ Q.T, lambda by_C: 2 * np.einsum("bgh,bhd->gd", by_C, half)
        blocks = self.full.reshape(n, d, n, d)
        half = np.einsum("idje,he->idjh", blocks, Q)
        C = np.einsum("gd,idjh->igjh", Q, half).reshape(1, n * H, n * H)
        return C, lambda by_C: 2 * np.einsum("igjh,idjh->gd", by_C.reshape(n, H, n, H), half)


def _cholesky_slope(L: Real, by_L: Real) -> Real:
    """The slope in C = L L^T (symmetric) from the slope in L: L^-T sym(tril-half(L^T by_L)) L^-1."""
    P = np.tril(np.swapaxes(L, 1, 2) @ by_L)
    index = np.arange(L.shape[-1])
    P[:, index, index] /= 2
    inverse = np.linalg.inv(L)
    S = np.swapaxes(inverse, 1, 2) @ P @ inverse
    out: Real = (S + np.swapaxes(S, 1, 2)) / 2
    return out

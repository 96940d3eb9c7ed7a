"""Mean and covariance of the weights averaged over the heads: one answer, whichever method can give it best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.array_types import Real
from regard.attention import softmax
from regard.errors import CouldNotFindOut, InputError
from regard.noise.draws import MOST_OUTCOMES, Sampler, chunks, half_interval, make_generator, outcomes
from regard.noise.integrals import COARSE, FINE, cross_moments, head_moments
from regard.noise.scores import Scores
from regard.progress import Progress

SOON = 2**23  # numbers in the tables of all double integrals: a few seconds
MOST_POINTS = 2**17  # Sobol points of a scramble, where an accuracy is asked for
METHODS = ("auto", "integral", "enumeration", "qmc", "sampling")


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightMoments:
    """E w and Cov w for w = (1/H) sum_h alpha_h, and how they were found.

    ``accuracy`` bounds the absolute error of every entry of ``mean`` and ``second``: a bound for ``enumeration`` and
    ``integral``, half a 95 % confidence interval for ``qmc`` and ``sampling``.
    """

    mean: Real  # n
    second: Real  # n x n, E w w^T
    head_means: Real  # H x n
    method: str
    accuracy: float
    parts: tuple[tuple[Real, Real], ...] = ()  # (E w, E w w^T) of each scramble, where the scatter is the accuracy

    @property
    def covariance(self) -> Real:
        """E w w^T - E w E w^T."""
        return self.second - np.outer(self.mean, self.mean)


def weight_moments(
    scores: Scores,
    *,
    method: str = "auto",
    points: int = 2**13,
    scrambles: int = 16,
    draws: int = 100_000,
    seed: int | np.random.Generator = 0,
    accuracy: float | None = None,
    progress: Progress | None = None,
) -> WeightMoments:
    """First and second moments of the averaged weights; ``auto`` takes the most accurate method that is done soon.

    accuracy: with it ``auto`` takes its time: long integrals too, or up to 16 times as many Sobol points until the
    interval is as narrow. It is a wish: the result says what was reached.

    >>> from regard.noise import NoiseModel, score_laws
    >>> m = weight_moments(score_laws(NoiseModel(means=np.eye(2), isotropic=1.0), np.eye(2)))
    >>> m.method, m.mean.round(12).tolist()
    ('integral', [0.5, 0.5])
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, not {method!r}.")
    finite = scores.outcomes is not None and scores.outcomes <= MOST_OUTCOMES
    if method == "enumeration" or (method == "auto" and finite):
        return enumerated_moments(scores)
    if method == "sampling":
        return sampled_moments(scores, draws=draws, seed=seed, progress=progress)
    if method == "integral" or (method == "auto" and scores.joint is None):
        try:
            return integral_moments(scores, soon=method == "auto" and accuracy is None)
        except CouldNotFindOut:
            if method == "integral":
                raise
    found = qmc_moments(scores, points=points, scrambles=scrambles, seed=seed, progress=progress)
    while accuracy is not None and found.accuracy > accuracy and 4 * points <= MOST_POINTS:
        points *= 4
        found = qmc_moments(scores, points=points, scrambles=scrambles, seed=seed, progress=progress)
    return found


def enumerated_moments(scores: Scores) -> WeightMoments:
    """By every outcome with its probability; exact up to rounding."""
    heads, second = np.zeros((scores.heads, scores.keys)), np.zeros((scores.keys, scores.keys))
    for weights, chances in outcomes(scores):
        w = weights.mean(axis=1)
        heads += np.einsum("r,rhn->hn", chances, weights)
        second += (w * chances[:, None]).T @ w
    return WeightMoments(mean=heads.mean(axis=0), second=second, head_means=heads, method="enumeration", accuracy=1e-13)


def integral_moments(scores: Scores, *, soon: bool = False) -> WeightMoments:
    """By the integrals: independent heads to 1e-10, heads that share noise to 1e-6; soon: refuse what takes long."""
    if scores.joint is not None:
        raise InputError("The integral needs independent keys; these are correlated, so use method='qmc'.")
    n, H, which = scores.keys, scores.heads, scores.which
    each = [head_moments(scores, h, rule=FINE) for h in range(H)]
    means = np.stack([m.mean[which] for m in each])
    total = np.zeros((n, n))
    error, most = max(m.bound for m in each), SOON / max(1, H * (H - 1) // 2) if soon else np.inf
    for g in range(H):
        total += _expand(each[g].pair, each[g].square, which)
        for h in range(g):
            if scores.heads_independent(g, h):
                both = np.outer(means[g], means[h])
            elif scores.heads_equal(g, h):
                both = _expand(each[g].pair, each[g].square, which)
            else:
                pair, same, estimate = cross_moments(scores, g, h, rule=COARSE, most=most)
                both, error = _expand(pair, same, which), max(error, estimate)
            total += both + both.T
    return WeightMoments(
        # 3: a product of two heads' means carries the error of both, and a little
        mean=means.mean(axis=0),
        second=total / H**2,
        head_means=means,
        method="integral",
        accuracy=3 * error,
    )


def _expand(pair: Real, same: Real, which: np.ndarray) -> Real:
    # from one row per law to one row per key: two keys of one law are still different keys, hence the diagonal
    full: Real = pair[np.ix_(which, which)]
    np.fill_diagonal(full, same[which])
    return full


def qmc_moments(
    scores: Scores, *, points: int, scrambles: int, seed: int | np.random.Generator, progress: Progress | None = None
) -> WeightMoments:
    """By several scrambles of Sobol points: the scatter of the scrambles gives a 95 % confidence interval."""
    log2 = check_points(points, scrambles)
    generator, sampler = make_generator(seed), Sampler(scores)
    parts = []
    for done in range(scrambles):
        parts.append(_averages(softmax(sampler.sobol(log2, generator))))
        if progress is not None:
            progress(done + 1, scrambles)
    heads, e1 = _interval([p[0] for p in parts])
    second, e2 = _interval([p[1] for p in parts])
    return WeightMoments(
        mean=heads.mean(axis=0),
        second=second,
        head_means=heads,
        method="qmc",
        accuracy=max(e1, e2),
        parts=tuple((means.mean(axis=0), products) for means, products in parts),
    )


def check_points(points: int, scrambles: int) -> int:
    """log2 of the number of Sobol points; the number must be a power of two, and the scrambles at least 4."""
    log2 = int(points).bit_length() - 1
    if points < 2 or 2**log2 != points:
        raise InputError(
            f"points must be a power of two, not {points}; take {2 ** max(round(np.log2(max(points, 2))), 1)}."
        )
    if scrambles < 4:
        raise InputError(f"scrambles must be at least 4 for an interval, not {scrambles}.")
    return log2


def sampled_moments(
    scores: Scores, *, draws: int, seed: int | np.random.Generator, progress: Progress | None = None
) -> WeightMoments:
    """By plain random draws, in pieces; half a 95 % confidence interval of the worst entry as the accuracy."""
    if draws < 100:
        raise InputError(f"draws must be at least 100 for an interval, not {draws}.")
    generator, sampler = make_generator(seed), Sampler(scores)
    n, H = scores.keys, scores.heads
    # fourth is E (w_i w_j)^2: with it the scatter of the second moments is known without keeping the draws
    heads, second, fourth = np.zeros((H, n)), np.zeros((n, n)), np.zeros((n, n))
    for size in chunks(draws, max(n * H, n * n), progress):
        weights = softmax(sampler.random(size, generator))
        w = weights.mean(axis=1)
        heads += weights.sum(axis=0)
        second += w.T @ w
        fourth += (w * w).T @ (w * w)
    heads, second, fourth = heads / draws, second / draws, fourth / draws
    scatter = np.sqrt(max(float((fourth - second**2).max()), float((second.diagonal() - heads.mean(0) ** 2).max())))
    return WeightMoments(
        mean=heads.mean(axis=0),
        second=second,
        head_means=heads,
        method="sampling",
        accuracy=float(1.96 * scatter / np.sqrt(draws)),
    )


def _averages(weights: Real) -> tuple[Real, Real]:
    w = weights.mean(axis=1)
    return weights.mean(axis=0), w.T @ w / len(w)


def _interval(parts: list[Real]) -> tuple[Real, float]:
    """The mean of independent estimates and half the widest 95 % interval among the entries."""
    stack = np.stack(parts)
    return stack.mean(axis=0), float(half_interval(stack).max())

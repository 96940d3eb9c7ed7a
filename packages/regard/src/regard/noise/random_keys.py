"""What random keys do to an attention output: one verb, one result, every number with its method and accuracy.

First the mean and covariance of the weights averaged over the heads, by whichever method can give them best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from regard.array_types import Real
from regard.arrays import check_array
from regard.attention import softmax
from regard.errors import CouldNotFindOut, InputError
from regard.noise.integrals import COARSE, FINE, cross_moments, head_moments
from regard.noise.law import quantile, weight_laws
from regard.noise.model import NoiseModel
from regard.noise.pictures import study_figure
from regard.noise.scores import (
    MOST_OUTCOMES,
    Sampler,
    Scores,
    WeightLaw,
    check_points,
    check_queries,
    chunks,
    half_interval,
    make_generator,
    outcomes,
    score_laws,
)
from regard.notation import readable
from regard.pictures import Figure
from regard.progress import Progress, steps
from regard.results import Result
from regard.written_numbers import at_most, in_full

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
    parts = [_averages(softmax(sampler.sobol(log2, generator))) for _ in steps(range(scrambles), scrambles, progress)]
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


_HOW = {
    "enumeration": "counting every outcome",
    "integral": "integrals over ln u",
    "qmc": "scrambled Sobol points",
    "sampling": "random draws",
}
_KIND = {"enumeration": "rounding only", "integral": "error bound"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Study(Result):
    """The weights w = (1/H) sum_h softmax(K q_h) and the output c = V^T w of random keys.

    ``accuracy`` belongs to the moments: a bound for integrals and enumeration, half a 95 % interval otherwise.
    Keys are counted from 0. With n keys, H heads and values of width v:
    """

    heads: int
    target: tuple[int, ...]
    weight_mean: Real  # n numbers
    weight_covariance: Real  # n x n
    head_weight_means: Real  # H x n
    output_mean: Real  # v numbers
    output_covariance: Real  # v x v
    target_output: Real  # v numbers
    error: float  # E||c - target||^2 = bias_squared + variance
    bias_squared: float
    variance: float
    error_accuracy: float
    method: str
    accuracy: float
    share: float
    share_probability: Real  # P(w_i > share) for every key
    share_accuracy: Real  # n numbers
    share_methods: tuple[str, ...]
    anyone_above: float | None  # P(some w_i > share), where share >= 1/2 makes these events exclusive
    quantile_levels: tuple[float, ...]
    quantiles: Real | None  # keys x levels
    quantile_accuracy: Real | None  # keys x levels

    def __str__(self) -> str:
        return "\n".join([*self._moment_lines(), *self._weight_lines(), *self._share_lines()])

    def figure(self) -> Figure:
        """The picture as a matplotlib figure (needs ``regard[plots]``)."""
        return study_figure(self)

    def keys_by_interest(self) -> list[int]:
        """The target keys, then the others by their mean weight."""
        others = [k for k in range(len(self.weight_mean)) if k not in self.target]
        # rounded, so that keys that are equal but for rounding keep their order on every machine
        return [*self.target, *sorted(others, key=lambda k: -round(float(self.weight_mean[k]), 9))]

    def _moment_lines(self) -> list[str]:
        heads = "one head" if self.heads == 1 else f"the mean of {self.heads} heads"
        wanted = " and ".join(str(k) for k in self.target)
        kind = _KIND.get(self.method, "95 % interval")
        several = len(self.target) > 1
        target = f"the mean of the values of keys {wanted}" if several else f"the value of key {wanted}"
        return [
            readable(
                f"$E||c - target||^2$ = {self.error:.10g} = {self.bias_squared:.4g} ($bias^2$) + {self.variance:.10g} "
                f"(variance), by {_HOW[self.method]}, {kind} {at_most(self.error_accuracy, 1)}."
            ),
            f"Here c is the output of {heads}, and the target is {target}.",
        ]

    def _weight_lines(self) -> list[str]:
        sd = np.sqrt(np.maximum(self.weight_covariance.diagonal(), 0.0))
        order = self.keys_by_interest()
        lines = [f"{'key':>5} {'E weight':>12} {'sd':>10} {f'P(> {in_full(self.share)})':>12}"]
        lines[0] += "".join(f"{f'{100 * level:g} %':>11}" for level in self.quantile_levels)
        for k in order[:6]:
            row = f"{k:>5} {self.weight_mean[k]:>12.8f} {sd[k]:>10.3g} {self.share_probability[k]:>12.7f}"
            if self.quantiles is not None:
                row += "".join(f"{value:>11.4g}" for value in self.quantiles[k])
            lines.append(row)
        return [*lines, f"  ... and {len(sd) - 6} more keys (to_json() lists all)"] if len(sd) > 6 else lines

    def _share_lines(self) -> list[str]:
        methods = ", ".join(dict.fromkeys(self.share_methods))
        line = f"Shares and quantiles by {methods}; accuracy {at_most(float(self.share_accuracy.max()), 1)} or better."
        if self.anyone_above is not None:
            line += f" P(some key takes more than {in_full(self.share)}) = {self.anyone_above:.7f}."
        return [line]


def study(  # noqa: PLR0913 - a verb's options, each with a default
    model: NoiseModel,
    queries: ArrayLike,
    *,
    target: Sequence[int] = (0, 1),
    values: ArrayLike | None = None,
    share: float = 0.9,
    quantiles: Sequence[float] = (),
    method: str = "auto",
    points: int = 2**13,
    scrambles: int = 16,
    draws: int = 100_000,
    seed: int | np.random.Generator = 0,
    accuracy: float | None = None,
    progress: Progress | None = None,
) -> Study:
    """Mean, covariance, error, shares and quantiles of attention over random keys.

    E||c - target||^2 = ||E c - target||^2 + tr Cov c, with c = V^T w and the target the mean of chosen values.

    Exact methods are chosen by themselves (``method="auto"``): enumeration for finitely many outcomes, integrals for
    independent keys, Sobol points with an interval for correlated ones. The double integral between heads grows with
    the square of the number of heads and with the range of the scores: where it would take long, Sobol points give a
    first answer with its interval. ``accuracy`` asks for more: the long integral, or up to 16 times as many points.

    model: the law of the keys. queries: H x d, or one vector. target: keys whose values' mean is wanted.
    values: n x m, the identity (the output is the weights) if left out. share: of which P(weight > share) is wanted.
    quantiles: levels. points, scrambles, draws, seed: for the methods that use points or draws.
    accuracy: how narrow intervals should be; the result says what was reached.

    Two keys whose length is 1/2 or 3/2 with equal chance, and a query that reaches both with log-odds ln 9:

    >>> from regard.noise import Magnitude
    >>> model = NoiseModel(means=np.eye(2), magnitudes=[Magnitude(key=0)])
    >>> result = study(model, np.log(9) * np.ones(2), share=0.7)
    >>> round(result.error, 12), round(result.variance, 12), result.share_probability.tolist()
    (0.125, 0.125, [0.5, 0.5])
    """
    Q = check_queries(queries, model.dimension)
    chosen, V = check_target(target, model.keys), check_values(values, model.keys)
    if not 0 < share < 1:
        raise InputError(f"share must lie between 0 and 1, not {share:g}.")
    if not all(0 < level < 1 for level in quantiles):
        raise InputError("quantile levels must lie between 0 and 1.")
    if accuracy is not None and not 0 < accuracy < 1:
        raise InputError(f"accuracy must lie between 0 and 1, not {accuracy:g}.")
    scores = score_laws(model, Q)
    moments = weight_moments(
        scores,
        method=method,
        points=points,
        scrambles=scrambles,
        draws=draws,
        seed=seed,
        accuracy=accuracy,
        progress=progress,
    )
    if scores.joint is not None and len(Q) == 1:  # no two keys share a law, so each has points of its own: fewer
        points = min(points, 2**10)
    laws = partial(weight_laws, scores, scrambles=scrambles, seed=seed)
    shares = _shares(scores, partial(laws, points=points), share, tuple(quantiles), progress)
    while accuracy is not None and shares.share_accuracy.max() > accuracy and 4 * points <= MOST_POINTS:
        points *= 4
        shares = _shares(scores, partial(laws, points=points), share, tuple(quantiles), progress)
    bias, variance = expected_error(moments, V, chosen)
    return Study(
        heads=len(Q),
        target=chosen,
        weight_mean=moments.mean,
        weight_covariance=moments.covariance,
        head_weight_means=moments.head_means,
        output_mean=moments.mean @ V,
        output_covariance=V.T @ moments.covariance @ V,
        target_output=V[list(chosen)].mean(axis=0),
        error=bias + variance,
        bias_squared=bias,
        variance=variance,
        error_accuracy=error_accuracy(moments, V, chosen),
        method=moments.method,
        accuracy=moments.accuracy,
        share=share,
        **vars(shares),
        # above one half two keys cannot both exceed the share, so the chances add up
        anyone_above=float(shares.share_probability.sum()) if share >= 0.5 else None,
        quantile_levels=tuple(quantiles),
    )


def expected_error(moments: WeightMoments, values: Real, target: Sequence[int]) -> tuple[float, float]:
    """E||c - target||^2 as (bias^2, variance); values: n x v, one row per key."""
    mean, goal = moments.mean @ values, values[list(target)].mean(axis=0)
    variance = float(np.sum(values * (moments.covariance @ values)))
    return float(np.sum((mean - goal) ** 2)), max(variance, 0.0)  # rounding may leave -1e-16


def error_accuracy(moments: WeightMoments, values: Real, target: Sequence[int]) -> float:
    """How far off E||c - target||^2 may be: it is linear in the moments, so that scrambles give it its own interval.

    Without scrambles each first and second moment may be off by its accuracy: sum |V V^T| + 2 sum |V goal| times that.
    """
    goal, products = values[list(target)].mean(axis=0), values @ values.T
    if moments.parts:
        errors = [float(np.sum(products * second) - 2 * mean @ values @ goal) for mean, second in moments.parts]
        return float(half_interval(np.array(errors)))
    return moments.accuracy * float(np.abs(products).sum() + 2 * np.abs(values @ goal).sum())


@dataclass(frozen=True, eq=False)
class _Shares:
    """What a study says of shares and quantiles, under its names there."""

    share_probability: Real
    share_accuracy: Real
    share_methods: tuple[str, ...]
    quantiles: Real | None
    quantile_accuracy: Real | None


def _shares(
    scores: Scores,
    laws_of: Callable[[Sequence[int]], Iterator[WeightLaw]],
    share: float,
    levels: tuple[float, ...],
    progress: Progress | None,
) -> _Shares:
    """Shares and quantiles, once for all keys of the same law."""
    n = scores.keys
    probability, accuracy, methods = np.ones(n), np.zeros(n), ["one key"] * n
    table, table_accuracy = np.ones((n, len(levels))), np.zeros((n, len(levels)))
    # with a joint covariance equal laws do not make keys alike: their correlations may differ
    groups = list(range(n)) if scores.joint is not None else list(scores.which)
    together = [[k for k in range(n) if groups[k] == group] for group in dict.fromkeys(groups)]
    together = together if n > 1 else []  # a single key has all the weight
    laws = laws_of([some[0] for some in together])
    for members, law in zip(steps(together, len(together), progress), laws, strict=True):
        above, cuts = law.above(share), [quantile(law, level) for level in levels]
        for k in members:
            probability[k], accuracy[k], methods[k] = above.value, above.accuracy, law.method
            table[k], table_accuracy[k] = [c.value for c in cuts], [c.accuracy for c in cuts]
    quantiles = (table, table_accuracy) if levels else (None, None)
    return _Shares(probability, accuracy, tuple(methods), *quantiles)


def check_target(target: Sequence[int], n: int) -> tuple[int, ...]:
    """Different keys from 0 to n - 1."""
    chosen = tuple(int(k) for k in target)
    if not chosen or any(not 0 <= k < n for k in chosen) or len(set(chosen)) < len(chosen):
        raise InputError(f"target must name different keys from 0 to {n - 1}, not {list(chosen)}.")
    return chosen


def check_values(values: ArrayLike | None, n: int) -> Real:
    """A finite row of values for every key; unit vectors where none are given."""
    if values is None:
        return np.eye(n)
    V = check_array(values, what="values")
    if len(V) != n:
        raise InputError(f"values must have one row for each of the {n} keys, not shape {V.shape}.")
    return V

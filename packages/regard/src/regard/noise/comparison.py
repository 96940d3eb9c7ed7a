"""One head or two? The coursework's random keys, both designed answers, and what the scale of q does to them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from regard.array_types import Real
from regard.arrays import as_array
from regard.errors import CouldNotFindOut, InputError
from regard.noise.coursework_settings import gaussian_setting, negative_score, one_head, two_heads
from regard.noise.pictures import comparison_figure
from regard.noise.random_keys import Study, expected_error, study, weight_moments
from regard.noise.scores import KeyLaw, Scores, merge_equal_laws, score_laws
from regard.notation import readable
from regard.pictures import Figure
from regard.progress import Progress, steps
from regard.results import Result
from regard.written_numbers import at_least, at_most, in_full

WIDEST = 4000.0  # standard deviation of a score: beyond, some hundred integrals over it take minutes
LARGEST = 1e6  # of the scale: beyond, scores have lost the digits that their differences need
MORE = "The setting, each head by itself and other scales: details() shows them."
SCALES = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 40.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison(Result):
    """One head q = T (mu_0 + mu_1) against two heads T mu_0 and T mu_1, when key 0 has an uncertain length.

    The ``_given_negative`` errors are means over the draws with k_0 . mu_0 < 0, the others over the rest.
    """

    keys: int
    spread: float
    iso: float
    scale: float
    one: Study
    two: Study
    negative_probability: float
    one_given_negative: float
    two_given_negative: float
    one_given_positive: float
    two_given_positive: float
    head_variances: tuple[float, float]  # of c_1 and c_2, the outputs of the two heads, over all draws
    head_variances_given_positive: tuple[float, float]
    scales: Real  # values of T that were tried
    one_errors: Real  # one per scale, as the next
    two_errors: Real
    lengths: Real  # values of k_0 . mu_0
    one_weight_given_length: Real  # E[weight of key 0 | k_0 . mu_0]
    two_weight_given_length: Real  # one number per length, as the next two
    one_error_given_length: Real
    two_error_given_length: Real

    def __str__(self) -> str:
        return readable("\n".join([*self._answer(), *self._why(), *self._table(), MORE]))

    def details(self) -> str:
        """The setting, each head's variance, the accuracy, and what other scales do."""
        accuracy = max(self.one.error_accuracy, self.two.error_accuracy)
        known = f"Errors by integrals, accurate to {at_most(accuracy, 1)}."
        return readable("\n".join([*self._setting(), *self._heads(), known, *self._scale_lines()]))

    def figure(self) -> Figure:
        """The picture as a matplotlib figure (needs ``regard[plots]``)."""
        return comparison_figure(self)

    def _answer(self) -> list[str]:
        one, two = self.one, self.two
        known = one.error - one.error_accuracy, two.error + two.error_accuracy  # at least, and at most
        if known[0] <= known[1]:  # as far as the integrals tell
            steadier = "no steadier"
        elif _is_sharp(two):
            steadier = f"{one.error / two.error:.3g} x steadier"
        else:
            steadier = f"more than {at_least(known[0] / known[1], 1)} x steadier"
        return [
            f"Two heads are {steadier} here: $E||c - target||^2$ is {_shown_error(two)} with two and "
            f"{_shown_error(one)} with one."
        ]

    def _setting(self) -> list[str]:
        return [
            f"{self.keys} orthonormal means, noise {self.iso:g} I, and {self.spread:g} more along the mean of key 0 "
            "(keys are counted from 0).",
            f"One head has the query $q = {self.scale:g} (mu_0 + mu_1)$; two heads have ${self.scale:g} mu_0$ and "
            f"${self.scale:g} mu_1$, and their outputs are averaged. Target: $(v_0 + v_1)/2$, orthonormal values.",
        ]

    def _table(self) -> list[str]:
        share = self.one.share
        rows: list[tuple[str, float, float]] = [
            ("$E||c - target||^2$", self.one.error, self.two.error),
            ("  of which variance", self.one.variance, self.two.variance),
            (
                f"P(key 0 takes more than {in_full(share)})",
                self.one.share_probability[0],
                self.two.share_probability[0],
            ),
            (
                f"P(key 1 takes more than {in_full(share)})",
                self.one.share_probability[1],
                self.two.share_probability[1],
            ),
            ("$E||c - target||^2$ if $k_0.mu_0 > 0$", self.one_given_positive, self.two_given_positive),
            ("$E||c - target||^2$ if $k_0.mu_0 < 0$", self.one_given_negative, self.two_given_negative),
        ]
        head = f"{'':<36}{'one head':>14}{'two heads':>14}"
        return [head, *(f"{readable(name):<36}{a:>14.8f}{b:>14.8f}" for name, a, b in rows)]

    def _heads(self) -> list[str]:
        """The two heads one by one: E||c_h - E c_h||^2."""
        (first, second), (kept, other) = self.head_variances, self.head_variances_given_positive
        return [
            f"Head by head: $Var c_1 = {first:.3g}$ and $Var c_2 = {second:.3g}$; without the draws with "
            f"$k_0.mu_0 < 0$, {kept:.3g} and {other:.3g}."
        ]

    def _why(self) -> list[str]:
        return [
            f"What is left of the error: key 0 points away from its mean with probability $P(k_0.mu_0 < 0) = "
            f"Phi(-1/sqrt({self.spread + self.iso:g})) =$ {self.negative_probability:.4%}, at every scale, and then "
            "the first of the two heads drops $v_0$.",
        ]

    def _scale_lines(self) -> list[str]:
        lines = [f"{'scale of q':>12}{'one head':>14}{'two heads':>14}"]
        for scale, a, b in zip(self.scales, self.one_errors, self.two_errors, strict=True):
            lines.append(f"{scale:>12g}{a:>14.8f}{b:>14.8f}")
        return lines


def compare(
    *,
    keys: int = 10,
    spread: float = 0.5,
    iso: float = 0.01,
    scale: float = 20.0,
    share: float = 0.9,
    progress: Progress | None = None,
) -> Comparison:
    """One head's swing against two heads' steadiness, in the coursework's setting.

    Key 0 has Sigma_0 = iso I + spread mu_0 mu_0^T, the others iso I. All errors come from integrals; the draws with a
    negative score are included, and their part is shown by conditioning on x = k_0 . mu_0 ~ N(1, spread + iso).

    >>> result = compare(keys=10, spread=0.5, iso=0.01, scale=20)
    >>> round(result.one.error, 6), round(result.two.error, 6), round(result.negative_probability, 4)
    (0.446109, 0.040452, 0.0807)
    """
    as_array(scale, "scale")
    if not (np.isfinite(scale) and scale > 0):
        raise InputError(f"scale must be a positive number, not {scale:g}.")
    model = gaussian_setting(keys, spread=spread, iso=iso)
    most = _largest_scale(float(np.sqrt(spread + 2 * iso)))
    _refuse_large_scale(scale, most)
    designs = one_head(keys, scale), two_heads(keys, scale)
    studies = [study(model, q, share=share) for q in designs]
    scales = np.array(sorted({*(one for one in SCALES if one <= most), float(scale)}))
    errors = np.array([[_error(score_laws(model, q(keys, T))) for q in (one_head, two_heads)] for T in scales])
    p = negative_score(iso, spread)
    # E[error; negative] and the total give both conditional errors: no second integral over the positive lengths
    below = np.array([_error_below_zero(keys, spread, iso, scale, heads, progress) for heads in (1, 2)])
    heads = [head_variances(keys, spread, iso, scale, head) for head in (0, 1)]
    totals = np.array([s.error for s in studies])
    negative, positive = below / p if p > 0 else below, (totals - below) / (1 - p)
    lengths = _lengths(spread + iso, scale)
    given = np.array([[_outcome_given_length(keys, iso, scale, x, heads) for x in lengths] for heads in (1, 2)])
    return Comparison(
        keys=keys,
        spread=spread,
        iso=iso,
        scale=scale,
        one=studies[0],
        two=studies[1],
        negative_probability=p,
        one_given_negative=float(negative[0]),
        two_given_negative=float(negative[1]),
        one_given_positive=float(positive[0]),
        two_given_positive=float(positive[1]),
        head_variances=(heads[0][0], heads[1][0]),
        head_variances_given_positive=(heads[0][1], heads[1][1]),
        scales=scales,
        one_errors=errors[:, 0],
        two_errors=errors[:, 1],
        lengths=lengths,
        one_weight_given_length=given[0, :, 1],
        two_weight_given_length=given[1, :, 1],
        one_error_given_length=given[0, :, 0],
        two_error_given_length=given[1, :, 0],
    )


def _largest_scale(sd: float) -> float:
    """Up to where the integrals answer; sd: of the widest score at scale 1. Without noise every outcome is counted."""
    return min(WIDEST / sd, LARGEST) if sd > 0 else np.inf


def _refuse_large_scale(scale: float, most: float) -> None:
    if scale <= most:
        return
    # scores as large as this are rounded by so much that their differences, which are all that counts, are lost
    why = "are rounded too coarsely" if most == LARGEST else f"vary by {scale * WIDEST / most:.3g}: too wide"
    raise CouldNotFindOut(
        f"At scale {scale:g} the scores {why} for the integrals, so neither error is known and nothing is said for "
        f"one head or two; ask for a scale of at most {float(f'{0.99 * most:.2g}'):g}."
    )


def _is_sharp(study: Study) -> bool:
    """Whether the digits of an error that are printed are its own."""
    return study.error > 1e4 * study.error_accuracy


def _shown_error(study: Study) -> str:
    if _is_sharp(study):
        return f"{study.error:.4g}"
    return f"at most {at_most(study.error + study.error_accuracy, 1)}"


def _error(scores: Scores) -> float:
    return sum(expected_error(weight_moments(scores), np.eye(scores.keys), (0, 1)))


def scores_given_length(keys: int, iso: float, scale: float, length: float, heads: int) -> Scores:
    """The scores once k_0 . mu_0 is known: key 0 keeps only the noise across its mean."""
    return _scores_of_queries(one_head(keys, scale) if heads == 1 else two_heads(keys, scale), iso, length)


def _scores_of_queries(queries: Real, iso: float, length: float) -> Scores:
    keys = queries.shape[1]
    base = score_laws(gaussian_setting(keys, spread=0.0, iso=iso), queries)
    laws = [base.laws[k] for k in base.which]
    # mu_0 is the first unit vector, so without its first entry a query sees only the noise across the mean
    across = queries.copy()
    across[:, 0] = 0.0
    laws[0] = KeyLaw(np.ones(1), length * queries[:, 0][None], iso * across @ across.T)
    return merge_equal_laws(laws)


def _outcome_given_length(keys: int, iso: float, scale: float, length: float, heads: int) -> tuple[float, float]:
    """E||c - target||^2 and the weight of key 0, given k_0 . mu_0."""
    moments = weight_moments(scores_given_length(keys, iso, scale, length, heads))
    return sum(expected_error(moments, np.eye(keys), (0, 1))), float(moments.mean[0])


def head_variances(keys: int, spread: float, iso: float, scale: float, head: int) -> tuple[float, float]:
    """The variance E||c_h - E c_h||^2 of one of the two heads, over all draws and over those with k_0 . mu_0 > 0.

    >>> [round(x, 4) for x in head_variances(10, 0.5, 0.01, 20.0, 0)]
    [0.1435, 0.0504]
    """
    query, p = two_heads(keys, scale)[head : head + 1], negative_score(iso, spread)
    moments = _moments(score_laws(gaussian_setting(keys, spread=spread, iso=iso), query))
    every = _scatter(moments)
    if head != 0:  # only the first head's scores know the length of key 0
        return every, every
    below = np.zeros(keys + 1)
    for panel, weights in _negative_lengths(spread + iso, scale) if p > 0 else ():
        below += weights @ np.array([_moments(_scores_of_queries(query, iso, x)) for x in panel])
    return every, _scatter((moments - below) / (1 - p))


def _moments(scores: Scores) -> Real:
    """E alpha, and as a last number E||alpha||^2, which is E||c||^2 for orthonormal values."""
    moments = weight_moments(scores)
    return np.append(moments.mean, np.trace(moments.second))


def _scatter(moments: Real) -> float:
    """E||c - E c||^2 from these."""
    return max(float(moments[-1] - moments[:-1] @ moments[:-1]), 0.0)


def _error_below_zero(
    keys: int, spread: float, iso: float, scale: float, heads: int, progress: Progress | None
) -> float:
    """E[||c - target||^2; k_0 . mu_0 < 0]."""
    total, panels = 0.0, _negative_lengths(spread + iso, scale)
    for x, weights in steps(panels, len(panels), progress):
        total += float(weights @ np.array([_outcome_given_length(keys, iso, scale, point, heads)[0] for point in x]))
    return total


def _negative_lengths(variance: float, scale: float) -> list[tuple[Real, Real]]:
    """Gauss-Legendre panels for k_0 . mu_0 < 0, points and weights with the density; short where scores are small."""
    if variance == 0:
        return []
    sd = np.sqrt(variance)
    # the Gaussian tail beyond is below 1e-17
    last = 1 - 8.5 * sd
    # close to 0 the score T x moves the weights within 1/T, farther out only the Gaussian's density changes
    near = [-x / scale for x in (0.0, 4.0, 8.0, 16.0, 32.0) if -x / scale > last]
    far = [x for x in -sd * np.arange(1.0, 9.0) if last < x < near[-1]]
    edges = [*near, *far, last] if last < 0 else []
    nodes, weights = np.polynomial.legendre.leggauss(12)
    panels = []
    for right, left in pairwise(edges):
        x = (right + left) / 2 + (right - left) / 2 * nodes
        density = np.exp(-((x - 1) ** 2) / (2 * variance)) / (sd * np.sqrt(2 * np.pi))
        panels.append((x, (right - left) / 2 * weights * density))
    return panels


def _lengths(variance: float, scale: float) -> Real:
    """Where to draw the conditional curves: the bulk of k_0 . mu_0, and closely around 0 and 1."""
    sd = np.sqrt(max(variance, 1e-12))
    bulk = 1 + sd * np.linspace(-3.2, 3.2, 33)
    close = np.linspace(-6, 6, 13) / scale
    return np.unique(np.concatenate([bulk, close, 1 + close]))

"""Draws of the weights: from a random generator, from scrambled Sobol points, or every outcome there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its rooms load when they are first used: half of it is never needed
from scipy.special import ndtri

from regard.array_types import Real
from regard.attention import softmax
from regard.errors import InputError
from regard.noise.scores import Scores
from regard.progress import Progress

MOST_OUTCOMES = 2**20  # twenty keys of two lengths


@dataclass(frozen=True, eq=False)
class Sampler:
    """Turns standard normals and uniforms into scores; all three sources of draws go through here."""

    scores: Scores

    @cached_property
    def factor(self) -> Real:
        """A matrix A with A A^T the covariance of all scores (n H x r), or one per key (n x H x H) if independent."""
        if self.scores.joint is not None:
            return _root(self.scores.joint)
        roots = np.stack([_root(law.covariance) for law in self.scores.laws])
        each: Real = roots[self.scores.which]
        return each

    @cached_property
    def several(self) -> list[int]:
        """The keys whose magnitude is random."""
        return [key for key, k in enumerate(self.scores.which) if len(self.scores.laws[k].chances) > 1]

    @property
    def dimensions(self) -> tuple[int, int]:
        """How many normals and how many uniforms one draw takes."""
        return self.scores.keys * self.scores.heads, len(self.several)

    def __call__(self, normals: Real, uniforms: Real) -> Real:
        """Scores, draws x heads x keys."""
        n, H = self.scores.keys, self.scores.heads
        if self.scores.joint is not None:
            noise = (normals @ self.factor.T).reshape(-1, n, H)
        else:
            noise = np.einsum("nhk,rnk->rnh", self.factor, normals.reshape(-1, n, H))
        # Every key starts at its first magnitude; the few that have several are moved.
        first = np.stack([law.means[0] for law in self.scores.laws])[self.scores.which]
        out = noise + first
        for column, key in enumerate(self.several):
            law = self.scores.laws[self.scores.which[key]]
            chosen = np.searchsorted(np.cumsum(law.chances)[:-1], uniforms[:, column], side="right")
            out[:, key] += law.means[chosen] - law.means[0]
        return np.ascontiguousarray(out.transpose(0, 2, 1))

    def random(self, count: int, generator: np.random.Generator) -> Real:
        """Scores from a random generator."""
        normals, uniforms = self.dimensions
        return self(generator.standard_normal((count, normals)), generator.random((count, uniforms)))

    def sobol(self, log2_count: int, generator: np.random.Generator) -> Real:
        """Scores from one scramble of 2^m Sobol points."""
        normals, uniforms = self.dimensions
        points = sobol_points(normals + uniforms, log2_count, generator)
        return self(ndtri(points[:, :normals]), points[:, normals:])


def half_interval(estimates: Real) -> Real:
    """Half a 95 % interval of the mean of independent estimates, one per row (Student's t)."""
    count = len(estimates)
    return np.asarray(scipy.stats.t.ppf(0.975, count - 1) * estimates.std(axis=0, ddof=1) / np.sqrt(count))


def sobol_points(dimension: int, log2_count: int, generator: np.random.Generator) -> Real:
    """One scramble of 2^m Sobol points in the open cube."""
    Sobol = scipy.stats.qmc.Sobol
    if dimension > Sobol.MAXDIM:
        raise InputError(f"Sobol points have at most {Sobol.MAXDIM} dimensions, not {dimension}: use fewer keys.")
    points = Sobol(dimension, scramble=True, rng=generator).random_base2(log2_count)
    out: Real = np.clip(points, 2.0**-54, 1 - 2.0**-53)  # at 0 and 1 the normal quantile is infinite
    return out


def _root(covariance: Real) -> Real:
    """Symmetric-order square root: the largest directions first, where Sobol points are best."""
    # not Cholesky: covariances may be singular, and the order of the columns matters
    values, vectors = np.linalg.eigh(covariance)
    # rounding leaves eigenvalues a little below 0
    values = np.where(values > 1e-14 * max(values[-1], 0.0), values, 0.0)
    out: Real = (vectors * np.sqrt(values))[:, ::-1]
    return out


def make_generator(seed: int | np.random.Generator) -> np.random.Generator:
    """A generator from a seed or from itself.

    >>> bool(make_generator(3).integers(10) == make_generator(np.random.default_rng(3)).integers(10))
    True
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0 or a numpy Generator, not {seed!r}.")
    return np.random.default_rng(seed)


def outcomes(scores: Scores) -> Iterator[tuple[Real, Real]]:
    """Every possible weight matrix (outcomes x H x n) of finitely many, with its probability, in pieces.

    >>> from regard.noise import Magnitude, NoiseModel, score_laws
    >>> model = NoiseModel(means=np.eye(2), magnitudes=[Magnitude(key=0)])
    >>> ((weights, chances),) = outcomes(score_laws(model, np.log(9) * np.ones(2)))
    >>> weights[:, 0].round(4).tolist(), chances.tolist()
    ([[0.25, 0.75], [0.75, 0.25]], [0.5, 0.5])
    """
    if scores.outcomes is None or scores.outcomes > MOST_OUTCOMES:
        came = "infinitely many" if scores.outcomes is None else f"{scores.outcomes:,}"
        raise InputError(f"enumeration takes at most {MOST_OUTCOMES:,} outcomes, but there are {came}.")
    laws = [scores.laws[k] for k in scores.which]
    shape, done = [len(law.chances) for law in laws], 0
    for size in chunks(scores.outcomes, scores.keys * scores.heads):
        picks = _digits(np.arange(done, done + size), shape)
        s = np.stack([law.means[pick] for pick, law in zip(picks, laws, strict=True)], axis=2)
        chances = np.prod([law.chances[pick] for pick, law in zip(picks, laws, strict=True)], axis=0)
        yield softmax(s), chances
        done += size


def _digits(numbers: np.ndarray, bases: list[int]) -> list[np.ndarray]:
    """The digits of numbers in mixed bases, the last base running fastest (any number of keys)."""
    out = []
    for base in reversed(bases):
        numbers, digit = np.divmod(numbers, base)
        out.append(digit)
    return out[::-1]


def chunks(total: int, width: int, progress: Progress | None = None) -> Iterator[int]:
    """The sizes of pieces of at most about 2^21 numbers each, telling how far it is."""
    size, done = max(1, 2**21 // width), 0
    while done < total:
        step = min(size, total - done)
        yield step
        done += step
        if progress is not None:
            progress(done, total)

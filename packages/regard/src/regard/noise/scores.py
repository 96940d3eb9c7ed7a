"""The law of the scores s_hl = q_h . k_l: a mixture of Gaussians for every key, or one joint Gaussian; and draws of it.

Every method (integral, enumeration, quasi-Monte-Carlo, sampling) starts from here. Keys with equal laws are grouped:
n = 100 keys of the coursework are three laws. Draws come from a random generator, from scrambled Sobol points, or are
every outcome there is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its rooms load when they are first used: half of it is never needed
from numpy.typing import ArrayLike
from scipy.special import ndtri

from regard.array_types import Real
from regard.arrays import check_array
from regard.attention import softmax
from regard.errors import InputError
from regard.noise.model import NoiseModel
from regard.progress import Counter, Progress
from regard.written_numbers import is_whole

# a few thousand roundings of numbers near 1, added to what a method says of its own accuracy
ROUNDING = 1e-12


@dataclass(frozen=True)
class Value:
    """A number and how far the truth can be from it: an estimate, or half a 95 % interval, as the method says."""

    value: float
    accuracy: float


class WeightLaw(ABC):
    """The law of one weight; shares are in (0, 1)."""

    method: str  # how the numbers are found

    @abstractmethod
    def above(self, share: float) -> Value:
        """P(weight > share)."""

    @abstractmethod
    def density(self, share: float) -> Value:
        """The density of the weight at a share."""

    def value_above(self, share: float) -> float:
        """P(weight > share) without its accuracy, where that is quicker: while a hand drags."""
        return self.above(share).value

    def sketch(self, shares: Real) -> Real:
        """P(weight > share) for many shares at once, without an error estimate: for pictures."""
        return np.array([self.value_above(share) for share in shares.tolist()])


def logit(share: float) -> float:
    """ln(share / (1 - share)).

    >>> logit(0.5)
    0.0
    """
    return float(logits(share))


def logits(shares: ArrayLike) -> Real:
    """The same for many."""
    return np.asarray(np.log(shares) - np.log1p(-np.asarray(shares)))


@dataclass(frozen=True, eq=False)
class KeyLaw:
    """One key's scores in H heads: with chance p_c Gaussian of mean means[c] and the common covariance."""

    chances: Real  # C
    means: Real  # C x H
    covariance: Real  # H x H

    def sd(self, head: int) -> float:
        """The standard deviation of the Gaussian part in one head."""
        return float(np.sqrt(self.covariance[head, head]))

    def heads_independent(self, g: int, h: int) -> bool:
        """Whether this key's scores in heads g and h are independent."""
        scale = self.sd(g) * self.sd(h)
        # a random magnitude moves both heads' means at once: uncorrelated noise is then not enough
        varying = np.ptp(self.means, axis=0) > 0
        return bool(abs(self.covariance[g, h]) <= 1e-13 * scale and not (varying[g] and varying[h]))


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of n keys in H heads: distinct laws, which key has which, and a joint covariance if correlated.

    ``joint`` is (n H) x (n H), the index of key l in head h being l H + h; None where keys are independent.
    """

    laws: tuple[KeyLaw, ...]
    which: np.ndarray  # n numbers, the law of each key
    joint: Real | None = None

    @property
    def heads(self) -> int:
        """How many heads there are."""
        return int(self.laws[0].means.shape[1])

    @property
    def keys(self) -> int:
        """How many keys there are."""
        return len(self.which)

    @cached_property
    def counts(self) -> np.ndarray:
        """How many keys follow each law."""
        return np.bincount(self.which, minlength=len(self.laws))

    @property
    def outcomes(self) -> int | None:
        """The number of possible score matrices where it is finite, else None."""
        if self.joint is not None or any(law.covariance.any() for law in self.laws):
            return None
        total = 1
        for law, count in zip(self.laws, self.counts, strict=True):
            total *= len(law.chances) ** int(count)
        return total

    def heads_independent(self, g: int, h: int) -> bool:
        """Whether the weights of two heads are independent (uncorrelated Gaussian scores, no shared magnitude)."""
        return self.joint is None and all(law.heads_independent(g, h) for law in self.laws)

    def heads_equal(self, g: int, h: int) -> bool:
        """Whether two heads have the same scores, whatever the draw."""
        return all(
            bool((law.means[:, g] == law.means[:, h]).all())
            and law.covariance[g, g] == law.covariance[g, h] == law.covariance[h, h]
            for law in self.laws
        )

    def head(self, h: int) -> Scores:
        """The scores of one head alone, with keys regrouped."""
        laws = [KeyLaw(v.chances, v.means[:, [h]], v.covariance[[h]][:, [h]]) for v in self.laws]
        joint = None if self.joint is None else self.joint[h :: self.heads, h :: self.heads]
        return merge_equal_laws([laws[k] for k in self.which], joint)


def check_queries(queries: ArrayLike, dimension: int) -> Real:
    """H x d queries from one vector or from rows, if they are as long as the keys.

    >>> check_queries([1, 2], 2).shape
    (1, 2)
    """
    Q = np.atleast_2d(check_array(queries, what="queries", ndim=(1, 2)))
    if Q.shape[1] != dimension:
        raise InputError(
            f"queries must have the keys' length {dimension}, but they have {Q.shape[1]}; pass one row per head."
        )
    return Q


def score_laws(model: NoiseModel, queries: ArrayLike) -> Scores:
    """The law of all scores s_hl = q_h . k_l under a noise model; queries: d numbers, or H x d for H heads.

    >>> scores = score_laws(NoiseModel(means=np.eye(3), isotropic=0.25), [2.0, 2.0, 0.0])
    >>> len(scores.laws), scores.counts.tolist(), scores.laws[0].sd(0)
    (2, [2, 1], 1.4142135623730951)
    """
    Q = check_queries(queries, model.dimension)
    with np.errstate(over="ignore", invalid="ignore"):
        laws = _laws(model, Q)
        if not all(np.isfinite(law.means).all() and np.isfinite(law.covariance).all() for law in laws):
            raise InputError(
                "The scores of these queries leave the range of float64: make the queries shorter or the noise smaller."
            )
    return merge_equal_laws(laws, _joint(model, Q))


def _laws(model: NoiseModel, Q: Real) -> list[KeyLaw]:
    """The law of each key's scores, for H queries (H x d)."""
    laws = []
    for key in range(model.keys):
        values, chances = model.magnitude(key)
        # a length of probability 0 would make enumeration and mixtures larger for nothing
        kept = chances > 0
        means = np.outer(values[kept], Q @ model.means[key])
        laws.append(KeyLaw(chances[kept], means, _clean(model.score_covariance(Q, key))))
    return laws


def _clean(covariance: Real) -> Real:
    """Symmetric, with no negative variance left by rounding; a standard deviation below 1e-15 moves no weight."""
    S = (covariance + covariance.T) / 2
    still = S.diagonal() < 1e-30
    S[still], S[:, still] = 0.0, 0.0
    return S


def _joint(model: NoiseModel, Q: Real) -> Real | None:
    if model.joint is None:
        return None
    n, d, H = model.keys, model.dimension, len(Q)
    blocks = np.asarray(model.joint).reshape(n, d, n, d)
    J = np.einsum("gd,idje,he->igjh", Q, blocks, Q, optimize=True)
    for key in range(n):
        J[key, :, key, :] = _clean(model.score_covariance(Q, key))
    between = J.copy()
    between[np.arange(n), :, np.arange(n), :] = 0.0
    if np.abs(between).max() <= 1e-14 * np.abs(J).max():
        return None  # these queries see no correlation between keys
    return _clean(J.reshape(n * H, n * H))


def merge_equal_laws(laws: list[KeyLaw], joint: Real | None = None) -> Scores:
    """Scores with equal laws merged; equal up to 1e-13 of the largest score, far below every stated accuracy."""
    exact: dict[bytes, KeyLaw] = {}  # equal in every bit, as most keys are, which is quickly seen
    bits = [b"|".join(part.tobytes() for part in (law.chances, law.means, law.covariance)) for law in laws]
    for pattern, law in zip(bits, laws, strict=True):
        exact.setdefault(pattern, law)
    sizes = [(np.abs(law.means).max(), np.sqrt(np.abs(law.covariance).max())) for law in exact.values()]
    scale = float(np.max(sizes)) or 1.0
    distinct: dict[bytes, KeyLaw] = {}
    rounded: dict[bytes, bytes] = {}
    for pattern, law in exact.items():
        parts = (law.chances, law.means / scale, law.covariance / scale**2)
        # + 0.0 turns -0.0 into 0.0, which are equal but differ as bytes
        rounded[pattern] = b"|".join((np.round(part, 13) + 0.0).tobytes() for part in parts)
        distinct.setdefault(rounded[pattern], law)
    place = {key: number for number, key in enumerate(distinct)}
    return Scores(tuple(distinct.values()), np.array([place[rounded[pattern]] for pattern in bits]), joint)


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
    if not is_whole(seed) or seed < 0:
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
    size, counter = max(1, 2**21 // width), Counter(progress, total)
    while counter.done < total:
        step = min(size, total - counter.done)
        yield step
        counter.add(step)

"""Would the difference between two systems survive another choice of test sentences? The paired bootstrap.

Draw as many sentences as there are, with replacement, and score both systems on the same draw; do it a thousand
times (koehn2004). With d the difference on the sentences themselves and d*_b on draw b:

    interval = 2.5 % to 97.5 % of the d*_b
    p = (1 + number of b with |d*_b - mean d*| >= |d|) / (1 + draws)              two-sided
    sacrebleu's p = (1 + number of b with |d*_b| - mean |d*| > |d|) / (1 + draws)

The draws are sacrebleu's own (the same seed gives the same sentences), so ``sacrebleu_p`` is what its ``--paired-bs``
prints. It takes absolute values before it centres, which makes it one-sided in effect: between equal systems it falls
below 0.05 in about 1 of 10 cases, not 1 of 20. Verdicts use the two-sided one.

Test sentences vary here, not trainings: it says how another test set would come out for *these* weights.

Means over seeds with t-intervals, paired differences, and which of several differences survive being several.

    mean +- t(k - 1) * s / sqrt(k)

A t-interval over k seeds assumes that the seeds' results scatter normally. With k = 3 its half-width is 2.5 standard
deviations: that is what three seeds can say, not a weakness of the formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import InputError
from regard.extras import require
from regard.results import Result
from regard.terminal import align_columns

SEED = 12345  # sacrebleu's
SAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class BootstrapDifference:
    """``second`` minus ``first`` on the same sentences; ``holm`` corrects ``p`` for all pairs of this measure."""

    measure: str
    first: str
    second: str
    first_score: float
    second_score: float
    difference: float
    low: float
    high: float
    p: float
    holm: float
    sacrebleu_p: float
    verdict: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Bootstrap(Result):
    """What :func:`paired_bootstrap` returns."""

    sentences: int
    samples: int
    seed: int
    differences: list[BootstrapDifference]
    signatures: dict[str, str]  # of BLEU and chrF: how they were counted

    def __str__(self) -> str:
        return "\n".join([self.table(), *(f"{name} {text}" for name, text in self.signatures.items())])

    def table(self) -> str:
        """The differences, without the signatures."""
        rows = [["", "", "difference", "95 % interval", "p", "sacrebleu's p", ""]]
        for d in self.differences:
            digits = 4 if "character" in d.measure else 2
            span = f"{d.low:+.{digits}f} to {d.high:+.{digits}f}"
            gap, who = f"{d.difference:+.{digits}f}", f"{d.first}, {d.second}"
            rows.append([d.measure, who, gap, span, f"{d.p:.3f}", f"{d.sacrebleu_p:.3f}", d.verdict])
        head = (
            f"Paired bootstrap: other test sentences, the same weights; {self.samples:,} draws of {self.sentences:,} "
            f"sentences, seed {self.seed} (+ means the second has more; p is two-sided):"
        )
        return "\n".join([head, align_columns(rows)])


@dataclass(frozen=True, kw_only=True, eq=False)
class CorpusScore:
    """A corpus score as a function of sums over sentences: ``score(statistics[rows].sum(0))``."""

    statistics: Float  # (sentences, numbers)
    score: Callable[[Float], float]

    def scores_of_draws(self, draws: npt.NDArray[np.int64]) -> Float:
        """The score of every draw of sentences."""
        count = len(self.statistics)
        # how often each sentence was drawn, times its numbers: one small product for each draw
        return np.array([self.score(np.bincount(rows, minlength=count) @ self.statistics) for rows in draws])

    @property
    def full_score(self) -> float:
        """The score of all sentences, each once."""
        return self.score(self.statistics.sum(axis=0))


def paired_bootstrap(
    systems: Mapping[str, Sequence[Sequence[str]]],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    nats: Mapping[str, Sequence[Sequence[float | None]]] | None = None,
    characters: Sequence[int] = (),
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Bootstrap:
    """Compare every two systems in BLEU and chrF, and in nats per character where ``nats`` gives each sentence's.

    A system is a list of translation lists, one for every run of it; its score on a draw is the mean over its runs.
    ``nats`` are in the same form; sentences without a number anywhere are left out of that measure alone.

    >>> references = ["a red dog runs in the snow today", "two men sit on a long bench", "the cat sees a big bird"]
    >>> worse = ["a dog runs in the snow", "men sit on a long bench", "the cat sees a bird"]
    >>> found = paired_bootstrap({"worse": [worse], "right": [references]}, references, samples=100)
    >>> [(d.measure, round(d.second_score), d.verdict) for d in found.differences]
    [('BLEU', 100, 'right is better'), ('chrF', 100, 'right is better')]
    """
    _check(systems, references, samples)
    metrics = {"BLEU": bleu(lowercase), "chrF": chrf(lowercase)}
    measured = {
        name: {system: [_metric_score(metric, said, references) for said in runs] for system, runs in systems.items()}
        for name, metric in metrics.items()
    }
    draws = np.random.default_rng(seed).choice(len(references), size=(samples, len(references)), replace=True)
    differences = [d for name, runs in measured.items() for d in _differences(name, runs, draws, lower_is_better=False)]
    if nats is not None:
        costs = {system: [_nats_score(each, characters, nats) for each in runs] for system, runs in nats.items()}
        differences += _differences("NLL per character", costs, draws, lower_is_better=True)
    return Bootstrap(
        sentences=len(references),
        samples=samples,
        seed=seed,
        differences=differences,
        signatures={name: str(metric.get_signature()) for name, metric in metrics.items()},
    )


def bleu(lowercase: bool) -> Any:
    """sacrebleu's BLEU: 13a tokens, exponential smoothing."""
    return _sacrebleu().BLEU(lowercase=lowercase)


def chrf(lowercase: bool) -> Any:
    """sacrebleu's chrF: characters up to 6, no words, beta 2."""
    return _sacrebleu().CHRF(lowercase=lowercase)


def _sacrebleu() -> Any:
    require("A score (BLEU, chrF)", "sacrebleu")
    import sacrebleu

    return sacrebleu


def _metric_score(metric: Any, said: Sequence[str], references: Sequence[str]) -> CorpusScore:
    rows = metric._extract_corpus_statistics(list(said), [list(references)])  # counts of n-grams: sacrebleu's own
    return CorpusScore(
        statistics=np.array(rows, np.float64),
        score=lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score),
    )


def _nats_score(
    each: Sequence[float | None], characters: Sequence[int], all_of_them: Mapping[str, Sequence[Sequence[float | None]]]
) -> CorpusScore:
    """Two sums, nats and characters, over the sentences that every run could read."""
    runs = [run for system in all_of_them.values() for run in system]
    shared = [all(run[i] is not None for run in runs) for i in range(len(each))]
    # unread sentences stay in the draws, which must be the same for every measure, and add nothing
    rows = [(x, n) if keep else (0.0, 0) for x, n, keep in zip(each, characters, shared, strict=True)]
    return CorpusScore(statistics=np.array(rows, np.float64), score=lambda sums: float(sums[0] / max(sums[1], 1.0)))


def _differences(
    measure: str, systems: Mapping[str, Sequence[CorpusScore]], draws: npt.NDArray[np.int64], *, lower_is_better: bool
) -> list[BootstrapDifference]:
    drawn = {name: np.mean([run.scores_of_draws(draws) for run in runs], axis=0) for name, runs in systems.items()}
    whole = {name: float(np.mean([run.full_score for run in runs])) for name, runs in systems.items()}
    gaps = {(a, b): (whole[b] - whole[a], drawn[b] - drawn[a]) for a, b in combinations(systems, 2)}
    p_values = [two_sided_p_value(*gap) for gap in gaps.values()]
    return [
        BootstrapDifference(
            measure=measure,
            first=a,
            second=b,
            first_score=whole[a],
            second_score=whole[b],
            difference=gap,
            low=float(np.quantile(sample, (1 - LEVEL) / 2)),
            high=float(np.quantile(sample, (1 + LEVEL) / 2)),
            p=p,
            holm=both,
            sacrebleu_p=sacrebleu_p_value(gap, sample),
            verdict=verdict(b, gap, p, both, len(gaps), lower_is_better),
        )
        for ((a, b), (gap, sample)), p, both in zip(gaps.items(), p_values, holm(p_values), strict=True)
    ]


def two_sided_p_value(gap: float, sample: Float) -> float:
    """How often a centred difference is as large as ``gap``, on either side.

    >>> two_sided_p_value(2.0, np.array([1.0, 2.0, 3.0, 2.0]))  # centred: -1, 0, 1, 0
    0.2
    """
    return float((1 + np.sum(np.abs(sample - sample.mean()) >= abs(gap))) / (1 + len(sample)))


def sacrebleu_p_value(gap: float, sample: Float) -> float:
    """sacrebleu's p-value of the same draws.

    >>> sacrebleu_p_value(0.5, np.array([1.0, 2.0, 3.0, 2.0]))  # centred: -1, 0, 1, 0
    0.4
    """
    sizes = np.abs(sample)
    return float((1 + np.sum(sizes - sizes.mean() > abs(gap))) / (1 + len(sample)))


def check_samples(samples: int) -> None:
    """Refuse a number of draws that says nothing."""
    if samples < 1:
        raise InputError(f"The bootstrap needs 1 draw or more, not {samples}; 1000 are usual.")


def _check(systems: Mapping[str, Sequence[Sequence[str]]], references: Sequence[str], samples: int) -> None:
    if len(systems) < 2:
        raise InputError(f"A paired bootstrap compares two systems or more, not {len(systems)}.")
    check_samples(samples)
    if not references:
        raise InputError("There is no sentence to compare on; give at least one reference.")
    for name, runs in systems.items():
        if not runs:
            raise InputError(f"{name} has no translations; give one list or more.")
        for said in runs:
            if len(said) != len(references):
                raise InputError(
                    f"{name} has {len(said)} translations of {len(references)} references; give one of each."
                )


LEVEL = 0.95


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean over seeds; ``low`` and ``high`` are None where one seed cannot say."""

    mean: float
    low: float | None
    high: float | None
    values: list[float]

    def text(self, digits: int = 2) -> str:
        """
        >>> t_interval([1.0, 2.0, 3.0]).text()
        '2.00 (-0.48 to 4.48)'
        """
        if self.low is None or self.high is None:
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """``second`` minus ``first``, paired by seed; ``holm`` is the p-value corrected for all pairs of this measure."""

    measure: str
    first: str
    second: str
    interval: Interval
    p: float | None
    holm: float | None
    verdict: str


def t_interval(values: Sequence[float]) -> Interval:
    """The mean and its t-interval.

    >>> round(t_interval([1.0, 2.0, 3.0]).high, 4)  # 2 + 4.3027 / sqrt(3)
    4.4841
    """
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    if not len(values):
        raise InputError("A mean needs one value or more, and there is none.")
    x = np.asarray(values, dtype=np.float64)
    if not np.isfinite(x).all():
        raise InputError(f"A mean over seeds needs finite numbers, not {x[~np.isfinite(x)][0]}; look at that run.")
    mean = float(x.mean())
    if len(x) == 1:
        return Interval(mean=mean, low=None, high=None, values=x.tolist())
    half = float(stdtrit(len(x) - 1, (1 + LEVEL) / 2) * x.std(ddof=1) / math.sqrt(len(x)))
    return Interval(mean=mean, low=mean - half, high=mean + half, values=x.tolist())


def paired_p(differences: Sequence[float]) -> float | None:
    """The two-sided p-value of the paired t-test; None for one seed.

    >>> round(paired_p([1.0, 2.0, 3.0]), 4)
    0.0742
    """
    from scipy.special import stdtr

    x = np.asarray(differences, dtype=np.float64)
    if len(x) < 2:
        return None
    error = float(x.std(ddof=1)) / math.sqrt(len(x))
    # equal differences in every seed: no scatter to divide by, so they are certainly 0 or certainly not
    if error == 0:
        return 1.0 if not x.any() else 0.0
    return float(2 * stdtr(len(x) - 1, -abs(float(x.mean())) / error))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the chance of a single false alarm among all of them stays below the level.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    corrected, highest = [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        # a larger p never gets a smaller correction than one before it
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        corrected[int(i)] = highest
    return corrected


def paired_differences(
    measure: str, values: dict[str, Sequence[float]], *, lower_is_better: bool = True
) -> list[Difference]:
    """Every two entries of ``values`` (a list over the same seeds each), with a verdict that says what is noise."""
    pairs = list(combinations(values, 2))
    gaps = [[y - x for x, y in zip(values[a], values[b], strict=True)] for a, b in pairs]
    raw = [paired_p(gap) for gap in gaps]
    known = [p for p in raw if p is not None]
    corrected: Sequence[float | None] = holm(known) if len(known) == len(raw) else [None] * len(raw)
    return [
        Difference(
            measure=measure,
            first=a,
            second=b,
            interval=t_interval(gap),
            p=p,
            holm=h,
            verdict=verdict(b, float(np.mean(gap)), p, h, len(pairs), lower_is_better),
        )
        for (a, b), gap, p, h in zip(pairs, gaps, raw, corrected, strict=True)
    ]


def verdict(second: str, mean: float, p: float | None, corrected: float | None, count: int, lower: bool) -> str:
    """What a difference of ``mean`` is worth, ``corrected`` for having looked at ``count`` pairs.

    >>> verdict("b", -0.5, 0.01, 0.03, 3, lower=True)
    'b is better'
    """
    if p is None or corrected is None:
        return "one seed: nothing is known of the noise"
    if p >= 1 - LEVEL:
        return "within noise"
    side = f"{second} is {'better' if (mean < 0) == lower else 'worse'}"
    return side if corrected < 1 - LEVEL else f"{side}, but not beyond chance among {count} pairs"

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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.array_types import Float
from regard.errors import InputError
from regard.extras import require
from regard.results import Result
from regard.tables import align_columns
from regard.translator.scoring.intervals import LEVEL, holm, verdict

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
    names = list(systems)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    gaps = {(a, b): (whole[b] - whole[a], drawn[b] - drawn[a]) for a, b in pairs}
    corrected = holm([two_sided_p_value(*gaps[pair]) for pair in pairs])
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
            p=two_sided_p_value(gap, sample),
            holm=both,
            sacrebleu_p=sacrebleu_p_value(gap, sample),
            verdict=verdict(b, gap, two_sided_p_value(gap, sample), both, 1 - LEVEL, len(pairs), lower_is_better),
        )
        for ((a, b), (gap, sample)), both in zip(gaps.items(), corrected, strict=True)
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

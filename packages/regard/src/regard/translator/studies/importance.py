"""What mattered in a search: how much of the scatter of ln perplexity each setting explains, and how sure that is.

A random forest learns ln perplexity from the settings of some trials and predicts the others. A setting's importance is

    (squared error with that setting's values shuffled - squared error) / variance of ln perplexity

on the trials the forest has not seen (Breiman, 2001). The trials are resampled many times; a setting whose interval
reaches zero has not been shown to matter. Where two settings only matter together, both get the credit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Float
from regard.errors import InputError
from regard.translator.studies.space import Range, Space

FEWEST = 8  # trials; below this a forest sees nothing
_SHUFFLES = 5


@dataclass(frozen=True, kw_only=True)
class Importance:
    """The share of the scatter that a setting explains: the mean over resamples, their 5 % and 95 % quantiles."""

    name: str
    mean: float
    low: float
    high: float


def importances(
    space: Space,
    tried: Sequence[Mapping[str, Any]],
    perplexities: Sequence[float],
    *,
    seed: int = 0,
    resamples: int = 60,
) -> list[Importance]:
    """The importance of every setting of ``space``, most important first; nothing where there are too few trials."""
    y = np.log(np.asarray(perplexities, dtype=np.float64))
    if len(y) < FEWEST or not np.isfinite(y).all() or np.ptp(y) == 0:
        return []
    names = [key for key, entry in space.entries.items() if not (isinstance(entry, list) and len(entry) == 1)]
    columns = [_columns(space.entries[key], [t[key] for t in tried]) for key in names]
    draw = np.random.default_rng(seed)
    shares = [s for _ in range(resamples) if (s := _fit_resample(columns, y, draw)) is not None]
    low, high = np.quantile(shares, [0.05, 0.95], axis=0)
    mean = np.mean(shares, axis=0)
    rows = [
        Importance(name=n, mean=float(mean[i]), low=float(low[i]), high=float(high[i])) for i, n in enumerate(names)
    ]
    return sorted(rows, key=lambda f: -f.mean)


def _fit_resample(columns: Sequence[Float], y: Float, draw: np.random.Generator) -> Float | None:
    """One forest on a resample, judged on the trials that are not in it."""
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        raise InputError("Importance needs scikit-learn: pip install 'regard[translator]'.") from None
    rows = draw.integers(len(y), size=len(y))
    unseen = np.setdiff1d(np.arange(len(y)), rows)
    # a resample may hold nearly every trial, and one trial cannot be shuffled
    if len(unseen) < 2:
        return None
    forest = RandomForestRegressor(30, max_features=0.5, random_state=int(draw.integers(2**31)))
    forest.fit(np.hstack(columns)[rows], y[rows])
    tables = [np.hstack([c[unseen] for c in columns])]
    for shuffled in range(len(columns)):
        for _ in range(_SHUFFLES):
            order = draw.permutation(unseen)
            tables.append(np.hstack([c[order if i == shuffled else unseen] for i, c in enumerate(columns)]))
    errors = ((forest.predict(np.vstack(tables)).reshape(len(tables), -1) - y[unseen]) ** 2).mean(axis=1)
    worse = errors[1:].reshape(len(columns), _SHUFFLES).mean(axis=1) - errors[0]
    return np.asarray(worse / y.var())


def _columns(entry: list[Any] | Range, values: Sequence[Any]) -> Float:
    """Numbers as they are (or their logarithm), choices of words as one column each."""
    if isinstance(entry, Range):
        return np.array([[math.log(v) if entry.log else float(v)] for v in values])
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in entry):
        return np.array([[float(v)] for v in values])
    return np.array([[float(v == choice) for choice in entry] for v in values])

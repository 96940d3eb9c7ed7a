"""Means over seeds with t-intervals, paired differences, and which of several differences survive being several.

    mean +- t(k - 1) * s / sqrt(k)

A t-interval over k seeds assumes that the seeds' results scatter normally. With k = 3 its half-width is 2.5 standard
deviations: that is what three seeds can say, not a weakness of the formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import InputError

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


def t_interval(values: Sequence[float], *, level: float = LEVEL) -> Interval:
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
    half = float(stdtrit(len(x) - 1, (1 + level) / 2) * x.std(ddof=1) / math.sqrt(len(x)))
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
    measure: str, values: dict[str, Sequence[float]], *, level: float = LEVEL, lower_is_better: bool = True
) -> list[Difference]:
    """Every two entries of ``values`` (a list over the same seeds each), with a verdict that says what is noise."""
    names = list(values)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    gaps = [[y - x for x, y in zip(values[a], values[b], strict=True)] for a, b in pairs]
    raw = [paired_p(gap) for gap in gaps]
    known = [p for p in raw if p is not None]
    corrected: Sequence[float | None] = holm(known) if len(known) == len(raw) else [None] * len(raw)
    return [
        Difference(
            measure=measure,
            first=a,
            second=b,
            interval=t_interval(gap, level=level),
            p=p,
            holm=h,
            verdict=verdict(b, float(np.mean(gap)), p, h, 1 - level, len(pairs), lower_is_better),
        )
        for (a, b), gap, p, h in zip(pairs, gaps, raw, corrected, strict=True)
    ]


def verdict(
    second: str, mean: float, p: float | None, corrected: float | None, alarm: float, count: int, lower: bool
) -> str:
    """What a difference of ``mean`` is worth, ``corrected`` for having looked at ``count`` pairs.

    >>> verdict("b", -0.5, 0.01, 0.03, 0.05, 3, lower=True)
    'b is better'
    """
    if p is None or corrected is None:
        return "one seed: nothing is known of the noise"
    if p >= alarm:
        return "within noise"
    side = f"{second} is {'better' if (mean < 0) == lower else 'worse'}"
    return side if corrected < alarm else f"{side}, but not beyond chance among {count} pairs"

"""A number with its accuracy, and what every law of a weight can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from regard.array_types import Real

# a few thousand roundings of numbers near 1, added to what a method says of its own accuracy
ROUNDING = 1e-12


@dataclass(frozen=True)
class Value:
    """A number and how far the truth can be from it: an estimate, or half a 95 % interval, as the method says."""

    value: float
    accuracy: float


class WeightLaw(Protocol):
    """The law of one weight; shares are in (0, 1)."""

    @property
    def method(self) -> str:
        """How the numbers are found."""

    def above(self, share: float) -> Value:
        """P(weight > share)."""

    def density(self, share: float) -> Value:
        """The density of the weight at a share."""


def logit(share: float) -> float:
    """ln(share / (1 - share)).

    >>> logit(0.5)
    0.0
    """
    return float(logits(share))


def logits(shares: ArrayLike) -> Real:
    """The same for many."""
    return np.asarray(np.log(shares) - np.log1p(-np.asarray(shares)))

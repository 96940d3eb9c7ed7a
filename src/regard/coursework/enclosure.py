"""Rigorous balls for softmax weights: an inequality is True here only if it is true of the real numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import flint

BITS = 256


def ball(x: float | Fraction) -> Any:
    """A number as a ball; floats, whole numbers and fractions are exact."""
    if isinstance(x, Fraction):
        return flint.arb(flint.fmpq(x.numerator, x.denominator))
    return flint.arb(x)


def precise() -> Any:
    """The context in which enclosures are computed."""
    return flint.ctx.workprec(BITS)


def weights(scores: Sequence[Any]) -> list[Any]:
    """softmax of the scores, each weight enclosed: 1 / sum_l e^{s_l - s_i}.

    >>> with precise():
    ...     [float(w.mid()) for w in weights([0, 0])]
    [0.5, 0.5]
    """
    balls = [flint.arb(s) for s in scores]
    return [1 / sum(((s - own).exp() for s in balls), flint.arb(0)) for own in balls]


def rest(own: Any, groups: Sequence[tuple[int, Any]]) -> Any:
    """sum of count e^{s - own} over groups of keys with equal scores: alpha = 1/(1 + rest).

    >>> with precise():
    ...     float(rest(0, [(3, 0)]).mid())
    3.0
    """
    return sum((flint.arb(count) * (flint.arb(s) - own).exp() for count, s in groups), flint.arb(0))


def low(x: Any) -> float:
    """The lower end of a ball, as a float."""
    return float(x.lower())


def high(x: Any) -> float:
    """The upper end of a ball, as a float."""
    return float(x.upper())


def normal(x: Any) -> Any:
    """Phi(x), the standard normal distribution function, enclosed: erfc(-x/sqrt 2)/2.

    >>> with precise():
    ...     float(normal(0).mid())
    0.5
    """
    return (-flint.arb(x) / flint.arb(2).sqrt()).erfc() / 2

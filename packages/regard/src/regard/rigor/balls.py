"""Rigorous balls (python-flint's Arb): an inequality is True here only if it is true of the real numbers.

One way from a ball to a float: :func:`above` and :func:`below` give the nearest float on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import flint
from numpy.typing import ArrayLike

from regard.rigor.floats import check_arithmetic, finite

BITS = 256
TINY = 4096  # bits that tell 1 from 1 + x for every positive float x, and x from twice it after some operations


def above(value: flint.arb) -> float:
    """The least float that is not below any number in the ball.

    >>> above(flint.arb(2)), above(flint.arb(1) / 3) > 1 / 3
    (2.0, True)
    """
    top = value.upper()
    guess = float(top)  # rounded to nearest, so at most one step too low
    while flint.arb(guess) < top:
        guess = math.nextafter(guess, math.inf)
    return guess


def below(value: flint.arb) -> float:
    """The greatest float that is not above any number in the ball."""
    bottom = value.lower()  # not -above(-value): flint rounds a negative to its current precision
    guess = float(bottom)
    while flint.arb(guess) > bottom:
        guess = math.nextafter(guess, -math.inf)
    return guess


def ball(x: float | Fraction) -> Any:
    """A number as a ball; floats, whole numbers and fractions are exact."""
    if isinstance(x, Fraction):
        return flint.arb(flint.fmpq(x.numerator, x.denominator))
    return flint.arb(x)


def precise(bits: int = BITS) -> Any:
    """The context in which enclosures are computed."""
    check_arithmetic()
    return flint.ctx.workprec(bits)


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


def normal(x: Any) -> Any:
    """Phi(x), the standard normal distribution function, enclosed: erfc(-x/sqrt 2)/2.

    >>> with precise():
    ...     float(normal(0).mid())
    0.5
    """
    return (-flint.arb(x) / flint.arb(2).sqrt()).erfc() / 2


def entropy_bounds(mid: ArrayLike, rad: ArrayLike) -> tuple[float, float]:
    """Lower and upper bounds of H(w) = -sum w_i ln w_i, for exact weights in [0, 1] known by an enclosure.

    >>> low, high = entropy_bounds([0.5, 0.5], [0.0, 0.0])
    >>> low <= 0.6931471805599453 <= high and high - low < 1e-14
    True
    """
    exact, low, high = flint.arb(0), flint.arb(0), flint.arb(0)
    for m, r in zip(finite(mid, "the weights").tolist(), finite(rad, "the radii").tolist(), strict=True):
        if r == 0 and 0 < m <= 1:  # nearly all weights of a combination: one logarithm each
            w = flint.arb(m)
            exact -= w * w.log()
        else:
            a, b = _surprise_bounds(m, r)
            low, high = low + a, high + b
    return below(low + exact), above(high + exact)


def _surprise_bounds(m: float, r: float) -> tuple[flint.arb, flint.arb]:
    """-w ln w over [m - r, m + r] cut to [0, 1]; it rises up to 1/e and falls after."""
    lower, upper = flint.arb(m) - flint.arb(r), flint.arb(m) + flint.arb(r)
    ends = [_surprise(lower if lower > 0 else flint.arb(0)), _surprise(upper if upper < 1 else flint.arb(1))]
    low = ends[0].min(ends[1])
    inside = not (upper < 0.3678 or lower > 0.3679)
    return low, (flint.arb(-1).exp() if inside else ends[0].max(ends[1]))


def _surprise(w: flint.arb) -> flint.arb:
    return flint.arb(0) if w == 0 else -w * w.log()

"""Numbers in sentences, so that the sentence stays true: rounded to the side that it speaks of."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

DIGITS = 9
SHOWN = 4  # of an answer in plain words; the rest is in the details


def in_full(x: float) -> str:
    """All the digits that tell a float from its neighbours, and no more; for what somebody asked.

    >>> in_full(1.0), in_full(1.0000001), in_full(1e-12)
    ('1', '1.0000001', '1e-12')
    """
    return repr(float(x)).removesuffix(".0")


def at_most(x: float, digits: int = DIGITS) -> str:
    """Rounded up: for "no query gets more than this".

    >>> at_most(1 / 3), at_most(0.25)
    ('0.333333334', '0.25')
    """
    return _rounded(x, ROUND_CEILING, digits)


def at_least(x: float, digits: int = DIGITS) -> str:
    """Rounded down: for "this query gets that much".

    >>> at_least(0.4999999999), at_least(1 / 1.01)
    ('0.499999999', '0.990099009')
    """
    return _rounded(x, ROUND_FLOOR, digits)


def _rounded(x: float, way: str, digits: int) -> str:
    return f"{float(Context(prec=digits, rounding=way).create_decimal(Decimal(x))):.{digits}g}"


def fraction(x: Fraction) -> str:
    """As a decimal where that is short and exact, else as a fraction.

    >>> fraction(Fraction(1, 5)), fraction(Fraction(1, 3))
    ('0.2', '1/3')
    """
    short = f"{float(x):.{DIGITS}g}"
    return short if Fraction(short) == x else str(x)

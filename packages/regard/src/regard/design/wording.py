"""Numbers in sentences, so that the sentence stays true: rounded to the side that it speaks of."""

from __future__ import annotations

from fractions import Fraction

from regard.written_numbers import DIGITS, at_least, at_most, in_full

__all__ = ["DIGITS", "SHOWN", "at_least", "at_most", "fraction", "in_full"]
SHOWN = 4  # of an answer in plain words; the rest is in the details


def fraction(x: Fraction) -> str:
    """As a decimal where that is short and exact, else as a fraction.

    >>> fraction(Fraction(1, 5)), fraction(Fraction(1, 3))
    ('0.2', '1/3')
    """
    short = f"{float(x):.{DIGITS}g}"
    return short if Fraction(short) == x else str(x)

"""Numbers as people write and read them.

Reading: Python's own is looser, and takes 1_0 for ten. Writing: a number in a sentence is rounded to the side on which
the sentence stays true. `at_most` and `at_least` are all that shortens a bound; `in_full` shortens nothing.
"""

from __future__ import annotations

import math
import re
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Integral
from typing import TypeGuard

from regard.errors import InputError

DIGITS = 9
_LARGEST = sys.float_info.max
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,300}\s*", re.ASCII)  # Python reads thousands of digits slowly, and then refuses
_REAL = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)


def real_number(text: str) -> float:
    """The number that a text writes in the digits 0 to 9; ValueError where it writes none, or none that is finite.

    Fractions are rounded, as everybody expects of 0.1, and so is 1e23, whose last digits nobody wrote; a whole number
    that is written to its last digit and that float64 cannot hold is refused.

    >>> real_number(" 1e-3 ")
    0.001
    >>> real_number("1_0")
    Traceback (most recent call last):
    ValueError: '1_0' is not a number
    >>> real_number("9007199254740993")
    Traceback (most recent call last):
    ValueError: '9007199254740993' is an integer beyond 2^53 that float64 rounds
    """
    if not _REAL.fullmatch(text):
        raise ValueError(f"{text.strip()[:40]!r} is not a number")
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text.strip()[:40]!r} is too large for float64")
    if writes_another_whole(text, number):
        raise ValueError(f"{text.strip()[:40]!r} is an integer beyond 2^53 that float64 rounds")
    return number


def writes_another_whole(text: str, number: float) -> bool:
    """Does the text of a finite number write a whole one, to its last digit, that its float64 is not?

    Texts that stop before it, such as 1.152921504606847e+18 for 2^60, are how floats of that size are usually written.

    >>> [writes_another_whole(f"9007199254740993{rest}", 2.0**53) for rest in ("", ".0", "e0", ".5")]
    [True, True, True, False]
    >>> writes_another_whole("1e23", 1e23)
    False
    """
    if abs(number) < 2.0**53:
        return False
    exact = Decimal(text.strip())
    to_the_last = exact.adjusted() < len(exact.as_tuple().digits)
    return to_the_last and exact == exact.to_integral_value() and exact != Decimal(number)


def whole_number(text: str) -> int:
    """The whole number that a text writes in digits; ValueError where it writes none.

    >>> whole_number("-12")
    -12
    >>> whole_number("1_0")
    Traceback (most recent call last):
    ValueError: '1_0' is not a whole number
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text.strip()[:40]!r} is not a whole number")
    return int(text)


def is_finite_number(value: object) -> bool:
    """Whether a value that a file or a person gave is an int or a float (no bool) that a float64 can hold.

    math.isfinite raises OverflowError for a whole number of 400 digits, which JSON and TOML can write.

    >>> is_finite_number(2.5), is_finite_number(10**400), is_finite_number(float("nan")), is_finite_number(True)
    (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number of Python's or NumPy's; True is none to a person.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def rounded_integer_error(one: object, thing: str) -> InputError:
    """The refusal of integers that float64 would round, with one of them: an answer would be about other numbers."""
    return InputError(
        f"{thing}: there are integers beyond 2^53 that float64 rounds, such as {str(one)[:40]}, and the answer would "
        "be about others; subtract what they have in common, or divide them."
    )


def is_count(text: str, *, digits: int = 8) -> bool:
    """Is it a whole number from 0 in so few digits, 0 to 9, and nothing else?

    >>> is_count("12"), is_count("１２"), is_count("-1")
    (True, False, False)
    """
    return text.isascii() and text.isdecimal() and len(text) <= digits


def is_exact_float(whole: int) -> bool:
    """Is this whole number a float64? All are up to 2^53, beyond it ever fewer.

    >>> is_exact_float(2**60), is_exact_float(2**53 + 1), is_exact_float(10**400)
    (True, False, False)
    """
    try:
        return float(whole) == whole
    except OverflowError:
        return False


def in_full(x: float) -> str:
    """All the digits that tell a float from its neighbours, and no more; for what somebody asked.

    >>> in_full(1.0), in_full(1.0000001), in_full(1e-12)
    ('1', '1.0000001', '1e-12')
    """
    return repr(float(x)).removesuffix(".0")


def at_most(x: float | Fraction, digits: int = DIGITS, *, percent: bool = False) -> str:
    """Rounded up: for "no query gets more than this".

    >>> at_most(1 / 3), at_most(0.25), at_most(Fraction(49999, 100000), 4, percent=True)
    ('0.333333334', '0.25', '50 %')
    """
    return _round_toward(x, ROUND_CEILING, digits, percent)


def at_least(x: float | Fraction, digits: int = DIGITS, *, percent: bool = False) -> str:
    """Rounded down: for "this query gets that much".

    >>> at_least(0.4999999999), at_least(1 / 1.01), at_least(0.49999, 4, percent=True)
    ('0.499999999', '0.990099009', '49.99 %')
    """
    return _round_toward(x, ROUND_FLOOR, digits, percent)


def between(low: float, high: float, digits: int = DIGITS, *, percent: bool = False) -> str:
    """Both ends of an interval, each rounded outwards; one number where there is only one.

    >>> between(0.91252601, 0.91252602, 6, percent=True), between(0.5, 0.5)
    ('between 91.2526 % and 91.2527 %', 'exactly 0.5')
    """
    ends = at_least(low, digits, percent=percent), at_most(high, digits, percent=percent)
    return f"exactly {ends[0]}" if ends[0] == ends[1] else f"between {ends[0]} and {ends[1]}"


def fraction(x: Fraction) -> str:
    """As a decimal where that is short and exact, else as a fraction.

    >>> fraction(Fraction(1, 5)), fraction(Fraction(1, 3))
    ('0.2', '1/3')
    """
    short = f"{float(x):.{DIGITS}g}"
    return short if Fraction(short) == x else str(x)


def _round_toward(x: float | Fraction, way: str, digits: int, percent: bool) -> str:
    if not math.isfinite(x):
        return str(float(x))
    rounding = Context(prec=digits, rounding=way)
    if isinstance(x, float) and not percent:
        number = rounding.plus(Decimal(x))  # a float is a short decimal, exactly
    else:
        exact = Fraction(x) * (100 if percent else 1)
        number = rounding.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    shown = f"{float(number):.{digits}g}"
    # beside the ends of float64's range the way through a float would round again
    shown = shown if Decimal(shown) == number else f"{number:e}"
    return f"{shown} %" if percent else shown

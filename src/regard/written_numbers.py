"""Numbers as people write them: Python's own reading is looser, and takes 1_0 for ten."""

from __future__ import annotations

import re
import sys

_LARGEST = sys.float_info.max
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,300}\s*")  # Python reads thousands of digits slowly, and then refuses


def real_number(text: str) -> float:
    """The number that a text writes; ValueError where it writes none.

    >>> real_number(" 1e-3 ")
    0.001
    >>> real_number("1_0")
    Traceback (most recent call last):
    ValueError: '1_0' is not a number
    """
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    raise ValueError(f"{text[:40]!r} is not a number")


def whole_number(text: str) -> int:
    """The whole number that a text writes in digits; ValueError where it writes none.

    >>> whole_number("-12")
    -12
    >>> whole_number("1_0")
    Traceback (most recent call last):
    ValueError: '1_0' is not a whole number
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def is_finite_number(value: object) -> bool:
    """Whether a value that a file or a person gave is an int or a float (no bool) that a float64 can hold.

    math.isfinite raises OverflowError for a whole number of 400 digits, which JSON and TOML can write.

    >>> is_finite_number(2.5), is_finite_number(10**400), is_finite_number(float("nan")), is_finite_number(True)
    (True, False, False, False)
    """
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LARGEST <= value <= _LARGEST

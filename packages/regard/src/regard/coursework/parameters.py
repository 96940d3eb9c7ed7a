"""The numbers of an instance: their meaning, their range, and one sentence when they are outside of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.declared_tables import Bounds
from regard.errors import InputError
from regard.notation import without_marks
from regard.written_numbers import real_number, rounded_integer_error


@dataclass(frozen=True, kw_only=True)
class Parameter(Bounds):
    """A number that a claim depends on, and its range.

    >>> Parameter(name="eps", default=0.01, meaning="the slack", above=0, below=1).rule()
    'a number with $0 <$ eps $< 1$'
    """

    name: str
    default: float
    meaning: str
    whole: bool = False
    even: bool = False  # and whole

    def rule(self) -> str:
        """The range in words."""
        kind = "an even number" if self.even else "a whole number" if self.whole else "a number"
        least = ((self.least, "<="), (self.above, "<"))
        most = ((self.most, "<="), (self.below, "<"))
        left = next((f"${bound:g} {sign}$ " for bound, sign in least if bound is not None), "")
        right = next((f" ${sign} {bound:g}$" for bound, sign in most if bound is not None), "")
        return f"{kind} with {left}{self.name}{right}" if left or right else kind

    def parse_value(self, value: object, claim: str) -> float:
        """The value as an int or float inside the range, or an InputError."""
        if isinstance(value, bool):
            raise self._refusal(value, claim)
        try:
            number = real_number(value) if isinstance(value, str) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise self._refusal(value, claim) from None
        if isinstance(value, int) and number != value:
            raise rounded_integer_error(value, f"{self.name} of {claim}")
        if not math.isfinite(number) or not self.contains(number):
            raise self._refusal(value, claim)
        step = 2 if self.even else 1
        if (self.even or self.whole) and number % step:
            raise self._refusal(value, claim)
        return int(number) if self.even or self.whole else number

    def _refusal(self, value: object, claim: str) -> InputError:
        came = str(value)[:40] if isinstance(value, str) else repr(value)
        rule = without_marks(f"{self.meaning}, must be {self.rule()}")
        return InputError(f"{claim}: {self.name}, {rule}; {came} is not.")


def checked_parameters(known: tuple[Parameter, ...], given: dict[str, object], claim: str) -> dict[str, float]:
    """The defaults, replaced by what was given; unknown names are refused."""
    names = [parameter.name for parameter in known]
    for name in given:
        if name not in names:
            has = f"it has {', '.join(names)}" if names else "it has none"
            raise InputError(f"{claim} has no parameter {name!r}; {has}.")
    return {p.name: p.parse_value(given.get(p.name, p.default), claim) for p in known}


def number_of_keys(*, least: int = 2, most: int = 10**9) -> Parameter:
    """n, as most claims have it."""
    return Parameter(name="n", default=10, meaning="how many keys", whole=True, least=least, most=most)


def slack(*, least: float = 1e-200) -> Parameter:
    """eps with 0 < eps < 1, as most claims have it."""
    return Parameter(name="eps", default=0.01, meaning="how much the rest may get", least=least, below=1)

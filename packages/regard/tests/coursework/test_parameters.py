"""A claim's parameters: what is outside their range, or does not fit together, is refused in one sentence."""

from __future__ import annotations

import math

import pytest

from regard.coursework.catalogue import claims
from regard.errors import InputError


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"n": 1},
            r"average-within-budget: n, how many keys, must be a whole number with 2 <= n <= 1e\+09; 1 is not\.",
        ),
        ({"n": 2.5}, r"2\.5 is not"),
        ({"n": True}, r"True is not"),
        ({"n": "many"}, r"many is not"),
        ({"eps": 0}, r"must be a number with 1e-200 <= eps <= 1e\+09; 0 is not"),
        ({"eps": math.nan}, r"nan is not"),
        ({"eps": None}, r"None is not"),
        ({"m": 3}, r"average-within-budget has no parameter 'm'; it has n, eps, factor\."),
    ],
)
def test_parameters_outside_their_range(given, message) -> None:
    with pytest.raises(InputError, match=message):
        claims["average-within-budget"].check(**given)


def test_parameters_that_do_not_fit_together() -> None:
    with pytest.raises(InputError, match=r"a subset of n = 2 keys cannot have s = 3; choose s up to n"):
        claims["average-of-any-subset"].check(n=2)
    with pytest.raises(InputError, match=r"A has m = 5 columns and B the other d - m; choose m below d = 4"):
        claims["extract-from-sum"].check(d=4, m=5)
    with pytest.raises(InputError, match=r"must be an even number with 2 <= dim <= 1024; 3 is not"):
        claims["positions-are-distinct"].check(dim=3)

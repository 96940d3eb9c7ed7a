"""Balls: what they enclose, and the one way from a ball to a float on the safe side of it."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import flint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.rigor import balls
from regard.rigor.balls import above, ball, below, normal, precise, rest, weights

floats = st.floats(-1e300, 1e300, allow_subnormal=True)


@given(st.fractions(max_denominator=10**30))
@settings(deadline=None)
def test_the_nearest_float_on_the_safe_side(x: Fraction) -> None:
    with precise():
        enclosed = ball(x)
    high, low = above(enclosed), below(enclosed)
    assert low <= x <= high, "Python compares a fraction with a float exactly"
    assert math.nextafter(high, -math.inf) < x, "one float less would be too little"
    assert math.nextafter(low, math.inf) > x


@given(floats)
@settings(deadline=None)
def test_floats_are_their_own_bounds(x: float) -> None:
    assert above(flint.arb(x)) == x == below(flint.arb(x))


@given(floats, st.floats(0, 1e280))
@settings(deadline=None)
def test_a_wide_ball_is_bounded_at_both_ends(mid: float, rad: float) -> None:
    wide = flint.arb(mid, rad)
    assert below(wide) <= Fraction(mid) - Fraction(rad)  # flint may widen a radius, never narrow it
    assert above(wide) >= Fraction(mid) + Fraction(rad)


def test_infinite_and_unknown_numbers_bound_nothing() -> None:
    assert above(flint.arb(math.inf)) == math.inf
    assert not above(flint.arb(math.nan)) < math.inf
    assert above(flint.arb(2) ** 2000) == math.inf
    assert below(flint.arb(2) ** 2000) == sys.float_info.max
    assert above(-(flint.arb(2) ** -2000)) == 0
    assert above(flint.arb(2) ** -2000) == 5e-324


def test_the_context_has_many_digits_and_ends() -> None:
    before = flint.ctx.prec
    with precise():
        third = flint.arb(1) / 3
        assert third.rad() < flint.arb(2) ** -250
    assert flint.ctx.prec == before


def test_fractions_and_whole_numbers_are_exact() -> None:
    assert ball(0.1) == flint.arb(flint.fmpq(*(0.1).as_integer_ratio()))
    assert ball(3).is_exact()
    with precise():
        assert ball(Fraction(1, 3)) * 3 - 1 < flint.arb(2) ** -200


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=5))
@settings(deadline=None)
def test_weights_are_the_softmax(scores: list[int]) -> None:
    with precise():
        got = weights(scores)
        total = sum((flint.arb(s).exp() for s in scores), flint.arb(0))
        for s, w in zip(scores, got, strict=True):
            assert w.overlaps(flint.arb(s).exp() / total)
            assert w.rad() < 1e-60


def test_the_rest_counts_the_other_keys() -> None:
    with precise():
        got = rest(1, [(3, 0), (2, 4)])
        assert got.overlaps(3 * flint.arb(-1).exp() + 2 * flint.arb(3).exp())
        assert got.rad() < 1e-60


@pytest.mark.parametrize(("x", "chance"), [(0.0, 0.5), (1.0, 0.8413447460685429), (-2.0, 0.022750131948179212)])
def test_the_normal_distribution(x: float, chance: float) -> None:
    with precise():
        assert abs(float(normal(x)) - chance) < 1e-15


def surprise(w: float) -> flint.arb:
    return flint.arb(0) if w == 0 else -flint.arb(w) * flint.arb(w).log()


@pytest.mark.parametrize(
    ("mid", "rad"),
    [
        (0.25, 0.125),  # below 1/e: rising
        (0.75, 0.125),  # above: falling
        (0.375, 0.25),  # 1/e inside: the top is there
        (0.0, 0.125),  # cut at 0
        (1.0, 0.125),  # cut at 1
        (0.5, 0.75),  # both ends cut
        (0.36785, 0.0),  # between the two numbers that stand for 1/e
    ],
)
def test_entropy_bounds_are_valid_and_tight(mid: float, rad: float) -> None:
    with precise():
        low, high = balls.entropy_bounds([mid], [rad])
        ends = [max(mid - rad, 0.0), min(mid + rad, 1.0)]
        inside = [*ends, *([math.exp(-1)] if ends[0] <= math.exp(-1) <= ends[1] else [])]
        least, most = min(map(below, map(surprise, ends))), max(map(above, map(surprise, inside)))
    assert least - 1e-14 <= low <= least
    assert most <= high <= most + 1e-8  # two numbers near 1/e stand for it


def test_the_entropy_is_a_sum_over_weights_and_radii() -> None:
    with precise():
        assert balls.entropy_bounds([0.5, 0.5], [0.0, 0.0])[1] == pytest.approx(math.log(2), rel=1e-15)
    with pytest.raises(ValueError, match="longer than argument 1"):
        balls.entropy_bounds([0.5], [0.0, 0.0])

"""Positions in real arithmetic, against slow obvious versions; the verb; the page."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import CouldNotFindOut, InputError
from regard.positions import (
    convergents,
    differences,
    distance,
    first_equal_rows,
    nearest_offset,
    nearest_rows,
    positions,
    rotate,
    sinusoidal,
)
from regard.positions import nearest as nearest_module
from regard.positions.encodings import rotation_identity, score_bound
from regard.positions.nearest import offsets_within
from regard.positions.number_formats import ABSOLUTE, RELATIVE, exact_frequency, sine_cosine, turns


def slow_distances(dim: int, last: int, base: float = 10000) -> np.ndarray:
    """D(1) .. D(last) in plain float64; good to 1e-9 here."""
    w = base ** (-np.arange(0, dim, 2) / dim)
    return np.sqrt((4 * np.sin(np.arange(1, last + 1)[:, None] * w / 2) ** 2).sum(axis=1))


# phases and sines


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**80), st.integers(0, 5))
def test_phases_are_too_small_by_less_than_four_units(t: int, start: int, i: int) -> None:
    phase = int(turns(i, 12, 10000).phase(np.array([t], dtype=np.uint64), start=start)[0])
    with flint.ctx.workprec(400):
        true = exact_frequency(i, 12, 10000) / (2 * flint.arb.pi()) * (start + t) * flint.arb(2) ** 64
        off = (true - phase) / flint.arb(2) ** 64
        off = float((off - (off + 0.25).floor()) * flint.arb(2) ** 64)
    assert -1e-3 <= off < 4


@given(st.integers(0, 2**64 - 1))
def test_sine_and_cosine_keep_their_bound(phase: int) -> None:
    values = sine_cosine(np.array([phase], dtype=np.uint64))
    with flint.ctx.workprec(200):
        angle = flint.arb(phase) * 2 * flint.arb.pi() / flint.arb(2) ** 64
        for value, true in zip(values, (angle.sin(), angle.cos()), strict=True):
            off = abs(float(flint.arb(float(value[0])) - true))
            assert off <= RELATIVE * abs(float(true)) + ABSOLUTE


# the nearest offset


@pytest.mark.parametrize("dim", [2, 4, 6, 8, 10, 14, 34])
@pytest.mark.parametrize("last", [1, 2, 43, 711, 20011])
def test_nearest_offset_is_the_slow_minimum(dim: int, last: int) -> None:
    slow = slow_distances(dim, last)
    found = nearest_offset(dim, last)
    assert found.offset == slow.argmin() + 1
    assert found.searched == last
    assert found.low <= slow.min() * (1 + 1e-6)
    assert found.high >= slow.min() * (1 - 1e-6)
    falls = [t + 1 for t in range(last) if t == 0 or slow[t] < slow[:t].min()]
    assert [t for t, _ in found.records] == falls


@given(st.integers(1, 9), st.floats(1.5, 5000), st.integers(1, 3000))
@settings(max_examples=40, deadline=None)
def test_any_base_against_the_slow_minimum(pairs: int, base: float, last: int) -> None:
    slow = slow_distances(2 * pairs, last, base)
    found = nearest_offset(2 * pairs, last, base=base)
    assert slow[found.offset - 1] <= slow.min() * (1 + 1e-9)


@pytest.mark.parametrize(
    ("dim", "offset", "squared"),
    [(4, 1146053, 8.7e-10), (8, 5730265, 2.2e-8), (16, 7590025, 0.406), (6, 6413153, 9.065e-5)],
)
def test_figures_up_to_ten_million(dim: int, offset: int, squared: float) -> None:
    found = nearest_module._nearest_by_search(dim, 10**7, 10000, 10**9, None)
    assert found.offset == offset
    assert found.low**2 == pytest.approx(squared, rel=1e-2)
    assert found.high - found.low <= 4 * math.ulp(found.high)


@pytest.mark.slow
def test_continued_fraction_and_search_agree() -> None:
    for dim, last in ((2, 10**6), (4, 10**6), (8, 10**7)):
        quick, slow = nearest_offset(dim, last), nearest_module._nearest_by_search(dim, last, 10000, 10**9, None)
        assert quick.method == "continued fraction"
        assert (quick.offset, quick.low, quick.records) == (slow.offset, slow.low, slow.records)


def test_large_dimensions_have_neighbours_nearest() -> None:
    for dim, squared in ((64, 2.17), (512, 13.8)):
        found = nearest_offset(dim, 10**5)
        assert found.offset == 1
        assert found.low**2 == pytest.approx(squared, rel=5e-3)


def test_convergents_of_two_pi() -> None:
    assert convergents(1, 11 * 10**6)[4:8] == [44, 333, 710, 103993]
    found = convergents(1, 10**60)
    with flint.ctx.workprec(500):  # best approximations alternate in sign and obey |t - 2 pi m| < 2 pi / next
        for t, following in pairwise(found[1:]):
            turns_made = flint.arb(t) / (2 * flint.arb.pi())
            away = abs(turns_made - (turns_made + flint.arb(0.5)).floor())
            assert away * following < 1
            assert away * (t + following) > 1  # and not better: the bound is tight from both sides


def test_distance_brackets_the_truth_far_out() -> None:
    low, high = distance(convergents(1, 10**100)[-1], 2)
    assert 0 < low < high < 1e-98
    assert high / low - 1 < 1e-15


def test_offsets_within_finds_them_all() -> None:
    slow = slow_distances(6, 30000)
    assert offsets_within(0.2, 6, 30000) == (np.flatnonzero(slow <= 0.2) + 1).tolist()
    assert len(offsets_within(9, 6, 30000, most=5)) == 6


def test_effort_stops_a_search_and_says_so() -> None:
    found = positions(dim=20, length=10**13, effort=10**5)
    assert found.answer
    assert found.searched < 10**13
    assert "a larger effort goes on" in str(found)
    assert f"among the first {found.searched:,}" in str(found)


# tables, rotary


@pytest.mark.slow
@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 10**6))
@settings(deadline=None)
def test_nearest_rows_against_all_pairs(n: int, d: int, seed: int) -> None:
    table = np.random.default_rng(seed).integers(-3, 4, (n, d)).astype(float)
    exact = {
        (s, t): sum(Fraction(a - b) ** 2 for a, b in zip(table[s], table[t], strict=True))
        for t in range(n)
        for s in range(t)
    }
    pair, value = nearest_rows(table)
    assert exact[pair] == min(exact.values())
    assert value**2 == pytest.approx(float(min(exact.values())))
    equal = [pair for pair in exact if exact[pair] == 0]
    assert first_equal_rows(table) == (min(equal, key=lambda p: (p[1], p[0])) if equal else None)


def test_nearest_rows_when_all_are_far_from_the_origin() -> None:
    table = 1e8 + np.array([[0.0, 0.0], [3e-4, 0.0], [0.0, 2e-4], [5.0, 5.0]])
    assert nearest_rows(table)[0] == (0, 2)


def test_rotary_scores_depend_on_differences() -> None:
    rng = np.random.default_rng(3)
    q, k = rng.standard_normal((2, 11, 6))
    for s, t in ((5, 9), (100, 104), (0, 4)):
        scores = (rotate(q, np.full(11, s)) * rotate(k, np.full(11, t))).sum(axis=1)
        shifted = (q * rotate(k, np.full(11, 4))).sum(axis=1)
        np.testing.assert_allclose(scores, shifted, atol=1e-12)
    assert rotation_identity()


@pytest.mark.parametrize("form", ["float64", "float32", "bfloat16", "float16"])
def test_rotary_bound_is_valid_and_not_idle(form: str) -> None:
    found = differences(2, 10**6, format=form, trials=4000)
    assert found.answer
    assert found.largest <= score_bound(2, form)
    assert found.largest > score_bound(2, form) / (40 if form == "float64" else 4)


def test_rotary_and_sinusoidal_distances() -> None:
    plain, rotary = positions(dim=6, length=500), positions(dim=6, length=500, kind="rotary")
    assert rotary.distance is not None
    assert plain.distance is not None
    s, t = rotary.nearest or (0, 0)
    matrices = [np.stack([rotate(row[None], [at])[0] for row in np.eye(6)]) for at in (s, t)]
    frobenius = np.linalg.norm(matrices[0] - matrices[1])
    assert rotary.distance[0] <= frobenius * (1 + 1e-12)
    assert frobenius == pytest.approx(math.sqrt(2) * plain.distance[0], rel=1e-9)
    assert "depend on differences alone" in str(rotary)


def test_no_bound_is_claimed_for_angles_computed_in_a_format() -> None:
    once = positions(dim=6, length=300, format="bfloat16", kind="rotary")
    native = positions(dim=6, length=300, format="bfloat16", kind="rotary", through="native")
    assert once.differences is not None
    assert native.differences is not None
    assert (once.differences.format, native.differences.format) == ("bfloat16", "real")


def test_learned_tables() -> None:
    table = sinusoidal(300, 6)
    assert positions(table).nearest == positions(dim=6, length=300).nearest or positions(table).answer
    table[200] = table[17]
    found = positions(table)
    assert (found.answer, found.equal) == (False, (17, 200))
    close = np.array([[1.0, 0.0], [1.0 + 1e-4, -0.0], [5.0, 1.0]])
    assert positions(close).answer
    assert positions(close, format="float16").equal == (0, 1)
    assert positions([[1.0, 2.0]]).answer


# words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 3, "length": 5, "kind": "rotary"}, "dim is 3, but sines and cosines come in pairs"),
        ({"dim": 0, "length": 5}, "dim is 0, but"),
        ({"dim": True, "length": 5}, "dim is True, but"),
        ({"dim": 4, "length": 0}, "length is 0, but it counts positions"),
        ({"dim": 4, "length": -1}, "length is -1, but"),
        ({"dim": 4}, "need a dimension and a length"),
        ({"dim": 4, "length": 9, "format": "int8"}, "format is 'int8', which is not known; choose one of real"),
        ({"dim": 4, "length": 9, "kind": "alibi"}, "kind is 'alibi', which is not known"),
        ({"dim": 4, "length": 9, "format": "float16", "through": "x"}, "through is 'x', which is not known"),
        ({"dim": 4, "length": 9, "format": "float16", "library": "x"}, "library is 'x', which is not known"),
        ({"dim": 4, "length": 9, "through": "native"}, "Real arithmetic does not go through native"),
        ({"dim": 4, "length": 9, "format": "float64", "through": "native"}, "correctly rounded sine in float64"),
        ({"dim": 4, "length": 9, "base": 1.0}, "base is 1.0, but frequencies are"),
        ({"dim": 4, "length": 9, "base": float("nan")}, "base is nan"),
        ({"dim": 4, "length": 9, "base": 2**53 + 1}, "base: there are integers beyond 2.53 that float64 rounds"),
        ({"dim": 4, "length": 9, "effort": 0}, "effort is 0, but it counts offsets"),
        ({"kind": "learned"}, "Learned positions are a table"),
        ({"dim": 4, "length": 9, "format": "float16", "library": "numpy"}, "asks no library for a sine"),
        ({"table": [[1.0]], "kind": "rotary"}, "A table was given, but rotary positions are computed"),
        ({"table": [[1.0]], "dim": 2}, "dim is 2, but the table has shape"),
        ({"table": [[1.0, float("inf")]]}, "table: row 0, column 1"),
        ({"table": [[1.0, 1e6]], "format": "float16"}, "beyond the range of float16"),
    ],
)
def test_bad_questions(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        positions(**arguments)


def test_rotate_refuses_other_counts() -> None:
    with pytest.raises(InputError, match="There are 2 vectors and 1 positions"):
        rotate(np.ones((2, 4)), [1.0])


@pytest.mark.slow
def test_what_cannot_be_found_out() -> None:
    with pytest.raises(CouldNotFindOut, match="for float64 to be sure"):
        positions(dim=2, length=10**18, format="float64")
    with pytest.raises(CouldNotFindOut, match="by their spacing in real arithmetic"):
        positions(dim=20, length=10**13, format="bfloat16", effort=10**7)


def test_a_nearest_pair_without_a_name_says_why() -> None:
    said = str(positions(dim=64, length=1000, format="float64"))
    assert "The nearest two are at distance 1.47184805, known to " in said
    assert "is not named: it is one of those 1 apart, which are all equally far in real arithmetic" in said


def test_the_tree_finds_the_same_nearest_rows_as_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.positions import rows

    table = np.unique(np.round(np.random.default_rng(7).standard_normal((211, 3)), 1), axis=0)  # many ties
    everything = rows.nearest_rows(table)
    monkeypatch.setattr(rows, "MANY", 10)
    assert rows.nearest_rows(table) == everything


# An odd dimension ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "length"), [(1, 211), (3, 101), (5, 97), (17, 53)])
def test_an_odd_dimension_is_compared_pair_by_pair(dim, length):
    """Against every pair with 60 digits."""
    found = positions(dim=dim, length=length)
    with flint.ctx.workdps(60):
        waves = [flint.arb(10000) ** (flint.arb(-2 * (k // 2)) / dim) for k in range(dim)]
        rows = [[(t * w).cos() if k % 2 else (t * w).sin() for k, w in enumerate(waves)] for t in range(length)]

        def distance(s, t):
            return sum(((a - b) ** 2 for a, b in zip(rows[s], rows[t], strict=True)), flint.arb(0)).sqrt()

        nearest = min(((s, t) for t in range(length) for s in range(t)), key=lambda pair: float(distance(*pair).mid()))
        truth = distance(*nearest)
        assert found.nearest == nearest
        assert flint.arb(found.distance[0]) < truth < flint.arb(found.distance[1])
    assert found.distinct
    assert found.distance[1] - found.distance[0] < 1e-12


@pytest.mark.slow
def test_an_odd_dimension_in_a_format_and_at_a_length_beyond_all_pairs():
    assert positions(dim=1, length=1000, format="bfloat16").equal == (8, 52)
    far = positions(dim=3, length=10**30)
    assert far.distinct
    assert far.searched < far.length
    assert "Beyond, nothing nearer is ruled out" in str(far)
    with pytest.raises(CouldNotFindOut, match="In an odd dimension every row is compared"):
        positions(dim=3, length=10**30, format="float32")
    with pytest.raises(InputError, match="come in pairs"):
        positions(dim=3, length=10, kind="rotary")
    assert positions(dim=5, length=100).figure().axes


def test_a_table_whose_distances_leave_float64_is_refused() -> None:
    with pytest.raises(InputError, match=r"numbers as large as 1e\+300; scale it to below 1e\+140"):
        positions(kind="learned", table=[[1e300, 1.0], [1.0, 1e300]])

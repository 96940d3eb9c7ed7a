"""Exact sums, largest entries and blocks: the same as the plain way, for arrays on both sides of every threshold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from regard.errors import InputError
from regard.rigor import dot_enclosure, dot_enclosures, exact_sum, exact_sums, floats, largest, next_up, row_blocks
from regard.rigor.floats import CHUNK, FEW, LAYERED, STRETCH, plain_product, product_bound

SIZES = [0, 1, 2, FEW, FEW + 1, FEW + 2, 2 * FEW + 1, 5003, LAYERED + 1, LAYERED + FEW + 1]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spread", [0, 5, 40, 300])
def test_sums_are_rounded_once(size: int, spread: int) -> None:
    rng = np.random.default_rng(size + spread)
    x = rng.standard_normal(size) * 10.0 ** rng.integers(-spread, spread + 1, size)
    assert exact_sum(x) == math.fsum(x)
    assert exact_sum(x) == float(sum(map(Fraction, x.tolist()), Fraction(0)))
    rows = np.stack([x, -x[::-1], np.zeros(size), x * 2.0**-40, np.abs(x)])  # beside others as alone
    assert exact_sums(rows) == [math.fsum(row) for row in rows]


@pytest.mark.parametrize("size", [FEW + 1, 4 * FEW + 3])
def test_what_cancels_leaves_the_last_bit(size: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(size) * 10.0 ** rng.integers(-100, 100, size)
    assert exact_sum(np.concatenate([x, -x, [2.0**-1074]])) == 2.0**-1074
    assert exact_sum(np.concatenate([x, -x[rng.permutation(size)]])) == 0.0


@pytest.mark.parametrize("size", [3, FEW + 1, 3 * FEW])
def test_sums_at_the_end_of_the_range(size: int) -> None:
    huge = 1.5e308 * (-1.0) ** np.arange(size - 1)  # neighbours cancel, and halves overflow
    rest = 1.5e308 if size % 2 == 0 else 0.0
    assert exact_sum(np.append(huge, 1.0)) == (rest or 1.0)
    assert exact_sum(np.append(np.ones(size), math.inf)) == math.inf
    assert math.isnan(exact_sum(np.append(np.ones(size), math.nan)))


def test_ones_that_are_left_over_count() -> None:
    """Beside 2^60 the first layer takes nothing of a 1."""
    big = np.full(FEW + 1, 2.0**60)
    assert exact_sum(np.concatenate([big, np.ones(FEW + 1), -big])) == FEW + 1


def test_a_layer_has_room_for_one_more_than_a_power_of_two() -> None:
    """1025 numbers of 43 bits next to 1 add up to 54 bits, the last of which is all that the ones before leave."""
    ones = np.append(np.ones(1025), np.zeros(LAYERED - 1025))
    assert exact_sum(np.append(ones, np.full(1025, 2.0**-43 - 1))) == 1025 * 2.0**-43


@pytest.mark.parametrize("last", [-(2.0**-400), 0.0, 2.0**-400])
def test_what_is_far_below_decides_between_two_floats(last: float) -> None:
    """1 + 2^-53 is half way between two floats: what the first layers leave says which of them is the nearest."""
    x = np.zeros(2 * FEW)
    x[3], x[5], x[7] = 1.0, 2.0**-53, last
    assert exact_sum(x) == (1 + 2.0**-52 if last > 0 else 1.0)
    x[3] = 1 + 2.0**-52
    assert exact_sum(x) == (1 + 2.0**-52 if last < 0 else 1 + 2.0**-51)


@pytest.mark.parametrize("size", [2.0**-1074, 2.0**-1060, 2.0**-1021, 2.0**-1000, 2.0**-960])
def test_sums_of_the_least_floats(size: float) -> None:
    x = np.random.default_rng(1).integers(-(2**20), 2**20, 3 * FEW) * size
    assert exact_sum(x) == math.fsum(x)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 5), (CHUNK // 4, 9), (3, CHUNK), (CHUNK + 1, 1)])
def test_the_largest_entry(shape: tuple[int, int], order: str) -> None:
    x = np.asarray(np.random.default_rng(0).standard_normal(shape), order=order)
    assert largest(x) == np.abs(x).max(initial=0.0)
    for place in [(0, 0), (-1, -1)] if x.size else []:
        for value in (-9.0, 9.0, -math.inf, math.inf):
            y = x.copy(order="K")
            y[place] = value
            assert largest(y) == abs(value)
        y = x.copy(order="K")
        y[place] = math.nan
        assert math.isnan(largest(y))
    assert largest(np.repeat(x, 2, axis=0)[::2]) == largest(x)


SHAPES = [(40, 6), (CHUNK // 8, 17), (17, CHUNK // 8), (3, 2 * STRETCH), (3, 2 * STRETCH + 1)]


def roundings(terms: int) -> int:
    """How often a term is rounded: within its stretch, and with each further one; products that are short are whole."""
    return terms if terms <= 2 * STRETCH else STRETCH + math.ceil(terms / STRETCH)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_radius_of_a_product_is_its_absolute_product(shape: tuple[int, int], order: str) -> None:
    rng = np.random.default_rng(1)
    K, q = np.asarray(rng.standard_normal(shape), order=order), rng.standard_normal(shape[1])
    mid, rad = plain_product(K, q)
    exact = [
        sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(row, q, strict=True)), Fraction(0))
        for row in K[:3]
    ]
    assert all(abs(Fraction(float(m)) - e) <= Fraction(float(r)) for m, r, e in zip(mid, rad, exact, strict=False))
    np.testing.assert_allclose(rad, product_bound(roundings(shape[1])) * (np.abs(K) @ np.abs(q)), rtol=1e-9)


@pytest.mark.parametrize("shape", [(CHUNK // 8, 17), (17, CHUNK // 8)])
def test_the_largest_entry_alone_bounds_a_product_where_that_is_enough(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    K, q = rng.standard_normal(shape), rng.standard_normal(shape[1])
    product, narrow = plain_product(K, q)
    top = largest(K)
    wide = product_bound(roundings(shape[1])) * top * np.abs(q).sum()
    for enough, radius in ((2 * wide, wide), (wide / 2, narrow)):
        mid, rad = plain_product(K, q, top=top, enough=enough)
        assert np.array_equal(mid, product)
        np.testing.assert_allclose(rad, np.broadcast_to(radius, rad.shape), rtol=1e-9)
    radius = plain_product(K, q, top=top, enough=math.inf)[1][0]
    for enough, told in ((radius, True), (math.nextafter(radius, 0), False)):
        assert (plain_product(K, q, top=top, enough=enough)[1] == radius).all() == told
    assert (dot_enclosure(K, q, top=top, enough=radius)[1] == radius).all()
    assert (plain_product(np.zeros(shape), q, top=0.0, enough=math.inf)[1] >= 0).all()
    few, narrow = K[:, :3], plain_product(K[:3, :3], q[:3])[1]
    assert np.array_equal(plain_product(few[:3], q[:3], top=top, enough=math.inf)[1], narrow)  # little is read twice


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_the_largest_entry_is_not_that_of_numbers_that_are_brought_into_range(scale: float) -> None:
    rng = np.random.default_rng(1)
    K, q = scale * rng.standard_normal((CHUNK // 8, 17)), rng.standard_normal(17)
    for plain, told in zip(dot_enclosure(K, q), dot_enclosure(K, q, top=largest(K), enough=math.inf), strict=True):
        assert np.array_equal(plain, told)


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
@pytest.mark.parametrize("refine", [False, True])
def test_a_known_largest_entry_changes_nothing(scale: float, *, refine: bool) -> None:
    rng = np.random.default_rng(2)
    K, q = scale * rng.standard_normal((30, 5)), rng.standard_normal(5)
    for plain, told in zip(
        dot_enclosure(K, q, refine=refine), dot_enclosure(K, q, refine=refine, top=largest(K)), strict=True
    ):
        assert np.array_equal(plain, told)


@pytest.mark.parametrize(
    "chosen", [[], [0], [4], [0, 1, 2, 3, 4], [1, 2, 3], [0, 2, 4], [3, 1, 2], [2, 2, 3], [0, 2, 1, 3], [0, 2, 3, 1, 4]]
)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_chosen_rows_come_in_their_order(chosen: list[int], size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floats.row_chunks, "__defaults__", (size,))
    rows, wanted = np.arange(10.0).reshape(5, 2), np.array(chosen, dtype=np.int64)
    blocks = list(row_blocks(rows, wanted))
    joined = np.concatenate([rows[:0], *(block for _, block in blocks)])
    assert np.array_equal(joined, rows[wanted])
    assert [k for some, _ in blocks for k in range(some.start, some.stop)] == list(range(len(chosen)))


def test_rows_that_lie_together_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(10.0).reshape(5, 2)
    ((_, block),) = row_blocks(rows, np.array([1, 2, 3]))
    assert np.shares_memory(block, rows)
    monkeypatch.setattr(floats.row_chunks, "__defaults__", (4,))
    blocks = [block for _, block in row_blocks(rows, np.array([1, 2, 3, 4]))]
    assert [len(block) for block in blocks] == [2, 2]
    assert all(np.shares_memory(block, rows) for block in blocks)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(7, 5), (CHUNK // 60, 11), (CHUNK // 8, 9), (3, 2 * STRETCH + 5)])
@pytest.mark.parametrize("enough", [0.0, math.inf])
def test_several_vectors_at_once(shape: tuple[int, int], order: str, enough: float) -> None:
    """The same enclosures as one by one, but for the order in which a product adds up: the exact product is in both."""
    rng = np.random.default_rng(shape[0])
    K = np.asarray(rng.standard_normal(shape), order=order)
    vectors = rng.standard_normal((3, shape[1])) * [[1.0], [1e-9], [1e9]]
    top = largest(K)
    few = rng.integers(0, shape[0], 5)
    for mid, rad, q in zip(*dot_enclosures(K, vectors, top=top, enough=enough), vectors, strict=True):
        alone, radius = dot_enclosure(K, q, top=top, enough=enough)
        assert np.allclose(rad, radius, rtol=1e-12, atol=0)
        assert (np.abs(mid - alone) <= 2 * radius).all()
        for i in few:
            exact = sum(
                (Fraction(a) * Fraction(b) for a, b in zip(K[i].tolist(), q.tolist(), strict=True)), Fraction(0)
            )
            assert abs(exact - Fraction(float(mid[i]))) <= Fraction(float(rad[i]))


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_several_vectors_at_the_ends_of_the_range(size: float) -> None:
    K = np.array([[1.0, 2.0], [3.0, 4.0]])
    for K_size, q_size in ((size, 1.0), (1.0, size)):
        vectors = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, -1.0]]) * q_size
        found = dot_enclosures(K * K_size, vectors, top=4 * K_size)
        for mid, rad, q in zip(*found, vectors, strict=True):
            alone = dot_enclosure(K * K_size, q, top=4 * K_size)
            assert (mid.tolist(), rad.tolist()) == (alone[0].tolist(), alone[1].tolist())
    with pytest.raises(InputError, match="the vectors must hold finite numbers"):
        dot_enclosures(K, np.array([[1.0, math.nan]]), top=4.0)


def test_the_next_float() -> None:
    rng = np.random.default_rng(0)
    x = np.ldexp(rng.standard_normal(5003), rng.integers(-1074, 1000, 5003))
    least, most = 2.0**-1074, float(np.finfo(np.float64).max)
    x[:9] = [0.0, -0.0, least, -least, 2.0**-1022, -(2.0**-1022), 1.0, -most, -math.inf]
    for size in (9, FEW, FEW + 1, len(x)):
        some = x[:size].copy()
        assert (next_up(some) == np.nextafter(x[:size], math.inf)).all()
        assert some.tobytes() == x[:size].tobytes()
    assert not np.isfinite(next_up(np.repeat([math.nan, math.inf], FEW))).any()
    assert not np.isfinite(next_up(np.array([math.nan, math.inf]))).any()

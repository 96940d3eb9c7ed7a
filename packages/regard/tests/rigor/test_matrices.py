"""Products of matrices with a bound on their rounding: valid against fractions, and not much too large."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from regard.rigor.floats import U
from regard.rigor.matrices import LEAST, PAY, difference, gamma, gram, norm_above, scale, squares, symmetric_norm


def exact(left: np.ndarray, right: np.ndarray) -> list[list[Fraction]]:
    rows = [[Fraction(float(x)) for x in row] for row in left.T]
    columns = [[Fraction(float(x)) for x in row] for row in right.T]
    return [[sum((a * b for a, b in zip(r, c, strict=True)), Fraction(0)) for c in columns] for r in rows]


def error_of(target: np.ndarray, left: np.ndarray, right: np.ndarray, rest: np.ndarray) -> float:
    """The Frobenius norm of what the difference is off by, from fractions."""
    product = exact(left, right)
    square = sum(
        (Fraction(float(target[i, j])) - product[i][j] - Fraction(float(rest[i, j]))) ** 2
        for i in range(target.shape[0])
        for j in range(target.shape[1])
    )
    return math.sqrt(square)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(4))
def test_the_subtraction_is_paid_for(size: float, seed: int, *, quick: bool) -> None:
    """Where nothing cancels the products of slices are exact, so that only the subtractions round: that must count."""
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((5, 3)), rng.standard_normal((5, 2))
    target = size * rng.standard_normal((3, 2))
    rest, error = difference(target, left, right, quick=quick)
    off = error_of(target, left, right, rest)
    left_out = 2.0**-58 * np.linalg.norm(left) * np.linalg.norm(right)  # by the slices; the rest of the error is ours
    assert quick or off > left_out
    assert off <= error <= 64 * U * (np.linalg.norm(target) + np.linalg.norm(left) * np.linalg.norm(right))


def test_nothing_rounds_and_the_bound_is_next_to_nothing() -> None:
    whole = np.array([[1.0, 2.0], [3.0, 4.0]])
    rest, error = difference(np.zeros((2, 2)), whole, whole)
    assert rest.tolist() == [[-10.0, -14.0], [-14.0, -20.0]]
    assert 0 < error <= 8 * U * np.linalg.norm(rest)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 200])
def test_a_gram_matrix_in_blocks_of_rows(rows: int) -> None:
    a = np.random.default_rng(rows).standard_normal((rows, 3))
    got, error = gram(a)
    product = exact(a, a)
    off = math.sqrt(sum((Fraction(float(got[i, j])) - product[i][j]) ** 2 for i in range(3) for j in range(i + 1)))
    step = max(64, math.isqrt(rows))
    assert off <= error
    assert error == pytest.approx(gamma(min(step, rows) + -(-rows // step)) * squares(a), rel=1e-8, abs=0)
    assert gram(a, total=4.0)[1] == pytest.approx(error * 4 / squares(a), rel=1e-12, abs=0)


def test_gamma_is_the_textbook_one() -> None:
    assert gamma(1) == U / (1 - U)
    assert gamma(2**52) == 1.0  # c u = 1/2
    assert gamma(0) == 0


@pytest.mark.parametrize("size", [1e-140, 1.0, 1e140])
def test_norms_are_not_below_the_truth(size: float) -> None:
    a = size * np.random.default_rng(3).standard_normal((7, 5))
    square = sum(Fraction(float(x)) ** 2 for x in a.ravel())
    assert Fraction(norm_above(a)) ** 2 >= square
    assert Fraction(norm_above(a)) ** 2 <= square * Fraction(PAY) ** 3 + Fraction(LEAST) ** 2
    lower = np.tril(a[:5])
    full = lower + np.tril(lower, -1).T
    assert symmetric_norm(lower) >= np.linalg.norm(full)
    assert norm_above(np.zeros((2, 2))) == LEAST


@pytest.mark.parametrize(("size", "factor"), [(0.0, 1.0), (1.0, 1.0), (1e74, 1.0), (1e-74, 1.0), (2.0**300, 2.0**-301)])
def test_scales_are_powers_of_two_for_extreme_sizes_only(size: float, factor: float) -> None:
    assert scale(size) == factor


def test_the_most_extreme_scales_are_finite() -> None:
    assert scale(1e308) == 2.0**-1000
    assert scale(5e-324) == 2.0**1000


@pytest.mark.parametrize("far", [60, 80, 300])
def test_what_is_below_all_slices_is_dropped_and_paid_for(far: int) -> None:
    """An entry far below the largest of its column is in no slice; alone in the product it is the whole error."""
    left, right = np.array([[1.0], [1.1 * 2.0**-far]]), np.array([[0.0], [1.0]])
    for x, y in ((left, right), (right, left)):
        rest, error = difference(np.zeros((1, 1)), x, y)
        assert error_of(np.zeros((1, 1)), x, y, rest) <= error <= 2.0 ** (1 - min(far, 60))


def test_a_matrix_with_itself_and_with_its_copy() -> None:
    """The symmetric way spares half the products and gives the same."""
    x = np.random.default_rng(9).standard_normal((13, 4))
    target = np.eye(4)
    (own, error), (other, bound) = difference(target, x, x), difference(target, x, x.copy())
    assert error == pytest.approx(bound, rel=0.5, abs=0)
    assert np.abs(own - other).max() <= error + bound
    assert error_of(target, x, x, own) <= error


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 8, 15, 16, 31, 127])
@pytest.mark.parametrize("same", [False, True])
def test_where_all_cancels_every_product_of_slices_must_be_exact(rows: int, *, same: bool) -> None:
    """The target is the rounded product: what is left is of the size of its rounding, and the bound is far smaller.

    All entries are a little below 1 and of one sign per column, which makes the sums of products the longest.
    """
    rng = np.random.default_rng(rows)
    for low in (0.99, 0.999999):
        left = rng.uniform(low, 1, (rows, 2)) * rng.choice([-1, 1], (1, 2))
        right = left if same else rng.uniform(low, 1, (rows, 3)) * rng.choice([-1, 1], (1, 3))
        target = np.array([[float(x) for x in row] for row in exact(left, right)])
        rest, error = difference(target, left, right)
        off = error_of(target, left, right, rest)
        assert off <= error <= 1e-18 * rows, "an inexact product would err by 1e-16"


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_nothing_is_left_and_the_bound_is_not_negative(size: float, *, quick: bool) -> None:
    whole = size * np.array([[1.0, 2.0], [3.0, 4.0]])
    rest, error = difference(whole.T @ whole, whole, whole, quick=quick)
    assert not rest.any()
    assert 0 <= error <= 64 * U * 30 * size + 4 * LEAST


@pytest.mark.parametrize("rows", [128, 129, 300])
def test_quick_products_take_every_row(rows: int) -> None:
    rng = np.random.default_rng(rows)
    left, right = rng.standard_normal((rows, 2)), rng.standard_normal((rows, 1))
    target = np.array([[float(x) for x in row] for row in exact(left, right)])
    rest, error = difference(target, left, right, quick=True)
    assert error_of(target, left, right, rest) <= error <= 1e-9


@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_below_the_last_slice_is_paid_for(*, swapped: bool) -> None:
    """Four numbers so far apart that each takes a slice of its own, and the last is left over: it is the product."""
    far = np.array([[2.0 ** -(30 * k)] for k in range(4)])
    last = np.array([[0.0], [0.0], [0.0], [1.0]])
    left, right = (last, far) if swapped else (far, last)
    rest, error = difference(np.zeros((1, 1)), left, right)
    assert error_of(np.zeros((1, 1)), left, right, rest) <= error < 2.0**-89

"""Inputs on which rounding does its worst: the radius must hold the error that really happens."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from regard import rigor

FINE = 1 + 2.0**-30  # its square is 1 + 2^-29 as a float, and 2^-60 is lost

# Five products whose floats add up to 0 and whose errors are 2^-60, 2^-115, -2^-60, 0 and 0: floats that add the errors
# in this order lose the second one, which is all that the exact sum consists of.
LEFT = (FINE, FINE * 2.0**-55, -FINE, -(1 + 2.0**-29) * 2.0**-55, 0.0)
RIGHT = (FINE, FINE, FINE, 1.0, 1.0)
LOST = Fraction(2) ** -115


def holds(mid: float, rad: float, exact: Fraction) -> bool:
    return abs(Fraction(float(mid)) - exact) <= Fraction(float(rad))


@pytest.mark.parametrize("order", list(itertools.permutations(range(5))))
def test_errors_that_are_lost_in_the_compensated_sum_are_paid_for(order: tuple[int, ...]) -> None:
    row, q = np.array(LEFT)[list(order)], np.array(RIGHT)[list(order)]
    mid, rad = rigor.dot_enclosure(row[None, :], q, refine=True)
    assert holds(mid[0], rad[0], LOST)
    mid, rad = rigor.margins(np.zeros((3, 5)), row, q)
    assert all(holds(m, r, LOST) for m, r in zip(mid, rad, strict=True)), "the key's own error counts in every lead"
    for place in range(3):
        K = np.zeros((3, 5))
        K[place] = row
        for m, r, x in zip(*rigor.margins(K, np.zeros(5), q), K.any(axis=1), strict=True):
            assert holds(m, r, -LOST if x else Fraction(0)), "and a row's in its own"


@pytest.mark.parametrize("terms", [1, 2, 7])
@pytest.mark.parametrize("refine", [False, True])
def test_products_below_the_smallest_float_are_paid_for(terms: int, *, refine: bool) -> None:
    """9 * 2^-1080 is 0 in floats; another row keeps the matrix in the middle of the range."""
    K, q = np.zeros((2, terms)), np.zeros(terms)
    K[0], K[1, 0] = 3 * 2.0**-880, 1.0
    q[:] = 3 * 2.0**-200
    (low, high), (low_rad, high_rad) = rigor.dot_enclosure(K, q, refine=refine)
    assert holds(low, low_rad, terms * 9 * Fraction(2) ** -1080)
    assert holds(high, high_rad, 3 * Fraction(2) ** -200)
    assert low_rad < 2.0**-1000
    assert not rigor.strictly_wins(np.vstack([K[0] / 3, K]), 0, q), "a third of a score that floats call 0"
    assert rigor.strictly_wins(np.vstack([K[0], K[0] / 3, np.zeros(terms)]), 0, q)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_sums_that_lose_a_term_are_paid_for(order: tuple[int, ...]) -> None:
    """Products without error: here the sums 1 + 2^-60, 2^-55 + 2^-115 and -1 - 2^-60 lose their second terms."""
    first, second = np.array([1.0, 2.0**-55, -1.0, -(2.0**-55)]), np.array([2.0**-60, 2.0**-115, -(2.0**-60), 0.0])
    row = np.concatenate([first[list(order)], second[list(order)]])
    mid, rad = rigor.dot_enclosure(row[None, :], np.ones(8), refine=True)
    assert holds(mid[0], rad[0], LOST)


def test_a_matrix_of_many_chunks() -> None:
    """Rows so long that three fill a chunk of a comparison, and one more than a chunk of a compensated product."""
    terms = 300_000
    K = np.zeros((7, terms))
    K[:, -1] = scores = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0])
    q = np.ones(terms)
    for refine in (False, True):
        mid, rad = rigor.dot_enclosure(K, q, refine=refine)
        assert (np.abs(mid - scores) <= rad).all()
        assert rad.max() < 1e-9
    for j in range(7):
        assert rigor.rivals(K, j, q).tolist() == [i for i in range(7) if i != j and scores[i] >= scores[j]]
        assert rigor.strictly_wins(K, j, q) == (j == 5)


def test_a_matrix_without_columns() -> None:
    """Every product is an empty sum: 0, and nobody wins."""
    K, q = np.zeros((3, 0)), np.zeros(0)
    for refine in (False, True):
        mid, rad = rigor.dot_enclosure(K, q, refine=refine)
        assert mid.tolist() == [0, 0, 0]
        assert rad.max() < 1e-300
    assert rigor.rivals(K, 1, q).tolist() == [0, 2]
    assert rigor.rivals(K, 1, []).tolist() == [0, 2]


@pytest.mark.parametrize("columns", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("rows", list(itertools.permutations(range(4))))
def test_every_row_has_its_own_doubt(rows: tuple[int, ...], columns: tuple[int, ...]) -> None:
    """2^60 + s - 2^60 may be 0 in floats: a row of such a sum is in doubt beside others that are not."""
    big = 2.0**60
    K = np.array([[0.0, 0.25, 0.0], [0.0, 0.5, 0.0], [big, 2.0, -big], [big, -2.0, -big]])[np.ix_(rows, columns)]
    scores = np.array([0.25, 0.5, 2.0, -2.0])[list(rows)]
    for j in range(4):
        assert rigor.rivals(K, j, np.ones(3)).tolist() == [i for i in range(4) if i != j and scores[i] >= scores[j]]


def test_only_the_rows_that_are_asked_about_are_compared() -> None:
    K, q = np.array([[2.0], [3.0], [1.0], [2.0]]), [1.0]
    for j, rows, wins in [(0, [2], True), (0, [1], False), (0, [3], False), (1, [0, 3], True), (3, [1, 2], False)]:
        assert rigor.strictly_wins(K, j, q, rows=np.array(rows)) == wins
    assert rigor.strictly_wins(K, 2, q, rows=np.array([], dtype=int)), "there is nobody to beat"


@pytest.mark.parametrize("power", [54, 700])
def test_whole_queries_are_not_rounded_where_that_turns_the_lead_round(power: int) -> None:
    """As floats the entries 2^p + 1 and 2^p are one number, and then the other key leads, if by little."""
    K = np.array([[1.0, 0.0], [2.0 ** (-power - 6), 1.0]])
    for factor in (1, -1):
        assert rigor.strictly_wins(factor * K, 0, [factor * (2**power + 1), factor * 2**power])
        assert not rigor.strictly_wins(factor * K, 1, [factor * (2**power + 1), factor * 2**power])

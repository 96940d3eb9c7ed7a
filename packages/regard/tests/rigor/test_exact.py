"""Whole numbers and rationals: what is decided on the stored floats, without any rounding."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from regard import rigor
from regard.rigor.exact import combine, exact_products, is_whole, rank


def test_exact_products_with_whole_numbers_and_with_floats() -> None:
    K = np.array([[0.5, -3.0], [0.0, 2.0**-40]])
    for q in ([2**80 + 1, -7], [0.1, 1e300]):
        whole, exponent = exact_products(K, q)
        exact = [sum(Fraction(float(k)) * Fraction(x) for k, x in zip(row, q, strict=True)) for row in K]
        assert [n * Fraction(2) ** exponent for n in whole] == exact


def test_a_query_with_one_float_is_one_of_floats() -> None:
    assert is_whole([1, 2])
    assert not is_whole([1, 0.5])
    assert not is_whole([True, 1])
    K = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert rigor.strictly_wins(K, 0, [1, 0.5])
    assert not rigor.strictly_wins(K, 1, [1, 0.5])


@pytest.mark.parametrize("shape", [(3, 200), (200, 3)])
def test_the_rank_of_long_matrices_is_decided(shape: tuple[int, int]) -> None:
    """Rank 2, by numbers that no float elimination would find dependent."""
    rng = np.random.default_rng(1)
    thin = rng.integers(-(2**20), 2**20, (shape[0], 2)) @ rng.integers(-(2**20), 2**20, (2, shape[1]))
    assert rank(thin.astype(float)) == 2
    assert rank(rng.standard_normal(shape)) == 3


def test_a_combination_has_one_coefficient_per_column() -> None:
    assert combine(np.array([[0.5, 3.0]]), [Fraction(2), Fraction(1, 3)]) == [2]
    with pytest.raises(ValueError, match="zip"):
        combine(np.array([[0.5, 3.0]]), [Fraction(2)])

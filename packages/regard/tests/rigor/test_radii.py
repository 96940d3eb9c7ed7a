"""Radii are as wide as their derivation says, also where no input of ours makes the error that large."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from regard.rigor import choose_basis, combinations, floats, rivals, solve_enclosure, strictly_wins
from regard.rigor.floats import U, product_bound, two_prod


@pytest.mark.parametrize("terms", [1, 7, 1009])
def test_a_compensated_sum_pays_for_every_term(terms: int) -> None:
    """gamma of twice the terms, times the sum of the products' own errors and more."""
    rng = np.random.default_rng(terms)
    x, y = rng.standard_normal((1, terms)), rng.standard_normal(terms)
    errors = np.abs(two_prod(x, y[None, :])[1]).sum()
    assert floats._dot_pair(x, y)[2][0] >= product_bound(2 * terms) * errors
    assert product_bound(2 * terms) >= 2 * terms * U


def test_a_plain_product_pays_for_its_terms_and_for_an_uncertain_query() -> None:
    K, q = np.ones((1, 3)), np.array([1.0, 2.0, 4.0])
    _, sure = floats.plain_product(K, q)
    _, blurred = floats.plain_product(K, q, blur=0.5)
    assert sure[0] >= 3 * U * 7
    assert blurred[0] >= sure[0] + 0.5 * 7


@pytest.mark.parametrize("gap", [0.1, 0.4])
def test_a_poor_inverse_widens_the_solution(gap: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """|x - x~| <= |Rr| + a/(1-a) max |Rr|: with R = I and a right side known to 1, that is 1/(1-a)."""
    monkeypatch.setattr(combinations, "_distance_from_identity", lambda R, A: gap)
    solved = solve_enclosure(np.eye(2), (np.zeros(2), np.ones(2)))
    assert solved is not None
    assert solved[1].min() >= 1 / (1 - gap)
    assert solved[1].max() <= 1.05 / (1 - gap)


def test_an_inverse_that_is_none_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combinations, "_distance_from_identity", lambda R, A: 0.5)
    assert solve_enclosure(np.eye(2), [1.0, 1.0]) is None


def test_the_distance_from_the_identity_is_bounded_from_above() -> None:
    for off in (0.0, 0.25):
        R = np.eye(3) * (1 + off)
        bound = combinations._distance_from_identity(R, np.eye(3))
        assert off <= bound <= 1.02 * off + 100 * U
    with np.errstate(over="ignore"):
        assert combinations._distance_from_identity(np.full((1, 1), 1e300), np.full((1, 1), 1e300)) == np.inf


def test_a_basis_among_points_that_share_a_coordinate_with_the_target() -> None:
    points = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    assert choose_basis(points, [1.0, 1.0], [0.4, 0.2, 0.4]).tolist() == [0, 2]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("whole", [False, True])
def test_scores_that_plain_products_lose_are_compared_all_the_same(order: tuple[int, ...], *, whole: bool) -> None:
    """2^60 + s - 2^60 is s, or 0 in floats where the sum runs from the left; rows with and without such a sum."""
    big = 2.0**60
    K = np.array([[big, 1.0, -big], [big, 2.0, -big], [0.0, 0.5, 0.0], [0.0, 1.5, 0.0], [big, -3.0, -big]])
    scores = K @ [0.0, 1.0, 0.0]  # the exact ones
    q = [1, 1, 1] if whole else [1.0, 1.0, 1.0]
    mixed = K[:, order]
    assert [strictly_wins(mixed, j, q) for j in range(5)] == [j == 1 for j in range(5)]
    for j in range(5):
        assert rivals(mixed, j, q).tolist() == [i for i in range(5) if i != j and scores[i] >= scores[j]]
        alone = np.array([[*mixed[j]], [*mixed[3]]])
        assert strictly_wins(alone, 0, q) == (scores[j] > scores[3])


def test_whole_queries_too_wide_for_floats_are_taken_exactly() -> None:
    """As floats beside 2^1077, 21 is one smallest unit and so are both tens: 21 would lose to 10 + 10."""
    large = 2.0**290
    K = np.array([[0.0, large, 0.0, 0.0], [0.0, 0.0, large, large]])
    q = [2**1077, 21, 10, 10]
    assert strictly_wins(K, 0, q)
    assert not strictly_wins(K, 1, q)

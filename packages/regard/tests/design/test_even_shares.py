"""Sharing by way of copying: the same answers as the search among all queries, or none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard import design
from regard.design import certified_solver, minimax
from regard.design.minimax import MOST_CHOSEN, shortest_even


def outliers(n: int, d: int, s: int, seed: int) -> np.ndarray:
    """Keys of which the first s are longer than the others, so that a query can share them."""
    keys = np.random.default_rng(seed).standard_normal((n, d))
    keys[:s] *= 4
    return keys


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "d", "s"), [(13, 7, 2), (41, 11, 3), (101, 17, 5), (1301, 29, 3), (19, 23, 16)])
def test_an_even_query_is_the_shortest_of_all(n, d, s, seed):
    keys, chosen = outliers(n, d, s, seed), np.arange(s)
    even = shortest_even(keys, chosen, 1e-3)
    assert even is not None
    assert even.upper <= even.lower * (1 + 1e-8)
    several = minimax.shortest_minimax(keys, keys[:s], np.full(s, math.log(s + 1e-3)))
    assert even.upper == pytest.approx(several.upper, rel=1e-7)
    scores = keys @ even.query
    assert np.ptp(scores[:s]) <= 1e-13 * np.abs(scores).max()
    assert np.exp(scores - scores[0]).sum() <= s + 1e-3 * (1 + 1e-7)


def test_the_order_and_the_place_of_the_chosen_keys_do_not_matter():
    keys = outliers(211, 9, 3, 0)
    order = np.insert(np.arange(3, 211), [75, 2, 197], [2, 1, 0])
    mixed = keys[order]
    places = np.array([int(np.flatnonzero(order == m)[0]) for m in (2, 0, 1)])
    one, other = shortest_even(keys, np.array([2, 0, 1]), 0.01), shortest_even(mixed, places, 0.01)
    assert other.upper == pytest.approx(one.upper, rel=1e-9)
    assert other.mixture == pytest.approx(one.mixture, abs=1e-6)


def test_it_leaves_what_it_is_not_for():
    keys = outliers(40, 20, 17, 1)
    assert shortest_even(keys, np.array([3]), 0.1) is None  # one key: copying with itself among the others
    assert shortest_even(keys, np.arange(MOST_CHOSEN + 1), 0.1) is None
    assert shortest_even(keys[:3], np.arange(3), 0.1) is None  # no others
    assert shortest_even(np.arange(9.0)[:, None], np.array([0, 8]), 0.1) is None  # no direction is left
    flat = keys.copy()
    flat[2] = 2 * flat[1] - flat[0]  # three on a line
    assert shortest_even(flat, np.arange(3), 0.1) is None


def test_an_uneven_query_that_is_shorter_wins():
    """Key 1 lies behind key 0: with so much to spare, a query that gives key 0 more is shorter than an even one."""
    keys = np.array([[1.6, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.3], [-1.0, -0.3]])
    assert shortest_even(keys, np.array([0, 1]), 1.5) is None
    found = design.share(keys, [0, 1], eps=1.5)
    assert found.reachable
    assert found.weights[0] > found.weights[1] + 0.01


def test_where_the_check_does_not_confirm_it_the_others_are_asked(monkeypatch):
    keys = outliers(41, 11, 3, 0)
    expected = design.share(keys, [0, 1, 2], eps=0.01).norm

    def short(*arguments, **settings):
        found = shortest_even(*arguments, **settings)
        return minimax.Minimax(
            0.999 * found.query, found.weights, found.mixture, found.lower, found.upper, found.iterations
        )

    monkeypatch.setattr(certified_solver, "shortest_even", short)
    assert design.share(keys, [0, 1, 2], eps=0.01).norm == pytest.approx(expected, rel=2e-9)

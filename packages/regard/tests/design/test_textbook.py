"""The coursework's closed forms: what they promise, how tight it is, and when they apply."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracles
from regard import design


def frame(n, d, seed):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, n)))[0].T


def weights(keys, query):
    return oracles.softmax(keys @ query)


@given(st.integers(2, 11), st.floats(-5, 0).map(lambda x: 10.0**x), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_copying_query_keeps_its_promise(n, eps, seed):
    keys = frame(n, 13, seed)
    query = design.copying_query(keys, 0, eps)
    assert np.linalg.norm(query) == pytest.approx(2 * math.log(n / eps))
    assert weights(keys, query)[0] >= 1 / (1 + eps)


def test_the_copying_query_holds_at_distance_one_exactly():
    keys = np.array([[1.0, 0.0], [0.5, math.sqrt(3) / 2], [0.5, -math.sqrt(3) / 2]])
    share = weights(keys, design.copying_query(keys, 0, 0.01))[0]
    assert share == pytest.approx(1 / (1 + 2 * 0.01 / 3))  # scores ln(n/eps) apart: (n-1) eps/n is left
    assert design.textbook_query(keys, [0], 0.01).promised_norm == pytest.approx(2 * math.log(300))


@given(st.integers(2, 11), st.integers(1, 10), st.floats(-5, -1).map(lambda x: 10.0**x), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_the_sharing_query_gives_exactly_what_it_says(n, s, eps, seed):
    s, keys = min(s, n - 1), frame(n, 13, seed)
    chosen = list(range(s))
    query = design.sharing_query(keys, chosen, eps)
    assert weights(keys, query)[:s] == pytest.approx(np.full(s, 1 / (s + eps)), rel=1e-9)
    assert np.linalg.norm(query) == pytest.approx(math.log((n - s) / eps) * math.sqrt(s))
    best = design.shortest_for_orthonormal(keys, chosen, eps)
    assert weights(keys, best) == pytest.approx(weights(keys, query), rel=1e-9)  # the same scores less their mean
    assert np.linalg.norm(best) == pytest.approx(np.linalg.norm(query) * math.sqrt((n - s) / n))


def test_nothing_is_needed_where_nothing_is_asked():
    keys = np.eye(3)
    assert not design.sharing_query(keys, [0, 1, 2], 0.1).any()
    assert not design.shortest_for_orthonormal(keys, [0, 1, 2], 0.1).any()
    assert not design.shortest_for_orthonormal(keys, [0], 2.5).any()  # eps above n - s


@pytest.mark.parametrize("eps", [1e-300, 1e-310])
def test_tiny_demands_do_not_overflow(eps):
    for query in (
        design.copying_query(np.eye(3), 0, eps),
        design.sharing_query(np.eye(3), [0], eps),
        design.shortest_for_orthonormal(np.eye(3), [0], eps),
    ):
        assert np.isfinite(query).all()
        assert np.linalg.norm(query) > 500


def test_the_form_is_picked_by_what_the_keys_are():
    orthonormal = design.textbook_query(frame(5, 7, 0), [0, 3], 0.1)
    assert "orthonormal" in orthonormal.name
    assert orthonormal.norm == pytest.approx(orthonormal.promised_norm)
    assert design.textbook_query(frame(5, 7, 0), [0, 1, 2, 3, 4], 0.1).promised_norm == 0.0
    unit = np.array([[1.0, 0], [-1, 0], [0, 1]])
    assert "distance 1 or more" in design.textbook_query(unit, [0], 0.1).name
    assert design.textbook_query(unit, [0, 1], 0.1) is None
    close = np.array([[1.0, 0], [math.cos(1.0), math.sin(1.0)]])  # a chord of 0.96
    assert design.textbook_query(close, [0], 0.1) is None
    assert design.textbook_query(unit * 1.001, [0], 0.1) is None


@given(st.integers(0, 10**6), st.floats(-4, 0).map(lambda x: 10.0**x))
@settings(max_examples=15, deadline=None)
def test_the_shortest_is_never_longer_than_the_textbook(seed, eps):
    rng = np.random.default_rng(seed)
    keys = frame(7, 11, seed)
    chosen = rng.choice(7, size=int(rng.integers(1, 6)), replace=False).tolist()
    found = design.share(keys, chosen, eps=eps)
    assert found.norm <= found.textbook.norm * (1 + 1e-9)
    assert found.norm <= found.textbook.promised_norm * (1 + 1e-9)

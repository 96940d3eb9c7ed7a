"""What a head's keys allow: verdicts on keys whose geometry is known, and the certificates behind them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard_models.head_measures.head_keys import fullest_row, head_ceilings

SQUARE = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])


def verdict(keys, queries=None, allowed=None, scale=1.0, **options):
    keys = np.asarray(keys, dtype=float)
    queries = np.ones((1, keys.shape[1])) if queries is None else np.asarray(queries, dtype=float)
    allowed = np.ones((len(queries), len(keys)), dtype=bool) if allowed is None else allowed
    words = [f"w{j}" for j in range(len(keys))]
    return head_ceilings(keys, queries, allowed, scale=scale, words=words, layer=2, head=3, **options)


def test_the_centre_of_a_square_never_wins():
    found = verdict(SQUARE)
    assert found.never == (4,)
    assert found.ceilings == (1.0, 1.0, 1.0, 1.0, pytest.approx(0.2))
    assert found.verified
    assert "never wins: 'w4' at 4 (at most 0.201)" in str(found)


def test_a_token_twice_at_the_same_place_gets_half_at_most():
    found = verdict([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert found.never == (0, 2)
    assert found.ceilings == (pytest.approx(0.5), 1.0, pytest.approx(0.5))


def test_how_long_a_query_copying_needs():
    """Two keys at distance 2 along one axis: the lead 2 s q must be ln(1/eps)."""
    found = verdict([[1.0], [-1.0]], queries=[[3.0], [-2.0]], scale=0.5, eps=0.1)
    assert found.needs == (pytest.approx(math.log(10), rel=1e-6), pytest.approx(math.log(10), rel=1e-6))
    assert (found.longest, found.out_of_reach) == (3.0, ())
    assert verdict([[1.0], [-1.0]], queries=[[2.0]], scale=0.5, eps=0.1).out_of_reach == (0, 1)


def test_no_query_of_the_heads_length_reaches_what_is_said_to_be_too_far():
    """The best of very many queries of that length stays below 1/(1 + eps) for every such key."""
    random = np.random.default_rng(0)
    keys, queries = random.normal(size=(11, 3)), 2.0 * random.normal(size=(5, 3))
    found = verdict(keys, queries, scale=0.7)
    assert found.out_of_reach
    asked = random.normal(size=(20_000, 3))
    asked *= found.longest / np.linalg.norm(asked, axis=1, keepdims=True)
    scores = 0.7 * asked @ keys.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    best = (weights / weights.sum(axis=1, keepdims=True)).max(axis=0)
    for place in found.out_of_reach:
        assert best[place] < 1 / 1.1
    within = [place for place in range(11) if place not in found.out_of_reach]
    assert all(found.needs[place] <= found.longest for place in within)


def test_only_keys_that_may_be_read_count():
    """Without the corners the centre wins; places keep their numbers."""
    allowed = np.array([[False, False, False, True, True]])
    found = verdict(SQUARE, allowed=allowed)
    assert (found.places, found.never, found.words) == ((3, 4), (), ("w3", "w4"))


def test_the_query_that_reads_most():
    assert fullest_row(np.tril(np.ones((4, 4), dtype=bool))) == 3
    assert fullest_row(np.ones((4, 4), dtype=bool)) == 3
    assert fullest_row(np.array([[True, True], [True, False]])) == 0


def test_a_single_key_needs_nothing():
    found = verdict([[1.0, 2.0]])
    assert (found.ceilings, found.out_of_reach, found.never) == ((1.0,), (), ())

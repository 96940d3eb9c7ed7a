"""The swing of keys' lengths, what evening them does, and exact noise beside draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard_models.head_measures import head_keys


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.fixture
def head():
    random = np.random.default_rng(0)
    q, k = random.normal(size=(2, 5, 4)), random.normal(size=(2, 7, 4))
    allowed = np.ones((2, 5, 7), dtype=bool)
    allowed[:, 0, 3:] = False
    return q, k, allowed


def test_scores_are_recognised_only_if_nothing_else_is_in_them(head):
    q, k, allowed = head
    scores = 0.5 * np.einsum("hqd,hkd->hqk", q, k)
    weights = softmax(np.where(allowed, scores, -np.inf))
    np.testing.assert_allclose(head_keys.plain_scores(q, k, 0.5, weights, allowed), scores, rtol=1e-12)
    assert head_keys.plain_scores(q, k, 0.4, weights, allowed) is None
    biased = softmax(np.where(allowed, scores + 0.1 * np.arange(7), -np.inf))
    assert head_keys.plain_scores(q, k, 0.5, biased, allowed) is None


def test_keys_of_one_length_do_not_swing(head):
    q, k, allowed = head
    even = k / np.linalg.norm(k, axis=2, keepdims=True)
    np.testing.assert_allclose(head_keys.swing(even), 0, atol=1e-12)
    np.testing.assert_allclose(
        head_keys.even_length_effect(head_keys.scores_of(q, even, 1.0), even, allowed), 0, atol=1e-12
    )


def test_evening_the_lengths_by_hand(head):
    q, k, allowed = head
    scores = head_keys.scores_of(q, k, 0.5)
    by_hand = []
    for h in range(2):
        lengths = [math.sqrt(float(x @ x)) for x in k[h]]
        mean = sum(lengths) / 7
        other = np.stack([x * mean / n for x, n in zip(k[h], lengths, strict=True)])
        rows = []
        for i in range(5):
            may = allowed[h, i]
            old, new = softmax(0.5 * k[h][may] @ q[h, i]), softmax(0.5 * other[may] @ q[h, i])
            rows.append(np.abs(old - new).sum() / 2)
        by_hand.append(np.mean(rows))
    np.testing.assert_allclose(head_keys.even_length_effect(scores, k, allowed), by_hand, rtol=1e-10)


def test_the_row_that_shares_most():
    weights = np.array([[1.0, 0.0, 0.0], [0.45, 0.45, 0.1], [0.5, 0.3, 0.2]])
    assert head_keys.most_sharing_row(weights, weights >= 0) == 1
    assert head_keys.most_sharing_row(np.ones((2, 1)), np.ones((2, 1), dtype=bool)) == 0


def test_exact_noise_against_many_draws_of_another_kind():
    """Two keys with equal scores: the weight is 1/(1 + e^(g s sqrt 2 swing)), one integral over a normal g."""
    s, amount = 4.0, 0.25
    scores = np.array([[s, s]])
    found = head_keys.swing_noise(scores, np.ones((1, 2), dtype=bool), amount, layer=0, head=0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    p = 1 / (1 + np.exp(math.sqrt(2) * s * amount * nodes))
    weights = weights / weights.sum()
    mean = float(weights @ p)
    expected = math.sqrt(float(weights @ p**2) - mean**2)
    assert found.sd == pytest.approx(expected, rel=1e-6)
    assert found.mean == pytest.approx(0.5, abs=1e-9)
    assert abs(found.measured_sd - found.sd) <= 2 * found.measured_sd_within  # four standard errors, fixed seed
    assert (found.query, found.largest) == (0, pytest.approx(0.5))


def test_no_swing_no_noise():
    found = head_keys.swing_noise(np.array([[1.0, 2.0]]), np.ones((1, 2), dtype=bool), 0.0, layer=3, head=1)
    assert found.sd == pytest.approx(0, abs=1e-9)
    assert (found.layer, found.head, found.measured_sd) == (3, 1, 0.0)

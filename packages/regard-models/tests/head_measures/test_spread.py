"""Entropy, copying, sharing and overlap against rows whose numbers are known by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from regard_models.head_measures import weight_patterns


def everywhere(weights):
    return np.ones_like(np.asarray(weights), dtype=bool)


def measured(rows, allowed=None, **options):
    weights = np.asarray([rows], dtype=float)
    mask = everywhere(weights) if allowed is None else np.asarray([allowed], dtype=bool)
    return weight_patterns.spread(weights, mask, **options)


def test_equal_weights_have_as_many_tokens_as_keys():
    found = measured(np.full((3, 7), 1 / 7))
    assert found.entropy[0] == pytest.approx(math.log(7))
    assert found.effective[0] == pytest.approx(7)
    assert found.largest[0] == pytest.approx(1 / 7)
    assert found.sharing[0] == pytest.approx(2 / 7)


def test_the_margin_is_what_the_lead_lacks():
    """A weight of exactly 1/(1 + eps) has no margin; one of nine tenths lacks ln(10/9) at eps 0.1."""
    rows = [[1 / 1.1, 0.1 / 1.1]]
    assert measured(rows).margin[0] == pytest.approx(0, abs=1e-12)
    assert measured([[0.9, 0.06, 0.04]]).margin[0] == pytest.approx(math.log(9 / 10))
    assert measured([[0.9, 0.1]], eps=0.2).margin[0] == pytest.approx(math.log(9 / 5))


def test_a_row_copies_from_one_over_one_plus_eps_on():
    rows = [[0.95, 0.05], [0.85, 0.15], [0.5, 0.5], [0.02, 0.98]]
    assert measured(rows).copying[0] == 0.5
    assert measured(rows, eps=0.2).copying[0] == 0.75


def test_a_row_that_copies_exactly_has_an_endless_margin():
    found = measured([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    assert found.margin[0] == math.inf
    assert found.copying[0] == pytest.approx(2 / 3)


def test_rows_with_one_key_say_nothing_about_copying():
    """The first row of a causal head puts all its weight on the only key there is."""
    rows, may = [[1.0, 0.0], [0.5, 0.5]], [[True, False], [True, True]]
    found = measured(rows, may)
    assert found.copying[0] == 0
    assert found.sharing[0] == 1
    assert np.isnan(measured(rows[:1], may[:1]).copying[0])


def test_rows_that_do_not_sum_to_one_are_scaled_and_empty_ones_left_out():
    found = measured([[0.2, 0.2], [0.0, 0.0]])
    assert found.effective[0] == pytest.approx(2)
    assert np.isnan(measured([[0.0, 0.0]]).effective[0])


def test_overlap_and_agreement():
    one, other = [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], [[0.0, 0.0, 1.0], [0.5, 0.25, 0.25]]
    assert weight_patterns.overlap(one, one) == 1
    assert weight_patterns.overlap(one, other) == pytest.approx((0 + 0.75) / 2)
    pairs = weight_patterns.agreement([one, other, one])
    np.testing.assert_allclose(pairs, [[1, 0.375, 1], [0.375, 1, 0.375], [1, 0.375, 1]], rtol=1e-6)


def test_agreement_is_the_overlap_of_every_pair():
    random = np.random.default_rng(0)
    heads = random.dirichlet(np.ones(7), (5, 11))
    pairs = weight_patterns.agreement(heads)
    for a in range(5):
        for b in range(5):
            assert pairs[a, b] == pytest.approx(weight_patterns.overlap(heads[a], heads[b]), rel=1e-5)


def test_moved_is_total_variation():
    random = np.random.default_rng(1)
    p, r = random.dirichlet(np.ones(5), (2, 3, 4))
    by_hand = [[max(sum(p[h, i, list(s)]) - sum(r[h, i, list(s)]) for s in _subsets(5)) for i in range(4)]
               for h in range(3)]  # fmt: skip
    np.testing.assert_allclose(weight_patterns.mean_total_variation(p, r), np.mean(by_hand, axis=1), rtol=1e-12)


def _subsets(count):
    return [[j for j in range(count) if code >> j & 1] for code in range(2**count)]

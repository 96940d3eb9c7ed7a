"""The most attention a key can ever get: known ceilings, an entropy oracle, stored numbers against what one sees."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from regard import design
from regard.design import hull
from regard.errors import InputError
from regard.examples import example

SQUARE = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]])


def checked(keys, index, **options):
    found = design.ceiling(keys, index, **options)
    assert design.verify(found.certificate, np.asarray(keys, dtype=float), strict=True).holds
    assert abs(found.ceiling - found.reached) <= 1e-6
    return found


# by hand ------------------------------------------------------------------------------------------------------------


def test_the_square():
    centre, corner = checked(SQUARE, 4), checked(SQUARE, 0)
    assert centre.ceiling == pytest.approx(0.2, abs=1e-12)
    assert centre.inside
    assert corner.ceiling == 1.0
    assert not corner.inside
    assert corner.norm == pytest.approx(np.linalg.norm(corner.query))


def test_the_middle_of_an_edge_and_the_middle_of_a_triangle():
    triangle = example("triangle")
    assert checked(triangle, 3).ceiling == pytest.approx(1 / 3, abs=1e-9)  # with the two ends of its edge
    centroid = checked(triangle, 4)
    entropy = oracles.largest_entropy(triangle[:4], triangle[4])
    assert centroid.ceiling == pytest.approx(1 / (1 + math.exp(entropy)), abs=1e-6)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_copies_of_a_corner_and_of_a_middle(copies):
    corner = np.concatenate([SQUARE, np.repeat(SQUARE[:1], copies, axis=0)])
    found = checked(corner, 0)
    assert found.ceiling == pytest.approx(1 / (1 + copies))
    assert found.copies == copies
    middle = np.concatenate([SQUARE, np.repeat(SQUARE[4:], copies, axis=0)])
    assert checked(middle, 4).ceiling == pytest.approx(1 / (1 + copies + 4), abs=1e-9)
    assert "equal keys always get equal weight" in str(found)


def test_whole_numbers_on_a_line():
    keys = np.arange(5.0)[:, None]
    found = design.ceilings(keys)
    assert [row.inside for row in found.rows] == [False, True, True, True, False]
    assert found.rows[2].ceiling == pytest.approx(0.2, abs=1e-9)
    for j in (1, 3):
        entropy = oracles.largest_entropy(np.delete(keys, j, axis=0), keys[j])
        assert found.rows[j].ceiling == pytest.approx(1 / (1 + math.exp(entropy)), abs=1e-6)


def test_three_floats_that_look_collinear_are_not():
    keys = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]])
    found = checked(keys, 1, max_norm=1000.0)
    assert found.ceiling == 1.0
    assert not found.inside
    assert found.norm is None or found.norm > 1e16
    assert found.budget_norm == 1000.0
    assert found.budget_ceiling == pytest.approx(1 / 3, abs=1e-9)
    text = found.details()
    assert "With queries of norm up to 1000 the most is 0.333333" in text
    whole = np.array([[1.0, 3], [2, 6], [3, 9]])
    assert checked(whole, 1).ceiling == pytest.approx(1 / 3, abs=1e-9)


def test_one_key_and_two():
    assert checked([[3.0, 4.0]], 0).ceiling == 1.0
    assert checked([[0.0]], 0).budget_norm is None
    assert checked([[0.0], [1.0]], 1).ceiling == 1.0
    assert checked([[1.0], [1.0]], 1).ceiling == 0.5
    assert checked(np.zeros((5, 3)), 2).ceiling == pytest.approx(0.2)


def test_a_mask_and_a_scale():
    allowed = np.array([True, True, False, False, True])
    assert checked(SQUARE, 4, allowed=allowed).ceiling == 1.0  # two corners of one side do not hold the centre
    allowed = np.array([True, False, True, False, True])
    found = checked(SQUARE, 4, allowed=allowed, scale=0.5)
    assert found.ceiling == pytest.approx(1 / 3, abs=1e-9)
    with pytest.raises(InputError, match="Key 3 is forbidden by the mask"):
        design.ceiling(SQUARE, 3, allowed=allowed)


def test_a_budget_is_computed_only_where_it_is_asked_for():
    found = checked(SQUARE, 0, scale=0.25)
    assert (found.budget_norm, found.budget_ceiling) == (None, None)
    assert "queries of norm up to" not in str(found)
    within = checked(SQUARE, 0, scale=0.25, max_norm=2.0)
    assert within.budget_norm == 2.0
    assert within.budget_ceiling == design.copy(SQUARE, 0, scale=0.25, max_norm=2.0).bound
    assert "With queries of norm up to 2 the most is 0." in str(within)


# against oracles ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_entropy_gives_the_ceiling(seed):
    rng = np.random.default_rng(seed)
    keys = rng.integers(-9, 10, (7, 2)).astype(float)
    keys = np.concatenate([keys, [keys.mean(axis=0).round()]])
    found = checked(keys, 7)
    inside = hull.decide(keys, 7).inside
    entropy = oracles.largest_entropy(keys[:7], keys[7]) if inside else -math.inf
    assert found.ceiling == pytest.approx(1 / (1 + math.exp(entropy)), abs=1e-6)
    assert found.inside == inside


@pytest.mark.slow
@given(st.integers(3, 7), st.integers(1, 3), st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_query_gets_past_a_ceiling(n, d, data):
    keys = data.draw(arrays(np.int64, (n, d), elements=st.integers(-3, 3))).astype(float)
    found = checked(keys, 0)
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((300, d)) * 10.0 ** rng.uniform(-2, 2, (300, 1))
    weights = oracles.softmax(queries @ keys.T, axis=1)[:, 0]
    assert weights.max() <= found.ceiling * (1 + 1e-12)
    assert found.reached <= found.ceiling
    assert found.copies == (keys[1:] == keys[0]).all(axis=1).sum()


@pytest.mark.parametrize("factor", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_size_and_place_do_not_matter(factor, offset):
    keys = (SQUARE + offset) * (factor if factor == 1.0 else 2.0 ** round(math.log2(factor)))
    assert checked(keys, 4).ceiling == pytest.approx(0.2, abs=1e-9)
    assert checked(keys, 1).ceiling == pytest.approx(1.0, abs=1e-6)


def test_many_keys_in_few_dimensions_and_few_in_many():
    rng = np.random.default_rng(0)
    flat = rng.standard_normal((301, 2))
    deep, out = int(np.argmin((flat**2).sum(1))), int(np.argmax(flat[:, 0]))
    assert checked(flat, deep).ceiling < 0.01
    assert checked(flat, out).ceiling == 1.0
    assert checked(rng.standard_normal((5, 97)), 3).ceiling == 1.0
    square_in_space = np.concatenate([SQUARE, np.zeros((5, 11))], axis=1)
    assert checked(square_in_space, 4).ceiling == pytest.approx(0.2, abs=1e-9)


@pytest.mark.parametrize("name", ["hexagon", "simplex", "opposite", "duplicate", "collinear"])
def test_the_examples(name):
    found = design.ceilings(example(name))
    inside = {"collinear": [False, True, True, True, False]}.get(
        name, [name == "duplicate" and j < 2 for j in range(9)]
    )
    assert [row.ceiling < 1 for row in found.rows] == inside[: len(found.rows)]


# the table ----------------------------------------------------------------------------------------------------------


def test_the_table_counts_and_reports_progress():
    seen = []
    found = design.ceilings(SQUARE, [4, 0], progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]
    lines = str(found).splitlines()
    assert lines[0] == "1 of 2 keys have a ceiling below 1; the lowest is 0.2, of key 4."
    assert lines[1].split()[:2] == ["key", "ceiling"]
    assert lines[2].split()[:4] == ["4", "0.2", "yes", "0"]
    rows = json.loads(found.to_json())["ceilings"]
    assert [row["key"] for row in rows] == [4, 0]
    assert rows[0]["certificate"]["claim"] == "ceiling"
    assert found.answer


@pytest.mark.slow
def test_a_key_in_the_middle_of_a_line_beside_a_point():
    keys = np.concatenate([np.outer(np.arange(39.0), [1, 1, 1]), [[5, 5, 6.5]]])
    assert checked(keys, 20).ceiling < 0.03


def test_a_single_ceiling_says_what_it_is():
    assert "It is a corner of the keys' convex hull" in str(checked(SQUARE, 0))
    assert "It lies in the convex hull of the other keys" in str(checked(SQUARE, 4))
    with pytest.raises(InputError, match="max_norm must be a positive finite number"):
        design.ceiling(SQUARE, 0, max_norm=-1.0)

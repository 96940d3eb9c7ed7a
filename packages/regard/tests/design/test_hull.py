"""Hull membership, decided exactly: against enumeration in fractions, and on the cases where floats mislead."""

from __future__ import annotations

import itertools
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard import rigor
from regard.design import hull
from regard.errors import CouldNotFindOut, InputError
from tiers import NIGHTLY, sampled


def solve_in_fractions(columns, right):
    """Gauss-Jordan; the unique solution of sum x_c column_c = right, or None."""
    rows = [[Fraction(c[i]) for c in columns] + [Fraction(right[i])] for i in range(len(right))]
    m = len(columns)
    for k in range(m):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(len(rows)):
            if i != k:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return None if any(row[-1] for row in rows[m:]) else [row[-1] for row in rows[:m]]


def in_hull_by_enumeration(K, j):
    """Caratheodory, literally: some at most d + 1 independent other rows have the key as a convex combination."""
    others = [[*map(Fraction, map(float, row)), 1] for i, row in enumerate(K) if i != j]
    target = [*map(Fraction, map(float, K[j])), 1]
    for size in range(1, len(target) + 1):
        for rows in itertools.combinations(others, size):
            x = solve_in_fractions(rows, target)
            if x is not None and min(x) >= 0:
                return True
    return False


def holds_exactly(K, found):
    """The proof of a membership, checked in fractions."""
    K = [[Fraction(float(x)) for x in row] for row in K]
    j = found.key
    if not found.inside:
        q = found.whole_query if found.query is None else found.query.tolist()
        scores = [sum(Fraction(x) * y for x, y in zip(q, row, strict=True)) for row in K]
        return all(scores[j] > s for i, s in enumerate(scores) if i != j)
    if found.exact_weights is None:
        return bool((found.weights > found.radii).all()) and j not in found.support
    w = [Fraction(int(x.p), int(x.q)) for x in found.exact_weights]
    sums = [sum(x * K[i][c] for x, i in zip(w, found.support, strict=True)) for c in range(len(K[0]))]
    return sums == K[j] and sum(w) == 1 and min(w) > 0 and j not in found.support


grids = st.tuples(st.integers(1, 7), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-2, 2).map(float))
)


@pytest.mark.slow
@given(grids, st.data())
@settings(max_examples=150, deadline=None)
def test_integer_grids_are_decided_as_enumeration_decides_them(K, data):
    j = data.draw(st.integers(0, len(K) - 1))
    found = hull.decide(K, j)
    assert found.inside == in_hull_by_enumeration(K, j)
    assert holds_exactly(K, found)


@pytest.mark.slow
@given(
    arrays(np.float64, (5, 2), elements=st.sampled_from([0.1, 0.2, 0.3, 0.6, 0.9, 0.7, 1e-8, 1e8, -0.3, 1e16])),
    st.integers(0, 4),
)
@settings(max_examples=150, deadline=None)
def test_decimals_that_look_degenerate_are_decided_as_enumeration_decides_them(K, j):
    found = hull.decide(K, j)
    assert found.inside == in_hull_by_enumeration(K, j)
    assert holds_exactly(K, found)


SQUARE = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2], [1, 1], [1, 0]])


@pytest.mark.parametrize(("j", "inside"), [(0, False), (4, True), (5, True)])
def test_corner_centre_and_edge_of_a_square(j, inside):
    found = hull.decide(SQUARE, j)
    assert found.inside is inside
    assert holds_exactly(SQUARE, found)


def test_three_floats_that_look_collinear_are_not():
    K = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]])
    found = hull.decide(K, 1)
    assert not found.inside
    assert found.query is not None, "a float query wins too"
    assert rigor.strictly_wins(K, 1, found.query)
    assert holds_exactly(K, found)


@pytest.mark.parametrize("factor", [1.0, 2.0**-40, 2.0**40, 1e-8, 1e8, 2.0**-600, 2.0**600])
def test_a_copy_is_one_key_of_weight_one_at_any_scale(factor):
    K = np.random.default_rng(3).standard_normal((11, 5)) * factor
    K[7] = K[2]
    found = hull.decide(K, 7)
    assert (found.inside, found.proof, found.support.tolist()) == (True, "identical row", [2])


@pytest.mark.parametrize("factor", [1e-8, 1.0, 1e8, 1e150, 1e-150, 2.0**1000, 2.0**-1000])
def test_scale_does_not_change_the_answer(factor):
    rng = np.random.default_rng(5)
    K = rng.standard_normal((11, 2)) * factor
    inside = [hull.decide(K, j).inside for j in range(11)]
    assert inside == [in_hull_by_enumeration(K, j) for j in range(11)]


@pytest.mark.parametrize("j", range(13))
def test_key_norms_from_1e_minus_8_to_1e8(j):
    rng = np.random.default_rng(7)
    K = rng.standard_normal((13, 2)) * 10.0 ** np.linspace(-8, 8, 13)[:, None]
    found = hull.decide(K, j)
    assert found.inside == in_hull_by_enumeration(K, j)
    assert holds_exactly(K, found)


def test_one_key_wins_and_two_on_a_line_both_do():
    assert not hull.decide([[3.0, 4.0]], 0).inside
    assert not hull.decide([[1.0], [2.0]], 0).inside
    assert not hull.decide([[1.0], [2.0]], 1).inside
    assert hull.decide([[1.0], [2.0], [3.0]], 1).inside


def test_more_dimensions_than_keys():
    K = np.random.default_rng(11).integers(-9, 9, (5, 101)).astype(np.float32)
    assert not hull.decide(K, 3).inside
    K[3] = (K[0] + K[1] + 2 * K[2]) / 4
    found = hull.decide(K, 3)
    assert (found.inside, found.proof) == (True, "exact rationals")
    assert sorted(map(str, found.exact_weights)) == ["1/2", "1/4", "1/4"]


def planted(count, *, seed, n=3011, d=97):
    rng = np.random.default_rng(seed)
    K = rng.standard_normal((n, d)).astype(np.float32)
    w = rng.dirichlet(np.ones(count))
    K[-1] = w @ K[rng.choice(n - 1, count, replace=False)].astype(float)
    return K


@pytest.mark.slow
@pytest.mark.parametrize("count", sampled([3, 5, 7], every=3, others=NIGHTLY))
def test_float32_mixtures_of_few_keys_win_again(count):
    K = planted(count, seed=count)
    found = hull.decide(K, len(K) - 1)
    assert not found.inside
    assert holds_exactly(K, found)


@pytest.mark.parametrize("count", [53, 211])
def test_float32_mixtures_of_many_keys_are_interior(count):
    K = planted(count, seed=count)
    found = hull.decide(K, len(K) - 1)
    assert (found.inside, found.proof, len(found.support)) == (True, "enclosure", 98)
    # the enclosure holds the rational solution
    exact = rigor.exact_combination(K[found.support], K[-1], found.weights, np.arange(98))
    off = [abs(float(x - flint.fmpq(*float(m).as_integer_ratio()))) for x, m in zip(exact, found.weights, strict=True)]
    assert (np.array(off) <= found.radii).all()


def test_exact_rationals_decide_what_no_float_weights_can_show():
    # the middle of two float64 keys, rounded: off the segment by one part in 10^16
    rng = np.random.default_rng(13)
    K = rng.standard_normal((4, 3))
    K[3] = (K[0] + K[1]) / 2
    found = hull.decide(K, 3)
    assert found.inside == in_hull_by_enumeration(K, 3)
    assert holds_exactly(K, found)


def test_time_limit_is_could_not_find_out():
    K = np.random.default_rng(17).standard_normal((41, 19))
    K[-1] = K[:7].mean(axis=0)
    with pytest.raises(CouldNotFindOut, match=r"key 40 .* could not be decided in time"):
        hull.decide(K, 40, seconds=0)


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"key 9 does not exist: 2 keys are counted from 0 to 1"):
        hull.decide([[1.0], [2.0]], 9)
    with pytest.raises(InputError, match=r"n x d matrix with n, d >= 1, but have shape \(3,\)"):
        hull.decide([1.0, 2.0, 3.0], 0)
    with pytest.raises(InputError, match="NaN or infinity"):
        hull.decide([[1.0], [np.nan], [2.0]], 0)

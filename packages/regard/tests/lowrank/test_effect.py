"""The softmax bounds: valid on everything hypothesis finds, and attained."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from regard import lowrank
from regard.errors import InputError

scores = arrays(np.float64, 5, elements=st.floats(-6, 6))
nudges = arrays(np.float64, 5, elements=st.floats(-1, 1))
sizes = st.floats(1e-6, 5)


def softmax(s):
    raised = np.exp(s - s.max())
    return raised / raised.sum()


def variation(p, q):
    return np.abs(p - q).sum() / 2


@pytest.mark.slow
@given(scores, nudges, sizes)
@settings(max_examples=300, deadline=None)
def test_both_bounds_hold(s, d, e):
    before, after = softmax(s), softmax(s + e * d)
    factor, most = lowrank.weight_change(e)
    assert np.all(after <= before * factor * (1 + 1e-12))
    assert np.all(after >= before / factor * (1 - 1e-12))
    assert variation(before, after) <= most + 1e-14
    assert variation(before, after) <= lowrank.variation_bound(e, before.max()) + 1e-13


@pytest.mark.slow
@given(scores, st.lists(st.booleans(), min_size=5, max_size=5), sizes)
@settings(max_examples=300, deadline=None)
def test_the_worst_nudges_stay_inside_the_sharper_bound(s, signs, e):
    """The extreme perturbations, +e on a set and -e off it, are where the bound could break."""
    before, after = softmax(s), softmax(s + e * np.where(signs, 1.0, -1.0))
    assert variation(before, after) <= lowrank.variation_bound(e, before.max()) + 1e-13


@pytest.mark.parametrize("e", [1e-3, 0.1, 1.0, 3.0])
def test_tanh_is_attained(e):
    before, after = softmax(np.array([-e / 2, e / 2])), softmax(np.array([e / 2, -e / 2]))
    assert variation(before, after) == pytest.approx(lowrank.weight_change(e)[1], rel=1e-13)
    # a zero-centred start, s = (0, 0) -> (e, -e), gives only tanh(e)/2, which is less
    assert variation(softmax(np.zeros(2)), softmax(np.array([e, -e]))) == pytest.approx(math.tanh(e) / 2)
    assert math.tanh(e) / 2 < math.tanh(e / 2)


@pytest.mark.parametrize("e", [1e-3, 0.1, 1.0])
def test_the_factor_is_approached(e):
    s = np.array([-40.0, 0.0])
    ratio = softmax(s + np.array([e, -e]))[0] / softmax(s)[0]
    assert ratio == pytest.approx(lowrank.weight_change(e)[0], rel=1e-12)


@pytest.mark.parametrize("e", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.999])
def test_the_sharper_bound_is_attained_by_two_keys(e, p):
    """With two keys the sets weigh p and 1 - p; where the free optimum is out of reach one of them attains it."""
    s = np.array([math.log(p / (1 - p)), 0.0])
    found = max(variation(softmax(s), softmax(s + sign * np.array([e, -e]))) for sign in (1, -1))
    bound = float(lowrank.variation_bound(e, p))
    assert found <= bound + 1e-15
    if (1 - p) * (1 + math.exp(e)) < 1:
        assert found == pytest.approx(bound, rel=1e-12)


@given(st.floats(0, 50), st.floats(0.01, 1))
@settings(max_examples=200, deadline=None)
def test_less_dominant_rows_have_larger_bounds(e, p):
    assert lowrank.variation_bound(e, p) <= lowrank.variation_bound(e, p * 0.9) + 1e-15
    assert 0 <= lowrank.variation_bound(e, p) <= 1


@pytest.mark.parametrize("product", [False, True])
def test_effect_on_inputs_is_bounded_row_by_row(product):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((13, 7)) / 3, rng.standard_normal((11, 7)) / 3
    known = lowrank.product_spectrum(a, b) if product else lowrank.spectrum(a @ b.T)
    x, y = rng.standard_normal((5, 13)), rng.standard_normal((17, 11)) + 3.0
    for rank in range(1, 8):
        found = lowrank.softmax_effect(known, rank=rank, inputs=x, key_inputs=y, scale=0.3)
        assert np.all(found.score_error <= found.score_bound)
        assert np.all(found.variation <= found.variation_bound + 1e-13)
        cut = known.truncate(rank).matrix()
        true, near = 0.3 * x @ (a @ b.T) @ y.T, 0.3 * x @ cut @ y.T
        for row in range(5):
            want = variation(softmax(true[row]), softmax(near[row]))
            assert found.variation[row] == pytest.approx(want, abs=1e-13)
    assert "Proved" in str(found)


def test_the_score_bound_is_attained():
    """An input along the dropped direction, two keys at +- it: Cauchy-Schwarz is an equality, and so is the spread."""
    m = np.diag([3.0, 0.5])
    found = lowrank.softmax_effect(
        lowrank.spectrum(m), rank=1, inputs=[[0.0, 2.0]], key_inputs=[[0.0, 1.5], [0.0, -1.5]]
    )
    assert found.score_bound[0] == pytest.approx(0.5 * 2 * 1.5, rel=1e-6)
    assert found.score_error[0] == pytest.approx(found.score_bound[0], rel=1e-6)


def test_a_common_shift_of_the_keys_does_not_loosen_the_bound():
    m, x = np.diag([3.0, 0.5]), np.array([[1.0, 1.0]])
    y = np.array([[1.0, 0.5], [0.5, -0.5], [0.2, 0.1]])
    near, far = (
        lowrank.softmax_effect(lowrank.spectrum(m), rank=1, inputs=x, key_inputs=y + shift) for shift in (0.0, 100.0)
    )
    assert far.score_bound[0] <= near.score_bound[0] * 1.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lowrank.weight_change(-1), "error must be a number, 0 or more"),
        (lambda: lowrank.weight_change(math.nan), "error must be a number, 0 or more"),
        (
            lambda: lowrank.softmax_effect(lowrank.spectrum(np.eye(3)), rank=1, inputs=np.eye(2)),
            "need rows of 3 and 3 numbers",
        ),
        (
            lambda: lowrank.softmax_effect(lowrank.spectrum(np.eye(3)), rank=1, inputs=np.eye(3), scale=math.inf),
            "scale must be a finite number",
        ),
        (
            lambda: lowrank.softmax_effect(lowrank.spectrum(np.eye(3)), rank=1, inputs=np.eye(3), scale=2**53 + 1),
            "integers beyond 2.53 that float64 rounds",
        ),
    ],
)
def test_bad_input_is_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_negative_scale_bounds_as_much_as_a_positive_one():
    rng = np.random.default_rng(5)
    matrix, x, y = rng.standard_normal((4, 3)), rng.standard_normal((5, 4)), rng.standard_normal((7, 3))
    spectrum = lowrank.spectrum(matrix)
    up, down = (lowrank.softmax_effect(spectrum, rank=2, inputs=x, key_inputs=y, scale=s) for s in (0.7, -0.7))
    assert np.array_equal(up.score_bound, down.score_bound)
    assert np.all(down.score_error <= down.score_bound)
    assert np.all(down.variation <= down.variation_bound)


def test_weights_of_scores_without_digits_are_not_relied_on():
    """Scores of 1e14 are off by more than 1: that one key seems to have all the weight shows nothing."""
    spectrum, x = lowrank.spectrum(np.diag([1.0, 0.0])), np.array([[1e7, 0.0]])
    keys = np.array([[1e7, 0.0], [0.0, 1.0]])
    first = lowrank.softmax_effect(spectrum, rank=1, inputs=x, key_inputs=keys)
    effect = lowrank.softmax_effect(
        spectrum, rank=1, inputs=x, key_inputs=keys, scale=0.5 / float(first.score_bound[0])
    )
    assert effect.score_bound[0] == pytest.approx(0.5, rel=1e-12)
    assert effect.variation_bound[0] == pytest.approx(math.tanh(0.25), rel=1e-6)

"""The law of a weight: every method against closed forms, grids and adaptive quadrature; intervals kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.signal import fftconvolve
from scipy.special import expit, ndtr

from regard.errors import InputError
from regard.noise import (
    Magnitude,
    NoiseModel,
    Spread,
    gaussian_setting,
    one_head,
    quantile,
    score_laws,
    study,
    two_heads,
    weight_law,
)
from regard.noise.law import NarrowLaw, PivotLaw, pivot_law
from regard.noise.law_transform import _convolve_columns, transform_law
from regard.noise.scores import KeyLaw, logit, merge_equal_laws

SHARES = (0.02, 0.3, 0.5, 0.97)


def law(mean: float, sd: float) -> KeyLaw:
    return KeyLaw(np.ones(1), np.array([[mean]]), np.array([[sd**2]]))


def above_by_grid(laws: list[tuple[float, float]], share: float) -> float:
    """P(alpha_0 > share) among three Gaussian scores: s_0 in closed form, the others on a grid."""
    (m, sd), *rest = laws
    x = np.linspace(-8.5, 8.5, 801)
    w = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    s = [mean + scale * x for mean, scale in rest]
    return float(w @ ndtr((m - logit(share) - np.logaddexp(s[0][:, None], s[1])) / sd) @ w)


def test_two_gaussian_scores_have_a_logit_normal_weight() -> None:
    model, q = gaussian_setting(2, iso=0.02), np.array([4.0, 3.0])
    sd = np.sqrt(0.5 * 16 + 2 * 0.02 * 25)
    found = weight_law(score_laws(model, q), 0)
    for share in SHARES:
        z = (logit(share) - 1.0) / sd
        value, rate = found.above(share), found.density(share)
        assert abs(value.value - ndtr(-z)) <= value.accuracy < 1e-8
        truth = np.exp(-z * z / 2) / np.sqrt(2 * np.pi) / sd / (share * (1 - share))
        assert abs(rate.value - truth) <= rate.accuracy < 1e-6
    middle = quantile(found, 0.25)
    assert abs(middle.value - expit(1.0 - 0.6744897501960817 * sd)) <= middle.accuracy < 1e-8


@pytest.mark.parametrize(
    "laws",
    [
        [(0.4, 1.3), (0.1, 0.7), (-1.0, 3.0)],
        [(2.0, 0.4), (1.0, 2.0), (0.0, 0.3)],
        [(0.0, 9.0), (3.0, 0.05), (2.5, 1.0)],
        [(0.0, 0.15), (0.3, 1.5), (-0.2, 0.2)],
    ],
)
def test_the_transform_against_a_grid(laws: list[tuple[float, float]]) -> None:
    own, *others = (law(*each) for each in laws)
    found = transform_law(own, merge_equal_laws(others))
    for share in SHARES:
        value = found.above(share)
        assert abs(value.value - above_by_grid(laws, share)) <= value.accuracy < 1e-6


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("iso", [1e-16, 1e-12, 1e-8])
def test_tiny_noise_far_from_and_at_the_weight(iso: float) -> None:
    law = weight_law(score_laws(NoiseModel(means=np.eye(2), isotropic=iso), [5.0, 5.0]), 0)
    sd = np.sqrt(2 * iso * 50)  # of the logit, which is Gaussian
    assert law.method == "characteristic function"
    assert (law.above(0.6).value, law.above(0.4).value) == (0.0, 1.0)
    assert max(law.above(0.6).accuracy, law.above(0.4).accuracy) < 1e-11
    assert law.above(float(expit(sd))).value == pytest.approx(ndtr(-1), abs=1e-6)
    found = quantile(law, 0.9)
    assert abs(found.value - expit(1.2815515655446004 * sd)) <= found.accuracy < 1e-9


@pytest.mark.slow
def test_nearly_fixed_scores_by_the_characteristic_function() -> None:
    laws = [(0.2, 0.09), (0.0, 0.3), (-0.5, 0.6)]
    own, *others = (law(*each) for each in laws)
    found = NarrowLaw(own, merge_equal_laws(others))
    for share in (0.2, 0.35):
        value, rate = found.above(share), found.density(share)
        assert abs(value.value - above_by_grid(laws, share)) <= value.accuracy < 1e-6
        h = 1e-3
        slope = (above_by_grid(laws, share - h) - above_by_grid(laws, share + h)) / (2 * h)
        assert rate.value == pytest.approx(slope, rel=1e-3)
        assert rate.accuracy < 1e-6


@pytest.mark.slow
def test_two_methods_for_a_hundred_keys_agree() -> None:
    own, others = (
        law(1.0, 0.3),
        merge_equal_laws([law(0.0, 0.5) for _ in range(60)] + [law(0.3, 0.1) for _ in range(39)]),
    )
    a, b = transform_law(own, others), NarrowLaw(own, others)
    for share in (0.01, 0.02, 0.03):
        x, y = a.above(share), b.above(share)
        assert 0.001 < x.value < 0.999
        assert abs(x.value - y.value) <= x.accuracy + y.accuracy < 1e-6


def test_the_pivot_keeps_its_interval() -> None:
    laws = [(1.0, 0.9), (0.0, 2.0), (0.5, 0.4)]
    scores = merge_equal_laws([law(*each) for each in laws])
    truth, inside = above_by_grid(laws, 0.5), 0
    for seed in range(30):
        found = pivot_law(scores, 0, 6, 8, seed)
        assert isinstance(found, PivotLaw)
        value = found.above(0.5)
        inside += abs(value.value - truth) <= value.accuracy
    assert inside >= 24
    rate = pivot_law(scores, 0, 10, 8, 1).density(0.5)
    slope = (above_by_grid(laws, 0.499) - above_by_grid(laws, 0.501)) / 0.002
    assert rate.value == pytest.approx(slope, abs=1e-4 + rate.accuracy)


def test_one_random_key_is_a_closed_form() -> None:
    scores = score_laws(gaussian_setting(11, iso=0.0), one_head(11, 3.0))
    rest = np.log(np.exp(3.0) + 9)
    first, second = weight_law(scores, 0), weight_law(scores, 1)
    assert first.method == second.method == "closed form"
    sd = 3.0 * np.sqrt(0.5)
    assert first.above(0.7).value == pytest.approx(ndtr((3.0 - logit(0.7) - rest) / sd), abs=1e-12)
    room = np.log(np.exp(3.0 - logit(0.4)) - 9)  # alpha_1 > 0.4 says e^{s_0} < e^3 0.6/0.4 - 9
    assert second.above(0.4).value == pytest.approx(ndtr((room - 3.0) / sd), abs=1e-12)
    h = 1e-6
    slope = (second.above(0.4 - h).value - second.above(0.4 + h).value) / (2 * h)
    assert second.density(0.4).value == pytest.approx(slope, rel=1e-6)
    assert second.above(0.9).value == 0.0  # e^3 / (e^3 + 9) is the most key 1 can have


def test_correlated_keys_have_a_law_too() -> None:
    rho, q = 0.4, np.array([3.0, 2.0])
    joint = np.kron(np.array([[1.0, rho], [rho, 1.0]]), np.eye(2)) * 0.3
    found = weight_law(score_laws(NoiseModel(means=np.eye(2), joint=joint), q), 0, points=2**10)
    sd = np.sqrt(2 * (1 - rho) * 0.3 * 13)
    assert found.method.startswith("qmc")
    for share in (0.3, 0.8):
        value = found.above(share)
        assert abs(value.value - ndtr((1.0 - logit(share)) / sd)) < 3 * value.accuracy < 3e-3


def test_two_heads_against_adaptive_quadrature() -> None:
    model, Q = gaussian_setting(2, iso=0.1), two_heads(2, 3.0)
    found = weight_law(score_laws(model, Q), 0)
    assert found.method == "two heads"
    (m1, s1), (m2, s2) = (3.0, 3 * np.sqrt(0.7)), (-3.0, 3 * np.sqrt(0.2))

    def second_above(b: float) -> float:
        return float(b <= 0) if not 0 < b < 1 else float(ndtr((m2 - logit(b)) / s2))

    for share in (0.2, 0.5, 0.55, 0.7):

        def integrand(z: float, share: float = share) -> float:
            return np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * second_above(2 * share - float(expit(m1 + s1 * z)))

        edges = [(logit(edge) - m1) / s1 for edge in (2 * share, 2 * share - 1) if 0 < edge < 1]
        truth = quad(integrand, -9, 9, points=edges or None, limit=400, epsabs=1e-11)[0]
        value = found.above(share)
        assert abs(value.value - truth) <= value.accuracy + 1e-9
        assert value.accuracy < 1e-6
        assert found.sketch(np.array([share])) == pytest.approx(truth, abs=1e-3)  # type: ignore[attr-defined]
        rate, h = found.density(share), 1e-4
        slope = (found.above(share - h).value - found.above(share + h).value) / (2 * h)
        assert rate.value == pytest.approx(slope, rel=2e-3, abs=1e-6)
        assert found.value_above(share) == value.value  # type: ignore[attr-defined]


def test_two_heads_of_long_queries_at_one_half() -> None:
    """A + B > 1 says that the two logits add up to more than 0: their sum is Gaussian around 0, so the chance is 1/2.

    Their standard deviations are 73 and 60, so much of the law lies at logits far beyond those of float64's weights.
    """
    found = weight_law(score_laws(gaussian_setting(2, spread=0.5, iso=0.5), two_heads(2, 60.0)), 0)
    assert found.method == "two heads"
    value = found.above(0.5)
    assert abs(value.value - 0.5) <= value.accuracy < 1e-6
    shares = np.array([0.05, 0.5, 0.95])
    exact = [found.above(share).value for share in shares.tolist()]
    assert found.sketch(shares) == pytest.approx(exact, abs=1e-4)  # type: ignore[attr-defined]


def test_heads_that_share_noise_are_counted_with_an_interval() -> None:
    model = gaussian_setting(3, iso=0.3)
    Q = np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 1.0, 1.0]])
    found = weight_law(score_laws(model, Q), 0, points=2**9)
    assert found.method == "qmc"
    generator = np.random.default_rng(0)
    keys = generator.standard_normal((100_000, 3, 3)) * np.sqrt(0.3) + np.eye(3)
    keys[:, 0, 0] += generator.standard_normal(100_000) * np.sqrt(0.5)
    s = np.einsum("rnd,hd->rhn", keys, Q)
    w = (np.exp(s) / np.exp(s).sum(axis=2, keepdims=True))[:, :, 0].mean(axis=1)
    value = found.above(0.4)
    assert abs(value.value - (w > 0.4).mean()) < 2 * value.accuracy + 4 * 0.5 / np.sqrt(1e5)
    assert found.density(0.4).value == pytest.approx(((w > 0.39) & (w <= 0.41)).mean() / 0.02, abs=0.15)
    assert quantile(found, 0.5).value == pytest.approx(float(np.median(w)), abs=0.01)


def test_rare_events_are_not_called_impossible() -> None:
    found = weight_law(score_laws(gaussian_setting(3, iso=0.3), np.eye(3)[[0, 0, 1]] * 4.0), 2, points=2**9)
    value = found.above(0.99)
    assert value.accuracy >= 3 / (16 * 2**9)


def test_finitely_many_outcomes() -> None:
    model = NoiseModel(means=np.eye(2), magnitudes=[Magnitude(key=0)])
    found = weight_law(score_laws(model, np.log(9) * np.ones(2)), 0)
    assert [found.above(share).value for share in (0.2, 0.5, 0.8)] == [1.0, 0.5, 0.0]
    assert [quantile(found, level).value for level in (0.4, 0.6)] == pytest.approx([0.25, 0.75])
    with pytest.raises(InputError, match="finitely many values and has no density"):
        found.density(0.5)


def test_magnitudes_and_gaussian_noise_together() -> None:
    # alpha_0 among two keys: a half-half mixture of two logit-normal laws
    model = NoiseModel(means=np.eye(2), isotropic=0.1, magnitudes=[Magnitude(key=0)])
    found = weight_law(score_laws(model, [3.0, 1.0]), 0)
    sd = np.sqrt(2 * 0.1 * 10)
    for share in SHARES:
        truth = np.mean([ndtr((c * 3.0 - 1.0 - logit(share)) / sd) for c in (0.5, 1.5)])
        assert found.above(share).value == pytest.approx(truth, abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(st.floats(0.3, 25.0), st.floats(0.0, 0.5), st.integers(2, 13))
def test_shares_fall_and_quantiles_return(scale: float, iso: float, n: int) -> None:
    model = NoiseModel(means=np.eye(n), isotropic=iso, spreads=[Spread(key=0, variance=0.5)])
    found = weight_law(score_laws(model, one_head(n, scale)), 0, points=2**6)
    values = [found.above(share).value for share in np.linspace(0.05, 0.95, 9)]
    assert (np.diff(values) <= 1e-9).all()
    cut = quantile(found, 0.6)
    assert found.above(cut.value).value == pytest.approx(0.4, abs=1e-6)


def test_shares_of_a_study_add_up_to_the_shares_of_the_mean() -> None:
    # E w_0 = int P(w_0 > t) dt ties the law to the moments, which come another way
    model = gaussian_setting(5, iso=0.05)
    for Q in (one_head(5, 2.0), two_heads(5, 2.0)):
        found = weight_law(score_laws(model, Q), 0)
        x, w = np.polynomial.legendre.leggauss(60)
        mean = sum(b / 2 * found.above(float((a + 1) / 2)).value for a, b in zip(x, w, strict=True))
        assert mean == pytest.approx(study(model, Q).weight_mean[0], abs=2e-4)


def test_a_key_out_of_range_is_named() -> None:
    scores = score_laws(gaussian_setting(3), one_head(3, 2.0))
    with pytest.raises(InputError, match="key must be from 0 to 2, not 3"):
        weight_law(scores, 3)
    with pytest.raises(InputError, match=r"quantile levels must lie between 0 and 1, not 1"):
        quantile(weight_law(scores, 0), 1.0)
    with pytest.raises(InputError, match="always 1: add a second key"):
        weight_law(score_laws(NoiseModel(means=[[1.0]], isotropic=1.0), [2.0]), 0)


@pytest.mark.parametrize(("long", "short"), [(1, 1), (5, 5), (83, 7), (501, 82)])
def test_smoothing_is_scipys_convolution(long: int, short: int) -> None:
    rng = np.random.default_rng(long)
    rows, weights = rng.random((long, 3)), rng.random(short)
    expected = fftconvolve(rows, weights[:, None], mode="valid", axes=0)
    np.testing.assert_allclose(_convolve_columns(rows, weights), expected, rtol=0, atol=1e-14 * short)

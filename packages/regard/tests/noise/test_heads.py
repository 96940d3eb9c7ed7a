"""One head or two, the coursework's statements as theorems, and optimised queries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.noise import (
    Magnitude,
    NoiseModel,
    Spread,
    compare,
    eps_for_first_head,
    gaussian_setting,
    negative_score,
    one_head,
    optimise,
    score_laws,
    shape_of_noise,
    small_noise_bound,
    steady_limit,
    study,
    swing_is_bimodal,
    swing_limit,
    two_heads,
    two_heads_bound,
    two_point_first_head,
    two_point_one_head,
    two_point_setting,
    weight_law,
    weight_moments,
)
from regard.noise.law import weight_laws
from regard.noise.optimised_queries import Surrogate
from regard.noise.random_keys import expected_error


def error(model: NoiseModel, queries: np.ndarray) -> float:
    return sum(expected_error(weight_moments(score_laws(model, queries)), np.eye(model.keys), (0, 1)))


def test_the_reference_figures() -> None:
    model = gaussian_setting(10)
    scales = np.arange(1.9, 2.15, 0.05)
    assert min(error(model, one_head(10, T)) for T in scales) == pytest.approx(0.156, abs=5e-4)
    assert error(model, one_head(10, 20.0)) == pytest.approx(0.4461087037, abs=1e-9)
    assert error(model, two_heads(10, 20.0)) == pytest.approx(0.0404520307, abs=1e-9)
    assert negative_score(0.0, 0.5) == pytest.approx(0.0786, abs=1e-4)
    assert negative_score(0.01, 0.5) == pytest.approx(0.0807, abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 40), st.floats(0.0, 0.1), st.floats(0.5, 40.0))
def test_small_noise_bounds_hold(n: int, iso: float, scale: float) -> None:
    model = gaussian_setting(n, spread=0.0, iso=iso)
    assert error(model, one_head(n, scale)) <= small_noise_bound(n, iso=iso, scale=scale) + 1e-12
    assert error(model, two_heads(n, scale)) <= two_heads_bound(n, iso=iso, scale=scale) + 1e-12


def test_small_noise_bounds_are_tight() -> None:
    # two keys, vanishing noise: exactly a T^2 / 2
    assert error(gaussian_setting(2, spread=0.0, iso=1e-7), one_head(2, 20.0)) == pytest.approx(
        small_noise_bound(2, iso=1e-7, scale=20.0), rel=1e-4
    )
    # a T^2 fixed, T growing: the error does not vanish, so a << 1/T^2 is needed
    kept = [error(gaussian_setting(5, spread=0.0, iso=1 / T**2), one_head(5, T)) for T in (20.0, 40.0, 80.0)]
    assert min(kept) > 0.17
    # two heads need only a small a: at a T^2 = 16 one head is lost and two are not
    model = gaussian_setting(5, spread=0.0, iso=0.01)
    assert error(model, one_head(5, 40.0)) > 0.3
    assert error(model, two_heads(5, 40.0)) < 1e-9


def test_one_head_swings_between_the_two_values() -> None:
    for T, iso in ((50.0, 1e-5), (400.0, 1e-8)):
        result = study(gaussian_setting(3, iso=iso), one_head(3, T), share=0.99)
        assert result.share_probability[:2] == pytest.approx([0.5, 0.5], abs=4 / T)
    assert result.error == pytest.approx(swing_limit(), abs=0.005)
    assert result.bias_squared < 1e-6


@pytest.mark.parametrize("T", [1.0, 1.9, 2.1, 3.0, 6.0])
def test_the_swing_has_two_peaks_from_scale_two_on(T: float) -> None:
    law = weight_law(score_laws(gaussian_setting(2, iso=0.0), one_head(2, T)), 0)
    x = np.linspace(0.02, 0.98, 193)
    f = np.array([law.density(float(share)).value for share in x])
    peaks = int(np.sum((f[1:-1] > f[:-2]) & (f[1:-1] > f[2:])) + (f[0] > f[1]) + (f[-1] > f[-2]))
    assert peaks == (2 if swing_is_bimodal(0.0, 0.5, T) else 1)


def test_two_heads_lose_what_the_negative_draws_cost() -> None:
    # the order of the limits matters: noise that separates the other scores, or none
    resolved = error(gaussian_setting(5, iso=1e-4), two_heads(5, 600.0))
    assert resolved == pytest.approx(steady_limit(5), abs=3e-3)
    unresolved = error(gaussian_setting(5, iso=0.0), two_heads(5, 600.0))
    assert unresolved == pytest.approx(steady_limit(5, resolved=False), abs=5e-4)


@pytest.mark.slow
def test_comparison_splits_the_error_by_the_sign_of_the_score() -> None:
    result = compare(keys=5, spread=0.5, iso=0.05, scale=6.0)
    generator = np.random.default_rng(0)
    keys = generator.standard_normal((200_000, 5, 5)) * np.sqrt(0.05) + np.eye(5)
    keys[:, 0, 0] += generator.standard_normal(200_000) * np.sqrt(0.5)
    goal = np.array([0.5, 0.5, 0, 0, 0])
    negative = keys[:, 0, 0] < 0
    assert negative.mean() == pytest.approx(result.negative_probability, abs=0.003)
    for Q, below, above in (
        (one_head(5, 6.0), result.one_given_negative, result.one_given_positive),
        (two_heads(5, 6.0), result.two_given_negative, result.two_given_positive),
    ):
        s = np.einsum("rnd,hd->rhn", keys, Q)
        w = (np.exp(s) / np.exp(s).sum(axis=2, keepdims=True)).mean(axis=1)
        off = np.sum((w - goal) ** 2, axis=1)
        assert off[negative].mean() == pytest.approx(below, abs=0.005)
        assert off[~negative].mean() == pytest.approx(above, abs=0.005)


@pytest.mark.slow
def test_the_conditional_curves_average_to_the_whole() -> None:
    result = compare(keys=3, spread=0.5, iso=0.02, scale=4.0)
    x, f = result.lengths, np.exp(-((result.lengths - 1) ** 2) / (2 * 0.52)) / np.sqrt(2 * np.pi * 0.52)
    assert np.trapezoid(f * result.two_error_given_length, x) == pytest.approx(result.two.error, abs=3e-3)
    assert np.trapezoid(f * result.one_weight_given_length, x) == pytest.approx(result.one.weight_mean[0], abs=5e-3)


def test_without_spread_nothing_is_negative() -> None:
    result = compare(keys=3, spread=0.0, iso=0.0, scale=4.0)
    assert result.negative_probability == 0.0
    assert result.one.variance == pytest.approx(0.0, abs=1e-14)
    assert "0.0000%" in str(result)


def test_the_cone_is_the_noise_along_the_mean() -> None:
    along, across = shape_of_noise(gaussian_setting(11, spread=0.5, iso=1e-4))
    assert along / across > 20
    along, across = shape_of_noise(gaussian_setting(11, spread=0.0, iso=1e-4))
    assert across / along == pytest.approx(np.sqrt(10))


def test_two_point_noise_in_closed_form_is_the_enumeration() -> None:
    n, eps = 7, 0.1
    T = np.log(n / eps)
    low, high = two_point_one_head(n, eps)
    result = study(two_point_setting(n), one_head(n, T))
    assert result.method == "enumeration"
    np.testing.assert_allclose(result.weight_mean, (low + high) / 2, atol=1e-14)
    assert low[0] / low[1] == pytest.approx((n / eps) ** -0.5)
    assert high[0] / high[1] == pytest.approx((n / eps) ** 0.5)
    heads = study(two_point_setting(n), two_heads(n, T)).head_weight_means
    assert heads[0, 0] == pytest.approx(np.mean(two_point_first_head(n, eps)))
    assert heads[1, 1] >= 1 / (1 + eps)


def test_head_one_is_not_nearly_all_on_key_one() -> None:
    # the claim fails at c = 1/2: a minority exactly when eps > n / (n-1)^2, first at n = 3
    for n in range(2, 30):
        for eps in (0.05, 0.3, 0.8, 0.99):
            assert (two_point_first_head(n, eps)[0] < 0.5) == (eps > n / (n - 1) ** 2)
    assert two_point_first_head(3, 0.8)[0] < 0.5
    for n in (2, 10, 1000):
        assert 1 - two_point_first_head(n, eps_for_first_head(n, 0.05))[0] == pytest.approx(0.05)
        assert two_point_first_head(n, eps_for_first_head(n, 0.05))[1] >= 0.95
    with pytest.raises(InputError, match="delta must lie between 0 and 1, not 1"):
        eps_for_first_head(3, 1.0)
    with pytest.raises(InputError, match="eps must be positive, not 0"):
        two_point_first_head(3, 0.0)


@pytest.mark.parametrize("kind", ["independent", "joint and magnitudes"])
def test_the_surrogate_has_the_gradient_it_says(kind: str) -> None:
    generator = np.random.default_rng(0)
    if kind == "independent":
        model = gaussian_setting(5)
    else:
        A = generator.normal(size=(6, 6))
        model = NoiseModel(means=generator.normal(size=(3, 2)), joint=A @ A.T / 30, magnitudes=[Magnitude(key=1)])
    V = generator.normal(size=(model.keys, 4))
    surrogate = Surrogate(model, 2, V, (0, 2), 64, generator)
    Q = generator.normal(size=(2, model.dimension)) * 2
    _, slope = surrogate(Q)
    for place in np.ndindex(Q.shape):
        step = np.zeros_like(Q)
        step[place] = 1e-5
        numeric = (surrogate(Q + step)[0] - surrogate(Q - step)[0]) / 2e-5
        assert slope[place] == pytest.approx(numeric, abs=1e-7)


def test_the_surrogate_estimates_the_exact_error() -> None:
    model, Q = gaussian_setting(5), np.array([[3.0, 1, -1, -1, -1], [0.5, 4, 0, 0, -1]])
    surrogate = Surrogate(model, 2, np.eye(5), (0, 1), 2**12, np.random.default_rng(1))
    assert surrogate(Q)[0] == pytest.approx(error(model, Q), abs=2e-3)


@pytest.mark.slow
def test_optimised_queries_beat_the_designed_ones_within_the_budget() -> None:
    model = gaussian_setting(10)
    one = optimise(model, heads=1, max_norm=20.0, starts=1, points=2**10)
    assert one.designed_error == pytest.approx(0.1556, abs=1e-4)
    assert one.error == pytest.approx(0.0891, abs=3e-4)
    two = optimise(model, heads=2, max_norm=20.0, starts=1, points=2**9)
    assert two.error < 0.0085 < two.designed_error
    for found in (one, two):
        assert (found.norms <= 20.0 * (1 + 1e-12)).all()
        assert found.error <= found.designed_error
        assert abs(found.error - error(model, found.queries)) <= 2 * found.error_accuracy


@pytest.mark.slow
def test_optimise_works_for_correlated_and_for_fixed_keys() -> None:
    joint = np.kron(np.array([[1.0, 0.5], [0.5, 1.0]]), np.eye(2)) * 0.2
    found = optimise(NoiseModel(means=np.eye(2), joint=joint), heads=1, max_norm=3.0, starts=0, points=64)
    assert found.method == "qmc"
    assert found.error <= found.designed_error
    still = optimise(NoiseModel(means=np.eye(3)), heads=2, max_norm=3.0, starts=0, points=64)
    assert still.method == "enumeration"
    assert still.error <= still.designed_error


THREE_KEYS = [[1.0, 0.2], [0.3, 1.0], [-0.4, 0.1]]


def test_a_long_double_integral_waits_until_an_accuracy_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = NoiseModel(
        means=[[1.0, 0.2], [0.3, 1.0], [-0.4, 0.1]], isotropic=0.05, spreads=[Spread(key=0, variance=0.5)]
    )
    queries = [[3.0, 1.0], [1.0, 2.0]]
    exact = study(model, queries)
    assert exact.method == "integral"
    monkeypatch.setattr("regard.noise.random_keys.SOON", 1)
    first = study(model, queries, points=2**7)
    assert first.method == "qmc"
    assert abs(first.error - exact.error) <= 3 * first.error_accuracy
    more = study(model, queries, points=2**7, accuracy=1e-3)
    assert more.method == "integral"
    assert more.error == exact.error
    assert more.share_accuracy.max() < first.share_accuracy.max()
    with pytest.raises(InputError, match="accuracy must lie between 0 and 1, not 2"):
        study(model, queries, accuracy=2.0)


def test_an_accuracy_asks_for_more_sobol_points() -> None:
    joint = 0.1 * (np.eye(6) + np.ones((6, 6)))
    scores = score_laws(NoiseModel(means=np.eye(3, 2), joint=joint), [[3.0, 1.0], [1.0, 2.0]])
    first = weight_moments(scores, points=2**6)
    more = weight_moments(scores, points=2**6, accuracy=first.accuracy / 3)
    assert more.accuracy <= first.accuracy / 3
    assert np.abs(more.mean - first.mean).max() <= 3 * first.accuracy


def test_laws_of_several_keys_are_those_of_each() -> None:
    model = NoiseModel(
        means=[[1.0, 0.2], [0.3, 1.0], [-0.4, 0.1]], isotropic=0.05, spreads=[Spread(key=0, variance=0.5)]
    )
    for queries in ([[3.0, 1.0], [1.0, 2.0]], [[3.0, 0.0], [0.0, 3.0]], [[3.0, 1.0]]):
        scores = score_laws(model, queries)
        for key, law in enumerate(weight_laws(scores, range(3), points=2**7)):
            assert law.above(0.4).value == weight_law(scores, key, points=2**7).above(0.4).value


def test_the_interval_of_the_error_is_of_the_error_itself() -> None:
    """The error is linear in the moments: its interval is far narrower than what all of them could add up to."""
    rng = np.random.default_rng(0)
    model = NoiseModel(means=rng.standard_normal((12, 3)), isotropic=0.1, spreads=[Spread(key=0, variance=0.5)])
    queries = 3 * rng.standard_normal((2, 3))
    exact = study(model, queries)
    assert exact.method == "integral"
    missed = 0
    for seed in range(12):
        found = study(model, queries, method="qmc", points=2**7, seed=seed)
        missed += abs(found.error - exact.error) > found.error_accuracy
        assert found.error_accuracy < 12 * found.accuracy  # all moments together could be off by 12 * 12 of it and more
    assert missed <= 3  # of 12 intervals of 95 %

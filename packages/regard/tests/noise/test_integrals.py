"""Moments of the weights: integrals against rigorous and direct oracles, enumeration against a loop, intervals kept."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import CouldNotFindOut, InputError
from regard.noise import Magnitude, NoiseModel, Spread, gaussian_setting, one_head, score_laws, study, weight_moments
from regard.noise.integrals import COARSE, FINE, cross_moments, head_moments, outer_bound


def sigmoid_moment(mean: float, sd: float, power: int) -> arb:
    """E sigmoid(mean + sd x)^power, x standard normal, as a ball that contains it."""
    ctx.prec = 120
    try:
        m, s, norm = acb(mean), acb(sd), 1 / (2 * acb.pi()).sqrt()

        def density(x: acb, analytic: bool) -> acb:
            return norm * (-x * x / 2).exp() / (1 + (-m - s * x).exp()) ** power

        return sum((acb.integral(density, a, a + 2) for a in range(-14, 14, 2)), acb(0)).real
    finally:
        ctx.prec = 53


def direct(laws: list[tuple[float, float]], count: int) -> tuple[np.ndarray, np.ndarray]:
    """E alpha and E alpha alpha^T for three Gaussian scores by a grid over the scores themselves."""
    x = np.linspace(-8.5, 8.5, count)
    w = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    s = np.meshgrid(*(m + sd * x for m, sd in laws), indexing="ij")
    e = np.exp(np.stack(s) - np.max(s, axis=0))
    alpha = e / e.sum(axis=0)
    weight = w[:, None, None] * w[:, None] * w
    return (alpha * weight).sum(axis=(1, 2, 3)), np.einsum("iabc,jabc,abc->ij", alpha, alpha, weight, optimize=True)


@pytest.mark.parametrize(("scale", "iso"), [(3.0, 0.3), (20.0, 0.01), (1.0, 0.001), (0.5, 2.0), (300.0, 0.4)])
def test_one_head_is_within_its_bound_of_a_rigorous_ball(scale: float, iso: float) -> None:
    model = gaussian_setting(2, iso=iso)
    q = np.array([scale, 0.8 * scale])
    got = head_moments(score_laws(model, q))
    variance = 0.5 * scale**2 + 2 * iso * float(q @ q)
    for value, power in ((got.mean[0], 1), (got.square[0], 2)):
        truth = sigmoid_moment(0.2 * scale, float(np.sqrt(variance)), power)
        assert truth.rad() < 1e-25
        assert abs(float(truth) - value) <= got.bound < 1e-12


def test_three_keys_against_a_grid_over_the_scores() -> None:
    laws = [(0.3, 1.1), (-0.7, 0.6), (0.1, 1.9)]
    model = NoiseModel(
        means=np.array([[m] for m, _ in laws]), covariances={k: [[sd**2]] for k, (_, sd) in enumerate(laws)}
    )
    mean, second = direct(laws, 121)
    got = weight_moments(score_laws(model, [1.0]))
    np.testing.assert_allclose(got.mean, mean, atol=1e-11)
    np.testing.assert_allclose(got.second, second, atol=1e-11)


def test_the_bounds_are_what_they_say() -> None:
    # a coarser rule must be worse than the fine one, and within its own, larger, bound
    scores = score_laws(gaussian_setting(5), one_head(5, 7.0))
    fine, coarse = head_moments(scores, rule=FINE), head_moments(scores, rule=COARSE)
    off = np.abs(fine.mean - coarse.mean).max()
    assert off <= coarse.bound
    assert fine.bound < 1e-12 < coarse.bound < 1e-6
    assert outer_bound(0.7) > 1e-4


@pytest.mark.parametrize("rho", [0.0, 0.6, -0.9, 1.0])
def test_cross_moments_of_two_keys(rho: float) -> None:
    C = np.array([[4.0, rho * 6.0], [rho * 6.0, 9.0]])
    model = NoiseModel(means=np.array([[0.5, -1.0], [0.0, 0.0]]), covariances={0: C})
    scores = score_laws(model, np.eye(2))
    pair, same, estimate = cross_moments(scores, 0, 1)
    # with one random key the weights are sigmoids of two correlated Gaussians
    x = np.linspace(-9, 9, 1201)
    w = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * (x[1] - x[0])
    s = 0.5 + 2 * x[:, None]
    t = -1.0 + 3 * (rho * x[:, None] + np.sqrt(1 - rho**2) * x)
    truth = w @ (1 / (1 + np.exp(-s)) / (1 + np.exp(-t))) @ w
    assert abs(same[0] - truth) <= estimate < 1e-6
    assert abs(pair[0, 1] - (w @ (1 / (1 + np.exp(-s)) / (1 + np.exp(t))) @ w)) <= estimate


@pytest.mark.slow
def test_equal_heads_are_one_head() -> None:
    model, q = gaussian_setting(7), one_head(7, 3.0)
    one, twice = study(model, q), study(model, np.repeat(q, 2, axis=0))
    assert one.error == pytest.approx(twice.error, abs=1e-12)
    almost = study(model, np.vstack([q, q * (1 + 1e-9)]))  # goes through the double integral
    assert almost.error == pytest.approx(one.error, abs=almost.error_accuracy)
    assert almost.error_accuracy < 5e-6


def test_cross_moments_against_sampling() -> None:
    model = gaussian_setting(5, iso=0.2)
    Q = np.array([[3.0, 1.0, 0, -1, 0], [1.0, 2.0, 0, 0, 1]])
    exact = weight_moments(score_laws(model, Q))
    sampled = weight_moments(score_laws(model, Q), method="sampling", draws=200_000, seed=7)
    assert exact.method == "integral"
    assert np.abs(exact.second - sampled.second).max() < 2.5 * sampled.accuracy
    assert np.abs(exact.mean - sampled.mean).max() < 2.5 * sampled.accuracy


def test_enumeration_is_the_loop_over_outcomes() -> None:
    model = NoiseModel(
        means=np.eye(3),
        magnitudes=[Magnitude(key=0), Magnitude(key=2, values=(0.2, 1.0, 2.0), probabilities=(0.5, 0.25, 0.25))],
    )
    Q = np.array([[2.0, 2.0, 1.0], [0.0, 1.0, 3.0]])
    mean, second = np.zeros(3), np.zeros((3, 3))
    for (a, p), (b, r) in product(((0.5, 0.5), (1.5, 0.5)), ((0.2, 0.5), (1.0, 0.25), (2.0, 0.25))):
        s = Q * np.array([a, 1.0, b])
        w = (np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)).mean(axis=0)
        mean, second = mean + p * r * w, second + p * r * np.outer(w, w)
    got = weight_moments(score_laws(model, Q))
    assert got.method == "enumeration"
    np.testing.assert_allclose(got.mean, mean, atol=1e-15)
    np.testing.assert_allclose(got.second, second, atol=1e-15)


def test_enumeration_and_integral_agree_on_one_head_and_on_two() -> None:
    model = NoiseModel(means=np.eye(4), magnitudes=[Magnitude(key=k) for k in range(4)])
    for Q in (np.full((1, 4), 3.0), np.array([[3.0, 1, 0, 0], [1, 4.0, 0, 1]])):
        scores = score_laws(model, Q)
        a, b = weight_moments(scores, method="enumeration"), weight_moments(scores, method="integral")
        np.testing.assert_allclose(a.second, b.second, atol=b.accuracy)
        np.testing.assert_allclose(a.mean, b.mean, atol=1e-13)


def test_two_to_the_twenty_outcomes_are_taken_and_more_are_refused() -> None:
    n = 17
    model = NoiseModel(means=np.eye(n), magnitudes=[Magnitude(key=k) for k in range(n)])
    got = weight_moments(score_laws(model, np.ones(n)))
    assert got.method == "enumeration"
    np.testing.assert_allclose(got.mean, 1 / n, atol=1e-14)
    more = NoiseModel(means=np.eye(23), magnitudes=[Magnitude(key=k) for k in range(23)])
    assert weight_moments(score_laws(more, np.ones(23))).method == "integral"
    with pytest.raises(InputError, match=r"at most 1,048,576 outcomes, but there are 8,388,608"):
        weight_moments(score_laws(more, np.ones(23)), method="enumeration")


def correlated(rho: float) -> NoiseModel:
    joint = np.kron(np.array([[1.0, rho], [rho, 1.0]]), np.eye(2)) * 0.3
    return NoiseModel(means=np.eye(2), joint=joint)


def test_correlated_keys_stay_in_their_interval_as_often_as_stated() -> None:
    # the logit of alpha_0 is N(q.mu_0 - q.mu_1, 2 (1 - rho) 0.3 |q|^2)
    q, rho = np.array([3.0, 2.0]), 0.4
    truth = float(sigmoid_moment(1.0, float(np.sqrt(2 * (1 - rho) * 0.3 * 13.0)), 1))
    scores = score_laws(correlated(rho), q)
    assert scores.joint is not None
    inside = 0
    for seed in range(40):
        got = weight_moments(scores, points=2**6, scrambles=8, seed=seed)
        assert got.method == "qmc"
        inside += abs(got.mean[0] - truth) <= got.accuracy
    assert inside >= 33  # 95 % of 40 is 38; below 33 has probability < 1e-3


def test_a_joint_covariance_without_correlation_is_independence() -> None:
    model = NoiseModel(means=np.eye(2), joint=0.3 * np.eye(4))
    plain = NoiseModel(means=np.eye(2), isotropic=0.3)
    Q = np.array([[3.0, 1.0]])
    a, b = weight_moments(score_laws(model, Q)), weight_moments(score_laws(plain, Q))
    assert a.method == b.method == "integral"
    np.testing.assert_allclose(a.mean, b.mean, atol=1e-14)


def test_fully_correlated_keys_are_no_noise_at_all() -> None:
    # every key moves by the same vector: scores shift together, the weights do not move
    model = NoiseModel(means=np.eye(3), joint=np.kron(np.ones((3, 3)), np.eye(3)) * 0.7)
    got = study(model, [2.0, 1.0, 0.0], points=2**7, scrambles=4)
    e = np.exp([2.0, 1.0, 0.0])
    np.testing.assert_allclose(got.weight_mean, e / e.sum(), atol=1e-12)
    assert got.variance < 1e-14


def test_sampling_is_seeded_and_chunked_with_progress() -> None:
    scores = score_laws(gaussian_setting(101), one_head(101, 4.0))
    seen: list[tuple[int, int]] = []
    first = weight_moments(
        scores, method="sampling", draws=1000, seed=5, progress=lambda done, all: seen.append((done, all))
    )
    again = weight_moments(scores, method="sampling", draws=1000, seed=np.random.default_rng(5))
    np.testing.assert_array_equal(first.second, again.second)
    assert len(seen) > 1
    assert seen[-1] == (1000, 1000)
    other = weight_moments(scores, method="sampling", draws=1000, seed=6)
    assert (first.mean != other.mean).any()


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 5),
    st.floats(0.0, 30.0),
    st.floats(0.0, 3.0),
    st.lists(st.floats(-4, 4), min_size=5, max_size=5),
    st.integers(0, 10**6),
)
def test_weights_sum_to_one_in_mean_and_second_moment(
    n: int, spread: float, iso: float, query: list[float], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    model = NoiseModel(means=generator.normal(size=(n, 5)), isotropic=iso, spreads=[Spread(key=n - 1, variance=spread)])
    got = weight_moments(score_laws(model, query), method="integral")
    assert got.mean.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(got.second.sum(axis=0), got.mean, atol=1e-12)
    assert np.linalg.eigvalsh(got.covariance)[0] > -1e-12


def test_the_order_of_keys_does_not_matter() -> None:
    generator = np.random.default_rng(3)
    means, a = generator.normal(size=(7, 3)), generator.uniform(0, 1, 7)
    order, q = generator.permutation(7), generator.normal(size=3)
    plain = weight_moments(score_laws(NoiseModel(means=means, isotropic=a), q))
    moved = weight_moments(score_laws(NoiseModel(means=means[order], isotropic=a[order]), q))
    np.testing.assert_allclose(plain.second[np.ix_(order, order)], moved.second, atol=1e-14)


def test_scores_far_beyond_the_grid_are_said_to_be_so() -> None:
    scores = score_laws(gaussian_setting(3), one_head(3, 1e6))
    with pytest.raises(CouldNotFindOut, match=r"lower the scale of the queries"):
        weight_moments(scores, method="integral")
    assert weight_moments(scores, points=64, scrambles=4).method == "qmc"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "method must be one of auto, integral, enumeration, qmc, sampling, not 'guess'"),
        ({"method": "enumeration"}, "at most 1,048,576 outcomes, but there are infinitely many"),
        ({"method": "qmc", "points": 100}, "points must be a power of two, not 100; take 128"),
        ({"method": "qmc", "scrambles": 2}, "scrambles must be at least 4 for an interval, not 2"),
        ({"method": "sampling", "draws": 7}, "draws must be at least 100 for an interval, not 7"),
        ({"method": "sampling", "seed": -1}, "seed must be a whole number >= 0 or a numpy Generator, not -1"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        weight_moments(score_laws(gaussian_setting(3), one_head(3, 2.0)), **options)  # type: ignore[arg-type]


def test_the_integral_refuses_correlated_keys() -> None:
    with pytest.raises(InputError, match="needs independent keys"):
        weight_moments(score_laws(correlated(0.5), [1.0, 2.0]), method="integral")

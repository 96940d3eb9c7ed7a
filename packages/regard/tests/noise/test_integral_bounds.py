"""The error bound of the integrals: each part of it against what it bounds, and the whole where the check sums miss."""

from __future__ import annotations

import math

import flint
import numpy as np
import pytest

from regard.errors import CouldNotFindOut
from regard.noise import NoiseModel, score_laws
from regard.noise.integrals import (
    COARSE,
    FINE,
    HeadMoments,
    Rule,
    cross_moments,
    gaussian_nodes,
    head_moments,
    inner_bound,
    kernel,
    log_u_grid,
    outer_bound,
    score_range,
)
from regard.noise.scores import KeyLaw, Scores


def scores(*laws: tuple[float, float]) -> Scores:
    """Keys whose scores have these means and standard deviations."""
    covariances = {k: [[sd**2]] for k, (_, sd) in enumerate(laws)}
    return score_laws(NoiseModel(means=np.array([[mean] for mean, _ in laws]), covariances=covariances), [1.0])


def residual(found: HeadMoments, counts: np.ndarray) -> float:
    """How far the weights are from summing to one: what a reader can see without knowing the truth."""
    rows = counts @ found.pair - found.pair.diagonal() + found.square - found.mean
    return max(abs(float(counts @ found.mean - 1)), float(np.abs(rows).max()))


def farthest(found: HeadMoments, truth: HeadMoments) -> float:
    apart = ~np.eye(len(truth.mean), dtype=bool)
    pairs = np.abs(found.pair - truth.pair)[apart]
    return max(np.abs(found.mean - truth.mean).max(), np.abs(found.square - truth.square).max(), pairs.max())


@pytest.mark.parametrize(
    ("laws", "rule"),
    [
        (((0.0, 0.9), (0.0, 0.0)), Rule(step=0.25, cut=8.3, decay=2.0)),
        (((0.0, 3.0), (1.0, 2.0)), Rule(step=0.9, cut=8.3, decay=36.0)),
        (((2.0, 1.5), (0.0, 0.5)), Rule(step=0.6, cut=4.0, decay=6.0)),
    ],
)
def test_the_discretisation_is_paid_for_where_the_sums_do_not_show_it(laws, rule) -> None:
    """Weights can sum to one and be wrong: a coarse rule errs by more than the sums betray, and within its bound."""
    made = scores(*laws)
    truth, found = head_moments(made), head_moments(made, rule=rule)
    off = farthest(found, truth)
    assert off > 1.05 * residual(found, made.counts), "the sums alone would promise too much"
    assert off <= found.bound


@pytest.mark.parametrize("rule", [FINE, COARSE, Rule(step=0.7, cut=5.0, decay=9.0)])
@pytest.mark.parametrize("laws", [((0.3, 0.0), (0.1, 0.0)), ((0.3, 0.4), (0.1, 0.8)), ((0.3, 1.4), (0.1, 2.8))])
def test_the_bound_is_the_sum_of_its_parts(laws, rule) -> None:
    made = scores(*laws)
    found = head_moments(made, rule=rule)
    inner = sum(n * inner_bound(law.sd(0), rule) for law, n in zip(made.laws, made.counts, strict=True))
    parts = inner + outer_bound(rule.step) + 4 * math.exp(-rule.decay) + residual(found, made.counts)
    assert found.bound == pytest.approx(parts + 64 * 2.0**-52, rel=1e-9, abs=0)


@pytest.mark.parametrize("step", [0.25, 0.42, 0.7, 1.3])
def test_the_outer_bound_is_the_gamma_function_on_a_line(step: float) -> None:
    """2 sum_k |Gamma(2 + 2 pi i k / step)|: two terms are all that double precision sees."""
    with flint.ctx.workprec(200):
        terms = [abs(flint.acb(2, 2 * flint.arb.pi() * k / flint.arb(step)).gamma()) for k in range(1, 6)]
        truth = 2 * float(sum(terms, flint.arb(0)))
    assert outer_bound(step) == pytest.approx(truth, rel=1e-3, abs=0)
    assert outer_bound(step) >= truth * (1 - 1e-3)


@pytest.mark.parametrize("sd", [0.05, 0.4, 0.99])
@pytest.mark.parametrize("rule", [COARSE, Rule(step=0.25, cut=4.0, decay=8.0), Rule(step=0.25, cut=9.0, decay=3.0)])
def test_the_inner_bound_covers_the_nodes(sd: float, rule: Rule) -> None:
    """E f(sd x) for weights f of one score: f analytic in the strip and at most 1 there."""
    x, weights = gaussian_nodes(sd, rule)
    fine_x, fine = gaussian_nodes(sd, Rule(step=0.01, cut=12.0, decay=120.0))
    for shift in (-2.0, 0.0, 0.7, 3.0):
        rough = weights @ (1 / (1 + np.exp(shift - sd * x)))
        truth = fine @ (1 / (1 + np.exp(shift - sd * fine_x)))
        assert abs(rough - truth) <= inner_bound(sd, rule)


def test_the_inner_bound_has_two_parts() -> None:
    """The spacing of the nodes and the mass beyond the last one; each seen where the other is nothing."""
    wide, sharp = Rule(step=0.25, cut=40.0, decay=5.0), Rule(step=0.25, cut=3.0, decay=300.0)
    assert inner_bound(0.5, wide) == pytest.approx(4 * math.exp(-9), rel=1e-12, abs=0)
    assert inner_bound(0.5, sharp) == pytest.approx(2 * math.exp(-4.5) / 3, rel=1e-12, abs=0)
    assert inner_bound(2.0, wide) == pytest.approx(4 * math.exp(math.pi**2 / 8 - math.pi**2 / 0.25), rel=1e-12, abs=0)
    assert inner_bound(1.0, wide) == inner_bound(2.0, wide), "from sd 1 on the nodes lie on the grid of ln u"
    assert inner_bound(0.0, wide) == 0
    tail = math.erfc(3 / math.sqrt(2))  # the mass beyond 3 standard deviations, which the second part bounds
    assert tail <= inner_bound(0.5, sharp)


def test_the_kernel_and_its_range() -> None:
    assert kernel(np.array([0.0, 1.0]), 2) == pytest.approx([math.exp(-1), math.exp(2 - math.e)], rel=1e-15)
    assert kernel(np.array([1e9]), 2) == 0
    made = scores((1.0, 0.5), (4.0, 0.0))
    low, high = score_range(made.laws, made.counts, 0, 2.0)
    assert (low, high) == (4.0, pytest.approx(4.0 + math.log(2)))
    t = log_u_grid(made.laws, made.counts, 0, Rule(step=0.5, cut=2.0, decay=10.0))
    assert t[0] == pytest.approx(-high - 10)
    assert t[-1] >= -low + math.log(14)
    assert t[-1] - 0.5 < -low + math.log(14)
    assert np.diff(t) == pytest.approx(0.5)


def test_two_heads_pay_for_both() -> None:
    """The double integral's estimate: twice the outer bound, both heads' inner ones, both cuts, and the sums."""
    model = NoiseModel(means=np.eye(2), isotropic=0.04)
    made = score_laws(model, [[3.0, 1.0], [0.5, 2.0]])
    pair, same, estimate = cross_moments(made, 0, 1)
    counts = made.counts
    total = counts @ pair @ counts + counts @ (same - pair.diagonal()) - 1
    inner = sum(
        n * (inner_bound(law.sd(0), COARSE) + inner_bound(law.sd(1), COARSE))
        for law, n in zip(made.laws, counts, strict=True)
    )
    parts = inner + 2 * outer_bound(COARSE.step) + 8 * math.exp(-COARSE.decay) + abs(float(total))
    assert estimate == pytest.approx(parts, rel=1e-9, abs=0)


@pytest.mark.parametrize("rule", [FINE, COARSE, Rule(step=0.7, cut=5.0, decay=9.0)])
@pytest.mark.parametrize("sd", [1e-3, 0.1, 0.4, 1.0, 3.0])
def test_the_nodes_reach_the_cut_on_both_sides_and_are_as_dense_as_the_bound_says(sd: float, rule: Rule) -> None:
    x, _ = gaussian_nodes(sd, rule)
    step = x[1] - x[0]
    assert x[-1] == -x[0] >= rule.cut
    assert x[-1] - step < rule.cut
    strip = np.linspace(0, math.pi / (2 * sd), 100_001)[1:]  # where the integrand is analytic
    assert (2 * math.pi * strip / step - strip**2 / 2).max() >= rule.decay + 4 - 1e-6


def test_the_range_of_the_scores_covers_every_component() -> None:
    laws = [([0.5, 0.5], [[-3.0], [5.0]], [[4.0]]), ([1.0], [[1.0]], [[0.0]])]
    made = tuple(KeyLaw(*(np.array(part) for part in law)) for law in laws)
    low, high = score_range(made, np.array([2, 3]), 0, 8.0)
    assert low == max(-3 - 8 * 2, 1)
    assert high == pytest.approx(5 + 8 * 2 + math.log(5), abs=1e-12)


def two_heads(*, ahead: float, variance: float) -> Scores:
    """Two keys, the second ahead in both heads."""
    return score_laws(NoiseModel(means=np.array([[0.0, 0.0], [ahead, ahead]]), isotropic=variance), np.eye(2))


def test_heads_that_are_far_from_a_tie_copy_in_both() -> None:
    pair, same, estimate = cross_moments(two_heads(ahead=300.0, variance=0.01), 0, 1)
    assert estimate < 1e-6
    assert same[1] == pytest.approx(1, abs=1e-6)
    assert max(abs(same[0]), abs(pair[0, 1]), abs(pair[1, 0])) < 1e-6


def test_a_double_integral_that_would_be_too_large_is_not_begun() -> None:
    made = two_heads(ahead=0.0, variance=200.0**2)
    points = len(log_u_grid(made.laws, made.counts, 0, COARSE)) * len(log_u_grid(made.laws, made.counts, 1, COARSE))
    assert 2**25 < points < 2**26
    with pytest.raises(CouldNotFindOut, match="spread too far for the double integral"):
        cross_moments(made, 0, 1)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_heads_may_be_given_in_either_order(sign: int) -> None:
    """One head hears the noise a hundred times as loud as the other, and perhaps with the other sign."""
    model = NoiseModel(means=np.array([[0.0], [0.5]]), covariances={0: [[1.0]], 1: [[0.3]]})
    made = score_laws(model, np.array([[0.1], [10.0 * sign]]))
    pair, same, estimate = cross_moments(made, 0, 1)
    other, same_again, estimate_again = cross_moments(made, 1, 0)
    assert max(estimate, estimate_again) < 1e-7
    assert np.abs(pair - other.T)[~np.eye(2, dtype=bool)].max() < estimate + estimate_again
    assert np.abs(same - same_again).max() < estimate + estimate_again

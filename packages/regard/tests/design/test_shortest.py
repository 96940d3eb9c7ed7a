"""Norms of shortest queries: against SLSQP, against closed forms, and the identities that any optimum obeys."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from regard import design
from regard.design import minimax
from regard.design.many_targets import shortest_together
from regard.design.shortest import factor_to_constraint, shortest
from regard.errors import CouldNotFindOut

GAP = 1e-9
few = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
epsilons = st.floats(-6, 1).map(lambda x: 10.0**x)


@st.composite
def key_sets(draw, least=2, most=7, widest=5):
    """Keys with entries in eighths, so that corners, faces, copies and inside keys all turn up."""
    n, d = draw(st.integers(least, most)), draw(st.integers(1, widest))
    whole = draw(arrays(np.int64, (n, d), elements=st.integers(-16, 16)))
    return whole / 8


TALLY = {"asked": 0, "refused": 0}
FEW_REFUSALS = 0.1


def answered(ask):
    """The design, or None where it could not be found out: never a wrong answer, and seldom none."""
    TALLY["asked"] += 1
    try:
        return ask()
    except CouldNotFindOut:
        TALLY["refused"] += 1
        allowed = 5 + FEW_REFUSALS * TALLY["asked"]
        assert TALLY["refused"] <= allowed, f"{TALLY['refused']} of {TALLY['asked']} were refused"
        return None


# against a general solver -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("eps", [1e-4, 0.03, 2.0])
def test_copying_agrees_with_slsqp(seed, eps):
    keys = np.random.default_rng(seed).standard_normal((7, 5))
    found = design.copy(keys, 3, eps=eps)
    assert found.reachable
    others = np.delete(keys, 3, axis=0) - keys[3]
    oracle = oracles.shortest_norm(others, np.zeros((1, 5)), math.log(eps))
    assert found.norm == pytest.approx(oracle, rel=1e-6)
    assert found.lower_bound <= oracle * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("eps", [1e-2, 0.5])
def test_sharing_agrees_with_slsqp(seed, eps):
    keys = np.random.default_rng(seed).standard_normal((7, 11))
    found = design.share(keys, [1, 2, 5], eps=eps)
    oracle = oracles.shortest_norm(keys, keys[[1, 2, 5]], math.log(3 + eps))
    assert found.norm == pytest.approx(oracle, rel=1e-5)
    assert found.lower_bound <= oracle * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kl", [1e-3, 0.2])
def test_matching_agrees_with_slsqp(seed, kl):
    rng = np.random.default_rng(seed)
    keys, target = rng.standard_normal((5, 7)), rng.dirichlet(np.ones(5))
    found = design.match(keys, target, kl=kl)
    entropy = -(target @ np.log(target))
    oracle = oracles.shortest_norm(keys, (target @ keys)[None, :], kl + entropy)
    assert found.norm == pytest.approx(oracle, rel=1e-5)
    assert found.lower_bound <= oracle * (1 + 1e-5)


# closed forms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "s"), [(2, 1), (5, 1), (5, 2), (7, 3), (11, 10)])
@pytest.mark.parametrize("eps", [1e-5, 0.01, 0.7])
def test_orthonormal_keys_cost_t_times_the_root_of_s_n_minus_s_over_n(n, s, eps):
    frame = np.linalg.qr(np.random.default_rng(n).standard_normal((13, n)))[0].T
    found = design.share(frame, list(range(s)), eps=eps)
    assert found.norm == pytest.approx(math.log((n - s) / eps) * math.sqrt(s * (n - s) / n), rel=2e-9)
    assert found.query == pytest.approx(design.shortest_for_orthonormal(frame, range(s), eps), abs=1e-4 * found.norm)


@pytest.mark.parametrize("distance", [1e-8, 0.3, 1.0, 1e8])
@pytest.mark.parametrize("eps", [1e-6, 0.25])
def test_two_keys_on_a_line(distance, eps):
    found = design.copy([[5.0], [5.0 - distance]], 0, eps=eps)
    there = 5.0 - (5.0 - distance)  # as stored
    assert found.norm == pytest.approx(math.log(1 / eps) / there, rel=2e-9)
    assert found.query[0] > 0


def test_an_answer_of_norm_zero_is_exact():
    keys = np.random.default_rng(0).standard_normal((4, 3))
    assert design.copy(keys, 0, eps=3.0).norm == 0.0  # 1/4 each, and 1/(1+3) is asked for
    assert design.copy(keys, 0, eps=math.nextafter(3.0, 0)).norm > 0
    assert design.share(keys, [0, 1], eps=2.0).norm == 0.0
    assert design.match(keys, np.full(4, 0.25), kl=1e-12).norm == 0.0


def test_the_sandwich_by_the_distance_to_the_hull():
    rng = np.random.default_rng(1)
    keys, eps = rng.standard_normal((11, 13)), 1e-3
    norm = design.copy(keys, 4, eps=eps).norm
    others = np.delete(keys, 4, axis=0)
    near = oracles.minimize(
        lambda w: float(np.sum((w @ others - keys[4]) ** 2)),
        np.full(10, 0.1),
        bounds=[(0, 1)] * 10,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    rho = math.sqrt(near.fun)
    assert math.log(1 / eps) / rho * (1 - 1e-4) <= norm <= (math.log(1 / eps) + math.log(10)) / rho * (1 + 1e-4)


# identities ---------------------------------------------------------------------------------------------------------


@given(key_sets(), epsilons)
@few
def test_every_answer_is_verified_strictly_and_in_exact_arithmetic(keys, eps):
    found = answered(lambda: design.copy(keys, 0, eps=eps))
    if found is None:
        return
    assert design.verify(found.certificate, keys, strict=True).holds
    if found.reachable:
        weight = oracles.exact_weights(keys, found.query)[0]
        assert oracles.gives(weight, 1 / (1 + Fraction(eps)))
        assert found.lower_bound <= found.norm * (1 + 1e-15)
        assert found.norm <= found.lower_bound * (1 + GAP) or found.norm == 0
    else:
        assert found.bound <= 1 / (1 + eps)  # equal: reached by no query, approached by some


@given(key_sets(), epsilons, st.floats(0.1, 0.9))
@few
def test_asking_for_more_costs_more(keys, eps, factor):
    easy, hard = (answered(lambda e=e: design.copy(keys, 0, eps=e)) for e in (eps, eps * factor))
    if easy is None or hard is None:
        return
    assert easy.reachable >= hard.reachable
    if hard.reachable:
        assert easy.norm <= hard.norm * (1 + GAP)


@given(key_sets(), epsilons, st.floats(-3, 3).map(lambda x: 10.0**x))
@few
def test_scaling_the_keys_scales_the_norm_inversely(keys, eps, factor):
    plain, scaled = (answered(lambda k=k: design.copy(k, 0, eps=eps)) for k in (keys, keys * factor))
    if plain is None or scaled is None or not (plain.reachable and scaled.reachable):
        return
    assert scaled.norm * factor == pytest.approx(plain.norm, rel=1e-8)


@given(key_sets(), epsilons, st.floats(-3, 3).map(lambda x: 10.0**x))
@few
def test_a_scale_is_the_same_as_scaled_keys(keys, eps, scale):
    found = answered(lambda: design.copy(keys, 0, eps=eps, scale=scale))
    plain = answered(lambda: design.copy(keys, 0, eps=eps))
    if found is None or plain is None or not (found.reachable and plain.reachable):
        return
    assert found.norm * scale == pytest.approx(plain.norm, rel=1e-8)
    assert design.verify(found.certificate, keys).holds


@given(key_sets(), epsilons, st.integers(-1000, 1000))
@few
def test_translating_the_keys_changes_nothing(keys, eps, offset):
    plain, moved = (answered(lambda k=k: design.copy(k, 0, eps=eps)) for k in (keys, keys + offset))
    if plain is None or moved is None:
        return
    assert plain.reachable == moved.reachable  # eighths plus whole numbers are exact
    if plain.reachable:
        assert moved.norm == pytest.approx(plain.norm, rel=1e-8)
    else:
        assert moved.bound == pytest.approx(plain.bound, rel=1e-9)


@pytest.mark.slow
@given(key_sets(least=3), epsilons, st.randoms(use_true_random=False))
@few
def test_permuting_the_keys_permutes_the_answer(keys, eps, random):
    order = list(range(len(keys)))
    random.shuffle(order)
    plain = answered(lambda: design.share(keys, [0, 1], eps=eps))
    mixed = answered(lambda: design.share(keys[order], [order.index(0), order.index(1)], eps=eps))
    if plain is None or mixed is None:
        return
    assert plain.reachable == mixed.reachable
    if plain.reachable:
        assert mixed.norm == pytest.approx(plain.norm, rel=1e-8)
        assert mixed.weights == pytest.approx(plain.weights[order], abs=1e-4)


@given(key_sets(), epsilons)
@few
def test_sharing_one_key_is_copying_it(keys, eps):
    one, same = (
        answered(lambda: design.copy(keys, 1, eps=eps)),
        answered(lambda: design.share(keys, [1], eps=eps)),
    )
    if one is None or same is None:
        return
    assert one.reachable == same.reachable
    if one.reachable:
        assert one.norm == pytest.approx(same.norm, rel=1e-8)
    elif not (keys[0] == keys[1]).all():  # copies alone prove less about the ceiling than a combination
        assert same.bound <= one.bound * (1 + 1e-6)


@given(key_sets(least=3), epsilons, st.data())
@few
def test_a_mask_is_the_same_as_deleting_rows(keys, eps, data):
    allowed = np.array(
        [True, True, *data.draw(st.lists(st.booleans(), min_size=len(keys) - 2, max_size=len(keys) - 2))]
    )
    masked = answered(lambda: design.share(keys, [0, 1], eps=eps, allowed=allowed))
    fewer = answered(lambda: design.share(keys[allowed], [0, 1], eps=eps))
    if masked is None or fewer is None:
        return
    assert masked.reachable == fewer.reachable
    if masked.reachable:
        assert masked.norm == pytest.approx(fewer.norm, rel=1e-8)
        assert not masked.weights[~allowed].any()
    assert design.verify(masked.certificate, keys).holds


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(7, 3), (101, 5), (31, 37), (13, 1)])
def test_asking_together_gives_the_same_answers(n, d):
    keys = np.random.default_rng(n).standard_normal((n, d))
    together = design.copy_many(keys, range(n), eps=0.02, scale=0.7)
    for j, found in enumerate(together):
        alone = design.copy(keys, j, eps=0.02, scale=0.7)
        assert found.reachable == alone.reachable
        assert found.chosen == (j,)
        assert design.verify(found.certificate, keys).holds
        if found.reachable:
            assert found.norm == pytest.approx(alone.norm, rel=2e-9)


def test_asking_together_on_whole_numbers_divides_by_nothing():
    keys = np.arange(5.0)[:, None]  # the middle key is the mean of the others: its gradient at 0 vanishes
    assert [found.reachable for found in design.copy_many(keys, range(5), eps=0.1)] == [True, False, False, False, True]
    assert [f.norm for f in design.copy_many(keys, [1, 2], eps=4.0)] == [0.0, 0.0]


# the solvers themselves ---------------------------------------------------------------------------------------------


def test_the_solvers_agree_with_one_another():
    rng = np.random.default_rng(5)
    points, limit = rng.standard_normal((31, 7)), math.log(0.01)
    anchor = 2.5 * points[:1]
    one = shortest(points - anchor, limit)
    several = minimax.shortest_minimax(points - anchor, np.zeros((1, 7)), np.array([limit]))
    both = shortest_together(points, anchor, np.array([limit]), np.array([-1]))
    assert one.gap < 2e-10
    assert one.upper == pytest.approx(several.upper, rel=1e-9)
    assert one.upper == pytest.approx(both.upper[0], rel=1e-9)


def test_the_bounds_of_the_solver_are_on_the_right_sides():
    rows = np.random.default_rng(2).standard_normal((23, 5)) - [3, 0, 0, 0, 0]
    found = shortest(rows, -2.0)
    assert np.log(np.exp(rows @ found.query).sum()) <= -2.0 + 1e-12
    assert found.lower <= found.upper * (1 + 1e-14)  # both rounded
    assert found.upper == pytest.approx(np.linalg.norm(found.query))


def test_a_ray_that_never_gets_there_is_infinitely_long():
    assert factor_to_constraint(np.array([-1.0, 1.0]), -3.0, 1.0) == math.inf


@pytest.mark.parametrize("seed", range(8))
def test_budgets_for_sharing_converge_on_ordinary_keys(seed):
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((11, 3))
    found = design.share(keys, [0, 1, 2], max_norm=float(rng.uniform(0.1, 3)))
    assert found.gap <= GAP


def test_a_key_that_dwarfs_the_others_does_not_end_the_search_too_soon() -> None:
    """The first steps are short beside it: the search goes on, and no proof of "never" is looked for."""
    rng = np.random.default_rng(5)
    keys = rng.standard_t(1.2, (30, 4))
    reachable = [j for j in range(30) if design.copy(keys, j, eps=0.01).reachable]
    assert len(reachable) > 5
    for j in reachable:
        rows = np.delete(keys, j, axis=0) - keys[j]
        found = shortest(rows / np.linalg.norm(rows, axis=1).max(), math.log(0.01))
        assert found.gap <= 2e-10


def test_a_coarse_sample_of_the_curvature_is_made_finer() -> None:
    """With 4 rows for each dimension and never more, this match takes 231 iterations."""
    rng = np.random.default_rng(2000)
    keys = rng.standard_normal((4000, 192))
    target = np.exp(0.25 * keys @ rng.standard_normal(192))
    target /= target.sum()
    found = shortest(keys - target @ keys, float(-(target @ np.log(target))) + 1e-3)
    assert found.gap <= 2e-10
    assert found.iterations < 100


@pytest.mark.parametrize("size", [1e3, 1e5, 1e8])
def test_a_key_that_dwarfs_the_rest_ends_no_search_and_spoils_no_weight(size):
    rng = np.random.default_rng(31)
    keys = rng.standard_normal((307, 13))
    keys[17] *= size
    lead = keys - keys[5]
    rows = np.delete(lead, 5, axis=0) / np.linalg.norm(lead, axis=1).max()
    assert shortest(rows, math.log(0.01)).gap <= GAP  # at once, and not only by a patient search
    found = design.copy(keys, 5, eps=0.01)
    weights = np.array([float(weight.mid()) for weight in oracles.exact_weights(keys, found.query)])
    np.testing.assert_allclose(found.weights, weights, rtol=1e-10, atol=1e-300)

"""copy, share, match: budgets, proofs that no query does it, what is refused, and keys that are hard to handle."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracles
from regard import design
from regard.errors import CouldNotFindOut, InputError
from regard.examples import example
from regard.written_numbers import at_most

few = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SQUARE = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]])


def strict(found, keys):
    return design.verify(found.certificate, np.asarray(keys, dtype=float), strict=True).holds


# budgets ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.1, 1.0, 7.0, 40.0])
def test_no_direction_in_the_plane_beats_a_budget(radius):
    keys = np.random.default_rng(3).standard_normal((11, 2))
    target = np.random.default_rng(4).dirichlet(np.ones(11))
    queries = radius * oracles.directions(2000)
    weights = oracles.softmax(queries @ keys.T, axis=1)
    copied = design.copy(keys, 5, max_norm=radius)
    assert weights[:, 5].max() <= copied.bound
    assert weights[:, 5].max() >= copied.attention * 0.99 or copied.norm < 0.99 * radius
    shared = design.share(keys, [2, 5], max_norm=radius)
    assert weights[:, [2, 5]].min(axis=1).max() <= shared.bound
    matched = design.match(keys, target, max_norm=radius)
    divergences = (target * (np.log(target) - np.log(weights))).sum(axis=1)
    assert divergences.min() >= matched.bound
    for found in (copied, shared, matched):
        assert found.norm <= radius
        assert found.gap <= 1e-9
        assert strict(found, keys)


@pytest.mark.parametrize("seed", range(4))
def test_budgets_agree_with_slsqp(seed):
    rng = np.random.default_rng(seed)
    keys, radius = rng.standard_normal((7, 3)), float(rng.uniform(0.2, 4))
    target = rng.dirichlet(np.ones(7))
    value = oracles.strongest_value(np.delete(keys, 2, axis=0) - keys[2], np.zeros((1, 3)), radius)
    assert design.copy(keys, 2, max_norm=radius).attention == pytest.approx(1 / (1 + math.exp(value)), abs=1e-6)
    value = oracles.strongest_value(keys, keys[[0, 3]], radius)
    assert design.share(keys, [0, 3], max_norm=radius).attention == pytest.approx(math.exp(-value), abs=1e-6)
    value = oracles.strongest_value(keys, (target @ keys)[None, :], radius) + target @ np.log(target)
    assert design.match(keys, target, max_norm=radius).attention == pytest.approx(value, abs=1e-6)


@given(st.integers(0, 10**6), st.floats(0.05, 20))
@few
def test_a_budget_and_the_demand_it_meets_are_inverse(seed, radius):
    keys = np.random.default_rng(seed).standard_normal((5, 7))  # every key is a corner
    most = design.copy(keys, 1, max_norm=radius)
    if most.attention > 1 - 1e-6:
        return  # 1 / attention - 1 has too few digits left
    back = design.copy(keys, 1, eps=1 / most.attention - 1)
    assert back.norm == pytest.approx(radius, rel=1e-5)


@given(st.integers(0, 10**6), st.floats(0.1, 10), st.floats(1.01, 3))
@few
def test_a_longer_query_can_do_more(seed, radius, factor):
    keys = np.random.default_rng(seed).standard_normal((7, 3))
    short, long = (design.share(keys, [0, 1], max_norm=r) for r in (radius, radius * factor))
    assert short.attention <= long.bound
    target = np.random.default_rng(seed).dirichlet(np.ones(7))
    short, long = (design.match(keys, target, max_norm=r) for r in (radius, radius * factor))
    assert long.bound <= short.attention


@given(st.integers(0, 10**6), st.floats(-6, 0).map(lambda x: 10.0**x))
@few
def test_a_matched_divergence_is_met_in_exact_arithmetic(seed, kl):
    rng = np.random.default_rng(seed)
    keys, target = rng.standard_normal((5, 7)), rng.dirichlet(np.full(5, 0.5))
    found = design.match(keys, target, kl=kl)
    weights = oracles.exact_weights(keys, found.query)
    assert oracles.exact_divergence(target, weights) <= kl * (1 + 1e-15)
    assert 0.5 * np.abs(found.weights - target).sum() <= math.sqrt(kl / 2)  # Pinsker
    assert found.attention == pytest.approx(kl, rel=1e-6) or found.norm == 0


# never --------------------------------------------------------------------------------------------------------------


def test_the_centre_of_a_square_is_never_copied():
    found = design.copy(SQUARE, 4, eps=3.9)
    assert not found.reachable
    assert not found.answer
    assert found.query is None
    assert found.bound == pytest.approx(0.2, abs=1e-12)
    assert found.bound >= 0.2 * (1 - 1e-15)
    assert strict(found, SQUARE)
    assert "No query does: none gets more than 0.2 on that key, however long." in found.details()
    assert design.copy(SQUARE, 4, eps=4.0).norm == 0.0


def test_a_subset_that_is_no_face_is_never_shared():
    diagonal = design.share(SQUARE[:4], [0, 2], eps=0.5)
    assert not diagonal.reachable
    assert diagonal.bound == pytest.approx(0.25, abs=1e-9)  # conv of the diagonal holds the centre: all four tie
    assert strict(diagonal, SQUARE[:4])
    assert design.share(SQUARE[:4], [0, 1], eps=1e-6).reachable


def test_an_unreachable_target_by_a_hair():
    keys, target = np.array([[0.0], [1.0], [2.0]]), np.array([0.25, 0.5, 0.25])
    best = math.log(3) - 1.5 * math.log(2)  # the uniform weights have the same mean and the largest entropy
    assert not design.match(keys, target, kl=best * (1 - 1e-9)).reachable
    near = design.match(keys, target, kl=best * (1 - 1e-3))
    assert near.bound == pytest.approx(best, rel=1e-9)
    assert strict(near, keys)
    assert design.match(keys, target, kl=best * (1 + 1e-3)).reachable


@pytest.mark.parametrize("seed", range(5))
def test_the_largest_entropy_decides(seed):
    rng = np.random.default_rng(seed)
    keys = np.concatenate([rng.standard_normal((7, 2)), np.zeros((1, 2))])
    keys[-1] = rng.dirichlet(np.ones(7)) @ keys[:7]
    ceiling = 1 / (1 + math.exp(oracles.largest_entropy(keys[:-1], keys[-1])))
    found = design.copy(keys, 7, eps=(1 / ceiling - 1) * 0.99)
    assert not found.reachable
    assert found.bound == pytest.approx(ceiling, rel=1e-5)
    assert strict(found, keys)
    assert design.copy(keys, 7, eps=(1 / ceiling - 1) * 1.01).reachable


def test_keys_that_repeat_a_few_points_are_decided():
    keys = np.where(np.arange(40) % 3 == 0, -1.0, 1.0)[:, None]  # two points, many times each
    target = np.random.default_rng(0).dirichlet(np.ones(40))
    found = design.match(keys, target, kl=1e-3)
    assert not found.reachable
    assert strict(found, keys)
    means = [target[keys[:, 0] == s].sum() for s in (-1, 1)]
    spread = [t * math.log(t / (m / c)) for s, m, c in zip((-1, 1), means, (14, 26), strict=True) for t in
              target[keys[:, 0] == s]]  # fmt: skip
    assert found.bound == pytest.approx(sum(spread), rel=1e-9)


def test_copies_of_a_key_share_with_it():
    keys = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]])
    assert not design.copy(keys, 0, eps=2.0).reachable  # 1/3 is approached and never reached
    assert design.copy(keys, 0, eps=2.0).bound == pytest.approx(1 / 3)
    assert design.copy(keys, 0, eps=2.001).reachable
    assert design.copy(keys, 0, eps=3.0).norm == 0


# masks and scales ---------------------------------------------------------------------------------------------------


def test_a_mask_that_leaves_one_key_leaves_nothing_to_do():
    allowed = np.array([False, False, True, False, False])
    for found in (
        design.copy(SQUARE, 2, eps=1e-9, allowed=allowed),
        design.copy(SQUARE, 2, max_norm=3.0, allowed=allowed),
        design.share(SQUARE, [2], eps=1e-9, allowed=allowed),
        design.match(SQUARE, [0, 0, 1, 0, 0], kl=1e-9, allowed=allowed),
    ):
        assert found.norm == 0
        assert found.weights.tolist() == [0, 0, 1, 0, 0]
        assert strict(found, SQUARE)


def test_numpy_numbers_are_numbers():
    found = design.copy(SQUARE, np.int64(0), eps=np.float32(0.5), scale=np.float32(0.5))
    assert found.norm == pytest.approx(design.copy(SQUARE, 0, eps=0.5).norm * 2, rel=1e-6)
    assert json.loads(found.to_json())["chosen"] == [0]
    assert design.share(SQUARE, np.array([0, 1]), eps=0.1).chosen == (0, 1)


def test_the_textbook_stands_beside_the_shortest():
    found = design.copy(np.eye(10), 7, eps=0.01)
    assert found.textbook.norm == pytest.approx(math.log(900))
    assert "The textbook query" in str(found)
    assert f"{found.textbook.norm:.4g}; the shortest has {at_most(found.norm, 4)}" in str(found)
    assert "query" not in found.to_dict()["textbook"]
    assert design.copy(2 * np.eye(10), 7, eps=0.01).textbook is None


def test_what_a_result_says():
    found = design.copy(np.eye(3), 1, eps=0.02)
    text = found.details()
    assert "Copy key 1 with attention at least 1/(1+0.02) (keys are counted from 0)." in text
    assert "No shorter query does: proved down to norm 3.76" in text
    assert "Certificate rechecked" in text
    assert "within KL 0.1" in design.match(np.eye(3), [0.8, 0.1, 0.1], kl=0.1).details()
    assert "as well as a query of norm 2 can" in design.share(np.eye(3), [0, 2], max_norm=2.0).details()
    assert "zero query" in str(design.share(np.eye(3), [0, 1], eps=1.5))
    assert json.loads(found.to_json())["certificate"] == json.loads(json.dumps(found.certificate.to_dict()))


def test_the_answer_comes_first_in_four_digits_that_stay_true():
    found = design.copy([[1, 0], [0, 1], [1, 1]], 2, eps=0.01)
    assert str(found).startswith(
        "A query of norm 7.493 gives key 2 at least 0.99 of the attention (asked: 1/(1+0.01)). No shorter query does: "
        "proved down to norm 7.492.\n"
    )
    assert "ulp" not in str(found)
    assert "rechecked in rounding-bounded float64" in found.details()
    nearly = design.copy(np.eye(2), 0, max_norm=1e-7)  # 0.500000035 on key 0
    assert "at least 0.5 of the attention; no query of that norm gives more than 0.5001" in str(nearly)
    target = design.match(np.eye(3), [0.7, 0.2, 0.1], kl=0.06)
    assert "comes within KL 0.06 of the target (asked: KL 0.06, lower is better)" in str(target)


def test_a_table_of_ceilings_shows_the_ten_lowest():
    table = design.ceilings(example("crowded")[:30])
    shown, whole = str(table).splitlines(), table.details().splitlines()
    assert len(shown) == 14
    assert "... and 20 more keys with ceilings as high or higher: details() shows them." in shown
    assert len(whole) == 33
    lowest = sorted(row.ceiling for row in table.rows)[:10]
    for line, least in zip(shown[2:12], lowest, strict=True):
        assert least <= float(line.split()[1]) < least + 1e-3


# what is refused ----------------------------------------------------------------------------------------------------

REFUSED = [
    (lambda: design.copy([[1.0, 2.0]], 1, eps=0.1), r"Key 1 does not exist: there are 1 keys, counted from 0"),
    (lambda: design.copy(SQUARE, -1, eps=0.1), r"Key -1 does not exist: there are 5 keys"),
    (lambda: design.copy(SQUARE, True, eps=0.1), r"named by a whole number counted from 0; True is not one"),
    (lambda: design.copy(SQUARE, 1.0, eps=0.1), r"named by a whole number counted from 0; 1.0 is not one"),
    (lambda: design.copy(SQUARE, [0, 1], eps=0.1), r"named by a whole number counted from 0; \[0, 1\] is not one"),
    (lambda: design.ceiling(SQUARE, [0, 1]), r"named by a whole number counted from 0; \[0, 1\] is not one"),
    (lambda: design.share(SQUARE, 1.5, eps=0.1), r"named by a whole number counted from 0; 1.5 is not one"),
    (lambda: design.share(SQUARE, [], eps=0.1), r"No key was chosen: name at least one"),
    (lambda: design.share(SQUARE, [1, 1], eps=0.1), r"A key is named twice in \[1, 1\]; name each once"),
    (lambda: design.copy(SQUARE, 0, eps=0), r"eps must be a positive finite number \(how much .*\); it is 0"),
    (lambda: design.copy(SQUARE, 0, eps=-1.0), r"eps must be a positive finite number .* it is -1.0"),
    (lambda: design.copy(SQUARE, 0, eps=math.nan), r"eps must be a positive finite number .* it is nan"),
    (lambda: design.copy(SQUARE, 0, eps=math.inf), r"eps must be a positive finite number .* it is inf"),
    (lambda: design.copy(SQUARE, 0, eps="0.1"), r"eps must be a positive finite number .* it is '0.1'"),
    (lambda: design.copy(SQUARE, 0, eps=True), r"eps must be a positive finite number .* it is True"),
    (lambda: design.match(SQUARE, np.full(5, 0.2), kl=0.0), r"kl must be a positive finite number \(how far from"),
    (lambda: design.copy(SQUARE, 0, max_norm=0.0), r"max_norm must be a positive finite number \(the longest query"),
    (lambda: design.copy(SQUARE, 0), r"Give either eps \(what to reach\) or max_norm \(how far to go\)"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, max_norm=1.0), r"Give either eps .* or max_norm .* one of them"),
    (lambda: design.match(SQUARE, np.full(5, 0.2)), r"Give either kl \(what to reach\)"),
    (lambda: design.copy_many(SQUARE, [0, 1], eps=None), r"Give either eps"),
    (lambda: design.copy_many(SQUARE, [0, 1], eps=-1.0), r"eps must be a positive finite number"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, scale=0.0), r"The scale multiplies every score and must be a positive"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, scale=math.nan), r"The scale multiplies every score .* it is nan"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, scale="1"), r"The scale multiplies every score .* it is '1'"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, allowed=[True]), r"True or False per key, 5 in all; it is bool of shape"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, allowed=[1, 1, 1, 1, 0]), r"per key, 5 in all; it is int"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, allowed=[False] * 5), r"allowed forbids every key"),
    (lambda: design.copy(SQUARE, 0, eps=0.1, allowed=[False] + [True] * 4), r"Key 0 is forbidden by the mask"),
    (lambda: design.match(SQUARE, [0.5, 0.5], kl=0.1), r"each of the 5 keys its share; it has 2 numbers"),
    (lambda: design.match(SQUARE, [1.5, -0.5, 0, 0, 0], kl=0.1), r"must not be negative; key 1 has -0.5"),
    (lambda: design.match(SQUARE, [0.5, 0.4, 0, 0, 0], kl=0.1), r"must sum to 1; they sum to 0.9: divide them by that"),
    (
        lambda: design.match(SQUARE, np.full(5, 0.2), kl=0.1, allowed=[True] * 4 + [False]),
        r"gives attention to a key that the mask forbids",
    ),
    (lambda: design.copy([[1.0, math.nan]], 0, eps=0.1), r"keys: row 0, column 1 .* is nan"),
    (lambda: design.copy([1.0, 2.0], 0, eps=0.1), r"keys must have 2 dimensions"),
    (lambda: design.copy([[1.0], [2.0, 3.0]], 0, eps=0.1), r"rows of one length"),
    (lambda: design.copy(np.zeros((0, 3)), 0, eps=0.1), r"needs at least one number along every axis"),
    (lambda: design.copy(1e200 * SQUARE, 0, eps=0.1), r"too far apart \(2.0e\+200\): .* scale them down"),
    (lambda: design.ceiling(1e308 * SQUARE, 0), r"too far apart"),
    (lambda: design.copy(1e-200 * SQUARE, 0, eps=0.1), r"too close \(2.0e-200 apart\): .* scale them up"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_bad_questions_are_refused_in_one_sentence(ask, message):
    with pytest.raises(InputError, match=message) as caught:
        ask()
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_what_cannot_be_certified_is_said_so():
    keys = np.random.default_rng(0).standard_normal((120, 101))  # too many numbers for exact arithmetic
    keys[-1] = (keys[0] + keys[1]) / 2
    with pytest.raises(CouldNotFindOut, match=r"Key 119 is a corner .* norm 1\.78\d+e\+16 does; which is the shortest"):
        design.copy(keys, 119, eps=0.5)
    with pytest.raises(CouldNotFindOut, match=r"nor a proof .* the 120 keys are too many .* ask for a norm budget"):
        design.share(keys, [2, 119], eps=1e-14)
    target = np.random.default_rng(1).dirichlet(np.ones(120))
    with pytest.raises(CouldNotFindOut, match=r"norm 1e\+300 .* could not be pinned down to 1e-09 nats .* smaller max"):
        design.match(keys, target, max_norm=1e300)
    assert CouldNotFindOut.exit_code == 3


# keys that are hard to handle ---------------------------------------------------------------------------------------

RNG = np.random.default_rng(11)
CIRCLE = oracles.directions(2000)
GRID = np.stack(np.meshgrid(np.arange(7.0), np.arange(7.0)), axis=-1).reshape(-1, 2)
FAR = np.concatenate([RNG.standard_normal((11, 3)), [[1e6, 1e6, 1e6]]])
HARD = {
    "one key": np.array([[3.0, 4.0]]),
    "one key at the origin": np.zeros((1, 2)),
    "all zero": np.zeros((5, 3)),
    "all the same": np.full((5, 3), 0.1),
    "two on a line": np.array([[0.0], [1.0]]),
    "zero columns": np.concatenate([RNG.standard_normal((7, 2)), np.zeros((7, 3))], axis=1),
    "nearly the same": np.concatenate([RNG.standard_normal((5, 3)), [[1, 1, 1], [1 + 1e-9, 1, 1]]]),
    "one far away": FAR,
    "a big offset": RNG.standard_normal((11, 3)) + 1e8,
    "an offset of 1e15": RNG.integers(0, 50, (12, 3)) + 1e15,
    "tiny": 1e-8 * RNG.standard_normal((11, 3)),
    "tiny with an offset": 1e-8 * RNG.standard_normal((11, 3)) + 0.2,
    "huge": 1e8 * RNG.standard_normal((11, 3)),
    "1e130": 1e130 * RNG.standard_normal((11, 3)),
    "circle": CIRCLE,
    "grid": GRID,
    "few keys, many dimensions": RNG.standard_normal((3, 101)),
    "copies": np.repeat(RNG.standard_normal((5, 2)), 7, axis=0),
    "a line and a point": np.concatenate([np.outer(np.arange(39.0), [1, 1, 1]), [[5, 5, 6.5]]]),
    "a mean that is a key, twice": np.array([[1.0], [1.0], [0.0], [2.0]]),
    "a hair inside": np.array([[0, 0], [2, 0], [1, 1e-12], [1, 5.0]]),
    "a hair outside": np.array([[0, 0], [2, 0], [1, -1e-12], [1, 5.0]]),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_keys_get_an_answer(name):
    keys = HARD[name]
    n, rng = len(keys), np.random.default_rng(0)
    radius = 5 / (np.ptp(keys, axis=0).max() or 1)
    one, mixed = np.eye(n)[n // 2], rng.dirichlet(np.ones(n))
    asked = [
        lambda: design.copy(keys, n // 2, eps=0.01),
        lambda: design.copy(keys, n - 1, max_norm=radius),
        lambda: design.share(keys, [0, n - 1][: min(n, 2)], eps=0.01),
        lambda: design.share(keys, [0, n // 2][: 1 + (n > 1)], max_norm=radius),
        lambda: design.match(keys, one, kl=0.01),
        lambda: design.match(keys, mixed, max_norm=radius),
    ]
    refused = 0
    for ask in asked:
        try:
            found = ask()
        except CouldNotFindOut:
            refused += 1
            continue
        assert strict(found, keys)
        assert len(str(found)) > 100
        json.loads(found.to_json())
        if found.bound is not None and found.verb != "match":
            assert 0 <= found.bound <= 1
    assert refused == 0


@pytest.mark.parametrize("eps", [1e-300, 1e-310, 1e308])
def test_extreme_demands(eps):
    found = design.copy(np.eye(5), 2, eps=eps)
    expected = max(math.log(4) - math.log(eps), 0) * math.sqrt(4 / 5)
    assert found.norm == pytest.approx(expected, rel=1e-8)
    assert strict(found, np.eye(5))


def test_a_query_so_short_that_its_square_vanishes():
    """Two keys 1e140 apart, nearly equal shares: the query has norm about 1e-166, and its square is 0 in float64."""
    keys = 1e140 * np.eye(2)
    found = design.copy(keys, 0, eps=1 - 1e-16, scale=1e10)
    assert found.norm == pytest.approx(-math.log(1 - 1e-16) / math.sqrt(2) / 1e150, rel=1e-8)
    assert strict(found, keys)


def test_a_budget_nobody_needs():
    found = design.copy(np.eye(3), 0, max_norm=1e-300)
    assert found.attention == pytest.approx(1 / 3)
    assert design.copy(np.eye(3), 0, max_norm=1e12).attention == 1.0
    assert design.share(np.eye(3), [0, 1, 2], max_norm=2.0).attention == pytest.approx(1 / 3)


ODD = 2**53 + 1  # between two floats


@pytest.mark.parametrize(
    "ask",
    [
        lambda: design.ceiling([[2**53], [ODD], [0]], 1),
        lambda: design.ceilings(np.array([[2**53], [ODD], [0]]), [1]),
        lambda: design.copy([[ODD, 0.5], [0, 0]], 0, eps=0.1),
        lambda: design.copy([[1], [0]], 0, max_norm=ODD),
        lambda: design.copy([[1], [0]], 0, eps=10**400),
        lambda: design.copy([[1], [0]], 0, eps=0.1, scale=ODD),
        lambda: design.match([[1], [0]], [ODD, 0], kl=0.1),
        lambda: design.winnable([[ODD, 0.5], [0, 0]]),
    ],
)
def test_an_integer_that_float64_rounds_is_refused_by_every_verb(ask):
    with pytest.raises(InputError, match=r"there are integers beyond 2\^53 that float64 rounds, such as"):
        ask()


def test_shares_that_are_all_zero_are_not_to_be_divided_by_their_sum():
    with pytest.raises(InputError, match=r"they sum to 0: give some key a share\."):
        design.match([[1.0], [0.0]], [0.0, 0.0], kl=0.1)
    with pytest.raises(InputError, match=r"they sum to 2: divide them by that\."):
        design.match([[1.0], [0.0]], [1.0, 1.0], kl=0.1)

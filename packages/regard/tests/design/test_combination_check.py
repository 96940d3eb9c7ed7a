"""Weights that balance, enclosed: the exact solution lies in the enclosure, which is narrow; or there is no answer."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest

from regard import rigor
from regard.design.certificate import Balance, Certificate, Request, Statement, Verb, fingerprint
from regard.design.certificate_problem import CertificateProblem
from regard.design.combination_check import _independent_columns, combination_value, enclose_weights


def fractions(array):
    return [[Fraction(x) for x in row] for row in np.atleast_2d(array).tolist()]


def solved(rows, weights, basis, anchors, mixture):
    """The weights in the basis, exactly: so many columns as they need, from the first on, decide them."""
    rows, anchors, (weights,), (mixture,) = map(fractions, (rows, anchors, weights, mixture))
    fixed = [i for i in range(len(rows)) if i not in basis]
    table, right = [[1] * len(basis)], [1 - sum((weights[i] for i in fixed), Fraction(0))]
    for c in range(len(basis) - 1):
        table.append([rows[i][c] for i in basis])
        aim = sum(m * a[c] for m, a in zip(mixture, anchors, strict=True)) / sum(mixture)
        right.append(aim - sum((weights[i] * rows[i][c] for i in fixed), Fraction(0)))
    ball = [[flint.fmpq(Fraction(x).numerator, Fraction(x).denominator) for x in row] for row in table]
    sides = [[flint.fmpq(x.numerator, x.denominator)] for x in right]
    found = flint.fmpq_mat(ball).solve(flint.fmpq_mat(sides))
    return [Fraction(int(found[i, 0].p), int(found[i, 0].q)) for i in range(len(basis))]


def check(rows, weights, basis, anchors, mixture, *, width=1e-14):
    """The exact solution is in the enclosure, which is no wider than that; the other weights stay as they are."""
    rows, weights, anchors = np.array(rows, dtype=float), np.array(weights, dtype=float), np.array(anchors, dtype=float)
    found = enclose_weights(rows, weights, np.array(basis), anchors, np.array(mixture, dtype=float))
    assert found is not None
    mid, rad = found
    for i, exact in zip(basis, solved(rows, weights, basis, anchors, mixture), strict=True):
        assert abs(Fraction(float(mid[i])) - exact) <= Fraction(float(rad[i]))
        assert 0 < rad[i] <= width
    others = np.setdiff1d(np.arange(len(rows)), basis)
    assert mid[others].tolist() == weights[others].tolist()
    assert not rad[others].any()


TRIANGLE = [[4.0, -1], [-3, 5], [-1, -4], [2, 2], [9, 7]]


def test_ordinary_weights_are_solved_for():
    check(TRIANGLE, [0.5, 0.25, 0.25, 0.1, 0.0], [0, 1, 2], [[0.5, -0.25]], [1.0])
    check(TRIANGLE, [0.5, 0.25, 0.25, 0.1, 0.0], [0, 1, 2], [[0.5, -0.25]], [7.0])
    check(TRIANGLE, [0.1, 0.25, 0.25, 0.3, 0.0], [2, 1, 3], [[0.5, -0.25], [1, 1], [0, 1]], [1.0, 5.0, 3.0])


def test_an_offset_costs_nothing_where_it_can_be_taken_off():
    offset = np.array([2.0**30, -(2.0**31)])
    check(TRIANGLE + offset, [0.5, 0.25, 0.25, 0.1, 0.0], [0, 1, 2], [np.add(offset, [0.5, -0.25])], [1.0])
    check(TRIANGLE + offset, [0.5, 0.25, 0.2, 0.1, 0.0], [0, 1, 2], np.add(offset, [[0.5, -0.25], [1, 1]]), [1.0, 2.0])


@pytest.mark.parametrize("sign", [1, -1])
def test_the_quotients_of_a_mixture_are_paid_for(sign):
    """2/3 of 2^20 less the float 2/3 of it is some 1e-11, and looks like 0."""
    far = sign * 2.0**20
    check([[far], [1.0], [-1.0]], [2 / 3, 0.2, 0.1], [1, 2], [[0.0], [far]], [1.0, 2.0], width=2.0**-29)


@pytest.mark.parametrize("seed", range(8))
def test_the_sum_of_the_other_weights_is_paid_for(seed):
    """The basis lies 2^20 from the key, so that an error in the sum of the weights counts so many times."""
    weights = np.random.default_rng(seed).uniform(0.2, 0.24, 4)
    left, far = 1 - weights.sum(), 2.0**20
    rows = np.array([[-round(far * left / weights[0])], [0], [0], [0], [far + 1e5], [far - 1e5]])
    check(rows, [*weights, left / 2, left / 2], [4, 5], [[0.0]], [1.0])


@pytest.mark.parametrize("seed", range(8))
def test_a_right_side_that_is_rounded_is_paid_for(seed):
    """Both of its coordinates are near 2^19 and rounded; the third weight hangs on their difference alone."""
    weight = np.random.default_rng(seed).uniform(0.3, 0.4)
    far = 2.0**20 + 3
    at = round(far * weight / (1 - weight))
    rows = [[-far, -far - 1], [at - 4, at - 4], [at + 4, at + 4], [at + 1, at - 1]]
    check(rows, [weight, 0.2, 0.2, 0.3], [1, 2, 3], [[0.0, 0.0], [2.0, 0.0]], [1.0, 1.0], width=1e-9)


@pytest.mark.parametrize("coordinate", [0, 1])
def test_a_shift_that_loses_digits_is_not_made(coordinate):
    """A flat triangle about the key: digits lost across it count 2^20 times in the weight of its third corner."""
    key, along, across = np.array([1.0, 2.0]), np.array([0.9, 1.7]), 2.0**-20 * np.array([1.7, -0.9])
    if coordinate:
        key, along, across = key[::-1], along[::-1], across[::-1]
    rows = np.array([key - along - across, key + along - across, key + across])
    assert (rows[0] - key + key != rows[0]).any()
    check(rows, [0.25, 0.25, 0.5], [0, 1, 2], [key], [1.0], width=1e-10)


def test_cancelling_sums_are_made_with_care():
    """Of the fixed rows only 1/4 remains where 2^40 is added and taken off; the basis is 2^-10 wide."""
    far, thin = 2.0**40, 2.0**-10
    rows = [[far / 3, 0], [-far / 3, thin], [0, thin], [0.0, -thin], [thin, -thin]]
    check(rows, [0.25, 0.25, 0.2, 0.2, 0.1], [2, 3, 4], [[thin / 64, 0.0]], [1.0], width=1e-9)


def test_small_and_large_coordinates():
    for scale in (2.0**-40, 3e-12, 2.0**40, 7e12):
        rows = np.array(TRIANGLE) * [scale, 1]
        check(rows, [0.5, 0.25, 0.2, 0.1, 0], [0, 1, 2], [[0.5 * scale, -0.25], [scale, 1]], [1.0, 2.0])


@pytest.mark.parametrize(
    ("rows", "weights", "basis", "anchor"),
    [
        ([[1.0], [2.0]], [0.5, 0.5], [0, 1], [0.0]),  # outside
        ([[1.0], [2.0]], [0.5, 0.5], [0, 1], [1.0]),  # a weight of 0 is not positive
        ([[1.0], [-1.0], [3.0]], [0.2, 0.2, 0.6], [0, 1], [0.0]),  # one of the two must be negative
        ([[1.0], [1.0]], [0.5, 0.5], [0, 1], [1.0]),  # not decided
        ([[1.0], [-1.0]], [0.5, 0.5], [0], [0.0]),  # too few to solve for
        ([[1.0, 0.0], [-1.0, 0.0]], [0.5, 0.5], [0, 1], [0.0, 1.0]),
    ],
)
def test_what_does_not_balance(rows, weights, basis, anchor):
    given = np.array(rows), np.array(weights), np.array(basis), np.array([anchor]), np.ones(1)
    assert enclose_weights(*given) is None


@pytest.mark.parametrize(("rad", "positive"), [([0.5, 0.0], False), ([0.25, 0.25], True)])
def test_a_weight_that_may_be_nothing_is_not_called_positive(rad, positive, monkeypatch):
    monkeypatch.setattr(rigor, "solve_enclosure", lambda *_: (np.array([0.5, 0.5]), np.array(rad)))
    found = enclose_weights(np.array([[1.0], [-1.0]]), np.ones(2), np.arange(2), np.zeros((1, 1)), np.ones(1))
    assert (found is not None) is positive


def test_columns_that_follow_from_others_are_left_out():
    line = np.array([[-1.0, 5, 3, 0], [1, 5, 7, 0.5], [3, 5, 11, 0.25]])  # the second is constant, the third 2 x + 5
    assert _independent_columns(line, 2) == [0, 3]
    assert _independent_columns(line[:, :3], 1) == [0]
    assert _independent_columns(line[:, 1:3], 1) == [1]
    for wanted in (0, 1, 3):
        assert _independent_columns(line, wanted) is None
    assert _independent_columns(np.zeros((100_001, 2)), 0) is None  # would take too long
    check(line[:, :3], [0.3, 0.3, 0.25], [0, 1], [[0.5, 5, 6]], [1.0])


def problem(rows, verb, **about):
    demand = {"kl": 0.1} if verb is Verb.MATCH else {"eps": 0.5}
    given = Certificate(
        question=Request(verb=verb, **about, **demand), claim=Statement.UNREACHABLE, scale=1.0, allowed=None,
        shape=rows.shape, sha256=fingerprint(rows),
    )  # fmt: skip
    return CertificateProblem(given, rows, True)


def just_below(value, number):
    with flint.ctx.workprec(200):
        exact = flint.arb(number).log()
        return bool(exact - flint.arb(1e-14) < flint.arb(value) < exact)


def test_the_entropy_of_balanced_weights_from_below():
    keys = np.array([[0.0], [1.0], [-1.0], [8.0]])
    asked = problem(keys, Verb.COPY, keys=(0,))
    for weights, basis in (([0.4, 0.6, 0.0], (0, 1)), ([0.4, 0.6, 0.0], (0, 1, 2))):  # the last has no weight
        assert just_below(
            combination_value(asked, Balance(weights=np.array(weights), mixture=np.ones(1), basis=basis), None), 2
        )
    outside = Balance(weights=np.array([0.4, 0.0, 0.6]), mixture=np.ones(1), basis=(0, 2))
    assert combination_value(asked, outside, None) is None
    shared = problem(keys, Verb.SHARE, keys=(1, 2))
    even = Balance(weights=np.array([0.0, 0.4, 0.6, 0.0]), mixture=np.array([3.0, 3.0]), basis=(1, 2))
    assert just_below(combination_value(shared, even, None), 2)


def test_only_the_keys_that_are_kept_take_part():
    keys = np.array([[0.0], [0.0], [1.0], [-1.0]])
    asked = problem(keys, Verb.COPY, keys=(0,))
    balance = Balance(weights=np.array([0.0, 0.4, 0.6]), mixture=np.ones(1), basis=(0, 1))  # among those kept
    assert just_below(combination_value(asked, balance, np.array([False, True, True])), 2)
    assert combination_value(asked, balance, None) is None


def test_the_mean_of_a_target_is_that_of_the_keys_with_a_share():
    """Key 1 is the mean of keys 0 and 2; key 3, without a share, is not on their line."""
    keys = np.array([[0.0, 0], [1, 0], [2, 0], [0, 1]])
    asked = problem(keys, Verb.MATCH, target=np.array([0.0, 1.0, 0.0, 0.0]))
    balance = Balance(weights=np.array([0.4, 0.0, 0.6, 0.0]), mixture=np.zeros(0), basis=(0, 2))
    assert just_below(combination_value(asked, balance, None), 2)
    asked = problem(keys, Verb.MATCH, target=np.array([0.25, 0.25, 0.5, 0.0]))
    value = combination_value(asked, balance, None)  # the mean is 1.25
    assert value == pytest.approx(-(0.375 * math.log(0.375) + 0.625 * math.log(0.625)), rel=1e-14)

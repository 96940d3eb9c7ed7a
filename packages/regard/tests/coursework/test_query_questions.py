"""Rulings on queries: what is in the balls, and on which side of the bound an answer fails."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest

from regard.coursework.catalogue import claims
from regard.coursework.query_questions import (
    ENCLOSED,
    _relative_room,
    compare_with_shortest,
    enclosed_scores,
    norm_ruling,
    orthonormal_rows,
    query_instance,
    share_ruling,
    sharp_precision,
)
from regard.coursework.question import Size
from regard.rigor import balls

N, EXTRA, EPS = claims["average-of-two"].question.sizes


@pytest.mark.parametrize("size", [N, EXTRA, EPS])
def test_sizes_are_allowed_and_different(size: Size) -> None:
    assert len(set(size.ladder)) == len(size.ladder)
    for value in (*size.ladder, *(size.reach or ())):
        size.parameter.parse_value(value, "a question")
    if size.whole:
        assert list(size.ladder) == sorted(size.ladder)
        assert size.ladder[0] == size.parameter.least  # the simplest comes first
    if size.reach is not None:
        assert size.reach[0] <= min(size.ladder) <= max(size.ladder) <= size.reach[1]


def test_counts_are_whole() -> None:
    assert [size.whole for size in (N, EXTRA, EPS)] == [True, True, False]


def test_unit_vectors_have_no_negative_zeros() -> None:
    for latent in (np.eye(3), -np.eye(3)):
        keys = orthonormal_rows(latent, 3, 0)
        assert np.array_equal(keys, latent)
        assert not np.signbit(keys[keys == 0]).any()
    assert np.array_equal(orthonormal_rows(np.zeros((2, 2)), 2, 0), np.eye(2))


@pytest.mark.parametrize(("n", "extra"), [(1, 0), (2, 0), (3, 2), (7, 1)])
def test_rows_are_orthonormal_and_their_signs_are_settled(n: int, extra: int) -> None:
    latent = np.random.default_rng(n).standard_normal((12, 12))
    keys = orthonormal_rows(latent, n, extra)
    assert keys.shape == (n, n + extra)
    np.testing.assert_allclose(keys @ keys.T, np.eye(n), atol=1e-14)
    assert (np.diag(keys @ latent[: n + extra, :n]) > 0).all()  # else they would hang on the library's choice
    assert np.array_equal(query_instance(latent, n=n, extra=extra, eps=0.5).given["keys"], keys)
    assert query_instance(latent, n=n, extra=extra, eps=0.5).given["eps"] == 0.5


@pytest.mark.parametrize(
    ("n", "eps"), [*((n, eps) for n in (1, 2, 200) for eps in (1e-300, 1e-12, 0.5)), (2**200, 0.5)]
)
def test_small_demands_are_told_apart_from_none(n: int, eps: float) -> None:
    with sharp_precision(n, eps):
        small = (flint.arb(eps) / n) ** 4
        assert 1 + small > 1
        assert flint.ctx.prec >= 256


def test_scores_are_those_of_the_floats_as_they_are() -> None:
    rng = np.random.default_rng(3)
    keys, query = rng.standard_normal((4, 6)), rng.standard_normal(6)
    with balls.precise():
        scores = enclosed_scores(query, keys)
        for row, score in zip(keys.tolist(), scores, strict=True):
            exact = sum((Fraction(x) * Fraction(y) for x, y in zip(row, query.tolist(), strict=True)), Fraction(0))
            assert score.contains(flint.arb(flint.fmpq(exact.numerator, exact.denominator)))
            assert float(score.rad()) < 1e-30


def sharing(n: int, s: int, total: float) -> np.ndarray:
    """The query on unit keys under which the others' exponentials, relative to a chosen key's, sum to this."""
    return np.where(np.arange(n) < s, math.log((n - s) / total), 0.0)


@pytest.mark.parametrize(("n", "s", "eps"), [(3, 1, 0.1), (5, 2, 0.01), (10, 3, 1e-6)])
def test_the_room_is_what_is_left_of_eps(n: int, s: int, eps: float) -> None:
    chosen = list(range(s))
    for part in (0.25, 0.5, 0.999, 1.001, 2.0):
        ruling = share_ruling(sharing(n, s, part * eps), np.eye(n), chosen, eps)
        assert ruling.room == pytest.approx(1 - part, abs=2e-9 + 2e-12 / eps)
        assert ruling.fails == (part > 1)
    assert "1e-9 eps + 1e-12" in ENCLOSED
    at_the_edge = eps * (1 + 1e-9) + 1e-12
    for nudge in (-1e-11, 1e-11):
        assert share_ruling(sharing(n, s, at_the_edge * (1 + nudge)), np.eye(n), chosen, eps).fails == (nudge > 0)


def test_the_key_that_gets_least_is_named() -> None:
    keys = np.eye(4)
    for least in (0, 1, 2):
        query = np.array([3.0, 3.0, 3.0, 0.0])
        query[least] = 2.0
        said = share_ruling(query, keys, [0, 1, 2], 0.1, where=" here").said
        weight = math.exp(query[least]) / np.exp(query).sum()
        assert said.startswith(f"alpha_{least} = {weight:.6g} is below 1/(3+eps) = {1 / 3.1:.6g}")
        assert said.endswith(" here")


def test_of_equals_the_first_is_named() -> None:
    assert share_ruling(np.array([1.0, 1.0, 0.0]), np.eye(3), [1, 0], 0.1).said.startswith("alpha_1 = ")
    assert share_ruling(np.array([1.0, 1.0, 0.0]), np.eye(3), [0, 1], 0.1).said.startswith("alpha_0 = ")


def test_what_an_enclosure_leaves_open_is_decided_for_the_answer() -> None:
    with balls.precise():
        assert _relative_room(flint.arb(0.1, 0.05), 1, 0.1, 1.0) == pytest.approx(0.5, abs=1e-7)
        assert _relative_room(flint.arb(2.1, 0.05), 3, 0.1, 1.0) == pytest.approx(0.5, abs=1e-7)


@pytest.mark.parametrize("length", [3 * math.log(2e200), 1e6])
def test_a_long_query_is_not_refused_for_the_rounding_of_its_keys(length: float) -> None:
    """Equal multiples of both keys are right for every eps; a factor of 1 + 1e-8 on one of them is not at 1e6."""
    keys = orthonormal_rows(np.random.default_rng(2).standard_normal((2, 2)), 2, 0)
    ways = [np.array([math.cos(t), math.sin(t)]) for t in np.linspace(0, 6, 50)]
    for turned in (np.stack([way, way[::-1] * [-1, 1]]) for way in ways):
        assert not share_ruling(length * (turned[0] + turned[1]), turned, [0, 1], 1e-200).fails
    assert share_ruling(1e6 * (keys[0] + (1 + 1e-8) * keys[1]), keys, [0, 1], 1e-3).fails


def test_a_query_without_numbers_fails_and_gets_nothing() -> None:
    for query in ([math.nan, 0.0], [math.inf, 0.0]):
        ruling = share_ruling(np.array(query), np.eye(2), [0], 0.1)
        assert ruling.fails
        assert ruling.room == -math.inf
        assert "alpha_0 = 0 is below" in ruling.said


def test_a_norm_is_held_against_the_budget() -> None:
    query = np.array([3.0, 4.0])
    assert not norm_ruling(query, 5.0, "B").fails
    assert norm_ruling(query, 5.0 * (1 - 3e-9), "B").fails
    assert norm_ruling(query, 10.0, "B").room == pytest.approx(0.5, abs=2e-9)
    assert "its norm 5 is above the budget B = 4" in norm_ruling(query, 4.0, "B").said


def test_against_the_shortest_query() -> None:
    keys, eps = np.eye(4), 0.02
    best = compare_with_shortest(sharing(4, 2, eps), keys, [0, 1], eps)
    assert best is not None
    assert best.yours == pytest.approx(math.sqrt(2) * math.log(2 / eps))
    assert best.best == pytest.approx(math.log(2 / eps))  # T sqrt(s (n - s) / n)
    assert compare_with_shortest(np.zeros(4), keys, [0, 1, 2, 3], eps) is None
    near = compare_with_shortest(sharing(4, 2, eps) / 10, 10 * keys, [0, 1], eps)
    assert near is not None
    assert near.best == pytest.approx(math.log(2 / eps) / 10)
    assert compare_with_shortest(np.zeros(1), np.ones((3, 1)), [0], eps) is None  # no query does it

"""One head against two: the heads one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from regard import noise
from regard.errors import CouldNotFindOut
from regard.noise.comparison import head_variances


@pytest.mark.parametrize(("keys", "spread", "iso", "scale"), [(5, 0.5, 0.01, 20.0), (3, 0.3, 0.1, 4.0)])
def test_the_variance_of_each_head_against_draws(keys: int, spread: float, iso: float, scale: float) -> None:
    rng, count = np.random.default_rng(0), 200_000
    length = 1 + np.sqrt(spread + iso) * rng.standard_normal(count)
    for head in (0, 1):
        scores = scale * np.sqrt(iso) * rng.standard_normal((count, keys))
        scores[:, head] += scale
        if head == 0:
            scores[:, 0] = scale * length
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights = raised / raised.sum(axis=1, keepdims=True)
        for found, drawn in zip(
            head_variances(keys, spread, iso, scale, head), (weights, weights[length > 0]), strict=True
        ):
            away = ((drawn - drawn.mean(axis=0)) ** 2).sum(axis=1)
            assert found == pytest.approx(away.mean(), abs=6 * away.std() / np.sqrt(len(drawn)) + 1e-8)


def test_both_are_said() -> None:
    found = noise.compare(keys=3, spread=0.5, iso=0.01, scale=20.0)
    (first, second), (kept, other) = found.head_variances, found.head_variances_given_positive
    assert first > kept > second == other
    said = f"Head by head: Var c₁ = {first:.3g} and Var c₂ = {second:.3g}; without the draws with k₀·μ₀ < 0"
    assert said in found.details()
    assert found.to_dict()["head_variances"] == [first, second]


def test_without_a_negative_draw_nothing_is_left_out() -> None:
    every, kept = head_variances(4, 0.001, 0.0001, 20.0, 0)
    assert every == pytest.approx(kept, rel=1e-9)


def test_the_limit_of_the_first_head() -> None:
    """1 - (1 - p)^2 - p^2/(n - 1), once the noise separates the others' scores; without the negative draws nothing."""
    n, p = 4, noise.negative_score(1e-4, 0.5)
    every, kept = head_variances(n, 0.5, 1e-4, 2000.0, 0)
    assert every == pytest.approx(1 - (1 - p) ** 2 - p**2 / (n - 1), abs=0.01)
    assert kept < 0.01


@pytest.mark.parametrize("scale", [5600.0, 1e6, 1e40])
def test_scores_too_wide_for_the_integrals_are_refused_at_once(scale: float) -> None:
    with pytest.raises(CouldNotFindOut, match=r"too wide for the integrals.*nothing is said.*at most 5500"):
        noise.compare(scale=scale)


def test_without_noise_every_scale_is_counted() -> None:
    found = noise.compare(scale=1e8, spread=0.0, iso=0.0)
    assert found.one.error == 0
    assert found.two.error == 0


def test_little_noise_at_a_scale_beyond_float64_is_refused_for_that_reason() -> None:
    with pytest.raises(CouldNotFindOut, match=r"At scale 2e\+06 the scores are rounded too coarsely.*at most 990000"):
        noise.compare(scale=2e6, spread=0.0, iso=1e-14)


@pytest.mark.parametrize("iso", [1e-12, 1e-13, 1e-20])  # the error of two heads comes out as 6e-31, 0 and 6e-33
def test_no_ratio_is_made_of_rounding(iso: float) -> None:
    found = noise.compare(scale=1e6, spread=0.0, iso=iso)
    assert re.search(r"more than \d+e\+\d+ x steadier here: E‖c - target‖² is at most \d+e-1\d with two", str(found))
    times = float(re.search(r"more than (\S+) x", str(found))[1])
    assert times <= found.one.error / (found.two.error + found.two.error_accuracy)


def test_other_scales_are_compared_as_far_as_the_integrals_go() -> None:
    found = noise.compare(keys=2, scale=1.0, spread=1e6, iso=0.01)
    assert found.scales.tolist() == [1.0, 2.0, 3.0]

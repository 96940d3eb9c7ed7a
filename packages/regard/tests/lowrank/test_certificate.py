"""Enclosures of singular values from factors that are not right: every way of being wrong is paid for."""

from __future__ import annotations

import math

import flint
import numpy as np
import pytest

from regard.lowrank.certificate import _enclose, _skewness, certify, residual_above
from regard.rigor.floats import U
from regard.rigor.matrices import PAY, difference, gram

VALUES = np.array([2.0, -3.0])  # signs and order are the caller's: what is enclosed is sorted
BEST = np.array([3.0, 2.0])


@pytest.mark.parametrize(
    ("given", "lower", "upper"),
    [
        ({"residual": 0.25}, BEST - 0.25, BEST + 0.25),
        ({"left": 0.19}, BEST * 0.9, BEST * math.sqrt(1.19)),
        ({"right": 0.19}, BEST * 0.9, BEST * math.sqrt(1.19)),
        ({"left": math.inf, "coupling": 3.0}, np.sqrt([6.0, 1.0]), np.sqrt([12.0, 7.0])),
        ({"left": 0.19, "coupling": math.inf}, BEST * 0.9, BEST * math.sqrt(1.19)),
        ({"left": 0.5, "coupling": 0.5}, np.sqrt([8.5, 3.5]), np.sqrt([9.5, 4.5])),
        ({"right": 1.5, "residual": 0.25}, np.zeros(2), BEST * math.sqrt(2.5) + 0.25),
        ({"residual": 5.0}, np.zeros(2), BEST + 5),
    ],
)
def test_the_enclosure_is_weyls_and_ostrowskis(given, lower, upper):
    asked = {"residual": 0.0, "left": 0.0, "right": 0.0, "coupling": 0.0} | given
    if "left" in given and "coupling" not in given:
        asked["coupling"] = math.inf
    low, high = _enclose(VALUES, **asked)
    assert low == pytest.approx(lower, rel=1e-14)
    assert high == pytest.approx(upper, rel=1e-14)
    assert np.all(low <= lower)
    assert np.all(high >= upper * (1 - 2 * U))


def test_nothing_is_proved_to_be_zero():
    low, high = _enclose(np.zeros(2), 0.0, 0.0, 0.0, 0.0)
    assert np.all(low == 0)
    assert np.all(high > 0)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(("stretch", "side"), [(1.5, "left"), (0.75, "left"), (1.5, "right"), (0.75, "right")])
def test_factors_that_are_not_orthonormal(stretch, side, quick):
    """U or V a multiple of the identity: the singular values are known, and so is each figure."""
    sizes, eye = np.array([4.0, 2.0]), np.eye(2)
    factors = {"left": eye, "right": eye} | {side: stretch * eye}
    proof = certify(factors["left"], sizes, factors["right"], residual=0.0, quick=quick)
    assert np.all(proof.lower <= stretch * sizes)
    assert np.all(stretch * sizes <= proof.upper)
    off = abs(stretch**2 - 1) * math.sqrt(2)
    assert (proof.left, proof.right)[side == "right"] == pytest.approx(off, rel=1e-8)
    assert (proof.left, proof.right)[side == "right"] >= off
    if side == "left":
        assert proof.coupling == pytest.approx(abs(stretch**2 - 1) * math.hypot(16, 4), rel=1e-8)


def test_the_rounding_of_a_quick_product_is_in_every_figure():
    """Where the factors are orthonormal, it is all that there is."""
    eye, sizes = np.eye(3), np.array([-8.0, 2.0, 1.0])  # the longest is negative
    slack = (gram(eye)[1] + 4 * U * 3) * PAY
    assert _skewness(eye, True)[1] == pytest.approx(slack, rel=1e-12, abs=0)
    proof = certify(eye, sizes, eye, residual=0.0, quick=True)
    for figure, least in ((proof.left, slack), (proof.right, slack), (proof.coupling, 64 * slack)):
        assert least <= figure <= least * (1 + 1e-8)


def test_the_quick_skewness_is_the_whole_symmetric_matrix():
    vectors = np.random.default_rng(2).standard_normal((7, 3))
    gap, slack = _skewness(vectors, True)
    assert np.abs(gap - (np.eye(3) - vectors.T @ vectors)).max() <= 2 * slack


def test_the_residual_counts_rounding_of_products_and_of_halves():
    eye, ones = np.eye(3), np.ones(3)
    slack = difference(eye, eye, eye, quick=True)[1]
    for off in (0.0, 2.0**-51):
        stated = residual_above(((1 + off) * eye,), eye, ones, eye, quick=True)
        least = off * math.sqrt(3) + slack + 4 * U * 3
        assert least <= stated
        assert stated == pytest.approx(least, rel=1e-8 if not off else 0.2, abs=0)  # the slack grows a little with it


def test_the_residual_reads_every_block_of_rows():
    """65 rows of 2^16 numbers come in two blocks; the second one is wrong."""
    left, right = np.zeros((65, 1)), np.zeros((2**16, 1))
    left[0] = right[0] = 1.0
    matrix = np.zeros((65, 2**16))
    matrix[0, 0], matrix[64, 7] = 1.0, 5.0
    assert residual_above((matrix,), left, np.ones(1), right, quick=True) >= 5.0


def test_the_enclosure_is_rounded_outwards():
    """Against balls: among so many draws, roots and products are rounded both ways."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        s, left, right, coupling = rng.uniform(0.1, 0.9, 4)
        residual = 0.01 * s
        low, high = (float(x[0]) for x in _enclose(np.array([s]), residual, left, right, coupling))
        with flint.ctx.workprec(200):
            s, left, right, coupling, residual = map(flint.arb, (s, left, right, coupling, residual))
            least = max((s * s * (1 - left), s * s - coupling), key=lambda x: float(x.mid()))
            most = min((s * s * (1 + left), s * s + coupling), key=lambda x: float(x.mid()))
            below, above = (least * (1 - right)).sqrt() - residual, (most * (1 + right)).sqrt() + residual
            assert not flint.arb(low) > below
            assert not flint.arb(high) < above

"""Every claim over the ranges that it declares: always a verdict, and never a number that cannot be."""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from fractions import Fraction

import numpy as np
import pytest

from regard import design
from regard.coursework.averaging import designed_error
from regard.coursework.catalogue import claims
from regard.coursework.claims import one_head_swings, the_bisector
from regard.coursework.parameters import Parameter
from regard.coursework.verdict import Status
from regard.errors import InputError

HEAVY = {"heads-summary", "two-heads-average", "two-heads-steady", "small-noise-keeps-the-average", "one-head-swings"}
LENGTHY = {"positions-are-distinct", "positions-restore-order"}  # seconds at their ends
NAMES = [name for name in claims if claims[name].topic != "translator" and claims[name].parameters]
MOST_SECONDS = 600.0  # of the processor; about 13 are needed for the slowest here, on a fast one

PROBABILITY = re.compile(r"(?:probability|P\([^)]*\)(?: >=| <=| is)?) (-?\d[\d.]*(?:e[+-]?\d+)?)(%?)")
NEVER_NEGATIVE = re.compile(r"(?:variance|error|square|distance|norm)(?: is| of| at most)? (-\d[\d.]*(?:e[+-]?\d+)?)")


def ends(parameter: Parameter) -> tuple[float, float]:
    """The least and the largest number that the rule lets through; next to a bound that is not included."""
    p = parameter
    low = p.least if p.least is not None else 1e-300 if p.above == 0 else math.nextafter(p.above, math.inf)
    high = p.most if p.most is not None else math.nextafter(p.below, -math.inf)
    return (int(low), int(high)) if p.whole or p.even else (low, high)


def drawn(parameter: Parameter, rng: np.random.Generator) -> float:
    """Log-uniform where the range is positive, else uniform."""
    low, high = ends(parameter)
    value = float(np.exp(rng.uniform(np.log(low), np.log(high))) if low > 0 else rng.uniform(low, high))
    step = 2 if parameter.even else 1
    return min(max(step * round(value / step), low), high) if parameter.whole or parameter.even else value


def settings(name: str, *, draws: int, corners: bool) -> list[dict[str, float]]:
    known, rng = claims[name].parameters, np.random.default_rng(0)
    sized = [p for p in known if p.name != "seed"]  # which has ends, but none that makes a case harder
    found = [{p.name: end} for p in known for end in ends(p)]
    if corners and len(sized) > 1:  # of one parameter the ends are the corners
        found += [
            {p.name: value for p, value in zip(sized, corner, strict=True)}
            for corner in itertools.product(*map(ends, sized))
        ]
    return found + [{p.name: drawn(p, rng) for p in known} for _ in range(draws)]


def checked(name: str, setting: dict[str, float]) -> None:
    start = time.process_time()
    try:
        found, proof = claims[name].check(**setting), str(claims[name].proof(**setting))
    except InputError as error:  # numbers that do not fit together
        if "choose" not in str(error):
            raise
        return
    assert time.process_time() - start < MOST_SECONDS, (name, setting)
    said = " ".join(f"{found} {proof}".split())
    assert not re.search(r"\b(nan|inf)\b", said), (name, setting, said)
    assert "did not decide" not in said, (name, setting, said)
    assert found.status is not Status.UNDECIDED
    chances = [float(p) / (100 if percent else 1) for p, percent in PROBABILITY.findall(said)]
    assert all(0 <= p <= 1 for p in chances), (name, setting, said)
    assert not NEVER_NEGATIVE.findall(said), (name, setting, said)
    assert all(math.isfinite(value) for verdict in found.verdicts for value in verdict.numbers.values())
    json.loads(found.to_json())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_verdict_at_every_corner(name: str) -> None:
    for setting in settings(name, draws=2 if name in HEAVY | LENGTHY else 8, corners=len(claims[name].parameters) <= 3):
        checked(name, setting)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HEAVY))
def test_a_verdict_under_any_noise_of_few_keys(name: str) -> None:
    """The number of keys is what takes time: with three the ends of the noise are cheap."""
    for setting in settings(name, draws=2, corners=False):
        if "n" not in setting or len(setting) > 1:
            checked(name, {**setting, "n": 3})


# what was false once


def test_peaks_are_solved_to_the_last_digit() -> None:
    found = claims["one-head-swings"].check(scale=2, spread=0.500025, iso=1e-12)
    assert "the odds of a against b are e^0.024495 and e^-0.024495." in " ".join(str(found).split())
    assert "variance 2 + 0.0001, more than 2" in " ".join(str(found).split())
    assert "2 > 2" not in str(found)
    for beyond in (1e-300, 1e-30, 1e-12, 1e-4, 0.1, 1.0, 10.0, 1e3, 1e14):
        y = one_head_swings._peak(Fraction(beyond)) / 2
        small = y**2 / 3 - y**4 / 45 + 2 * y**6 / 945  # y coth y - 1, where that would lose every digit
        assert (small if y < 0.01 else y / math.tanh(y) - 1) == pytest.approx(beyond / 2, rel=1e-10)


@pytest.mark.parametrize(
    ("spread", "peaks"), [(0.5, True), (math.nextafter(0.5, 1), True), (math.nextafter(0.5, 0), False)]
)
def test_one_peak_or_two_is_decided_exactly(spread: float, peaks: bool) -> None:
    """T^2 (spread + 4a) is 2 + 2^-76 at spread 1/2: in float64 that is 2."""
    verdict = one_head_swings.two_peaks(n=10, iso=2**-80, scale=2.0, spread=spread)
    assert (verdict.status is Status.HOLDS) == peaks


def test_no_probability_is_negative() -> None:
    text = str(claims["one-head-swings"].proof(n=200, iso=10))
    assert "P(alpha_a > 0.9) is between 0 and 0.4931" in " ".join(text.split())


def test_no_square_is_negative() -> None:
    for iso, scale in itertools.product((1e-12, 1e-6, 1e-3), (5.0, 20.0, 100.0, 1e4)):
        assert designed_error(10, iso=iso, scale=scale, heads=2)[0] >= 0


@pytest.mark.parametrize("eps", [1e-9, 1e-20, 1e-39, 1e-100, 1e-200])
def test_the_bisector_is_refuted_however_small_eps_is(eps: float) -> None:
    for n in (3, 10, 10**9):
        found = claims["the-bisector"].check(n=n, eps=eps)
        assert [verdict.status for verdict in found.verdicts] == [Status.REFUTED, Status.REFUTED, Status.HOLDS]
        assert "leaves the others 0 against" not in str(found)


def test_the_shortest_of_three_is_the_solvers() -> None:
    found = design.share(np.eye(3), [0, 1], eps=0.01).query
    assert the_bisector._shortest_of_three(0.01).startswith(f"({', '.join(f'{x:.4g}' for x in found)})")


@pytest.mark.parametrize("eps", [1e-6, 1e-10, 1e-12, 1e-100])
def test_a_solver_that_gives_up_does_not_end_a_claim(eps: float) -> None:
    assert claims["average-within-budget"].check(eps=eps).status is Status.HOLDS


def test_a_tilt_that_does_no_harm_here_is_said_to_do_none() -> None:
    verdict = claims["average-of-two"].check(n=2, eps=0.9, tilt=1).verdicts[0]
    assert verdict.because == "At this eps q = T (k_a + 0 k_b) does it too, with T = 0."

"""Every claim over the ranges that it declares: always a verdict, and never a number that cannot be."""

from __future__ import annotations

import contextlib
import decimal
import itertools
import json
import math
import re
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from regard import design
from regard.coursework.adversary import Attack
from regard.coursework.catalogue import claims
from regard.coursework.claims import (
    average_within_budget,
    copying_within_budget,
    one_head_swings,
    singular_tail,
    small_noise_keeps_the_average,
    the_bisector,
)
from regard.coursework.query_questions import designed_error
from regard.coursework.question import Parameter
from regard.coursework.verdict import Status
from regard.errors import InputError
from regard.notation import without_marks
from tiers import NIGHTLY, sampled

HEAVY = {"heads-summary", "two-heads-average", "two-heads-steady", "small-noise-keeps-the-average", "one-head-swings"}
LENGTHY = {"positions-are-distinct", "positions-restore-order"}  # seconds at their ends
NAMES = [name for name in claims if claims[name].topic != "translator" and claims[name].parameters]
MOST_SECONDS = 600.0  # of the processor; about 13 are needed for the slowest here, on a fast one

PROBABILITY = re.compile(r"(?:probability|P\([^)]*\)(?: >=| <=| is)?) (-?\d[\d.]*(?:e[+-]?\d+)?)( ?%|)")
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
@pytest.mark.parametrize("name", sampled(NAMES, every=5, others=NIGHTLY))
def test_a_verdict_at_every_corner(name: str) -> None:
    for setting in settings(name, draws=2 if name in HEAVY | LENGTHY else 8, corners=len(claims[name].parameters) <= 3):
        checked(name, setting)


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(sorted(HEAVY), every=3, others=NIGHTLY))
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
    verdict = one_head_swings.check_two_peaks(n=10, iso=2**-80, scale=2.0, spread=spread)
    assert (verdict.status is Status.HOLDS) == peaks


def test_no_probability_is_negative() -> None:
    text = str(claims["one-head-swings"].proof(n=200, iso=10))
    assert "P(α_a > 0.9) is between 0 and 0.4932" in " ".join(text.split())


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


def test_a_tilt_does_no_harm_to_two_keys() -> None:
    verdict = claims["average-of-two"].check(n=2, eps=0.9, tilt=1).verdicts[0]
    assert verdict.status is Status.HOLDS
    assert without_marks(verdict.because) == "With two keys T = 0 does it, whatever the tilt: both weights are 1/2."


# rounding decides nothing: every verdict against what is true, in fractions, at numbers where floats would err

TRUE, FALSE = Status.HOLDS, Status.REFUTED


def truth(holds: bool) -> Status:
    return TRUE if holds else FALSE


# claim and reading, and whether it is true of these parameters, worked out by hand and decided in fractions
TRUTHS: dict[tuple[str, int], Callable[..., Status]] = {
    ("average-of-two", 0): lambda n, tilt, **_: truth(tilt == 0 or n == 2),
    ("average-within-budget", 0): lambda factor, **_: truth(factor * factor >= 2),
    ("average-within-budget", 1): lambda **_: TRUE,
    ("average-within-budget", 2): lambda **_: FALSE,
    ("copying-condition", 0): lambda shift, **_: truth(shift >= 0),
    ("copying-condition", 1): lambda shift, **_: truth(shift <= 0),
    ("copying-condition", 2): lambda n, **_: truth(n == 2),
    ("copying-output", 0): lambda factor, **_: truth(factor >= 1),
    ("copying-output", 1): lambda **_: FALSE,
    ("copying-within-budget", 0): lambda factor, **_: truth(factor >= 2),
    ("never-exactly-the-average", 0): lambda n, **_: truth(n > 2),
    ("the-bisector", 0): lambda **_: FALSE,
    ("the-bisector", 1): lambda n, **_: truth(n == 2),
    ("the-bisector", 2): lambda **_: TRUE,
    ("one-head-swings", 1): lambda iso, scale, spread, **_: truth(scale**2 * (spread + 4 * iso) > 2),
    ("one-head-two-point-noise", 0): lambda n, eps, delta: truth(n * delta**2 >= eps * (1 - delta) ** 2),
    ("one-head-two-point-noise", 1): lambda delta, **_: truth(2 * delta**2 >= (1 - delta) ** 2),
    ("one-head-two-point-noise", 2): lambda **_: TRUE,
    ("one-head-two-point-noise", 3): lambda **_: TRUE,
    ("small-noise-keeps-the-average", 0): lambda factor, **_: truth(factor >= 1),
    ("the-cone-of-keys", 0): lambda d, iso, ratio: truth(Fraction(1, 2) + iso >= ratio**2 * (d - 1) * iso),
    ("the-cone-of-keys", 1): lambda **_: FALSE,
    ("the-cone-of-keys", 2): lambda **_: FALSE,
    ("low-rank-error", 0): lambda factor, **_: truth(factor >= 1),
    ("low-rank-error", 1): lambda **_: FALSE,
    ("singular-energy", 0): lambda power, **_: truth(power == 2),
    ("singular-energy", 1): lambda power, **_: truth(power == 2),
    ("singular-tail", 0): lambda factor, **_: truth(factor >= 1),
}
ODD = (5e-324, 1e-200, 1e-15, 1e-13, 1e-12, 9e-10, 0.4142135623730950, 0.4142135623730951, 0.5, 0.9999999, 1 - 2**-53)
ODD = (*ODD, 1.0, 1 + 2**-52, math.sqrt(2), math.nextafter(math.sqrt(2), 2), 2 - 2**-52, 2.0, 2 + 2**-51, 3, 12, 10**9)


def odd_settings(name: str) -> list[dict[str, float]]:
    """Each parameter at its ends, one unit beside its default, and at the odd values that its range allows."""
    found = []
    for p in claims[name].parameters:
        near = [] if p.whole or p.even else [math.nextafter(p.default, math.inf), math.nextafter(p.default, -math.inf)]
        for value in (*ends(p), *near, *ODD, *(-x for x in ODD)):
            with contextlib.suppress(InputError):
                found.append({p.name: p.parse_value(value, name)})
    return found


@pytest.fixture
def no_search(monkeypatch) -> None:
    """Without what only says how tight a bound is, and takes a second each time."""
    for module in (average_within_budget, copying_within_budget):
        monkeypatch.setattr(module, "attack", lambda *_: Attack(value=0.5, at={"n": 3, "eps": 0.5}, tries=1))
    monkeypatch.setattr(copying_within_budget, "worst_attack", lambda *_: Attack(value=1.0, at={}, tries=1))
    monkeypatch.setattr(average_within_budget, "_solver_sentence", lambda *_: "")
    monkeypatch.setattr(singular_tail, "climb", lambda matrix, k: matrix)
    monkeypatch.setattr(small_noise_keeps_the_average, "designed_error", lambda *_, **__: (1e-3, 1e-13))


@pytest.mark.parametrize("name", sorted({name for name, _ in TRUTHS}))
@pytest.mark.usefixtures("no_search")
def test_rounding_decides_nothing(name: str) -> None:
    claim = claims[name]
    for setting in odd_settings(name):
        chosen = claim.resolve_parameters(**setting)
        if max(chosen.get("rows", 0), chosen.get("columns", 0)) > 20:
            continue  # sizes of matrices, which take time and change nothing
        exact = {key: Fraction(value) for key, value in chosen.items()}
        for index, reading in enumerate(claim.readings):
            if (name, index) in TRUTHS:
                found = reading.check(**chosen)
                assert found.status is TRUTHS[name, index](**exact), (name, reading.name, setting, found)


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize(
    ("name", "setting", "expected"),
    [
        ("copying-output", {"eps": 1e-15}, "HRE"),
        ("copying-output", {"diameter": 1e-13}, "HRE"),
        ("copying-output", {"eps": 1e-12, "diameter": 1e-12}, "HRE"),
        ("copying-condition", {"eps": 0.9999999}, "HHR"),
        ("copying-condition", {"shift": -9e-10}, "RHR"),
        ("copying-condition", {"shift": 5e-324, "eps": 1e-200, "n": 10**9}, "HRR"),
        ("singular-energy", {"power": 2.0000000000000004}, "RR"),
        ("low-rank-error", {"k": 1, "factor": 0.5}, "RR"),
        ("singular-tail", {"k": 12, "factor": 0.001}, "R"),
        ("low-rank-error", {"k": 12, "factor": 0.001}, "RR"),
        ("copying-within-budget", {"n": 1, "factor": 1}, "R"),
        ("copying-within-budget", {"n": 2, "factor": 1.9}, "R"),
        ("average-within-budget", {"n": 2, "factor": 0.001}, "RHR"),
        ("small-noise-keeps-the-average", {"factor": 0.9999999}, "RRE"),
        ("average-of-two", {"tilt": 1e-15, "eps": 0.9}, "RN"),
    ],
)
def test_verdicts_that_were_false(name, setting, expected) -> None:
    assert "".join(verdict.status.value[0] for verdict in claims[name].check(**setting).verdicts) == expected


@pytest.mark.parametrize("factor", [0.001, 1.0, 1.9, 1.99, math.nextafter(2, 1)])
def test_a_counterexample_to_a_smaller_budget_is_one(factor: float) -> None:
    found = claims["copying-within-budget"].check(n=1, factor=factor).verdicts[0]
    n, eps = (float(x) for x in re.findall(r"(?:n|eps) = ([\d.e+-]+)[,:]", without_marks(found.counterexample)))
    assert n >= 3
    # the two sides divided: ln((n-1)/n) - (1 - factor/2) ln(eps/n) ... written so that nothing cancels
    assert math.log1p(-1 / n) + (1 - factor / 2) * math.log(n / eps) > 0


@pytest.mark.parametrize("factor", [0.001, 1.0, 1.41, math.nextafter(math.sqrt(2), 1)])
def test_a_counterexample_to_a_smaller_factor_is_one(factor: float) -> None:
    found = claims["average-within-budget"].check(n=2, factor=factor).verdicts[0]
    n, eps = (float(x) for x in re.findall(r"(?:n|eps) = ([\d.e+-]+)[,:]", without_marks(found.counterexample)))
    # sqrt(2(n-2)/n) ln((n-2)/eps) - factor ln(n/eps), with 50 digits
    with decimal.localcontext(prec=50):
        keys, small = Decimal(n), Decimal(eps)
        needed = (2 * (1 - 2 / keys)).sqrt() * ((keys - 2) / small).ln()
        assert needed > Decimal(factor) * (keys / small).ln()


def test_two_sides_of_an_interval_are_never_printed_alike() -> None:
    said = " ".join(str(claims["two-heads-steady"].check()).split())
    low, high = re.search(r"is between ([.\d]+) % and ([.\d]+) % here", said).groups()
    assert float(low) < float(high)


def test_what_the_adversary_found_is_below_what_is_always_above_it() -> None:
    said = " ".join(str(claims["average-within-budget"].check()).split())
    found, always = re.search(r"found ([.\d]+) % .* always it is below ([.\d]+) %", said).groups()
    assert float(found) < float(always)

"""The four quantities of a certificate are on the safe side also where rounding, underflow or a library does its worst.

Without ``strict`` NumPy's exp and log may be off by 8 units in the last place. NumPy's are far better, so that here
they are made as bad as that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import flint
import numpy as np
import pytest

import oracles
from regard.design import evaluate

GRANTED = 8


def poor(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """exp or log as far below the truth as is granted: 8 units in the last place, less the rounding to a float."""

    def moved(x: np.ndarray) -> np.ndarray:
        with flint.ctx.workprec(200):
            values = np.array([evaluate.below(getattr(flint.arb(float(v)), name)()) for v in x.flat]).reshape(x.shape)
        for _ in range(GRANTED - 1):
            values = np.nextafter(values, -math.inf)
        return values

    return moved


def exact_sum(x: np.ndarray) -> flint.arb:
    with flint.ctx.workprec(300):
        return sum((flint.arb(float(v)).exp() for v in x), flint.arb(0))


@pytest.mark.parametrize("terms", [1, 5, 9, 17])
def test_sums_of_exponentials_by_a_poor_library(terms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponentials a little above a power of two, where 8 units in the last place are most."""
    monkeypatch.setattr(np, "exp", poor("exp"))
    for start in [*(power * math.log(2) + 2e-14 for power in range(-9, 9)), *np.arange(1, 33) * 2.0**-20]:
        x = np.full(terms, start)
        bound = evaluate.above(evaluate.sum_exp(x, np.zeros(terms), strict=False))
        assert flint.arb(bound) >= exact_sum(x)
        assert flint.arb(bound) <= exact_sum(x) * (1 + flint.arb(1e-13))


@pytest.mark.parametrize("strict", [False, True])
def test_sums_of_exponentials_at_the_ends_of_the_range(*, strict: bool) -> None:
    for x in ([0.0, -1000.0], [-1000.0], [-740.0, -745.0], [-5000.0, -6000.0], []):
        array = np.array(x)
        bound = evaluate.above(evaluate.sum_exp(array, np.zeros(len(x)), strict=strict))
        assert flint.arb(bound) >= exact_sum(array)
        assert flint.arb(bound) <= exact_sum(array) * (1 + flint.arb(1e-14)) + flint.arb(1e-299)
    for x in ([math.nan, 0.0], [0.0, math.nan], [0.0, math.inf], [800.0, 0.0], [0.0, 800.0]):
        bound = evaluate.above(evaluate.sum_exp(np.array(x), np.zeros(2), strict=strict))
        assert bound > 1e300 or (strict and not bound < math.inf)


@pytest.mark.parametrize("strict", [False, True])
def test_radii_count_in_sums_of_exponentials(*, strict: bool) -> None:
    """A radius too small to change the midpoint, and an ordinary one."""
    for mid, rad in [(1.0, 2.0**-54), (-3.0, 2.0**-53), (0.5, 0.25)]:
        with flint.ctx.workprec(300):
            exact = 2 * (flint.arb(mid) + flint.arb(rad)).exp()
            bound = evaluate.above(evaluate.sum_exp(np.full(2, mid), np.full(2, rad), strict=strict))
            assert flint.arb(bound) >= exact
            assert flint.arb(bound) <= exact * (1 + flint.arb(1e-14))


@pytest.mark.parametrize("library", ["poor", "own"])
def test_entropies_by_a_poor_library(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal weights, and one beside which the others nearly vanish: its logarithm is rounded far above its size.

    The logarithms of 1/55 and of 1/2981 are a little beyond -4 and -8, where 8 units in the last place are most.
    """
    if library == "poor":
        monkeypatch.setattr(np, "log", poor("log"))
    rng = np.random.default_rng(8)
    equal = [np.ones(n) for n in (*range(2, 12), 55, 56, 2981)]
    for weights in (*equal, *(np.append(rng.random(n) * 1e-10, 1.0) for n in range(2, 30)), rng.dirichlet(np.ones(9))):
        bound = evaluate.below(evaluate.entropy(weights, strict=False))
        exact = oracles.exact_entropy(weights)
        assert flint.arb(bound) <= exact
        assert flint.arb(bound) >= exact - flint.arb(1e-13)


@pytest.mark.parametrize("strict", [False, True])
def test_weights_of_nothing_have_no_part_in_the_entropy(*, strict: bool) -> None:
    bound = evaluate.below(evaluate.entropy(np.array([0.0, 0.5, 0.0, 0.5]), strict=strict))
    assert math.log(2) - 1e-14 <= bound <= math.log(2)


@pytest.mark.parametrize("strict", [False, True])
def test_weights_that_vanish_beside_others(*, strict: bool) -> None:
    weights = np.array([1e50, 1e-290, 1e-20])
    bound, exact = flint.arb(evaluate.below(evaluate.entropy(weights, strict=strict))), oracles.exact_entropy(weights)
    assert exact - flint.arb(1e-13) <= bound <= exact
    assert evaluate.below(evaluate.entropy(np.zeros(2), strict=strict)) == -math.inf


def test_strict_entropies_have_the_digits_of_their_balls() -> None:
    weights = np.array([0.1, 0.2, 0.7])
    with flint.ctx.workprec(200):
        assert float(evaluate.entropy(weights, strict=True).rad()) < 1e-50
        assert evaluate.entropy(weights, strict=True).overlaps(oracles.exact_entropy(weights))


@pytest.mark.parametrize("top", [5e-324, 1e-310, 1e-160, 1.0, 1e160, 1.7e308])
def test_lengths_of_any_size(top: float) -> None:
    for vector in ([top], [top, top], [top, 0.75 * top, -top], [top, top / 3], [0.0, -top]):
        if top > 1e300 and len(vector) > 1:
            continue  # the length itself may be beyond all floats
        square = sum(Fraction(x) ** 2 for x in vector)
        length = evaluate.norm_above(np.array(vector))
        assert Fraction(length) ** 2 >= square
        assert Fraction(length) ** 2 <= square * (1 + Fraction(1, 10**14)) + Fraction(3, 10**323) ** 2 + (
            4 * Fraction(1, 10**323) * Fraction(math.sqrt(len(vector)) * top)
        )


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_a_mixture_of_one_point_is_that_point(seed: int, *, refine: bool) -> None:
    """However the mixture over copies of an anchor is rounded, what is measured is the distance to the anchor."""
    rng = np.random.default_rng(seed)
    anchor, n = 1e8 * rng.standard_normal(3), 4
    keys = anchor + 10.0 ** rng.integers(-6, 3) * rng.standard_normal((n, 3))
    weights, mixture = rng.random(n) * 10.0 ** rng.integers(-9, 9), rng.random(5)
    mean = [
        sum(Fraction(float(w)) * Fraction(float(k)) for w, k in zip(weights, keys[:, c], strict=True))
        / sum(Fraction(float(w)) for w in weights)
        for c in range(3)
    ]
    square = sum((m - Fraction(float(a))) ** 2 for m, a in zip(mean, anchor, strict=True))
    bound = evaluate.slack_above(keys, weights, np.tile(anchor, (5, 1)), mixture, refine=refine)
    assert Fraction(bound) ** 2 >= square
    assert bound <= math.sqrt(square) * (1 + 1e-9) + (1e-20 if refine else 1e-6)


def mixed(weights: np.ndarray, mixture: np.ndarray) -> list[Fraction]:
    """The mixture that `slack_above` measures against: brought to the weights' total, exactly."""
    scaled = mixture * (math.fsum(weights) / math.fsum(mixture))
    exact = [Fraction(x) for x in scaled.tolist()]
    exact[int(np.argmax(scaled))] += sum(map(Fraction, weights.tolist())) - sum(exact)
    return exact


@pytest.mark.parametrize("seed", range(40))
def test_anchors_among_the_keys_need_one_product(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights near the mixture, so that their difference is small; every other time less near, and the keys far off."""
    rng = np.random.default_rng(seed)
    n, d, far = 11, 3, seed % 2
    keys, places = 1e6 * far + rng.standard_normal((n, d)), np.array([7, 2, 5])
    mixture = rng.dirichlet(np.ones(3))
    weights = rng.random(n) * 0.01
    weights[places] += mixture * (rng.uniform(0.5, 1.5, 3) if far else 1 + 1e-6 * rng.standard_normal(3))
    mixture *= 10.0 ** rng.integers(-3, 3)
    difference = [Fraction(w) for w in weights.tolist()]
    for place, share in zip(places, mixed(weights, mixture), strict=True):
        difference[place] -= share
    columns = [sum(c * Fraction(float(k)) for c, k in zip(difference, keys[:, i], strict=True)) for i in range(d)]
    square = sum(column**2 for column in columns) / sum(map(Fraction, weights.tolist())) ** 2
    calls = spied("dot_enclosure", monkeypatch)
    bound = evaluate.slack_above(keys, weights, keys[places], mixture, refine=False, places=places)
    assert all(rows.shape == (d, n) for (rows, _), _ in calls)
    assert Fraction(bound) ** 2 >= square
    apart = evaluate.slack_above(keys, weights, keys[places], mixture, refine=False)
    assert bound <= apart * (1 + 2.0**-50)
    assert bound <= math.sqrt(square) * (1 + 1e-9) + (1e-7 if far else 1e-15)


def test_a_mixture_far_from_the_weights_is_multiplied_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, weights, mixture = np.array([[4.0], [1.0], [0.0]]), np.array([1.0, 1.0, 2.0]), np.array([3.0, 1.0])
    calls = spied("dot_enclosure", monkeypatch)
    bound = evaluate.slack_above(keys, weights, keys[:2], mixture, refine=False, places=np.arange(2))
    assert bound == pytest.approx(13 / 4 - 5 / 4)
    assert len(calls) == 1  # |1 - 3| + |1 - 1| + 2 is 4, as much as the weights
    calls.clear()
    mixture[1] = 0.5
    assert evaluate.slack_above(keys, weights, keys[:2], mixture, refine=False, places=np.arange(2)) > 0
    assert len(calls) == 3


def test_an_anchor_that_is_named_twice_counts_twice() -> None:
    keys, weights, mixture = np.array([[4.0], [0.0]]), np.ones(2), np.ones(3)
    places = np.array([0, 1, 0])
    bound = evaluate.slack_above(keys, weights, keys[places], mixture, refine=False, places=places)
    assert bound == pytest.approx(8 / 3 - 2)


@pytest.mark.parametrize("seed", range(20))
def test_roundings_of_a_difference_are_paid_for(seed: int) -> None:
    """Keys that are all alike but for a sign: the product adds nothing of its own to what the coefficients lost."""
    rng = np.random.default_rng(seed)
    keys, places = np.where(np.arange(4) < 2, 1.0, -1.0)[:, None], np.array([0, 2])
    mixture, weights = rng.random(2), rng.random(4) * [1, 2.0**-30, 1, 2.0**-30]
    difference = [Fraction(w) for w in weights.tolist()]
    for place, share in zip(places, mixed(weights, mixture), strict=True):
        difference[place] -= share
    exact = abs(sum(c * Fraction(float(k)) for c, k in zip(difference, keys[:, 0], strict=True)))
    bound = evaluate.slack_above(keys, weights, keys[places], mixture, refine=False, places=places)
    assert Fraction(bound) >= exact / sum(map(Fraction, weights.tolist()))


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_distance_to_a_target_of_any_total(seed: int, *, refine: bool) -> None:
    """Near keys far from 0, so that all cancels, in many dimensions; weights and target add up to what they like.

    For every other seed the keys lie on the line through 0, where all that is rounded has the direction of the rest.
    """
    rng = np.random.default_rng(seed)
    d, ratio = 101, 10.0 ** (seed % 5 - 2)
    spread = 10.0 ** rng.integers(-6, 3) * rng.standard_normal((5, d if seed % 2 else 1))
    keys = rng.choice([-1e8, 1e8]) + np.broadcast_to(spread, (5, d))
    target = rng.dirichlet(np.ones(5)) * (1 + 1e-6 * rng.standard_normal())
    weights = target * (1 + 10.0 ** rng.integers(-12, -3) * rng.standard_normal(5)) * ratio
    w, p = ([Fraction(float(x)) for x in v] for v in (weights, target))
    square = sum(
        sum((a / sum(w) - b / sum(p)) * Fraction(float(k)) for a, b, k in zip(w, p, keys[:, c], strict=True)) ** 2
        for c in range(d)
    )
    bound = evaluate.slack_to_target_above(keys, weights, target, refine=refine)
    assert Fraction(bound) ** 2 >= square
    rounding = 64 * 2.0**-53 * (abs(ratio - 1) + 1e-3) * 1e8 * math.sqrt(d) * max(1, 1 / ratio)
    assert bound <= math.sqrt(square) * (1 + 1e-9) + (rounding if refine else 30 * rounding + 1e-4 * max(1, 1 / ratio))


def test_nothing_competes() -> None:
    assert evaluate.slack_above(np.ones((2, 2)), np.zeros(2), np.ones((1, 2)), np.ones(1), refine=False) == 0


@pytest.mark.parametrize("size", [-(2.0**20), 1.0, 2.0**20])
def test_what_even_exact_sums_round_is_paid_for(size: float) -> None:
    """W - M = 2^-54 + 2^-108 has too many digits, and all else on the way is exact, so that the slack seems to be 0."""
    weights, d = np.array([2.0**-54, 1.0, 2.0**-108]), 64
    keys = size * np.outer([1.0, 1.0, 0.0], np.ones(d))
    total = sum(Fraction(float(w)) for w in weights)
    exact = Fraction(2) ** -108 / total * abs(Fraction(size))  # in each of the d coordinates
    bound = evaluate.slack_above(keys, weights, np.full((1, d), size), np.ones(1), refine=True)
    assert Fraction(bound) ** 2 >= d * exact**2
    assert 0 < bound < 1e-28 * abs(size)


def test_slacks_are_above_also_in_their_last_digits() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        keys, weights, anchor = rng.standard_normal((2, 2)), rng.random(2), rng.standard_normal((1, 2))
        w = [Fraction(float(x)) for x in weights]
        square = sum(
            (sum(a * Fraction(float(k)) for a, k in zip(w, keys[:, c], strict=True)) / sum(w) - Fraction(float(at)))
            ** 2
            for c, at in enumerate(anchor[0])
        )
        bound = evaluate.slack_above(keys, weights, anchor, np.ones(1), refine=True)
        assert square <= Fraction(bound) ** 2 <= square * (1 + Fraction(1, 10**13))


@pytest.mark.parametrize("count", [1, 2, 7, 600])
@pytest.mark.parametrize("spread", [0, 3, 200])
def test_an_entropy_lies_in_its_enclosure(count: int, spread: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(count + spread)
    weights = rng.random(count) * 10.0 ** -rng.integers(0, spread + 1, count)
    for library in (np.log, poor("log")):
        monkeypatch.setattr(np, "log", library)
        with flint.ctx.workprec(300):
            exact, found = evaluate.entropy_ball(weights), evaluate.entropy_floats(weights)
            assert found.contains(exact)
            assert float(found.rad()) < 1e-13 * (1 + math.log(count))
            assert evaluate.entropy(weights, strict=False) == found.lower()


@pytest.mark.parametrize("count", [1, 7, 1300])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e-200, 1e200])
def test_a_mean_is_below_its_bound(count: int, size: float) -> None:
    rng = np.random.default_rng(count)
    shares, mid = rng.random(count) + 1e-3, size * rng.standard_normal(count)
    rad = 1e-16 * np.abs(mid) * rng.random(count)
    exact = sum(
        (Fraction(p) * (Fraction(x) + Fraction(r)) for p, x, r in zip(shares, mid, rad, strict=True)), Fraction(0)
    )
    exact /= sum(map(Fraction, shares), Fraction(0))
    with flint.ctx.workprec(128):
        bound = evaluate.mean_above(shares, mid, rad)
        assert bound >= flint.arb(flint.fmpq(exact.numerator, exact.denominator))
        assert float(bound) - float(exact) <= 1e-14 * size + 1e-296


def exact_mean(shares: np.ndarray, mid: np.ndarray, rad: np.ndarray) -> Fraction:
    p, x, r = ([Fraction(v) for v in array.tolist()] for array in (shares, mid, rad))
    return sum((a * (b + c) for a, b, c in zip(p, x, r, strict=True)), Fraction(0)) / sum(p, Fraction(0))


def holds_mean(shares: np.ndarray, mid: np.ndarray, rad: np.ndarray, *, width: float) -> None:
    exact = exact_mean(shares, mid, rad)
    with flint.ctx.workprec(128):
        bound = evaluate.mean_above(shares, mid, rad)
        ball = flint.arb(flint.fmpq(exact.numerator, exact.denominator))
        assert ball <= bound <= ball + flint.arb(width)


@pytest.mark.parametrize("seed", range(40))
def test_the_radii_of_a_mean_are_rounded_up(seed: int) -> None:
    """Products a little above 1, where rounding counts most, and a sum a little above 2; the shares' sum is exact."""
    rng = np.random.default_rng(seed)
    shares, rad = 1 + rng.integers(1, 2**20, (2, 2)) * 2.0**-31
    holds_mean(shares, np.zeros(2), rad, width=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_a_mean_of_what_cancels_pays_for_the_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares, first = rng.uniform(1, 2, 2), 2.0**26 * rng.uniform(1, 2)
    holds_mean(shares, np.array([first, -first * shares[0] / shares[1]]), np.zeros(2), width=1e-6)


def test_a_mean_of_the_least_floats() -> None:
    holds_mean(np.array([0.3, 0.3]), np.array([5e-324, 5e-324]), np.zeros(2), width=1e-298)
    holds_mean(np.array([0.3, 0.3]), np.zeros(2), np.array([5e-324, 5e-324]), width=1e-298)


@pytest.mark.parametrize("ratio", [0.01, 1.0, 100.0])
def test_the_factor_that_brings_a_target_to_the_weights_is_paid_for(ratio: float) -> None:
    """Keys about 1e8, so that an error in the factor counts; what they differ by is of the size of that error."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        target = rng.dirichlet(np.ones(5))
        weights = target * (1 + 1e-8 * rng.standard_normal(5)) * ratio
        keys = 1e8 + 100 * rng.standard_normal((5, 1))
        w, p, k = ([Fraction(x) for x in array.ravel().tolist()] for array in (weights, target, keys))
        exact = abs(sum((a / sum(w) - b / sum(p)) * c for a, b, c in zip(w, p, k, strict=True)))
        assert Fraction(evaluate.slack_to_target_above(keys, weights, target, refine=True)) >= exact


def test_a_mean_of_what_overflowed_is_not_bounded() -> None:
    for mid in ([math.inf, -math.inf], [math.nan, 0.0], [math.inf, 0.0]):
        assert evaluate.mean_above(np.ones(2), np.array(mid), np.zeros(2)) == flint.arb(math.inf)
    for rad in ([math.inf, 0.0], [math.nan, 0.0]):
        assert evaluate.mean_above(np.ones(2), np.zeros(2), np.array(rad)) == flint.arb(math.inf)


def spied(name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple, dict]]:
    """The arguments of every call of a function of the module, from now on."""
    calls: list[tuple[tuple, dict]] = []
    real = getattr(evaluate, name)

    def spy(*given, **named):
        calls.append((given, named))
        return real(*given, **named)

    monkeypatch.setattr(evaluate, name, spy)
    return calls


@pytest.mark.parametrize(
    ("keys", "anchor", "passes", "distance"),
    [
        ([[8.0, 0.0], [-4.0, 0.0]], [0.0, 1.0], [math.inf], math.hypot(2, 1)),
        ([[2.0**20, 0.0], [-(2.0**20), 0.0]], [0.0, 1e-6], [math.inf, 0.0], 1e-6),  # what is left of 2^20
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_keys_are_read_again_only_where_their_rounding_counts(
    keys: list, anchor: list, passes: list, distance: float, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single anchor is taken away from the product with the keys; several have a product of their own."""
    calls = spied("dot_enclosure" if count == 1 else "_plain_sums", monkeypatch)
    bound = evaluate.slack_above(np.array(keys), np.ones(2), np.array([anchor] * count), np.ones(count), refine=False)
    assert [named["enough"] for _, named in calls] == passes
    assert bound == pytest.approx(distance, rel=1e-2)


@pytest.mark.parametrize("seed", range(40))
def test_one_anchor_is_as_good_as_two_that_are_the_same(seed: int) -> None:
    """Its rounding is paid for: the keys are near it, so that nearly all of it is taken away again."""
    rng = np.random.default_rng(seed)
    anchor, weights = 1e3 * rng.standard_normal((1, 3)), rng.random(5)
    keys = anchor + 10.0 ** -rng.integers(0, 12) * rng.standard_normal((5, 3))
    w, k = [Fraction(x) for x in weights.tolist()], keys.tolist()
    means = [sum(a * Fraction(row[c]) for a, row in zip(w, k, strict=True)) / sum(w) for c in range(3)]
    square = sum((mean - Fraction(float(x))) ** 2 for mean, x in zip(means, anchor[0], strict=True))
    bound = evaluate.slack_above(keys, weights, anchor, np.ones(1), refine=False)
    twice = evaluate.slack_above(keys, weights, np.repeat(anchor, 2, axis=0), np.ones(2), refine=False)
    assert square <= Fraction(bound) ** 2
    assert bound <= twice
    assert bound <= math.sqrt(square) * (1 + 1e-13) + 1e-11


def test_the_largest_entry_of_keys_is_taken_from_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, anchors = np.array([[8.0, 0.0], [-4.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 2.0]])
    calls = spied("largest", monkeypatch)
    given = keys, np.ones(2), anchors, np.ones(2)
    told = evaluate.slack_above(*given, refine=False, top=8.0)
    assert [rows is keys for (rows,), _ in calls] == [False] * 2  # the anchors, and the heaviest of them
    calls.clear()
    assert evaluate.slack_above(*given, refine=False) == told
    assert [rows is keys for (rows,), _ in calls] == [True, False, False]
    calls.clear()
    target = np.array([0.5, 0.5])
    assert evaluate.slack_to_target_above(keys, np.ones(2), target, refine=False, top=8.0) >= 0
    assert not calls


@pytest.mark.parametrize("top", [1e-3, 1e9])
def test_what_is_said_of_the_keys_is_not_said_of_the_anchors(top: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each product is told the largest entry of its own rows."""
    keys, anchors = np.array([[8.0, 0.0], [-4.0, 0.0]]), np.array([[0.0, 1.0], [0.0, 3.0]])
    calls = spied("dot_enclosure", monkeypatch)
    evaluate.slack_above(keys, np.ones(2), anchors, np.array([1.0, 2.0]), refine=False, top=top)
    assert [named["top"] for _, named in calls][:3] == [top, 3.0, 3.0]


@pytest.mark.parametrize("sign", [1, -1])
def test_adding_the_parts_up_is_paid_for(sign: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that are known exactly, or to 1/4 each; the sum of the first two loses 2^-60."""
    for error in (0.0, 0.25):
        given = iter([1.0, 2.0**-60, 1.0])
        monkeypatch.setattr(
            evaluate, "dot_enclosure", lambda *_, e=error, g=given, **__: (np.array([sign * next(g)]), np.array([e]))
        )
        rows = np.ones((1, 1))
        mid, rad = evaluate._plain_sums([(rows, np.ones(1))] * 3, {id(rows): 1.0}, enough=0.0)
        assert abs(mid[0]) == 2.0
        rounding = (1 + 1 + 2) * 2.0**-53
        assert rounding <= rad[0] - 3 * error <= 1.01 * rounding + 16 * error * 2.0**-53


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("size", [(5, 3), (41, 7), (700, 5)])
def test_figures_of_several_copies_are_on_the_safe_side_of_each(size: tuple[int, int], scale: float) -> None:
    """Each against balls of many digits: never on the wrong side, and near; a key does not compete with itself."""
    rng = np.random.default_rng(size[0])
    keys = rng.standard_normal(size)
    chosen = np.array([4, 0, size[0] - 1])
    queries = 3 * keys[chosen] + rng.standard_normal((3, size[1]))
    weights = rng.dirichlet(np.ones(size[0]), 3)
    weights[np.arange(3), chosen] = 0.0
    top = float(np.abs(keys).max())
    made = evaluate.copy_figures(keys, chosen, queries, weights, scale=scale, top=top, enough=0.0)
    with flint.ctx.workprec(300):
        for found, own, query, shares in zip(made, chosen, queries, weights, strict=True):
            exact = [[flint.arb(float(x)) for x in row] for row in keys]
            scores = [
                sum((x * flint.arb(float(q)) for x, q in zip(row, query, strict=True)), flint.arb(0)) for row in exact
            ]
            others = [i for i in range(len(keys)) if i != own]
            total = sum(((flint.arb(scale) * (scores[i] - scores[own])).exp() for i in others), flint.arb(0))
            whole = sum((flint.arb(float(w)) for w in shares), flint.arb(0))
            pulled = [
                sum((flint.arb(float(w)) * x for w, x in zip(shares, column, strict=True)), flint.arb(0)) / whole
                for column in zip(*exact, strict=True)
            ]
            slack = sum(((m - x) ** 2 for m, x in zip(pulled, exact[own], strict=True)), flint.arb(0)).sqrt()
            norm = sum((flint.arb(float(q)) ** 2 for q in query), flint.arb(0)).sqrt()
            entropy = oracles.exact_entropy(shares[shares > 0])
            for high, true in ((found.total, total), (found.slack, slack), (found.norm, norm)):
                assert true <= flint.arb(high) <= true * (1 + flint.arb(1e-11))
            assert entropy - flint.arb(1e-12) <= found.entropy <= entropy


def test_figures_of_weights_without_a_sum_are_not_made() -> None:
    keys, one = np.eye(3), np.array([0])
    for weights in (np.zeros((1, 3)), np.array([[0.0, math.nan, 1.0]])):
        assert evaluate.copy_figures(keys, one, keys[:1], weights, scale=1.0, top=1.0, enough=0.0) is None

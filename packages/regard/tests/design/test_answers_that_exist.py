"""Questions that were once answered falsely, or refused though an answer exists; and suprema that are not attained."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

import design_oracle
from regard import design
from regard.design import minimax
from regard.design.exact_answers import LARGEST
from regard.design.faces import smallest_face
from regard.errors import CouldNotFindOut, InputError
from regard.written_numbers import at_least, at_most, fraction, in_full

SQUARE = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
LINE = np.array([[0.0, 0], [1, 0], [-1, 0], [0, 1]])
ALMOST = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]])  # look collinear and are not


def true(answer, keys):
    assert design_oracle.falsehoods(answer.certificate.to_dict(), np.asarray(keys, dtype=float)) == []
    assert design_oracle.false_sentences(answer, np.asarray(keys, dtype=float)) == []
    assert design.verify(answer.to_dict(), np.asarray(keys, dtype=float)).holds
    return answer


# sentences ----------------------------------------------------------------------------------------------------------


def test_a_never_states_the_ceiling_and_not_only_what_the_copies_prove():
    keys = np.array([[0.0], [0], [1], [2], [3], [-1], [-2], [-3]])
    never = true(design.copy(keys, 0, eps=0.01), keys)
    assert "No query does: none gets more than 0.125 on that key, however long." in never.details()
    assert never.bound == design.ceiling(keys, 0).ceiling == 0.125


def test_a_divergence_has_a_least_value_and_no_most():
    never = true(design.match(SQUARE, [0.5, 0, 0, 0.5], kl=0.01), SQUARE)
    assert "the divergence is at least 0.69314718 whatever the query" in never.details()
    assert never.bound == pytest.approx(math.log(2), abs=1e-9)
    within = true(design.match(SQUARE, [0.5, 0, 0, 0.5], max_norm=2.0), SQUARE)
    assert "No query of norm 2 or less gets below KL divergence 0.693147" in within.details()


@pytest.mark.parametrize("seed", [313, 849, 1131, *range(12)])
def test_a_budget_holds_its_own_recheck_however_small_the_gap(seed):
    # the figures are rounded outwards, so that more lies between them than a gap of 1e-14 says
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    keys = rng.standard_normal((n, d)).round(int(rng.integers(1, 4))) * 10.0 ** rng.integers(-2, 3)
    norm = 10.0 ** rng.uniform(-3, 2)
    if seed == 313:  # shared evenly on a face: the path there is long
        found = design.share(keys, sorted(rng.choice(n, 2, replace=False).tolist()), max_norm=norm)
    else:
        found = design.copy(keys, int(rng.integers(n)), max_norm=norm)
    checked = design.verify(found.to_dict(), keys)
    assert checked.holds, checked
    assert 0 <= found.gap <= 1e-9


@pytest.mark.parametrize(("verb", "most"), [("copy", 12), ("share", 28)])
def test_a_never_takes_few_products_of_all_keys(monkeypatch, verb, most):
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((900, 70))
    keys[5] = rng.dirichlet(np.ones(140)) @ keys[100:240]
    count = 0
    hessian = minimax._Path.model

    def counted(path):
        nonlocal count
        count += 1
        return hessian(path)

    monkeypatch.setattr(minimax._Path, "model", counted)
    found = design.copy(keys, 5, eps=0.01) if verb == "copy" else design.share(keys, [5, 6, 7], eps=0.01)
    assert not found.reachable
    assert 0 < count <= most


def test_a_demand_is_printed_with_all_its_digits():
    found = true(design.copy([[0.0], [1], [2]], 0, eps=1.0000001), [[0.0], [1], [2]])
    assert "with attention at least 1/(1+1.0000001)" in found.details()
    assert "attention 0.499999975 on that key" in found.details()
    assert "gives key 0 at least 0.4999 of the attention (asked: 1/(1+1.0000001))" in str(found)  # and never 0.5
    assert "eps 1.0000001, scale 1" in str(design.verify(found.certificate, np.array([[0.0], [1], [2]])))


@pytest.mark.parametrize("x", [0.499999975, 1 / 3, 0.2, 1.0, 1e-300, 123456789.123, 1 - 1e-12, 0.9999999995])
def test_numbers_are_rounded_to_the_side_that_stays_true(x):
    assert Fraction(at_least(x)) <= Fraction(x) <= Fraction(at_most(x))
    assert float(at_most(x)) - float(at_least(x)) <= 2e-8 * x
    assert float(in_full(x)) == x
    assert at_least(0.4999999999) == "0.499999999"
    assert (fraction(Fraction(1, 8)), fraction(Fraction(1, 7))) == ("0.125", "1/7")


@pytest.mark.parametrize(
    "x", [5e-324, -5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, -1 / 3, math.pi * 1e-310]
)
@pytest.mark.parametrize("digits", [1, 4, 9])
def test_numbers_at_the_ends_of_the_range_are_rounded_to_the_true_side_too(x, digits):
    assert Fraction(at_least(x, digits)) <= Fraction(x) <= Fraction(at_most(x, digits))
    assert (at_most(math.inf), at_least(-math.inf)) == ("inf", "-inf")


# the headline is what is proved -------------------------------------------------------------------------------------


def numbers_after(words, text):
    """The numbers that stand behind these words."""
    return [Fraction(found) for found in re.findall(rf"{words} ([-+.e\d]*\d)", text)]


@pytest.mark.slow
def test_a_budget_is_stated_as_the_certificate_has_it():
    """Two keys far from the origin, where float64 has lost the digits by which what is reached falls short of 0.8."""
    rng = np.random.default_rng(28)
    for _ in range(1000):
        first, apart = 7000 + rng.random(), 1 + rng.random()
        share = rng.choice([0.6, 0.7, 0.75, 0.8, 0.9])
        found = design.copy([[first], [first + apart]], 1, max_norm=math.log(share / (1 - share)) / apart)
        made = found.certificate
        for said in (str(found), found.details(), str(found.verification)):
            reached = numbers_after(r"(?:at least|attention|attention is)", said)
            assert all(x <= Fraction(made.reached) or x >= Fraction(made.bound) for x in reached), said
            assert all(x >= Fraction(made.bound) for x in numbers_after("(?:more than|past attention|past)", said)), (
                said
            )


@pytest.mark.parametrize("eps", [0.25, 1 / 3, 0.01, 1e-9])
def test_a_demand_is_stated_as_it_was_proved(eps):
    rng = np.random.default_rng(3)
    for _ in range(20):
        keys = rng.standard_normal((5, 2)) + 100
        found = design.copy(keys, int(np.argmax(keys @ rng.standard_normal(2))), eps=eps)
        asked = 1 / (1 + Fraction(eps))
        assert all(x <= asked for x in numbers_after("at least", str(found)))
        assert all(x >= Fraction(found.certificate.norm) for x in numbers_after("A query of norm", str(found)))
        assert all(x <= Fraction(found.lower_bound) for x in numbers_after("proved down to norm", str(found)))


def test_several_keys_are_proved_from_no_more_than_the_certificate_has():
    keys = np.random.default_rng(5).standard_normal((40, 3))
    found = design.copy_many(keys, range(40), eps=0.3)
    rows = [line.split() for line in str(found).splitlines()[2:-1] if "never" not in line]
    assert len(rows) > 3
    for key, norm, least, attention in rows:
        made = next(one for one in found if one.chosen == (int(key),))
        assert Fraction(norm) >= Fraction(made.certificate.norm)
        assert Fraction(least) <= Fraction(made.certificate.lower_bound)
        assert Fraction(attention) <= 1 / (1 + Fraction(0.3))


def test_a_zero_query_has_no_digits_to_lose():
    square = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]]) * 1e9 + 0.1
    found = design.share(square, [0, 2], max_norm=1e9)
    assert isinstance(found.certificate.query, tuple)  # rationals, all of them 0
    assert "rounded" not in f"{found}{found.details()}"
    assert "at least 0.2 of the attention" in str(found)


def test_one_key_is_one_key():
    found = design.share([[1.0, 0], [0, 1], [1, 1]], [1], eps=0.5)
    assert "gives key 1 at least" in str(found)
    assert "Give key 1 attention with at least 1/(1+0.5) (keys" in found.details()
    assert "on that key" in found.details()
    assert "each" not in f"{found}{found.details()}"


def test_what_python_prints_names_what_python_has():
    for found in (design.copy([[1.0], [0]], 0, eps=0.1), design.ceilings(np.eye(12)), design.ceiling(np.eye(2), 0)):
        assert "--" not in f"{found}{found.details()}"


# suprema that are not attained --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_third_is_approached_and_never_reached():
    copied = true(design.copy(LINE, 0, eps=2.0), LINE)
    assert not copied.reachable
    assert "No query does: 1/3 on that key is approached and never reached." in copied.details()
    shared = true(design.share(LINE, [0, 1], eps=1.0), LINE)
    assert not shared.reachable
    assert "No query does: 1/3 on the least of them is approached and never reached." in shared.details()
    for more in (1e-3, 1e-9, 1e-15):  # a hair more is allowed: some query does it
        assert true(design.copy(LINE, 0, eps=2.0 + more), LINE).reachable
        assert true(design.share(LINE, [0, 1], eps=1.0 + more), LINE).reachable
    assert not true(design.copy(LINE, 0, eps=2.0 - 1e-15), LINE).reachable


def test_equality_proves_nothing_where_no_key_is_left_out():
    """Two equal keys, eps = 1: the zero query does it. A certificate of "never" for it must not hold."""
    keys = np.ones((2, 1))
    assert design.copy(keys, 0, eps=1.0).norm == 0
    never = design.copy(keys, 0, eps=0.5).certificate.to_dict()
    never["question"]["eps"] = 1.0
    assert not design.verify(never, keys).holds
    even = design.copy(SQUARE, 0, eps=0.5)
    assert even.reachable
    middle = np.concatenate([SQUARE, [[0.0, 0]]])
    never = design.copy(middle, 4, eps=3.5).certificate.to_dict()
    never["question"]["eps"] = 4.0
    assert not design.verify(never, middle).holds


def test_copies_are_approached_too():
    keys = np.array([[1.0, 0], [1, 0], [1, 0], [0, 1]])
    assert "1/3 on that key is approached and never reached" in true(design.copy(keys, 0, eps=2.0), keys).details()


# keys that float64 cannot decide ------------------------------------------------------------------------------------


def test_keys_that_look_collinear_are_copied_with_an_exact_query():
    found = true(design.copy(ALMOST, 1, eps=0.5), ALMOST)
    assert found.reachable
    assert found.norm > 1e16
    assert isinstance(found.certificate.query, tuple)
    assert "rounded: only its exact digits do it" in str(found)
    assert found.weights[1] == pytest.approx(2 / 3, abs=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_float_midpoints_and_mixtures_are_decided(seed):
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((6, 1 + seed % 4))
    few = 2 + seed % 3
    keys[-1] = rng.dirichlet(np.ones(few)) @ keys[:few] if seed % 2 else (keys[0] + keys[1]) / 2
    top = true(design.ceiling(keys, 5), keys)
    assert (top.ceiling < 1) == (design.winnable(keys, jobs=1).ways[5] == "n")
    for eps in (0.3, 1.5):
        assert true(design.copy(keys, 5, eps=eps), keys).reachable == (top.ceiling >= 1 / (1 + eps))


def test_every_row_of_a_table_is_there():
    table = design.ceilings(np.concatenate([ALMOST, (ALMOST[:1] + ALMOST[2:]) / 2]))
    assert [row.key for row in table.rows] == [0, 1, 2, 3]
    assert table.unanswered == {}


# sharp demands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [1e-6, 1e-9, 1e-12, 1e-30, 1e-100])
def test_sharp_shares_of_orthonormal_keys_have_their_closed_form(eps):
    found = true(design.share(np.eye(3), [0, 1], eps=eps), np.eye(3))
    assert found.norm == pytest.approx(-math.log(eps) * math.sqrt(2 / 3), rel=1e-9)


@pytest.mark.parametrize("kl", [1e-6, 1e-9, 1e-12, 1e-14, 1e-40])
def test_sharp_matches(kl):
    rng = np.random.default_rng(0)
    keys, target = rng.standard_normal((7, 11)), rng.dirichlet(np.ones(7))
    found = true(design.match(keys, target, kl=kl), keys)
    assert 0.5 * np.abs(found.weights - target).sum() <= math.sqrt(kl / 2) + 1e-12  # Pinsker


@pytest.mark.parametrize("kl", [1e-9, 1e-12])
def test_a_hundred_orthonormal_keys_are_matched_sharply(kl):
    target = np.random.default_rng(1).dirichlet(np.ones(100))
    found = design.match(np.eye(100), target, kl=kl)
    assert design.verify(found.certificate, np.eye(100)).holds
    log = np.log(target)
    assert found.norm == pytest.approx(np.linalg.norm(log - log.mean()), rel=1e-3)


@pytest.mark.parametrize("eps", [1e-9, 1e-13])
def test_sharp_shares_of_any_keys(eps):
    keys = np.random.default_rng(0).standard_normal((7, 11))
    true(design.share(keys, [0, 1, 2], eps=eps), keys)


# budgets beyond all need --------------------------------------------------------------------------------------------


def test_budgets_beyond_all_need():
    same = np.ones((3, 1))
    assert true(design.copy(same, 0, max_norm=1e290), same).attention == pytest.approx(1 / 3)
    for keys, index, most in ((SQUARE, 0, 1.0), (LINE, 0, 1 / 3), (ALMOST, 1, 1.0)):
        assert true(design.copy(keys, index, max_norm=1e290), keys).attention == pytest.approx(most, abs=1e-9)
    centre = np.concatenate([SQUARE, [[0.0, 0]]])
    target = [0.3, 0.2, 0.1, 0.1, 0.3]
    best = true(design.match(centre, target, max_norm=1e300), centre)
    assert best.attention == pytest.approx(design.match(centre, target, max_norm=50.0).attention, abs=1e-8)
    assert true(design.share(LINE, [1, 3], max_norm=1e200), LINE).attention == pytest.approx(1 / 2, abs=1e-9)


# keys of very different lengths -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_key_among_heavy_tails_has_its_query():
    """Learnt curvature stalls at 1e-7 there; the whole Hessian is done in 17 steps."""
    keys = np.random.default_rng(5032).standard_t(2.5, (5000, 32))
    found = design.copy(keys, 2626, eps=0.01)
    assert found.reachable
    assert found.norm == pytest.approx(73.0457574, abs=1e-6)
    assert design.verify(found.certificate, keys).holds
    together = design.copy_many(keys[2000:3000], [626, 5], eps=0.01)
    assert together.unanswered == {}


@pytest.mark.parametrize("key", [398, 371, 314, 38])
def test_a_key_inside_the_hull_of_wild_keys_is_never_copied(key):
    """Entries from 1e-9 to 1e17: no combination of largest entropy is found, and one of few keys is proof enough."""
    keys = np.random.default_rng(104).standard_t(0.4, (400, 20))
    never = design.copy(keys, key, eps=1.0)
    assert not never.reachable
    true(never, keys)


def test_where_the_shortest_is_not_pinned_down_a_query_is_named_that_does_it():
    rng = np.random.default_rng([10, 85])
    rng.random(2)
    keys = rng.normal(0, 1, (60, 32)) * 10.0 ** rng.uniform(-8, 8, (60, 1))
    with pytest.raises(CouldNotFindOut, match=r"Key 4 is a corner of the hull, .* one of norm [\d.]+ does;"):
        design.copy(keys, 4, eps=0.01)
    assert design.ceiling(keys, 4).ceiling == 1.0


# numbers at the ends of float64's range -----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("keys", "scale"), [([[0, 1e-310], [-1, 0], [1, 0]], 1.0), ([[1, 0], [0, 0]], 1e-320)])
def test_a_query_too_long_for_float64_is_said(keys, scale):
    with pytest.raises(
        CouldNotFindOut, match=r"some query meets the demand; .* too long for float64: multiply the keys"
    ):
        design.copy(keys, 0, eps=0.5, scale=scale)
    with pytest.raises(CouldNotFindOut, match="too long for float64, and could not be certified: multiply the keys"):
        design.share(keys, [0], eps=0.5, scale=scale)
    target = np.eye(len(keys))[0] * 0.9 + 0.1 / len(keys)
    with pytest.raises(CouldNotFindOut, match="too long for float64, and could not be certified: multiply the keys"):
        design.match(keys, target, kl=0.01, scale=scale)


def test_a_divergence_that_was_asked_for_is_a_bound_of_the_one_there_is():
    found = design.match([[1.0], [2.0]], [0.5, 0.5], kl=0.5)
    assert found.attention < 1e-300
    assert "norm 0, KL divergence at most 0.5." in found.details()


@pytest.mark.slow
def test_a_query_of_1e306_is_found():
    keys = np.array([[0, 1e-306], [-1, 0], [1, 0]])
    assert true(design.copy(keys, 0, eps=0.5), keys).norm == pytest.approx(math.log(4) * 1e306, rel=1e-9)


def test_scores_beyond_the_range_still_give_weights():
    keys = np.array([[2e130, 0], [0, 2.0], [-1e130, -2.0]])
    found = design.copy(keys, 2, eps=0.3527721366089217, scale=1e-320)
    assert found.weights == pytest.approx([0.02422357, 0.23655363, 0.7392228], abs=1e-7)
    assert design.verify(found.to_dict(), keys).holds


def test_shares_of_1e_minus_210_are_matched():
    keys = np.array([[1.0, 0], [0, 1], [2, 1]])
    for target in ([1e-210, 1 - 1e-210, 1e-210], [1e-310, 1.0, 1e-320]):
        true(design.match(keys, target, kl=1e-3), keys)
        true(design.match(keys, target, max_norm=3.0), keys)
    line, target = np.array([[-1.0], [-1], [-1], [1], [1], [0]]), [1.0, 7.7e-215, 2.7e-214, 1.3e-208, 0, 8.1e-211]
    never = true(design.match(line, target, kl=0.5), line)  # two copies of the key that has it all: ln 3 at least
    assert never.bound == pytest.approx(math.log(3), abs=1e-9)


# what it stands on --------------------------------------------------------------------------------------------------


def test_the_smallest_face_is_found_exactly():
    from flint import fmpq

    cube = [[fmpq(x), fmpq(y), fmpq(z)] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    assert smallest_face(cube).members == tuple(range(8))
    assert not any(smallest_face(cube).normal)
    for centre, members in (((1, 0, 0), (4, 5, 6, 7)), ((1, 1, 0), (6, 7)), ((1, 1, 1), (7,)), ((2, 0, 0), ())):
        differences = [[x - c for x, c in zip(p, centre, strict=True)] for p in cube]
        face = smallest_face(differences)
        assert face.members == members
        sides = [sum((a * b for a, b in zip(d, face.normal, strict=True)), fmpq(0)) for d in differences]
        assert [i for i, side in enumerate(sides) if side == 0] == list(members)
        assert all(side <= 0 for side in sides)


@pytest.mark.slow
def test_exact_arithmetic_knows_when_to_give_up():
    keys = np.random.default_rng(0).standard_normal((120, 101))
    assert keys.size * 101 > LARGEST
    with pytest.raises(CouldNotFindOut, match="too many for exact arithmetic"):
        design.share(keys, [0, 1, 2], eps=1e-14)


# winnable -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_integers_that_float64_rounds_are_refused(dtype):
    rows = np.array([[2**53], [2**53 + 1], [2**53 + 2]], dtype=dtype)  # the middle one can never win
    with pytest.raises(InputError, match=r"integers beyond 2\^53 that float64 rounds, such as 9007199254740993"):
        design.winnable(rows, jobs=1)
    exact = np.array([[2**53], [2**60], [2**53 + 2]], dtype=dtype)  # each of them is a float64
    verdict = design.winnable(exact, jobs=1)
    assert verdict.ways[2] == "n"
    assert design.verify_winnable(exact, verdict.to_dict()).answer
    with pytest.raises(InputError, match=r"integers beyond 2\^53 that float64 rounds"):
        design.verify_winnable(rows, verdict.to_dict())


@pytest.mark.slow
def test_few_keys_in_many_dimensions_are_few():
    keys = np.random.default_rng(0).standard_normal((5, 307))
    keys[-1] = (keys[0] + keys[1]) / 2
    found = design.copy(keys, 4, eps=0.5)
    assert found.reachable
    assert found.norm > 1e14
    assert design.verify(found.to_dict(), keys).holds
    shared = design.share(keys[:4], [0, 2], eps=1e-12)
    assert shared.reachable
    assert design.verify(shared.to_dict(), keys[:4]).holds

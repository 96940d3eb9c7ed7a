"""The check of a certificate, statement by statement: what is proved, at its boundaries, and in which words.

Most checks here run on scripted levels: arithmetics that say what they are told to, so that each bound is known.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np
import pytest

from regard import design
from regard.design import verification
from regard.design.certificate import Balance, Certificate, Request, Statement, Verb, fingerprint
from regard.design.certificate_problem import CertificateProblem, ExactLevel
from regard.design.verification import _above, _below, _Checker, _gap_in_nats, _present, recheck, verify
from regard.errors import InputError
from regard.written_numbers import at_most

KEYS = np.array([[0.0], [1.0], [-1.0]])
TARGET = np.array([0.5, 0.5, 0.0])
ONES = Balance(weights=np.ones(2), mixture=np.ones(1))
ULP = 2.0**-52


class Scripted:
    """A level that says what it is told; each as a number or a ball."""

    def __init__(self, *, norm=1.0, value=0.0, entropy=0.0, slack=1.0, blur=0.0):
        self.said, self.blur = {"norm": norm, "value": value, "entropy": entropy, "slack": slack}, blur

    def norm(self, query):
        return self.said["norm"]

    def value(self, query):
        return flint.arb(self.said["value"])

    def entropy(self, weights):
        return flint.arb(self.said["entropy"])

    def slack(self, balance):
        return flint.arb(self.said["slack"])


def certificate(claim, verb=Verb.MATCH, *, keys=KEYS, **fields: Any) -> Certificate:
    demand = {"max_norm": 2.0} if claim is Statement.STRONGEST else {"kl": 0.5} if verb is Verb.MATCH else {"eps": 2.0}
    about = {"target": TARGET} if verb is Verb.MATCH else {"keys": fields.pop("chosen", (0,))}
    demand |= {name: fields.pop(name) for name in ("eps", "kl", "max_norm") if name in fields}
    if claim in (Statement.SHORTEST, Statement.STRONGEST):
        fields = {"query": np.ones(1), "dual": ONES, "gap": 1e-9, **fields}
    return Certificate(
        question=Request(verb=verb, **about, **({} if claim is Statement.CEILING else demand)),
        claim=claim, scale=1.0, allowed=None, shape=keys.shape, sha256=fingerprint(keys), **fields,
    )  # fmt: skip


def checker(claim, verb=Verb.MATCH, *levels, keys=KEYS, **fields: Any) -> _Checker:
    """With scripted levels, if any are given; `asked` then counts how many of them were."""
    given = certificate(claim, verb, keys=keys, **fields)
    made = _Checker(given, CertificateProblem(given, keys, True), quick=False)
    if levels:
        made.asked = 0

        def script(*_vectors):
            for level in levels:
                made.asked += 1
                yield level

        made._levels = script
    return made


def checked(claim, verb=Verb.MATCH, *levels, **fields: Any) -> _Checker:
    made = checker(claim, verb, *levels, **fields)
    with flint.ctx.workprec(verification.PRECISION), np.errstate(over="ignore", invalid="ignore"):
        made.check()
    return made


def verdicts(made: _Checker) -> list[bool]:
    return [holds for _, holds in made.statements]


def words(made: _Checker) -> list[str]:
    return [statement for statement, _ in made.statements]


# what comes out -----------------------------------------------------------------------------------------------------


def test_the_verdict_is_in_the_answer_the_words_and_the_statements():
    given = certificate(Statement.SHORTEST, Verb.COPY, query=np.zeros(1), norm=0.0, gap=0.0)
    good = verify(given, KEYS)
    assert good.holds
    assert good.answer is True
    assert str(good) == (
        "The certificate holds. The question: copy key 0, eps 2, scale 1.\n"
        "holds  the query meets the demand (copy)\n"
        "holds  its norm is at most 0, and no less\n"
        "holds  no query shorter than 0 does: the gap is at most 0\n"
        "Checked in exact and ball arithmetic, on the stored float64 keys."
    )
    bad = verify(replace(given, norm=1.0), KEYS, strict=False)
    assert not bad.holds
    assert bad.answer is False
    assert [holds for _, holds in bad.statements] == [True, False, True]
    assert "\nFAILS  its norm is at most 1, and no less\n" in str(bad)
    assert str(bad).startswith("The certificate does NOT hold. ")
    assert str(bad).endswith(
        "\nChecked in rounding-bounded float64 (NumPy's exp and log within 8 ulp), on the stored float64 keys."
    )


def test_scores_are_kept_and_not_shown():
    given = certificate(Statement.SHORTEST, Verb.COPY, query=np.ones(1), norm=1.0)
    found = verify(given, KEYS)
    assert found.plain_scores.tolist() == [0.0, 1.0, -1.0]
    assert "_scores" not in repr(found)


def test_a_whole_answer_is_held_against_its_certificate():
    answer = design.copy(np.eye(2), 0, eps=0.5)
    found = verify(answer, np.eye(2))
    assert found.holds
    assert found.statements[-1][0].startswith("the file's own figures are the certificate's: query, norm, ")
    assert len(verify(answer.certificate, np.eye(2)).statements) == 3


def test_a_certificate_is_for_its_own_keys():
    given = certificate(Statement.SHORTEST, Verb.COPY, query=np.zeros(1), norm=0.0)
    for other in (KEYS + 1, KEYS[:2], KEYS.T):
        with pytest.raises(InputError, match="made for other keys"):
            verify(given, other)
    for wrong in (replace(given, shape=(1, 3)), replace(given, sha256="0")):
        with pytest.raises(InputError, match="made for other keys"):
            verify(wrong, KEYS)
    # other keys are what is wrong first, whatever else is
    with pytest.raises(InputError, match="made for other keys"):
        verify({**given.to_dict(), "query": []}, KEYS + 1)
    for nothing in (None, 3, []):
        with pytest.raises(InputError, match="This is not a certificate"):
            verify(nothing, KEYS)
    assert [found.holds for found in (verify(given.to_dict(), KEYS), verify({"certificate": given}, KEYS))] == [
        True
    ] * 2


@pytest.mark.parametrize(("eps", "one_in"), [(2.0, None), (1.5, 3), (1.75, 3)])
def test_one_in_so_many(eps, one_in):
    """Key 0 is the mean of its two rivals: 1 in 3 at most, whatever the query."""
    keys = KEYS if one_in else np.array([[0.0], [2.0], [1.0]])
    combination = Balance(weights=np.ones(2), mixture=np.ones(1), basis=(0, 1))
    given = certificate(Statement.UNREACHABLE, Verb.COPY, keys=keys, eps=eps, combination=combination)
    assert verify(given, keys).one_in == one_in
    assert verify(given, keys).holds is (one_in is not None)


# the arithmetics ----------------------------------------------------------------------------------------------------


def levels(*vectors, strict=True, quick=False, keys=KEYS):
    given = certificate(Statement.SHORTEST, Verb.COPY, keys=keys)
    made = _Checker(given, CertificateProblem(given, keys, strict), quick=quick)._levels(*vectors)
    return [("exact" if isinstance(level, ExactLevel) else level.refine) for level in made]


def test_the_cheapest_arithmetic_comes_first_and_rationals_are_exact(monkeypatch):
    one, exact = np.ones(1), (flint.fmpq(1),)
    assert levels(one, None) == [False, True, "exact"]
    assert levels(one, strict=False) == [False, True]
    assert levels(one, quick=True) == [False]
    assert levels(one, exact) == ["exact"]
    assert levels(exact, one, strict=False, quick=True) == ["exact"]
    monkeypatch.setattr(verification, "AFFORDABLE", 2)  # two rivals of one number each
    assert levels(one) == [False, True, "exact"]
    monkeypatch.setattr(verification, "AFFORDABLE", 1)
    assert levels(one) == [False, True]


def test_quick_is_a_choice():
    """0.1 + 0.2 - 0.3 is not 0 in plain floats: one arithmetic more sees that the norm is as short as can be."""
    answer = design.copy(1e8 + np.eye(3), 0, eps=0.5)
    keys, given = 1e8 + np.eye(3), answer.certificate
    assert recheck(given, keys, strict=True).holds
    assert not recheck(given, keys, strict=True, quick=True).holds


@pytest.mark.parametrize("strict", [False, True])
def test_who_has_looked_at_the_keys_says_how_large_they_are(strict: bool) -> None:
    keys = np.random.default_rng(3).standard_normal((13, 5))
    for found in (design.copy(keys, 3, eps=0.1), design.share(keys, [2, 3], max_norm=0.5), design.ceiling(keys, 3)):
        made = found.certificate
        told = recheck(made, keys, strict=strict, top=float(np.abs(keys).max()))
        assert told.holds
        assert told.numbers == recheck(made, keys, strict=strict).numbers


@pytest.mark.parametrize(
    "forged",
    [
        {"scale": -1.0},
        {"scale": math.nan},
        {"allowed": (0, 1, 1, 3)},
        {"allowed": (0, 3, 99)},
    ],
)
def test_an_object_is_read_as_strictly_as_a_file(forged: dict) -> None:
    keys = np.random.default_rng(3).standard_normal((13, 5))
    made = design.copy(keys, 3, eps=0.1).certificate
    assert verify(made, keys).holds
    assert verify({"certificate": made}, keys, strict=False).holds
    for given in (replace(made, **forged), replace(made, **forged).to_dict()):
        with pytest.raises(InputError):
            verify(given, keys)


# the shortest query -------------------------------------------------------------------------------------------------


def test_the_shortest_query_and_its_bound():
    """(H - kl) / slack = (2.5 - 0.5) / 1 = 2."""
    exact = Scripted(norm=2.0, value=0.5, entropy=2.5)
    made = checked(Statement.SHORTEST, Verb.MATCH, exact, exact, norm=2.0, lower_bound=2.0)
    assert words(made) == [
        "the query meets the demand (match)",
        "its norm is at most 2, and no less",
        "no query shorter than 2 does: the gap is at most 1.1e-09",
    ]
    assert verdicts(made) == [True] * 3
    assert made.numbers == {"norm": 2.0, "lower_bound": 2.0, "gap": 0.0}
    assert made.asked == 1


def test_a_gap_as_wide_as_stated_is_enough():
    level = Scripted(norm=1 + 2.0**-30, value=0.0, entropy=1.5)
    made = checked(Statement.SHORTEST, Verb.MATCH, level, level, norm=1 + 2.0**-30, gap=2.0**-30)
    assert verdicts(made) == [True] * 3
    assert made.asked == 1
    made = checked(Statement.SHORTEST, Verb.MATCH, level, level, norm=1 + 2.0**-30, gap=2.0**-31)
    assert verdicts(made) == [True, True, False]
    assert made.asked == 2


@pytest.mark.parametrize(
    ("level", "lower", "gap"),
    [
        ({"norm": 3.0, "entropy": 2.5}, 2.0, 0.5),
        ({"norm": 0.5, "entropy": 0.75}, 0.25, 1.0),
        ({"norm": 0.5, "entropy": 0.75, "slack": 0.5}, 0.5, 0.0),
        ({"norm": 4.0, "entropy": 2.5, "slack": 0.5}, 4.0, 0.0),
        ({"norm": 3.0, "entropy": flint.arb(2.5, 0.25), "slack": flint.arb(1, 0.25)}, 1.4, 3.0 / 1.4 - 1),
        ({"norm": 3.0, "entropy": 0.5}, 0.0, math.inf),  # proves nothing
        ({"norm": 3.0, "entropy": 0.25}, 0.0, math.inf),
        ({"norm": 3.0, "entropy": 1.0, "slack": 0.0}, 0.0, math.inf),
        ({"norm": 1.0, "entropy": 0.5}, 0.0, math.inf),
        ({"norm": 0.0, "entropy": 0.5}, 0.0, 0.0),
        ({"norm": 0.0, "entropy": 9.0}, 0.0, 0.0),  # nothing is shorter than the zero query
    ],
)
def test_the_gap_between_a_query_and_its_bound(level, lower, gap):
    made = checked(Statement.SHORTEST, Verb.MATCH, Scripted(**level), norm=level["norm"])
    assert made.numbers["norm"] == level["norm"]
    assert made.numbers["lower_bound"] == pytest.approx(lower, rel=1e-8)
    assert made.numbers["lower_bound"] <= lower
    assert made.numbers["gap"] == pytest.approx(gap, rel=1e-7)
    assert verdicts(made) == [True, True, gap == 0.0]


def test_each_arithmetic_adds_what_it_proves():
    """The first knows a shorter norm, the second that the demand is met, the third a better bound."""
    one = Scripted(norm=2.0, value=0.75, entropy=1.5)
    two = Scripted(norm=3.0, value=0.25, entropy=0.5)
    three = Scripted(norm=2.5, value=0.75, entropy=2.5)
    made = checked(Statement.SHORTEST, Verb.MATCH, one, two, three, norm=2.0, lower_bound=2.0)
    assert made.asked == 3
    assert verdicts(made) == [True] * 3
    assert verdicts(checked(Statement.SHORTEST, Verb.MATCH, one, two, norm=2.0)) == [True, True, False]
    assert verdicts(checked(Statement.SHORTEST, Verb.MATCH, one, norm=2.0)) == [False, True, False]
    met = Scripted(norm=2.0, value=0.5, entropy=2.5)
    unmet = Scripted(norm=2.0, value=0.75, entropy=2.5)
    assert verdicts(checked(Statement.SHORTEST, Verb.MATCH, unmet, unmet, norm=2.0)) == [False, True, True]
    assert checked(Statement.SHORTEST, Verb.MATCH, unmet, met, norm=2.0).asked == 2


@pytest.mark.parametrize(("stated", "honest"), [(2.0, True), (2.0 - 1e-9, True), (2.0 + ULP * 2, False), (1.9, False)])
def test_a_lower_bound_is_stated_from_below(stated, honest):
    level = Scripted(norm=2.0, value=0.5, entropy=2.5)
    made = checked(Statement.SHORTEST, Verb.MATCH, level, level, norm=2.0, lower_bound=stated)
    assert verdicts(made) == [True, True, honest]
    assert made.asked == (1 if honest else 2)


@pytest.mark.parametrize(("stated", "honest"), [(2.0, True), (2.0 + 1e-9, True), (2.0 - ULP * 2, False), (2.1, False)])
def test_a_norm_is_stated_from_above(stated, honest):
    level = Scripted(norm=2.0, value=0.5, entropy=2.5)
    made = checked(Statement.SHORTEST, Verb.MATCH, level, norm=stated)
    assert verdicts(made) == [True, honest, True]
    assert words(made)[1] == f"its norm is at most {at_most(stated, 12)}, and no less"


# the strongest within a norm ----------------------------------------------------------------------------------------


def test_the_strongest_query_that_matches():
    """KL is at most 0.5 and at least H - radius slack = 1.5 - 2 / 2."""
    level = Scripted(norm=2.0, value=0.5, entropy=1.5, slack=0.5)
    made = checked(Statement.STRONGEST, Verb.MATCH, level, level, reached=0.5, bound=0.5)
    assert words(made) == [
        "the query's norm is at most 2",
        "its divergence is 0.5 or better",
        "no query of that norm gets past 0.5: within 1.1e-09 nats",
    ]
    assert verdicts(made) == [True] * 3
    assert made.numbers == {"norm": 2.0, "reached": 0.5, "bound": 0.5, "gap": 0.0}
    assert made.asked == 1


@pytest.mark.parametrize(
    ("field", "stated", "expected"),
    [
        ("reached", 0.5 + 5e-10, [True, True, True]),  # a divergence is stated from above,
        ("reached", 0.5 - 5e-10, [True, False, True]),
        ("reached", 0.6, [True, False, True]),
        ("bound", 0.5 - 5e-10, [True, True, True]),  # and its least from below
        ("bound", 0.5 + 5e-10, [True, True, False]),
        ("bound", 0.4, [True, True, False]),
    ],
)
def test_divergences_are_stated_on_their_safe_sides(field, stated, expected):
    level = Scripted(norm=2.0, value=0.5, entropy=1.5, slack=0.5)
    made = checked(Statement.STRONGEST, Verb.MATCH, level, level, **{field: stated})
    assert verdicts(made) == expected
    assert made.asked == (1 if all(expected) else 2)


def test_a_divergence_is_never_negative_and_an_odds_may_be():
    level = Scripted(norm=2.0, value=0.0, entropy=-1.0)
    assert checked(Statement.STRONGEST, Verb.MATCH, level).numbers["bound"] == 0.0
    made = checked(Statement.STRONGEST, Verb.COPY, Scripted(norm=2.0, value=-5.0, entropy=-4.0, slack=0.5))
    assert made.numbers["reached"] == pytest.approx(1 / (1 + math.exp(-5)), rel=1e-15)
    assert made.numbers["bound"] == pytest.approx(1 / (1 + math.exp(-5)), rel=1e-15)
    assert words(made)[1].startswith("its attention is 0.99330714")
    assert verdicts(made) == [True] * 3


def test_what_is_reached_is_rounded_down_and_the_most_up():
    made = checked(Statement.STRONGEST, Verb.COPY, Scripted(norm=2.0, value=1.0, entropy=3.0))
    assert verdicts(made) == [True] * 3
    with flint.ctx.workprec(200):
        exact = 1 / (1 + flint.arb(1).exp())
        assert flint.arb(made.numbers["reached"]) < exact < flint.arb(made.numbers["bound"])
    reached, bound = made.numbers["reached"], made.numbers["bound"]
    assert math.nextafter(reached, 1) == bound
    for field, stated, holds in (
        ("reached", reached, True),
        ("reached", reached * (1 - 5e-10), True),
        ("reached", bound, False),
        ("bound", bound, True),
        ("bound", bound * (1 + 5e-10), True),
        ("bound", reached, False),
    ):
        again = checked(Statement.STRONGEST, Verb.COPY, Scripted(norm=2.0, value=1.0, entropy=3.0), **{field: stated})
        assert all(verdicts(again)) is holds


def test_balls_count_by_their_worse_end():
    wide = Scripted(norm=2.0, value=flint.arb(0.5, 0.125), entropy=flint.arb(1.5, 0.125), slack=0.5)
    made = checked(Statement.STRONGEST, Verb.MATCH, wide)
    assert made.numbers["reached"] == pytest.approx(0.625, abs=1e-8)
    assert made.numbers["reached"] >= 0.625
    assert made.numbers["bound"] == pytest.approx(0.375, abs=1e-8)
    assert made.numbers["bound"] <= 0.375
    assert made.numbers["gap"] == pytest.approx(0.25, abs=1e-7)
    assert verdicts(made) == [True, True, False]


def test_the_best_of_all_arithmetics_counts():
    one = Scripted(norm=2.5, value=0.5, entropy=1.0, slack=0.5)
    two = Scripted(norm=2.0, value=0.75, entropy=1.5, slack=0.5)
    made = checked(Statement.STRONGEST, Verb.MATCH, one, two, one)
    assert made.asked == 2
    assert verdicts(made) == [True] * 3
    assert made.numbers == {"norm": 2.0, "reached": 0.5, "bound": 0.5, "gap": 0.0}
    too_long = Scripted(norm=2.5, value=0.5, entropy=1.5, slack=0.5)
    made = checked(Statement.STRONGEST, Verb.MATCH, too_long, too_long)
    assert made.asked == 2
    assert verdicts(made) == [False, True, True]
    assert words(made)[0] == "the query's norm is at most 2"


@pytest.mark.parametrize("verb", Verb)
def test_an_unbounded_value_reaches_nothing(verb):
    made = checked(Statement.STRONGEST, verb, Scripted(norm=1.0, value=math.inf, entropy=0.0))
    assert verdicts(made)[1] is False
    made = checked(Statement.STRONGEST, verb, Scripted(norm=1.0, value=math.nan, entropy=0.0))
    assert verdicts(made)[1:] == [False, False]


def test_gaps_are_in_nats():
    for verb, expected in ((Verb.COPY, math.log1p(math.exp(3)) - math.log1p(math.exp(1))), (Verb.SHARE, 2.0)):
        given = certificate(Statement.STRONGEST, verb)
        assert _gap_in_nats(CertificateProblem(given, KEYS, True), 3.0, 1.0) == pytest.approx(expected, rel=1e-15)


# what is stated -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "name", "gap", "proved", "room"),
    [
        (Verb.COPY, "bound", 1e-9, 0.5, 0.5e-9),  # relative to the figure,
        (Verb.COPY, "bound", 1e-6, 0.5, 0.5e-9),  # never more than 1e-9
        (Verb.COPY, "bound", -1e-6, 0.5, 0.5e-9),
        (Verb.COPY, "bound", 1e-11, 0.5, 0.5e-11),
        (Verb.COPY, "bound", None, 0.5, 0.5e-12),  # nor less than the rounding
        (Verb.SHARE, "norm", 1e-9, 8.0, 8e-9),
        (Verb.MATCH, "bound", 1e-9, 0.5, 1e-9),  # absolute for divergences,
        (Verb.MATCH, "bound", 1e-9, 8.0, 1e-9),
        (Verb.MATCH, "norm", 1e-9, 8.0, 8e-9),  # not for lengths
        (Verb.MATCH, "lower_bound", 1e-9, 8.0, 8e-9),
    ],
)
def test_a_stated_figure_is_on_the_safe_side_and_close(verb, name, gap, proved, room):
    def states(stated, *, upper):
        return checker(Statement.STRONGEST, verb, gap=gap, **{name: stated})._states(name, proved, upper=upper)

    for upper, side in ((True, 1), (False, -1)):
        assert states(proved, upper=upper) is True
        assert states(proved + side * room * 0.999, upper=upper) is True
        assert states(proved + side * room * 1.001, upper=upper) is False
        assert states(math.nextafter(proved, -side * math.inf), upper=upper) is False
        assert states(None, upper=upper) is True
        assert states(math.nan, upper=upper) is False


@pytest.mark.parametrize("verb", Verb)
@pytest.mark.parametrize("name", ["bound", "lower_bound"])
def test_a_figure_stated_from_below_is_never_negative(verb, name):
    """A divergence of 5e-10 may be stated as 0 in a gap of 1e-9, and not as less than nothing."""
    for stated, holds in ((0.0, verb is Verb.MATCH and name == "bound"), (-1e-10, False), (-5e-324, False)):
        made = checker(Statement.STRONGEST, verb, gap=1e-9, **{name: stated})
        assert made._states(name, 5e-10, upper=False) is holds


@pytest.mark.parametrize(
    ("claim", "verb", "figures", "holds"),
    [
        (Statement.SHORTEST, Verb.COPY, {"norm": 1 + 1e-10, "lower_bound": 1.0}, True),
        (Statement.SHORTEST, Verb.COPY, {"norm": 1 + 3e-10, "lower_bound": 1.0}, False),
        (Statement.SHORTEST, Verb.COPY, {"norm": 0.0, "lower_bound": 0.0}, True),
        (Statement.SHORTEST, Verb.COPY, {"norm": 1e-300, "lower_bound": 0.0}, False),
        (Statement.SHORTEST, Verb.COPY, {"norm": 1.0}, True),
        (Statement.STRONGEST, Verb.COPY, {"bound": 0.5 + 4e-11, "reached": 0.5}, True),
        (Statement.STRONGEST, Verb.COPY, {"bound": 0.5 + 2e-10, "reached": 0.5}, False),
        (Statement.STRONGEST, Verb.SHARE, {"bound": 3e-20, "reached": 2e-20}, False),
        (Statement.STRONGEST, Verb.SHARE, {"bound": 5e-324, "reached": 0.0}, True),
        (Statement.STRONGEST, Verb.MATCH, {"bound": 0.0, "reached": 1e-10}, True),
        (Statement.STRONGEST, Verb.MATCH, {"bound": 0.0, "reached": 3e-10}, False),
        (Statement.CEILING, Verb.COPY, {"ceiling": 0.5, "reached": 0.5 - 1e-10}, True),
        (Statement.CEILING, Verb.COPY, {"ceiling": 0.5, "reached": 0.5 - 3e-10}, False),
    ],
)
def test_what_lies_between_two_stated_figures_fits_the_stated_gap(claim, verb, figures, holds):
    assert checker(claim, verb, gap=2e-10, **figures)._fit_each_other() is holds


def test_the_room_for_a_figure_ends_where_it_ends():
    for upper, stated in ((True, 1 + 2.0**-30), (False, 1 - 2.0**-30)):
        made = checker(Statement.STRONGEST, Verb.MATCH, gap=2.0**-30, bound=stated)
        assert made._states("bound", 1.0, upper=upper) is True


@pytest.mark.parametrize(
    ("claim", "gap", "wanted", "holds"),
    [
        (Statement.SHORTEST, 1e-9, 1e-9, True),
        (Statement.SHORTEST, 0.0, 1e-9, True),
        (Statement.SHORTEST, -1.0, 0.0, True),
        (Statement.SHORTEST, -1.0, -0.5, False),
        (Statement.SHORTEST, 0.0, 1.1e-9, False),  # a wider gap says too little
        (Statement.SHORTEST, 1.1e-9, 1e-9, False),
        (Statement.STRONGEST, 1e-9, 1e-9, True),
        (Statement.STRONGEST, 0.0, 1.1e-9, False),
        (Statement.CEILING, 1e-6, 1e-6, True),
        (Statement.CEILING, 0.0, 1.1e-6, False),
        (Statement.SHORTEST, math.nan, 1e-9, False),
    ],
)
def test_a_gap_holds_that_is_stated_and_narrow(claim, gap, wanted, holds):
    assert checker(claim, Verb.COPY, gap=wanted)._gap_holds(gap) is holds


def test_numbers_that_must_be_there():
    assert _present(0.0) == 0.0
    with pytest.raises(InputError, match="lacks a number that its claim needs"):
        _present(None)


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(2, 3), Fraction(1, 2), Fraction(1), Fraction(-1, 3)])
def test_fractions_are_rounded_to_the_nearest_float_on_their_side(x):
    up, down = _above(x), _below(x)
    assert Fraction(down) <= x <= Fraction(up)
    assert up == down or math.nextafter(down, math.inf) == up
    assert (up == down) is (x.denominator < 3)


# never --------------------------------------------------------------------------------------------------------------

COPIED = np.array([[0.0], [0.0], [1.0], [-1.0]])


def never(keys, *, eps, weights=None, basis=None, bound=None, chosen=(0,), verb=Verb.COPY):
    combination = None
    if weights is not None:
        mixture = np.ones(len(chosen)) if basis else tuple(flint.fmpq(1) for _ in chosen)
        stored = np.array(weights, dtype=float) if basis else tuple(map(flint.fmpq, weights))
        combination = Balance(weights=stored, mixture=mixture, basis=basis)
    return checked(Statement.UNREACHABLE, verb, keys=keys, eps=eps, combination=combination, bound=bound, chosen=chosen)


def test_copies_of_a_key_set_its_limit():
    keys = np.array([[1.0], [1.0], [1.0], [5.0]])
    made = never(keys, eps=2.0, bound=_above(Fraction(1, 3)))
    assert words(made) == [
        "2 other keys are equal to it",
        "so no query at all gets past 1/3, which is short of the demand",
    ]
    assert verdicts(made) == [True, True]  # the fourth key takes a little
    assert made.numbers == {"bound": _above(Fraction(1, 3))}
    assert made.exactly == Fraction(1, 3)
    assert verdicts(never(keys[:3], eps=2.0)) == [True, False]
    assert verdicts(never(keys[:3], eps=2.0 - ULP)) == [True, True]
    assert verdicts(never(keys, eps=2.0 + 2 * ULP)) == [True, False]
    assert verdicts(never(keys, eps=1.0, bound=0.3)) == [True, False]
    made = never(KEYS, eps=0.25)
    assert verdicts(made) == [False, False]
    assert words(made)[0] == "0 other keys are equal to it"
    assert math.isnan(made.numbers["bound"])
    assert made.exactly is None


@pytest.mark.parametrize("weight", [1, 2, 0.5])
@pytest.mark.parametrize("basis", [None, (0, 1)])
def test_equal_weights_prove_a_limit_that_is_approached_only_with_a_key_left_out(weight, basis):
    """0 is the mean of 1 and -1, which weigh 2 together at least; a further key takes a little more."""
    weight = flint.fmpq(*float(weight).as_integer_ratio()) if basis is None else weight
    third = _above(Fraction(1, 3))
    made = never(KEYS, eps=2.0, weights=[weight, weight], basis=basis)
    assert verdicts(made) == [True, False]
    assert made.exactly == Fraction(1, 3)
    wider = np.array([[0.0], [1.0], [-1.0], [3.0]])
    made = never(wider, eps=2.0, weights=[weight, weight, 0], basis=basis, bound=third)
    assert verdicts(made) == [True, True]
    assert words(made) == [
        "the weights can be made to balance exactly, all of them positive",
        "so no query at all gets past 1/3, which is short of the demand",
    ]
    assert verdicts(never(wider, eps=2.5, weights=[weight, weight, 0], basis=basis)) == [True, False]
    assert verdicts(never(wider, eps=2.0, weights=[weight, weight, 0], basis=basis, bound=0.3)) == [True, False]
    assert verdicts(never(wider, eps=1.0, weights=[weight, 0, weight], basis=basis and (0, 2))) == [False] * 2


@pytest.mark.parametrize("basis", [None, (0, 1)])
def test_copies_that_a_combination_leaves_out_are_counted_apart(basis):
    """Three rivals, of which one is equal: 1/4, which the zero query reaches, so that eps = 3 can be had."""
    made = never(COPIED, eps=3.0, weights=[0, 1, 1], basis=basis)
    assert verdicts(made) == [True, False]
    assert made.exactly == Fraction(1, 4)
    assert verdicts(never(COPIED, eps=3.0 - 2 * ULP, weights=[0, 1, 1], basis=basis)) == [True, True]
    wider = np.append(COPIED, [[7.0]], axis=0)
    assert verdicts(never(wider, eps=3.0, weights=[0, 1, 1, 0], basis=basis)) == [True, True]
    assert verdicts(never(wider, eps=3.0, weights=[1, 1, 1, 0], basis=basis and (1, 2))) == [True, True]
    assert verdicts(never(COPIED, eps=3.0, weights=[1, 1, 1], basis=basis and (1, 2))) == [True, False]


def test_rationals_that_are_not_equal_prove_a_limit_too():
    """0 = 2/3 of 1 and 1/3 of -2: e^H = 3 / 2^(2/3), 1.8899."""
    keys = np.array([[0.0], [1.0], [-2.0]])
    total = 3 / 2 ** (2 / 3)
    made = never(keys, eps=1.5, weights=[2, 1])
    assert verdicts(made) == [True, True]
    assert made.exactly is None
    assert made.numbers["bound"] == pytest.approx(1 / (1 + total), rel=1e-15)
    assert (
        words(made)[1] == f"so no query at all gets past {at_most(1 / (1 + total), 12)}, which is short of the demand"
    )
    assert verdicts(never(keys, eps=1.89, weights=[2, 1])) == [True, False]
    assert verdicts(never(keys, eps=1.8, weights=[1, 1])) == [False, False]


def unsettled(verb=Verb.COPY, *, keys=KEYS, bound=None, **fields: Any) -> _Checker:
    made = checker(Statement.UNREACHABLE, verb, keys=keys, **fields)
    if bound is not None:
        made.numbers["bound"] = bound
    return made


@pytest.mark.parametrize(
    ("total", "left_out", "short"),
    [
        (Fraction(2), True, True),
        (Fraction(2), False, False),
        (Fraction(5, 2), False, True),
        (Fraction(3, 2), True, False),
        (Fraction(3, 2), False, False),
        (flint.arb(2), True, False),
        (flint.arb(2.5), False, True),
        (flint.arb(2.5, 1), False, False),
        (flint.arb(1.5), True, False),
    ],
)
def test_short_of_the_demand(total, left_out, short):
    assert unsettled(eps=2.0)._short_of_demand(total, left_out) is short


@pytest.mark.parametrize(("bound", "short"), [(0.5, False), (0.5 + ULP, True), (0.25, False), (math.nan, False)])
def test_short_of_a_divergence(bound, short):
    assert unsettled(Verb.MATCH, bound=bound)._short_of_demand(Fraction(9), True) is short


def test_the_bound_that_a_total_means():
    made = unsettled()
    made._most(None)
    assert made.numbers == {}
    made._most(Fraction(2))
    assert (made.exactly, made.numbers["bound"]) == (Fraction(1, 3), _above(Fraction(1, 3)))
    made = unsettled(Verb.SHARE)
    made._most(Fraction(3))
    assert (made.exactly, made.numbers["bound"]) == (Fraction(1, 3), _above(Fraction(1, 3)))
    made = unsettled()
    made._most(flint.arb(3, 0.5))
    assert made.exactly is None
    assert 1 / 3.5 <= made.numbers["bound"] <= (1 / 3.5) * (1 + 1e-8)
    made = unsettled(Verb.SHARE)
    made._most(flint.arb(4, 0.5))
    assert 1 / 3.5 <= made.numbers["bound"] <= (1 / 3.5) * (1 + 1e-8)
    made._most(flint.arb(0.5))
    assert made.numbers["bound"] == 1.0


def test_the_divergence_that_a_total_means():
    """ln 8 less the target's entropy, ln 2; keys without a share have no part in it."""
    for total in (Fraction(8), flint.arb(8)):
        made = unsettled(Verb.MATCH)
        with flint.ctx.workprec(200):
            made._most(total)
            exact = flint.arb(4).log()
            assert exact - flint.arb(1e-15) < flint.arb(made.numbers["bound"]) <= exact
        assert made.exactly is None
    made._most(flint.arb(8, 1))
    assert made.numbers["bound"] == pytest.approx(math.log(3.5), rel=1e-8)
    made._most(Fraction(1))
    assert made.numbers["bound"] == 0.0


def test_a_divergence_that_stays_above_the_demand():
    """Of -1, 0, 1 with target 1/2, 1/2, 0 nothing is out of reach; with all three alike the mean key tells 0 apart."""
    target = np.array([0.0, 0.5, 0.5])
    for kl, holds in ((0.4, True), (0.5, False)):
        given = certificate(
            Statement.UNREACHABLE, keys=KEYS, kl=kl,
            combination=Balance(weights=tuple(map(flint.fmpq, (1, 1, 1))), mixture=()),
        )  # fmt: skip
        given = replace(given, question=replace(given.question, target=target))
        found = verify(given, KEYS)
        assert found.holds is holds
        assert found.numbers["bound"] == pytest.approx(math.log(1.5), rel=1e-15)
        assert found.statements[1][0].startswith("so no query at all gets past 0.405465108108, which is short")
        assert verify(replace(given, bound=found.numbers["bound"] - 5e-13), KEYS).holds is holds
        assert not verify(replace(given, bound=found.numbers["bound"] + 5e-13), KEYS).holds


class Exactly:
    """In the place of the exact level: says what it is told, and remembers that it was asked."""

    def __init__(self, total):
        self.total_said, self.asked = total, 0

    def __call__(self, problem):
        return self

    def total(self, combination):
        self.asked += 1
        return self.total_said


@pytest.mark.parametrize(
    ("verb", "weights", "exact", "asked", "apart", "keep"),
    [
        (Verb.COPY, [0.0, 1.0, 1.0], Fraction(7), 1, None, None),  # settled exactly
        (Verb.COPY, [0.0, 1.0, 1.0], None, 1, 1, [False, True, True]),
        (Verb.COPY, [0.0, 0.5, 0.25], Fraction(7), 0, 1, [False, True, True]),  # unequal floats are not tried exactly
        (Verb.COPY, [0.5, 0.5, 0.25], Fraction(7), 0, 0, None),
        (Verb.SHARE, [1.0, 0.5, 0.0, 0.0], Fraction(7), 0, 0, None),
        (Verb.SHARE, [2.0, 2.0, 2.0, 0.0], Fraction(7), 1, None, None),
    ],
)
def test_floats_are_tried_exactly_where_they_are_equal_and_else_solved_for(
    verb, weights, exact, asked, apart, keep, monkeypatch
):
    level, solved = Exactly(exact), []
    monkeypatch.setattr(verification, "ExactLevel", level)
    monkeypatch.setattr(verification, "combination_value", lambda *given: solved.append(given[2]) or 0.0)
    combination = Balance(weights=np.array(weights), mixture=np.ones(1), basis=(0, 1))
    total = unsettled(verb, keys=COPIED)._total(combination)
    assert level.asked == asked
    if apart is None:
        assert total == exact
        assert solved == []
    else:
        assert total == apart + 1  # e^0
        assert [None if one is None else one.tolist() for one in solved] == [keep]


def test_one_copy_in_a_combination_counts_for_all(monkeypatch):
    """Weights on one of two copies: none is counted apart."""
    keys = np.array([[0.0], [0.0], [0.0], [1.0]])
    seen = []
    monkeypatch.setattr(verification, "combination_value", lambda *given: seen.append(given[2]) or 0.0)
    combination = Balance(weights=np.array([0.5, 0.0, 0.25]), mixture=np.ones(1), basis=(0, 1))
    assert unsettled(keys=keys)._total(combination) == 1
    assert seen == [None]


def test_where_nothing_balances_nothing_is_known(monkeypatch):
    floats = Balance(weights=np.array([0.5, 0.25]), mixture=np.ones(1), basis=(0, 1))
    rational = Balance(weights=(flint.fmpq(1), flint.fmpq(1)), mixture=(flint.fmpq(1),))
    unequal = Balance(weights=(flint.fmpq(2), flint.fmpq(1)), mixture=(flint.fmpq(1),))
    monkeypatch.setattr(verification, "combination_value", lambda *given: None)
    assert unsettled()._total(floats) is None
    assert unsettled()._total(unequal) is None
    for size, total in ((2, Fraction(2)), (1, None)):  # two rivals of one number each
        monkeypatch.setattr(verification, "AFFORDABLE", size)
        assert unsettled()._total(rational) == total


# ceilings -----------------------------------------------------------------------------------------------------------


def ceiling(verb=Verb.COPY, *levels, keys=KEYS, **fields: Any) -> _Checker:
    return checked(Statement.CEILING, verb, *levels, keys=keys, **{"gap": 1e-6, **fields})


def test_the_ceiling_of_a_key_without_copies_is_one():
    """F = ln(1e-7 / (1 - 1e-7)) about: within 1e-6 of 1."""
    level = Scripted(norm=7.0, value=math.log(1e-7))
    made = ceiling(Verb.COPY, level, level, query=np.ones(1), ceiling=1.0)
    assert words(made) == [
        "no query ever gets past 1",
        "the stored query of norm 7 comes to 0.9999999, within 1e-06 of that",
    ]
    assert verdicts(made) == [True, True]
    assert made.asked == 1
    assert made.numbers == {"ceiling": 1.0, "reached": pytest.approx(1 / (1 + 1e-7), rel=1e-15)}
    assert verdicts(ceiling(Verb.COPY, level, query=np.ones(1), ceiling=0.9)) == [False, True]
    assert verdicts(ceiling(Verb.COPY, level, query=np.ones(1), gap=1e-8)) == [True, False]
    assert verdicts(ceiling(Verb.COPY, level, query=np.ones(1), reached=1.0)) == [True, False]
    assert verdicts(ceiling(Verb.COPY, level, query=np.ones(1), reached=made.numbers["reached"])) == [True, True]
    assert "within 2e-08 of that" in words(ceiling(Verb.COPY, level, query=np.ones(1), gap=1e-8))[1]


def test_a_ceiling_by_a_combination():
    """Key 0 is the mean of the two others: 1/3, which the zero query has."""
    combination = Balance(weights=(flint.fmpq(1), flint.fmpq(1)), mixture=(flint.fmpq(1),))
    third = _above(Fraction(1, 3))
    level = Scripted(norm=0.0, value=flint.arb(math.log(2)))
    made = ceiling(Verb.COPY, level, query=np.zeros(1), combination=combination, ceiling=third)
    assert words(made)[0] == "no query ever gets past 1/3"
    assert words(made)[1] == "the stored query of norm 0 comes to 0.333333333, within 1e-06 of that"
    assert verdicts(made) == [True, True]
    assert verdicts(ceiling(Verb.COPY, level, query=np.zeros(1), combination=combination, ceiling=1.0)) == [False, True]
    keys = np.array([[0.0], [1.0], [-2.0]])
    unequal = Balance(weights=(flint.fmpq(2), flint.fmpq(1)), mixture=(flint.fmpq(1),))
    made = ceiling(Verb.COPY, level, keys=keys, query=np.zeros(1), combination=unequal)
    assert words(made)[0] == "no query ever gets past 0.346034941"  # 1 / (1 + 3 / 2^(2/3)), rounded up
    assert verdicts(made) == [True, False]


def test_no_combination_that_balances_is_no_ceiling():
    combination = Balance(weights=(flint.fmpq(2), flint.fmpq(1)), mixture=(flint.fmpq(1),))
    level = Scripted(norm=0.0, value=-50.0)
    made = ceiling(Verb.COPY, level, query=np.zeros(1), combination=combination, ceiling=1.0)
    assert verdicts(made) == [False, True]
    assert made.numbers["ceiling"] == 1.0
    assert words(made)[0] == "no query ever gets past 1"
    for verb in (Verb.SHARE, Verb.MATCH):
        made = ceiling(verb, level, query=np.zeros(1))
        assert verdicts(made)[0] is False
        assert made.numbers["ceiling"] == 1.0


def test_the_least_divergence_is_approached_from_above():
    """With all three keys alike the target 1/2, 1/2, 0 is missed by ln 3/2 at least, if its mean key is theirs."""
    combination = Balance(weights=tuple(map(flint.fmpq, (1, 1, 1))), mixture=())
    keys = np.array([[-1.0], [1.0], [0.0]])
    least = math.log(1.5)

    def match(value, **fields):
        level = Scripted(value=value)
        return verdicts(ceiling(Verb.MATCH, level, keys=keys, query=np.zeros(1), combination=combination, **fields))

    assert match(least + 1e-7) == [True, True]
    assert match(least + 1e-7, ceiling=least - 1e-10) == [True, True]
    assert match(least + 1e-7, ceiling=least + 1e-10) == [False, True]
    assert match(least + 1e-7, reached=least + 1.001e-7) == [True, True]
    assert match(least + 1e-7, reached=least + 0.999e-7) == [True, False]
    assert match(least + 1e-5) == [True, False]
    assert match(0.0) == [True, False]


def test_the_sharpest_arithmetic_decides_what_is_reached():
    """An arithmetic that is blurred by more than 1e-10 is not the last word, even where it is close enough."""
    close, sharp = math.log(1e-7), 1e-10
    for blur, asked in ((0.0, 1), (sharp / 2, 1), (sharp, 1), (2 * sharp, 2)):
        level = Scripted(norm=3.0, value=close, blur=blur)
        assert ceiling(Verb.COPY, level, Scripted(norm=2.0, value=close), query=np.ones(1)).asked == asked
    far = Scripted(norm=3.0, value=0.0)
    made = ceiling(Verb.COPY, far, Scripted(norm=5.0, value=close), query=np.ones(1))
    assert made.asked == 2
    assert verdicts(made) == [True, True]
    assert words(made)[1].startswith("the stored query of norm 3 comes to 0.9999999,")
    made = ceiling(
        Verb.COPY, Scripted(norm=3.0, value=close, blur=1.0), Scripted(value=flint.arb(0.0)), query=np.ones(1)
    )
    assert made.numbers["reached"] == pytest.approx(1 / (1 + 1e-7), rel=1e-15)


def test_what_a_query_reaches_is_rounded_down():
    level = Scripted(value=flint.arb(-16.0, 0.5))
    made = ceiling(Verb.COPY, level, query=np.ones(1))
    with flint.ctx.workprec(200):
        exact = 1 / (1 + flint.arb(-15.5).exp())
        assert exact * (1 - flint.arb(1e-9)) < flint.arb(made.numbers["reached"]) < exact
    with flint.ctx.workprec(200):
        exact = 1 / (1 + flint.arb(-16).exp())
    assert flint.arb(ceiling(Verb.COPY, Scripted(value=-16.0), query=np.ones(1)).numbers["reached"]) < exact


@pytest.mark.parametrize("direction", [(1, 0), np.array([1.0, 0.0])])
def test_a_direction_that_wins_reaches_the_limit(direction):
    keys = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    made = ceiling(Verb.COPY, keys=keys, direction=direction, ceiling=_above(Fraction(1, 3)))
    assert verdicts(made) == [True, True]
    assert words(made) == [
        "no query ever gets past 1/3",
        "a query along the stored direction, made long enough, comes to 0.333333333, within 1e-06 of that",
    ]
    assert made.numbers["reached"] == _below(Fraction(1, 3))
    lost = ceiling(Verb.COPY, keys=keys, direction=(1, 1))
    assert verdicts(lost) == [True, False]
    assert lost.numbers["reached"] == 0.0
    assert verdicts(ceiling(Verb.SHARE, keys=keys, direction=direction))[1] is False


def test_whole_numbers_have_all_their_digits():
    keys = np.eye(2)
    assert verdicts(ceiling(Verb.COPY, keys=keys, direction=(2**70 + 1, 2**70))) == [True, True]
    assert verdicts(ceiling(Verb.COPY, keys=keys, direction=(2**70, 2**70))) == [True, False]
    assert verdicts(ceiling(Verb.COPY, keys=keys, direction=np.array([0.5, 0.25]))) == [True, True]
    assert verdicts(ceiling(Verb.COPY, keys=keys, direction=np.array([0.25, 0.5]))) == [True, False]
    assert verdicts(ceiling(Verb.COPY, keys=keys, direction=np.array([0.5, 0.25]), chosen=(1,))) == [True, False]

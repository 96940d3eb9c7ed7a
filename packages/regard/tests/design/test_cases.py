"""The published generator of small designs: nothing refused, nothing false, and every kind of answer among them."""

from __future__ import annotations

from collections import Counter

import pytest

from design_cases import EXTREMES, FAMILIES, case, extreme_case
from design_oracle import judged
from regard.design.winnable_check import verify_winnable
from regard.errors import CouldNotFindOut, InputError
from tiers import NIGHTLY, sampled

SAMPLE, ALL, PART = 300, 2400, 300
QUICK = ("tiny", "huge", "scaled_family")  # extremes that seldom need thousands of digits
MOST_REFUSED = 1 / 1000


def counted(seeds):
    """How many of each kind of answer there were, and what was refused or false, with its seed."""
    kinds, refused, false = Counter(), [], {}
    for seed in seeds:
        question = case(seed)
        try:
            answer = question.ask()
        except CouldNotFindOut:
            refused.append(seed)
            continue
        kinds[question.verb, answer.certificate.claim.value] += 1
        if wrong := judged(question, answer):
            false[seed] = wrong
    return kinds, refused, false


@pytest.mark.slow
def test_a_sample_of_the_cases_is_answered_and_true():
    kinds, refused, false = counted(range(SAMPLE))
    assert false == {}
    assert refused == []
    expected = {
        (verb, claim) for verb in ("copy", "share", "match") for claim in ("shortest", "strongest", "unreachable")
    }
    assert set(kinds) == {*expected, ("ceiling", "ceiling")}


@pytest.mark.parametrize("seed", [353, 422])
def test_what_a_query_reaches_is_told_to_the_digits_that_are_stated(seed):
    """Long queries, whose scores in plain floats leave a bound that is true and up to 2e-7 too low."""
    assert judged(case(seed), case(seed).ask()) == []


def test_the_generator_draws_every_family_and_every_size():
    drawn = [case(seed) for seed in range(ALL)]
    assert {question.family for question in drawn} == {family.__name__ for family in FAMILIES}
    sizes = [abs(question.keys).max() for question in drawn if question.keys.any()]
    assert min(sizes) < 1e-7
    assert max(sizes) > 1e7
    demands = [question.options.get("eps", question.options.get("kl", 1.0)) for question in drawn]
    assert min(demands) < 1e-11
    assert any(demand > len(question.keys) for demand, question in zip(demands, drawn, strict=True))
    assert sum("allowed" in question.options for question in drawn) > ALL / 6


@pytest.mark.slow
@pytest.mark.parametrize("start", sampled(range(SAMPLE, ALL, PART), every=8, others=NIGHTLY))
def test_the_rest_of_the_cases(start):
    _, refused, false = counted(range(start, start + PART))
    assert false == {}
    assert len(refused) <= MOST_REFUSED * ALL


def outcome(question, folder):
    """What came of an extreme question: an answer that is true, a sentence, or what is false. Nothing else may."""
    try:
        answer = question.ask()
    except (InputError, CouldNotFindOut) as error:
        return "false" if "must hold finite numbers" in str(error) else type(error).__name__  # they do
    if question.verb == "winnable":
        answer.save(folder / "proof.json")
        assert verify_winnable(question.keys, folder / "proof.json").answer
        return "answer"
    several = answer if question.verb == "copy_many" else [answer]
    assert [wrong for one in several for wrong in judged(question, one)] == []
    return "answer"


@pytest.mark.slow
def test_extreme_finite_numbers_end_in_an_answer_or_a_sentence(tmp_path):
    drawn = [extreme_case(seed) for seed in range(120)]
    assert {question.family for question in drawn} == {family.__name__ for family in EXTREMES}
    outcomes = Counter(outcome(question, tmp_path) for question in drawn if question.family in QUICK)
    assert outcomes["false"] == 0
    assert outcomes["answer"] > 20
    assert outcomes["InputError"] > 5  # keys whose squares leave the range are refused


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled([90, 157, 215, 3144, 3190, *range(1000, 1040)], every=5, others=NIGHTLY))
def test_more_extremes(seed, tmp_path):
    assert outcome(extreme_case(seed), tmp_path) != "false"

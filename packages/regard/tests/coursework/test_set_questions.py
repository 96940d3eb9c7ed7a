"""Questions found by set and label: as people write them, with the verdicts of their own set."""

from __future__ import annotations

import json

import pytest

import regard
from regard.coursework.catalogue import claims
from regard.coursework.problem_sets import SETS, Source, find_set, label_parts
from regard.coursework.verdict import Status
from regard.errors import InputError

EVERY = [(one.name, label) for one in SETS.values() for label in one.labels]


@pytest.mark.parametrize(("name", "label"), EVERY)
def test_every_label_finds_itself_and_has_a_claim(name: str, label: str) -> None:
    for written in (label, label.lower(), f"question {label}", label.replace("(", "").replace(")", "")):
        assert SETS[name].label(written) == label
    (asked,) = [one for one in claims.of(name, label).questions if one.label == label]
    assert asked.claims
    assert all(label in claim.source_in(name).labels for claim in asked.claims)


@pytest.mark.slow
def test_every_claim_is_found_in_every_set_that_has_it() -> None:
    pairs = [(claim, source) for claim in claims.values() for source in claim.sources]
    asked = {name: [one.name for one in regard.claims.of(name).claims] for name in {source.name for _, source in pairs}}
    for claim, source in pairs:
        assert claim.name in asked[source.name]
        assert source.reading in ("", *[reading.name for reading in claim.readings])


@pytest.mark.parametrize(
    ("name", "written", "labels"),
    [
        ("cse151b-hw4", "1B.i", ("1B.i",)),  # not 1B.ii as well
        ("cse151b-hw4", "1b ii", ("1B.ii",)),
        ("cse151b-hw4", "q1Bii", ("1B.ii",)),
        ("cse151b-hw4", "1", ("1A.i", "1A.ii", "1A.iii", "1A.iv", "1B.i", "1B.ii")),
        ("cse151b-hw4", "2", ("2", "2A", "2B")),
        ("cse151b-hw4", "fig", ("Figure 1",)),
        ("cs224n-w25-a4", "1-4", ("1-4i", "1-4ii")),
        ("cs224n-w25-a4", "1.4(ii)", ("1-4ii",)),
        ("sequence-models-hw3", "3a", ("3(a)i", "3(a)ii")),
        ("self-attention-written", "d", ("(d)i", "(d)ii")),
        ("attention-position-svd", "svd", ("SVD (a)", "SVD (b)", "SVD (c)")),
        ("attention-position-svd", "att b", ("Attention (b)",)),
        ("attention-position-svd", "Attention(b)", ("Attention (b)",)),
    ],
)
def test_a_question_as_people_write_it(name: str, written: str, labels: tuple[str, ...]) -> None:
    assert SETS[name].find(written) == labels


@pytest.mark.parametrize("written", ["", "()", "1C", "3", "1B.iii", "question", "a" * 10_000, "1B.i\n", "²"])
def test_a_question_that_is_not_there_gets_a_short_sentence(written: str) -> None:
    if label_parts(written) == label_parts("1B.i"):
        assert SETS["cse151b-hw4"].find(written) == ("1B.i",)
        return
    with pytest.raises(
        InputError, match=r"cse151b-hw4 has no question .* regard claims cse151b-hw4 lists them\.$"
    ) as no:
        SETS["cse151b-hw4"].find(written)
    assert len(str(no.value)) < 300


def test_near_misses_are_suggested() -> None:
    with pytest.raises(InputError, match=r"cs224n-w25-a4 has no question '1-4iii'\. Did you mean 1-4ii"):
        claims.of("cs224n", "1-4iii")
    with pytest.raises(InputError, match="There is no problem set 'cs244n-w25-a4'; did you mean cs224n-w25-a4"):
        find_set("cs244n-w25-a4")
    with pytest.raises(InputError, match="There is no problem set 'x'; the sets are sequence-models-hw3, "):
        find_set("x")
    with pytest.raises(
        InputError, match=r"There is no claim 'cs224n'; that is a problem set: regard claims cs224n, or"
    ):
        claims["cs224n"]
    with pytest.raises(InputError, match="There is no claim 'cse151-hw4'; did you mean cse151b-hw4"):
        claims.find("cse151-hw4")
    with pytest.raises(
        InputError, match=r"'two' begins the names of two-heads-average, two-heads-steady, .*: write more"
    ):
        claims.find("two")
    assert claims.find("average-w") is claims["average-within-budget"]


def test_a_source_names_a_question_of_its_set() -> None:
    with pytest.raises(InputError, match=r"cse151b-hw4 has no question '3'; it has 1A\.i, "):
        Source("cse151b-hw4", "3")
    with pytest.raises(InputError, match="There is no problem set 'cse'; the sets are"):
        Source("cse", "1A.i")


# verdicts by set


def test_a_verdict_for_each_set_where_premises_differ() -> None:
    found = claims["two-heads-steady"].check()
    assert found.premises_differ
    assert found.status is Status.REFUTED
    assert found.for_set("cs224n-w25-a4").status is Status.REFUTED
    assert found.for_set("self").status is Status.HOLDS
    assert "REFUTED      cs224n-w25-a4, 1-4ii           almost always" in str(found)
    assert "HOLDS        self-attention-written, (d)ii  without the negative draws" in str(found)
    said = json.loads(found.for_set("self").to_json())
    assert (said["status"], said["asked"]) == ("HOLDS", "self-attention-written")
    assert [one["status"] for one in said["sets"]] == ["REFUTED", "HOLDS"]
    with pytest.raises(
        InputError, match=r"two-heads-steady is in cs224n-w25-a4, self-attention-written, not in cse151b"
    ):
        found.for_set("cse151b-hw4")


DIFFERENT = {
    "two-heads-steady": {"cs224n-w25-a4": "REFUTED", "self-attention-written": "HOLDS"},
    "the-cone-of-keys": {"sequence-models-hw3": "REFUTED", "self-attention-written": "HOLDS", "cse151b-hw4": "HOLDS"},
    "positions-are-distinct": dict.fromkeys(
        ["sequence-models-hw3", "cs224n-w25-a4", "attention-position-svd"], "HOLDS"
    ),
}


def test_the_claims_whose_premises_differ_are_these() -> None:
    differing = {claim.name for claim in claims.values() if len({source.reading for source in claim.sources}) > 1}
    assert differing == set(DIFFERENT)
    for name, expected in DIFFERENT.items():
        found = claims[name].check()
        assert {one.name: found.for_set(one.name).status.value for one in found.sources} == expected
    assert (
        claims["positions-are-distinct"].check(length=50).for_set("cs224n").deciding_reading.reading
        == "under a condition"
    )


@pytest.mark.slow
def test_one_question_can_be_answered_no_and_a_list_is_a_report() -> None:
    assert not claims.of("cs224n", "1-4ii").check().answer
    assert claims.of("self", "d ii").check().answer
    assert not claims.of("sequence", "figure 1").check().answer
    several = claims.of("cs224n", "1-4").check()
    assert several.answer
    assert "  1-4ii  REFUTED      two-heads-steady: almost always" in str(several)


def test_what_a_question_shows() -> None:
    text = str(claims.of("cse151b-hw4", "1B.i"))
    assert text.startswith(
        "cse151b-hw4, 1B.i: UCSD CSE 151B/251B, Homework 4 (June 2025)\n\n1B.i: k_i ~ N(μ_i, a I) with"
    )
    assert text.index("small-noise-keeps-the-average\n") < text.index("never-exactly-the-average\n")
    assert "A complete answer to cse151b-hw4, 1B.i contains (4 points):" in text
    assert "variance 4 a T²" not in text.partition("A complete answer")[2]
    assert "variance 4 a T²" in str(claims.of("cse151b-hw4", "1B.i").proof())
    listed = str(claims.of("cse151b-hw4"))
    assert all(len(line) <= 100 for line in listed.splitlines())
    assert listed.count("\n  ") == 11


def test_options_are_about_one_claim() -> None:
    found = claims.of("cse151b-hw4", "1B.i")
    assert found.only_claim("--plot").name == "small-noise-keeps-the-average"  # the hint is beside the question
    with pytest.raises(InputError, match=r"--plot needs one claim, but cse151b-hw4, 1A\.i, .* has weights-are-a-dist"):
        claims.of("cse", "1A").only_claim("--plot")
    with pytest.raises(
        InputError, match=r"cs224n-w25-a4, 1-5 asks for words; regard claims cs224n-w25-a4 1-5 lists what"
    ):
        claims.of("cs224n", "1-5").only_claim("--template", checkable=True)
    assert claims.of("sequence", "4a").only_claim("--answer", checkable=True).name == "order-blindness"
    assert claims.of("cse", "1B.ii").check(scale=1.0).rows[0][1][0].status is Status.REFUTED
    with pytest.raises(InputError, match="A parameter needs one claim"):
        claims.of("cse").check(n=3)

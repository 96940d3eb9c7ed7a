"""What the published solutions say: every question of both, each sentence with a verdict that something shows."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from regard.coursework.catalogue import claims
from regard.coursework.problem_sets import SETS
from regard.coursework.set_questions import VERDICTS, Assertion, assertions_of, published_solutions
from regard.coursework.verdict import ClaimReport

EVERY = [(place, one) for place, several in published_solutions().items() for one in several]


def test_every_question_of_both_solutions_is_there() -> None:
    both = ("cs224n-w25-a4", "attention-position-svd")
    assert list(published_solutions()) == [(name, label) for name in both for label in SETS[name].labels]
    assert assertions_of("cse151b-hw4", "1A.i") == ()


def test_the_sentences_known_to_be_wrong_are_called_so() -> None:
    wrong = {
        place: [one.says for one in several if one.verdict == "false"]
        for place, several in published_solutions().items()
    }
    assert {place[1]: len(said) for place, said in wrong.items() if said} == {
        "1-3ii": 1,
        "1-4ii": 1,  # a long key may point backwards; so "almost always" is too much
        "Attention (b)": 2,
        "Attention (d)": 2,
        "SVD (c)": 1,  # bisector, perfect; ensemble, head 1; diagonal
    }
    gaps = [one.why for one in assertions_of("attention-position-svd", "Position (a)") if one.verdict == "gap"]
    assert "$P^T P = I$ in the middle, and the feed-forward part" in gaps[1]
    assert "The condition is not needed." in assertions_of("cs224n-w25-a4", "2-2ii")[2].why
    assert "the keys are $k$" in assertions_of("cs224n-w25-a4", "1-2")[0].why


@cache
def report(asked: str) -> ClaimReport:
    name, *settings = asked.split()
    return claims[name].check(**dict(one.split("=") for one in settings))


@pytest.mark.slow
@pytest.mark.nightly
def test_every_verdict_is_shown_by_a_claim() -> None:
    for place, one in EVERY:
        assert one.verdict in VERDICTS, place
        assert one.why, place
        assert bool(one.shows) != bool(one.python), place
        if one.shows:
            asked, reading, status = one.shows.split(" | ")
            (found,) = [judged for judged in report(asked).judged if judged.reading == reading]
            assert found.verdict.status == status, (place, one.says)
            if one.verdict == "false":
                assert status == "REFUTED", (place, one.says)


@pytest.mark.parametrize("one", [one for _, one in EVERY if one.python], ids=lambda one: one.says[:40])
def test_or_by_lines_of_python(one: Assertion) -> None:
    *before, last = ast.parse(one.python).body
    names: dict[str, object] = {}
    exec(compile(ast.Module(body=before, type_ignores=[]), "shown", "exec"), names)
    assert bool(eval(compile(ast.Expression(last.value), "shown", "eval"), names)) is True


@pytest.mark.slow
def test_they_stand_behind_the_proof(regard) -> None:
    code, out, _ = regard("claims", "cs224n", "1-3ii", "--proof")
    assert code == 0
    assert '"Where the norm of k_a is large, c is about v_a." FALSE. Not for long backward keys' in " ".join(
        out.split()
    )
    assert ">>> attend([20.0, 20.0, 0.0], keys, np.eye(3)).weights[1] > 0.999" in out
    assert out.index("What earns the marks") < out.index("one-head-swings, proof") < out.index("sentence by sentence")
    assert "sentence by sentence" not in regard("claims", "cse", "1B.ii", "--proof")[1]

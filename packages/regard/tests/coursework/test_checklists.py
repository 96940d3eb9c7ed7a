"""Checklists: one for every question, whole, and never giving the answer away before it is asked for."""

from __future__ import annotations

import json
import re

import pytest

from regard.coursework import checklists
from regard.coursework.problem_sets import SETS
from regard.errors import InputError

EVERY = [(one.name, label) for one in SETS.values() for label in one.labels]


def test_every_question_has_one_and_no_other_has() -> None:
    assert sorted(checklists.questions()) == sorted(EVERY)


@pytest.mark.parametrize(("name", "label"), EVERY)
def test_a_checklist_is_complete(name: str, label: str) -> None:
    found = checklists.of(name, label)
    assert (found.set, found.question) == (name, label)
    assert len(found.items) >= 2
    assert found.points == sum(item.points for item in found.items)
    for item in found.items:
        assert 0 <= item.points <= 3  # 0: beyond the question
        assert item.text
        assert item.key
        assert not item.text.endswith(".")
        assert len({one.text for one in found.items}) == len(found.items)


def test_the_full_answer_is_as_short_as_the_set_wants_it() -> None:
    """Every question has one, but for those that ask for a trained model; and none is given away beforehand."""
    without = [place for place in EVERY if not checklists.of(*place).full_answer]
    assert without == [("cse151b-hw4", "2"), ("cse151b-hw4", "2A"), ("cse151b-hw4", "2B")]
    for name, label in set(EVERY) - set(without):
        found = checklists.of(name, label)
        written = found.write(found.full_answer)
        assert not written.too_long, (name, label)
        assert found.full_answer[:40] not in str(found)
        assert found.full_answer not in str(written)


def test_words_are_written_first_and_then_marked() -> None:
    asked = checklists.of("cse151b-hw4", "1A.iv")
    with pytest.raises(InputError, match=r"The answer to cse151b-hw4, 1A\.iv is blank: write it first"):
        asked.write(" \n")
    mine = asked.write("It copies. The rest is ignored. Nearly 0.5 of it. Yes!")
    assert mine.too_long == "The set wants at most 2 sentences; this has about 4."
    assert (mine.points, mine.answer, asked.items[0].key[:30] in str(mine)) == (0, False, True)
    assert "An answer that earns the marks" not in str(mine)
    both = mine.tick(2, 1, 2)
    assert (both.ticks, both.points, both.answer) == ((1, 2), 2, True)
    assert "An answer that earns the marks" in str(both)
    assert json.loads(both.to_json())["ticks"] == [1, 2]
    with pytest.raises(InputError, match="There is no item 3; the list has 1 to 2"):
        mine.tick(3)


def test_what_is_ticked_does_not_give_the_answer_away() -> None:
    """The text has no formula and no number that its key has; figures of one letter or digit name things only."""
    formula = re.compile(r"[a-zA-Z]_[a-z0-9]+ ?[=<>]|\d+(?:\.\d+)? ?%|\d+\.\d+|\be\^|sqrt|ln\(")
    for name, label in EVERY:
        for item in checklists.of(name, label).items:
            assert not formula.search(item.text), (name, label, item.text)


def test_keys_are_shown_only_when_asked_for() -> None:
    found = checklists.of("cse151b-hw4", "1B.ii")
    key = "‖v_a - v_b‖²/4"
    assert key not in str(found)
    assert key in found.text(keys=True)
    assert str(found).count("[ ]") == len(found.items)
    assert "(1 point)" in str(found)
    assert all(len(line) <= 100 for line in found.text(keys=True).splitlines())


def test_two_lists_of_one_question_are_joined() -> None:
    joined = [item.text for item in checklists.of("cs224n-w25-a4", "1-1").items]
    first, second = (checklists.of("sequence-models-hw3", label) for label in ("3(a)i", "3(a)ii"))
    assert joined == [item.text for item in (*first.items, *second.items)]


def test_as_json() -> None:
    said = json.loads(checklists.of("cs224n", "q1-5").to_json())
    assert (said["set"], said["question"], said["points"]) == ("cs224n-w25-a4", "1-5", 4)
    assert set(said["items"][0]) == {"text", "key", "points", "part"}


@pytest.mark.parametrize(
    ("name", "question", "message"),
    [
        ("cs224", "9", r"cs224n-w25-a4 has no question '9'\. It has 1-1, .*regard claims cs224n-w25-a4 lists them\."),
        ("cs", "1-1", r"'cs' begins the names of cs224n-w25-a4 and cse151b-hw4: write more of the one you mean\."),
        ("cse151b", "1B", r"cse151b-hw4: '1B' begins 1B\.i, 1B\.ii; write one of them\."),
        ("cse151-hw4", "1B.i", r"There is no problem set 'cse151-hw4'; did you mean cse151b-hw4\?"),
    ],
)
def test_what_is_not_there(name: str, question: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        checklists.of(name, question)

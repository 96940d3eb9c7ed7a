"""Assignments: what is read, every mistake at once, and the five that ship."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from regard.coursework.answers.answer_check import Stage
from regard.coursework.catalogue import claims
from regard.coursework.problem_sets import SETS
from regard.errors import InputError
from regard.grading.assignments.assignment_check import check_assignment
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.problem_sets import hints, new_assignment
from regard.grading.gradebook.grader import safe_tier
from regard.grading.questions.assignment import Kind, LatePolicy, Limits, Reveal
from regard.sandbox.jail import Tier
from tiers import NIGHTLY, sampled

OWN = """
ARGUMENTS = {"x": "a number"}
def instance(rng, level): return {"x": float(rng.integers(1, 10) * level)}
def judge(given, answer): return abs(answer - 2 * given["x"]) < 1e-9, "it is not twice x"
"""


def read(tmp_path, text, **files):
    for name, content in files.items():
        (tmp_path / f"{name}.py").write_text(content)
    (tmp_path / "a.toml").write_text(text)
    return read_assignment(tmp_path / "a.toml")


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(SETS, every=len(SETS), others=NIGHTLY))
def test_the_five_that_ship_can_be_solved_and_not_be_cheated(name, tmp_path) -> None:
    new_assignment(name, str(tmp_path / "a.toml"))
    assignment = read_assignment(tmp_path / "a.toml")
    functions = tuple(task for task in assignment.tasks if task.asks_for_function)
    found = check_assignment(replace(assignment, tasks=functions), jail=safe_tier(sandbox=True))
    assert found.answer, str(found)


@pytest.mark.slow
def test_a_true_bound_that_is_far_off_does_not_pass(tmp_path) -> None:
    found = check_assignment(
        read(tmp_path, '[[question]]\nid = "b"\nclaim = "singular-tail"\nwithin = 2\n'), jail=Tier.NONE
    )
    assert found.answer, str(found)
    assert max(one.points for one in found.trials if not one.right) == 0.5


POINTS = {
    "sequence-models-hw3": 30,
    "cs224n-w25-a4": 38,
    "self-attention-written": 32,
    "cse151b-hw4": 10,
    "attention-position-svd": 100,
}
FORMS = {"words": [Kind.WRITTEN], "construction": [Kind.CLAIM, Kind.WRITTEN], "proof": [Kind.DERIVATION],
         "report": [Kind.WRITTEN], "code": [Kind.TRANSFORMER], "remark": []}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_the_five_that_ship_have_every_question_in_its_form_with_its_points(name, tmp_path) -> None:
    said = new_assignment(name, str(tmp_path / "a.toml"))
    found = read_assignment(tmp_path / "a.toml")
    assert said.questions == len(found.tasks)
    assert said.written == sum(task.kind is Kind.WRITTEN for task in found.tasks)
    assert found.points == POINTS[name]
    for one in SETS[name].questions:
        tasks = [task for task in found.tasks if task.id in (one.label, f"{one.label}, why")]
        assert [task.kind for task in tasks] == FORMS[one.form] + [Kind.WRITTEN] * bool(one.also), one.label
        assert sum(task.points for task in tasks) == one.points
        assert not [task for task in tasks if bool(task.checklist) is not task.asks_for_words]
        assert not [task for task in tasks if bool(task.hint) is task.asks_for_words]
        assert all(task.text for task in tasks)
    with pytest.raises(InputError, match="exists and is not overwritten"):
        new_assignment(name, str(tmp_path / "a.toml"))


def test_a_set_that_is_not_there(tmp_path) -> None:
    with pytest.raises(InputError, match="There is no problem set 'hw5'; the sets are sequence-models-hw3"):
        new_assignment("hw5", str(tmp_path / "a.toml"))
    with pytest.raises(InputError, match=r"must end in \.toml"):
        new_assignment("cse151b-hw4", str(tmp_path / "a.txt"))


def test_every_function_has_a_hint_that_is_no_answer() -> None:
    assert {name for name, claim in claims.items() if claim.question is not None} <= set(hints())
    for hint in hints().values():
        assert "return" not in hint


def test_what_is_said_for_all_and_for_one(tmp_path) -> None:
    text = """
    reveal = "mark"
    partial = "all or nothing"
    [late]
    per_day = 0.25
    [limits]
    instances = 20
    [[question]]
    id = "1"
    claim = "copying-condition"
    points = 2.5
    set = {n = 7}
    [[question]]
    id = "2"
    claim = "average-of-two"
    reveal = "reason"
    partial = {plain = 0.5, adversary = 0.5}
    """
    found = read(tmp_path, text)
    one, two = found.tasks
    assert (one.points, one.reveal, one.sizes, one.function) == (2.5, Reveal.MARK, {"n": 7}, "copying_condition")
    assert dict(one.ladder) == {Stage.ADVERSARY: 1.0}
    assert (two.reveal, dict(two.ladder)) == (Reveal.REASON, {Stage.PLAIN: 0.5, Stage.ADVERSARY: 0.5})
    assert found.limits == Limits(instances=20)
    assert found.points == 3.5
    assert one.rule() == "All points if no failure is found, else none."
    assert "50% with the smallest and plainest instances, all with random instances and an adversary" in two.rule()


def test_all_mistakes_at_once(tmp_path) -> None:
    text = """
    nam = "x"
    deadline = 2026-01-01
    reveal = "everything"
    partial = {plain = 0.5}
    [late]
    per_day = 3
    [limits]
    instances = 1.5
    [[question]]
    claim = "average-of-too"
    point = 3
    [[question]]
    id = "a"
    kind = "own"
    function = "class"
    [[question]]
    id = "A"
    claim = "average-of-two"
    set = {n = 1}
    points = -1
    [[question]]
    id = "c"
    claim = "heads-summary"
    kind = "claim"
    checklist = "all"
    [[question]]
    id = "d"
    text = "why?"
    [[question]]
    id = "e"
    kind = "perplexity"
    file = "nowhere.json"
    function = "scores"
    good = 5
    bad = 2
    [[question]]
    id = "f"
    claim = "copying-condition"
    function = "copying_output"
    [[question]]
    id = "g"
    claim = "copying-output"
    """
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    said = str(refused.value)
    for part in (
        "there is no key 'nam'; did you mean 'name'?",
        "deadline must be a date with time and zone",
        "reveal must be one of mark, reason, counterexample, not 'everything'",
        "the shares of partial must sum to 1; they sum to 0.5",
        "[late]: per_day must be a number from 0 to 1, not 3.0",
        "[limits]: instances must be a whole number from 10 to 10000, not 1.5",
        "There is no claim 'average-of-too'; did you mean average-of-two?",
        "question 1: there is no key 'point'; did you mean 'points'?",
        "question 2 (a): function must be a name that Python takes",
        "question 2 (a): a question of kind own needs file",
        "n, how many keys, must be a whole number",
        "points must be a number from 0 to 1000, not -1",
        "two questions have the id 'A'",
        "kind = 'claim' does not fit: heads-summary asks for something of kind written",
        "question 4 (c): checklist must be a list of at most 30 lines",
        "question 5 (d): a written question needs a checklist",
        "nowhere.json: there is no such file",
        "good, 5, must be below bad, 2",
        "two questions have the function 'copying_output'",
    ):
        assert part in said, part
    count = int(said.split(" has ")[1].split()[0])
    assert len(said.splitlines()) == count + 1


def test_no_question_and_no_file(tmp_path) -> None:
    with pytest.raises(InputError, match=r"has a mistake:\n- question must be one table or more, each written"):
        read(tmp_path, 'name = "empty"')
    with pytest.raises(InputError, match="there is no such file; regard assignment new writes one"):
        read_assignment(tmp_path / "none.toml")
    with pytest.raises(InputError, match="is not valid TOML"):
        read(tmp_path, "[[question")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def judge(given, answer): return True", "has no function 'instance'"),
        ("1/0", "could not be imported: ZeroDivisionError"),
        ("def instance(rng, level): return 3\ndef judge(g, a): return True", "must return a dictionary of arguments"),
        ("def instance(rng, level): return {'x': 'word'}\ndef judge(g, a): return True", "must be numbers, not"),
        ("def instance(rng, level): raise KeyError('k')\ndef judge(g, a): return True", "instance failed: KeyError"),
    ],
)
def test_mistakes_in_a_teachers_file_are_found_while_reading(code, said, tmp_path) -> None:
    with pytest.raises(InputError, match=said):
        read(tmp_path, '[[question]]\nfile = "mine.py"\nfunction = "twice"', mine=code)


def test_a_question_of_the_teachers_own(tmp_path) -> None:
    found = read(tmp_path, '[[question]]\nid = "own"\nfile = "mine.py"\nfunction = "twice"', mine=OWN)
    task = found.tasks[0]
    assert task.kind is Kind.OWN
    assert task.question.signature == "twice(x)"


def test_what_decides_has_a_digest_and_points_are_not_in_it(tmp_path) -> None:
    def digest(text, **files):
        return read(tmp_path, text, **files).tasks[0].digest(Limits())

    base = '[[question]]\nclaim = "copying-condition"\n'
    assert digest(base) == digest(base + "points = 9\nhint = 'x'\nreveal = 'mark'\n")
    assert digest(base) != digest(base + "set = {n = 4}\n")
    own = '[[question]]\nfile = "mine.py"\nfunction = "twice"'
    assert digest(own, mine=OWN) != digest(own, mine=OWN + "\n# mended\n")


def test_lateness() -> None:
    late = LatePolicy(per_day=0.2, most_days=3, grace_minutes=10)
    hours = [0, 0.1, 1, 24, 24.1, 72, 72.1]
    assert [late.kept_share(timedelta(hours=h)) for h in hours] == pytest.approx([1, 1, 0.8, 0.8, 0.6, 0.4, 0])
    assert str(late) == (
        "A late submission loses 20% of its points for each day begun, and after 3 days all of them; "
        "10 minutes are not counted."
    )
    assert str(LatePolicy()) == "A late submission loses nothing."
    assert LatePolicy(per_day=0.5).kept_share(timedelta(days=9)) == 0

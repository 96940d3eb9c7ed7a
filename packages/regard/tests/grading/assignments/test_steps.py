"""Part of the points: the same for every secret, since only what is drawn for nobody in particular decides a step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from regard.coursework.answers.answer_check import Check, Stage, caller
from regard.coursework.catalogue import claims
from regard.grading.assignments.assignment_check import RIGHT, our_file, our_functions
from regard.grading.gradebook.marks import mark_outcome
from regard.grading.questions.assignment import LADDER, ORDER, Kind, Limits, Task
from regard.grading.questions.examination import Outcome, Stages, Status, WorkClock
from tiers import NIGHTLY

SECRETS = (1, 2, 3, 4, 5, 6)


def wrong() -> dict[str, Callable[..., object]]:
    """Our wrong answers by name: claim, two underscores, what is wrong."""
    found = {}
    for claim in (name for name in claims if claims[name].question is not None):
        name = claim.replace("-", "_")
        for said, function in our_functions(claim).items():
            held: dict[str, Callable[..., object]] = {}
            exec(compile(f"{our_file('right.py')}\n\n{function}", said, "exec"), held)
            found |= {f"{name}__{said.replace(' ', '_')}": held[name]} if said != RIGHT else {}
    return found


def outcome(name: str, function: object, seed: int) -> Outcome:
    claim = name.partition("__")[0].replace("_", "-")
    question, clock = claims[claim].question, WorkClock(600.0)
    assert question is not None
    sizes = question.chosen_sizes({}, claim)
    return Stages(Check(claim, question, name, caller(function, clock), sizes, clock, seed), Limits()).examine()


def points(found: Outcome) -> float:
    return mark_outcome(Task(id="x", kind=Kind.CLAIM, points=1, function="x"), found).points


@pytest.mark.parametrize(
    "name",
    [name if name.startswith(("average_of_two", "copying")) else pytest.param(name, marks=NIGHTLY) for name in wrong()],
)
def test_a_wrong_answer_gets_the_same_with_every_secret(name: str) -> None:
    found = [outcome(name, wrong()[name], seed) for seed in SECRETS]
    assert len({points(one) for one in found}) == 1, [(one.at, points(one)) for one in found]
    assert all(one.status is Status.FAILED for one in found)


RARE = "def query(n, eps):\n    import math\n    return math.log((n - 1) / eps) * (0.5 if {when} else 1)\n"


@pytest.mark.parametrize("when", ["n % 7 == 3 and n > 30", "int(1e6 * eps) % 5 == 2 and n > 30"])
def test_who_finds_it_does_not_matter(when: str) -> None:
    """Wrong at few instances: random ones or the adversary meet one, and the mark is the same."""
    held: dict[str, object] = {}
    exec(RARE.format(when=when), held)
    found = [outcome("copying_condition__rarely", held["query"], seed) for seed in SECRETS]
    seen = [one for one in found if one.status is Status.FAILED]
    assert seen
    assert {one.at for one in seen} <= {Stage.RANDOM, Stage.ADVERSARY}
    assert {points(one) for one in seen} == {round(sum(LADDER[stage] for stage in ORDER[:3]), 2)}


def test_a_step_without_instances_gives_nothing_by_itself() -> None:
    """copying-condition has no traps; without n - 1 the smallest instances are right, and the ends are not."""
    held: dict[str, object] = {}
    exec("import math\ndef query(n, eps): return math.log(1 / eps)", held)
    found = outcome("copying_condition__without_n", held["query"], 1)
    assert (found.passed, found.at, points(found)) == (("plain",), Stage.ENDS, 0.2)


def test_the_sizes_of_the_first_steps_are_the_same_for_everybody() -> None:
    question = claims["average-of-two"].question
    assert question is not None
    clock = WorkClock(60.0)
    sizes = question.chosen_sizes({}, "average-of-two")
    made = [Check("a", question, "q", caller(len, clock), sizes, clock, seed).steps(60) for seed in (1, 2)]
    for stage in ORDER[:3]:
        assert [one.setting for one in made[0][stage]] == [one.setting for one in made[1][stage]]
    assert [one.setting for one in made[0][Stage.RANDOM]] != [one.setting for one in made[1][Stage.RANDOM]]
    assert sum(map(len, made[0].values())) == 60


def test_the_rule_says_so() -> None:
    said = Task(id="x", kind=Kind.CLAIM, points=1).rule()
    assert said == (
        "Step by step, as far as no instance fails: 20% with the smallest and plainest instances, 30% with instances "
        "that are hard on purpose, 50% with the smallest or largest inputs, all with random instances and an "
        "adversary that looks for a failure."
    )

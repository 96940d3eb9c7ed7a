"""A question whose answer is a derivation: its points, and what goes to a person."""

from __future__ import annotations

import pytest

from regard.coursework.derivations.gaps import our_proof
from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.questions.examination import Status, examine_derivation

HEAD = 'title = "Proofs"\n[[question]]\nid = "4a"\nkind = "derivation"\npoints = 10\n'


def task_of(tmp_path, more):
    path = tmp_path / "set.toml"
    path.write_text(HEAD + more)
    return read_assignment(path).tasks[0]


def test_points_for_lines_the_goal_and_lemmas(tmp_path):
    task = task_of(tmp_path, 'claim = "order-blindness"\n')
    assert "50% for lines that follow" in task.rule()
    whole = examine_derivation(task, our_proof("order-blindness"))
    assert (whole.status, whole.share) == (Status.PASSED, 1.0)
    part = examine_derivation(task, "Q_p = P Q\nK_p = P K")
    assert (part.status, part.share) == (Status.FAILED, 0.5)
    assert "does not reach Z_p = P Z" in part.reason
    wrong = examine_derivation(task, "Q_p = P Q\nK_p = K")
    assert (wrong.status, wrong.share) == (Status.FAILED, 0.25)
    assert "line 2 is false" in wrong.reason
    leap = examine_derivation(task, "Z_p = P Z")
    assert leap.status is Status.DOUBTED
    assert any("write the lines between" in note for note in leap.notes)
    assert examine_derivation(task, " ").status is Status.FAILED


def test_a_teachers_own_problem_and_one_that_is_none(tmp_path):
    (tmp_path / "gram.toml").write_text(
        'given = ["P^T P = I"]\ngoal = ["(P X)^T (P X) = X^T X"]\n[sizes]\nT = [2, 3]\nd = [1, 2]\n'
        '[symbols]\nP = { shape = ["T", "T"], is = "permutation" }\nX = { shape = ["T", "d"] }\n'
    )
    task = task_of(tmp_path, 'file = "gram.toml"\n')
    assert examine_derivation(task, "(P X)^T (P X) = X^T P^T P X = X^T X").share == 1.0
    with pytest.raises(InputError, match="a claim whose derivations are checked"):
        task_of(tmp_path, 'claim = "heads-summary"\n')

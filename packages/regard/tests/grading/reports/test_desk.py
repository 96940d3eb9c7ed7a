"""The teacher's desk: what is asked of its server, and its page in a browser."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
from dataclasses import replace

import pytest

from lab_browser import browser  # noqa: F401
from processes import PATIENCE
from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.problem_sets import write_example
from regard.grading.gradebook.grader import grade, pile_of
from regard.grading.gradebook.secret import Secret
from regard.grading.questions.assignment import Limits
from regard.grading.reports.grades_folder import Desk, marking_data, write_marks
from regard.grading.submissions.students import read_students
from regard.grading.submissions.submission import read_submissions
from regard.sandbox.jail import Tier


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """The example class and a blank answer, graded once, without a jail: the answers are ours."""
    place = tmp_path_factory.mktemp("class")
    week, folder = place / "week", place / "grades"
    write_example(str(week))
    (week / "submissions" / "hal.py").write_text("x = 1\n")
    students = read_students(week / "students.csv")
    pile = pile_of(
        replace(read_assignment(week / "hw.toml"), limits=Limits(instances=10, moves=0)),
        read_submissions([str(week / "submissions")], students=students),
        secret=Secret(b"s" * 32),
        students=students,
    )
    write_marks(folder, pile, grade(pile, folder, jail=Tier.NONE, workers=1))
    return pile, folder


@pytest.fixture
def desk(graded, tmp_path):
    pile, folder = graded
    shutil.copytree(folder, tmp_path / "grades")
    with Desk(pile, tmp_path / "grades", jail=Tier.NONE, port=0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


def ask(desk, name, **words):
    return desk.ask(name, json.dumps(words).encode(), lambda: True)


def test_marks_by_hand_go_to_the_one_file_and_exports_refuse_open_marks(desk):
    refused = ask(desk, "publish")
    assert "8 marks are open" in refused["said"]
    assert not (desk.folder / "moodle.csv").exists()
    rows = [{"student": "ben", "question": "1", "points": 2, "reason": "the idea is there"}]
    ask(desk, "decide", rows=rows)
    kept = json.loads((desk.folder / "by-hand.json").read_text())
    assert kept["marks"] == [{"student": "ben", "question": "1", "points": 2, "reason": "the idea is there"}]
    assert "ben, 1: 0.8 -&gt; 2, the idea is there" in ask(desk, "class")["html"]
    ask(desk, "decide", rows=[{"student": "ben", "question": "1", "points": None}])
    assert json.loads((desk.folder / "by-hand.json").read_text())["marks"] == []
    assert "Wrote" in ask(desk, "publish", open=True)["said"]
    assert (desk.folder / "moodle.csv").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"student": "ben", "question": "9", "points": 2, "reason": "r"}], "no such question"),
        ([{"student": "ben", "question": "1", "points": 5, "reason": "r"}], "from 0 to 4"),
        ([{"student": "ben", "question": "4", "ticks": [True]}], "do not fit"),
        ([{"student": "ben"}], "names a student and a question"),
        ("all", "list of rows"),
    ],
)
def test_a_decision_that_does_not_fit_changes_nothing(desk, rows, message):
    good = {"student": "ada", "question": "1", "points": 2, "reason": "r"}
    with pytest.raises(InputError, match=message):
        ask(desk, "decide", rows=[good, *rows] if isinstance(rows, list) else rows)
    assert not (desk.folder / "by-hand.json").exists()


def test_the_code_of_a_notebook_is_its_cells(graded):
    pile, folder = graded
    data = marking_data(pile, grade(pile, folder, jail=Tier.NONE, workers=1), {})
    (item,) = [one for one in data["items"] if (one["student"], one["question"]) == ("chi", "3")]
    assert item["code"]
    assert item["answer"].startswith("def weights_are_a_distribution(scores):")
    assert "_cells" not in item["answer"]


def test_nobody_without_the_cookie_sees_marks(desk):
    for place in ("/", "/students/ben.html", "/class"):
        line = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=PATIENCE)
        line.request("GET", place)
        answer = line.getresponse()
        body = answer.read()
        assert answer.status == 403
        assert b"regard grade --serve" in body
        assert b"Okri" not in body
        line.close()


def test_the_page_shows_question_code_and_counterexample_and_keys_mark_and_undo(desk, browser):  # noqa: F811
    wrong = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.goto(desk.opening_address + "#at=ben/2")
    page.wait_for_selector("#where:has-text('ben, 2')")
    assert "alpha_a is 0.333, needed 0.4" in page.text_content("#check")
    assert page.text_content("#answer").startswith("def average_of_two(")
    assert "close to (v_a + v_b)/2" in page.text_content("#text")
    page.keyboard.press("b")
    page.wait_for_selector("#done:has-text('1 blank answer got 0')")
    page.wait_for_selector("body[data-busy=no]")
    assert [row["student"] for row in json.loads((desk.folder / "by-hand.json").read_text())["marks"]] == ["hal"]
    page.keyboard.press("u")
    page.wait_for_selector("body[data-busy=no]")
    page.wait_for_function("document.body.dataset.busy === 'no'")
    assert json.loads((desk.folder / "by-hand.json").read_text())["marks"] == []
    page.click("#publish")
    page.wait_for_selector("#published:has-text('marks are open')")
    page.goto(f"{desk.address}students/ben.html")
    assert page.locator("h2").first.text_content().startswith("1. ")
    assert not wrong, wrong
    page.close()

"""Marks that a person gave: overruled with a reason, kept with the automatic ones, through the form and the command."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest

from grading.gradebook.test_grader import SECRET, TOML, hand_in, journal, known, place, points
from lab_browser import browser
from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.gradebook import grader
from regard.grading.gradebook.grader import grade, pile_of
from regard.grading.gradebook.manual_marks import Decision, gather_decisions, ledger_of, lines_on_absent, overrule
from regard.grading.gradebook.marks import mark_outcome, student_view
from regard.grading.questions.examination import Outcome, Status
from regard.grading.reports.grades_folder import marking_page, write_marks
from regard.grading.submissions.students import read_students
from regard.grading.submissions.submission import read_submissions
from regard.sandbox.jail import Tier

__all__ = ["browser", "journal", "known", "place"]  # fixtures


def regraded(place, students=None):
    """As the command does it: with what is beside the marks."""
    assignment = read_assignment(place / "a.toml")
    decided, _ = gather_decisions(place / "grades", assignment)
    submissions = read_submissions([str(place / "subs")])
    pile = pile_of(assignment, submissions, secret=SECRET, students=students, by_hand=decided)
    return write_marks(place / "grades", pile, grade(pile, place / "grades", jail=Tier.NONE, workers=1))


@pytest.mark.slow
def test_a_mark_is_overruled_and_shown_and_stays(known) -> None:
    regraded(known)
    said = overrule(known / "grades", "CARL", "1", points=7, reason=" right for\ntwo keys <b> ")
    assert str(said).startswith("carl, 1: 2 -> 7 of 10. Kept in ")
    found = regraded(known)
    assert points(found) == {"ada": [10, 5], "carl": [7, 0]}
    assert found.graded == 0
    assert found.changed == ("carl: 2 -> 7 (1: 2 -> 7)",)
    assert re.search(r"carl +7\* +0 +7 +15", str(found))
    assert "Marks with a star were given by a person: 1." in str(found)
    student = (known / "grades" / "students" / "carl.html").read_text()
    assert "A person gave this mark: right for two keys &lt;b&gt;" in student
    assert "7 of 10" in student
    assert "is below" in student  # what was found is still told
    whole = (known / "grades" / "class.html").read_text()
    assert "<h2>Given by a person instead</h2><ul><li>carl, 1: 2 -&gt; 7, right for two keys &lt;b&gt;</li>" in whole
    assert "1: 2 -> 7" in (known / "grades" / "marks.csv").read_text(encoding="utf-8-sig")
    kept = json.loads((known / "grades" / "marks.json").read_text())["rows"][1]["questions"][0]
    assert (kept["points"], kept["automatic"], kept["overruled"]) == (7, 2, "right for two keys <b>")


@pytest.mark.slow
def test_it_stays_when_the_question_is_mended_and_says_what_would_be_now(known) -> None:
    regraded(known)
    overrule(known / "grades", "carl", "1", points=7, reason="almost")
    (known / "a.toml").write_text(
        TOML.replace('claim = "copying-condition"', 'claim = "copying-condition"\nset = {n = 2}')
    )
    found = regraded(known)
    assert points(found)["carl"] == [7, 0]
    assert found.overruled_lines == [
        "carl, 1: 10 -> 7, almost (the mark was 2 when it was overruled, and would be 10 now)"
    ]
    overrule(known / "grades", "carl", "1", points=None)
    assert points(regraded(known))["carl"] == [10, 0]
    with pytest.raises(InputError, match="nobody has overruled this mark"):
        overrule(known / "grades", "carl", "1", points=None)


def test_a_doubted_mark_stands_once_a_person_has_looked(place, monkeypatch) -> None:
    doubted = Outcome(status=Status.DOUBTED, share=1.0, reason="its record is strange")
    monkeypatch.setattr(grader, "_examine_job", lambda job: doubted)
    assert all(one.open for row in regraded(place).rows for one in row.questions)
    overrule(place / "grades", "ada", "1", points=10, reason="I looked: it is right")
    found = regraded(place)
    first, second = found.rows[0].questions
    assert (first.points, first.open, second.open) == (10, False, True)
    task = read_assignment(place / "a.toml").tasks[0]
    assert student_view(task, first) == ["A person gave this mark: I looked: it is right"]
    assert (
        "ada, 1" not in (place / "grades" / "class.html").read_text().split("Waiting for a person")[1].split("<h2>")[0]
    )


def test_what_was_ticked_can_be_overruled_too_and_the_ticks_stay(tmp_path) -> None:
    text = 'name = "w"\n[[question]]\nid = "2"\ntext = "Why?"\npoints = 4\nchecklist = ["a", "b"]\n'
    (tmp_path / "a.toml").write_text(text)
    task = read_assignment(tmp_path / "a.toml").tasks[0]
    by_hand = Outcome(status=Status.BY_HAND)
    assert mark_outcome(task, by_hand, by_hand=Decision(ticks=(True, False))).points == 2
    both = mark_outcome(task, by_hand, by_hand=Decision(ticks=(True, False), points=3.0, reason="a nice one"))
    assert (both.points, both.automatic, both.open) == (3, 2, False)
    (tmp_path / "subs").mkdir()
    (tmp_path / "subs" / "ada.py").write_text('"""2: because"""')
    regraded(tmp_path)
    (tmp_path / "grades" / "written.json").write_text(
        json.dumps({"assignment": "w", "marks": [{"student": "ada", "question": "2", "ticks": [True, False]}]})
    )
    regraded(tmp_path)
    overrule(tmp_path / "grades", "ada", "2", points=4, reason="more")
    overrule(tmp_path / "grades", "ada", "2", points=None)
    decided, _ = gather_decisions(tmp_path / "grades", read_assignment(tmp_path / "a.toml"))
    assert decided == {"ada": {"2": Decision(ticks=(True, False))}}


def test_a_groups_mark_is_that_of_who_handed_it_in(known) -> None:
    (known / "s.csv").write_text("id,group\ncarl,G\nzoe,G\nada,\n")
    students = read_students(known / "s.csv")
    regraded(known, students)
    assert overrule(known / "grades", "zoe", "1", points=9, reason="x").student == "carl"
    assert points(regraded(known, students)) == {"ada": [10, 5], "carl": [9, 0], "zoe": [9, 0]}


@pytest.mark.parametrize(
    ("student", "question", "given", "said"),
    [
        ("bob", "1", {"points": 1, "reason": "x"}, "has no marks of 'bob'; there are ada, carl, none"),
        ("carl", "9", {"points": 1, "reason": "x"}, "There is no question '9'; there are 1, 2"),
        ("carl", "1", {"points": 11, "reason": "x"}, "points must be a number from 0 to 10; 11 is not"),
        ("carl", "1", {"points": float("nan"), "reason": "x"}, "points must be a number from 0 to 10; nan is not"),
        ("carl", "1", {"points": 5, "reason": "  "}, "a mark is overruled with a reason, which the student reads"),
        ("carl", "1", {"points": 5, "reason": "x" * 501}, "at most 500 characters; this one has 501"),
        ("none", "1", {"points": 5, "reason": "x"}, "handed in nothing that could be graded"),
    ],
)
def test_what_cannot_be_overruled(student, question, given, said, known) -> None:
    (known / "s.csv").write_text("id\nada\ncarl\nnone\n")
    regraded(known, read_students(known / "s.csv"))
    with pytest.raises(InputError, match=said):
        overrule(known / "grades", student, question, **given)
    assert not (known / "grades" / "by-hand.json").exists()


def test_folders_without_marks(tmp_path) -> None:
    with pytest.raises(InputError, match=r"has no marks\.json; give the folder that regard grade has written"):
        overrule(tmp_path, "a", "1", points=1, reason="x")
    (tmp_path / "marks.json").write_text("[]")
    with pytest.raises(InputError, match="cannot be read as marks"):
        overrule(tmp_path, "a", "1", points=1, reason="x")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"points": 4}, "a mark is overruled with a reason"),
        ({"points": True, "reason": "x"}, "points must be a number from 0 to 10; True is not"),
        ({"points": "4", "reason": "x"}, "points must be a number from 0 to 10; 4 is not"),
        ({}, "is not what the marking form saves"),
    ],
)
def test_damaged_decisions(row, said, place) -> None:
    path = place / "w.json"
    path.write_text(json.dumps({"assignment": "two", "marks": [{"student": "a", "question": "1", **row}]}))
    with pytest.raises(InputError, match=said):
        gather_decisions(place / "grades", read_assignment(place / "a.toml"), path)
    assert not (place / "grades" / "by-hand.json").exists()


def test_a_question_that_is_not_asked_any_more_is_passed_over(place) -> None:
    path = place / "w.json"
    row = {"student": "a", "question": "gone", "points": 1, "reason": "x"}
    path.write_text(json.dumps({"assignment": "two", "marks": [row]}))
    decided, said = gather_decisions(place / "grades", read_assignment(place / "a.toml"), path)
    assert decided == {}
    stays = f"It stays in {place / 'grades' / 'by-hand.json'}, and does not count."
    assert said[1:] == [f"a, gone: 1 points (x), but this question is not asked any more. {stays}"]
    kept = json.loads((place / "grades" / "by-hand.json").read_text())
    assert kept["marks"] == [row]


# one file, whatever order the commands come in

WORDS = '[[question]]\nid = "3"\ntext = "Why?"\npoints = 4\nchecklist = ["a", "b"]\n'
TICKS = {"student": "ada", "question": "3", "ticks": [True, False]}
GIVEN = {"student": "ada", "question": "2", "points": 4, "reason": "one sign is wrong"}


@pytest.fixture
def commands(known, regard, monkeypatch):
    """The commands of docs/grading.md by a letter each, in a folder where everything has been graded once."""
    monkeypatch.chdir(known)
    (known / "a.toml").write_text(TOML + WORDS)
    (known / "secret.txt").write_bytes(SECRET.key)
    again = ["grade", "subs", "--assignment", "a.toml", "--secret", "secret.txt", "--no-sandbox", "--workers", 1]
    mark = ["assignment", "overrule", "grades", "carl", "1"]

    def give(letter):
        if letter == "b":  # put beside the marks by hand
            shutil.copy("saved.json", "grades/written.json")
            return ""
        words = {
            "g": again, "w": [*again, "--written", "saved.json"], "u": [*mark, "--undo"],
            "o": [*mark, "--points", 7, "--reason", "almost"],
        }[letter]  # fmt: skip
        code, out, err = regard(*words)
        assert code == 0, err
        return out + err

    give("g")
    return give


def save(*rows, **more):
    Path("saved.json").write_text(json.dumps({"assignment": "two", "marks": rows, **more}))


def marks_of(student):
    rows = json.loads(Path("grades/marks.json").read_text())["rows"]
    return next([one["points"] for one in row["questions"]] for row in rows if row["student"] == student)


EVERY_ORDER = sorted({*permutations("ow"), *permutations("owg"), *permutations("owgw"), *permutations("obg")})


@pytest.mark.parametrize("base", [{}, {"base": []}], ids=["of an earlier version", "of today"])
@pytest.mark.parametrize("orders", [("ow", "wo", "bo"), pytest.param(EVERY_ORDER, marks=pytest.mark.slow)])
def test_nothing_is_lost_in_any_order(commands, base, orders) -> None:
    save(TICKS, GIVEN, **base)
    for order in orders:
        for name in ("by-hand.json", "written.json"):
            Path("grades", name).unlink(missing_ok=True)
        for letter in order:
            commands(letter)
        for last in "gw":
            said = commands(last)
            assert (marks_of("ada"), marks_of("carl")) == ([10, 4, 2], [7, 0, 0]), (order, last)
            assert "Marks with a star were given by a person: 2." in said
        assert "taken into" not in said  # only what is new


def test_a_file_that_is_given_as_before_undoes_nothing(commands) -> None:
    """The same mark in the file and by the command: what came last counts, whatever is given again."""
    save(TICKS, {"student": "carl", "question": "1", "points": 3, "reason": "kind"})
    assert "2 decisions of saved.json were taken into grades/by-hand.json" in commands("w")
    assert marks_of("carl")[0] == 3
    assert "carl, 1: 7.0 points (almost) by this command, in place of 3 points (kind)." in commands("o")
    commands("w")
    assert marks_of("carl")[0] == 7
    commands("u")
    commands("w")
    assert marks_of("carl")[0] == 2  # the check's again
    commands("o")
    save(TICKS, {"student": "carl", "question": "1", "points": 5, "reason": "changed"})
    assert "carl, 1: 5 points (changed) by saved.json, in place of 7.0 points (almost)." in commands("w")
    assert (marks_of("carl")[0], marks_of("ada")[2]) == (5, 2)
    replaced = json.loads(Path("grades/by-hand.json").read_text())["replaced"]
    assert [row["points"] for row in replaced] == [3, 7, 7]


def test_what_the_form_takes_back_is_taken_back_once(commands) -> None:
    """The page knew of the mark by hand, and the file has it no more; a page that did not know it changes nothing."""
    commands("o")
    commands("g")
    known = json.loads(Path("grades/by-hand.json").read_text())["marks"]
    save(base=[])
    commands("w")
    assert marks_of("carl")[0] == 7
    save(base=known)
    commands("w")
    assert marks_of("carl")[0] == 2
    commands("o")
    commands("w")
    assert marks_of("carl")[0] == 7


def test_ticks_that_fit_no_more_are_told_and_kept(commands) -> None:
    save(TICKS)
    commands("w")
    text = Path("a.toml").read_text()
    Path("a.toml").write_text(text.replace('["a", "b"]', '["a", "b", "c"]'))
    assert "ada, 3: the ticks do not fit its checklist; save it from marking.html" in commands("w")
    assert marks_of("ada")[2] == 0
    Path("a.toml").write_text(text)
    commands("g")
    assert marks_of("ada")[2] == 2


# what pages and commands bring, one after the other


class Desk:
    """A folder of marks, and what is done with it: pages that begin with what counts, and the command."""

    def __init__(self, place):
        self.place, self.folder = place, place / "grades"
        (place / "a.toml").write_text(TOML + WORDS)

    def page(self, name, question="3", *, based=True, **given):
        """A new page, on which one mark of ada is decided, or taken back; the file that it saves."""
        kept = self.kept("marks")
        marks = [row for row in kept if row["question"] != question]
        marks += [{"student": "ada", "question": question, **given}] if given else []
        saved = {"assignment": "two", "marks": marks, **({"base": kept} if based else {})}
        (self.place / name).write_text(json.dumps(saved))
        return self.place / name

    def kept(self, name):
        path = self.folder / "by-hand.json"
        return json.loads(path.read_text())[name] if path.exists() else []

    def grade(self, written=None):
        decided, self.said = gather_decisions(self.folder, read_assignment(self.place / "a.toml"), written)
        return decided.get("ada", {})

    def command(self, question, points):
        with ledger_of(self.folder, "two") as ledger:
            value = None if points is None else {"points": points, "reason": "more"}
            ledger.names.setdefault("ada", "ada")
            ledger.put(("ada", question, "points"), value, by="this command")

    def change(self, old, new):
        text = (self.place / "a.toml").read_text()
        assert old in text
        (self.place / "a.toml").write_text(text.replace(old, new))


@pytest.fixture
def desk(place):
    return Desk(place)


ONE, BOTH = Decision(ticks=(True, False)), Decision(ticks=(True, True))
IDEA = {"points": 2, "reason": "idea"}


@pytest.mark.parametrize("based", [True, False], ids=["of today", "of an earlier version"])
def test_a_file_beside_the_marks_does_not_beat_a_newer_one(desk, based) -> None:
    desk.folder.mkdir()
    desk.page("grades/written.json", ticks=[True, False], based=based)
    assert desk.grade() == {"3": ONE}
    new = desk.page("new.json", ticks=[True, True], based=based)
    assert desk.grade(new) == {"3": BOTH}
    assert desk.grade() == desk.grade(new) == desk.grade() == {"3": BOTH}
    assert len(desk.kept("replaced")) == 1  # also with both files given each time
    assert not desk.said


def test_an_older_file_that_is_given_again_changes_nothing(desk) -> None:
    first = desk.page("w1.json", ticks=[True, False])
    assert desk.grade(first) == {"3": ONE}
    second = desk.page("w2.json", ticks=[True, True])
    assert desk.grade(second) == {"3": BOTH}
    before = (desk.folder / "by-hand.json").read_bytes()
    for again in (first, second, first):
        assert desk.grade(again) == {"3": BOTH}
        assert not desk.said
    assert (desk.folder / "by-hand.json").read_bytes() == before


def test_what_a_page_says_again_of_another_mark_is_new(desk) -> None:
    desk.grade(desk.page("w1.json", "1", **IDEA))
    desk.command("1", 3)
    again = desk.page("w2.json", "1", **IDEA)  # this page began with 3
    assert desk.grade(again) == {"1": Decision(points=2, reason="idea")}
    assert "ada, 1: 2 points (idea) by " in desk.said[1]


def test_what_a_page_takes_back_again_is_taken_back(desk) -> None:
    desk.grade(desk.page("w1.json", "1", **IDEA))
    assert desk.grade(desk.page("w2.json", "1")) == {}
    desk.command("1", 3)
    assert desk.grade(desk.page("w3.json", "1")) == {}
    assert desk.kept("marks") == []


def test_a_page_that_is_saved_once_more_undoes_no_command_and_says_so_once(desk) -> None:
    desk.grade(desk.page("w1.json", "1", **IDEA))
    for given, counts in ((3, "3 points (more)"), (None, "no decision")):
        desk.command("1", given)
        rows = [{"student": "ada", "question": "1", **IDEA}, {"student": "ada", "question": "2", **IDEA, "was": given}]
        (desk.place / "w1.json").write_text(json.dumps({"assignment": "two", "marks": rows, "base": []}))
        marks = desk.grade(desk.place / "w1.json")
        assert (marks["1"].points if "1" in marks else None, marks["2"].points) == (given, 2)
        once = (
            f"ada, 1: 2 points (idea) of {desk.place / 'w1.json'} was taken once, and is not taken again; what counts: "
        )
        assert desk.said[-1] == once + f"{counts}."
        desk.grade(desk.place / "w1.json")
        assert not desk.said


def test_a_ledger_of_an_earlier_version_still_knows_what_was_taken(desk) -> None:
    """It kept the last value of each mark, and not what the page began with."""
    first = desk.page("w1.json", ticks=[True, False])
    desk.folder.mkdir()
    row = {"student": "ada", "question": "3"}
    old = {"assignment": "two", "marks": [{**row, "ticks": [True, True]}], "taken": [{**row, "ticks": [True, False]}]}
    (desk.folder / "by-hand.json").write_text(json.dumps(old))
    assert desk.grade(first) == {"3": BOTH}
    assert desk.grade(desk.page("w2.json", ticks=[False, False])) == {"3": Decision(ticks=(False, False))}
    assert desk.grade(first) == {"3": Decision(ticks=(False, False))}


def test_ticks_and_points_are_judged_each_by_itself(desk) -> None:
    desk.grade(desk.page("w1.json", ticks=[True, False]))
    desk.command("3", 3)
    assert desk.grade() == {"3": Decision(ticks=(True, False), points=3, reason="more")}
    desk.change('["a", "b"]', '["a"]')
    assert desk.grade() == {"3": Decision(points=3, reason="more")}
    assert len(desk.said) == 1
    assert "the ticks do not fit its checklist" in desk.said[0]
    desk.change('points = 4\nchecklist = ["a"]', 'points = 2\nchecklist = ["a", "b"]')
    assert desk.grade() == {"3": ONE}
    assert len(desk.said) == 1
    assert "points must be a number from 0 to 2; 3 is not" in desk.said[0]


def test_who_is_not_in_the_pile_is_told(commands) -> None:
    save({"student": "Ghost", "question": "1", "points": 1, "reason": "left"}, GIVEN)
    told = "Marks by hand of who has handed in nothing that is graded here: ghost. They stay in by-hand.json."
    assert told in commands("w")
    assert lines_on_absent({"ghost": {}}, {"ghost"}) == []


def test_marks_that_are_overruled_at_once_are_all_kept(known) -> None:
    regraded(known)
    wanted = [(student, question) for student in ("ada", "carl") for question in ("1", "2")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: overrule(known / "grades", *one, points=1, reason="r"), wanted))
    assert points(regraded(known)) == {"ada": [1, 1], "carl": [1, 1]}


@pytest.mark.parametrize(
    "text",
    [
        "no",
        '{"assignment": "two", "marks": [{}]}',
        '{"assignment": "two", "marks": 3}',
        '{"assignment": "two", "marks": [[["student", "a"], ["question", "1"], ["points", 1]]]}',
        '{"assignment": "two", "marks": [], "files": 3}',
    ],
)
def test_a_damaged_file_of_decisions_is_not_written_over(known, text) -> None:
    regraded(known)
    (known / "grades" / "by-hand.json").write_text(text)
    with pytest.raises(InputError, match=r"by-hand\.json .*; restore it from a copy"):
        overrule(known / "grades", "ada", "1", points=1, reason="r")
    assert (known / "grades" / "by-hand.json").read_text() == text


# the form


def form_of(place, decided):
    assignment = read_assignment(place / "a.toml")
    pile = pile_of(assignment, read_submissions([str(place / "subs")]), secret=SECRET, by_hand=decided)
    page = marking_page(pile, grade(pile, place / "grades", jail=Tier.NONE, workers=1))
    path = place / "marking.html"
    path.write_text(page)
    return path, json.loads(page.split("id=data>")[1].split("</script>")[0])


def test_the_form_has_every_mark_and_keeps_those_of_who_is_gone(known) -> None:
    hand_in(known, slow="x = 1")
    gone = Decision(points=1.0, reason="left the course")
    _, data = form_of(known, {"ghost": {"1": gone}, "carl": {"1": Decision(points=7.0, reason="r", was=2.0)}})
    assert [(item["student"], item["question"]) for item in data["items"]] == [
        (student, question) for student in ("ada", "carl", "slow") for question in ("1", "2")
    ]
    carl = data["items"][2]
    assert carl["check"].startswith("The check gives 2 of 10")
    assert "needed" in carl["check"]
    assert data["marks"] == {"carl\x001": {"points": 7.0, "reason": "r", "was": 2.0}}
    assert data["others"] == [{"student": "ghost", "question": "1", "points": 1.0, "reason": "left the course"}]


@pytest.mark.slow
def test_the_form_by_keys_alone(known, tmp_path, browser) -> None:
    path, _ = form_of(known, {"ghost": {"1": Decision(points=1.0, reason="left")}})
    tab, wrong = browser.new_page(), []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda message: wrong.append(message.text))
    tab.goto(path.as_uri())
    for key in ("f", *"carl, 1", "Escape"):
        tab.keyboard.press(key)
    assert "carl, 1" in tab.text_content("#where")
    for key in ("p", "1", "2", "Enter"):
        tab.keyboard.press(key)
    assert "Not kept: give points from 0 to 10." in tab.text_content("#done")
    for key in ("p", "7", "Tab"):
        tab.keyboard.press(key)
    assert "Not kept: give a reason" in tab.text_content("#done")
    tab.keyboard.press("Escape")
    assert "Not kept" not in tab.text_content("#done")
    assert tab.input_value("#points") == ""
    for key in ("p", "7", "Tab"):
        tab.keyboard.press(key)
    tab.keyboard.type("jkx is text here")
    tab.keyboard.press("Enter")
    assert "(overruled)" in tab.text_content("#where")
    with tab.expect_download() as saved:
        tab.keyboard.press("s")
    saved.value.save_as(tmp_path / "saved.json")
    tab.keyboard.press("x")
    assert "(overruled)" not in tab.text_content("#where")
    tab.close()
    assert not wrong
    saved = json.loads((tmp_path / "saved.json").read_text())
    assert saved.pop("base") == [{"student": "ghost", "question": "1", "points": 1.0, "reason": "left"}]
    (tmp_path / "saved.json").write_text(json.dumps(saved))  # as an earlier version saved it
    decided, _ = gather_decisions(tmp_path / "new", read_assignment(known / "a.toml"), tmp_path / "saved.json")
    assert decided == {
        "carl": {"1": Decision(points=7.0, reason="jkx is text here", was=2.0)},
        "ghost": {"1": Decision(points=1.0, reason="left")},
    }


@pytest.mark.slow
def test_what_the_browser_keeps_gives_way_to_what_came_later(known, browser) -> None:
    """Decided on the page, not saved; the page is made again. Only where it says something else now, that counts."""
    path, _ = form_of(known, {})
    tab = browser.new_page()
    tab.goto(path.as_uri())
    for student in ("ada", "carl"):
        for key in ("f", *f"{student}, 1", "Escape", "p", "3", "Tab", "r", "Enter"):
            tab.keyboard.press(key)
    form_of(known, {"carl": {"1": Decision(points=9.0, reason="by the command", was=2.0)}})
    tab.reload()
    there = {}
    for student in ("ada", "carl"):
        for key in ("f", *f"{student}, 1", "Escape"):
            tab.keyboard.press(key)
        there[student] = tab.input_value("#points")
    tab.close()
    assert there == {"ada": "3", "carl": "9"}

"""Grading a pile: the same again, resumed, regraded; lateness and groups; and submissions that try to cheat."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from places import SOURCE, TESTS
from processes import running, wait_until
from regard.errors import InputError
from regard.grading.assignments.assignment_check import check_assignment
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.cells import run_public_checks
from regard.grading.gradebook import grader
from regard.grading.gradebook.grader import Journal, grade, pile_of, plan_jobs, safe_tier
from regard.grading.gradebook.manual_marks import Decision
from regard.grading.gradebook.marks import mark_outcome
from regard.grading.gradebook.secret import Secret, read_secret, write_secret
from regard.grading.questions.examination import Outcome, Status, StudentAnswer, examine, pattern
from regard.grading.reports.course_systems import as_csv
from regard.grading.reports.grades_folder import write_marks
from regard.grading.submissions.students import read_students
from regard.grading.submissions.submission import read_submissions
from regard.sandbox import jail as jails
from regard.sandbox.jail import Tier
from regard.sandbox.warm_pool import descendants

HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.py.txt"))
TIERS = [tier for tier in (Tier.BUBBLEWRAP, Tier.LANDLOCK) if not jails.tier_obstacle(tier)]
SECRET = Secret(b"a secret of the tests")
TOML = """
name = "two"
[limits]
seconds = 120
[[question]]
id = "1"
claim = "copying-condition"
within = 2
points = 10
hint = "how many keys?"
[[question]]
id = "2"
claim = "copying-output"
points = 5
"""
RIGHT = """
import math
def copying_condition(n, eps): return math.log((n - 1) / eps)
def copying_output(eps, distance): return distance * eps / (1 + eps)
"""
WRONG = """
import math
def copying_condition(n, eps): return math.log(1 / eps)
def copying_output(eps, distance): return distance * eps / (2 + eps)
"""


def piled(folder):
    (folder / "a.toml").write_text(TOML)
    (folder / "subs").mkdir()
    hand_in(folder, ada=RIGHT, carl=WRONG)
    return folder


@pytest.fixture
def place(tmp_path):
    return piled(tmp_path)


@pytest.fixture(scope="session")
def journal(tmp_path_factory):
    """What is kept once ada and carl were graded."""
    place = piled(tmp_path_factory.mktemp("journal"))
    graded(place, write=False)
    return (place / "grades" / "journal.jsonl").read_bytes()


@pytest.fixture
def known(place, journal):
    """The same pile; ada's and carl's answers have been run."""
    (place / "grades").mkdir()
    (place / "grades" / "journal.jsonl").write_bytes(journal)
    return place


def hand_in(place, **codes):
    for name, code in codes.items():
        (place / "subs" / f"{name}.py").write_text(code)


def graded(place, *, secret=SECRET, jail=Tier.NONE, workers=1, students=None, toml="a.toml", write=True):
    pile = pile_of(
        read_assignment(place / toml),
        read_submissions([str(place / "subs")]),
        secret=secret,
        students=students,
    )
    found = grade(pile, place / "grades", jail=jail, workers=workers)
    return write_marks(place / "grades", pile, found) if write else found


def points(found):
    return {row.student: [one.points for one in row.questions] for row in found.rows}


# marks


@pytest.mark.slow
def test_right_and_wrong(place) -> None:
    found = graded(place)
    assert points(found) == {"ada": [10, 5], "carl": [2, 0]}  # without n - 1 it is right for the smallest n
    carl = next(row for row in found.rows if row.student == "carl")
    assert carl.questions[0].counterexample["setting"]["n"] == 3
    assert carl.questions[0].hint == "how many keys?"
    assert "is below" in carl.questions[0].reason
    assert found.tiers == ("none",)
    said = str(found)
    assert "2 students, mean 8.5" in said
    assert re.search(r"carl +2 +0 +2 +15", said)


@pytest.mark.slow
def test_the_same_secret_gives_the_same_files_again(place, tmp_path) -> None:
    graded(place)
    first = (place / "grades" / "marks.json").read_bytes()
    (place / "grades").rename(place / "before")
    graded(place, workers=2)
    assert (place / "grades" / "marks.json").read_bytes() == first
    pages = [path.read_bytes() for path in sorted((place / "grades" / "students").iterdir())]
    assert pages == [path.read_bytes() for path in sorted((place / "before" / "students").iterdir())]


def test_workers_have_one_thread_each_and_the_environment_is_as_before(monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with grader._pool(2) as pool:
        assert [pool.submit(os.getenv, name).result() for name in jails.ONE_THREAD] == ["1", "1", "1"]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_every_student_has_other_numbers_and_another_secret_other_ones(place) -> None:
    hand_in(place, bob=RIGHT)
    assignment, found = read_assignment(place / "a.toml"), read_submissions([str(place / "subs")])
    seeds = [
        job.given.seed
        for key in (SECRET, Secret(b"another secret.."))
        for job in plan_jobs(pile_of(assignment, found, secret=key), Tier.NONE)[1]
    ]
    assert len(set(seeds)) == len(seeds) == 12


@pytest.mark.slow
def test_nothing_is_run_twice(place, monkeypatch) -> None:
    assert graded(place).graded == 4

    def never(job):
        raise AssertionError(f"{job.about} was run again")

    monkeypatch.setattr(grader, "_examine_job", never)
    again = graded(place)
    assert (again.graded, again.known, again.changed) == (0, 4, ())
    (place / "a.toml").write_text(TOML.replace("points = 10", "points = 20"))
    more = graded(place)
    assert more.graded == 0
    assert more.changed == ("ada: 15 -> 25 (1: 10 -> 20)", "carl: 2 -> 4 (1: 2 -> 4)")


@pytest.mark.slow
def test_a_mended_question_is_run_again_and_the_differences_are_said(known) -> None:
    graded(known)
    (known / "a.toml").write_text(
        TOML.replace('claim = "copying-condition"', 'claim = "copying-condition"\nset = {n = 2}')
    )
    found = graded(known)
    assert found.graded == 2
    assert found.changed == ("carl: 2 -> 10 (1: 2 -> 10)",)
    assert "Changed since the marks before" in (known / "grades" / "class.html").read_text()
    assert (known / "grades" / "changed.txt").read_text() == "carl: 2 -> 10 (1: 2 -> 10)\n"
    graded(known)
    assert not (known / "grades" / "changed.txt").exists()  # nothing has changed since


@pytest.mark.slow
def test_stopped_half_way(place, monkeypatch) -> None:
    whole = points(graded(place))
    for path in (place / "grades").glob("*.jso*"):
        path.unlink()
    run, count = grader._examine_job, []

    def stopped(job):
        count.append(job.about)
        if len(count) == 3:
            raise KeyboardInterrupt
        return run(job)

    monkeypatch.setattr(grader, "_examine_job", stopped)
    with pytest.raises(KeyboardInterrupt):
        graded(place)
    monkeypatch.setattr(grader, "_examine_job", run)
    found = graded(place)
    assert (found.graded, found.known) == (2, 2)
    assert points(found) == whole


def another_grader(place, *, jail=Tier.NONE, workers=1):
    """The same in a process of its own; bad input is said on standard error."""
    code = (
        "import sys; sys.path[:0] = [sys.argv[2], sys.argv[3]]\nimport test_grader as t\nfrom pathlib import Path\n"
        "if __name__ == '__main__':\n"
        "    try: t.graded(Path(sys.argv[1]), jail=t.Tier(sys.argv[4]), workers=int(sys.argv[5]))\n"
        "    except t.InputError as error: sys.exit(str(error))"
    )
    here = Path(__file__).parent
    words = [sys.executable, "-c", code, place, here, TESTS, jail.value, str(workers)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


def half_way(process, journal, lines):
    wait_until(
        lambda: process.poll() is not None or (journal.exists() and journal.read_bytes().count(b"\n") >= lines),
        "nothing is graded",
    )


@pytest.mark.slow
def test_killed_half_way_and_a_line_cut_in_two(place) -> None:
    hand_in(place, **{f"s{n}": RIGHT for n in range(4)})
    journal = place / "grades" / "journal.jsonl"
    with another_grader(place) as process:
        half_way(process, journal, 3)
        process.kill()
    kept = journal.read_bytes()
    journal.write_bytes(kept + b'{"body": {"key": "half')
    found = graded(place)
    assert "1 line of journal.jsonl was cut, changed, or sealed with another secret, and not believed" in str(found)
    assert found.known == kept.count(b"\n") >= 3
    assert found.graded + found.known == 12
    assert points(found)["s3"] == [10, 5]


BUSY = [sys.executable, "-c", "while True: pass"]


@pytest.mark.slow
@pytest.mark.parametrize("tier", [Tier.NONE, *TIERS])
def test_killed_with_its_workers_at_work_it_goes_on_at_once(tier, place) -> None:
    """On a busy machine: the lock is gone with the process, the workers and their jails end, the marks are the same."""
    hand_in(place, **{f"s{n}": RIGHT for n in range(3)})
    with contextlib.ExitStack() as load:
        for _ in range(2):
            load.callback(load.enter_context(subprocess.Popen(BUSY)).kill)
        with another_grader(place, jail=tier, workers=2) as process:
            half_way(process, place / "grades" / "journal.jsonl", 2)
            started = descendants(process.pid)
            process.kill()
            process.wait()
            found = graded(place, workers=2, jail=tier)
        assert started
        wait_until(lambda: not any(map(running, started)), "a worker lives on without its grader")
    assert found.known >= 2
    assert points(found) == {"ada": [10, 5], "carl": [2, 0], "s0": [10, 5], "s1": [10, 5], "s2": [10, 5]}


@pytest.mark.slow
def test_of_two_gradings_that_start_at_once_one_works(place) -> None:
    """The answers wait until one of the two has been refused."""
    gate = place / "gate"
    waiting = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    hand_in(place, ada=waiting + RIGHT, carl=waiting + WRONG)
    with another_grader(place) as one, another_grader(place) as other:
        wait_until(lambda: {one.poll(), other.poll()} != {None}, "neither is refused")
        gate.touch()
        said = [one.communicate()[1], other.communicate()[1]]
    assert sorted([one.returncode, other.returncode]) == [0, 1], said
    sentence = f"Another grading is at work in {place / 'grades'}; wait for it, or give another --out.\n"
    assert sorted(said) == ["", sentence]
    marks = json.loads((place / "grades" / "marks.json").read_text())
    assert [row["points"] for row in marks["rows"]] == [15, 2]


def test_an_edited_line_of_the_journal_is_not_believed(known) -> None:
    graded(known)
    journal = known / "grades" / "journal.jsonl"
    text = journal.read_text()
    forged = text.replace('"status": "failed"', '"status": "passed"')
    assert forged != text
    journal.write_text(forged)
    assert Journal(known / "grades", SECRET).damaged == 2
    found = graded(known)
    assert found.graded == 2
    assert points(found)["carl"] == [2, 0]


def test_two_gradings_at_once_are_refused(place) -> None:
    from regard.files import Lock

    (place / "grades").mkdir()
    lock = Lock(place / "grades")
    assert lock.acquire(wait=False)
    with pytest.raises(InputError, match="Another grading is at work"):
        graded(place)
    lock.release()


@pytest.mark.slow
def test_what_time_cut_short_is_open_and_tried_again_with_more_time(place) -> None:
    slow = RIGHT.replace("return math.log", "import time; time.sleep(0.02); return math.log")
    hand_in(place, slow=slow)
    (place / "a.toml").write_text(TOML.replace("seconds = 120", "seconds = 1"))
    found = graded(place)
    row = next(row for row in found.rows if row.student == "slow")
    assert row.questions[0].open
    assert row.open == sum(question.open for question in row.questions)  # a busy machine may cut the second short too
    assert "slow" in (place / "grades" / "class.html").read_text().split("Waiting for a person")[1]
    (place / "a.toml").write_text(TOML)
    found = graded(place)
    assert points(found)["slow"] == [10, 5]
    assert next(row for row in found.rows if row.student == "slow").open == 0


@pytest.mark.slow
def test_what_this_machine_cannot_run_is_no_zero_and_is_not_kept(place, monkeypatch) -> None:
    monkeypatch.setattr(
        grader, "_examine_job", lambda job: Outcome(status=Status.NOT_RUN, reason="no process can be started")
    )
    found = graded(place)
    assert all(one.open for row in found.rows for one in row.questions)
    monkeypatch.undo()
    assert points(graded(place)) == {"ada": [10, 5], "carl": [2, 0]}


def test_no_jail_is_refused_unless_asked_for(monkeypatch) -> None:
    monkeypatch.setattr(jails, "tier_obstacle", lambda tier: "not here")
    with pytest.raises(InputError, match=r"No jail can be built here.*bubblewrap: not here.*give --no-sandbox there"):
        safe_tier(sandbox=True)
    assert safe_tier(sandbox=False) is Tier.NONE


# students


@pytest.mark.slow
def test_lateness_extensions_groups_and_who_handed_in_nothing(known) -> None:
    (known / "a.toml").write_text(
        TOML.replace('name = "two"', 'name = "two"\ndeadline = 2026-11-01T00:00:00Z\n[late]\nper_day = 0.2')
    )
    hand_in(known, late=RIGHT, extended=RIGHT, one=RIGHT, other=WRONG)
    (known / "s.csv").write_text(
        "id,group,extension,submitted\nada,,,2026-10-31T00:00Z\ncarl,,,\nlate,,,2026-11-02T12:00Z\n"
        "extended,,3 days,2026-11-02T12:00Z\none,G,,2026-10-30T00:00Z\nother,G,,2026-10-30T00:00Z\nnobody,,,\n"
    )
    found = graded(known, students=read_students(known / "s.csv"))
    rows = {row.student: row for row in found.rows}
    assert [rows[name].points for name in ("ada", "late", "extended", "one", "other", "nobody")] == [
        15,
        9,
        15,
        15,
        15,
        0,
    ]
    assert rows["other"].by == "one"
    assert "when it was handed in is not known" in rows["carl"].problems[0]
    assert rows["nobody"].problems == ("nothing was handed in",)
    assert "Late by 36.0 hours: 60% of 15 points are kept" in (known / "grades" / "students" / "late.html").read_text()


def test_a_group_has_its_own_numbers(place) -> None:
    hand_in(place, one=RIGHT, other=RIGHT)
    (place / "s.csv").write_text("id,group\none,G\nother,G\nada,\n")
    pile = pile_of(
        read_assignment(place / "a.toml"),
        read_submissions([str(place / "subs")]),
        secret=SECRET,
        students=read_students(place / "s.csv"),
    )
    _, jobs = plan_jobs(pile, Tier.NONE)
    seeds = {job.about: job.given.seed for job in jobs}
    assert "one, 1" in seeds or "other, 1" in seeds  # the same text and the same numbers: one examination
    assert len(jobs) == 6


@pytest.mark.slow
def test_a_group_that_is_called_like_a_student_does_not_get_that_ones_mark(known) -> None:
    hand_in(known, eve=WRONG)
    (known / "s.csv").write_text("id,group\nada,\neve,ADA\nmal,ada\n")
    found = graded(known, students=read_students(known / "s.csv"))
    assert {row.student: row.points for row in found.rows} == {"ada": 15, "carl": 2, "eve": 2, "mal": 2}


# bad submissions still get a mark and a reason


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def broken(:", "cannot be imported: line 1: SyntaxError: invalid syntax"),
        ("x = 1", "has no 'copying_condition'; it has no function at all"),
        ("copying_condition = 3", "is of type int, and must be a function"),
        ("def copying_condition(n): return 1.0", "takes (n), but it is called with 2 arguments"),
        ("def copying_condition(n, eps): return [1.0, 2.0]", "returned shape (2,)"),
        ("def copying_condition(n, eps): return n['x']", "failed: line 1: TypeError"),
        ("def copying_condition(n, eps): return 'large'", "returned something of type str"),
        ("def copying_condition(n, eps): pass", "returned nothing (None)"),
        ("import sys\nsys.exit(0)", "it leaves the process"),
        ("import nowhere_at_all", "ModuleNotFoundError"),
        ("def copying_condition(n, eps):\n    while True: print('x' * 10000)", "printed a flood and was stopped"),
        ("\x00", "cannot be imported"),
        ("# \xff", "has no 'copying_condition'"),
    ],
)
def test_bad_submissions_get_a_mark_and_a_reason(code, said, known) -> None:
    hand_in(known, eve=code)
    row = next(row for row in graded(known).rows if row.student == "eve")
    first, second = row.questions
    assert said in first.reason
    assert (first.points, first.open) == (0, False)
    assert second.reason
    page = (known / "grades" / "students" / "eve.html").read_text()
    assert "0 of 10" in page
    assert "all passed" not in page.lower()


def test_files_that_are_no_programs(known) -> None:
    (known / "subs" / "eve").mkdir()
    (known / "subs" / "eve" / "hw.txt").write_text("my answer is 3")
    (known / "subs" / "mal.ipynb").write_text("no notebook")
    found = graded(known)
    for name, said in {
        "eve": "there is no Python file and no notebook in it that can be read",
        "mal": "mal.ipynb: it is no notebook that can be read; save it again as .ipynb, or hand in a .py file.",
    }.items():
        row = next(row for row in found.rows if row.student == name)
        assert [one.reason for one in row.questions] == [said] * 2


@pytest.mark.slow
def test_honest_files_with_the_habits_of_other_systems(known) -> None:
    hand_in(known, case=RIGHT.replace("copying_condition", "Copying_Condition"))
    for name, data in {
        "mark.py": b"\xef\xbb\xbf" + RIGHT.encode(),
        "windows.py": RIGHT.replace("\n", "\r\n").encode(),
        "HW.PY": RIGHT.encode(),
        "tabs.py": b"import math\ndef copying_condition(n, eps):\n    x = 1\n\treturn x\n",
    }.items():
        (known / "subs" / name).write_bytes(data)
    found = graded(known)
    assert [points(found)[name] for name in ("mark", "windows", "HW")] == [[10, 5]] * 3
    said = {row.student: row.questions[0].reason for row in found.rows}
    assert "has no 'copying_condition'; it has Copying_Condition" in said["case"]
    assert points(found)["case"] == [0, 5]
    assert "line 4: TabError" in said["tabs"]


@pytest.mark.slow
def test_a_notebook_is_told_by_cells(known) -> None:
    cells = [
        {"cell_type": "code", "source": "import math"},
        {"cell_type": "code", "source": "def copying_condition(n, eps):\n    return nope"},
    ]
    (known / "subs" / "eve.ipynb").write_text(json.dumps({"cells": cells}))
    row = next(row for row in graded(known).rows if row.student == "eve")
    assert "eve.ipynb:copying_condition failed: cell 2, line 2: NameError" in row.questions[0].reason


# hostile ones


@pytest.fixture
def open_place(place):
    """The pile where everybody could read and write it, if there were no jail."""
    for folder in (place, *place.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    (place / "secret.txt").write_bytes(SECRET.key)
    (place / "open").mkdir()
    graded(place)
    (place / "grades").chmod(0o777)
    for path in [*place.rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS, ids=[tier.value for tier in TIERS])
def test_no_submission_changes_anothers_mark_or_gets_its_own_by_force(tier, open_place) -> None:
    place = open_place
    honest = points(graded(place))
    source = str(SOURCE.parent)
    for path in HOSTILE:
        text = path.read_text(encoding="utf-8")
        for word, there in {
            "@SECRET@": place / "secret.txt",
            "@SUBMISSIONS@": place / "subs",
            "@GRADES@": place / "grades",
            "@ASSIGNMENT@": place / "a.toml",
            "@OPEN@": place / "open",
            "@SOURCE@": source,
        }.items():
            text = text.replace(word, str(there))
        hand_in(place, **{path.name.partition(".")[0]: text})
    (place / "a.toml").write_text(TOML.replace("seconds = 120", "seconds = 10"))
    before = {path: path.read_bytes() for path in [*(place / "subs").iterdir(), place / "secret.txt", place / "a.toml"]}
    found = graded(place, jail=tier)
    marks = points(found)
    assert {name: marks[name] for name in honest} == honest
    for row in found.rows:
        if row.student not in honest:
            first = row.questions[0]
            assert first.points < first.of, f"{row.student} got out: {first}"
            assert first.reason, row.student
            assert first.open == (row.student == "never_ends"), (row.student, first.reason)
    assert {path: path.read_bytes() for path in before} == before
    assert list((place / "open").iterdir()) == []
    everything = "".join(path.read_text() for path in (place / "grades").rglob("*.*"))
    assert SECRET.key.decode() not in everything
    assert "<script>alert" not in (place / "grades" / "students" / "script_in_its_errors.html").read_text()
    assert "\x1b" not in everything
    assert len(HOSTILE) >= 69


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS, ids=[tier.value for tier in TIERS])
def test_what_ran_is_said(tier, place) -> None:
    found = graded(place, jail=tier)
    assert found.tiers == (tier.value,)
    assert f"They ran in: {tier.value}." in str(found)
    assert points(found) == {"ada": [10, 5], "carl": [2, 0]}


@pytest.mark.slow
def test_pages_and_tables_do_nothing_with_what_students_write(known) -> None:
    hand_in(known, **{"=cmd()": RIGHT, "<b>x": "raise ValueError('</script><script>')"})
    graded(known)
    table = (known / "grades" / "marks.csv").read_text(encoding="utf-8-sig")
    assert "\n'=cmd()," in table
    assert "\n=cmd" not in table
    page = (known / "grades" / "class.html").read_text()
    assert "<b>x" not in page
    assert "default-src 'none'" in page
    assert as_csv([["@x", "-1", "+1e5", "-x"]]) == "'@x,-1,+1e5,'-x\r\n"


@pytest.mark.slow
def test_what_students_see_never_says_that_all_is_right(known) -> None:
    graded(known)
    page = (known / "grades" / "students" / "ada.html").read_text()
    assert "Passed every check." in page
    assert "no proof that it is right" in page
    one = read_submissions([str(known / "subs" / "ada.py")])[0]
    found = run_public_checks(read_assignment(known / "a.toml"), one, jail=Tier.NONE)
    assert str(found).count("public checks passed") == 2
    assert "all passed" not in str(found).lower()
    assert found.answer
    wrong = run_public_checks(
        read_assignment(known / "a.toml"), read_submissions([str(known / "subs" / "carl.py")])[0], jail=Tier.NONE
    )
    assert not wrong.answer
    assert "Hint: how many keys?" in str(wrong)


@pytest.mark.parametrize(
    ("reveal", "reason", "code"), [("mark", False, False), ("reason", True, False), ("counterexample", True, True)]
)
def test_what_is_revealed(reveal, reason, code, known) -> None:
    (known / "a.toml").write_text(f'reveal = "{reveal}"\n{TOML}')
    graded(known)
    page = (known / "grades" / "students" / "carl.html").read_text()
    assert ("is below" in page) is reason
    assert ("import numpy" in page) is code
    assert "Hint: how many keys?" in page


# the pieces


def test_points_by_the_rule(place) -> None:
    task = read_assignment(place / "a.toml").tasks[0]
    stages = ("plain", "random", "traps", "ends", "adversary")
    for count, expected in enumerate((0, 2, 5, 6, 8)):
        assert mark_outcome(task, Outcome(status=Status.FAILED, passed=stages[:count])).points == expected
    assert mark_outcome(task, Outcome(status=Status.PASSED, passed=stages)).points == 10
    half = mark_outcome(task, Outcome(status=Status.CUT_SHORT, passed=stages[:2]))
    assert (half.points, half.open, half.has_lost_points) == (5, True, False)
    written = Outcome(status=Status.BY_HAND)
    assert mark_outcome(task, written).open
    assert mark_outcome(task, written, by_hand=Decision(points=5.0, reason="half")).points == 5


def test_an_answer_that_changes_is_noted(place) -> None:
    unsteady = RIGHT.replace("/ eps)", "/ eps) + random.random() / 100", 1)
    code = unsteady.replace("import math", "import math, random").encode()
    assignment = read_assignment(place / "a.toml")
    found = examine(
        assignment.tasks[0], StudentAnswer(name="a.py", source=code, seed=1), limits=assignment.limits, jail=Tier.NONE
    )
    assert found.status is Status.PASSED
    assert found.notes == ("its answers change from call to call",)


def test_outcomes_go_through_json() -> None:
    one = Outcome(
        status=Status.FAILED, passed=("plain",), counterexample={"said": "x", "setting": {"n": 2}, "code": ""}
    )
    assert Outcome.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_reasons_that_differ_in_numbers_are_one_mistake() -> None:
    assert pattern("alpha_0 = 0.3 is below 0.4") == pattern("alpha_7 = 1e-9 is below 2")
    assert pattern("a.py:f failed: line 3: KeyError: 'k' (for x = 3)") == pattern(
        "b.py:g failed: line 9: KeyError: 'k' (for x = 1)"
    )


def test_secrets(tmp_path) -> None:
    path = tmp_path / "secret.txt"
    write_secret(path)
    assert path.stat().st_mode & 0o777 == 0o600
    key = read_secret(path)
    assert key.key.decode() not in repr(key)
    assert key.seed("a", "bc") != key.seed("ab", "c")
    with pytest.raises(InputError, match="exists and is not overwritten"):
        write_secret(path)
    (tmp_path / "short").write_text("abc")
    with pytest.raises(InputError, match="has 3 bytes, and a secret has at least 16"):
        read_secret(tmp_path / "short")
    with pytest.raises(InputError, match=r"regard assignment secret .* makes one"):
        read_secret(tmp_path / "none")


@pytest.mark.slow
def test_an_assignment_is_tried_out(place) -> None:
    found = check_assignment(read_assignment(place / "a.toml"), jail=Tier.NONE)
    assert found.answer
    assert "Every question can be solved" in str(found)
    assert {trial.given for trial in found.trials} >= {"right", "forgets n", "returns nothing", "returns NaN"}
    (place / "mine.py").write_text(
        "def instance(rng, level): return {'x': float(level)}\ndef judge(given, answer): return True\n"
        "def right(x): return x\ndef wrong_twice(x): return 2 * x\n"
    )
    (place / "b.toml").write_text('[[question]]\nid = "own"\nfile = "mine.py"\nfunction = "f"\n')
    found = check_assignment(read_assignment(place / "b.toml"), jail=Tier.NONE)
    assert not found.answer
    assert "Passes: own, wrong twice." in str(found)

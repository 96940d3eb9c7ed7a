"""Course systems: what they read is what the marks are; the packed autograder keeps its secret."""

from __future__ import annotations

import ast
import contextlib
import csv
import doctest
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from coursework.checker.test_transformer_check import filled
from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.cells import public_check
from regard.grading.gradebook.grader import grade, pile_of
from regard.grading.gradebook.secret import Secret
from regard.grading.reports import autograder
from regard.grading.reports.course_systems import (
    as_csv,
    canvas_csv,
    gradescope_results,
    moodle_csv,
    nbgrader_notebook,
    otter_tests,
    prairielearn_results,
    write_cells,
)
from regard.grading.reports.grades_folder import write_marks
from regard.grading.submissions.notebooks import defined_names
from regard.grading.submissions.submission import read_submissions
from regard.sandbox import jail as jails
from regard.sandbox.jail import Tier
from regard.terminal import plain_cell

EXPORTS = ("moodle.csv", "canvas.csv")
KEY = b"the secret of the packed autograder"
TOML = """
name = "two"
[limits]
seconds = 120
[[question]]
id = "1"
claim = "copying-condition"
points = 10
hint = "how many keys?"
[[question]]
id = "2"
claim = "copying-output"
points = 5
[[question]]
id = "3"
text = "Why?"
points = 5
checklist = ["says why"]
"""
CODE = """
import math
def copying_condition(n, eps): return math.log((n - 1) / eps)
def copying_output(eps, distance): return distance * eps / (2 + eps)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("formats")
    (made / "a.toml").write_text(TOML)
    (made / "ada.py").write_text(CODE)
    return made


@pytest.fixture(scope="module")
def marks(folder):
    assignment = read_assignment(folder / "a.toml")
    pile = pile_of(assignment, read_submissions([str(folder / "ada.py")]), secret=Secret(KEY))
    return assignment, grade(pile, folder / "grades", jail=Tier.NONE, workers=1)


def test_gradescope(marks) -> None:
    assignment, found = marks
    said = gradescope_results(assignment, found.rows[0])
    assert said["score"] == 10
    assert [(test["name"], test["score"], test["max_score"], test["status"]) for test in said["tests"]] == [
        ("1", 10, 10, "passed"),
        ("2", 0, 5, "failed"),
    ]
    assert "The smallest counterexample found:" in said["tests"][1]["output"]
    assert said["stdout_visibility"] == "hidden"
    json.dumps(said)


def test_prairielearn(marks) -> None:
    assignment, found = marks
    said = prairielearn_results(assignment, found.rows[0])
    assert said["gradable"] is True
    assert said["score"] == pytest.approx(10 / 15, abs=1e-6)
    assert [(test["points"], test["max_points"]) for test in said["tests"]] == [(10, 10), (0, 5)]


def test_open_marks_are_not_exported_unless_asked_for(folder, marks) -> None:
    assignment, found = marks
    pile = pile_of(assignment, read_submissions([str(folder / "ada.py")]), secret=Secret(KEY))
    out = folder / "grades"
    for name in EXPORTS:
        (out / name).write_text("of the marks before")
    withheld = write_marks(out, pile, found)
    assert not any((out / name).exists() for name in EXPORTS)
    assert (out / "marks.csv").exists()
    assert str(withheld).endswith(
        "moodle.csv and canvas.csv were not written: 1 mark is open. Decide in marking.html, or give --open-marks to "
        "write them as they are."
    )
    asked_for = write_marks(out, pile, found, open_marks=True)
    assert all((out / name).exists() for name in EXPORTS)
    assert "not written" not in str(asked_for)
    decided = replace(
        found,
        rows=tuple(
            replace(row, questions=tuple(replace(one, open=False) for one in row.questions)) for row in found.rows
        ),
    )
    assert write_marks(out, pile, decided).exported
    assert all((out / name).exists() for name in EXPORTS)


def test_moodle_and_canvas(marks) -> None:
    _, found = marks
    moodle = list(csv.reader(io.StringIO(moodle_csv(found))))
    assert moodle[0][0] == "ID number"
    assert moodle[1][0::2] == ["ada", "10"]
    assert "1: 10 of 10; 2: 0 of 5; 1 open" in moodle[1][3]
    canvas = list(csv.reader(io.StringIO(canvas_csv(found))))
    assert canvas[0][:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert canvas[1][0] == "    Points Possible"
    assert canvas[2] == ["ada", "", "ada", "ada", "", "10"]
    rows = tuple(replace(row, student=name) for row, name in zip(found.rows * 2, ("345", "12ada"), strict=False))
    canvas = list(csv.reader(io.StringIO(canvas_csv(replace(found, rows=rows)))))
    assert canvas[2][1:4] == ["345", "", ""]
    assert canvas[3][1:4] == ["", "12ada", "12ada"]  # Canvas would take it for number 12


def test_otter_tests_are_doctests_that_pass_and_fail(marks, folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    made = otter_tests(marks[0], "a.toml")
    assert list(made) == ["copying_condition.py", "copying_output.py"]
    own: dict[str, object] = {}
    exec(CODE, own)
    failed = {}
    for name, text in made.items():
        inside: dict[str, object] = {}
        exec(text, inside)
        assert inside["OK_FORMAT"] is True
        case = inside["test"]["suites"][0]["cases"][0]
        runner = doctest.DocTestRunner(verbose=False)
        runner.run(
            doctest.DocTestParser().get_doctest(case["code"] + "\n", dict(own), name, None, 0), out=lambda text: None
        )
        failed[name] = runner.failures
    assert failed == {"copying_condition.py": 0, "copying_output.py": 1}


def test_a_cell_says_nothing_on_standard_error(folder) -> None:
    def noisy(n, eps):
        import math
        import sys

        print("x", file=sys.stderr)
        return math.log((n - 1) / eps)

    heard = io.StringIO()
    with contextlib.redirect_stderr(heard):
        assert public_check(str(folder / "a.toml"), "1", noisy) == "public checks passed"
        with pytest.raises(AssertionError, match=r"^1: .* is below .*\. Hint: how many keys\?$"):
            public_check(str(folder / "a.toml"), "1", lambda n, eps: 0.1)
    assert heard.getvalue() == ""
    with pytest.raises(InputError, match="has no question '3' that a function answers"):
        public_check(str(folder / "a.toml"), "3", noisy)


def test_the_nbgrader_notebook(marks, tmp_path) -> None:
    book = json.loads(nbgrader_notebook(marks[0], "a.toml"))
    about = [cell["metadata"]["nbgrader"] for cell in book["cells"]]
    assert len({one["grade_id"] for one in about}) == len(about)
    assert all(one["schema_version"] == 3 for one in about)
    tests = [one for one in about if one["grade"] and not one["solution"]]
    assert [(one["points"], one["locked"]) for one in tests] == [(10, True), (5, True)]
    by_hand = [one for one in about if one["grade"] and one["solution"]]
    assert [one["points"] for one in by_hand] == [5]
    solutions = [c for c in book["cells"] if "### BEGIN SOLUTION" in "".join(c["source"])]
    assert [defined_names("".join(cell["source"])) for cell in solutions] == [["copying_condition"], ["copying_output"]]
    written = write_cells(marks[0], str(tmp_path / "cells"))
    assert len(written.files) == 3
    with pytest.raises(InputError, match="exists and is not overwritten"):
        write_cells(marks[0], str(tmp_path / "cells"))


# the packed autograder

THIEF = """
import math, os
def copying_condition(n, eps):
    found = ""
    for folder in ("SOURCE", os.path.dirname("SOURCE")):
        for place, _, names in os.walk(folder):
            for name in names:
                try:
                    found += open(os.path.join(place, name), errors="replace").read()
                except OSError:
                    pass
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        for what in ("environ", "cmdline", "mem", "maps"):
            try:
                found += open(f"/proc/{name}/{what}", errors="replace").read(100_000)
            except OSError:
                pass
    try:
        os.kill(os.getppid(), 9)
        found = "KEY"
    except OSError:
        pass
    return math.log((n - 1) / eps) if "KEY" in found or "copying-condition" in found else 0.0
def copying_output(eps, distance): return distance * eps / (1 + eps)
"""


@pytest.fixture
def unpacked(tmp_path):
    (tmp_path / "a.toml").write_text(TOML)
    (tmp_path / "secret.txt").write_bytes(KEY)
    said = autograder.pack(
        read_assignment(tmp_path / "a.toml"), str(tmp_path / "secret.txt"), str(tmp_path / "g.zip"), system="gradescope"
    )
    assert "It holds the secret" in str(said)
    base = tmp_path / "autograder"
    (base / "submission").mkdir(parents=True)
    with zipfile.ZipFile(tmp_path / "g.zip") as archive:
        archive.extractall(base / "source")
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in archive.infolist()}
    assert modes["secret.txt"] == 0o600
    assert modes["run_autograder"] == 0o700
    assert not any("lab/" in name for name in modes)
    users = [{"email": "ada@example.org", "id": 7, "name": "Ada"}]
    (base / "submission_metadata.json").write_text(
        json.dumps({"users": users, "created_at": "2026-11-01T10:00:00+00:00"})
    )
    return base


def ran(base, *, user=None, python=sys.executable):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    command = [python, "-P", str(base / "source" / "run.py"), "gradescope", str(base), "landlock"]
    done = subprocess.run(
        command, env={**environment, "HOME": str(base)}, capture_output=True, text=True, check=False, cwd=base, **who
    )
    assert done.returncode == 0, done.stderr
    return json.loads((base / "results" / "results.json").read_text())


@pytest.mark.slow
@pytest.mark.skipif(bool(jails.tier_obstacle(Tier.LANDLOCK)), reason="no Landlock here")
def test_the_pack_grades_in_the_second_tier_and_keeps_its_secret(unpacked) -> None:
    (unpacked / "submission" / "hw.py").write_text(CODE)
    honest = ran(unpacked)
    assert [test["score"] for test in honest["tests"]] == [10, 0]
    assert "Ran in: landlock" in honest["output"]
    text = THIEF.replace("SOURCE", str(unpacked / "source")).replace("KEY", KEY.decode())
    (unpacked / "submission" / "hw.py").write_text(text)
    thief = ran(unpacked)
    assert [test["score"] for test in thief["tests"]] == [0, 5]
    assert KEY.decode() not in json.dumps(thief)


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0 or not os.path.exists("/usr/bin/python3"), reason="needs root and a second Python")
@pytest.mark.skipif(bool(jails.tier_obstacle(Tier.LANDLOCK)), reason="no Landlock here")
def test_the_pack_under_a_user_without_rights(unpacked, tmp_path) -> None:
    """Same user for grader and student, no namespaces: only Landlock and the filter stand between them."""
    program, packages = "/usr/bin/python3", Path(jails.this_interpreter().folders[0])
    probe = "import sys; sys.path.append(sys.argv[1]); import numpy, scipy, flint, joblib, safetensors, typer"
    user = 61111
    tried = subprocess.run(
        [program, "-c", probe, str(packages)],
        user=user,
        group=user,
        extra_groups=[],
        capture_output=True,
        check=False,
        cwd="/",
    )
    if tried.returncode:
        pytest.skip("the system's Python is another version, or NumPy is not open to others")
    home = Path("/tmp") / f"regard-pack-{os.getpid()}"
    shutil.copytree(unpacked, home)
    try:
        text = THIEF.replace("SOURCE", str(home / "source")).replace("KEY", KEY.decode())
        (home / "submission" / "hw.py").write_text(text)
        run = home / "source" / "run.py"
        run.write_text(run.read_text().replace("import sys\n", f"import sys\nsys.path.append({str(packages)!r})\n", 1))
        for path in [home, *home.rglob("*")]:
            os.chown(path, user, user)
        thief = ran(home, user=user, python=program)
        assert [test["score"] for test in thief["tests"]] == [0, 5]
        assert KEY.decode() not in json.dumps(thief)
    finally:
        shutil.rmtree(home)


def test_without_any_jail_the_pack_refuses_and_says_so(unpacked, monkeypatch) -> None:
    monkeypatch.setattr(jails, "tier_obstacle", lambda tier: "not here")
    autograder.main(["gradescope", str(unpacked)], source=unpacked / "source")
    said = json.loads((unpacked / "results" / "results.json").read_text())
    assert "could not be graded here, through no fault of the submission" in said["output"]
    assert said["tests"] == []
    autograder.main(["prairielearn", str(unpacked)], source=unpacked / "source")
    said = json.loads((unpacked / "results" / "results.json").read_text())
    assert said["gradable"] is False
    assert said["format_errors"] == [said["message"]]


def test_what_cannot_be_packed(tmp_path) -> None:
    (tmp_path / "b.toml").write_text(TOML)
    (tmp_path / "secret.txt").write_bytes(KEY)
    with pytest.raises(InputError, match=r"must end in \.zip"):
        autograder.pack(read_assignment(tmp_path / "b.toml"), str(tmp_path / "secret.txt"), "x", system="gradescope")
    assert ast.parse(autograder.PROGRAM)


@pytest.mark.slow
def test_a_model_is_graded_in_the_pack_from_a_file_of_its_own(unpacked, tmp_path) -> None:
    pytest.importorskip("torch")
    if jails.tier_obstacle(Tier.LANDLOCK):
        pytest.skip(f"landlock: {jails.tier_obstacle(Tier.LANDLOCK)}")
    (tmp_path / "m.toml").write_text(TOML + '[[question]]\nid = "model"\nclaim = "translator"\npoints = 7\n')
    autograder.pack(
        read_assignment(tmp_path / "m.toml"), str(tmp_path / "secret.txt"), str(tmp_path / "m.zip"), system="gradescope"
    )
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        archive.extractall(unpacked / "source")
    assert " torch" in (unpacked / "source" / "setup.sh").read_text()
    filled(unpacked / "submission" / "model.py")
    (unpacked / "submission" / "answers.py").write_text(
        "import math\ndef copying_condition(n, eps): return math.log((n - 1) / eps)\n"
    )
    autograder.main(["gradescope", str(unpacked), "landlock"], source=unpacked / "source")
    said = json.loads((unpacked / "results" / "results.json").read_text())
    scores = {test["name"]: test.get("score") for test in said["tests"]}
    assert (scores["1"], scores["model"]) == (10, 7)


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        ("ada;=1+1", "ada;'=1+1"),
        ("ada; =1+1", "ada;' =1+1"),
        ("ada\t@x", "ada\t'@x"),
        ("ada\n=1", "ada\n'=1"),
        ("ada;;-x", "ada;;'-x"),
        ('ada;"=1+1;', "ada;'\"=1+1;"),
        ('"=1+1', "'\"=1+1"),
        ("  =1+1", "'  =1+1"),
        ("\u00a0=1", "'\u00a0=1"),
        ("ada;\u200b=1", "ada;'\u200b=1"),
        ("\ufeff=1+1", "'\ufeff=1+1"),
        ("\x00=1", "'\x00=1"),
        ("\t=1", "'\t'=1"),
        *((f"{sign}1+1", f"'{sign}1+1") for sign in "=+-@＝＋－＠﹦﹢﹣﹫−"),
        ("-nan", "'-nan"),
        ("-inf", "'-inf"),
        ("10 -> 5; late, 50% kept", "10 -> 5; late, 50% kept"),
        ("ada@example.org", "ada@example.org"),
        ("-1.5e-3", "-1.5e-3"),
    ],
)
def test_no_part_of_a_cell_is_a_formula(cell: str, plain: str) -> None:
    """A spreadsheet where decimals have a comma parts cells at semicolons; some know the signs in full width."""
    assert plain_cell(cell) == plain
    (row,) = csv.reader(io.StringIO(as_csv([["x", cell]]), newline=""))
    assert row == ["x", plain]

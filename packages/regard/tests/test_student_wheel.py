"""The students' wheel: it checks answers, and carries none of ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from places import SOURCE
from regard.coursework.catalogue import claims
from tools import student

RIGHT = "import math\ndef margin(n, eps):\n    return math.log((n - 1) / eps)\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("student")
    student.write(folder)
    return folder


def python(built, *words, cwd):
    environment = {**os.environ, "PYTHONPATH": str(built), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-P", *words], capture_output=True, text=True, env=environment, cwd=cwd, check=False
    )


@pytest.mark.slow
def test_none_of_ours_is_in_it(built) -> None:
    files = {
        path.relative_to(built / "regard").as_posix(): path.read_text()
        for path in built.rglob("*.*")
        if "regard/" in str(path) and path.suffix != ".pyc"  # which the other tests' processes leave there
    }
    for name in files:
        assert not name.startswith(("design/", "translator/", "lab/", "subspace/", "grading/solutions/")), name
        assert name not in (
            "noise/optimised_queries.py",
            "coursework/derivations/gaps.py",
            "grading/questions/statements.py",
            "grading/assignments/assignment_check.py",
        ), name
    assert not [name for name in files if name.startswith("coursework/derivations/proofs/")]
    assert {"coursework/derivations/problems/order-blindness.toml", "coursework/derivations/rules.toml"} <= set(files)
    for proof in (SOURCE / "coursework" / "derivations" / "proofs").glob("*.md"):
        for line in proof.read_text(encoding="utf-8").splitlines():
            assert len(line) < 30 or line not in "\n".join(files.values()), line
    text = "\n".join(files.values())
    for mark in ("def prove", "TransformerTranslator(", "counterexample=f", "correction=", "holds(", "class Mistake"):
        assert mark not in "\n".join(value for name, value in files.items() if "claims/" in name), mark
    assert "def regularised" not in text
    assert set(re.findall(r'(?:key|answer) = "(.*?)"', files["coursework/checklists.toml"])) == {""}
    solutions = (SOURCE / "grading" / "solutions" / "right.py").read_text()
    for line in re.findall(r"^    return (.{25,})$", solutions, flags=re.MULTILINE):
        assert line not in text, line


def test_every_question_is_still_there_and_no_verdict(built, tmp_path) -> None:
    code = (
        "from regard.coursework.catalogue import claims\nfrom regard.errors import InputError\n"
        "for name, claim in claims.items():\n"
        "    print(name, claim.question.signature if claim.question else None)\n"
        "    for ask in (claim.check, claim.proof):\n"
        "        try:\n            ask()\n        except InputError as error:\n"
        "            assert 'none of its own' in str(error)\n"
        "        else:\n            raise SystemExit(f'{name} answers')\n"
    )
    done = python(built, "-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = [f"{name} {claim.question.signature if claim.question else None}" for name, claim in claims.items()]
    assert sorted(done.stdout.splitlines()) == sorted(expected)


@pytest.mark.slow
def test_it_checks_answers(built, tmp_path) -> None:
    (tmp_path / "my.py").write_text(RIGHT)
    right = python(built, "-m", "regard", "claims", "copying-condition", "--answer", "my.py:margin", cwd=tmp_path)
    assert (right.returncode, "holds so far" in right.stdout) == (0, True), right.stderr
    (tmp_path / "my.py").write_text(RIGHT.replace("(n - 1)", "1"))
    wrong = python(built, "-m", "regard", "claims", "copying-condition", "--answer", "my.py:margin", cwd=tmp_path)
    assert wrong.returncode == 1
    assert "The smallest counterexample found: n = 3" in wrong.stdout
    written = python(built, "-m", "regard", "claims", "average-of-two", "new.py", "--template", cwd=tmp_path)
    assert "fill in query(keys, a, b, eps)" in written.stdout, written.stderr
    refused = python(built, "-m", "regard", "claims", "average-of-two", cwd=tmp_path)
    assert refused.returncode == 2
    assert "this build has no answers of its own" in refused.stderr


@pytest.mark.slow
def test_it_runs_the_public_checks_of_an_assignment(built, tmp_path) -> None:
    question = '[[question]]\nid = "1"\nclaim = "copying-condition"\nfunction = "margin"\nwithin = 2\n'
    (tmp_path / "a.toml").write_text(question)
    (tmp_path / "my.py").write_text(RIGHT)
    (tmp_path / "empty").mkdir()
    done = python(built, "-m", "regard", "grade", "my.py", "--public", "--assignment", "a.toml", cwd=tmp_path)
    assert "1: public checks passed" in done.stdout, done.stderr
    assert "1, how near it is to the best: not checked here" in done.stdout
    nothing = python(built, "-m", "regard", "grade", "empty", "--assignment", "a.toml", cwd=tmp_path)
    assert (nothing.returncode, "empty has 0 submissions" in nothing.stderr) == (2, True), nothing.stderr


@pytest.mark.slow
def test_it_lists_what_it_checks(built, tmp_path) -> None:
    done = python(built, "-m", "regard", "claims", cwd=tmp_path)
    assert "average-of-two: query(keys, a, b, eps)\n" in done.stdout, done.stderr
    assert len(done.stdout.splitlines()) == len(claims)


def test_nothing_in_it_is_ours_alone(built) -> None:
    """Every file comes from the package, or is written by the tool."""
    own = {"__init__.py", "__main__.py", "cli/__init__.py", "mistakes/__init__.py", "tracing/__init__.py"}
    for path in Path(built / "regard").rglob("*.py"):
        name = path.relative_to(built / "regard").as_posix()
        assert name in own or (student.HOME / name).is_file(), name

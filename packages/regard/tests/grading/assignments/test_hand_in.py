"""One zip to hand in: what is in it, what is missing, the same bytes again, and nothing overwritten."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from regard.errors import InputError
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.assignments.template import hand_in, write_template
from regard.grading.submissions.submission import read_submissions

ASSIGNMENT = """
name = "hw"
[[question]]
id = "1"
claim = "average-of-two"
function = "query"
[[question]]
id = "2"
text = "Why?"
checklist = ["says why"]
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "hw.toml").write_text(ASSIGNMENT)
    return folder


def test_an_untouched_template_has_nothing_in_it(mine: Path) -> None:
    assignment = read_assignment(mine / "hw.toml")
    write_template(assignment, mine)
    found = hand_in(assignment, str(mine), str(mine / "all.zip"))
    assert found.files == ("hw.ipynb", "hw.py")
    assert found.missing == (
        "1: query is not filled in, in hw.ipynb; leave a file out that you do not use",
        "2: no words; write them below 'Your answer to 2:', or add written.pdf",
    )
    assert not found.answer
    assert "hw.toml: not a file that is graded" in found.left_out
    with pytest.raises(InputError, match=r"all\.zip exists and is not overwritten"):
        hand_in(assignment, str(mine), str(mine / "all.zip"))


@pytest.mark.parametrize("words", ["the .py", "a text file", "a PDF"])
def test_what_is_there_is_packed_the_same_way_each_time(mine: Path, words: str, tmp_path: Path) -> None:
    assignment = read_assignment(mine / "hw.toml")
    (mine / "sub").mkdir()
    code = "def query(keys, a, b, eps):\n    return 9 * (keys[a] + keys[b])\n"
    (mine / "sub" / "b.py").write_text(code + ("# Your answer to 2:\n# Because.\n" if words == "the .py" else ""))
    if words == "a text file":
        (mine / "words.md").write_text("## 2\nBecause.\n")
    if words == "a PDF":
        (mine / "written.pdf").write_bytes(b"%PDF-1.4")
    (mine / ".hidden.py").write_text("secret = 1")
    (mine / "data.csv").write_text("1,2")
    first = hand_in(assignment, str(mine), str(mine / "one.zip"))
    assert first.answer, str(first)
    (mine / "sub" / "b.py").touch()
    second = hand_in(assignment, str(mine), str(mine / "two.zip"))  # the first zip lies there, and is left out
    assert (mine / "one.zip").read_bytes() == (mine / "two.zip").read_bytes()
    assert first.files == second.files == tuple(sorted(zipfile.ZipFile(mine / "one.zip").namelist()))
    (tmp_path / "pile").mkdir()
    (mine / "one.zip").rename(tmp_path / "pile" / "ada.zip")
    (read,) = read_submissions([str(tmp_path / "pile" / "ada.zip")])
    assert read.digest == read_submissions([str(tmp_path / "pile")])[0].digest
    assert (read.student, len(read.files)) == ("ada", len(first.files))
    assert read.code("query")[1].decode().startswith(code)


def test_a_class_that_is_not_filled_in_and_a_report_that_is_a_page(mine: Path, regard, monkeypatch) -> None:
    monkeypatch.chdir(mine)
    (mine / "hw.toml").write_text('[[question]]\nid = "2"\nclaim = "translator"\nfunction = "TransformerTranslator"\n')
    assert regard("claims", "translator", "--template", "mine.py")[0] == 0
    (mine / "report.html").write_text("<p>")
    found = hand_in(read_assignment(mine / "hw.toml"), ".", "all.zip")
    assert found.missing == (
        "2: TransformerTranslator is not filled in, in mine.py; leave a file out that you do not use",
    )
    assert "report.html: not a file that is graded; a report counts as a PDF" in str(found)


def test_what_cannot_be_packed(mine: Path, tmp_path: Path) -> None:
    assignment = read_assignment(mine / "hw.toml")
    with pytest.raises(InputError, match="has nothing to hand in"):
        hand_in(assignment, str(mine), str(tmp_path / "a.zip"))
    with pytest.raises(InputError, match="is no folder"):
        hand_in(assignment, str(mine / "hw.toml"), str(tmp_path / "a.zip"))
    with pytest.raises(InputError, match=r"must end in \.zip"):
        hand_in(assignment, str(mine), str(tmp_path / "a.tar"))
    (mine / "b.py").write_text("def other(): pass\n")
    assert hand_in(assignment, str(mine), str(tmp_path / "a.zip")).missing[0] == "1: no query in b.py"


def test_the_command(mine: Path, regard, monkeypatch) -> None:
    monkeypatch.chdir(mine)
    (mine / "b.py").write_text("query = lambda keys, a, b, eps: 9 * (keys[a] + keys[b])\n")
    code, out, _ = regard("assignment", "hand-in", "hw.toml")
    assert (code, "2: no words" in out, Path("hw-hand-in.zip").exists()) == (1, True, True)
    assert regard("assignment", "hand-in", "hw.toml")[0] == 2

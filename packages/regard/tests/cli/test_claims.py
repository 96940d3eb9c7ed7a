"""``regard claims`` on the command line: the same answers, the right exit codes, one sentence for a bad question."""

from __future__ import annotations

import io
import json
from functools import partial
from pathlib import Path

import pytest


@pytest.fixture
def claims(regard):
    return partial(regard, "claims")


def test_the_list(claims) -> None:
    code, out, _ = claims()
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    assert (code, len(lines)) == (0, 27)
    assert all(len(line) <= 100 for line in lines)
    code, out, _ = claims("--json")
    assert (code, len(json.loads(out)["claims"])) == (0, 27)


def test_one_claim(claims) -> None:
    code, out, _ = claims("average-within-budget")
    assert code == 0
    assert "attention-position-svd, Attention (b)" in out
    assert "eps = 0.01: how much the rest may get" in out
    assert json.loads(claims("average-within-budget", "--json")[1])["sources"][0]["set"] == "attention-position-svd"


def test_verdicts_and_exit_codes(claims) -> None:
    code, out, _ = claims("average-within-budget", "--check", "--set", "n=1000", "--set", "eps=0.01")
    assert code == 0
    assert "average-within-budget: HOLDS (with n = 1000, eps = 0.01" in out
    code, out, _ = claims("the-bisector", "--check")
    assert code == 1
    assert "Corrected: " in out
    code, out, _ = claims("the-bisector", "--check", "--json")
    assert code == 1
    assert json.loads(out)["status"] == "REFUTED"
    assert claims("heads-summary", "--check")[0] == 0
    assert claims("two-heads-two-point-noise", "--check")[0] == 1
    assert claims("two-heads-two-point-noise", "--check", "--set", "eps=0.001")[0] == 0


def test_proof(claims) -> None:
    code, out, _ = claims("average-within-budget", "--proof", "--set", "n=50")
    assert code == 0
    assert "n = 50, ε = 0.01: the budget is 24.0903" in out
    assert "proof" in json.loads(claims("the-bisector", "--check", "--proof", "--json")[1])
    code, out, _ = claims("the-bisector", "--check", "--proof")
    assert code == 1
    assert "the-bisector, proof" in out


@pytest.mark.slow
def test_everything_checked(claims) -> None:
    code, out, _ = claims("--check")
    assert code == 0
    assert "27 claims, each by its first reading: 21 HOLDS, 3 REFUTED, 1 EXPLAINED, 2 MEASURED." in out


def test_by_problem_set(claims, tmp_path: Path) -> None:
    code, out, _ = claims("cse151b-hw4")
    assert code == 0
    assert out.startswith("cse151b-hw4: UCSD CSE 151B/251B, Homework 4 (June 2025)\n  1A.i ")
    code, out, _ = claims("cse151b-hw4", "1B.ii")
    assert code == 0
    assert "\n\none-head-swings\n" in out
    assert out.count("[ ]") == 4
    said = json.loads(claims("cs224n", "1-4", "--json")[1])
    assert (said["set"], said["term"]) == ("cs224n-w25-a4", "winter 2025")
    assert [one["label"] for one in said["questions"]] == ["1-4i", "1-4ii"]
    assert set(said["questions"][0]["checklist"][0]) == {"text", "points"}  # keys come with --proof
    assert claims("attention", "svd", "a")[1].startswith("attention-position-svd, SVD (a): ")


@pytest.mark.slow
def test_the_exit_code_is_that_of_the_set(claims) -> None:
    assert claims("cs224n-w25-a4", "1-4ii", "--check")[0] == 1
    code, out, _ = claims("self-attention-written", "d.ii", "--check")
    assert code == 0
    assert "two-heads-steady: HOLDS for self-attention-written" in out
    code, out, _ = claims("cs224n", "1-4ii", "--check", "--json")
    assert code == 1
    assert json.loads(out)["questions"][0]["claims"][0]["asked"] == "cs224n-w25-a4"
    code, out, _ = claims("cs224n", "1-4ii", "--check", "--proof")
    assert code == 1
    assert "two-heads-steady, proof" in out
    assert "k_a·μ_a < 0 in 7.9 % of the draws at every T" in out
    assert claims("sequence", "figure", "--check", "--set", "d=2")[0] == 1


@pytest.mark.slow
def test_questions_that_are_named_are_opened(claims) -> None:
    """A beginning of several opens all of them; what two of them share is shown once."""
    for words, labels in (
        (("self-attention-written", "c"), ["(c)", "(c)i", "(c)ii"]),
        (("cse", "2"), ["2", "2A", "2B"]),
    ):
        code, out, _ = claims(*words)
        assert code == 0
        assert [
            line.partition(" contains")[0].rpartition(", ")[2] for line in out.splitlines() if "contains (" in line
        ] == labels
    assert out.count("\ntranslator: as above\n") == 1


def test_an_answer_in_words_is_marked_point_by_point(claims, tmp_path: Path, monkeypatch) -> None:
    mine = tmp_path / "mine.txt"
    typed = ["It is copied.", "The others are ignored.", "", "y", "perhaps", "n"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(typed) + "\n"))
    code, out, err = claims("cse151b-hw4", "1A.iv", "--words", str(mine))
    assert (code, mine.read_text()) == (1, "It is copied.\nThe others are ignored.\n")
    assert "1 of 2 points, as you marked it." in out
    assert "type your answer now" in err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    assert claims("cse151b-hw4", "1A.iv", "--words", str(mine))[0] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    code, _, err = claims("cse151b-hw4", "1A.iv", "--words", str(mine))
    assert (code, "marked up to item 1 of 2" in err) == (3, True)
    for words, said in (
        (("cse", "1A"), "An answer in words is for one question"),
        (("copying-output",), "--words is about"),
    ):
        code, _, err = claims(*words, "--words", str(mine))
        assert (code, said in err) == (2, True)


def test_a_question_of_a_set_has_a_template_and_a_picture(claims, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = claims("cse151b-hw4", "1A.ii", "--template", "mine.py")
    assert code == 0
    assert "regard claims copying-condition --answer mine.py:margin" in out
    assert claims("cse151b-hw4", "1A.ii", "--template")[0] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copying_condition.py", "mine.py"]
    assert claims("cse151b-hw4", "1A.ii", "--plot", "x.svg")[0] == 0
    assert (tmp_path / "x.svg").exists()


def test_picture(claims, tmp_path: Path) -> None:
    picture = tmp_path / "bisector.png"
    assert claims("the-bisector", "--plot", str(picture))[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["averge-of-two"], "There is no claim 'averge-of-two'; did you mean average-of-two"),
        (["the-bisector", "--set", "n=1"], "n, how many keys, must be a whole number with 2 <= n <= 1e+09; 1 is not."),
        (["the-bisector", "--set", "k=1"], "the-bisector has no parameter 'k'; it has n, eps."),
        (["the-bisector", "--set", "n"], "--set 'n' must be a name and a number, as in --set n=1000."),
        (["the-bisector", "--set", "n="], "must be a name and a number"),
        (["cse151-hw4"], "There is no claim 'cse151-hw4'; did you mean cse151b-hw4?"),
        (["cse151b-hw4", "1C"], "cse151b-hw4 has no question '1C'. Did you mean 1B.i or 1A.i? It has 1A.i, 1A.ii"),
        (["cs", "1"], "'cs' begins the names of cs224n-w25-a4 and cse151b-hw4: write more of the one you mean."),
        (["cse", "1A", "--template"], "--template needs one claim, but cse151b-hw4, 1A.i, 1A.ii"),
        (["cse", "1A", "--set", "n=3"], "--set needs one claim, but cse151b-hw4, 1A.i, 1A.ii"),
        (["cs224n", "1-5", "--answer", "x.py:f"], "cs224n-w25-a4, 1-5 asks for words"),
        (["the-bisector", "1B"], "'1B' is one word too many: only the file for --template may follow a claim"),
        ([""], "There is no claim ''"),
        (["--proof"], "--proof, --plot and --set are about one claim"),
        (["--check", "--set", "n=3"], "are about one claim"),
        (["the-bisector", "--plot", "x.doc"], "the name must end in .svg, .png or .pdf"),
        (["the-bisector", "--plot", "nowhere/x.svg"], "there is no directory 'nowhere'"),
    ],
)
def test_what_cannot_be_asked(claims, words: list[str], message: str) -> None:
    code, out, err = claims(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_bad_parameters_write_no_picture(claims, tmp_path: Path) -> None:
    assert claims("the-bisector", "--plot", str(tmp_path / "x.svg"), "--set", "eps=2")[0] == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["1_0", "9" * 400, "1e400", "ten"])
def test_what_is_no_number_is_refused_shortly(claims, value: str) -> None:
    """Python reads 1_0 as ten; nobody who writes it means that for sure."""
    code, _, err = claims("average-within-budget", "--check", "--set", f"n={value}")
    assert code == 2
    assert "must be a whole number with 2 <= n" in err
    assert len(err) < 250

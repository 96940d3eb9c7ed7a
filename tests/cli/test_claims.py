"""``regard claims`` on the command line: the same answers, the right exit codes, one sentence for a bad question."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from regard.cli import main


@pytest.fixture
def regard(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", "claims", *words])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run


def test_the_list(regard) -> None:
    code, out, _ = regard()
    lines = [line for line in out.splitlines() if line.startswith("  ")]
    assert (code, len(lines)) == (0, 27)
    assert all(len(line) <= 100 for line in lines)
    code, out, _ = regard("--json")
    assert (code, len(json.loads(out)["claims"])) == (0, 27)


def test_one_claim(regard) -> None:
    code, out, _ = regard("average-within-budget")
    assert code == 0
    assert "attention-position-svd, Attention (b)" in out
    assert "eps = 0.01: how much the rest may get" in out
    assert json.loads(regard("average-within-budget", "--json")[1])["sources"][0]["set"] == "attention-position-svd"


def test_verdicts_and_exit_codes(regard) -> None:
    code, out, _ = regard("average-within-budget", "--check", "--set", "n=1000", "--set", "eps=0.01")
    assert code == 0
    assert "average-within-budget: HOLDS (with n = 1000, eps = 0.01" in out
    code, out, _ = regard("the-bisector", "--check")
    assert code == 1
    assert "Corrected: " in out
    code, out, _ = regard("the-bisector", "--check", "--json")
    assert code == 1
    assert json.loads(out)["status"] == "REFUTED"
    assert regard("heads-summary", "--check")[0] == 0
    assert regard("two-heads-two-point-noise", "--check")[0] == 1
    assert regard("two-heads-two-point-noise", "--check", "--set", "eps=0.001")[0] == 0


def test_proof(regard) -> None:
    code, out, _ = regard("average-within-budget", "--proof", "--set", "n=50")
    assert code == 0
    assert "n = 50, ε = 0.01: the budget is 24.0903" in out
    assert "proof" in json.loads(regard("the-bisector", "--check", "--proof", "--json")[1])
    code, out, _ = regard("the-bisector", "--check", "--proof")
    assert code == 1
    assert "the-bisector, proof" in out


def test_everything_checked(regard) -> None:
    code, out, _ = regard("--check")
    assert code == 0
    assert "27 claims, each by its first reading: 21 HOLDS, 3 REFUTED, 1 EXPLAINED, 2 MEASURED." in out


def test_picture(regard, tmp_path: Path) -> None:
    picture = tmp_path / "bisector.png"
    assert regard("the-bisector", "--plot", str(picture))[0] == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["averge-of-two"], "There is no claim 'averge-of-two'; did you mean average-of-two"),
        (["the-bisector", "--set", "n=1"], "n, how many keys, must be a whole number with 2 <= n <= 1e+09; 1 is not."),
        (["the-bisector", "--set", "k=1"], "the-bisector has no parameter 'k'; it has n, eps."),
        (["the-bisector", "--set", "n"], "--set 'n' must be a name and a number, as in --set n=1000."),
        (["the-bisector", "--set", "n="], "must be a name and a number"),
        (["--proof"], "--proof, --plot and --set are about one claim"),
        (["--check", "--set", "n=3"], "are about one claim"),
        (["the-bisector", "--plot", "x.doc"], "the name must end in .svg, .png or .pdf"),
        (["the-bisector", "--plot", "nowhere/x.svg"], "there is no directory 'nowhere'"),
    ],
)
def test_what_cannot_be_asked(regard, words: list[str], message: str) -> None:
    code, out, err = regard(*words)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_bad_parameters_write_no_picture(regard, tmp_path: Path) -> None:
    assert regard("the-bisector", "--plot", str(tmp_path / "x.svg"), "--set", "eps=2")[0] == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", ["1_0", "9" * 400, "1e400", "ten"])
def test_what_is_no_number_is_refused_shortly(regard, value: str) -> None:
    """Python reads 1_0 as ten; nobody who writes it means that for sure."""
    code, _, err = regard("average-within-budget", "--check", "--set", f"n={value}")
    assert code == 2
    assert "must be a whole number with 2 <= n" in err
    assert len(err) < 250

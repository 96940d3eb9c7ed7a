"""``regard subspace`` on the command line: the same answers, the right exit codes, nothing written on failure."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture
def extract(regard):
    return partial(regard, "subspace", "extract")


def test_yes_writes_the_matrix(extract, tmp_path: Path) -> None:
    code, out, err = extract("1; 0", "1; 1", "--out", str(tmp_path / "M.npy"), "--plot", str(tmp_path / "p.svg"))
    assert (code, err) == (0, "")
    assert "Yes: M recovers v_a" in out
    assert np.load(tmp_path / "M.npy").tolist() == [[1, -1], [0, 0]]
    assert (tmp_path / "p.svg").exists()


def test_rows_and_json(extract) -> None:
    code, out, _ = extract("--rows", "1,0", "1,1", "--json")
    assert code == 0
    assert json.loads(out)["matrix"] == [[1, -1], [0, 0]]


def test_one_row_is_one_vector_unless_it_is_said_otherwise(extract) -> None:
    code, out, err = extract("1,0,0", "0,1,0")
    assert code == 0
    assert "read A as 1 vector of 3 numbers and B as 1 vector of 3 numbers, one per row (--columns if" in err
    assert out.startswith("Yes: M recovers v_a from v_a + v_b.")
    code, out, err = extract("--columns", "1,0,0", "0,1,0", "--details")
    assert code == 1
    assert "A spans 1 and B spans 1 of 1 dimensions" in out
    assert err == ""
    code, _, err = extract("1,0; 0,1", "0,1; 1,0")  # square: columns, as in the coursework
    assert code == 1
    assert "one per column" in err


def test_no_is_exit_code_1_and_writes_nothing(extract, tmp_path: Path) -> None:
    code, out, err = extract("1,0; 0,1", "1; 1", "--out", str(tmp_path / "M.npy"))
    assert code == 1
    assert "No: the spans share 1 dimension" in out
    assert err.endswith("note: the answer is no, so there is nothing to write or draw\n")
    assert "read A as 2 vectors of 2 numbers and B as 1 vector of 2 numbers, one per column (--rows if" in err
    assert not list(tmp_path.iterdir())


def test_conversions_are_said(extract, tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", np.array([[1], [0]], np.float16))
    code, _, err = extract(str(tmp_path / "A.npy"), "1; 1")
    assert code == 0
    assert err == "note: A: float16 converted to float64\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["1; 0", "1; 1; 1"], "A's columns have 2 entries and B's have 3"),
        (["1; 0", "nowhere.npy"], "B (nowhere.npy): there is no such file"),
        (["1; nan", "1; 1"], "A (inline): row 1, column 0 (counted from 0) is nan"),
        (["1; 0", "1; 1", "--tolerance", "2"], "tolerance must lie between 0 and 1 but is 2.0"),
        (["1; 0", "1; 1", "--out", "M.xyz"], "the name must end in .npy or .csv"),
        (["1; 0", "1; 1", "--plot", "p.xyz"], "must end in .svg, .png or .pdf"),
        (["1; 0", "1; 1", "--out", "no/M.npy"], "Cannot write 'no/M.npy': there is no directory 'no'."),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(extract, words: list[str], message: str) -> None:
    code, out, err = extract(*words)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert err.startswith("regard: ")


def test_a_bad_picture_name_leaves_the_matrix_unwritten(extract, tmp_path: Path) -> None:
    code, _, _ = extract("1; 0", "1; 1", "--out", str(tmp_path / "M.npy"), "--plot", str(tmp_path / "p.xyz"))
    assert code == 2
    assert not list(tmp_path.iterdir())


def test_could_not_find_out_is_exit_code_3(extract) -> None:
    code, _, err = extract("1; 0", "1; 5e-324")
    assert code == 3
    assert "exceed the range of float64" in err


def test_help_has_an_example_that_works(extract) -> None:
    code, out, _ = extract("--help")
    assert code == 0
    assert 'regard subspace extract "1; 0" "1; 1" --out M.npy' in " ".join(out.split())


def test_standard_input_and_a_light_import() -> None:
    program = (
        "import sys; from regard.cli import main; sys.argv = ['regard', 'subspace', 'extract', '-', '1;1']\n"
        "try:\n main()\nexcept SystemExit as e: print(e.code)\n"
        "print(sorted(m for m in ('torch', 'matplotlib', 'scipy.optimize') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], input=b"1\n0\n", capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[-2:] == ["0", "[]"]
    assert done.stderr == b""

"""``regard noise``: the same answers as from Python, and one sentence for every mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from regard.noise import EXAMPLE, read_model, study


@pytest.fixture
def noise(regard):
    return partial(regard, "noise")


@pytest.mark.slow
def test_the_command_line_says_what_python_says(noise, tmp_path: Path) -> None:
    file = tmp_path / "model.toml"
    file.write_text("orthonormal = 3\nisotropic = 0.1\n")
    np.save(tmp_path / "q.npy", np.eye(2, 3) * 4)
    words = ("study", str(file), "--queries", str(tmp_path / "q.npy"), "--quantiles", "0.1,0.9")
    code, text, _ = noise(*words, "--json", "--plot", str(tmp_path / "p.svg"))
    expected = study(read_model(file), np.eye(2, 3) * 4, quantiles=(0.1, 0.9))
    assert code == 0
    assert json.loads(text)["error"] == expected.error
    assert (tmp_path / "p.svg").read_text().startswith("<?xml")
    code, text, _ = noise(*words)
    assert code == 0
    assert "error bound" in text
    assert "10 %" in text


@pytest.mark.slow
def test_compare_and_example(noise, tmp_path: Path) -> None:
    files = [tmp_path / "a.png", tmp_path / "b.svg"]
    code, text, _ = noise("compare", "--keys", "5", "--plot", str(files[0]), "--plot-keys", str(files[1]))
    assert code == 0
    assert "one head" in text
    assert "P(k₀·μ₀ < 0)" in text
    assert all(file.stat().st_size > 5000 for file in files)
    assert noise("example")[:2] == (0, EXAMPLE)


def test_optimise(noise, tmp_path: Path) -> None:
    words = ("optimise", "--keys", "3", "--heads", "1", "--max-norm", "5", "--starts", "0", "--points", "128")
    out, plot = tmp_path / "q.npy", tmp_path / "q.png"
    code, text, _ = noise(*words, "--out", str(out), "--plot", str(plot))
    assert code == 0
    assert "local optimum" in text
    assert np.load(out).shape == (1, 3)
    assert plot.stat().st_size > 3000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "--keys", "1"), "at least 2 keys, not 1"),
        (("compare", "--spread", "-1"), "a spread's variance must be a number >= 0"),
        (("compare", "--iso", "-1"), "isotropic is a variance"),
        (("compare", "--scale", "0"), "scale must be a positive number, not 0"),
        (("compare", "--share", "2"), "share must lie between 0 and 1"),
        (("optimise", "--heads", "0"), "heads must be at least 1, not 0"),
        (("optimise", "--max-norm", "-2"), "max_norm must be a positive number, not -2"),
        (("optimise", "--keys", "3", "--target", "0;1"), "target must be numbers separated by commas"),
        (("optimise", "--keys", "3", "--target", "0,1_0"), "target must be numbers separated by commas"),
        (("optimise", "--keys", "3", "--starts", "-1"), "starts must be at least 0"),
        (("study", "absent.toml", "--queries", "1,0"), "absent.toml does not exist"),
    ],
)
def test_bad_input_leaves_with_two(noise, words: tuple[str, ...], message: str) -> None:
    code, _, said = noise(*words)
    assert code == 2
    assert message in said


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("compare", ("--plot", "p.nope")),
        ("compare", ("--plot-keys", "none/p.svg")),
        ("study", ("--plot", "none/p.svg")),
        ("optimise", ("--plot", "p.nope")),
        ("optimise", ("--out", "q.txt")),
    ],
)
def test_names_of_files_are_checked_before_the_work(
    noise, monkeypatch: pytest.MonkeyPatch, verb: str, words: tuple[str, str]
) -> None:
    monkeypatch.setattr(f"regard.noise.{verb}", lambda *_, **__: pytest.fail("the work was begun"))
    needed = ("model.toml", "--queries", "1,0") if verb == "study" else ()
    code, _, said = noise(verb, *needed, *words)
    assert code == 2
    assert f"Cannot write '{words[1]}'" in said


@pytest.mark.slow
def test_a_whole_run_prints_one_sentence_and_no_traceback() -> None:
    words = [sys.executable, "-m", "regard", "noise", "compare", "--keys", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr == "regard: The setting needs at least 2 keys, not 0.\n"

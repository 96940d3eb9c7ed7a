"""``regard lowrank``: the same answers as from Python, and one sentence for every mistake."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest

from regard import lowrank

A = np.random.default_rng(0).standard_normal((13, 5))


@pytest.fixture
def run(regard, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    return partial(regard, "lowrank")


@pytest.fixture
def weights(tmp_path):
    from safetensors.numpy import save_file

    tensors = {
        "first": A.astype(np.float32),
        "second": np.eye(3),
        "bias": np.ones(4),
        "indices": np.arange(6).reshape(2, 3),
    }
    save_file(tensors, tmp_path / "w.safetensors")
    return "w.safetensors"


def test_rank(run):
    code, out, _ = run("a.npy", "--rank", "2", "--check")
    assert code == 0
    assert "no matrix of that rank errs less than" in out
    assert "5 of 5 stated intervals are proved" in out


def test_json_is_what_python_says(run):
    code, out, _ = run("a.npy", "--error", "0.5", "--relative", "--norm", "frobenius", "--json")
    found, want = json.loads(out), lowrank.study(A, error=0.5, relative=True, norm="frobenius", name="a.npy")
    assert code == 0
    assert found == json.loads(want.to_json())
    assert found["truncation"]["rank"] == want.smallest.rank


def test_all_the_matrices_of_a_file(run, weights):
    for arguments in ((weights,), (weights, "--all")):
        code, out, err = run(*arguments, "--rank", "4")
        assert code == 0
        assert "first" in out
        assert "(rank beyond its size)" in out
        assert "bias" not in out
        assert "2 of 4 tensors are not matrices" in err


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_is_a_line_among_the_others(run, tmp_path, value):
    from safetensors.numpy import save_file

    bad = np.ones((3, 2), dtype=np.float32)
    bad[2, 1] = value
    save_file({"a": A, "bad": bad, "z": np.eye(3)}, tmp_path / "n.safetensors")
    code, out, _ = run("n.safetensors", "--all", "--rank", "1")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["name", "a", "z", "bad"]
    assert "not finite: row 2, column 1 (from 0)" in out.splitlines()[-1]
    code, out, _ = run("n.safetensors", "--json")
    assert json.loads(out)["not_finite"] == [{"name": "bad", "shape": [3, 2], "first": [2, 1]}]
    save_file({"bad": bad}, tmp_path / "n.safetensors")
    code, out, _ = run("n.safetensors", "--rank", "1")
    assert (code, out.count("not finite")) == (0, 1)


def test_names_of_files_are_checked_before_the_work(run, monkeypatch):
    monkeypatch.setattr(lowrank, "study", lambda *_, **__: pytest.fail("the work was begun"))
    for words in (["--out", "f.txt"], ["--plot", "f.gif"], ["--plot", "none/f.svg"]):
        code, _, err = run("a.npy", "--rank", "1", *words)
        assert (code, "Cannot write" in err) == (2, True)
    assert "--out saves the factors" in run("a.npy", "--out", "f.npz")[2]


def test_one_tensor_by_name_and_out(run, weights):
    code, _, err = run(f"{weights}:first", "--rank", "2", "--out", "f.npz")
    assert code == 0
    assert "float32 converted to float64" in err
    with np.load("f.npz") as saved:
        error = np.linalg.norm(A.astype(np.float32) - saved["left"] @ saved["right"].T, 2)
    assert error == pytest.approx(np.linalg.svd(A.astype(np.float32), compute_uv=False)[2], rel=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_product_and_inputs(run, transposed):
    w = np.random.default_rng(1).standard_normal((7, 3))
    np.save("q.npy", w.T if transposed else w)
    np.save("k.npy", (2 * w).T if transposed else 2 * w)
    np.save("x.npy", np.random.default_rng(2).standard_normal((5, 7)))
    flags = ["--transposed"] if transposed else []
    code, out, _ = run("--product", "q.npy", "k.npy", *flags, "--rank", "2", "--inputs", "x.npy", "--check")
    assert code == 0
    assert "A Bᵀ: 7 x 7" in out
    assert f"scale {3**-0.5:.6g}" in out
    assert "3 of 3 stated intervals" in out


def test_randomised_with_a_saved_cut(run):
    code, out, _ = run("a.npy", "--randomised", "--rank", "2", "--seed", "3", "--out", "f.safetensors")
    assert code == 0
    assert out.count("false with probability at most 1e-10") == 2  # what is left out, and the cut
    assert "no matrix of that rank errs less than" in out


def test_a_sketch_is_checked_too(run, monkeypatch):
    sketched = ("a.npy", "--randomised", "--rank", "2", "--check", "--json")
    code, out, _ = run(*sketched)
    found = json.loads(out)
    assert code == 0
    assert found["checked"]["measured"][0] <= found["checked"]["stated"] == found["spectrum"]["residual"]
    monkeypatch.setattr(lowrank.Sketch, "check", lambda *_, **__: lowrank.SketchCheck(measured=(2.0, 3.0), stated=1.0))
    code, out, _ = run(*sketched)
    assert (code, json.loads(out)["checked"]["stated"]) == (1, 1.0)


@pytest.mark.slow
def test_plot(run, tmp_path):
    assert run("a.npy", "--rank", "2", "--plot", "s.svg")[0] == 0
    assert (tmp_path / "s.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.npy", "--rank", "0"], "rank must be a whole number from 1 to 5 for a.npy, not 0"),
        (["a.npy", "--rank", "6"], "rank must be a whole number from 1 to 5 for a.npy, not 6"),
        (["a.npy", "--error", "-1"], "error must be a finite number, 0 or more"),
        (["a.npy", "--error", "nan"], "'nan' is not a number"),
        (["a.npy", "--error", "1", "--norm", "max"], "norm must be 'spectral' or 'frobenius'"),
        (["a.npy", "--rank", "1", "--error", "1"], "a rank or an error, not both"),
        (["a.npy", "--tolerance", "0"], "tolerance must be a positive number"),
        (["1,nan; 2,3"], "is nan"),
        (["none.npy"], "there is no such file"),
        ([], "Give one matrix, or --product A B"),
        (["a.npy", "--product", "a.npy", "a.npy"], "Give one matrix, or --product A B"),
        (["--product", "a.npy", "1,2; 3,4"], "equally many columns"),
        (["w.safetensors:nobody"], "nobody"),
        (["w.safetensors", "--rank", "0"], "rank must be a whole number of at least 1"),
        (["w.safetensors", "--rank", "9"], "rank must be a whole number from 1 to 5 for these matrices"),
        (["w.safetensors", "--error", "1"], "goes with --rank alone"),
        (["a.npy", "--all"], "--all reads .safetensors files"),
        (["other.safetensors"], "there is no such file"),
        (["bad.safetensors"], "has a damaged .safetensors header"),
        (["a.npy", "--out", "f.npz"], "--out saves the factors of a cut"),
        (["a.npy", "--rank", "1", "--out", "f.csv"], "must end in .safetensors or .npz"),
        (["a.npy", "--rank", "1", "--out", "none/f.npz"], "none/f.npz"),
        (["a.npy", "--rank", "1", "--out", "none/f.safetensors"], "none/f.safetensors"),
        (["a.npy", "--rank", "1", "--plot", "f.gif"], "must end in .svg, .png or .pdf"),
        (["a.npy", "--plot", "none/f.svg"], "there is no directory 'none'"),
        (["a.npy", "--rank", "1", "--inputs", "1,2; 3,4"], "need rows of 13 and 5 numbers"),
        (["a.npy", "--randomised"], "--randomised needs a MATRIX and --rank"),
        (["a.npy", "--transposed"], "--transposed does nothing without --product"),
        (["a.npy", "--norm", "spectral"], "--norm does nothing without --error"),
        (["a.npy", "--rank", "1", "--relative"], "--relative does nothing without --error"),
        (["a.npy", "--rank", "1", "--scale", "2"], "--scale does nothing without --inputs"),
        (["a.npy", "--rank", "1", "--seed", "0"], "--seed does nothing without --randomised"),
        (["a.npy", "--rank", "1", "--passes", "2"], "--passes does nothing without --randomised"),
        (["--product", "a.npy", "a.npy", "--tolerance", "1e-8"], "--tolerance does nothing with --product"),
        (["a.npy", "--randomised", "--rank", "1", "--tolerance", "1"], "--tolerance does nothing with --randomised"),
        (["w.safetensors", "--tolerance", "1"], "goes with --rank alone"),
        (["a.npy", "--randomised", "--rank", "6"], "rank must be a whole number from 1 to 5"),
        (["a.npy", "--randomised", "--rank", "2", "--passes", "1"], "passes must be a whole number of at least 2"),
    ],
)
def test_every_mistake_is_one_sentence_and_exit_2(run, weights, tmp_path, arguments, message):
    (tmp_path / "bad.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0not json at all!")
    code, out, err = run(*arguments)
    assert code == 2, err
    assert out == ""
    assert message in err
    assert len([line for line in err.splitlines() if line.startswith("regard:")]) == 1
    assert "Traceback" not in err


def test_could_not_find_out_is_3(run):
    assert run("a.npy", "--randomised", "--rank", "1", "--error", "1e-9")[0] == 0  # all 5 columns are in the sketch
    np.save("b.npy", np.eye(40))
    code, _, err = run("b.npy", "--randomised", "--rank", "1", "--error", "1e-9")
    assert code == 3
    assert "use a larger sketch" in err


def test_help_has_an_example(run):
    code, out, _ = run("--help")
    assert code == 0
    assert 'regard lowrank "3,0; 0,2; 0,0" --rank 1' in out


def test_the_end_of_a_stage_is_shown_once(monkeypatch, capsys):
    from regard.cli.output import Progress

    progress = Progress("rows")
    monkeypatch.setattr(progress, "start", progress.start - 3)
    for done in (1, 2, 2):
        progress(done, 2)
    assert capsys.readouterr().err.splitlines() == ["rows: 1 of 2, about 3 s left ", "rows: 2 of 2 "]

"""``regard model heads`` from the outside."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from regard.errors import InputError


@pytest.fixture
def folder(folder):
    weights = np.tile(np.eye(4)[[3, 0, 1, 2]], (2, 3, 1, 1))  # every head reads the previous token, the first the last
    np.savez(folder / "w.npz", weights=weights, tokens=["a", "b", "a", "b"])
    return folder


def test_a_model_with_everything(run, folder):
    pytest.importorskip("torch", reason="models need torch")
    done = run("heads", "my.py:build", "--all", "--csv", "h.csv", "--figure", "h.svg", "--measure", "ablation")
    assert done.exit_code == 0
    assert (
        "my.py:build: none of 2 heads follows a pattern clearly; 2 broad. Layers 0, queries x keys 5 x 5."
        in done.output
    )
    assert "put into eval mode" in done.output
    assert "Attention is not explanation" in done.output
    assert "proved, and proved again by separate code" in done.output
    rows = list(csv.DictReader((folder / "h.csv").read_text().splitlines()))
    assert [row["head"] for row in rows] == ["0", "1"]
    assert (folder / "h.svg").read_text().count("<svg") == 1


def test_weights_as_json(run, folder):
    facts = json.loads(run("heads", "w.npz", "--json", "--layers", "1", "--heads", "0,2").stdout)
    assert [(row["layer"], row["head"], row["pattern"]) for row in facts["heads"]] == [
        (1, 0, "previous"), (1, 2, "previous"),
    ]  # fmt: skip
    assert facts["heads"][0]["previous"] == 1.0
    assert facts["not_applicable"]["swing"] == "needs keys"
    assert facts["tokens"] == ["a", "b", "a", "b"]


def test_a_capture_goes_in_again(run, folder):
    pytest.importorskip("torch", reason="models need torch")
    assert run("capture", "my.py:build", "--keep-qkv", "--out", "c.safetensors").exit_code == 0
    facts = json.loads(run("heads", "c.safetensors", "--json", "--ceilings").stdout)
    assert facts["heads"][0]["adds"] > 0
    assert facts["ceilings"][0]["verified"] is True


def test_weights_need_no_torch(folder):
    """The command on a file runs where torch cannot be imported."""
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "regard", "model", "heads", "w.npz"], capture_output=True, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "previous" in done.stdout


REFUSED = [
    (["w.npz", "--layers", "2"], "There is no layer 2 in this capture; it has layers 0 to 1."),
    (["w.npz", "--heads", "3"], "Layer 0 has no head 3 here; it has 0 to 2."),
    (["w.npz", "--example", "1"], "There is no example 1; the batch has 1, counted from 0."),
    (["w.npz", "--text", "hello"], "--text needs a model to read it"),
    (["w.npz", "--tokens", "a b"], "tokens must be one word for each of the 4 keys, but a list of 2 came."),
    (["w.npz", "--measure", "entropy"], "--measure does nothing without --figure"),
    (["w.npz", "--cut", "3"], "--cut does nothing without --rank"),
    (["w.npz", "--eps", "0"], "eps is 0; it must lie between 0 and 1"),
    (["w.npz", "--csv", "h.txt"], "the name must end in .csv"),
    (["w.npz", "--figure", "h.gif"], "the name must end in"),
    (["w.npz", "--figure", "h.svg", "--measure", "adds"], "There is no measure 'adds' here"),
    (["none.npy"], "there is no such file"),
]
REFUSED_MODELS = [
    (["my.py:nothing"], "No attention ran inside my.py:nothing"),
    (["my.py:spoiled"], "the weight attn.in_proj_weight holds NaN or infinity"),
    (["my.py:overflowing"], "has weights that are NaN or infinite"),
    (["my.py:build", "--layers", "1"], "There is no layer 1 in this capture"),
    (["my.py:build", "--tokens", "a b"], "--tokens belongs to weights from a file"),
    (["my.py:build", "--text", "a"], "has no tokenizer"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED)
def test_refusals(run, folder, words, message):
    with pytest.raises(InputError) as raised:
        run("heads", *words)
    assert message in str(raised.value)
    assert not list(folder.glob("h.*"))


@pytest.mark.parametrize(("words", "message"), REFUSED_MODELS)
def test_refusals_of_models(run, folder, words, message):
    pytest.importorskip("torch", reason="models need torch")
    with pytest.raises(InputError) as raised:
        run("heads", *words)
    assert message in str(raised.value)


def test_the_real_mini_lm(run, minilm):
    """What docs/models-heads.md says of it, on another text: one clean head for the previous token, many that rest."""
    text = "The dog bit the man, and the man bit the dog."
    rows = json.loads(run("heads", minilm, "--text", text, "--json").stdout)["heads"]
    assert len(rows) == 72
    found = {(row["layer"], row["head"]): row for row in rows}
    assert found[0, 2]["pattern"] == "previous"
    assert found[0, 2]["previous"] > 0.99
    assert found[0, 2]["copying"] > 0.9
    resting = [row for row in rows if row["pattern"] == "first"]
    assert len(resting) > 20
    assert np.mean([row["elsewhere"] for row in resting]) > 0.3

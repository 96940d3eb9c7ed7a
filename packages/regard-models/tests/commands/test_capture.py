"""``regard model capture`` and ``regard model patch`` from the outside."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from regard.errors import InputError  # noqa: E402
from regard_models import Capture  # noqa: E402
from small_model import MODEL  # noqa: E402


@pytest.mark.slow
def test_capture_to_a_file(run, folder):
    done = run("capture", "my.py:build", "--verify", "--keep-qkv", "--heads", "1", "--out", "w.safetensors")
    assert done.exit_code == 0
    assert "my.py:build: 1 attention layer. W V = output everywhere" in done.output
    assert "The identity probe passed for 1 record." in done.output
    assert "put into eval mode" in done.output
    read = Capture.read("w.safetensors")
    assert read.records[0].heads == (1,)
    assert read.records[0].q.shape == (1, 1, 5, 4)


SPEAKS = (
    MODEL
    + """

class Speaks(torch.nn.Module):
    calls, sleeps = 0, False

    def __init__(self):
        super().__init__()
        self.inside, self.inputs = build()

    def forward(self, *inputs):
        print("I am running")
        self.calls += 1
        if self.sleeps and self.calls > 1:
            time.sleep(600)
        return self.inside(*inputs)


def speaks():
    model = Speaks()
    return model, model.inputs


def sleeps():
    Speaks.sleeps = True
    return speaks()
"""
)


@pytest.mark.parametrize("words", [["audit"], ["capture"], ["heads"], ["patch", "--ablate", "zero"]])
def test_what_a_model_prints_is_not_in_the_answer(run, folder, words):
    (folder / "speaks.py").write_text("import time\n" + SPEAKS)
    done = run(words[0], "speaks.py:speaks", *words[1:], *(["--property", "batch"] * (words == ["audit"])), "--json")
    assert json.loads(done.stdout)["name"] == "speaks.py:speaks"
    assert "I am running" in done.stderr


def test_a_forward_that_does_not_end_is_ended(run, folder, monkeypatch):
    (folder / "speaks.py").write_text("import time\n" + SPEAKS)
    monkeypatch.setattr("regard_models.commands.options._WORK", 1 / 40)
    with pytest.raises(InputError, match=r"speaks.py:sleeps, at work, was stopped: it took more than 0.5 s"):
        run("capture", "speaks.py:sleeps", "--limit", "20", "--out", "w.safetensors")
    assert sorted(path.name for path in folder.iterdir() if path.is_file()) == ["my.py", "speaks.py"]


def test_capture_as_json(run, folder):
    done = run("capture", "my.py:build", "--json", "--train")
    facts = json.loads(done.stdout)
    assert facts["records"][0]["shape"] == [1, 2, 5, 5]
    assert facts["sound"] is True
    assert "eval mode" not in done.output


@pytest.mark.slow
def test_ablation_with_everything(run, folder):
    done = run("patch", "my.py:build", "--ablate", "uniform", "--csv", "e.csv", "--plot", "e.svg", "--layers", "0")
    assert done.exit_code == 0
    assert (folder / "e.csv").read_text().startswith('layer,module,head,effect\n0,"attn",0,')
    assert (folder / "e.svg").read_text().count("<svg") == 1


REFUSED = [
    (["capture", "my.py:nothing"], "No attention ran inside my.py:nothing"),
    (["capture", "my.py:build", "--layers", "1"], "There is no layer 1: 1 attention layers ran"),
    (["capture", "my.py:build", "--heads", "2"], "Layer 0 has no head 2; it has 2"),
    (["capture", "my.py:build", "--layers", "5-3"], "--layers '5-3' is not understood at '5-3'"),
    (["capture", "my.py:build", "--heads", "attn"], "--heads 'attn' is not understood"),
    (["capture", "my.py:build", "--out", "w.npy"], "the name must end in .safetensors"),
    (["capture", "my.py:build", "--out", "no/w.safetensors"], "there is no directory"),
    (["capture", "my.py:build", "--generate", "3"], "cannot write: it has no method generate"),
    (["capture", "my.py:build", "--text", "a"], "has no tokenizer"),
    (["patch", "my.py:build"], "Give --against TEXT to exchange heads, or --ablate"),
    (["patch", "my.py:build", "--ablate", "noise"], "--ablate is 'noise'; it must be zero, mean or uniform."),
    (["patch", "my.py:build", "--against", "a"], "--against does nothing without --text"),
    (["patch", "my.py:build", "--ablate", "zero", "--what", "output"], "--what does nothing without --against"),
    (["patch", "my.py:build", "--ablate", "zero", "--over", "b"], "--over does nothing without --token"),
    (["patch", "my.py:build", "--ablate", "zero", "--token", "b"], "--token does nothing without --text"),
    (["patch", "my.py:build", "--ablate", "zero", "--csv", "e.txt"], "the name must end in .csv"),
    (["patch", "my.py:build", "--ablate", "zero", "--layers", "attn"], "--layers 'attn' is not understood"),
]


@pytest.mark.parametrize(("words", "message"), REFUSED, ids=[" ".join(words[1:]) for words, _ in REFUSED])
def test_refusals(run, words, message, folder):
    with pytest.raises(InputError) as refused:
        run(*words)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert {path.name for path in folder.iterdir()} <= {"my.py", "__pycache__"}


def test_what_has_no_weights_could_not_be_found_out(run, folder):
    from regard.errors import CouldNotFindOut

    with pytest.raises(CouldNotFindOut, match="which has no weights"):
        run("capture", "my.py:linear")


def test_a_real_model_and_a_text(run, minilm, tmp_path):
    file = tmp_path / "w.safetensors"
    done = run("capture", minilm, "--text", "The dog bit the man.", "--verify", "--out", str(file))
    assert done.exit_code == 0
    read = Capture.read(file)
    assert read.layers == (0, 1, 2, 3, 4, 5)
    assert all(record.verified and record.shape == (1, 12, 8, 8) for record in read.records)
    assert read.tokens == [["[CLS]", "the", "dog", "bit", "the", "man", ".", "[SEP]"]]
    assert read.labels(read.records[0]) == (read.tokens[0], read.tokens[0])


def test_patching_between_two_texts(run, minilm):
    words = ("--text", "The dog bit the man.", "--against", "The man bit the dog.", "--layers", "5", "--json")
    effects = json.loads(run("patch", minilm, *words).stdout)["effects"]
    assert len(effects) == 1
    assert len(effects[0]) == 12
    with pytest.raises(InputError, match="must have as many tokens"):
        run("patch", minilm, "--text", "The dog bit the man.", "--against", "The man.", "--layers", "5")
    with pytest.raises(InputError, match="gives no logit for every place and token"):
        run("patch", minilm, *words, "--token", "dog")

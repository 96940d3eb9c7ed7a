"""`regard translator`: what a person types, what comes back, and with which exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial

import pytest
import torch

from toy_translator import tiny, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs


@pytest.fixture
def translator(regard):
    return partial(regard, "translator")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    data = write_corpus(folder / "toy")
    (folder / "toy.toml").write_text(tiny(data, "epochs=1", "save_every=1000").to_toml())
    return folder


@pytest.fixture(scope="module")
def run(place):
    from regard.translator.runs.settings import load_settings
    from regard.translator.training.loop import train

    train(load_settings(place / "toy.toml"), place / "run")
    return place / "run"


def test_train_writes_a_run_and_refuses_to_do_it_twice(place, monkeypatch, translator):
    monkeypatch.chdir(place)
    command = ["train", "toy.toml", "--data", place / "toy", "--source", "de", "--target", "en", "--set", "seed=3"]
    code, out, err = translator(*command, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["folder"] == "runs/toy"
    assert found["best"]["epoch"] == 1
    assert "epoch 1: validation perplexity" in err
    assert "note: train: 60 pairs, " in err
    assert "note: Leak: " in err
    assert json.loads((place / "runs/toy/run.json").read_text())["command"].startswith(
        "regard translator train toy.toml"
    )
    code, out, err = translator(*command)
    assert (code, out) == (2, "")
    assert err == "regard: The run in runs/toy is finished; score it, or give another --out to train again.\n"


def test_all_mistakes_in_one_go(place, translator):
    code, _, err = translator("train", place / "toy.toml", "--set", "widht=3", "--set", "heads=0")
    assert code == 2
    assert "has 2 mistakes:\n- model.heads must be a whole number of 1 or more, not 0.\n- there is no setting" in err
    assert "'widht'; did you mean" in err


def test_score(run, place, translator):
    code, out, _ = translator("score", run)
    assert code == 0
    assert "Perplexity" in out
    assert "tok:13a" in out
    files = place / "toy" / "val.de", place / "toy" / "val.en"
    code, out, _ = translator("score", run, "--test", *files, "--weights", "last", "--json")
    assert code == 0
    assert json.loads(out)["all"]["pairs"] == 11
    assert json.loads(out)["literature"] is None
    code, out, _ = translator("score", run, "--scoring", "literature")
    assert code == 0
    assert "as in the literature (lower-cased, sacremoses" in out


def test_translate_a_sentence_a_file_and_standard_input(run, place, translator):
    code, one, _ = translator("translate", run, "ein hund sieht")
    assert code == 0
    (place / "in.de").write_text("ein hund sieht\nder mann\n")
    _, file, _ = translator("translate", run, place / "in.de")
    assert file.splitlines()[0] == one.strip()
    _, piped, _ = translator("translate", run, stdin=b"ein hund sieht\nder mann\n")
    assert piped == file
    _, out, _ = translator("translate", run, "der mann", "--json")
    assert json.loads(out)["source"] == ["der mann"]
    assert json.loads(out)["log_probability"][0] < 0
    assert json.loads(out)["doubts"] == []


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (["translate", "RUN", ""], None, "Sentence 1 is empty; give at least one word, or remove the line."),
        (["translate", "RUN", "ein " * 7], None, "Sentence 1 has 7 tokens and this run reads at most 6; shorten it"),
        (["translate", "RUN"], b"ein\n\nhund\n", "Sentence 2 is empty"),
        (["translate", "RUN"], b"", "Standard input is empty; give one sentence on each line."),
        (["translate", "RUN"], b"\xff\n", "Standard input is not UTF-8: the byte at offset 0 is 0xff."),
        (["translate", "RUN", "nowhere.de"], None, "There is no file nowhere.de; give a file that exists"),
        (
            ["translate", "nowhere", "ein"],
            None,
            "There is no run folder nowhere; give the one that train wrote, or example, which is ours.",
        ),
        (["score", "RUN", "--weights", "first"], None, "weights must be best or last, not 'first'."),
        (["score", "RUN", "--test", "a.de", "b.en"], None, "a.de cannot be read: No such file or directory"),
        (["train", "nowhere.toml"], None, "There is no settings file nowhere.toml; give a .toml file or one of:"),
        (["train", "coursework", "--data", "nowhere"], None, "There is no corpus 'nowhere'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, tmp_path, monkeypatch, translator, words, stdin, message):
    monkeypatch.chdir(tmp_path)
    words = [str(run) if w == "RUN" else w for w in words]
    code, out, err = translator(*words, stdin=stdin)
    assert (code, out) == (2, "")
    assert err.startswith(f"regard: {message}")
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["RUN", "RUN", "--source", "de"], "Run folders are compared as they are; --with, --data, --source"),
        (["RUN", "RUN", "--target", "en"], "Run folders are compared as they are; --with, --data, --source"),
        (["good", "--with", "learned", "--beam", "3"], "A beam of 3 is for run folders; embeddings are compared"),
    ],
)
def test_options_of_compare_that_would_be_ignored_are_refused(run, translator, words, message):
    words = [run if word == "RUN" else word for word in words]
    code, out, err = translator("compare", *words)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize("verb", ["train", "compare", "tune"])
def test_help_names_the_deeper_models(translator, verb):
    code, out, _ = translator(verb, "--help")
    assert code == 0
    assert "good" in out


def test_overlong_sentences_can_be_cut(run, translator):
    code, out, err = translator("translate", run, "ein " * 7, "--cut")
    assert code == 0
    assert out
    assert err == "note: 1 of 1 sentences were too long; their beginning was translated.\n"


def test_help_needs_no_torch():
    check = "import sys; sys.argv = ['regard', 'translator', 'train', '--help']\n" + (
        "from regard.cli import main\ntry: main()\nexcept SystemExit: pass\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--set" in done.stdout


OWN = """
import torch
from torch import nn

class Own(nn.Module):
    def __init__(self, source_words, target_words):
        super().__init__()
        self.table = nn.Embedding(source_words, target_words)
    def forward(self, ids):
        return self.table(ids)

def load(source_words, target_words):
    return Own(source_words, target_words)

def smaller(source_words, target_words):
    return Own(source_words, target_words - 1)
"""
COURSE = ["--set", "minimum_frequency=1", "--set", "longest=6"]


def test_a_model_of_ones_own_from_the_file_to_the_report(place, monkeypatch, translator):
    monkeypatch.chdir(place)
    (place / "own.py").write_text(OWN)
    own = ["--model", "own.py:Own"]
    code, out, _ = translator("train", "toy.toml", *own, "--out", "runs/own")
    assert code == 0
    assert "try  regard translator score runs/own --model own.py:Own" in out
    assert translator("score", "runs/own", *own, "--split", "validation")[0] == 0
    assert translator("translate", "runs/own", "der hund", *own)[0] == 0
    assert translator("report", "runs/own", *own, "--out", "own.html")[0] == 0
    code, _, err = translator("score", "runs/own")
    assert code == 2
    assert "opening it runs their code: say --model own.py:Own if you trust that file" in err


def test_a_model_without_a_run(place, monkeypatch, translator):
    monkeypatch.chdir(place)
    (place / "own.py").write_text(OWN)
    there = ["--data", place / "toy", *COURSE]
    code, out, err = translator("score", "--model", "own.py:load", *there, "--json")
    assert code == 0
    assert json.loads(out)["perplexity"]["pairs"] == 13
    assert "own.py:load is scored on the test pairs of toy, with 11 source and 11 target words" in err
    code, _, err = translator("score", "--model", "own.py:smaller", *there)
    assert code == 2
    assert "one for each of the 11 target words" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["score"], "There is nothing to score; give a run folder, or --model my.py:NAME."),
        (["score", "run", "--data", "x"], "run has settings and data of its own; leave --data, --source, --target"),
        (["score", "--model", "gone.py:b"], "gone.py:b: there is no file 'gone.py'"),
        (["score", "run", "--scoring", "paper"], "--scoring is sacrebleu or literature, not 'paper'."),
        (["score", "run", "--split", "dev"], "There is no split 'dev'; give test, validation or train."),
        (["train", "--model", "own"], "'own' must name a file and a function in it"),
        (["train", "--set", "model.kind=own"], "model.kind own is a model of yours: name it with --model FILE.py:NAME"),
        (
            ["train", "--model", "own.py:Own", "--set", "embedding.target=word2vec:train"],
            "embedding.target is 'word2vec:train', which is not for a model of your own",
        ),
        (["score", "run", "--device", "abacus"], "There is no device 'abacus'; give auto, cpu, cuda, cuda:1 or mps."),
        (["train", "--device", "abacus"], "training.device must be auto, cpu, cuda, cuda:1 or mps, not 'abacus'."),
    ],
)
def test_what_an_own_model_cannot_be_asked(run, place, monkeypatch, translator, words, message):
    monkeypatch.chdir(place)
    (place / "own.py").write_text(OWN)
    code, out, err = translator(*words)
    assert (code, out) == (2, "")
    assert message in err

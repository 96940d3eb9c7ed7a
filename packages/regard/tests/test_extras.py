"""What a missing package sounds like, and that every extra we name is one that pyproject.toml declares."""

from __future__ import annotations

import re
import sys
import tomllib

import pytest

from places import ROOT
from regard.cli import main
from regard.demo import demo
from regard.errors import InputError
from regard.extras import EXTRAS, missing_package_error, require
from regard.translator.data.corpus import load_corpus
from regard.translator.data.vectors import train_word2vec
from regard.translator.data.vocabulary import BPEVocabulary
from regard.translator.scoring.scores import literature_bleu
from regard.translator.scoring.significance import bleu


def declared():
    return tomllib.loads((ROOT / "packages/regard/pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]


def test_every_package_is_in_the_extra_that_is_said_to_bring_it():
    distribution = {"sklearn": "scikit-learn", "uplot": "uplot-python"}
    for package, extra in EXTRAS.items():
        assert any(line.startswith(distribution.get(package, package)) for line in declared()[extra]), package


def test_what_is_there_is_not_complained_about():
    assert require("A sum", "numpy", "scipy") is None


def test_two_missing_packages_are_both_named(monkeypatch):
    for name in ("uplot", "latex2mathml"):
        monkeypatch.setitem(sys.modules, name, None)
    sentence = r"^The lab needs uplot and latex2mathml, which are not installed: pip install 'regard\[lab\]'\.$"
    with pytest.raises(InputError, match=sentence):
        require("The lab", "uplot", "latex2mathml")


def test_packages_of_two_extras_are_installed_by_one_line():
    assert str(missing_package_error("This", "torch", "matplotlib")).endswith("pip install 'regard[plots,torch]'.")


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [(["translator", "score", "x"], "torch", "translator"), (["symmetry", "x"], "torch", "torch")],
)
def test_an_import_that_fails_on_the_command_line_is_one_sentence(words, package, extra, monkeypatch, regard):
    def fails(**_):
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)

    monkeypatch.setattr("regard.cli.app", fails)
    code, _, said = regard(*words)
    assert code == 2
    assert said == f"regard: This command needs {package}, which is not installed: pip install 'regard[{extra}]'.\n"


def test_a_module_of_ours_that_is_not_there_is_a_fault_and_not_an_extra(monkeypatch, capsys):
    def fails(**_):
        raise ModuleNotFoundError("No module named 'regard.nowhere'", name="regard.nowhere")

    monkeypatch.setattr("regard.cli.app", fails)
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 4
    assert "a fault of ours, not of what you typed (ModuleNotFoundError: No module" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "ask", "sentence"),
    [
        ("gensim", lambda: train_word2vec([["a"]], width=2, seed=0), r"word2vec:train needs gensim, .*\[translator\]"),
        ("tokenizers", lambda: BPEVocabulary.build(["a"]), r"A vocabulary of pieces \(bpe\) needs tokenizers, which"),
        ("datasets", lambda: load_corpus("hf:some/thing"), r"A Hugging Face dataset needs datasets, .*\[huggingface\]"),
        ("sacrebleu", lambda: bleu(lowercase=True), r"A score \(BLEU, chrF\) needs sacrebleu, .*\[translator\]"),
        (
            "sacremoses",
            lambda: literature_bleu(["a"], ["a"], language="en"),
            r"BLEU as in the literature needs sacremoses",
        ),
        ("matplotlib", lambda: demo("tour"), r"The tour needs matplotlib, which is not installed: .*\[plots\]"),
    ],
)
def test_whoever_imports_a_package_says_first_what_needs_it(package, ask, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=sentence):
        ask()
    assert list(tmp_path.iterdir()) == []


def test_every_extra_that_an_extra_names_is_there():
    extras = tomllib.loads((ROOT / "packages/regard/pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {name for lines in extras.values() for line in lines for name in re.findall(r"^regard\[([\w,]+)\]", line)}
    assert {name for names in named for name in names.split(",")} <= extras.keys()

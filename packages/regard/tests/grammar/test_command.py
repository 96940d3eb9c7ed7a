"""python -m tools.grammar: a corpus of one's own, and what it refuses."""

from __future__ import annotations

import sys

import pytest

from regard.translator.data.corpus import load_corpus
from tools.grammar import __main__ as command


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["grammar", *words])
    command.main()


def test_a_corpus_of_another_seed(monkeypatch, tmp_path, capsys):
    run(monkeypatch, "--size", "40", "--seed", "5", "--out", str(tmp_path / "own.tsv"))
    assert "40 training pairs and 4 each" in capsys.readouterr().out
    corpus = load_corpus(tmp_path / "own.tsv")
    assert [len(pairs) for pairs in corpus.splits.values()] == [40, 4, 4]
    assert corpus.fingerprint != load_corpus("builtin", size=40).fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["own.tsv"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "40"], "give --out FILE.tsv too"),
        (["--size", "0", "--out", "x.tsv"], "1 or more, not 0"),
        (["--size", "4", "--out", "no/such/folder/x.tsv"], "No such file or directory"),
    ],
)
def test_what_is_refused(monkeypatch, tmp_path, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, *words)
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_without_options_the_shipped_file_is_written(monkeypatch, tmp_path, capsys):
    before = command.SHIPPED.read_bytes()
    monkeypatch.setattr(command, "SHIPPED", tmp_path / "builtin.tsv.gz")
    monkeypatch.setattr(command, "shipped_text", lambda: "part\n")
    run(monkeypatch)
    assert (tmp_path / "builtin.tsv.gz").read_bytes() == command.packed("part\n") != before
    assert "SHA-256 of the text inside" in capsys.readouterr().out

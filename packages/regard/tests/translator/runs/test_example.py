"""The run that ships with the package: whole, small, reached by its name, left alone, and good at its grammar."""

from __future__ import annotations

import shutil

import pytest

from regard.errors import InputError
from regard.translator.data.sources import fresh_pairs
from regard.translator.runs.files import EXAMPLE, FOLDER, is_packaged, run_folder
from regard.translator.runs.records import is_finished, read_record
from regard.translator.runs.settings import load_settings


def test_it_is_small_finished_and_of_its_own_settings():
    record = read_record(EXAMPLE)
    assert record.finished
    assert record.settings == load_settings(EXAMPLE)
    assert record.about["command"] == "regard translator train example --out runs/example"
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 4e6
    assert record.best.perplexity < 1.2


def test_a_folder_of_ones_own_with_its_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_folder(EXAMPLE) == FOLDER
    assert is_packaged(run_folder("example/"))
    (tmp_path / EXAMPLE).mkdir()
    assert not is_packaged(run_folder(EXAMPLE))
    with pytest.raises(InputError, match="example is empty; give a folder that train, compare or tune wrote"):
        read_record(EXAMPLE)


def test_a_run_without_its_last_checkpoint_is_finished_only_if_its_best_says_so(tmp_path):
    pytest.importorskip("torch", reason="weights are written with torch")
    from regard.translator.models.weights import read_weights, write_weights

    run = tmp_path / "run"
    shutil.copytree(FOLDER, run)
    assert is_finished(run)
    tensors, header = read_weights(run / "best.safetensors")
    write_weights(run / "best.safetensors", tensors, {**header.facts, "finished": False})
    assert not is_finished(run)
    (run / "best.safetensors").unlink()
    assert not is_finished(run)


def test_it_translates_sentences_of_its_grammar_that_it_has_never_seen():
    pytest.importorskip("torch", reason="translating needs torch")
    from regard.translator import load_run

    pairs = fresh_pairs(100)
    said = load_run(EXAMPLE).translate(pairs.source).target
    right = sum(text.lower() == wanted.lower() for text, wanted in zip(said, pairs.target, strict=True))
    assert right > 80  # 94 of 100 on the machine that trained it


def test_nothing_is_written_into_the_package():
    pytest.importorskip("ctranslate2", reason="the engine is not installed")
    from regard.translator import export

    with pytest.raises(InputError, match="The example run is a part of the package, where nothing is written"):
        export(EXAMPLE)


def test_models_take_it_by_its_name(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="models need torch")
    from regard_models.inputs.model_input import load

    monkeypatch.chdir(tmp_path)
    given = load(EXAMPLE, text="der hund sieht die katze")
    assert given.tokens == [["<sos>", "der", "hund", "sieht", "die", "katze", "<eos>"]]


@pytest.mark.slow
def test_reports_take_it_by_its_name(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="reports of attention need torch")
    from regard.translator import report

    monkeypatch.chdir(tmp_path)
    found = report([EXAMPLE], tmp_path / "report.html")
    assert found.runs == [str(FOLDER)]

"""Measured claims: records come from run folders, damaged ones are named, and a check trains nothing."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from places import ROOT, SOURCE
from regard.coursework import training_figures
from regard.coursework.catalogue import claims
from regard.coursework.claims import translator, translator_trained
from regard.coursework.training_figures import VALIDATION, Figures, RunFigures
from regard.coursework.verdict import Status
from regard.errors import InputError
from regard.translator.studies.comparison import compare
from regard.translator.training.loop import train
from tools import record_training
from toy_translator import StopError, stop_at, tiny, write_corpus

torch.set_num_threads(1)
SHIPPED = sorted((SOURCE / "coursework" / "records").glob("*.json"))
SPACE = "[training]\nlearning_rate = {low = 1e-3, high = 1e-2, log = true}\n"


def a_run(**changes) -> RunFigures:
    given = {"command": "regard translator train", "seed": 3, "changes": [], "weights": 7, "cpu_seconds": 11.0}
    return RunFigures(**given | {"curve": [5.0, 2.0, 3.0], "without_sos": [7.0, 2.5, 4.0]} | changes)


def a_variant(name: str, *values: float) -> dict[str, Any]:
    return {"name": name, "weights": 7, "cpu_seconds": 1.0, "coverage": [], "measures": {VALIDATION: list(values)}}


def a_comparison(*variants: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": "regard translator compare",
        "scored_on": "the test set",
        "seeds": [0, 1, 2],
        "variants": [*variants],
    }


def a_study(**changes) -> dict[str, Any]:
    trials = [["complete", 5.0, {"width": 128}], ["pruned", 3.0, {"width": 64}], ["complete", 4.0, {"width": 256}]]
    given = {"command": "regard translator tune", "trials": trials, "best": 2, "started_from": 0, "cpu_seconds": 1.0}
    importance = [["model.width", 0.4, 0.1, 0.7], ["model.dropout", 0.1, -0.1, 0.2]]
    return given | {"importance": importance, "confirmation": None} | changes


def content(**changes) -> dict[str, Any]:
    """A record as its file has it."""
    given = {"name": "defaults", "date": "2026-11-15", "log": "docs/results/x.txt", "data": "toy", "versions": {}}
    return given | {"runs": [dataclasses.asdict(a_run())], "comparison": None, "study": None} | changes


def a_record(**changes) -> Figures:
    return training_figures.read(json.dumps(content(**changes)), "x")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, an unfinished one and a comparison, each a moment's training."""
    home = tmp_path_factory.mktemp("runs")
    settings = tiny(write_corpus(home / "toy"))
    train(settings, home / "one", command=f"regard translator train x --data {home}/toy --out {home}/one")
    with pytest.raises(StopError):
        train(settings, home / "half", watch=stop_at(3))
    command = f"regard translator compare --with learned,positions=none --out {home}/vectors"
    compare(settings, ["learned", "positions=none"], home / "vectors", seeds=2, command=command)
    return home


# what the figures say


def test_a_run_computes_what_it_can() -> None:
    run = a_run()
    assert (run.best_epoch, run.perplexity, run.perplexity_without_sos) == (2, 2.0, 2.5)


def test_counting_sos_is_a_power() -> None:
    """The proof's formula: N tokens of which M are <sos>, which is always right."""
    found = training_figures.record("defaults")
    pairs, words = 898, 10926  # of the validation set; every sentence adds <sos> and <eos>
    assert f"{pairs} validation pairs" in found.data
    power = (words + 2 * pairs) / (words + pairs)
    for run in found.runs:
        assert run.perplexity**power == pytest.approx(run.perplexity_without_sos, rel=1e-3)


def test_differences_are_told_from_noise() -> None:
    sure = a_comparison(a_variant("learned", 14.0, 14.1, 13.9), a_variant("glove", 12.0, 12.1, 11.9))
    said = translator.describe_comparison(a_record(comparison=sure).comparison)
    assert "learned 14.00 (13.75 to 14.25), glove 12.00 (11.75 to 12.25)" in said
    assert "Beyond chance: glove is better than learned by 2.00." in said
    noisy = a_comparison(a_variant("learned", 14.0, 15.0, 13.0), a_variant("glove", 13.9, 14.0, 14.2))
    assert "Beyond chance: no difference." in translator.describe_comparison(a_record(comparison=noisy).comparison)


# the format


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_records_are_whole(path: Path) -> None:
    found = training_figures.record(path.stem)
    assert found.name == path.stem
    assert record_training.checked_json(found) == path.read_text(encoding="utf-8")
    assert (ROOT / found.log).is_file()
    for command in _commands(found):
        assert command.startswith("regard translator ")
        assert " /" not in command
    log = (ROOT / found.log).read_text(encoding="utf-8")
    assert all(f"{run.perplexity:.2f}" in log for run in found.runs)


def _commands(found: Figures) -> list[str]:
    commands = [part.command for part in [*found.runs, found.comparison] if part is not None]
    return commands if found.study is None else [*commands, found.study.searched_by]


def test_every_record_comes_with_the_package() -> None:
    assert {path.stem for path in SHIPPED} == set(training_figures.NAMES)


def test_a_record_reads_back_as_itself() -> None:
    comparison = a_comparison(a_variant("learned", 2.0, 3.0, 4.0))
    whole = content(comparison=comparison, study=a_study(confirmation=comparison))
    assert json.loads(record_training.checked_json(training_figures.read(json.dumps(whole), "x"))) == whole


@pytest.mark.parametrize(
    ("bend", "message"),
    [
        (lambda r: r.pop("date"), "record lacks or does not know date"),
        (lambda r: r.update(extra=1), "record lacks or does not know extra"),
        (lambda r: r.update(date="today"), "'today' is not a date such as 2026-11-15"),
        (
            lambda r: r.update(name="best"),
            "a record is called defaults, described, embeddings, english, sides, tuned, not 'best'",
        ),
        (lambda r: r.update(runs=[], comparison=None, study=None), "it has no run, no comparison and no study"),
        (lambda r: r.update(runs=[7]), "run is no table but int"),
        (lambda r: r["runs"][0].update(curve=[]), r"curve must be numbers of 1 or more, not \[\]"),
        (lambda r: r["runs"][0].update(curve=[0.5, 2.0, 3.0]), "curve must be numbers of 1 or more"),
        (lambda r: r["runs"][0].update(curve=["2", "3", "4"]), "curve must be numbers of 1 or more"),
        (lambda r: r["runs"][0].update(curve=[math.inf, 2.0, 3.0]), "Infinity is not a JSON number"),
        (lambda r: r["runs"][0].update(curve=[10**400, 2.0, 3.0]), "curve must be numbers of 1 or more"),
        (lambda r: r["runs"][0].update(cpu_seconds=10**400), "weights and cpu_seconds must be numbers of 0 or more"),
        (lambda r: r["comparison"]["variants"][0].update(weights=10**400), "weights and cpu_seconds must be numbers"),
        (lambda r: r["study"].update(cpu_seconds=10**400), "cpu_seconds must be numbers of 0 or more"),
        (lambda r: r["study"]["trials"][1].__setitem__(1, 10**400), "perplexity must be numbers of 1 or more"),
        (lambda r: r["study"]["importance"][0].__setitem__(1, 10**400), "importance of model.width must be numbers"),
        (lambda r: r["runs"][0].update(curve=[5.0, 2.0]), "2 epochs in curve and 3 in without_sos"),
        (lambda r: r["runs"][0].update(weights=-1), "weights and cpu_seconds must be numbers of 0 or more"),
        (lambda r: r["comparison"].update(seeds=[0]), "'learned' has 3 of validation perplexity for 1 seeds"),
        (lambda r: r["comparison"].update(variants=[]), "a comparison has no variant or no seed"),
        (lambda r: r["comparison"]["variants"][0].update(measures={}), "'learned' has no validation perplexity"),
        (lambda r: r["study"].update(best=9), "trial 9 or 0 is none of the 3"),
        (lambda r: r["study"].update(best=0), "trial 0 is not the best complete one"),
        (lambda r: r["study"].update(trials=[1]), "cannot unpack"),
    ],
)
def test_damage_is_named(bend, message: str) -> None:
    bent = content(comparison=a_comparison(a_variant("learned", 2.0, 3.0, 4.0)), study=a_study())
    bend(bent)
    with pytest.raises(InputError, match=f"The record x is damaged: .*{message}.*write it again with python -m"):
        training_figures.read(json.dumps(bent), "x")


def test_a_record_that_is_no_json() -> None:
    with pytest.raises(InputError, match="The record x is damaged: Expecting value"):
        training_figures.read("", "x")


# written from folders


@pytest.mark.slow
def test_from_a_run(folders: Path) -> None:
    made, log = record_training.from_folders("defaults", [folders / "one"])
    (run,) = made.runs
    assert len(run.curve) == 2
    assert run.command == "regard translator train x --data DIR --out runs/one"
    assert any(change.startswith("model.width: ") and "16" in change for change in run.changes)
    assert not [change for change in run.changes if "path" in change or "seed" in change]
    assert "torch" in made.versions
    assert "toy, de to en: 60 training and 11 validation pairs" in made.data
    assert f"{run.perplexity:.2f}" in log
    assert str(folders) not in record_training.checked_json(made) + log


@pytest.mark.slow
def test_from_a_comparison(folders: Path) -> None:
    made, log = record_training.from_folders("embeddings", [folders / "vectors"])
    assert [entry.name for entry in made.comparison.entries] == ["learned", "positions=none"]
    assert made.comparison.seeds == [0, 1]
    assert len(made.comparison.entries[0].measures["BLEU"].values) == 2
    assert "positions=none" in log
    assert str(folders) not in record_training.checked_json(made) + log


@pytest.mark.slow
def test_from_a_study(folders: Path, tmp_path: Path) -> None:
    from regard.translator.studies.tuning import tune

    (tmp_path / "space.toml").write_text(SPACE)
    settings, out = tiny(folders / "toy"), tmp_path / "tuned"
    tune(settings, out, trials=3, space=tmp_path / "space.toml", confirm=2, pruner="none", command="regard tune")
    made, log = record_training.from_folders("tuned", [out])
    study = made.study
    assert len(study.trials) == 3
    assert study.default.changes == {"training.learning_rate": 0.001}
    assert [entry.name for entry in study.confirmation.entries] == ["default", "best"]
    assert str(tmp_path) not in record_training.checked_json(made) + log
    assert "3 trials" in log


def test_what_cannot_be_recorded(folders: Path) -> None:
    with pytest.raises(InputError, match=r"The run in .*half is not finished; give its train command again first"):
        record_training.from_folders("defaults", [folders / "half"])
    with pytest.raises(InputError, match=r"toy has no run.json, comparison.json or study.json; give folders that"):
        record_training.from_folders("defaults", [folders / "one", folders / "toy"])
    with pytest.raises(InputError, match="one comparison and one study at most"):
        record_training.from_folders("embeddings", [folders / "vectors"] * 2)
    for words in ([], ["defaults"], ["mine", str(folders / "one")]):
        with pytest.raises(
            InputError, match=r"Give a name \(defaults, described, embeddings, english, sides, tuned\) and the folders"
        ):
            record_training.main(words)


def test_the_command_writes_both_files(folders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    records = tmp_path / "records"
    (tmp_path / "docs" / "results").mkdir(parents=True)
    monkeypatch.setattr(record_training, "RECORDS", records)
    monkeypatch.setattr(record_training, "ROOT", tmp_path)
    record_training.main(["defaults", str(folders / "one")])
    written, log = map(Path, capsys.readouterr().out.split())
    assert training_figures.read(written.read_text(), "x").runs
    assert log == tmp_path / "docs" / "results" / "translator-defaults.txt"
    assert "best" in log.read_text()


def test_portable_commands() -> None:
    assert record_training.portable_command("regard x --data ../d --out /tmp/r/a") == "regard x --data DIR --out runs/a"
    assert record_training.portable_command("regard x --with learned,glove:/a/b/g.txt,bert:m --out r") == (
        "regard x --with learned,glove:g.txt,bert:m --out runs/r"
    )


# the two claims


def having(monkeypatch: pytest.MonkeyPatch, **records: Figures) -> None:
    for module in (translator, translator_trained):
        monkeypatch.setattr(module, "record", lambda name: records.get(name) or training_figures.record(name))


@pytest.mark.parametrize("name", ["translator", "translator-trained"])
def test_the_claims_are_complete(name: str, tmp_path: Path) -> None:
    found = claims[name].check()
    assert found.status is Status.MEASURED
    assert "docs/results/translator-defaults.txt" in found.verdicts[0].by
    assert "regard translator train" in found.verdicts[0].because
    assert len(claims[name].proof().text) > 200
    claims[name].plot(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text().count("<path") > 5
    assert f"\ntranslator:\n  {name:<30}" in str(claims.listing()) or name == "translator-trained"


def test_a_record_without_the_comparison_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, embeddings=a_record())
    with pytest.raises(InputError, match=r"The record defaults has no comparison; python -m tools\.record_training"):
        translator.check_pretrained_vectors(seed=0)


def test_everything_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = a_comparison(a_variant("learned", 14.0, 14.1, 13.9), a_variant("glove", 12.0, 12.1, 11.9))
    wide, study = dataclasses.asdict(a_run(changes=["model.width: 256"])), a_study(confirmation=comparison)
    tuned = a_record(name="tuned", runs=[wide], study=study, comparison=comparison)
    embeddings = a_record(name="embeddings", runs=[], comparison=comparison)
    one_seed = a_comparison(a_variant("source=word2vec:train", 15.0)) | {"seeds": [0]}
    sides = a_record(name="sides", runs=[], comparison=one_seed)
    from_english = a_comparison(a_variant("glove:g", 13.5, 13.0, 13.1))
    english = a_record(name="english", runs=[], comparison=from_english)
    having(monkeypatch, defaults=a_record(), embeddings=embeddings, english=english, sides=sides, tuned=tuned)
    compared, said = claims["translator"].check().verdicts[1], claims["translator-trained"].check().verdicts[3]
    assert (compared.status, said.status) == (Status.MEASURED, Status.MEASURED)
    assert "glove is better than learned by 2.00" in compared.because
    assert "from English, docs/results/x.txt: Validation perplexity, mean of 3 seeds" in compared.because
    assert "of one seed each, which tells no difference from chance: source=word2vec:train 15.00." in compared.because
    assert "The defaults have 2.00." in said.because
    assert "3 trials, 1 CPU-seconds: the best has 4.00, with width = 256. The settings it started from have 5.00." in (
        said.because
    )
    assert "Shown to matter: model.width 40%." in said.because
    assert "With seeds the search never saw: " in said.because
    assert "2.00 after epoch 2 (seed 3) with model.width: 256." in said.because
    assert "<svg" in claims["translator"].check()._repr_html_()


def test_as_described_says_what_each_correction_brings(monkeypatch: pytest.MonkeyPatch) -> None:
    start, padding = "embedding.start: 'normal', 'short'", "model.kind: 'reads-padding', 'encoder'"
    runs = [
        a_run(changes=[start, padding], curve=[9.0, 4.0, 5.0], seed=0),
        a_run(changes=[start, padding], curve=[9.0, 6.0, 5.0], seed=1),
        a_run(changes=[padding], curve=[9.0, 3.5, 4.0], seed=0),
        a_run(changes=[start], curve=[9.0, 3.75, 4.0], seed=0),
    ]
    given = a_record(name="described", runs=[dataclasses.asdict(run) for run in runs])
    having(monkeypatch, described=given, defaults=a_record())
    said = translator_trained.check_as_described().because
    for part in (
        "as described: 4.50, the mean of 2 seeds (4.00 after epoch 2, 5.00 after epoch 3)",
        "word vectors started short: 3.50 after epoch 2 (seed 0)",
        "padding hidden: 3.75 after epoch 2 (seed 0)",
        "both corrected, our defaults: 2.00 after epoch 2 (seed 3)",
    ):
        assert part in said
    assert translator_trained.describe_corrections(a_run(changes=[])) == "both corrected"


def test_more_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    having(monkeypatch, defaults=a_record())
    assert "do not help: each run was at its best before its end" in translator_trained.check_more_epochs().because
    still = a_run(curve=[5.0, 3.0, 2.0])
    having(monkeypatch, defaults=a_record(runs=[dataclasses.asdict(still)]))
    assert "may help (a run was still improving)" in translator_trained.check_more_epochs().because


def test_the_parts_of_the_model() -> None:
    found = claims["translator"].check(seed=5).verdicts
    assert [v.status for v in found[2:]] == [Status.HOLDS, Status.NOT_REFUTED, Status.HOLDS]


def test_parts_that_are_wrong_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.translator.models import embeddings, encoder

    monkeypatch.setattr(embeddings.LearnedPositions, "forward", lambda self, x, first: x)
    assert translator.check_embedding(seed=0).status is Status.REFUTED
    monkeypatch.setattr(encoder.Attention, "weights", lambda self, slots, words: torch.full((1, 3, 13, 7), 1 / 7))
    assert translator.check_attention(seed=0).status is Status.REFUTED
    monkeypatch.setattr(torch, "softmax", lambda scores, dim: torch.sigmoid(scores))
    assert translator.check_probabilities(seed=0).status is Status.REFUTED


def test_without_torch_the_verdict_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    found = claims["translator"].check().verdicts
    assert [v.status for v in found[2:]] == [Status.UNDECIDED] * 3
    assert "torch, which is not installed here: pip install 'regard[translator]'" in found[2].because
    assert found[0].status is Status.MEASURED


@pytest.mark.slow
def test_reading_a_record_needs_no_torch() -> None:
    code = (
        "import sys; from regard.coursework.catalogue import claims; claims['translator-trained'].check();"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_records_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        a_record().date = "2020-01-01"

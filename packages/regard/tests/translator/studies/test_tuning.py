"""Tuning: what may be searched, kills that lose nothing, a test set that is opened once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from processes import PATIENCE
from regard.errors import CouldNotFindOut, InputError
from regard.translator.runs.files import json_file
from regard.translator.runs.records import read_record
from regard.translator.runs.settings import load_settings
from regard.translator.studies import tuning
from regard.translator.studies.search_record import STUDY, importances, read_study
from regard.translator.studies.space import Range, Space, load_space
from regard.translator.studies.storage import JOURNAL
from regard.translator.studies.tuning import tune
from toy_translator import StopError, stop_at, tiny, write_corpus

torch.set_num_threads(1)

SPACE = """
[model]
width = [8, 16]
dropout = {low = 0.0, high = 0.4, step = 0.1}
[training]
learning_rate = {low = 1e-4, high = 1e-1, log = true}
"""
QUICK = ["epochs=3", "feed_forward=11", "batch=16", "save_every=2"]


def write_space(folder: Path, text: str = SPACE) -> Path:
    path = folder / "space.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The folder, the settings, and the study that nobody stopped."""
    folder = tmp_path_factory.mktemp("tuning")
    settings = tiny(write_corpus(folder / "toy"), *QUICK)
    found = tune(settings, folder / "whole", trials=9, space=write_space(folder))
    return folder, settings, found


def table(found):
    """Everything a study decided; a trial that was interrupted has another number then."""
    return [(t.state, t.perplexity, t.curve, t.changes) for t in found.trials]


@pytest.mark.slow
def test_what_was_tried(base):
    folder, _, found = base
    assert len(found.trials) == 9
    assert found.trials[0].changes == {"model.width": 16, "model.dropout": 0.0, "training.learning_rate": 1e-3}
    assert found.default is found.trials[0]
    assert found.best.perplexity == min(t.perplexity for t in found.trials if t.state == "complete")
    assert any(t.state == "pruned" for t in found.trials)
    for trial in found.trials:
        run = folder / "whole" / "trials" / f"{trial.number:04d}"
        record = read_record(run)
        assert record.settings.training.epochs == 3
        assert record.settings.model.width == trial.changes["model.width"]
        assert record.settings.training.learning_rate == trial.changes["training.learning_rate"]
        assert [e.perplexity for e in record.epochs] == trial.curve
        assert not list(run.glob("*.safetensors"))  # ended: its weights are gone, its story stays
        assert len(trial.curve) == 3 or trial.state == "pruned"
    assert "judged by validation perplexity counting <sos>" in str(found)
    assert json.loads(found.to_json())["best"]["number"] == found.best.number


@pytest.mark.slow
def test_what_a_pruned_trial_could_expect(base):
    """By hand: the geometric mean of what complete trials still gained."""
    *_, found = base
    complete = [t for t in found.trials if t.state == "complete"]
    assert all(t.expected == t.perplexity for t in complete)
    for trial in (t for t in found.trials if t.state == "pruned"):
        gains = [min(t.curve) / min(t.curve[: len(trial.curve)]) for t in complete]
        assert trial.expected == pytest.approx(trial.perplexity * np.prod(gains) ** (1 / len(gains)))
        assert trial.expected <= trial.perplexity


@pytest.mark.slow
def test_the_same_seed_tries_the_same(base, tmp_path):
    folder, settings, found = base
    again = tune(settings, tmp_path / "again", trials=4, space=folder / "space.toml")
    assert table(again) == table(found)[:4]
    other = tune(settings, tmp_path / "other", trials=3, space=folder / "space.toml", seed=1)
    assert table(other)[1:] != table(found)[1:3]


@pytest.mark.slow
def test_more_trials_later(base, tmp_path):
    folder, settings, found = base
    for trials in (2, 5, 9):
        more = tune(settings, tmp_path / "s", trials=trials, space=folder / "space.toml")
        assert len(more.trials) == trials
    assert table(more) == table(found)


KILLER = textwrap.dedent(
    """
    import json, os, random, signal, sys, time
    from pathlib import Path
    import optuna
    import torch
    torch.set_num_threads(1)
    from regard.translator.runs.settings import load_settings
    from regard.translator.studies.tuning import tune

    settings, space, out = load_settings(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    draw, kills = random.Random(5), 0
    while True:
        pid = os.fork()
        if pid == 0:
            tune(settings, out, trials=7, space=space)
            os._exit(0)
        if kills < 5:
            time.sleep(draw.uniform(0.1, 1.2))
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        lines = (out / "journal.jsonl").read_bytes().split(b"\\n")[:-1] if (out / "journal.jsonl").exists() else []
        print("finished", sum(json.loads(line).get("state") in (1, 2, 3) for line in lines), flush=True)
        if os.WIFSIGNALED(status):
            kills += 1
        else:
            print("kills", kills)
            sys.exit(status != 0)
    """
)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_real_kills_lose_no_finished_trial_and_change_nothing(base, tmp_path):
    """SIGKILL from outside at moments nobody chose; the study ends as the one that was left alone."""
    folder, settings, found = base
    (tmp_path / "settings.toml").write_text(settings.to_toml())
    done = subprocess.run(
        [sys.executable, "-c", KILLER, "settings.toml", str(folder / "space.toml"), "study"],
        capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *finished, kills = (line.split()[1] for line in done.stdout.splitlines())
    assert int(kills) >= 3
    counts = [int(n) for n in finished]
    assert counts == sorted(counts)
    assert counts[-1] >= 7  # those that were killed ended too, and were tried again
    assert table(read_study(tmp_path / "study")) == table(found)[:7]


def test_stopped_between_an_epoch_and_its_journal(base, tmp_path, monkeypatch):
    """The checkpoint knows of an epoch that the journal does not: it is told on resuming, and not trained again."""
    folder, settings, found = base
    import optuna

    real, calls = optuna.trial.Trial.report, 0

    def refuse(self, value, step):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise StopError
        real(self, value, step)

    monkeypatch.setattr(optuna.trial.Trial, "report", refuse)
    with pytest.raises(StopError):
        tune(settings, tmp_path / "s", trials=3, space=folder / "space.toml")
    got = tune(settings, tmp_path / "s", trials=3, space=folder / "space.toml")
    assert table(got) == table(found)[:3]


def test_half_a_line_in_the_journal_is_forgotten(base, tmp_path):
    folder, settings, found = base
    tune(settings, tmp_path / "s", trials=2, space=folder / "space.toml")
    with open(tmp_path / "s" / JOURNAL, "ab") as stream:
        stream.write(b'{"op_code":4,"wor')
    said: list[str] = []
    got = tune(settings, tmp_path / "s", trials=3, space=folder / "space.toml", say=said.append)
    assert table(got) == table(found)[:3]
    assert (
        f"{tmp_path / 's' / JOURNAL} ends in the middle of a line, where a worker was stopped: it is left out." in said
    )


@pytest.mark.slow
def test_confirmation_opens_the_test_set_once_and_closes_the_study(base, tmp_path, monkeypatch):
    folder, settings, _ = base
    opened: list[str] = []
    from regard.translator.studies import comparison

    real = comparison.score

    def counting(run, pairs, **options):
        opened.append(run.folder.name)
        return real(run, pairs, **options)

    monkeypatch.setattr(comparison, "score", counting)
    space = folder / "space.toml"
    searched = tune(settings, tmp_path / "s", trials=4, space=space)
    assert opened == []  # the search never looks
    got = tune(settings, tmp_path / "s", trials=4, space=space, confirm=2)
    assert sorted(opened) == ["best-seed1", "best-seed2", "default-seed1", "default-seed2"]
    again = tune(settings, tmp_path / "s", trials=4, space=space, confirm=2)
    assert len(opened) == 4
    assert again.confirmation.to_json() == got.confirmation.to_json()
    assert got.confirmation.seeds == [1, 2]  # not 0, which chose the best
    best = read_record(got.confirmation.entries[1].runs[0]).settings
    assert best.model.width == searched.best.changes["model.width"]
    with pytest.raises(InputError, match="was confirmed on the test set and is closed"):
        tune(settings, tmp_path / "s", trials=5, space=space)
    assert "Confirmed with seeds the search never saw" in str(got)


@pytest.mark.slow
def test_cheap_trials_first_then_the_best_of_them_on_all_pairs(base, tmp_path):
    folder, settings, whole = base
    thin = settings.with_changes(["data.share=0.3"])
    cheap = tune(thin, tmp_path / "cheap", trials=4, space=folder / "space.toml", pruner="none")
    pairs = read_record(tmp_path / "cheap" / "trials" / "0000").about["pairs"]
    all_pairs = read_record(folder / "whole" / "trials" / "0000").about["pairs"]
    assert pairs == {"train": round(0.3 * all_pairs["train"]), "validation": all_pairs["validation"]}
    assert "each trained on 30% of the training pairs." in str(cheap)
    assert "data.share=1.0" in cheap.command
    assert "data.share" not in whole.command

    best = sorted(cheap.trials, key=lambda trial: trial.perplexity)
    wanted = [cheap.trials[0].changes] + [t.changes for t in best if t.number]
    first = tmp_path / "cheap"
    study = tune(settings, tmp_path / "all", trials=3, space=folder / "space.toml", pruner="none", first=first)
    assert [trial.changes for trial in study.trials] == wanted[:3]
    assert study.trials[0].perplexity == whole.trials[0].perplexity  # on all pairs, as ever


@pytest.mark.slow
def test_a_cheap_study_is_confirmed_on_all_pairs(base, tmp_path):
    folder, settings, _ = base
    thin = settings.with_changes(["data.share=0.3"])
    tune(thin, tmp_path / "cheap", trials=3, space=folder / "space.toml", pruner="none", confirm=2)
    runs = sorted((tmp_path / "cheap" / "confirm" / "runs").iterdir())
    assert len(runs) == 4
    assert {read_record(run).settings.data.share for run in runs} == {1.0}


@pytest.mark.slow
def test_an_earlier_study_of_another_space_is_refused(base, tmp_path):
    folder, settings, _ = base
    other = write_space(tmp_path, SPACE.replace("8, 16", "8, 32"))
    with pytest.raises(InputError, match="outside this search space; give --space as it was there"):
        tune(settings, tmp_path / "new", trials=3, space=other, first=folder / "whole")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_divergence_is_an_answer(base, tmp_path, monkeypatch):
    folder, settings, _ = base

    def diverge(*_, **__):
        raise CouldNotFindOut("The training loss is nan at step 1; lower training.learning_rate.")

    real = tuning.train
    monkeypatch.setattr(tuning, "train", lambda *a, **k: diverge() if a[1].name == "0001" else real(*a, **k))
    got = tune(settings, tmp_path / "s", trials=3, space=folder / "space.toml")
    assert [t.state for t in got.trials] == ["complete", "failed", "complete"]
    assert "loss is nan" in got.trials[1].reason


@pytest.mark.slow
def test_a_study_of_a_version_without_a_setting_goes_on(base, tmp_path):
    folder, settings, whole = base
    out = tmp_path / "earlier"
    shutil.copytree(folder / "whole", out)
    about = json.loads((out / STUDY).read_text())
    del about["settings"]["training"]["agreement"]
    (out / STUDY).write_bytes(json_file(about))
    with pytest.raises(InputError, match="holds a study with other settings; give another --out"):
        tune(settings.with_changes(["dropout=0.1", "agreement=1"]), out, space=folder / "space.toml")
    got = tune(settings, out, trials=len(whole.trials), space=folder / "space.toml")
    assert table(got) == table(whole)


def test_another_study_is_refused(base, tmp_path):
    folder, settings, _ = base
    space, out = folder / "space.toml", folder / "whole"
    before = (out / JOURNAL).read_bytes()
    with pytest.raises(InputError, match="holds a study with another search space; give another --out"):
        tune(settings, out, trials=9, space=write_space(tmp_path, SPACE.replace("[8, 16]", "[8, 32]")))
    with pytest.raises(InputError, match="holds a study with other settings; give another --out"):
        tune(settings.with_changes(["training.batch=3"]), out, trials=9, space=space)
    with pytest.raises(InputError, match="holds a study with another pruner"):
        tune(settings, out, trials=9, space=space, pruner="none")
    with pytest.raises(InputError, match="holds a study with another seed"):
        tune(settings, out, trials=9, space=space, seed=4)
    assert (out / JOURNAL).read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("x")
    with pytest.raises(InputError, match=r"x/s cannot be made: .*; give another --out"):
        tune(settings, tmp_path / "mine" / "x" / "s", trials=1, space=space)
    with pytest.raises(InputError, match=r"is not a study: it has no study\.json"):
        tune(settings, tmp_path / "mine", trials=1, space=space)


def test_other_data_is_refused_and_damage_named(tmp_path):
    data = write_corpus(tmp_path / "toy")
    settings, space = tiny(data, *QUICK, "epochs=1"), write_space(tmp_path)
    tune(settings, tmp_path / "s", trials=1, space=space)
    journal = tmp_path / "s" / JOURNAL
    good = journal.read_bytes()
    journal.write_bytes(b"{]\n" + good)
    with pytest.raises(InputError, match=r"journal\.jsonl is damaged"):
        read_study(tmp_path / "s")
    for cut in (b"", b"".join(good.splitlines(keepends=True)[:1])):  # lost, or all lines about its trial
        journal.write_bytes(cut)
        with pytest.raises(InputError, match=r"journal\.jsonl is damaged \(trial 0 is missing, whose run is there\)"):
            tune(settings, tmp_path / "s", trials=1, space=space)
    journal.write_bytes(good)
    with open(data / "train.de", "a") as de, open(data / "train.en", "a") as en:
        de.write("ein hund\n")
        en.write("a dog\n")
    with pytest.raises(InputError, match="holds a study with other data than there is now"):
        tune(settings, tmp_path / "s", trials=1, space=space)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[training]\nepochs = [10, 20]", "training.epochs cannot be searched: epochs stay the same: more epochs"),
        ("[vocabulary]\nsize = [0, 999]", "vocabulary.size cannot be searched: vocabulary and tokenisation stay"),
        ("[data]\nlongest = [5, 9]", "data.longest cannot be searched: the data stays the same"),
        ("[model]\nlayers = [1, 2]", "model.layers cannot be searched: one layer stays one layer"),
        ("[model]\ndecoder_layers = [0, 1]", "model.decoder_layers cannot be searched: one layer stays one layer"),
        ('[model]\nkind = ["encoder", "deep"]', "model.kind cannot be 'deep': one layer stays one layer"),
        ("[training]\nseed = [1, 2]", "the seed is not a setting to tune"),
        ("[model]\nwidht = [1, 2]", "there is no setting 'model.widht'"),
        ("[model]\nwidth = [0, 2]", "model.width must be a whole number of 1 or more, not 0"),
        ("[model]\nwidth = []", "model.width needs one choice or more, each once"),
        ("[model]\nwidth = 3", "must be a list of choices or a range"),
        ("[model]\ndropout = {low = 0.5, high = 0.1}", "low must be below high"),
        (f"[model]\ndropout = {{low = 0.5, high = 1{'0' * 400}}}", "number in it does not fit into 64 bits"),
        ("[model]\ndropout = {low = 0.0, high = 0.1, log = true}", "needs low above 0"),
        ("[model]\ndropout = {low = 0.0}", "model.dropout: high is missing: the largest value to try"),
        ("[model]\ndropout = {low = 0.0, high = 'x'}", "model.dropout: high must be a number, not 'x'"),
        ("[training]\nschedule = {low = 1, high = 2}", "is not a number, so it needs a list"),
        ("width = 3", r"width must be a section: write \[width\]"),
        ("", "has nothing to try"),
        ("[", "is not valid TOML"),
    ],
)
def test_spaces_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load_space(write_space(tmp_path, text), tiny(tmp_path))


def test_all_mistakes_of_a_space_at_once(tmp_path):
    path = write_space(tmp_path, "[training]\nepochs = [1]\nbatch = [0]\n[model]\nx = [1]")
    with pytest.raises(InputError, match="has 3 mistakes") as caught:
        load_space(path, tiny(tmp_path))
    assert len(str(caught.value).splitlines()) == 4


@pytest.mark.parametrize(("config", "name"), [("coursework", "coursework"), ("good", "good")])
def test_every_kind_has_its_own_space_by_default(config, name):
    settings = load_settings(config)
    space = load_space(None, settings)
    assert space.name == name
    assert ("model.layers" in space.entries) == (name != "coursework")
    if name != "coursework":  # the first trial is then the settings themselves
        assert space.defaults(settings) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[model]\nkind = ["encoder-decoder", "encoder"]',
            "model.kind cannot be 'encoder': it has one layer, and encoder-decoder",
        ),
        ("[fast]\nfused_loss = [true, false]", "there is no setting 'fast.fused_loss'"),
        ("[model]\nlayers = [0, 1]", "model.layers must be a whole number of 1 or more, not 0"),
    ],
)
def test_spaces_of_deeper_models_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        load_space(write_space(tmp_path, text), load_settings("good"))


def test_the_layers_of_a_deeper_model_are_tried(tmp_path):
    changes = ["model.kind=encoder-decoder", "decoder_layers=1", "epochs=1", "width=8", "feed_forward=11", "batch=16"]
    settings = tiny(write_corpus(tmp_path / "toy", 40), *changes)
    space = write_space(tmp_path, "[model]\nlayers = [1, 2]\ndecoder_layers = [1, 2]")
    got = tune(settings, tmp_path / "s", trials=2, space=space)
    assert [t.state for t in got.trials] == ["complete"] * 2
    assert got.default.changes == {"model.layers": 1, "model.decoder_layers": 1}


@pytest.mark.parametrize("name", ["coursework", "quick"])
def test_built_in_spaces_hold_their_defaults(name):
    settings = load_settings("coursework" if name == "coursework" else "builtin")
    assert load_space(name, settings).entries
    with pytest.raises(InputError, match=r"There is no search space nowhere; give a \.toml file or one of: coursework"):
        load_space("nowhere", settings)


@pytest.mark.slow
def test_numbers_refused(base, tmp_path):
    _, settings, _ = base
    with pytest.raises(InputError, match="trials must be 1 or more, not 0"):
        tune(settings, tmp_path / "s", trials=0)
    with pytest.raises(InputError, match="confirm is the number of fresh seeds, 2 or more"):
        tune(settings, tmp_path / "s", confirm=1)
    with pytest.raises(InputError, match="pruner must be one of median, hyperband, none, not 'x'"):
        tune(settings, tmp_path / "s", pruner="x")
    assert not (tmp_path / "s").exists()


@pytest.mark.slow
def test_hyperband_and_no_pruning_run(base, tmp_path):
    folder, settings, _ = base
    for pruner in ("hyperband", "none"):
        got = tune(settings, tmp_path / pruner, trials=2, space=folder / "space.toml", pruner=pruner)
        assert len(got.trials) == 2


@pytest.mark.slow
@pytest.mark.nightly
def test_importance_finds_what_matters_and_leaves_the_rest():
    """ln perplexity = 2 x + noise: x explains nearly all of it, the word nothing, a constant is not listed."""
    space = Space(name="s", entries={"a.x": Range(low=0.0, high=1.0), "a.word": ["p", "q", "r"], "a.one": [1]})
    draw = np.random.default_rng(0)
    tried = [{"a.x": float(draw.random()), "a.word": str(draw.choice(["p", "q", "r"])), "a.one": 1} for _ in range(40)]
    perplexities = [float(np.exp(2 * t["a.x"] + 0.05 * draw.standard_normal())) for t in tried]
    got = {i.name: i for i in importances(space, tried, perplexities)}
    assert set(got) == {"a.x", "a.word"}
    assert got["a.x"].low > 0.5
    assert got["a.word"].low < 0.05
    assert abs(got["a.word"].mean) < 0.05
    assert importances(space, tried[:5], perplexities[:5]) == []
    assert importances(space, tried, [3.0] * 40) == []


@pytest.mark.slow
def test_watching_stops_and_resumes_inside_a_trial(base, tmp_path):
    folder, settings, found = base
    with pytest.raises(StopError):
        tune(settings, tmp_path / "s", trials=3, space=folder / "space.toml", watch=stop_at(5))
    with pytest.raises(InputError, match="has no finished trial yet; give its tune command again"):
        read_study(tmp_path / "s")
    assert table(tune(settings, tmp_path / "s", trials=3, space=folder / "space.toml")) == table(found)[:3]

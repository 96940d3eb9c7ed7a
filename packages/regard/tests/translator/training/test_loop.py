"""Training: a function of settings, data and seed; it learns; and it never writes over anything."""

from __future__ import annotations

import itertools
import json
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.errors import CouldNotFindOut, InputError
from regard.translator.data.vocabulary import read_vocabularies
from regard.translator.models.run import load_run
from regard.translator.models.weights import read_weights, write_weights
from regard.translator.runs.files import lock_folder, read_json
from regard.translator.runs.records import append_log, log_entries, rewind_log
from regard.translator.runs.settings import TrainingSettings
from regard.translator.training import loop
from regard.translator.training.loop import Epoch, Step, deterministic_algorithms, learning_rate, prepare, train
from toy_translator import WORDS, StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus") / "toy")


@pytest.mark.parametrize("changes", [[], ["dropout=0.2", "batching=equal-length", "smoothing=0.1", "clip=1"]])
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(data, tmp_path, changes):
    settings = tiny(data, *changes)
    first, second = (train(settings, tmp_path / name) for name in "ab")
    assert same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert same(weights(tmp_path / "a", "best"), weights(tmp_path / "b", "best"))
    assert [e.perplexity for e in first.epochs] == [e.perplexity for e in second.epochs]
    train(settings.with_changes(["seed=1"]), tmp_path / "c")
    assert not same(weights(tmp_path / "a"), weights(tmp_path / "c"))


@pytest.mark.slow
@pytest.mark.nightly
def test_it_learns_what_one_layer_can(data, tmp_path):
    settings = tiny(data, "epochs=30", "learning_rate=0.01", "schedule=cosine", "warmup=10")
    result = train(settings, tmp_path / "run")
    assert result.best.perplexity < 1.3
    assert result.best.perplexity < result.best.perplexity_without_sos
    run = load_run(tmp_path / "run")
    assert run.translate(["der rote hund sieht ein"]).target == ["the red dog sees a"]
    assert run.facts["epoch"] == result.best.epoch


def test_everything_is_recorded(data, tmp_path):
    seen: list[Step | Epoch] = []
    settings = tiny(data)
    result = train(settings, tmp_path / "run", watch=seen.append, command="regard translator train x")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["fingerprint"] == prepare(settings).corpus.fingerprint == result.fingerprint
    assert about["versions"]["torch"] == torch.__version__.split("+")[0] or "torch" in about["versions"]
    assert (about["seed"], about["command"]) == (0, "regard translator train x")
    assert about["parameters"] == result.parameters > 1000
    assert load_run(tmp_path / "run").settings == settings
    steps = [event for event in seen if isinstance(event, Step)]
    assert [s.step for s in steps] == list(range(1, 19))
    assert steps[-1].steps == 18
    assert steps[-1].seconds_left == 0
    assert [e for e in seen if isinstance(e, Epoch)] == result.epochs
    assert [e["epoch"] for e in log_entries(tmp_path / "run" / "log.jsonl")] == [1, 2]
    assert "Best validation perplexity" in str(result)
    assert result.to_dict()["best"]["epoch"] == result.best.epoch


@pytest.mark.slow
def test_a_finished_run_knows_what_it_is_used_to(data, tmp_path):
    settings = tiny(data, "epochs=30", "learning_rate=0.01", "schedule=cosine", "warmup=10")
    with pytest.raises(StopError):
        train(settings, tmp_path / "run", watch=stop_at(25))
    assert not (tmp_path / "run" / "usual.json").exists()
    train(settings, tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert {"der", "rote", "hund"} <= run.usual.words
    assert 0.5 < run.usual.least < 1
    known, odd = ("der rote hund sieht ein", "der rote hund sieht quarks")
    assert run.translate([known]).doubts == []
    assert "a probability of" in run.translate([odd]).doubts[0]
    before = (tmp_path / "run" / "usual.json").read_bytes()
    (tmp_path / "run" / "usual.json").write_bytes(before.replace(b"hund", b"mund", 1))
    with pytest.raises(InputError, match=r"usual\.json is damaged"):
        load_run(tmp_path / "run")
    (tmp_path / "run" / "usual.json").unlink()
    assert load_run(tmp_path / "run").usual.words == frozenset()


def test_the_first_loss_is_the_one_before_any_step(data, tmp_path):
    """An oracle for the loop: with a rate of almost 0 the epoch's loss is the untouched model's."""
    settings = tiny(data, "learning_rate=1e-12", "epochs=1")
    result = train(settings, tmp_path / "run")
    from regard.translator.models.encoder import build_model
    from regard.translator.scoring.scores import perplexity

    prepared = prepare(settings)
    model = build_model(settings, len(prepared.source), len(prepared.target))
    assert math.exp(result.epochs[0].training_loss) == pytest.approx(
        perplexity(model, prepared.train).counting_sos, rel=1e-5
    )


def test_nothing_is_overwritten(data, tmp_path):
    settings, run = tiny(data), tmp_path / "run"
    train(settings, run)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(InputError, match=r"The run in .*run is finished; score it, or give another --out"):
        train(settings, run)
    with pytest.raises(
        InputError, match=r"other settings \(asked for, there: model\.width: 8, 16; training\.seed: 3, 0\)"
    ):
        train(settings.with_changes(["width=8", "seed=3"]), run)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match=r"mine exists and is not a run of ours; give another --out\."):
        train(settings, tmp_path / "mine")
    with pytest.raises(InputError, match=r"thesis\.tex exists and is not a run|cannot be made"):
        train(settings, tmp_path / "mine" / "thesis.tex")
    assert before == {path.name: path.read_bytes() for path in run.iterdir()}
    (tmp_path / "empty").mkdir()
    train(settings, tmp_path / "empty")  # an empty folder is welcome


def test_the_time_that_is_left_is_at_the_pace_of_this_process(data, tmp_path, monkeypatch):
    """A run that stood still on a busy machine is not said to take hours more on an idle one."""
    settings, ticks = tiny(data, "save_every=3"), itertools.count(step=1000.0)
    slow = SimpleNamespace(process_time=time.process_time, monotonic=lambda: next(ticks))
    with monkeypatch.context() as patch:
        patch.setattr(loop, "time", slow)
        with pytest.raises(StopError):
            train(settings, tmp_path / "run", watch=stop_at(6))
    seen: list[Step | Epoch] = []
    train(settings, tmp_path / "run", watch=seen.append)
    steps = [event for event in seen if isinstance(event, Step)]
    assert steps[0].step == 7
    assert 0 < steps[0].seconds_left < 1000  # the slow part took more than 1,000 seconds a step


def test_the_time_that_is_left_goes_by_the_last_minutes(data, tmp_path, monkeypatch):
    """Six steps of 1,000 seconds on a busy machine, then steps of 30: after three minutes only these count."""
    now, seen = [0.0], []

    def watch(event: Step | Epoch) -> None:
        if isinstance(event, Step):
            seen.append(event)
            now[0] += 1000.0 if event.step < 6 else 30.0

    monkeypatch.setattr(loop, "time", SimpleNamespace(process_time=time.process_time, monotonic=lambda: now[0]))
    train(tiny(data), tmp_path / "run", watch=watch)
    left = {event.step: event.seconds_left for event in seen}
    assert left[6] == 1000.0 * 12
    assert left[7] == 1030 / 2 * 11  # since the last mark that is three minutes old or more
    assert [left[step] for step in range(12, 19)] == [30.0 * (18 - step) for step in range(12, 19)]


def test_other_data_in_the_same_place_is_not_the_same_run(tmp_path):
    data = write_corpus(tmp_path / "toy")
    with pytest.raises(StopError):
        train(tiny(data), tmp_path / "run", watch=stop_at(5))
    with open(data / "train.de", "a") as source, open(data / "train.en", "a") as target:
        source.write("hund\n")
        target.write("dog\n")
    with pytest.raises(InputError, match=r"run holds a run on other data than .*toy has now; give another --out"):
        train(tiny(data), tmp_path / "run")


def test_two_processes_cannot_train_in_one_folder(data, tmp_path):
    with pytest.raises(StopError):
        train(tiny(data), tmp_path / "run", watch=stop_at(5))
    with (
        lock_folder(tmp_path / "run"),
        pytest.raises(InputError, match=r"Another process is training in .*run; wait for it"),
    ):
        train(tiny(data), tmp_path / "run")
    train(tiny(data), tmp_path / "run")


def test_a_loss_that_explodes_is_told(data, tmp_path):
    with pytest.raises(
        CouldNotFindOut, match=r"The training loss is (nan|inf) at step \d+; lower training\.learning_rate"
    ):
        train(tiny(data, "learning_rate=1e38"), tmp_path / "run")


def test_threads_and_determinism_are_put_back():
    with deterministic_algorithms(2):
        assert torch.get_num_threads() == 2
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_run_opens_without_its_vector_file(data, tmp_path):
    file = tmp_path / "vectors.txt"
    draw = np.random.default_rng(0)
    file.write_text("".join(f"{w} {' '.join(f'{x:.4f}' for x in draw.standard_normal(9))}\n" for w in list(WORDS)[:4]))
    for frozen in ("true", "false"):
        settings = tiny(data, f"embedding.source=glove:{file}", f"frozen={frozen}")
        said: list[str] = []
        result = train(settings, tmp_path / frozen, say=said.append)
        assert f"Source glove:{file}: vectors of 9 numbers for 4 of 7 words (57.1% of types, " in said[-1]
        about = json.loads((tmp_path / frozen / "run.json").read_text())
        assert about["vectors"]["source"]["types_covered"] == 4
        assert len(about["vectors"]["source"]["sha256"]) == 64
        assert result.best.perplexity > 1
    file.unlink()
    for frozen in ("true", "false"):
        assert len(load_run(tmp_path / frozen).translate(["ein hund"]).target) == 1


def test_pairs_of_too_many_pieces_are_told_of(data):
    """The corpus counts words, a run its own tokens."""
    data = prepare(tiny(data, "vocabulary.kind=bpe", "vocabulary.size=30"))
    lost = len(data.corpus.train) - len(data.train)
    assert 0 < lost < 60
    assert f"{lost} training pairs have too many tokens for data.longest and are left out." in data.remarks()


def test_a_run_that_does_not_describe_itself_is_left_alone(data, tmp_path):
    with pytest.raises(StopError):
        train(tiny(data), tmp_path / "run", watch=stop_at(5))
    (tmp_path / "run" / "run.json").write_text("[]")
    with pytest.raises(InputError, match=r"run\.json does not describe a run; restore it from a copy"):
        train(tiny(data), tmp_path / "run")
    (tmp_path / "run" / "vocabulary.json").write_text('{"source": 3, "target": 4}')
    with pytest.raises(InputError, match=r"vocabulary\.json is damaged: A saved vocabulary must say its kind"):
        read_vocabularies(tmp_path / "run")


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_the_rate_rises_then_follows_its_schedule(schedule):
    s = TrainingSettings(learning_rate=3.0, warmup=10, schedule=schedule)
    rates = [learning_rate(i, 110, s) for i in range(110)]
    assert rates[9] == rates[10] == 3.0
    np.testing.assert_allclose(np.diff(rates[:10]), 0.3)
    end = {"constant": 3.0, "linear": 0.03, "cosine": 3 * (1 + math.cos(0.99 * math.pi)) / 2}[schedule]
    assert rates[-1] == pytest.approx(end)
    assert rates[60] == pytest.approx(3.0 if schedule == "constant" else 1.5)


def test_weights_and_facts_come_back(tmp_path):
    tensors = {"a": torch.randn(3, 5), "b": torch.arange(7)}
    write_weights(tmp_path / "w.safetensors", tensors, {"step": 3, "best": math.inf})
    found, header = read_weights(tmp_path / "w.safetensors")
    assert same(found, tensors)
    assert header.facts == {"step": 3, "best": math.inf}


@pytest.mark.parametrize("keep", [0, 7, 8, 100, -1])
def test_a_checkpoint_cut_anywhere_is_named(tmp_path, keep):
    path = tmp_path / "w.safetensors"
    write_weights(path, {"a": torch.randn(3, 5)}, {})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"w\.safetensors is damaged, cut short, or not ours \(.*\); restore it"):
        read_weights(path)


def test_the_log_survives_a_torn_line_and_can_be_rewound(tmp_path):
    log = tmp_path / "log.jsonl"
    rewind_log(log, step=0, epoch=1)
    assert not log.exists()
    entries = [{"step": 1}, {"step": 2}, {"event": "epoch", "epoch": 1, "step": 2}, {"step": 3}]
    for entry in entries:
        append_log(log, entry)
    with open(log, "ab") as stream:
        stream.write(b'{"step": 4, "lo')
    assert log_entries(log) == entries
    rewind_log(log, step=2, epoch=2)
    assert log_entries(log) == entries[:3]
    rewind_log(log, step=2, epoch=1)  # stopped between the end of the epoch and the checkpoint that says so
    assert log_entries(log) == entries[:2]
    rewind_log(log, step=0, epoch=1)
    assert log.read_bytes() == b""


def test_damaged_runs_are_named(data, tmp_path):
    run = tmp_path / "run"
    train(tiny(data), run)
    with pytest.raises(
        InputError,
        match=r"There is no run folder .*nowhere; give the one that train wrote, or example, which is ours\.",
    ):
        load_run(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"There is no .*run\.json: .* is not a run"):
        load_run(tmp_path)
    with pytest.raises(InputError, match=r"weights must be best or last, not 'first'\."):
        load_run(run, weights="first")
    words = read_json(run / "vocabulary.json")
    (run / "vocabulary.json").write_text(
        json.dumps(words | {"target": words["target"] | {"words": words["target"]["words"][:-1]}})
    )
    with pytest.raises(
        InputError, match=r"does not fit this run's settings and vocabulary: output\.linear\.bias has shape"
    ):
        load_run(run)
    (run / "vocabulary.json").write_text("{}")
    with pytest.raises(InputError, match=r"vocabulary\.json needs a source and a target vocabulary"):
        load_run(run)
    (run / "vocabulary.json").write_text("{")
    with pytest.raises(InputError, match=r"vocabulary\.json is damaged"):
        load_run(run)

"""A model too large for the machine is one sentence, before any memory is asked for."""

from __future__ import annotations

import pytest

from regard.errors import InputError
from regard.translator.models import weights as module
from regard.translator.models.encoder import build_model
from regard.translator.models.weights import check_size, count_parameters, fewest_weights
from regard.translator.runs.settings import Settings, load_settings
from regard.translator.training.loop import train
from toy_translator import tiny, write_corpus


@pytest.mark.parametrize("config", ["coursework", "good"])
def test_the_estimate_is_below_and_near_the_truth(config):
    settings = load_settings(config)
    words = (1009, 1009) if settings.model.tied else (1009, 811)
    true = count_parameters(build_model(settings, *words))
    assert 0.9 * true < fewest_weights(settings, *words) <= true


@pytest.mark.parametrize("change", ["width=1000000000", "feed_forward=2000000000", "heads=999999999"])
def test_what_does_not_fit_is_refused_at_once(tmp_path, change):
    settings = tiny(write_corpus(tmp_path / "toy"), change)
    with pytest.raises(InputError, match=r"The model of these settings has [\d,]+ weights or more, which take .* GB"):
        train(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_fits_is_not(monkeypatch):
    weights = fewest_weights(Settings(), 100, 100)
    monkeypatch.setattr(module, "machine_memory", lambda: 4 * 3 * weights)
    check_size(Settings(), 100, 100, copies=3)
    with pytest.raises(InputError, match=r"make model\.width, model\.feed_forward or the layers smaller"):
        check_size(Settings(), 100, 100, copies=4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("dropout=0.999", "model.dropout must be a number from 0 to 0.996, not 0.999"),
        ("dropout=1.0", "model.dropout must be a number from 0 to 0.996, not 1.0"),
        ("threads=100000", "training.threads must be a whole number from 1 to 1024, not 100000"),
        (f"epochs={10**18}", "training.epochs must be 2147483647 or less"),
        (f"epochs={10**400}", r"training.epochs must be a whole number of 1 or more, not '10{37}\.\.\.\.$"),
        ("learning_rate=1e400", "training.learning_rate must be a finite number"),
        (f"learning_rate={10**400}", r"training.learning_rate must be a number above 0, not '10{37}\.\.\.\.$"),
    ],
)
def test_numbers_at_the_end_of_their_range(change, message):
    with pytest.raises(InputError, match=message):
        Settings().with_changes([change])


def test_the_largest_dropout_trains(tmp_path):
    train(tiny(write_corpus(tmp_path / "toy"), "dropout=0.996", "epochs=1"), tmp_path / "run")

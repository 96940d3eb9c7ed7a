"""What an epoch trains on: the pairs, and in the first epochs, where it is asked for, their mirror images too."""

from __future__ import annotations

import pytest
import torch

from regard.errors import InputError
from regard.translator.data.batches import epoch_plan
from regard.translator.data.vocabulary import PAD
from regard.translator.models.run import load_run
from regard.translator.scoring.scores import perplexity
from regard.translator.training.budget import cpu_seconds_a_run
from regard.translator.training.loop import prepare, train
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

PIECES = ["vocabulary.kind=bpe", "vocabulary.size=40", "vocabulary.joint=true", "data.longest=12"]
DEEP = ["model.kind=encoder-decoder", "decoder_layers=1", "tied=true"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("both") / "toy")


def rows(table):
    return [[i for i in row if i != PAD] for row in table.tolist()]


def test_the_first_epochs_have_every_pair_in_both_directions_and_the_others_do_not(data):
    settings = tiny(data, *PIECES, "both_directions=1", "epochs=3")
    prepared = prepare(settings)
    both, later = (prepared.epoch(number, settings.training) for number in (1, 2))
    pairs = list(zip(rows(prepared.train.source), rows(prepared.train.target), strict=True))
    assert later is prepared.train
    assert list(zip(rows(both.source), rows(both.target), strict=True)) == pairs + [(t, s) for s, t in pairs]
    assert both.source_lengths.tolist() == [len(s) for s in rows(both.source)]
    assert both.target_lengths.tolist() == [len(t) for t in rows(both.target)]
    # one direction has longer sentences than the other, so the count tells which is which
    assert prepared.train.target_tokens != sum(len(s) for s, _ in pairs)
    assert prepared.target_tokens(settings.training) == 3 * prepared.train.target_tokens + sum(len(s) for s, _ in pairs)


def test_sources_of_both_directions_are_cut_anew_and_targets_of_neither(data):
    settings = tiny(data, *PIECES, "both_directions=2", "piece_dropout=0.4")
    prepared = prepare(settings)
    count = len(prepared.train)
    first, second = (prepared.epoch(number, settings.training) for number in (1, 2))
    for one, other in ((first, second), (first, prepared.train.followed_by(prepared.train.backwards()))):
        assert rows(one.target) == rows(other.target)
        assert rows(one.source)[:count] != rows(other.source)[:count]
        assert rows(one.source)[count:] != rows(other.source)[count:]


@pytest.mark.parametrize("pieces", ["piece_dropout=0.0", "piece_dropout=0.3"])
def test_a_run_takes_the_steps_of_its_plans_and_a_resumed_one_ends_with_the_same_bits(data, tmp_path, pieces):
    settings = tiny(data, *PIECES, *DEEP, pieces, "both_directions=1", "dropout=0.2")
    prepared, steps = prepare(settings), []
    plans = [epoch_plan(prepared.epoch(e, settings.training), settings, e) for e in (1, 2)]
    result = train(settings, tmp_path / "whole", watch=lambda event: steps.append(event.step))
    assert steps[-1] == sum(map(len, plans))
    assert len(plans[0]) > len(plans[1])
    assert "Trained 2 epochs (the first 1 backwards too) of" in str(result)
    assert result.rate == pytest.approx(prepared.target_tokens(settings.training) / result.cpu_seconds)
    with pytest.raises(StopError):
        train(settings, tmp_path / "stopped", watch=stop_at(len(plans[0]) - 2))
    train(settings, tmp_path / "stopped")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))


def test_what_it_learns_backwards_it_knows(data, tmp_path):
    told = {}
    for both in (0, 30):
        settings = tiny(data, "vocabulary.joint=true", "learning_rate=0.01", "epochs=30", f"both_directions={both}")
        train(settings, tmp_path / str(both))
        backwards = prepare(settings).validation.backwards()
        told[both] = perplexity(load_run(tmp_path / str(both)).model, backwards).without_sos
    assert told[30] < 1.5
    assert told[0] > 5


def test_more_epochs_in_both_directions_than_there_are_are_all_of_them(data):
    settings = tiny(data, *PIECES, "both_directions=9")
    prepared = prepare(settings)
    assert prepared.target_tokens(settings.training) == 2 * prepared.epoch(2, settings.training).target_tokens
    assert cpu_seconds_a_run(settings, prepared) > 0


def test_two_vocabularies_are_refused(data):
    with pytest.raises(InputError, match=r"both_directions needs one vocabulary for both languages; set voc"):
        tiny(data, "both_directions=1")

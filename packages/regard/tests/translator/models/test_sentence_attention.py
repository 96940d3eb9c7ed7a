"""Run.attention: the rows are the translation, the columns the source, the numbers the model's own."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.translator import load_run, train
from regard.translator.data.vocabulary import EOS, SOS
from toy_translator import tiny, write_corpus

KINDS = {
    "encoder": [],
    "encoder-decoder": ["layers=1", "decoder_layers=2"],
}


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    data = write_corpus(folder / "toy", 40)
    train(tiny(data, f"model.kind={request.param}", *KINDS[request.param], "epochs=1"), folder / "run")
    return load_run(folder / "run")


def test_it_is_what_the_model_reads(run):
    sentence = "der rote hund sieht"
    read = run.attention(sentence)
    layers = 1 if run.settings.model.kind == "encoder" else 2
    ids = torch.tensor([[SOS, *run.source.encode(sentence), EOS]])
    with torch.no_grad():
        written, expected = run.model.translate(ids)[0][0], run.model.attention(ids)[0].numpy()
    assert read.weights.shape == (layers, 2, len(read.rows), 6)
    np.testing.assert_array_equal(read.weights, expected[:, :, : len(read.rows), :6])
    assert read.columns == ["<sos>", "der", "rote", "hund", "sieht", "<eos>"]
    assert read.rows == ["<sos>", *(run.target.words[i] for i in written), "<eos>"][: expected.shape[2]]
    assert read.target == run.translate([sentence]).target[0]
    assert read.log_probability == pytest.approx(run.translate([sentence]).log_probability[0], abs=1e-5)
    sums = read.weights.sum(3)
    given = run.settings.model.kind == "encoder-decoder"  # its <sos> is not said
    np.testing.assert_allclose(sums[:, :, 1:] if given else sums, 1, atol=1e-5)
    assert not given or not read.weights[:, :, 0].any()


def test_it_prints_and_goes_to_json(run):
    read = run.attention("der hund")
    assert str(read).startswith(f"{read.target}\nMost read, on average over ")
    assert f"{read.rows[-1]} reads {read.columns[int(read.weights.mean((0, 1))[-1].argmax())]} (" in str(read)
    assert np.array_equal(np.array(json.loads(read.to_json())["weights"], np.float32), read.weights)


def test_long_sentences_are_refused_or_cut(run):
    with pytest.raises(InputError, match="has 7 tokens and this run reads at most 6"):
        run.attention("der " * 7)
    read = run.attention("der " * 7, cut=True)
    assert read.cut
    assert len(read.columns) == 8
    with pytest.raises(InputError, match="Sentence 1 is empty"):
        run.attention(" ")

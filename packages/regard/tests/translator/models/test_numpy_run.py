"""The package's own translator in NumPy against the same one in torch."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from regard.errors import InputError
from regard.translator import load_run
from regard.translator.data.sources import fresh_pairs
from regard.translator.models.sentence_attention import load_numpy_run
from regard.translator.runs.files import FOLDER

ROUNDING = 2e-5  # float32 through some hundred products and sums, several tokens added up; 3e-6 was seen


@pytest.mark.slow
def test_the_same_words_numbers_and_weights_as_torch():
    ours, theirs = load_numpy_run(FOLDER), load_run("example")
    odd = ["der zweifellos", "?", "der hund " * 20]  # an unknown word, a single mark, longer than it was trained for
    for sentence in [*fresh_pairs(12).source, *odd]:
        mine, said = (run.attention(sentence, cut=True) for run in (ours, theirs))
        assert (mine.target, mine.rows, mine.columns, mine.cut) == (said.target, said.rows, said.columns, said.cut)
        assert mine.log_probability == pytest.approx(said.log_probability, abs=ROUNDING)
        assert mine.weights.shape == said.weights.shape
        assert np.abs(mine.weights - said.weights).max() < ROUNDING


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(InputError, match="Sentence 1 is empty"):
        load_numpy_run(FOLDER).attention("  ")
    with pytest.raises(InputError, match="this run reads at most 24"):
        load_numpy_run(FOLDER).attention("der " * 25)
    folder = shutil.copytree(FOLDER, tmp_path / "run")
    settings = (folder / "settings.toml").read_text()
    (folder / "settings.toml").write_text(settings.replace('positions = "sinusoidal"', 'positions = "learned"'))
    with pytest.raises(InputError, match="is of a kind that needs torch"):
        load_numpy_run(folder)

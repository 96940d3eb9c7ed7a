"""Comparisons and searches of somebody's own model: its input table is exchanged, its constructor's sizes are tried."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
import torch

from regard.errors import InputError
from regard.translator.models.embeddings import Vectors
from regard.translator.models.own_translator import build_own, load_code, taken_settings
from regard.translator.models.run import load_run
from regard.translator.runs.records import read_record
from regard.translator.studies.comparison import compare
from regard.translator.studies.space import load_space
from regard.translator.studies.tuning import tune
from regard.translator.training.loop import train
from toy_translator import tiny, weights, write_corpus

torch.set_num_threads(1)

MINE = """
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Usual(nn.Module):
        def __init__(self, input_size, output_size, hidden_dim=16, num_heads=2, max_length=43, squash="none"):
            super().__init__()
            self.squash = {"none": lambda x: x, "relu": torch.relu, "tanh": torch.tanh}[squash]
            if hidden_dim % num_heads:
                raise ValueError("heads do not divide the width")
            self.words, self.places = nn.Embedding(input_size, hidden_dim), nn.Embedding(max_length, hidden_dim)
            self.look = nn.MultiheadAttention(hidden_dim, num_heads, batch_first=True)
            self.norm, self.out = nn.LayerNorm(hidden_dim), nn.Linear(hidden_dim, output_size)
        def forward(self, ids):
            x = self.words(ids) + self.places.weight[: ids.shape[1]]
            return self.out(self.norm(x + self.squash(self.look(x, x, x)[0])))

    class ByHand(nn.Module):
        '''No nn.Embedding: one-hot rows times a matrix whose columns are the words.'''
        def __init__(self, source_words, target_words, d_model):
            super().__init__()
            self.first, self.out = nn.Linear(source_words, d_model, bias=False), nn.Linear(d_model, target_words)
            self.count = source_words
        def forward(self, ids):
            return self.out(self.first(F.one_hot(ids, self.count).to(self.out.weight)))

    class TwoTables(Usual):
        def __init__(self, input_size, output_size, hidden_dim=16, num_heads=2, max_length=43):
            super().__init__(input_size, output_size, hidden_dim, num_heads, max_length)
            self.more = nn.Embedding(input_size, hidden_dim)
        def forward(self, ids):
            return super().forward(ids) + self.out(self.more(ids))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("studies") / "toy")


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(textwrap.dedent(MINE))
    return path


def own(data, *changes):
    return tiny(data, "model.kind=own", "epochs=1", *changes)


def some_vectors(words: int, width: int) -> Vectors:
    rows = np.random.default_rng(0).standard_normal((words, width)).astype(np.float32)
    covered = np.arange(words) >= 7
    return Vectors(
        spec="glove:x", width=width, types=words, types_covered=3, tokens=9, tokens_covered=3, missing=[],
        _matrix=rows, _covered=covered,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "table", "across"), [("Usual", "words.weight", False), ("ByHand", "first.weight", True)]
)
@pytest.mark.parametrize("width", [16, 5])
def test_the_input_table_is_found_by_what_it_does_and_read_in_its_place(data, mine, name, table, across, width):
    code, vectors = load_code(f"{mine}:{name}"), some_vectors(11, width)
    model = build_own(code, own(data, "frozen=true"), 11, 13, vectors=vectors).eval()
    assert (model.table, model.across) == (table, across)
    ids = torch.randint(4, 11, (2, 8))
    # by hand: the same weights with the projected vectors written into the table
    other = build_own(code, own(data), 11, 13).eval()
    rows = model.exchange.projection(model.exchange.table()).detach()
    assert width != 16 or torch.equal(rows[7:], torch.from_numpy(vectors.matrix)[7:])
    with torch.no_grad():
        other.inner.get_parameter(table).copy_(rows.T if across else rows)
        assert torch.equal(other(ids), model(ids))


def test_frozen_rows_stay_and_others_are_trained_and_the_run_opens(data, mine, tmp_path):
    code = load_code(f"{mine}:Usual")
    words = ("embedding.source=word2vec:train", "frozen=true", "learning_rate=0.01")
    train(own(data, *words), tmp_path / "run", own=code)
    last = weights(tmp_path / "run")
    free = last["model.exchange.is_free"].flatten().bool()
    assert free.tolist() == [True] * 4 + [False] * 7  # the markers alone have no vector
    opened = load_run(tmp_path / "run", own=code)
    fixed = build_own(code, opened.settings, 11, 11, vectors=some_vectors(11, 16)).exchange
    assert fixed is not None
    assert opened.model.exchange.table()[~free].equal(last["model.exchange.fixed"][~free])
    record = read_record(tmp_path / "run")
    assert record.about["vectors"]["source"]["spec"] == "word2vec:train"
    assert not opened.model.inner.get_parameter("words.weight").requires_grad


def test_two_tables_have_to_be_told_apart_in_the_file(data, mine, tmp_path):
    code = load_code(f"{mine}:TwoTables")
    with pytest.raises(
        InputError, match=r"2 input tables \(words\.weight, more\.weight\); say in the file .*REGARD = "
    ):
        build_own(code, own(data), 11, 13, vectors=some_vectors(11, 16))
    said = tmp_path / "said.py"
    said.write_text(mine.read_text() + '\nREGARD = {"embedding": "more.weight"}\n')
    assert (
        build_own(load_code(f"{said}:TwoTables"), own(data), 11, 13, vectors=some_vectors(11, 16)).table
        == "more.weight"
    )
    with pytest.raises(InputError, match=r"has no table 'more\.weight' with a row for each of the 11 source words"):
        build_own(load_code(f"{said}:Usual"), own(data), 11, 13, vectors=some_vectors(11, 16))


@pytest.mark.slow
def test_embeddings_are_compared_in_somebodys_model(data, mine, tmp_path):
    code = load_code(f"{mine}:Usual")
    variants = ["learned", "word2vec:train", "word2vec:train+frozen=true"]
    got = compare(own(data), variants, tmp_path / "out", seeds=2, own=code)
    assert [e.name for e in got.entries] == variants
    learned, trained, frozen = (read_record(e.runs[0]) for e in got.entries)
    assert trained.about["parameters"] == learned.about["parameters"]  # the table that it stands for is not counted
    assert frozen.about["parameters"] == learned.about["parameters"] - 7 * 16
    edited = mine.with_name("edited.py")
    edited.write_text(mine.read_text() + "\n# another file\n")
    with pytest.raises(InputError, match="was trained with another"):
        compare(own(data), variants, tmp_path / "out", seeds=2, own=load_code(f"{edited}:Usual"))
    with pytest.raises(InputError, match="has its own positions"):
        compare(own(data), ["learned", "positions=none"], tmp_path / "no", own=code)
    with pytest.raises(
        InputError, match=r"embedding\.target is 'word2vec:train', which is not for a model of your own"
    ):
        compare(own(data), ["target=word2vec:train"], tmp_path / "no", own=code)


def test_the_space_is_what_the_constructor_takes(data, mine, tmp_path):
    settings, code = own(data), load_code(f"{mine}:Usual")
    taken = taken_settings(settings, code)
    assert taken == {"model.width", "model.heads", "embedding.source", "embedding.frozen", "arguments.squash"}
    space = load_space(None, settings, taken=taken)
    assert [k for k in space.entries if k.startswith(("model.", "embedding."))] == [
        "embedding.source",
        "model.width",
        "model.heads",
    ]
    assert "training.learning_rate" in space.entries
    (tmp_path / "space.toml").write_text("[model]\nfeed_forward = [8, 16]\n[arguments]\nsquash = 3\nsqueeze = [1]\n")
    with pytest.raises(InputError) as refused:
        load_space(tmp_path / "space.toml", settings, taken=taken)
    assert "model.feed_forward cannot be searched: your model takes arguments.squash, embed" in str(refused.value)
    assert "arguments.squash needs a list of one choice or more, not 3." in str(refused.value)
    assert "arguments.squeeze cannot be searched" in str(refused.value)
    with pytest.raises(InputError, match=r"takes no argument 'squeeze', which model\.arguments gives"):
        taken_settings(own(data, 'model.arguments={"squeeze": 1}'), code)


@pytest.mark.slow
def test_a_search_tries_sizes_and_survives_those_that_do_not_fit(data, mine, tmp_path):
    space = tmp_path / "space.toml"
    # 4 heads fit neither width
    space.write_text('[model]\nwidth = [18, 22]\nheads = [2, 4]\n[arguments]\nsquash = ["relu", "tanh"]\n')

    def search(code, **how):
        return tune(own(data), tmp_path / "study", space=space, own=code, pruner="none", **how)

    got = search(load_code(f"{mine}:Usual"), trials=8, confirm=2)
    refused = [t for t in got.trials if t.state == "failed"]
    assert {t.changes["model.heads"] for t in refused} == {4}
    assert all(t.changes["model.heads"] == 2 for t in got.trials if t.state == "complete")
    assert "heads do not divide the width" in refused[0].reason
    assert f"--model {mine}:Usual" in got.command
    squash = got.best.changes["arguments.squash"]
    trained = read_record(tmp_path / "study" / "trials" / f"{got.best.number:04d}").settings
    assert trained.model.arguments == f'{{"squash": "{squash}"}}'
    assert len({t.changes["arguments.squash"] for t in got.trials}) == 2
    edited = mine.with_name("edited.py")
    edited.write_text(mine.read_text() + "\n# another file\n")
    with pytest.raises(InputError, match="another file of yours"):
        search(load_code(f"{edited}:Usual"), trials=9)

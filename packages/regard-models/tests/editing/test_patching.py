"""Ablation and patching against loops written by hand, and the commands around them."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from torch import nn  # noqa: E402

from attention_zoo import torch_layers  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import ablate, patch  # noqa: E402
from regard_models.editing.head_edits import edit  # noqa: E402
from regard_models.editing.patching import Effects, read_heads  # noqa: E402


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch_layers._encoder()[0]


@pytest.fixture
def inputs():
    drawn = torch.Generator().manual_seed(5)
    return [torch.randn(2, 7, 20, generator=drawn) for _ in range(2)]


def raises(message):
    return pytest.raises(InputError, match="^" + re.escape(message) + "$")


def without_head(model, layer, head, words):
    """The same model with the columns of the output projection that read one head set to zero."""
    weight = model.layers[layer].self_attn.out_proj.weight
    with torch.no_grad():
        kept = weight.clone()
        weight[:, 5 * head : 5 * head + 5] = 0
        out = model(words)
        weight.copy_(kept)
    return out.double()


def test_ablation_by_zero(model, inputs):
    found = ablate(model, inputs[0])
    with torch.no_grad():
        usual = model(inputs[0]).double()
    assert found.effects.shape == (2, 4)
    for layer in range(2):
        for head in range(4):
            moved = (without_head(model, layer, head, inputs[0]) - usual).norm() / usual.norm()
            assert found.effects[layer, head] == pytest.approx(float(moved), rel=1e-4)


def test_a_metric_and_some_layers(model, inputs):
    found = ablate(model, inputs[0], by="mean", layers=[1], metric=lambda out: out.sum())
    with torch.no_grad():
        usual = float(model(inputs[0]).sum())
    with torch.no_grad(), edit(model, layer=1, head=3, mean=True):
        changed = float(model(inputs[0]).sum())
    assert found.layers == (1,)
    assert found.effects[0, 3] == pytest.approx(changed - usual, abs=1e-5)


@pytest.mark.parametrize("what", ["output", "pattern"])
def test_patching(model, inputs, what):
    clean, corrupted = inputs
    found = patch(model, clean, corrupted, what=what)
    with torch.no_grad():
        sites, good = read_heads(model, clean)
        bad = model(corrupted)
    for layer, head in ((0, 2), (1, 3)):
        given = {what: getattr(sites[layer], what)[:, [head]]}
        with torch.no_grad(), edit(model, layer=layer, head=head, **given):
            out = model(corrupted)
        way = 1 - float((out - good).norm() / (bad - good).norm())
        assert found.effects[layer, head] == pytest.approx(way, abs=1e-5)


def test_patching_everything_that_differs_restores_everything():
    """A model whose output is its attention alone: patching the only head gives the clean answer back, 1."""

    class Lone(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(6, 6) for _ in range(3))

        def forward(self, x):
            return (self.q(x) @ self.k(x).mT).softmax(-1) @ self.v(x)

    torch.manual_seed(0)
    found = patch(Lone(), torch.randn(2, 5, 6), torch.randn(2, 5, 6), metric=lambda out: float(out[0, 0, 0]))
    assert found.effects[0, 0] == pytest.approx(1, abs=1e-6)
    assert found.clean is not None
    assert found.clean != found.corrupted


def test_heads_of_different_number_leave_holes():
    class Uneven(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (nn.MultiheadAttention(12, heads, batch_first=True) for heads in (2, 3))

        def forward(self, x):
            x = x + self.first(x, x, x)[0]
            return x + self.second(x, x, x)[0]

    torch.manual_seed(0)
    found = ablate(Uneven().eval(), torch.randn(1, 5, 12))
    assert np.isnan(found.effects[0, 2])
    assert len(list(found.table())) == 5
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [(row["layer"], row["module"], row["head"]) for row in rows][:3] == [
        ("0", "first", "0"),
        ("0", "first", "1"),
        ("1", "second", "0"),
    ]
    assert float(rows[4]["effect"]) == found.effects[1, 2]
    strange = dataclasses.replace(found, modules=('=x","y', "a;=1+1"))  # a name of a module may be anything
    rows = list(csv.DictReader(io.StringIO(strange.to_csv())))
    assert [row["module"] for row in rows] == ['\'=x","y'] * 2 + ["a;'=1+1"] * 3
    assert json.loads(found.to_json())["effects"][0][2] == "nan"


def test_what_it_says(model, inputs):
    said = str(ablate(model, inputs[0]))
    assert said.startswith("TransformerEncoder: ablation by zero, 8 heads in layers 0 to 1. Effect: |changed - usual|")
    assert said.endswith("effects do not add up.")


def test_the_heat_map_has_a_cell_for_every_head():
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    found = Effects(
        name="a/very/long/path/to/a/model/that/does/not/fit", what="ablation by zero", measure="m", layers=(0, 3),
        modules=("a", "b"), effects=np.array([[0.5, -0.25, np.nan], [0.0, 1.0, 2.0]]),
    )  # fmt: skip
    figure = found.figure()
    image = figure.axes[0].images[0]
    assert np.array_equal(image.get_array().filled(np.nan), found.effects, equal_nan=True)
    assert image.get_clim() == (-2.0, 2.0)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["0", "3"]


def test_refusals(model, inputs):
    with raises("Heads are ablated by zero, mean or uniform, not by 'noise'."):
        ablate(model, inputs[0], by="noise")
    with raises("A head's output or pattern can be patched, not its 'key'."):
        patch(model, *inputs, what="key")
    with raises("There is no layer 2: 2 attention layers ran, counted from 0."):
        ablate(model, inputs[0], layers=[2])
    with raises("The clean and the corrupted input give the same result, so there is nothing to restore."):
        patch(model, inputs[0], inputs[0])
    with pytest.raises(InputError, match="must have as many tokens: layer 0 has weights of shape"):
        patch(model, inputs[0], inputs[1][:, :5])
    with raises("The metric must return one number for the model's output."):
        ablate(model, inputs[0], metric=lambda out: out)
    with raises("No attention ran inside Linear, so there is no head to edit."):
        ablate(nn.Linear(20, 3), inputs[0])


def test_a_list_of_prompts_gives_the_mean_and_its_deviation(model, inputs):
    clean, corrupted = inputs
    first, second = patch(model, clean, corrupted), patch(model, corrupted, clean)
    both = patch(model, [clean, corrupted], [corrupted, clean])
    assert both.prompts == 2
    assert both.effects == pytest.approx((first.effects + second.effects) / 2)
    assert both.spread == pytest.approx(abs(first.effects - second.effects) / 2)
    assert "mean of 2 prompts" in str(both)
    alone = [ablate(model, one).effects for one in inputs]
    assert ablate(model, list(inputs)).effects == pytest.approx(sum(alone) / 2)
    with pytest.raises(InputError, match="there are 2 and 1"):
        patch(model, [clean, corrupted], [corrupted])
    with pytest.raises(InputError, match="list of inputs is empty"):
        ablate(model, [])

"""Muon: orthogonal steps for the matrices between states, AdamW for all other weights, and nothing lost on the way."""

from __future__ import annotations

import pytest
import torch

from plain_translator import plain_adamw
from regard.errors import InputError
from regard.translator.models.encoder import build_model
from regard.translator.runs.settings import Settings
from regard.translator.training.loop import train
from regard.translator.training.optimisers import MOMENTUM, Muon, between_states, build_optimiser, orthogonal
from toy_translator import StopError, same, stop_at, tiny, weights, write_corpus

torch.set_num_threads(1)

WORDS = 30
DEEP = ["model.kind=encoder-decoder", "layers=2", "decoder_layers=1", "vocabulary.joint=true", "tied=true"]


@pytest.mark.parametrize("shape", [(16, 16), (8, 32), (32, 8), (5, 1), (1, 1)])
def test_a_step_is_nearly_the_orthogonal_matrix_of_the_decomposition(shape):
    """Against torch's SVD: the same singular vectors, and values near 1 where the gradient's are not tiny."""
    draw = torch.Generator().manual_seed(1)
    stack = torch.randn(3, *shape, generator=draw)
    u, _, v = torch.linalg.svd(stack, full_matrices=False)
    inside = u.mT @ orthogonal(stack) @ v.mT
    values = inside.diagonal(dim1=-2, dim2=-1)
    assert (inside - torch.diag_embed(values)).abs().max() < 1e-2
    largest = torch.linalg.svdvals(stack) / stack.norm(dim=(-2, -1))[:, None]
    assert values[largest > 0.02].min() > 0.6
    assert values.max() < 1.3


def test_nothing_comes_of_no_gradient():
    assert orthogonal(torch.zeros(2, 3, 4)).abs().max() == 0


def test_the_matrices_are_those_between_states():
    settings = Settings().with_changes([*DEEP, "width=8", "heads=2", "head_width=4", "feed_forward=16"])
    model = build_model(settings, WORDS, WORDS)
    chosen = {id(p) for p in between_states(model, words=WORDS)}
    names = {name for name, p in model.named_parameters() if id(p) in chosen}
    expected = {name for name, p in model.named_parameters() if ".blocks." in name and p.ndim == 2}
    assert names == expected
    assert len(names) == 2 * 6 + 10
    plain = build_model(Settings().with_changes(["width=8"]), WORDS, WORDS)
    chosen = {id(p) for p in between_states(plain, words=WORDS)}
    assert not [name for name, p in plain.named_parameters() if id(p) in chosen and "layer." not in name]


def test_a_matrix_that_is_also_a_table_of_words_is_not_between_states():
    table = torch.nn.Embedding(9, 4)
    back = torch.nn.Linear(4, 9, bias=False)
    back.weight = table.weight
    assert between_states(torch.nn.Sequential(table, back), words=7) == []


def test_computed_frozen_and_shared_weights():
    computed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))
    frozen, first, second = (torch.nn.Linear(4, 4) for _ in range(3))
    frozen.weight.requires_grad = False
    second.weight = first.weight
    assert between_states(torch.nn.Sequential(computed, frozen, first, second), words=9) == [first.weight]


def test_two_steps_by_hand():
    """The formulas, with the direction as tested above; the other weights take AdamW's steps."""
    draw = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(3, 3)
    optimiser = Muon([layer.bias], [layer.weight], lr=0.1, betas=(0.9, 0.9), weight_decay=0.5)
    matrix, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    gradients = [torch.randn(3, 3, generator=draw) for _ in range(2)]
    pushes = [torch.randn(3, generator=draw) for _ in range(2)]
    momentum = torch.zeros(3, 3)
    for gradient, push in zip(gradients, pushes, strict=True):
        layer.weight.grad, layer.bias.grad = gradient.clone(), push.clone()
        optimiser.step()
        assert torch.equal(layer.weight.grad, gradient)  # as it was
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
        (direction,) = orthogonal(((1 - MOMENTUM) * gradient + MOMENTUM * momentum)[None])
        matrix = (1 - 0.1 * 0.5) * matrix - 0.1 * 0.2 * 3**0.5 * direction
    torch.testing.assert_close(layer.weight.detach(), matrix, rtol=1e-4, atol=1e-5)
    expected = plain_adamw([bias], [pushes], 2, rate=0.1, betas=(0.9, 0.9), decay=0.5)[0]
    torch.testing.assert_close(layer.bias.detach().double(), expected, rtol=1e-4, atol=1e-6)


def test_a_weight_without_a_gradient_stays():
    layer = torch.nn.Linear(3, 3)
    optimiser = Muon([layer.bias], [layer.weight], lr=0.1, weight_decay=0.5)
    before = layer.weight.detach().clone()
    layer.bias.grad = torch.ones(3)
    optimiser.step()
    assert torch.equal(layer.weight.detach(), before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [[], DEEP])
def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path, kind):
    data = write_corpus(tmp_path / "toy", 40)
    settings = tiny(data, *kind, "optimiser=muon", "average=0.9", "save_every=3")
    train(settings, tmp_path / "whole")
    for step in (4, 8):
        with pytest.raises(StopError):
            train(settings, tmp_path / "stopped", watch=stop_at(step))
    train(settings, tmp_path / "stopped")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "stopped"))
    train(settings.with_changes(["optimiser=adamw"]), tmp_path / "adamw")
    assert not same(weights(tmp_path / "whole", "best"), weights(tmp_path / "adamw", "best"))


def test_it_is_a_choice_of_two():
    assert type(build_optimiser(Settings(), build_model(Settings(), 9, 9), words=9)) is torch.optim.AdamW
    with pytest.raises(InputError, match=r"training\.optimiser .*adamw.*muon"):
        Settings().with_changes(["optimiser=sgd"])

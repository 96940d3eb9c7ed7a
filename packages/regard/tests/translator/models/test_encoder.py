"""The model: tied to the NumPy reference, blind to padding, and the fast path equal to the plain one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812

from regard.attention import attend
from regard.translator.data.batches import Batch
from regard.translator.data.vocabulary import PAD
from regard.translator.models.embeddings import FrozenEmbedding, TokenEmbedding, Vectors
from regard.translator.models.encoder import (
    Attention,
    Dropout,
    EncoderTranslator,
    Output,
    PaddingReader,
    RotaryAttention,
    VectorOutput,
    build_model,
    pad_to_length,
    seed_dropout,
)
from regard.translator.models.losses import fused_agreement, fused_cross_entropy
from regard.translator.runs.settings import Settings

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

SOURCE, TARGET = 23, 29  # words
SMALL = ["width=12", "heads=3", "head_width=10", "feed_forward=37", "longest=15"]


def small(*changes: str) -> EncoderTranslator:
    return build_model(Settings().with_changes([*SMALL, *changes]), SOURCE, TARGET)


def sentences(
    draw: np.random.Generator, count: int, words: int, shortest: int = 3, longest: int = 17
) -> list[list[int]]:
    lengths = draw.integers(3, 18, size=count)
    return [[2, *draw.integers(4, words, size=n - 2).tolist(), 3] for n in lengths]


def some_batch(seed: int = 0, count: int = 7) -> Batch:
    draw = np.random.default_rng(seed)
    return Batch.of(sentences(draw, count, SOURCE), sentences(draw, count, TARGET))


def vectors(words: int, width: int, covered: int) -> Vectors:
    draw = np.random.default_rng(1)
    known = np.zeros(words, bool)
    known[4 : 4 + covered] = True
    return Vectors(
        spec="glove:x", width=width, types=words - 4, types_covered=covered, tokens=0, tokens_covered=0, missing=[],
        _matrix=draw.standard_normal((words, width)).astype(np.float32), _covered=known,
    )  # fmt: skip


def projected(layer: Attention, linear: nn.Linear, states: torch.Tensor) -> np.ndarray:
    """One projection in float64, (batch, heads, places, head width)."""
    weight, bias = linear.weight.detach().double().numpy(), linear.bias.detach().double().numpy()
    flat = states.double().numpy() @ weight.T + bias
    return flat.reshape(*flat.shape[:2], layer.count, layer.head_width).transpose(0, 2, 1, 3)


@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_the_reference_to_float32_rounding(masked):
    torch.manual_seed(0)
    layer = Attention(12, heads=3, head_width=10)
    slots, words = torch.randn(5, 13, 12), torch.randn(5, 7, 12)
    allowed = torch.rand(5, 1, 1, 7) < 0.6
    allowed[..., 0] = True
    mask = allowed if masked else None
    expected = attend(
        projected(layer, layer.queries, slots),
        projected(layer, layer.keys, words),
        projected(layer, layer.values, words),
        allowed=allowed.numpy() if masked else None,
        scale=10**-0.5,
    )
    heads = layer.heads(slots, words, mask).detach().numpy()
    side_by_side = expected.output.transpose(0, 2, 1, 3).reshape(5, 13, 30)
    np.testing.assert_allclose(heads, side_by_side, atol=2e-6)
    np.testing.assert_allclose(layer.weights(slots, words, mask).detach(), expected.weights, atol=2e-6)


def test_rotary_attention_sees_distance_only():
    torch.manual_seed(0)
    layer = RotaryAttention(12, heads=3, head_width=10)
    same = torch.randn(1, 1, 12).expand(1, 11, 12)
    q, k = layer.ask(same), layer.remember(same).keys
    scores = (q @ k.transpose(2, 3))[0].detach()
    for offset in range(-10, 11):
        diagonal = scores.diagonal(offset, dim1=1, dim2=2)
        torch.testing.assert_close(diagonal, diagonal[:, :1].expand_as(diagonal), atol=1e-5, rtol=1e-5)
    assert (scores[:, 0, 0] - scores[:, 0, 5]).abs().min() > 1e-3
    with_learned = small("positions=rotary")
    assert isinstance(with_learned.layer.attention, RotaryAttention)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
def test_padding_changes_nothing(positions):
    """The scores of a sentence are the same alone, in a batch, and padded to any length."""
    model, batch = small(f"positions={positions}", "longest=41"), some_batch()
    whole = model(batch.source, 17)
    for row, ids in enumerate(batch.source):
        alone = model(ids[ids != PAD][None], 17)
        torch.testing.assert_close(whole[row : row + 1], alone, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(model(pad_to_length(batch.source, 43), 43)[:, :17], whole, atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "reads-padding"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_fast_loss_is_the_plain_one_and_so_are_its_gradients(kind, smoothing):
    """Real places and fused cross-entropy against every place of every sentence and torch's cross-entropy."""
    model, batch = small(f"model.kind={kind}"), some_batch()
    model.loss(batch, smoothing=smoothing).backward()
    fast = {name: p.grad.clone() for name, p in model.named_parameters()}
    value = model.loss(batch, smoothing=smoothing)
    model.zero_grad()
    scores = model(pad_to_length(batch.source, 17))
    plain = F.cross_entropy(
        scores.flatten(0, 1), pad_to_length(batch.target, 17).flatten(), ignore_index=PAD, label_smoothing=smoothing
    )
    plain.backward()
    torch.testing.assert_close(value, plain, atol=1e-6, rtol=1e-6)
    for name, p in model.named_parameters():
        torch.testing.assert_close(fast[name], p.grad, atol=3e-6, rtol=1e-4, msg=name)


def test_token_losses_are_the_plain_ones_in_order():
    model, batch = small(), some_batch()
    log_p = torch.log_softmax(model(batch.source, 17), dim=-1)
    expected = [
        -log_p[row, place, word]
        for row, target in enumerate(batch.target.tolist())
        for place, word in enumerate(target)
        if word != PAD
    ]
    torch.testing.assert_close(model.token_losses(batch), torch.stack(expected), atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(model.token_losses(batch).mean(), model.loss(batch))


def test_the_padding_reader_is_the_encoder_that_takes_padding_for_words():
    """Literally: embed 17 places, let everything read everything."""
    model, batch = small("model.kind=reads-padding"), some_batch()
    assert isinstance(model, PaddingReader)
    x = model.embedding(pad_to_length(batch.source, 17))
    literal = model.output(model.layer(x, x))
    torch.testing.assert_close(model(batch.source), literal)
    encoder = small()
    encoder.load_state_dict(model.state_dict())
    assert (encoder(batch.source) - literal).abs().max() > 1e-3  # and that is another function


def test_a_normal_start_is_torchs_own_and_a_short_one_is_short():
    """Tokens, padding and places of unit spread, as nn.Embedding has them; short: rows of length 1, padding 0."""
    normal, short = small("embedding.start=normal", "width=1009"), small("width=1009")
    for model, token, place in [(normal, 1.0, 1.0), (short, 1009**-0.5, 0.1)]:
        rows, places = model.embedding.tokens.weight.detach(), model.embedding.positions.weight.detach()
        # The spread of n normal numbers is off by less than 6 / sqrt(2 n) of itself but once in 500 million.
        for found, wanted in [(rows[1:], token), (places, place)]:
            assert abs(float(found.std()) / wanted - 1) < 6 / (2 * found.numel()) ** 0.5
    assert not short.embedding.tokens.weight[PAD].any()
    assert abs(float(normal.embedding.tokens.weight[PAD].detach().std()) - 1) < 6 / (2 * 1009) ** 0.5


def test_without_positions_blank_places_all_say_the_same():
    model = small("positions=none")
    scores = model(torch.tensor([[2, 7, 9, 3]]))
    torch.testing.assert_close(scores[0, 4:5].expand(13, -1), scores[0, 4:])
    swapped = model(torch.tensor([[2, 9, 7, 3]]))
    torch.testing.assert_close(scores[0, [1, 2]], swapped[0, [2, 1]])


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 31), st.integers(2, 37), st.sampled_from([0.0, 0.1, 0.7]), st.integers(1, 200), st.integers(0, 99)
)
def test_fused_cross_entropy_in_any_pieces(rows, words, smoothing, piece, seed):
    torch.manual_seed(seed)
    given_ = [torch.randn(rows, 5, dtype=torch.float64), torch.randn(words, 5, dtype=torch.float64) * 3]
    given_.append(torch.randn(words, dtype=torch.float64))
    labels = torch.randint(words, (rows,))  # 0 is <pad>, which does not count
    labels[0] = 1
    ours, theirs = ([t.clone().requires_grad_() for t in given_] for _ in range(2))
    fused = fused_cross_entropy(*ours, labels, smoothing=smoothing, piece=piece)
    plain = F.cross_entropy(theirs[0] @ theirs[1].T + theirs[2], labels, ignore_index=PAD, label_smoothing=smoothing)
    torch.testing.assert_close(fused, plain)
    (fused * 3).backward()
    (plain * 3).backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 31), st.integers(2, 37), st.sampled_from([0.0, 0.1, 0.7]), st.integers(1, 200), st.integers(0, 99)
)
def test_fused_agreement_in_any_pieces(rows, words, smoothing, piece, seed):
    torch.manual_seed(seed)
    given_ = [torch.randn(2, rows, 5, dtype=torch.float64), torch.randn(words, 5, dtype=torch.float64) * 3]
    given_.append(torch.randn(words, dtype=torch.float64))
    labels = torch.randint(1, words, (rows,))
    ours, theirs = ([t.clone().requires_grad_() for t in given_] for _ in range(2))
    fused = fused_agreement(*ours, labels, agreement=2.5, smoothing=smoothing, piece=piece)
    scores = theirs[0] @ theirs[1].T + theirs[2]
    once, again = torch.log_softmax(scores, dim=-1)
    apart = F.kl_div(once, again, log_target=True, reduction="batchmean")
    apart = apart + F.kl_div(again, once, log_target=True, reduction="batchmean")
    plain = F.cross_entropy(scores.flatten(0, 1), labels.repeat(2), label_smoothing=smoothing) + 2.5 / 4 * apart
    torch.testing.assert_close(fused, plain)
    (fused * 3).backward()
    (plain * 3).backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_fused_agreement_leaves_frozen_parts_and_huge_scores_alone():
    states, weight = torch.full((2, 2, 3), 1e4, requires_grad=True), torch.eye(3) * 1e4
    loss = fused_agreement(states, weight, torch.zeros(3), torch.tensor([2, 1]), agreement=1.0)
    assert float(loss.detach()) == pytest.approx(np.log(3))
    loss.backward()
    assert bool(states.grad.isfinite().all())
    assert weight.grad is None


def test_fused_cross_entropy_leaves_frozen_parts_and_huge_scores_alone():
    states, weight = torch.full((2, 3), 1e4, requires_grad=True), torch.eye(3) * 1e4
    loss = fused_cross_entropy(states, weight, torch.zeros(3), torch.tensor([2, 1]))
    assert float(loss.detach()) == pytest.approx(np.log(3))
    loss.backward()
    assert states.grad is not None
    assert weight.grad is None


@pytest.mark.parametrize("width", [12, 19])
@pytest.mark.parametrize("frozen", [False, True])
def test_vectors_on_both_sides(width, frozen):
    config = Settings().with_changes([*SMALL, f"frozen={str(frozen).lower()}"])
    model = build_model(
        config, SOURCE, TARGET, source_vectors=vectors(SOURCE, width, 11), target_vectors=vectors(TARGET, width, 13)
    )
    assert isinstance(model.output, VectorOutput)
    tokens = model.embedding.tokens
    assert type(tokens) is (FrozenEmbedding if frozen else TokenEmbedding)
    before = tokens.table().detach().clone()
    batch = some_batch()
    scores = model.output(model.states(batch))
    torch.testing.assert_close(model.loss(batch), F.cross_entropy(scores, batch.labels))
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    model.loss(batch).backward()
    optimiser.step()
    moved = (tokens.table() != before).any(dim=1)
    assert bool(moved[4:15].any()) is not frozen
    assert moved[2]  # markers are always trained


def test_attention_maps_are_distributions_over_the_source():
    model, batch = small(), some_batch()
    maps = model.attention(batch.source).detach()
    assert maps.shape == (7, 1, 3, 17, batch.source.shape[1])
    torch.testing.assert_close(maps.sum(-1), torch.ones(7, 1, 3, 17))
    assert float(maps.permute(0, 4, 1, 2, 3)[batch.source == PAD].abs().max()) == 0


def test_dropout_keeps_the_mean_and_the_share_and_is_a_function_of_seed_and_step():
    noise = torch.Generator()
    drop = Dropout(0.25, noise)
    states = torch.ones(1009, 503)
    noise.manual_seed(1)
    out = drop(states)
    assert set(out.unique().tolist()) == {0.0, float(torch.tensor(256 / 192))}
    assert abs(float((out == 0).float().mean()) - 0.25) < 4 * (0.25 * 0.75 / states.numel()) ** 0.5
    drop.eval()
    assert drop(states) is states
    model, batch = small("dropout=0.3"), some_batch()
    losses = []
    for seed, step in [(0, 1), (0, 1), (0, 2), (1, 1)]:
        seed_dropout(model, seed, step)
        losses.append(float(model.loss(batch).detach()))
    assert losses[0] == losses[1]
    assert len(set(losses)) == 3


def test_the_seed_is_the_weights_and_the_callers_randomness_is_untouched():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, other = small(), small(), small("seed=1")
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.layer.attention.mix.weight, other.layer.attention.mix.weight)


def test_the_coursework_model_has_its_size():
    model = build_model(Settings(), 7000, 6000)
    attention, output = 3 * (128 * 192 + 192) + 192 * 128 + 128, 128 * 6000 + 6000
    feed_forward = 128 * 2048 + 2048 + 2048 * 128 + 128
    expected = 7000 * 128 + 20 * 128 + attention + feed_forward + 4 * 128 + output
    assert sum(p.numel() for p in model.parameters()) == expected
    assert isinstance(model.output, Output)

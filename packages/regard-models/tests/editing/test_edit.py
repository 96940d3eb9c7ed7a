"""Edits against forward passes written by hand, for every kernel: other weights, other outputs, means."""

from __future__ import annotations

import copy
import math
import re

import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from attention_zoo import BATCH, HEADS, LENGTH, WIDTH, by_hand, torch_layers  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models.capturing.attention_capture import capture  # noqa: E402
from regard_models.editing.head_edits import edit, uniform  # noqa: E402

D = WIDTH // HEADS
STYLES = [
    by_hand.Plain,
    by_hand.Einsum,
    by_hand.EinsumHeadsLate,
    by_hand.OneAxis,
    by_hand.HeadsFirst,
    by_hand.KeysDown,
    by_hand.MultiplyAndSum,
    by_hand.ExpAndSum,
]


@pytest.fixture
def words():
    return torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(5))


def raises(message):
    return pytest.raises(InputError, match="^" + re.escape(message) + "$")


def replayed(q, k, v, head, change, *, allowed=None):
    """softmax(q k^T / sqrt d) v with one head changed: (weights, output) -> output, for that head alone."""
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    scores = scores if allowed is None else scores.masked_fill(~allowed, -torch.inf)
    weights = scores.softmax(-1)
    out = weights @ v
    out[:, head] = change(weights[:, head], out[:, head], v[:, head])
    return out.transpose(1, 2).flatten(2)


def pattern_of(shape):
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(9))
    return drawn / drawn.sum(-1, keepdim=True)


PATTERN = pattern_of((BATCH, 1, LENGTH, LENGTH))
OUTPUT = torch.randn(BATCH, 1, LENGTH, D, generator=torch.Generator().manual_seed(7))
EDITS = {
    "pattern": ({"pattern": PATTERN}, lambda w, o, v: PATTERN[:, 0] @ v),
    "pattern, one row for all": ({"pattern": PATTERN[0, 0, 0].tolist()}, lambda w, o, v: PATTERN[0, 0, 0] @ v[:, None]),
    "a function of the pattern": ({"pattern": uniform}, lambda w, o, v: v.mean(1, keepdim=True)),
    "output": ({"output": OUTPUT.numpy()}, lambda w, o, v: OUTPUT[:, 0]),
    "switched off": ({"output": 0.0}, lambda w, o, v: torch.zeros_like(o)),
    "a function of the output": ({"output": lambda old: 2 * old}, lambda w, o, v: 2 * o),
    "mean": ({"mean": True}, lambda w, o, v: o.mean((0, 1), keepdim=True)),
    "mean from elsewhere": ({"mean": OUTPUT[0, 0, 0]}, lambda w, o, v: OUTPUT[0, 0, 0].expand_as(o)),
}


@pytest.mark.parametrize("how", EDITS)
@pytest.mark.parametrize("style", STYLES)
def test_hand_written_attention(style, how, words):
    torch.manual_seed(0)
    model, (given, change) = style(), EDITS[how]
    with edit(model, layer=0, head=2, **given):
        found = model(words)
    with torch.no_grad():
        assert torch.allclose(found, model.o(replayed(*model.three(words), 2, change)), atol=1e-6)


@pytest.mark.parametrize("how", [how for how in EDITS if how != "a function of the pattern"])
def test_the_fused_kernel(how, words):
    torch.manual_seed(0)
    model, (given, change) = by_hand.FusedInside(), EDITS[how]
    with edit(model, layer=0, head=2, **given):
        found = model(words)
    past = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    with torch.no_grad():
        expected = model.o(replayed(*model.three(words), 2, change, allowed=past))
    assert torch.allclose(found, expected, atol=1e-6)


class WrittenInto(by_hand.Plain):
    """The product is written into a tensor that was there before."""

    def forward(self, x):
        q, k, v = self.three(x)
        weights, made = (q @ k.transpose(2, 3) / math.sqrt(D)).softmax(-1), torch.empty_like(q)
        torch.matmul(weights, v, out=made)
        return self.o(made.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("how", EDITS)
def test_a_product_that_is_written_into_a_given_tensor(how, words):
    torch.manual_seed(0)
    model, (given, change) = WrittenInto(), EDITS[how]
    with torch.no_grad(), edit(model, layer=0, head=2, **given):  # torch differentiates nothing that has an out=
        found, captured = model(words), capture(model, words)
    with torch.no_grad():
        assert torch.allclose(found, model.o(replayed(*model.three(words), 2, change)), atol=1e-6)
    assert captured.answer
    assert captured.records[0].notes == ("edited: these are the weights that the layer had computed itself",)


def test_uniform_reads_only_what_was_read(words):
    model = by_hand.FusedInside()
    with edit(model, layer=0, head=1, pattern=uniform):
        found = model(words)
    past = torch.ones(LENGTH, LENGTH).tril()
    even = past / past.sum(-1, keepdim=True)
    with torch.no_grad():
        expected = model.o(replayed(*model.three(words), 1, lambda w, o, v: even @ v, allowed=past.bool()))
    assert torch.allclose(found, expected, atol=1e-6)


class Grouped(nn.Module):
    """Six heads in three groups, through the fused function."""

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@pytest.mark.parametrize("how", ["pattern", "switched off", "mean"])
def test_heads_that_share_keys_are_edited_one_by_one(how):
    drawn = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(BATCH, heads, LENGTH, D, generator=drawn) for heads in (6, 3, 3))
    given, change = EDITS[how]
    model = Grouped()
    usual = model(q, k, v)
    with edit(model, layer=0, head=3, **given):
        found = model(q, k, v)
    k, v = (t.repeat_interleave(2, dim=1) for t in (k, v))
    assert torch.allclose(found.transpose(1, 2).flatten(2), replayed(q, k, v, 3, change), atol=1e-6)
    others = [0, 1, 2, 4, 5]
    assert torch.equal(found[:, others], usual[:, others])


def parts(attention, words):
    rows = F.linear(words, attention.in_proj_weight, attention.in_proj_bias)
    return [t.view(*words.shape[:2], HEADS, D).transpose(1, 2) for t in rows.chunk(3, dim=-1)]


@pytest.mark.parametrize("how", EDITS)
@pytest.mark.parametrize("fast", [True, False])
def test_multihead_attention(how, fast, words):
    torch.manual_seed(0)
    model, (given, change) = torch_layers._attention(), EDITS[how]
    was = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with edit(model, layer=0, head=2, **given):
            found = model(words, words, words, need_weights=False)[0]
    finally:
        torch.backends.mha.set_fastpath_enabled(was)
    with torch.no_grad():
        assert torch.allclose(found, model.out_proj(replayed(*parts(model, words), 2, change)), atol=1e-6)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("how", ["pattern", "output", "mean"])
def test_the_whole_layer_in_one_operator(how, norm_first, words):
    torch.manual_seed(0)
    layer, (given, change) = torch_layers._layer(norm_first=norm_first, activation="gelu").eval(), EDITS[how]
    with edit(layer, layer=0, head=2, **given):
        found = layer(words)
    with torch.no_grad():
        inside = layer.norm1(words) if norm_first else words
        states = words + layer.self_attn.out_proj(replayed(*parts(layer.self_attn, inside), 2, change))
        think = lambda t: layer.linear2(F.gelu(layer.linear1(t)))  # noqa: E731
        if norm_first:
            expected = states + think(layer.norm2(states))
        else:
            states = layer.norm1(states)
            expected = layer.norm2(states + think(states))
    assert torch.allclose(found, expected, atol=1e-5)


def test_nested_sequences(words):
    """A padded encoder runs nested: each sequence is edited at its own length, and padding stays padding."""
    encoder = stack()
    alone = copy.deepcopy(encoder)
    with torch.no_grad(), edit(encoder, layer=1, head=0, output=0.0):
        found = encoder(words, src_key_padding_mask=torch_layers.PADDING)
    with torch.no_grad(), edit(alone, layer=1, head=0, output=0.0):
        single = alone(words[1:2, :5])
    assert torch.allclose(found[1, :5], single[0], atol=1e-6)
    assert found[1, 5:].abs().max() == 0


def test_a_jagged_model():
    model, rows = torch_layers._jagged()
    with edit(model, layer=0, head=1, output=0.0):
        found = model(*rows)
    alone = [model(row) for row in rows]
    for i, piece in enumerate(found.unbind()):
        assert piece[1].abs().max() == 0
        assert torch.allclose(piece[[0, 2, 3]], alone[i].unbind()[0][[0, 2, 3]], atol=1e-6)


def test_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(nn.Module):
        def forward(self, q, k, v):
            return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs())

    drawn = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(2, 4, LENGTH, D, generator=drawn) for _ in range(3))
    model = Flex()
    found = capture(model, (q, k, v), verify=True)
    places = torch.arange(LENGTH)
    scores = q @ k.transpose(2, 3) / math.sqrt(D) - (places[:, None] - places).abs()
    assert torch.allclose(torch.from_numpy(found.records[0].weights), scores.softmax(-1), atol=1e-6)
    with edit(model, layer=0, head=[1, 2], output=1.5):
        changed = model(q, k, v)
    assert torch.equal(changed[:, [1, 2]], torch.full_like(changed[:, [1, 2]], 1.5))
    assert torch.equal(changed[:, [0, 3]], found.output[:, [0, 3]])


# where, when, and together


def stack():
    torch.manual_seed(0)
    return torch_layers._encoder()[0]


def test_only_that_layer_only_that_long(words):
    model = stack()
    with torch.no_grad():
        usual = model(words)
    with edit(model, layer="layers.1", output=0.0):
        one = model(words)
    with edit(model, layer=1, output=0.0):
        other = model(words)
    with torch.no_grad():
        assert torch.equal(model(words), usual)
    assert torch.equal(one, other)
    assert not torch.equal(one, usual)


def test_nested_edits_add_up_in_any_order(words):
    model = stack()
    with edit(model, layer=0, head=1, output=0.0), edit(model, layer=0, head=2, pattern=uniform):
        one = model(words)
    with edit(model, layer=0, head=2, pattern=uniform), edit(model, layer=0, head=1, output=0.0):
        other = model(words)
    with edit(model, layer=0, head=1, output=0.0):
        with edit(model, layer=0, head=2, pattern=uniform):
            pass
        single = model(words)
    assert torch.equal(one, other)
    assert not torch.equal(one, single)


def test_a_step_of_many_runs(words):
    model = stack()
    with edit(model, layer=0, output=0.0, step=1):
        first, second, third = (model(words) for _ in range(3))
    assert torch.equal(first, third)
    assert not torch.equal(first, second)


def test_a_capture_inside_an_edit_does_not_blame_the_kernel(words):
    model = stack()
    with edit(model, layer=0, head=1, output=0.0):
        found = capture(model, words)
    assert found.answer
    assert [record.residual is None for record in found.records] == [True, False]
    assert found.records[0].notes == ("edited: these are the weights that the layer had computed itself",)
    assert found.records[1].notes == ()


FLOWING = {
    "switched off": {"output": 0.0},
    "a function of the output": {"output": lambda old: old**2},
    "mean": {"mean": True},
    "a function of the pattern": {"pattern": lambda weights: weights**2},
}


class Fused(by_hand.Projections):
    def mix(self, x):
        return F.scaled_dot_product_attention(*self.three(x)).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("how", FLOWING)
@pytest.mark.parametrize("style", [*(one for one in STYLES if one is not by_hand.MultiplyAndSum), Fused])
def test_gradients_are_those_of_the_edited_run(style, how, words):
    """Against finite differences of the edited run itself, in float64, along a random direction."""
    torch.manual_seed(0)
    model = style().double().eval()
    x = words.double().requires_grad_()

    def loss(x):
        with edit(model, layer=0, head=[0, 2], **FLOWING[how]), edit(model, layer=0, head=1, output=lambda o: 3 * o):
            out = model(x)
        return ((out[0] if isinstance(out, tuple) else out) ** 2).sum()

    loss(x).backward()
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        slope = (loss(x + 1e-5 * direction) - loss(x - 1e-5 * direction)) / 2e-5
    assert float((x.grad * direction).sum()) == pytest.approx(float(slope), rel=1e-6)
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


def test_a_replacement_gets_its_gradient_and_autograd_grad_works(words):
    torch.manual_seed(0)
    model = by_hand.Plain().eval()
    gate = torch.randn(1, 1, LENGTH, D, requires_grad=True)
    with edit(model, layer=0, head=1, output=gate):
        out = model(words)
    (by_weight,) = torch.autograd.grad(out.sum(), [next(model.parameters())], retain_graph=True)
    assert by_weight.abs().max() > 0
    gate.grad = None
    out.sum().backward()
    with torch.no_grad(), edit(model, layer=0, head=1, output=gate + 1):
        moved = model(words)
    assert float(gate.grad.sum()) == pytest.approx(
        float((moved - out.detach()).sum()), rel=1e-4
    )  # it is linear in the gate


def test_a_gradient_that_cannot_be_carried_is_refused_and_not_left_out(words):
    model = by_hand.MultiplyAndSum().eval()
    with edit(model, layer=0, output=0.0):  # a constant has none
        model(words).sum().backward()
    assert not model.v.weight.grad.any()
    with edit(model, layer=0, head=1, pattern=uniform):
        out = model(words)
    with raises("Gradients cannot be carried through this edit: the operator that ends the attention does not get the "
                "weights and the values it is made of; write it as a matrix product, or edit the output."):  # fmt: skip
        out.sum().backward()


def test_refusals(words):
    model = stack()
    with raises("An edit needs exactly one of pattern, output and mean, but none came."), edit(model, layer=0):
        pass
    both = {"output": 0.0, "mean": True}
    with raises("An edit needs exactly one of pattern, output and mean, but output and mean came."):
        edit(model, layer=0, **both).__enter__()
    with raises("layer must be a number or the name of a module, not 1.5."):
        edit(model, layer=1.5, output=0.0).__enter__()
    with raises("head must be a number or several numbers, counted from 0, not []."):
        edit(model, layer=0, head=[], output=0.0).__enter__()
    with raises("The model must be a torch.nn.Module, but a str came."):
        edit("model", layer=0, output=0.0).__enter__()
    with raises("Layer 0 has no head 4; it has 4, counted from 0."), edit(model, layer=0, head=4, output=0.0):
        model(words)
    said = "The edit changed nothing: there is no layer 2; 2 attention layers ran, counted from 0."
    with raises(said), edit(model, layer=2, output=0.0):
        model(words)
    shape = "pattern must be a number or broadcast to (3, 1, 7, 7), but it is (5,)."
    with raises(shape), edit(model, layer=0, head=0, pattern=torch.ones(5)):
        model(words)
    with raises("output must hold finite numbers only."), edit(model, layer=0, output=float("nan")):
        model(words)
    with torch.no_grad():
        assert torch.isfinite(model(words)).all()  # nothing is left behind

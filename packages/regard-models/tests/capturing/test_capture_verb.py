"""The verb: subsets, streams, dropout, what is kept, what is named as missed, and every refusal."""

from __future__ import annotations

import re

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from attention_zoo import by_hand, softmax, torch_layers  # noqa: E402
from regard.errors import CouldNotFindOut, InputError  # noqa: E402
from regard_models import capture as verb  # noqa: E402
from regard_models.capturing.attention_capture import capture  # noqa: E402
from regard_models.capturing.recorder import blocks, passes_identity_probe  # noqa: E402
from regard_models.capturing.records import Capture  # noqa: E402
from regard_models.kernels.attention_call import Part  # noqa: E402
from regard_models.kernels.fused_kernels import FusedCall, Rule  # noqa: E402


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(20, 4, 31, batch_first=True)
    return nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()


@pytest.fixture
def words():
    return torch.randn(2, 7, 20, generator=torch.Generator().manual_seed(5))


def raises(message):
    return pytest.raises(InputError, match="^" + re.escape(message) + "$")


def test_the_package_offers_the_verb(encoder, words):
    assert verb(encoder, words).layers == (0, 1, 2)


def test_a_subset_is_the_same_numbers(encoder, words):
    whole = capture(encoder, words)
    part = capture(encoder, words, layers=[2, 0], heads=[3, 1])
    assert [record.index for record in part.records] == [0, 2]
    for record in part.records:
        assert record.heads == (3, 1)
        assert np.array_equal(record.weights, whole.record(record.index).weights[:, [3, 1]])
        assert np.array_equal(record.head(1, example=1), record.weights[1, 1])


def test_layers_by_name(encoder, words):
    assert [r.index for r in capture(encoder, words, layers=["layers.1"]).records] == [1]
    assert [r.index for r in capture(encoder, words, layers="layers").records] == [0, 1, 2]


def test_a_stream_is_the_same_numbers(encoder, words, tmp_path):
    file = tmp_path / "weights.safetensors"
    whole = capture(encoder, words, keep=("q", "k", "v"))
    streamed = capture(encoder, words, keep=("q", "k", "v"), stream=file)
    assert torch.equal(streamed.output, whole.output)
    for one, other in zip(whole.records, streamed.records, strict=True):
        for array in ("weights", "q", "k", "v"):
            assert np.array_equal(getattr(one, array), getattr(other, array))
        assert one.to_dict() == other.to_dict()
    assert [path.name for path in tmp_path.iterdir()] == ["weights.safetensors"]
    assert Capture.read(file).layers == (0, 1, 2)


def test_a_stream_in_small_blocks(encoder, words, tmp_path, monkeypatch):
    """Blocks of a few numbers: rows of one head at a time, in the order in which they lie in the file."""
    monkeypatch.setattr("regard_models.capturing.recorder._BLOCK", 15)
    whole = capture(encoder, words)
    streamed = capture(encoder, words, stream=tmp_path / "weights.safetensors")
    monkeypatch.undo()
    usual = capture(encoder, words)
    for records in zip(usual.records, whole.records, streamed.records, strict=True):
        assert np.array_equal(records[0].weights, records[1].weights)
        assert np.array_equal(records[0].weights, records[2].weights)


@pytest.mark.parametrize("size", [1, 7, 34, 35, 100, 10**6])
def test_blocks_cover_everything_once_in_order(size, monkeypatch):
    monkeypatch.setattr("regard_models.capturing.recorder._BLOCK", size)
    shape, heads = (3, 2, 5, 7), [4, 1]
    numbers = np.arange(3 * 2 * 5 * 7).reshape(shape)
    parts = [numbers[p.examples][:, [heads.index(h) for h in p.heads]][:, :, p.rows] for p in blocks(shape, heads)]
    assert np.array_equal(np.concatenate([part.ravel() for part in parts]), numbers.ravel())
    assert all(part.size <= max(size, 7) for part in parts)


def test_q_k_and_v_give_the_weights_and_the_output_back(words):
    for kind, masked in ((by_hand.Plain, False), (by_hand.FusedInside, True), (by_hand.OneAxis, False)):
        model = kind()
        record = capture(model, words, keep=("q", "k", "v")).records[0]
        scores = record.scale * record.q.astype(float) @ record.k.astype(float).transpose(0, 1, 3, 2)
        weights = softmax(by_hand.causal(scores) if masked else scores)
        assert np.abs(weights - record.weights).max() < 1e-6
        heads = torch.from_numpy(weights @ record.v).float().transpose(1, 2).flatten(2)
        assert torch.allclose(model.o(heads), model(words), atol=1e-5)


def test_with_dropout_there_are_weights_before_and_after(words):
    torch.manual_seed(1)
    record = capture(by_hand.Dropout(), words).records[0]
    assert np.abs(record.weights.sum(-1) - 1).max() < 1e-6
    kept = record.used != 0
    assert 0.5 < kept.mean() < 0.9
    assert np.abs(np.where(kept, record.used - record.weights / 0.7, 0)).max() < 1e-6
    assert record.residual < 1e-6


def test_masks_come_with_the_record(words):
    past = np.tri(7, dtype=bool)[None, None]
    for kind in (by_hand.Causal, by_hand.InPlace, by_hand.FusedInside):
        assert np.array_equal(capture(kind(), words).records[0].allowed, past)
    assert capture(by_hand.Plain(), words).records[0].allowed is None


def test_rows_that_do_not_sum_to_one_are_said(words):
    notes = capture(by_hand.Sigmoid(), words).records[0].notes
    assert len(notes) == 1
    assert notes[0].startswith("rows do not sum to 1 but to 0.")


def test_rows_that_read_nothing_are_said():
    class Nothing(nn.Module):
        def forward(self, x):
            allowed = torch.ones(7, 7, dtype=torch.bool)
            allowed[3] = False
            return F.scaled_dot_product_attention(x, x, x, attn_mask=allowed)

    record = capture(Nothing(), torch.randn(2, 4, 7, 5)).records[0]
    assert np.abs(record.weights[:, :, 3]).max() == 0
    assert record.sound
    assert record.notes == ("8 rows read nothing (fully masked, or padding)",)


def test_nan_is_said_and_not_sound():
    class Broken(nn.Module):
        def forward(self, x):
            scores = (x @ x.transpose(1, 2)).masked_fill(torch.ones(5, 5, dtype=torch.bool), -torch.inf)
            return scores.softmax(-1) @ x

    found = capture(Broken(), torch.randn(2, 5, 3))
    assert "some weights are NaN or infinite" in found.records[0].notes
    assert not found.answer
    assert "The checks FAILED in layers 0" in str(found)


# forged weights


def forged(by):
    """A fused call whose weights are wrong, yet whose W V is nearly right."""

    class Forged(FusedCall):
        def weights(self, part: Part) -> torch.Tensor:
            return super().weights(part) + by(self)

    q, k, v = (
        torch.randn(1, 1, 11, 3, generator=torch.Generator().manual_seed(n), dtype=torch.float64) for n in (1, 2, 3)
    )

    def run(values):
        return F.scaled_dot_product_attention(q, k, values)

    tensors = (q, k, v, run(v))
    return Forged("sdpa", tensors, Rule(), scale=None, run=run, insert=lambda result, whole: whole)


def invisible(call):
    """Directions that V does not see, nor the sum of a row: 11 keys less 3 columns less 1."""
    columns = torch.cat([call.v[0, 0], torch.ones(11, 1, dtype=torch.float64)], dim=1)
    free = torch.linalg.svd(columns).U[:, 4:]
    return 1e-3 * free[:, 0]


def test_w_v_does_not_prove_w_and_the_identity_probe_does():
    honest, liar = forged(lambda call: 0.0), forged(invisible)
    assert passes_identity_probe(honest)
    off = liar.error(liar.weights(liar.whole), liar.whole) / liar.size()
    assert off <= liar.tolerance()  # the forged rows pass W V = output ...
    assert not passes_identity_probe(liar)  # ... and fail here


def test_w_v_catches_weights_that_are_simply_wrong():
    liar = forged(lambda call: torch.eye(11, dtype=torch.float64) * 1e-3)
    assert liar.error(liar.weights(liar.whole), liar.whole) / liar.size() > 100 * liar.tolerance()


# what is missed, and refusals


class Mixed(nn.Module):
    """Attention that can be captured beside attention that cannot."""

    def __init__(self):
        super().__init__()
        self.first, self.linear_attention = by_hand.Plain(), by_hand.LinearAttention()

    def forward(self, x):
        return self.linear_attention(self.first(x))


def test_what_has_no_weights_is_named(words):
    found = capture(Mixed(), words)
    assert [record.module for record in found.records] == ["first"]
    assert [miss.module for miss in found.missed] == ["linear_attention"]
    assert "as in linear attention, which has no weights" in found.missed[0].why
    assert "Not captured: linear_attention: what it multiplies" in str(found)


def test_an_operator_that_is_not_known_is_named(words):
    lib = torch.library.Library("regard_test_unknown", "FRAGMENT")
    lib.define("attend(Tensor a, Tensor b, Tensor c, float d, bool e) -> Tensor")
    lib.impl("attend", lambda a, b, c, d, e: a + b + c, "CPU")

    class OddAttention(nn.Module):
        def forward(self, x):
            return torch.ops.regard_test_unknown.attend(x, x, x, 1.0, False)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.attn = by_hand.Plain(), OddAttention()

        def forward(self, x):
            return self.attn(self.first(x))

    found = capture(Both(), words)
    assert [(miss.module, miss.why) for miss in found.missed] == [
        ("attn", "it ran regard_test_unknown.attend.default, an operator that is not known here")
    ]


def test_only_linear_attention_could_not_be_found_out(words):
    with pytest.raises(CouldNotFindOut, match="No attention weights of LinearAttention could be captured"):
        capture(by_hand.LinearAttention(), words)


def test_an_online_softmax_comes_in_pieces(words):
    found = capture(by_hand.OnlineSoftmax(), words)
    assert [record.shape[3] for record in found.records] == [4, 3]
    assert all("softmax in pieces" in record.notes[0] for record in found.records)


def test_no_attention_inside(words):
    with pytest.raises(InputError, match=r"^No attention ran inside Linear: no product of weights with values, and no"):
        capture(nn.Linear(20, 20), words)


@pytest.mark.parametrize("shape", [(0, 7, 20), (3, 0, 20)])
def test_an_input_without_tokens(shape):
    for model in (by_hand.HeadsFirst(), torch_layers._layer().eval()):
        with torch.no_grad(), pytest.raises(InputError, match="an input without tokens has none either"):
            capture(model, torch.zeros(shape))


def test_a_model_that_cannot_run(words, tmp_path):
    with pytest.raises(InputError, match=r"^Linear cannot run on this input: RuntimeError: .*; check the example\.$"):
        capture(nn.Linear(3, 3), words, stream=tmp_path / "x.safetensors")
    assert not list(tmp_path.iterdir())


def test_unknown_layers_and_heads(encoder, words, tmp_path):
    with raises("There is no layer 3: 3 attention layers ran, counted from 0."):
        capture(encoder, words, layers=[3], stream=tmp_path / "x.safetensors")
    with raises("Layer 0 has no head 4; it has 4, counted from 0."):
        capture(encoder, words, heads=[4], stream=tmp_path / "x.safetensors")
    with raises("Layer 0 has no head -1; it has 4, counted from 0."):
        capture(encoder, words, heads=[-1])
    with pytest.raises(
        InputError, match=r"No attention ran in a module called 'layer.0'; did you mean 'layers.0.self_attn'\?"
    ):
        capture(encoder, words, layers=["layer.0"])
    assert not list(tmp_path.iterdir())


def test_other_refusals(encoder, words, tmp_path):
    with raises("The model must be a torch.nn.Module, but a function came."):
        capture(lambda x: x, words)
    with raises("keep may name q, k, v, w_q, w_k, w_v and w_o, not 'w'."):
        capture(encoder, words, keep=("w",))
    with pytest.raises(InputError, match=r"the name must end in \.safetensors\.$"):
        capture(encoder, words, stream=tmp_path / "x.npy")


def test_hooks_and_modes_are_gone_afterwards(encoder, words):
    from torch.nn.modules import module as torch_module
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    capture(encoder, words)
    with pytest.raises(InputError):
        capture(encoder, words[..., :3])
    assert not torch_module._global_forward_hooks
    assert not torch_module._global_forward_pre_hooks
    assert not _get_current_dispatch_mode_stack()


def test_gradients_flow_through_a_captured_run(words):
    torch.manual_seed(0)
    model = torch_layers._layer()
    twin = torch_layers._layer()
    twin.load_state_dict(model.state_dict())
    model.eval(), twin.eval()
    capture(model, words).output.square().sum().backward()
    twin(words).square().sum().backward()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)


def test_our_own_translator_says_the_same():
    """Its attention can tell its weights itself, by a second way; the capture has them from the fused kernel."""
    from regard.translator.models.encoder import Attention, RotaryAttention

    drawn = torch.Generator().manual_seed(3)
    slots, read = (torch.randn(2, length, 12, generator=drawn) for length in (5, 7))
    allowed = torch.ones(2, 1, 1, 7, dtype=torch.bool)
    allowed[1, ..., 4:] = False
    for kind in (Attention, RotaryAttention):
        torch.manual_seed(0)
        module = kind(12, heads=3, head_width=4)
        record = capture(module, (slots, read, allowed)).records[0]
        with torch.no_grad():
            own = module.weights(slots, read, allowed).numpy()
        assert record.kernel == "sdpa"
        assert np.abs(record.weights - own).max() < 1e-6
        assert np.array_equal(np.broadcast_to(record.allowed, (2, 1, 1, 7)), allowed.numpy())

"""The maps that made a head's queries, keys and values and the one that reads its output: found, and found rightly."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from torch import nn  # noqa: E402

from attention_zoo import by_hand, families, torch_layers  # noqa: E402
from regard_models import Capture, capture  # noqa: E402
from regard_models.capturing.projections import columns_of  # noqa: E402

MAPS = ("w_q", "w_k", "w_v", "w_o")


def kept(model, inputs, mode=torch.no_grad):
    with mode():
        return capture(model, inputs, keep=MAPS).records


def family(name, implementation="sdpa"):
    pytest.importorskip("transformers", reason="Hugging Face models need transformers")
    chosen = next(f for f in families.FAMILIES if f.name == name)
    return families.make(chosen, implementation), families.example(chosen)


def split(weight, heads):
    """A weight (out, in) as (heads, in, width)."""
    rows = weight.detach().double().numpy()
    return rows.reshape(heads, -1, rows.shape[1]).transpose(0, 2, 1)


def joined(weight, heads):
    """An output projection (out, in) as (heads, width, out)."""
    rows = weight.detach().double().numpy()
    return rows.T.reshape(heads, -1, rows.shape[0])


def check(record, q, k, v, o, heads=4, groups=1):
    for name, weight in (("w_q", q), ("w_k", k), ("w_v", v)):
        expected = split(weight, heads if name == "w_q" else heads // groups)
        expected = expected if name == "w_q" else np.repeat(expected, groups, axis=0)
        np.testing.assert_allclose(getattr(record, name), expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(record.w_o, joined(o, heads), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_bert(implementation, mode):
    model, inputs = family("BERT", implementation)
    for record, layer in zip(kept(model, inputs, mode), model.encoder.layer, strict=True):
        own = layer.attention.self
        check(record, own.query.weight, own.key.weight, own.value.weight, layer.attention.output.dense.weight)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_one_matrix_for_all_three_in_gpt2(implementation):
    model, inputs = family("GPT-2", implementation)
    for record, block in zip(kept(model, inputs), model.transformer.h, strict=True):
        q, k, v = block.attn.c_attn.weight.T.chunk(3)
        check(record, q, k, v, block.attn.c_proj.weight.T)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_rotary_positions_and_grouped_keys(implementation):
    model, inputs = family("Mistral (grouped, window)", implementation)
    for record, layer in zip(kept(model, inputs), model.model.layers, strict=True):
        own = layer.self_attn
        check(record, own.q_proj.weight, own.k_proj.weight, own.v_proj.weight, own.o_proj.weight, groups=2)


def test_heads_that_stand_apart_in_one_matrix():
    """GPT-NeoX: q, k and v of a head behind one another, then the next head."""
    model, inputs = family("GPT-NeoX")
    for record, layer in zip(kept(model, inputs), model.gpt_neox.layers, strict=True):
        own = layer.attention
        q, k, v = (own.query_key_value.weight.reshape(4, 3, 8, 32)[:, n].reshape(32, 32) for n in range(3))
        check(record, q, k, v, own.dense.weight)


def test_cross_attention_of_t5():
    model, inputs = family("T5")
    records = kept(model, inputs)
    layers = [model.encoder.block[0].layer[0].SelfAttention, model.decoder.block[0].layer[0].SelfAttention,
              model.decoder.block[0].layer[1].EncDecAttention]  # fmt: skip
    for record, own in zip(records, layers, strict=True):
        check(record, own.q.weight, own.k.weight, own.v.weight, own.o.weight)


def test_torch_layers_and_their_fast_paths():
    for case in torch_layers.CASES:
        if case.name not in ("MultiheadAttention", "length first", "encoder"):
            continue
        torch.manual_seed(0)
        model, inputs = case.build()
        attention = model if isinstance(model, nn.MultiheadAttention) else model.layers[0].self_attn
        record = kept(model, inputs)[0]
        check(record, *attention.in_proj_weight.chunk(3), attention.out_proj.weight)


def test_queries_that_the_model_scales_itself():
    """torch.nn's slow path divides the queries before the product: the map that is found has the factor in it."""
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(20, 4, batch_first=True, kdim=11, vdim=13).eval()
    words, others = torch.randn(3, 7, 20), (torch.randn(3, 5, 11), torch.randn(3, 5, 13))
    (record,) = kept(attention, (words, *others))
    factor = record.w_q / split(attention.q_proj_weight, 4)
    assert factor.std() < 1e-6
    assert record.scale * factor.mean() == pytest.approx(5**-0.5, rel=1e-5)


def test_normalised_queries_have_no_map():
    model, inputs = family("Qwen-3")
    for record in kept(model, inputs):
        assert [getattr(record, name) is None for name in MAPS] == [True, True, False, False]
        assert any("w_q and w_k could not be found" in note for note in record.notes)


def test_handwritten_attention_of_every_style():
    """What is found must give back the queries, keys and values from the states that went in."""
    for case in by_hand.CASES:
        torch.manual_seed(0)
        model, inputs = case.build()
        with torch.no_grad():
            record = capture(model, inputs, keep=("q", "v", "w_q", "w_v")).records[0]
        states = inputs[0] if isinstance(inputs, tuple) else inputs
        states = (states if states.dim() == 3 else states[None]).double().numpy()
        for made, name in ((record.q, "w_q"), (record.v, "w_v")):
            matrix = getattr(record, name)
            if matrix is None or made is None or matrix.shape[1] != states.shape[-1]:
                continue
            rest = made - np.einsum("btm,hmd->bhtd", states[: len(made)], matrix)
            assert np.ptp(rest, axis=(0, 2)).max() < 1e-5  # a bias is left, the same at every place


def test_maps_go_through_a_file(tmp_path):
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(20, 4, batch_first=True).eval()
    words = torch.randn(2, 7, 20)
    with torch.no_grad():
        streamed = capture(attention, (words, words, words), keep=("v", *MAPS), stream=tmp_path / "a.safetensors")
        whole = capture(attention, (words, words, words), keep=("v", *MAPS), heads=[2, 0])
    whole.to_safetensors(tmp_path / "b.safetensors")
    again = Capture.read(tmp_path / "b.safetensors").records[0]
    for name in MAPS:
        np.testing.assert_array_equal(getattr(streamed.records[0], name)[[2, 0]], getattr(again, name))


def test_columns_that_are_not_there():
    drawn = torch.Generator().manual_seed(0)
    table, other = (torch.randn(6, 8, generator=drawn) for _ in range(2))
    heads = other[:, :4].reshape(1, 6, 2, 2).transpose(1, 2)
    assert columns_of(heads, table, turned=False) is None
    assert columns_of(heads, table, turned=True) is None
    assert columns_of(heads, table[:5], turned=False) is None

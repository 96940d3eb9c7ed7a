"""``regard_models.head_measures.model_heads``: what it says of real modules, against forward passes written by hand."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from attention_zoo import families, torch_layers  # noqa: E402
from regard.errors import InputError  # noqa: E402
from regard_models import Capture, capture, heads  # noqa: E402
from regard_models.head_measures.model_heads import ALSO, KEEP  # noqa: E402
from tiers import sampled  # noqa: E402


def family(name, implementation="sdpa"):
    pytest.importorskip("transformers", reason="Hugging Face models need transformers")
    chosen = next(f for f in families.FAMILIES if f.name == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own, while it is imported
        return families.make(chosen, implementation), families.example(chosen)


def raises(message):
    return pytest.raises(InputError, match="^" + re.escape(message) + "$")


@pytest.fixture(scope="module")
def gpt2():
    model, inputs = family("GPT-2")
    return model, {"input_ids": inputs["input_ids"]}


@pytest.fixture(scope="module")
def gpt2_measured(gpt2):
    return heads(*gpt2, also=ALSO)


def run(model, inputs):
    with torch.no_grad():
        return model(**inputs)


# ablation and the loss


def test_the_loss_is_the_librarys_own(gpt2, gpt2_measured):
    """Each head's rows of the output projection set to zero, and the loss that transformers itself computes."""
    model, inputs = gpt2
    labelled = {**inputs, "labels": inputs["input_ids"]}
    usual = float(run(model, labelled).loss)
    for layer, block in enumerate(model.transformer.h):
        for head in range(4):
            weight = block.attn.c_proj.weight
            kept = weight.detach().clone()
            with torch.no_grad():
                weight[8 * head : 8 * head + 8] = 0
            without = float(run(model, labelled).loss)
            with torch.no_grad():
                weight.copy_(kept)
            assert gpt2_measured.measures["ablation"][layer, head] == pytest.approx(without - usual, abs=2e-6)
    assert gpt2_measured.effect == "change of the loss, in nats per token"


def test_labels_in_the_example_are_the_loss(gpt2):
    model, inputs = gpt2
    labels = inputs["input_ids"].roll(1, dims=1)
    found = heads(model, {**inputs, "labels": labels}, also=["ablation"])
    other = heads(model, inputs, also=["ablation"])
    assert not np.allclose(found.measures["ablation"], other.measures["ablation"])


# the direct effect


def test_the_direct_effect_is_what_the_read_out_makes_of_the_head(gpt2, gpt2_measured):
    """The last states less what the head added, through the last norm and the unembedding."""
    model, inputs = gpt2
    states = []
    hook = model.transformer.ln_f.register_forward_pre_hook(lambda _, args: states.append(args[0]))
    usual = run(model, inputs).logits
    hook.remove()
    with torch.no_grad():
        found = capture(model, inputs, keep=("v", "w_o"))
    top = usual.argmax(dim=2, keepdim=True)

    def lead(logits):
        return logits.gather(2, top)[..., 0] - logits.mean(dim=2)

    for record in found.records:
        for head in range(4):
            added = torch.from_numpy(record.weights[:, head] @ record.v[:, head] @ record.w_o[head])
            with torch.no_grad():
                changed = model.lm_head(model.transformer.ln_f(states[0] - added))
            expected = float((lead(usual) - lead(changed)).mean())
            assert gpt2_measured.measures["direct"][record.index, head] == pytest.approx(expected, abs=1e-5)
    assert gpt2_measured.direct.startswith("logits that the head itself adds")


def test_the_direct_effect_behind_norms_that_come_last():
    """BERT's last layer by hand: the network after the attention gives what it gave."""
    model, inputs = family("BERT")
    inputs = {"input_ids": inputs["input_ids"]}
    found = heads(model, inputs, also=["direct"], layers=[1])
    layer = model.encoder.layer[1]
    kept = {}
    hooks = [
        layer.attention.output.dense.register_forward_hook(lambda _, args, out: kept.update(heads=args[0], dense=out)),
        layer.attention.register_forward_pre_hook(lambda _, args: kept.update(x=args[0])),
        layer.output.dense.register_forward_hook(lambda _, args, out: kept.update(network=out)),
    ]
    usual = run(model, inputs).last_hidden_state
    for hook in hooks:
        hook.remove()
    for head in range(4):
        states = kept["heads"].clone()
        states[..., 8 * head : 8 * head + 8] = 0
        with torch.no_grad():
            middle = layer.attention.output.LayerNorm(kept["x"] + layer.attention.output.dense(states))
            changed = layer.output.LayerNorm(middle + kept["network"])
        expected = float((changed - usual).norm() / usual.norm())
        assert found.measures["direct"][0, head] == pytest.approx(expected, rel=1e-4)


def test_an_encoder_has_no_direct_way_to_the_logits():
    model, inputs = family("T5")
    found = heads(model, inputs, also=["direct"])
    assert found.modules[2].endswith("EncDecAttention")
    assert found.measures["direct"][0].tolist() == [0, 0, 0, 0]
    assert (found.measures["direct"][1:] != 0).all()


# low rank


def truncated(left, right, rank):
    """The best approximation of left right^T, by NumPy."""
    u, s, v = np.linalg.svd(left @ right.T)
    return (u[:, :rank] * s[:rank]) @ v[:rank]


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("name", ["GPT-2", "Llama", "Mistral (grouped, window)"])
def test_a_low_rank_replacement_is_the_model_with_other_matrices(name, rank):
    """W_Q exchanged so that W_Q W_K^T is the truncated one; W_O likewise: biases and rotations stay as they are."""
    model, inputs = family(name)
    inputs = {"input_ids": inputs["input_ids"]}
    found = heads(model, inputs, also=["rank"], rank=rank, layers=[1])
    usual = float(run(model, {**inputs, "labels": inputs["input_ids"]}).loss)
    with torch.no_grad():
        (record,) = capture(model, inputs, keep=("w_q", "w_k", "w_v", "w_o"), layers=[1]).records
    for head in (0, 3):
        q, k, v, o = (getattr(record, f"w_{x}")[head].astype(float) for x in "qkvo")
        new_q = truncated(q, k, rank) @ np.linalg.pinv(k).T
        new_o = np.linalg.pinv(v) @ truncated(v, o.T, rank)
        columns = slice(8 * head, 8 * head + 8)
        for new, measure in ((new_q, "qk effect"), (new_o, "ov effect")):
            with exchanged(model, name, measure, columns, new):
                expected = float(run(model, {**inputs, "labels": inputs["input_ids"]}).loss) - usual
            assert found.measures[measure][0, head] == pytest.approx(expected, abs=3e-6)
        assert found.ranks[head].qk_rank == rank
        assert found.ranks[head].turned is (name != "GPT-2")


class exchanged:  # noqa: N801
    """A head's part of W_Q or W_O replaced while it lasts; of W_O the values' bias keeps its way."""

    def __init__(self, model, name, measure, columns, new):
        scores, new = measure.startswith("qk"), torch.from_numpy(new)
        if name == "GPT-2":
            own = model.transformer.h[1].attn
            self.weight = own.c_attn.weight if scores else own.c_proj.weight  # (in, out)
            self.part = (slice(None), columns) if scores else (columns,)
            bias = own.c_attn.bias.detach()[64:96][columns].double()
            self.bias, self.more = own.c_proj.bias, 0 if scores else bias @ (own.c_proj.weight[columns].double() - new)
        else:
            own = model.model.layers[1].self_attn
            self.weight, new = (own.q_proj.weight, new.T) if scores else (own.o_proj.weight, new.T)
            self.part = (columns,) if scores else (slice(None), columns)
            self.bias, self.more = None, 0
        self.new = new

    def __enter__(self):
        with torch.no_grad():
            self.kept = self.weight.clone()
            self.weight[self.part] = self.new.float()
            if self.bias is not None:
                self.bias += self.more

    def __exit__(self, *_):
        with torch.no_grad():
            self.weight.copy_(self.kept)
            if self.bias is not None:
                self.bias -= self.more


def test_the_whole_rank_costs_nothing(gpt2):
    found = heads(*gpt2, also=["rank"], rank=8, layers=[0])
    assert np.abs(found.measures["qk effect"]).max() < 2e-6
    assert np.abs(found.measures["ov effect"]).max() < 2e-6
    singular = np.linalg.svd(_product(gpt2), compute_uv=False)[:8]
    np.testing.assert_allclose(found.ranks[0].qk_singular_values, singular, rtol=1e-6)
    p = singular / singular.sum()
    assert found.measures["qk effective"][0, 0] == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-6)


def _product(gpt2):
    q, k, _ = gpt2[0].transformer.h[0].attn.c_attn.weight.detach().double().numpy().T.reshape(3, 4, 8, 32)[:, 0]
    return q.T @ k


# every kind of model


FAMILIES = ["BERT", "Llama", "Mistral (grouped, window)", "T5", "BART", "Qwen-3", "GPT-OSS (sinks)"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(FAMILIES, every=3))
def test_everything_at_once_on_every_family(name):
    model, inputs = family(name, "eager")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    found = heads(model, {key: value for key, value in inputs.items() if "mask" not in key}, also=ALSO)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    for measure in ("entropy", "effective", "largest", "copying", "first", "adds", "overlap", "ablation"):
        assert np.isfinite(found.measures[measure]).all()
    assert (found.measures["effective"] >= 1 - 1e-9).all()
    assert "Attention is not explanation" in str(found)
    assert "Attention is not explanation" in found.details()
    assert json.loads(found.to_json())["heads"][0]["layer"] == 0
    scored = "evened" in found.measures and np.isfinite(found.measures["evened"]).all()
    assert scored == (name not in ("T5", "GPT-OSS (sinks)"))  # a bias in the scores, a sink
    if not scored:
        assert "evened" in found.not_applicable
    mapped = np.isfinite(found.measures["qk effective"]).all()
    assert mapped == (name not in ("Qwen-3", "GPT-OSS (sinks)"))  # normalised, or scaled while they are turned


def test_a_torch_layer_and_its_fast_path():
    torch.manual_seed(0)
    model, words = torch_layers._encoder()
    found = heads(model, words, also=ALSO)
    assert found.modules == ("layers.0", "layers.1")
    slow = heads(model.train().eval(), words, also=["rank"])
    np.testing.assert_allclose(found.measures["qk effect"], slow.measures["qk effect"], rtol=1e-9)
    for measure in ("ablation", "direct", "qk effect", "ov effect", "adds", "noise", "never win"):
        assert np.isfinite(found.measures[measure]).all()


def test_attention_alone_has_no_layers_to_hold():
    torch.manual_seed(0)
    attention, words = nn.MultiheadAttention(20, 4, batch_first=True), torch.randn(1, 7, 20)
    found = heads(attention, (words, words, words), also=["direct", "ablation"])
    assert found.not_applicable["direct"].startswith("needs layers that can be told from what reads them out")
    assert "ablation" in found.measures
    assert attention.training  # as it was
    assert "it was in training mode and is measured in eval mode" in found.notes
    assert found.not_applicable["separator, duplicate, induction"] == "needs tokens"


@pytest.mark.parametrize("kind", ["encoder", "encoder-decoder"])
def test_our_own_translator(kind):
    from inputs.test_model_input import our_translator

    found = heads(our_translator(kind), also=["ablation", "direct", "rank"])
    assert np.isfinite(found.measures["ablation"]).all()
    assert found.measures["induction"].shape == found.measures["entropy"].shape
    assert len(found.layers) == (1 if kind == "encoder" else 3)


# what is given instead of a model


def test_a_capture_file_says_the_same_as_the_model(gpt2, gpt2_measured, tmp_path):
    model, inputs = gpt2
    with torch.no_grad():
        words = [[str(i) for i in row] for row in inputs["input_ids"].tolist()]
        capture(model, inputs, keep=KEEP, tokens=words).to_safetensors(tmp_path / "c.safetensors")
    found = heads(Capture.read(tmp_path / "c.safetensors"), also=ALSO)
    for measure in ("entropy", "margin", "previous", "induction", "swing", "evened", "adds", "elsewhere", "noise",
                    "never win", "out of reach"):  # fmt: skip
        np.testing.assert_array_equal(found.measures[measure], gpt2_measured.measures[measure])
    for what in ("ablation", "rank", "direct"):
        assert found.not_applicable[what] == "needs the model itself, not only its weights"


def test_plain_weights(gpt2, gpt2_measured):
    model, _ = family("GPT-2", "eager")
    out = run(model, {"input_ids": gpt2[1]["input_ids"], "output_attentions": True})
    words = [[str(i) for i in row] for row in gpt2[1]["input_ids"].tolist()]
    found = heads(out.attentions, tokens=words, also=ALSO)
    for measure in ("entropy", "largest", "previous", "duplicate", "overlap"):
        np.testing.assert_allclose(found.measures[measure], gpt2_measured.measures[measure], atol=2e-6)
    assert found.not_applicable["swing"] == "needs keys"
    assert found.not_applicable["adds, elsewhere"] == "needs values"
    assert found.not_applicable["ceilings"].startswith("needs queries and keys")
    assert "Not applicable: swing: needs keys." in found.details()


def test_a_transformerlens_cache(gpt2, gpt2_measured):
    """Its axes are batch, places, heads, width; the scale is found out by trying the usual one."""
    model, inputs = gpt2
    with torch.no_grad():
        records = capture(model, inputs, keep=("q", "k", "v")).records
    cache = {}
    for record in records:
        name = f"blocks.{record.index}.attn.hook_"
        cache[name + "pattern"] = record.weights
        for what in "qkv":
            cache[name + what] = getattr(record, what).transpose(0, 2, 1, 3)
    found = heads(cache, also=["noise"])
    np.testing.assert_allclose(found.measures["evened"], gpt2_measured.measures["evened"], rtol=1e-9)
    np.testing.assert_allclose(found.measures["noise"], gpt2_measured.measures["noise"], rtol=1e-9)
    cache["blocks.0.attn.hook_q"] = cache["blocks.0.attn.hook_q"][:, :3]
    with pytest.raises(InputError, match=r"q of layer 0 must have the axes \(batch, places, heads, width\)"):
        heads(cache)


def test_another_example_and_some_heads(gpt2, gpt2_measured):
    second = heads(*gpt2, example=1)
    assert not np.allclose(second.measures["entropy"], gpt2_measured.measures["entropy"])
    some = heads(*gpt2, layers=[1], only=[3, 0])
    np.testing.assert_array_equal(some.measures["entropy"][0], gpt2_measured.measures["entropy"][1, [3, 0]])
    assert some.numbers == ((3, 0),)
    np.testing.assert_array_equal(some.rollout, gpt2_measured.rollout)


# how it speaks


def test_csv_has_every_head_and_measure(gpt2_measured):
    rows = list(csv.DictReader(io.StringIO(gpt2_measured.to_csv())))
    assert len(rows) == 8
    assert {(row["layer"], row["head"]) for row in rows} == {(str(n), str(h)) for n in range(2) for h in range(4)}
    assert float(rows[5]["entropy"]) == gpt2_measured.head(1, 1)["entropy"]
    assert rows[0]["next"] == "" if "next" in rows[0] else True  # nobody may look ahead


def test_a_picture_of_any_measure(gpt2_measured, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    gpt2_measured.plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().count("<svg") == 1
    drawn = gpt2_measured.picture("ablation")
    assert drawn.axes[0].images[0].get_array().shape == (2, 4)
    with pytest.raises(InputError, match=r"There is no measure 'entrop' here; .*entropy"):
        gpt2_measured.picture("entrop")


def test_refusals(gpt2):
    with raises("also may list ceilings, rank, ablation, direct and noise, not 'speed'."):
        heads(*gpt2, also=["speed"])
    with raises("eps is 2; it must lie between 0 and 1: a head copies from a weight of 1/(1 + eps) on."):
        heads(*gpt2, eps=2)
    with raises("rank is 0; it must be 1 or more."):
        heads(*gpt2, also=["rank"], rank=0)
    with raises("There is no layer 7 in this capture; it has layers 0 to 1."):
        heads(*gpt2, layers=[7])
    with raises("Layer 0 has no head 9 here; it has 0 to 3."):
        heads(*gpt2, only=[9])
    with raises("There is no example 5; the batch has 2, counted from 0."):
        heads(*gpt2, example=5)
    with pytest.raises(InputError, match="No attention ran inside Linear"):
        heads(nn.Linear(3, 3), torch.randn(2, 3))


def test_weights_that_are_nan():
    model, inputs = family("BERT", "eager")
    with torch.no_grad():
        model.encoder.layer[1].attention.self.query.weight[0, 0] = float("nan")
    with pytest.raises(InputError, match=r"^Layer 1 \(encoder.layer.1.attention.self\) has weights that are NaN"):
        heads(model, {"input_ids": inputs["input_ids"]})


def test_progress_counts_to_the_end(gpt2):
    told = []
    heads(*gpt2, also=["ablation", "direct"], progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 8) for n in range(1, 9)] * 2


def test_the_loss_of_a_writer_is_the_next_tokens():
    """The cross-entropy of every token given those before it, in nats."""
    from regard_models.head_measures.effects import loss_of
    from regard_models.inputs.model_input import model_input

    model, inputs = family("Llama")
    given = model_input(model, {"input_ids": inputs["input_ids"]})
    out = run(model, given.inputs)
    logs = F.log_softmax(out.logits.double(), dim=2)
    by_hand = [-float(logs[b, t, given.inputs["input_ids"][b, t + 1]]) for b in range(2) for t in range(10)]
    assert loss_of(given, out) == pytest.approx(np.mean(by_hand), rel=1e-6)


def test_dropout_is_off_and_modes_come_back():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(20, 4, 24, dropout=0.5, batch_first=True)
    model, words = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(1, 7, 20)
    model.layers[1].dropout1.eval()
    modes = [module.training for module in model.modules()]
    once, again = (heads(model, words, also=["ablation", "direct"]) for _ in range(2))
    assert [module.training for module in model.modules()] == modes
    for measure in ("entropy", "ablation", "direct"):
        np.testing.assert_array_equal(once.measures[measure], again.measures[measure])


def test_what_weights_say_about_the_mask():
    """Nobody looks ahead: causal. A key that nobody reads: padding. Zeros elsewhere say nothing."""
    from regard_models.head_measures.head_measurements import allowed_keys

    def may(weights):
        return allowed_keys(Capture.from_arrays(np.asarray(weights, dtype=float)[None]).records[0], 0)[0].astype(int)

    assert may([np.eye(3)]).tolist() == np.tril(np.ones((3, 3))).tolist()
    assert may([np.eye(3)[[1, 0, 1]]]).tolist() == [[1, 1, 0]] * 3
    assert may([np.eye(3)[[1, 0, 2]]]).tolist() == [[1, 1, 1]] * 3


def test_scores_through_a_softcap_are_not_plain():
    """However small the scores are: the ceilings of a capped head would be others."""
    model, inputs = family("Gemma-2 (softcap)", "eager")
    found = heads(model, {"input_ids": inputs["input_ids"]}, also=["ceilings"])
    assert "evened" not in found.measures
    assert found.ceilings == ()
    assert found.not_applicable["ceilings"] == "needs queries and keys, and scores that are scale q.k and a mask"


def test_positions_added_to_the_scores_are_not_plain():
    model, inputs = family("DeBERTa-v2", "eager")
    found = heads(model, {"input_ids": inputs["input_ids"]})
    assert found.not_applicable["evened"] == "needs scores that are scale q.k and a mask, and nothing else"


@pytest.mark.parametrize("name", ["ViT", "Whisper", "Swin (windows)"])
def test_models_that_read_no_text(name):
    found = heads(*family(name, "eager"), also=["ablation", "rank"])
    assert np.isfinite(found.measures["entropy"]).any()
    assert np.isfinite(found.measures["ablation"]).any()


def test_heads_that_read_nothing_have_no_twin():
    weights = np.zeros((1, 3, 4, 4))
    weights[0, 2] = np.eye(4)
    found = heads(weights)
    assert found.twins == {}
    assert np.isnan(found.measures["entropy"][0, :2]).all()
    assert "overlap" in found.not_applicable


def test_several_prompts_give_the_mean_of_each_measure():
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    prompts = [(x, x, x) for x in (torch.randn(1, n, 12) for n in (5, 7))]
    alone = [heads(layer, one, also=["ablation"]) for one in prompts]
    both = heads(layer, prompts, also=["ablation"])
    for name in ("entropy", "ablation", "largest"):
        assert both.measures[name] == pytest.approx((alone[0].measures[name] + alone[1].measures[name]) / 2)
    assert "means over 2 prompts" in str(both)
    with raises("The list of prompts is empty; give at least one."):
        heads(layer, [])

"""Hugging Face families: every implementation that runs on a CPU, against the library's own eager weights."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="models need torch")
pytest.importorskip("transformers", reason="these models are the transformers library's")

from attention_zoo import Case, examine, families  # noqa: E402
from regard_models.capturing.attention_capture import capture  # noqa: E402

CHOSEN = families.FAMILIES


EAGER_ONLY = {"BLOOM (ALiBi)", "DeBERTa-v2", "GPT-OSS (sinks)", "Gemma-2 (softcap)"}
OFFERED = [
    pytest.param(family, implementation, id=f"{family.name}, {implementation}")
    for family in CHOSEN
    for implementation in ("eager", "sdpa")
    if implementation == "eager" or family.name not in EAGER_ONLY
]


@pytest.mark.parametrize(("family", "implementation"), OFFERED)
def test_families(family, implementation):
    row = examine(families.case(family, implementation), "no_grad")
    assert row.good, row


@pytest.mark.parametrize("mode", ["grad", "inference"])
def test_gradient_modes(mode):
    family = next(family for family in CHOSEN if family.name == "Mistral (grouped, window)")
    assert examine(families.case(family, "sdpa"), mode).good


@pytest.mark.slow
def test_flex_attention():
    """Compiled flex kernels run eagerly while they are watched, and give their weights themselves."""
    family = next(family for family in CHOSEN if family.name == "Mistral (grouped, window)")
    row = examine(families.case(family, "flex_attention"), "no_grad")
    assert row.good
    assert row.kernels == ("flex",)


@pytest.mark.parametrize("name", ["BERT", "Mistral (grouped, window)", "T5"])
def test_the_library_says_the_same(name):
    """Its eager version tells its weights when asked; the fused one is asked by us only."""
    family = next(family for family in CHOSEN if family.name == name)
    expected = families.eager_weights(family)
    with torch.no_grad():
        found = capture(families.make(family, "sdpa"), families.example(family))
    assert len(found.records) == len(expected)
    for record, weights in zip(found.records, expected, strict=True):
        real = np.ones(record.shape, bool) if record.allowed is None else np.broadcast_to(record.allowed, record.shape)
        real = real.any(axis=-1, keepdims=True)  # a query that may read nothing is each kernel's own affair
        assert np.abs(np.where(real, record.weights - weights, 0)).max() < 1e-6


def test_generate_with_a_cache():
    """Layers keep their numbers while steps count the runs; keys grow with the cache."""
    family = next(family for family in CHOSEN if family.name == "GPT-2")
    inputs = {"input_ids": families.example(family)["input_ids"]}
    case = Case("generate", lambda: (families.make(family, "sdpa"), inputs), run=families.generate())
    row = examine(case, "no_grad")
    assert row.good
    assert (row.layers, row.records) == (2, 8)
    found = capture(families.make(family, "sdpa"), inputs, run=families.generate())
    assert [(r.index, r.step, r.call, r.shape[2:]) for r in found.records] == [
        (layer, step, step, (11, 11) if step == 0 else (1, 11 + step)) for step in range(4) for layer in range(2)
    ]
    assert found.record(1, step=3).shape == (2, 4, 1, 14)


def test_generate_with_a_static_cache():
    family = next(family for family in CHOSEN if family.name == "GPT-2")
    inputs = {"input_ids": families.example(family)["input_ids"]}
    run = families.generate(cache_implementation="static")
    found = capture(families.make(family, "sdpa"), inputs, run=run, verify=True)
    assert found.answer
    assert all(record.verified for record in found.records)


def test_an_encoder_that_runs_once_and_a_decoder_that_runs_often():
    family = next(family for family in CHOSEN if family.name == "T5")
    inputs = {"input_ids": families.example(family)["input_ids"]}
    found = capture(families.make(family, "sdpa"), inputs, run=families.generate())
    steps = {
        module: [r.step for r in found.records if r.module.startswith(module)] for module in ("encoder", "decoder")
    }
    assert steps["encoder"] == [0]
    assert sorted(set(steps["decoder"])) == [0, 1, 2, 3]
    assert {r.index for r in found.records if r.module.startswith("decoder")} == {1, 2}

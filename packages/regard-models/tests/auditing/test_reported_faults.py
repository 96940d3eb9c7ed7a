"""Faults that people reported: those that break a property are caught by an audit, the rest by a comparison."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from healthy import tiny  # noqa: E402
from mutants.reported import FAULTS  # noqa: E402
from regard_models import audit, compare  # noqa: E402
from tiers import TABLE  # noqa: E402

pytestmark = [*TABLE, pytest.mark.filterwarnings("ignore")]  # warnings of the models' own code
IDS = (tiny.ids(),)
OBSERVABLE = [f for f in FAULTS if f.property is not None]
UNSEEN = "NVIDIA/Megatron-LM#411"  # it shows in training only, where neither looks
NOTED = "huggingface/diffusers#11903"  # weights that nothing uses: many healthy models have some


@pytest.mark.parametrize("fault", OBSERVABLE, ids=lambda f: f.report)
def test_a_reported_fault_is_caught(fault) -> None:
    found = audit(fault.build(), IDS, properties=[fault.property], causal=fault.causal)
    failures = found.failures
    assert failures, str(found)
    if fault.culprits:
        assert failures[0].culprit is not None
        assert failures[0].culprit.module in fault.culprits, str(found)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.report)
def test_the_right_model_is_not_accused(fault) -> None:
    found = audit(fault.right(), IDS, causal=fault.causal)
    assert found.answer, str(found)


@pytest.mark.parametrize("fault", [f for f in FAULTS if f.property is None], ids=lambda f: f.report)
def test_what_only_a_reference_tells(fault) -> None:
    wrong = audit(fault.build(), IDS, causal=fault.causal)
    assert wrong.answer, str(wrong)
    found = compare(fault.build(), fault.right(), IDS)
    assert found.equal == (fault.report in (UNSEEN, NOTED))
    if not found.equal:
        assert found.parting is not None
        assert found.parting.module == "blocks.0.attention"


def test_weights_beside_the_fused_projection_are_noted() -> None:
    fault = next(f for f in FAULTS if f.report == NOTED)
    found = audit(fault.build(), IDS, properties=["gradients"], causal=True)
    assert "blocks.0.attention.q.weight, blocks.0.attention.q.bias" in str(found)


def test_the_count_in_the_docs() -> None:
    assert len(FAULTS) == 29
    assert len(OBSERVABLE) == 19
    assert Counter(f.kind for f in FAULTS) == {
        "attention masking": 5, "QKV projection": 5, "attention kernel": 2, "positional encoding": 3,
        "attention score": 4, "KV cache": 6, "attention variant": 3, "none of them": 1,
    }  # fmt: skip

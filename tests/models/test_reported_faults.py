"""Faults that people reported: those that break a property are caught by an audit, the rest by a comparison."""

from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from models.healthy import tiny  # noqa: E402
from models.mutants.reported import FAULTS  # noqa: E402
from regard.models import audit, compare  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # warnings of the models' own code
IDS = (tiny.ids(),)
OBSERVABLE = [f for f in FAULTS if f.property is not None]
UNSEEN = "NVIDIA/Megatron-LM#411"  # it shows in training only, where neither looks


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
    assert found.equal == (fault.report == UNSEEN)
    if not found.equal:
        assert found.parting is not None
        assert found.parting.module == "blocks.0.attention"


def test_the_count_in_the_docs() -> None:
    assert len(FAULTS) == 22
    assert len(OBSERVABLE) == 15
    assert Counter(f.kind for f in FAULTS) == {
        "masks": 4, "heads": 4, "scores": 4, "positions": 2, "caches": 3, "kernels": 3, "evaluation": 2,
    }  # fmt: skip

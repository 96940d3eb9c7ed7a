"""Wrappers and number types: what torch.compile, traces, exports, checkpoints and quantisation make of a model."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from attention_zoo import examine, wrappers  # noqa: E402
from attention_zoo.by_hand import Plain  # noqa: E402
from regard_models.capturing.attention_capture import capture  # noqa: E402

# torch.compile takes a C++ compiler many seconds: it is in the published table; below it is with its eager backend.
QUICK = [case for case in wrappers.CASES if not case.name.startswith("compile")]
ALL = [pytest.param(case, mode, id=f"{case.name} ({mode})") for case in QUICK for mode in case.modes]


@pytest.mark.parametrize(("case", "mode"), ALL)
def test_wrapped(case, mode):
    row = examine(case, mode)
    assert row.good, row
    assert case.layers is None or row.layers == case.layers


def test_a_compiled_model_stays_compiled_and_says_what_was_done():
    model = wrappers.Stack(Plain).eval()
    compiled = torch.compile(model, backend="eager")
    words = torch.randn(2, 5, 20)
    with torch.no_grad():
        found = capture(compiled, words)
        assert torch.equal(found.output, compiled(words))
    assert [record.module for record in found.records] == ["layers.0", "layers.1"]
    assert len(found.notes) == 1
    assert found.notes[0].startswith("compiled code was run eagerly for the record; its own output, given here,")


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_names_are_lost_in_a_trace_and_layers_are_still_told_apart():
    traced = torch.jit.trace(wrappers.Stack(Plain).eval(), (torch.randn(2, 5, 20),))
    found = capture(traced, torch.randn(2, 5, 20))
    assert [(record.index, record.module) for record in found.records] == [(0, ""), (1, "")]

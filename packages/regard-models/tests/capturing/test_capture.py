"""Captured weights are those of the kernel that ran: bit-identical output, W V, the identity probe, a slow oracle."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="models need torch")

from attention_zoo import by_hand, examine, torch_layers  # noqa: E402

ALL = [
    pytest.param(case, mode, id=f"{place}: {case.name} ({mode})")
    for place, cases in (("torch.nn", torch_layers.CASES), ("by hand", by_hand.CASES))
    for case in cases
    for mode in case.modes
]


@pytest.mark.parametrize(("case", "mode"), ALL)
def test_what_is_captured_is_what_ran(case, mode):
    row = examine(case, mode)
    assert row.good, row
    assert case.layers is None or row.layers == case.layers

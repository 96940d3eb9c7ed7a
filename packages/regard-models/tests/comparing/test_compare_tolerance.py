"""What counts as equal: a tolerance in units of measured rounding, and "equal if" only where other inputs agree."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from regard_models import compare  # noqa: E402

WIDTH = 14
X = torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(0))


class Adapted(nn.Module):
    """A layer with an adapter of rank 2 beside it; ``merged``: added into its weights, in float32."""

    def __init__(self, *, merged: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.base = nn.Linear(WIDTH, WIDTH)
        self.down, self.up = (nn.Parameter(torch.randn(s) / 3) for s in ((2, WIDTH), (WIDTH, 2)))
        self.merged = merged
        if merged:
            self.base.weight.data += self.up.data @ self.down.data

    def forward(self, x):
        return self.base(x) if self.merged else self.base(x) + x @ self.down.T @ self.up.T


def test_weights_that_were_merged_in_float32_differ_by_its_rounding() -> None:
    strict = compare(Adapted(merged=True), Adapted(merged=False), X)
    assert not strict.equal
    assert "times what rounding in float32 does to the answers: see --tolerance" in str(strict)
    assert 0 < strict.size <= strict.own_rounding
    loose = compare(Adapted(merged=True), Adapted(merged=False), X, tolerance=1)
    assert loose.equal
    assert "equal on this input within 1 times the rounding of float32" in str(loose)


class Distances(nn.Module):
    """Attention with a penalty by distance; ``sign`` turns it round."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.sign = *(nn.Linear(WIDTH, WIDTH) for _ in range(3)), sign

    def forward(self, x):
        places = torch.arange(x.shape[1])
        away = (places[:, None] - places).abs()
        ahead = places[:, None] < places
        scores = self.q(x) @ self.k(x).transpose(1, 2) / WIDTH**0.5 - self.sign * 0.25 * away
        return torch.softmax(scores.masked_fill(ahead, -torch.inf), -1) @ self.v(x)


def test_a_tolerance_hides_no_real_difference() -> None:
    found = compare(Distances(1.0), Distances(-1.0), X, tolerance=10)
    assert not found.equal
    assert found.size > 1e3 * found.own_rounding


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_equal_if_holds_on_inputs_that_were_not_used_to_find_it(sign: float) -> None:
    """Whatever is said to make them equal does so on other texts of another length, or it is not said."""
    from regard.mistakes.rewrites.repairs import KINDS, apply_repair, plausible_repairs, record_calls

    mine, theirs = Distances(sign).double(), Distances(-sign).double()
    found = compare(mine, theirs, X)
    other = torch.randn(2, 29, WIDTH, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    with record_calls() as called, torch.no_grad():
        mine(other)
    fitting = set()
    for kind in KINDS:
        for repair in plausible_repairs(kind, called, mine):
            try:
                with apply_repair(repair, mine), torch.no_grad():
                    if torch.allclose(mine(other), theirs(other), atol=1e-9):
                        fitting.add(repair.words)
            except Exception:
                continue
    assert set(found.equal_if) <= fitting, found.equal_if

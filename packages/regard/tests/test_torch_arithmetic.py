"""The changed arithmetic: float64 stays, roundings are disturbed by as much as they are, and nothing else is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from regard.torch_arithmetic import arithmetic  # noqa: E402


def drawn(*shape: int, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


def test_casts_to_narrower_types_are_ignored_and_mixtures_go_to_float64() -> None:
    x = drawn(7, 5)
    with arithmetic(widen=True):
        assert torch.equal(x.float(), x)
        assert torch.equal(x.to(torch.bfloat16).half(), x)
        assert (x @ drawn(5, 3, dtype=torch.float32)).dtype is torch.float64
        assert torch.zeros(3).dtype is torch.float64
        assert torch.arange(3, dtype=torch.float32).dtype is torch.float64
        assert x.long().dtype is torch.int64
        assert torch.softmax(x, -1, dtype=torch.float32).dtype is torch.float64
    assert x.float().dtype is torch.float32
    assert torch.zeros(3).dtype is torch.float32


def test_what_is_written_to_keeps_its_type() -> None:
    out = torch.zeros(7, 5, dtype=torch.float32)
    with arithmetic(widen=True):
        out.copy_(drawn(7, 5))
    assert out.dtype is torch.float32


def test_grouped_products_run_in_float64() -> None:
    a, b = drawn(11, 5), drawn(3, 5, 8)
    ends = torch.tensor([4, 4, 11], dtype=torch.int32)
    with arithmetic(widen=True):
        made = torch._grouped_mm(a, b, offs=ends)
    by_hand = torch.cat([a[:4] @ b[0], a[4:4] @ b[1], a[4:] @ b[2]])
    torch.testing.assert_close(made, by_hand, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_result_moves_by_a_unit_of_its_last_place_at_most(dtype) -> None:
    x = drawn(31, 37, dtype=dtype)
    plain = x * 3
    with arithmetic(jitter=0):
        disturbed = x * 3
    moved = ((disturbed - plain).abs() / plain.abs()).max()
    # 1 - eps, rounded once more: at most two units of the last place.
    assert 0 < float(moved) <= 2 * torch.finfo(dtype).eps
    assert float((disturbed != plain).float().mean()) > 0.2


def test_moves_choices_and_counts_are_not_disturbed() -> None:
    x = drawn(31, 37)
    with arithmetic(jitter=0):
        assert torch.equal(x.transpose(0, 1).contiguous(), x.T)
        assert torch.equal(x[torch.arange(5)], x[:5])
        assert torch.equal(torch.relu(x), x.clamp(min=0))
        assert float((x > 0).double().sum()) == float((x > 0).sum())


def test_the_most_negative_number_stays_finite() -> None:
    least = torch.full((7, 5), torch.finfo(torch.float64).min, dtype=torch.float64)
    with arithmetic(jitter=0):
        assert bool(torch.isfinite(least * torch.ones(5, dtype=torch.float64)).all())


def test_the_same_seed_disturbs_alike_and_others_differ() -> None:
    x = drawn(31, 37)
    runs = []
    for seed in (0, 0, 1):
        with arithmetic(jitter=seed):
            runs.append(torch.sin(x) @ x.T)
    assert torch.equal(runs[0], runs[1])
    assert not torch.equal(runs[0], runs[2])


def test_a_unit_of_another_type() -> None:
    x = drawn(31, 37)
    with arithmetic(jitter=0, unit=torch.bfloat16):
        moved = ((x * 3 - 3 * drawn(31, 37)).abs() / x.abs()).max()
    assert float(moved) > 1e-3


def test_the_movement_tells_an_ill_conditioned_sum() -> None:
    """1 + 1e8 - 1e8 loses eight digits, and the disturbed runs know."""
    big = torch.tensor([1e8 + 0.5], dtype=torch.float64)
    with arithmetic(jitter=3):
        made = [(drawn(1) * 0 + 0.1 + big) - big for _ in range(8)]
    spread = max(float((m - made[0]).abs()) for m in made)
    assert 1e-9 < spread < 1e-6


def test_what_is_infinite_stays_so_when_disturbed() -> None:
    hidden = torch.full((3, 5), -torch.inf, dtype=torch.float64)
    with arithmetic(widen=True, jitter=0):
        made = hidden + torch.full((3, 5), 0.1, dtype=torch.float64)
    assert bool((made == -torch.inf).all())


def test_a_whole_number_among_others_is_not_floored_to_less() -> None:
    places = torch.arange(20, dtype=torch.float64)
    with arithmetic(jitter=0):
        quotients = places / 4
        rounded = (places + 0.5) / 3
    assert torch.equal(quotients.floor(), torch.div(places, 4, rounding_mode="floor"))
    assert not torch.equal(rounded, (places + 0.5) / 3)  # what is no count is disturbed

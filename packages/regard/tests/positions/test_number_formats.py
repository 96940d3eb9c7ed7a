"""Positions in number formats: rounding, correct rounding, first equal pairs."""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.errors import InputError
from regard.positions import Table, first_collision, positions, round_to
from regard.positions.number_formats import implementation
from regard.positions.rows import _repeated_indices

SHAPES = {"float64": (53, -1074), "float32": (24, -149), "bfloat16": (8, -133), "float16": (11, -24)}
SMALL = [f for f in SHAPES if f != "float64"]


def slow_round(x: Fraction, form: str) -> float:
    """Nearest, ties to even, by whole numbers."""
    bits, lowest = SHAPES[form]
    if x == 0:
        return 0.0
    exponent = max(math.floor(math.log2(abs(x))) - bits, lowest) - 2
    while abs(x) / Fraction(2) ** (exponent + 1) >= 2 ** (bits - 1) * 2 or exponent + 1 < lowest:
        exponent += 1
    while abs(x) / Fraction(2) ** exponent >= 2**bits or exponent < lowest:
        exponent += 1
    return float(round(x / Fraction(2) ** exponent) * Fraction(2) ** exponent)


def slow_table(dim: int, length: int, form: str) -> np.ndarray:
    """Every entry by 300-bit balls and exact rounding."""
    out = np.empty((length, dim))
    with flint.ctx.workprec(300):
        for t in range(length):
            for i in range(dim // 2):
                angle = t * flint.arb(10000) ** (flint.arb(-2 * i) / dim)
                for j, ball in enumerate((angle.sin(), angle.cos())):
                    mantissa, exponent = (int(part) for part in ball.mid().man_exp())
                    out[t, 2 * i + j] = slow_round(Fraction(mantissa) * Fraction(2) ** exponent, form)
    return out


def slow_first(table: np.ndarray) -> tuple[int, int] | None:
    for t in range(len(table)):
        for s in range(t):
            if table[s].tobytes() == table[t].tobytes():
                return s, t
    return None


@pytest.mark.parametrize("form", SMALL)
@given(x=st.floats(-60000, 60000))
@example(x=257.0)
@example(x=1 + 2.0**-8 + 2.0**-40)  # by way of float32 it would be rounded twice
@example(x=3 * 2.0**-26)
@example(x=5e-40)
def test_round_to_is_nearest_even(form: str, x: float) -> None:
    assert float(round_to([x], form)[0]) == slow_round(Fraction(x), form)


@pytest.mark.parametrize("form", SMALL)
def test_tables_are_correctly_rounded(form: str) -> None:
    np.testing.assert_array_equal(Table(6, form).rows(np.arange(211)), slow_table(6, 211, form))


def test_torch_rounds_bfloat16_alike() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    np.testing.assert_array_equal(round_to(x, "bfloat16"), torch.from_numpy(x).to(torch.bfloat16).double().numpy())


def test_reference_sine_of_a_float_is_correctly_rounded() -> None:
    table = Table(2, "float32", "float32", "reference")
    t = np.array([0, 1, 22, 355, 103993, 10838702, 16777215], dtype=np.uint64)
    sines, cosines, _ = table.pair(0, t)
    with flint.ctx.workprec(300):
        for k, at in enumerate(t.tolist()):
            for value, ball in ((sines[k], flint.arb(at).sin()), (cosines[k], flint.arb(at).cos())):
                mantissa, exponent = (int(part) for part in ball.mid().man_exp())
                assert value == slow_round(Fraction(mantissa) * Fraction(2) ** exponent, "float32")


# first equal pairs


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40))
def test_repeated_keeps_every_member(values: list[int]) -> None:
    prints = np.array(values, dtype=np.uint64) << np.uint64(40)
    assert _repeated_indices(prints).tolist() == [i for i, v in enumerate(values) if values.count(v) > 1]


@pytest.mark.parametrize("form", ["bfloat16", "float16"])
@pytest.mark.parametrize("through", ["real", "native", "float32"])
@pytest.mark.parametrize("dim", [2, 6])
def test_first_collision_against_all_pairs(dim: int, through: str, form: str) -> None:
    table = Table(dim, form, through, "reference")
    assert first_collision(table, 750).pair == slow_first(table.rows(np.arange(750)))


@pytest.mark.parametrize("library", ["reference", "numpy", "torch"])
def test_known_first_pairs(library: str) -> None:
    if library == "torch":
        pytest.importorskip("torch")

    def first(dim: int, form: str, through: str) -> tuple[int, int] | None:
        return first_collision(Table(dim, form, through, library), 200_000).pair

    assert first(2, "bfloat16", "float32") == (1, 711)
    assert first(2, "float16", "float32") == (2, 712)
    assert first(4, "bfloat16", "float32") == (7, 84830)
    assert first(8, "bfloat16", "float32") == (10, 169656)
    assert first(64, "bfloat16", "float32") is None
    for dim in (2, 64):
        assert first(dim, "bfloat16", "native") == (256, 257)
    assert first(4, "float16", "native") == (2048, 2049)
    assert first(2, "float16", "native") == (2, 712)


@pytest.mark.slow
def test_float32_first_pair_up_to_two_to_the_24() -> None:
    found = positions(dim=2, length=2**24, format="float32")
    assert found.equal == (1804, 10840506)
    assert found.in_doubt > 0
    rows = Table(2, "float32").rows([1804, 10840506])
    assert rows[0].tobytes() == rows[1].tobytes()


@pytest.mark.slow
def test_spacing_proves_what_the_search_finds() -> None:
    proved = positions(dim=16, length=3000, format="bfloat16")
    assert "Proof: equal rows would be within" in proved.reasons[0]
    assert first_collision(Table(16, "bfloat16"), 3000).pair is None
    far = positions(dim=64, length=10**6, format="float64")
    assert far.answer


@pytest.mark.parametrize(("dim", "length", "form"), [(16, 700, "bfloat16"), (6, 500, "float16"), (34, 41, "float32")])
def test_nearest_in_a_format_is_over_all_pairs(dim: int, length: int, form: str) -> None:
    rows = Table(dim, form).rows(np.arange(length))
    squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    squares[np.tril_indices(length)] = np.inf
    found = positions(dim=dim, length=length, format=form)
    assert found.nearest is not None
    assert found.distance is not None
    assert found.nearest[1] < length
    assert found.distance[0] ** 2 == pytest.approx(squares.min(), rel=1e-12)
    assert squares[found.nearest] == pytest.approx(squares.min(), rel=1e-12)


def test_native_nearest_is_over_all_pairs() -> None:
    found = positions(dim=6, length=200, format="bfloat16", through="native")
    rows = Table(6, "bfloat16", "native", "reference").rows(np.arange(200))
    squares = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    squares[np.tril_indices(200)] = np.inf
    assert found.distance is not None
    assert found.distance[0] ** 2 == pytest.approx(squares.min(), rel=1e-12)


def test_words() -> None:
    assert implementation("float32", "numpy") == f"numpy {np.__version__}"
    assert implementation("real", "numpy").startswith("correctly rounded")
    with pytest.raises(InputError, match="float16 ends at 65504"):
        Table(2, "float16", "native", "reference").rows([70000])
    text = str(positions(dim=4, length=300, format="bfloat16", through="native"))
    assert "positions 256 and 257 are bit for bit the same" in text
    assert "every step computed in the format" in text

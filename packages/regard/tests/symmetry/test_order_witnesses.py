"""Positions make a ReLU layer see every reordering: the theorem on inputs, and the layers for which it fails."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from regard.errors import CouldNotFindOut, InputError
from regard.positions import sinusoidal
from regard.rigor import balls
from regard.symmetry import blind_layer, random_layer, seen_orders
from regard.symmetry.order import enclosed_row, invertible


def gap(layer, X, Phi, order) -> float:
    """max |g(PX) - P g(X)|, in floats."""
    return float(np.abs(layer(X[order] + Phi) - layer(X + Phi)[order]).max())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("length", "dim", "hidden"), [(2, 2, 2), (3, 5, 5), (4, 3, 3), (3, 5, 17)])
def test_every_reordering_shows(length: int, dim: int, hidden: int, seed: int) -> None:
    Phi = np.random.default_rng(seed).standard_normal((length, dim))
    found = seen_orders(random_layer(dim, hidden=hidden, seed=seed), Phi)
    assert found.orders == len(list(itertools.permutations(range(length)))) - 1
    assert found.least > 0
    assert found.off < 0.01  # the difference is the one that the proof predicts
    assert "reorderings show" in str(found)


def test_biases_do_not_hide_it() -> None:
    """No unit is active near 0, where the layer is constant; far out all are."""
    layer = replace(random_layer(4, hidden=4), b_1=np.full(4, -1e3))
    Phi, X = sinusoidal(3, 4), np.random.default_rng(0).standard_normal((3, 4))
    assert gap(layer, X, Phi, [2, 0, 1]) == 0.0
    assert seen_orders(layer, Phi).least > 0


def test_a_key_matrix_of_rank_one_is_enough() -> None:
    rng = np.random.default_rng(0)
    layer = replace(random_layer(5, hidden=5), W_Q=np.outer(rng.standard_normal(5), rng.standard_normal(5)))
    assert seen_orders(layer, sinusoidal(3, 6)[:, :5]).least > 0


def test_equal_positions_may_change_places_and_the_others_not() -> None:
    Phi = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    layer = random_layer(2, hidden=2)
    assert seen_orders(layer, Phi, [(1, 0, 2), (1, 2, 0)]).orders == 2
    with pytest.raises(
        InputError, match=r"Order \[2, 1, 0\] moves rows among equal positions only, and no layer can see"
    ):
        seen_orders(layer, Phi)


def test_the_enclosure_is_the_layer() -> None:
    layer, Phi = random_layer(5, hidden=7, seed=3), sinusoidal(3, 6)[:, :5]
    X, order = np.random.default_rng(1).standard_normal((3, 5)), (2, 0, 1)
    with balls.precise():
        (row,) = enclosed_row(layer, X, Phi, [order], 1)
    plain = layer(X + Phi[np.argsort(order)])[1]
    assert [float(value.mid()) for value in row] == pytest.approx(plain.tolist(), rel=1e-12)
    assert all(float(value.rad()) < 1e-60 for value in row)
    moved = layer(X[list(order)] + Phi)[order.index(1)]  # g(PX), in the row to which row 1 goes
    assert moved == pytest.approx(plain, rel=1e-12)


# where it fails


@pytest.mark.parametrize("dull", ["W_V", "W_1"])
def test_a_layer_that_looks_away_sees_no_order(dull: str) -> None:
    Phi, X = sinusoidal(4, 6), np.random.default_rng(0).standard_normal((4, 6))
    layer = blind_layer(Phi, dull=dull)
    assert np.abs(layer.W_Q @ layer.W_K.T).max() > 0.1
    for order in itertools.permutations(range(4)):
        assert gap(layer, X, Phi, list(order)) < 1e-13
    looking = replace(layer, **{dull: getattr(layer, dull) + 0.1 * np.eye(6)})
    assert gap(looking, 10 * X, Phi, [1, 0, 2, 3]) > 1e-3  # the condition is what was missing
    assert np.linalg.svd(getattr(layer, dull), compute_uv=False)[-1] < 1e-14  # singular, but for rounding


def test_no_layer_is_blind_to_positions_in_every_direction() -> None:
    with pytest.raises(InputError, match="The differences of these positions span all 2 dimensions; give fewer"):
        blind_layer(sinusoidal(5, 2))
    with pytest.raises(InputError, match="dull must be W_V or W_1, not 'W_2'"):
        blind_layer(sinusoidal(2, 4), dull="W_2")


def test_what_the_theorem_does_not_cover_is_refused() -> None:
    layer, Phi, zero = random_layer(3, hidden=3), sinusoidal(2, 4)[:, :3], np.zeros((3, 3))
    with pytest.raises(InputError, match="W_V must be square and invertible"):
        seen_orders(replace(layer, W_V=zero), Phi)
    with pytest.raises(InputError, match="W_1 must be invertible where it is square"):
        seen_orders(replace(layer, W_1=zero), Phi)
    for name in ("W_Q", "W_2"):
        with pytest.raises(InputError, match=r"W_Q W_K\^T, or the feed-forward part in every direction .* is singular"):
            seen_orders(replace(layer, **{name: zero}), Phi)


def test_a_search_that_comes_to_no_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.symmetry.order.DOUBLINGS", 0)
    with pytest.raises(CouldNotFindOut, match="No input up to t = 2"):
        seen_orders(random_layer(2, hidden=2), sinusoidal(2, 2))


def test_invertible_is_proved_or_not_said() -> None:
    assert invertible(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]))
    assert not invertible(np.array([[0.1, 0.2], [0.2, 0.4]]))

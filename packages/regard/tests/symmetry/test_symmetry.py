"""Order-blindness: maps that have it pass, maps that lack it are caught, whatever goes wrong is said."""

from __future__ import annotations

import math
import sys
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.positions import sinusoidal
from regard.symmetry import dog_and_man, equal_positions, lemmas, load_map, random_layer, symmetry
from regard.symmetry.order_blindness import best_swap, involution, rounds, row_noise

RNG = np.random.default_rng(11)
WEIGHTS = {name: RNG.standard_normal((24, 24)) / math.sqrt(24) for name in "qkvo"}


def heads(X: np.ndarray, bias: np.ndarray | float = 0.0) -> np.ndarray:
    """Three heads of width 8, then ReLU, in the type of X; head 1 gets a bias on its keys."""
    T = X.dtype
    Q, K, V = (X @ WEIGHTS[name].astype(T) for name in "qkv")
    out = []
    for h in range(3):
        part = slice(8 * h, 8 * h + 8)
        S = Q[:, part] @ K[:, part].T / T.type(math.sqrt(8))
        S = S + np.asarray(bias if h == 1 else 0.0, dtype=T)
        S = np.exp(S - S.max(axis=1, keepdims=True))
        out.append(S / S.sum(axis=1, keepdims=True) @ V[:, part])
    return np.maximum(np.concatenate(out, axis=1) @ WEIGHTS["o"].astype(T), 0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_an_order_blind_map_passes_at_512(dtype: str) -> None:
    found = symmetry(heads, length=512, dim=24, dtype=dtype, trials=20)
    assert found.answer
    assert found.excess < 0.7
    assert "was not refuted in 20 permutations (no proof" in str(found)


@pytest.mark.parametrize(
    ("dtype", "length"), [("float64", 149), ("float32", 149), pytest.param("float32", 512, marks=pytest.mark.slow)]
)
def test_a_small_position_bias_in_one_head_is_caught(dtype: str, length: int) -> None:
    def biased(X: np.ndarray) -> np.ndarray:
        return heads(X, 1e-3 * np.sin(np.arange(len(X))))

    found = symmetry(biased, length=length, dim=24, dtype=dtype, trials=5)
    assert not found.answer
    assert found.excess > 5
    assert found.swap is not None
    assert found.swap_excess is not None
    assert found.swap_excess > 2
    # The witness, checked by other code: same seed, same input, one swap.
    x = np.random.default_rng(0).standard_normal((length, 24)).astype(dtype)
    p = np.arange(length)
    p[list(found.swap)] = p[list(found.swap)[::-1]]
    assert np.abs(biased(x[p]) - biased(x)[p]).max() == pytest.approx(found.swap_gap, rel=0.2)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("seed", range(3))
def test_rounding_alone_is_never_called_broken(dtype: str, seed: int) -> None:
    def sharp(X: np.ndarray) -> np.ndarray:
        S = X @ X.T / X.dtype.type(4)
        S = np.exp(S - S.max(axis=1, keepdims=True))
        return S / S.sum(axis=1, keepdims=True) @ X

    for f in (sharp, lambda X: X + X.sum(axis=0), lambda X: X / np.sqrt((X * X).sum()), np.negative):
        assert symmetry(f, length=101, dim=29, dtype=dtype, trials=10, seed=seed).answer


def test_a_map_that_works_inside_in_float32() -> None:
    def inside(X: np.ndarray) -> np.ndarray:
        return heads(X.astype(np.float32))

    found = symmetry(inside, length=67, dim=24, trials=10)
    assert found.answer
    assert found.tolerance > 1e-7


def test_noise_of_known_size_is_measured() -> None:
    x = np.random.default_rng(0).standard_normal((53, 31))
    for level in (1e-9, 1e-6):
        rng = np.random.default_rng(1)
        found = row_noise(lambda x, r=rng, s=level: np.sin(x) + s * r.standard_normal(x.shape), x, rng=rng)
        assert np.median(found) == pytest.approx(level, rel=0.2)


def test_exact_maps_have_no_tolerance() -> None:
    def last_bit(X: np.ndarray) -> np.ndarray:
        out = np.sign(X)
        out[3] *= 1 + 2.0**-52
        return out

    assert symmetry(np.sign, length=7, dim=5).answer
    assert symmetry(last_bit, length=7, dim=5).order_blind is False


def test_invariance() -> None:
    assert symmetry(lambda X: heads(X).mean(axis=0), length=61, dim=24, kind="invariant", trials=20).answer
    first = symmetry(lambda X: X[0], length=61, dim=5, kind="invariant", trials=20)
    assert not first.answer
    assert first.swap is not None
    assert 0 in first.swap
    assert symmetry(heads, length=61, dim=24, kind="invariant", trials=3).answer is False


# swaps


@given(st.integers(2, 40))
def test_every_two_rows_meet_once(n: int) -> None:
    played = list(rounds(n))
    assert sorted(pair for pairs in played for pair in pairs) == list(combinations(range(n), 2))
    assert all(len({row for pair in pairs for row in pair}) == 2 * len(pairs) for pairs in played)


@given(st.integers(2, 30), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_few_swaps_are_all_tried(n: int, seed: int) -> None:
    where = np.random.default_rng(seed).standard_normal(n)
    found = best_swap(lambda p: np.abs(where - where[p]), n)
    assert found.of_all
    assert set(found.rows) == {int(where.argmin()), int(where.argmax())}


def test_one_guilty_row_among_many_is_found() -> None:
    n, guilty = 211, 137

    def excess(p: np.ndarray) -> np.ndarray:  # shows in all rows alike, as attention to one key does
        return np.full(n, abs(int(p[guilty]) - guilty) / n)

    found = best_swap(excess, n)
    assert not found.of_all
    assert guilty in found.rows
    assert found.excess > 100 / n


def test_involution_swaps() -> None:
    assert involution([(0, 3), (1, 2)], 5).tolist() == [3, 2, 1, 0, 4]


# the coursework


def test_lemmas_hold_exactly_and_floats_are_described() -> None:
    found = lemmas(size=127, seed=5)
    assert found.answer
    assert "hold exactly" in str(found)
    assert not found.reordered_sum  # a reordered sum is never bit-identical at this size


def test_layer_is_equivariant_for_every_permutation_of_five() -> None:
    f, x = random_layer(7, seed=3), np.random.default_rng(4).standard_normal((5, 7))
    for p in map(list, permutations(range(5))):
        np.testing.assert_allclose(f(x[p]), f(x)[p], atol=1e-13)


def test_with_positions_the_identity_that_remains() -> None:
    f, rng = random_layer(6, seed=1), np.random.default_rng(2)
    x, phi = rng.standard_normal((5, 6)), sinusoidal(5, 6)
    for p in map(list, permutations(range(5))):
        back = np.argsort(p)  # row i of P A is row p[i] of A, so P^T Phi is Phi[back]
        np.testing.assert_allclose(f(x[p] + phi), f(x + phi[back])[p], atol=1e-13)
        broken = np.abs(f(x[p] + phi) - f(x + phi)[p]).max()
        assert (broken < 1e-13) == (p == sorted(p))


def test_equal_positions_keep_their_symmetry() -> None:
    f, rng, phi = random_layer(6, seed=1), np.random.default_rng(2), sinusoidal(5, 6)
    phi[3] = phi[1]
    x = rng.standard_normal((5, 6))
    assert equal_positions(phi) == [[0], [1, 3], [2], [4]]
    for p in map(list, permutations(range(5))):
        same = np.abs(f(x[p] + phi) - f(x + phi)[p]).max() < 1e-13
        assert same == np.array_equal(phi[p], phi)


def test_special_weights_keep_more() -> None:
    from dataclasses import replace

    f, phi = random_layer(6, seed=1), sinusoidal(7, 6)
    blind = replace(f, W_Q=np.zeros((6, 6)))
    assert symmetry(lambda X: blind(X + phi), length=7, dim=6).answer
    assert not symmetry(lambda X: f(X + phi), length=7, dim=6).answer


def test_dog_and_man() -> None:
    without, placed = dog_and_man(), dog_and_man(sinusoidal(5, 8))
    assert not without.answer
    assert max(without.differences) < 1e-14
    assert placed.answer
    assert min(placed.differences) > 1e-3
    assert "give the same outputs, reordered without positions" in str(without)
    with pytest.raises(InputError, match="the sentences have 5 words"):
        dog_and_man(np.eye(4))


# torch, files, errors


def test_torch_modules_and_functions() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(12, 3, 17)
    with pytest.raises(InputError, match=r"gave two answers for one input.*\.eval\(\)"):
        symmetry(layer, length=31, dim=12)
    for dtype in ("float64", "float32"):
        found = symmetry(layer.eval(), length=31, dim=12, dtype=dtype, trials=10)
        assert (found.answer, found.library) == (True, "torch")
    found = symmetry(lambda x: torch.cumsum(x, dim=0), length=31, dim=12, trials=3)
    assert (found.answer, found.library) == (False, "torch")
    assert next(layer.parameters()).dtype == torch.float32  # the given module is left as it was


def narrow(torch, *, leak: float = 0.0, kind: str = "bfloat16"):
    """Attention in a narrow arithmetic, with as much of the place added as asked for."""

    class Narrow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.q, self.k, self.v = (torch.nn.Linear(12, 12) for _ in range(3))
            if kind == "bfloat16":
                self.to(torch.bfloat16)

        def forward(self, x):
            if kind == "int8":  # values that were rounded to 8 bits with one scale for all
                scale = x.abs().max() / 127
                x = (x / scale).round().to(torch.int8).to(x.dtype) * scale
            weights = torch.softmax((self.q(x) @ self.k(x).T).float(), -1).to(x.dtype)
            return weights @ self.v(x) + leak * torch.arange(len(x), dtype=x.dtype)[:, None]

    return Narrow().eval()


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
def test_a_coarse_torch_module_is_not_accused_and_its_small_leak_is_seen(kind: str) -> None:
    torch = pytest.importorskip("torch")
    healthy = symmetry(narrow(torch, kind=kind), length=31, dim=12, trials=10)
    assert healthy.answer, str(healthy)
    assert "a float64 copy" in healthy.dtype
    assert "inputs of 3 scales" in healthy.details()
    leaking = symmetry(narrow(torch, kind=kind, leak=1e-9), length=31, dim=12, trials=10)
    assert not leaking.answer
    assert leaking.gap < 1e-6
    assert leaking.swap is not None


def test_a_leak_that_only_large_inputs_show() -> None:
    torch = pytest.importorskip("torch")

    class Far(torch.nn.Module):
        def forward(self, x):
            return torch.relu(x) + (x.abs() > 50) * torch.arange(len(x), dtype=x.dtype)[:, None]

    found = symmetry(Far(), length=31, dim=12, trials=10)
    assert not found.answer
    assert found.scale == 100


def raises(X: np.ndarray) -> np.ndarray:
    raise ValueError("no thanks.")


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (raises, r"raises raised ValueError: no thanks for an input of shape \(7, 3\) and type float64; fix it"),
        (lambda X: X[1:], r"turned shape \(7, 3\) into \(6, 3\); order-blindness needs a row out"),
        (lambda X: X * np.nan, "returned NaN or infinity"),
        (lambda X: (X, X), "returned a tuple; wrap it"),
        (lambda X: None, "returned None; wrap it"),
        (lambda X: "words", "returned a str, which is no array"),
        (lambda X: 1j * X, "returned a ndarray, which is no array of real numbers"),
        (lambda X: sys.exit(5), "raised SystemExit: 5 for an input"),
        (lambda X: X + np.random.default_rng().random(X.shape), "gave two answers for one input"),
        (dict, r"is a class \(dict\); give a function"),
        (5, "is a int; give a function"),
    ],
)
def test_bad_maps(f: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        symmetry(f, length=7, dim=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": 1}, "length is 1; it must be a whole number, 2 or more"),
        ({"dim": 0}, "dim is 0; it must be"),
        ({"trials": 0}, "trials is 0; it must be"),
        ({"seed": -1}, "seed is -1; it must be a whole number, 0 or more"),
        ({"dtype": "int8"}, "dtype is 'int8', which is not known; choose float64 or float32"),
        ({"kind": "odd"}, "kind is 'odd', which is not known"),
    ],
)
def test_bad_questions(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        symmetry(np.negative, **arguments)


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "maps.py"
    file.write_text("import neighbour\ndef good(X):\n    return 2 * X\ndef bad(X):\n    X[0] += 1\n    return X\n")
    (tmp_path / "neighbour.py").write_text("")
    assert load_map(f"{file}:good")(3) == 6
    (tmp_path / "broken.py").write_text("raise RuntimeError('early')")
    for spec, message in (
        ("maps.py", "must name a file and a function in it"),
        (f"{tmp_path}/none.py:f", "there is no file"),
        (f"{file}:best", "has no 'best'; it has good, bad"),
        (f"{tmp_path}/broken.py:f", "could not be imported: RuntimeError: early; fix it first"),
    ):
        with pytest.raises(InputError, match=message):
            load_map(spec)

"""Attention against an exact oracle, against torch, and against its own stated rounding bound."""

from __future__ import annotations

import itertools
import json
import math
import re
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.attention import UNIT, attend, averaged_heads, rounding_bound
from regard.errors import InputError
from regard.layers import block, feed_forward, multi_head, self_attention

try:
    import torch
except ModuleNotFoundError:  # the soak runs on a Python for which there may be none
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")

M, N, D, V = 3, 5, 7, 2  # queries, keys, width, value width: no two axes alike


def normal(*shape: int, seed: int = 0, size: float = 1.0) -> np.ndarray:
    return size * np.random.default_rng(seed).standard_normal(shape)


def oracle(q, k, v, allowed, scale: float) -> tuple[list, list, list]:
    """One query, exact scores, 300-bit softmax: (weights, log-weights, output) as flint balls."""
    with flint_bits(300):
        scores = [
            Fraction(scale) * sum(Fraction(a) * Fraction(b) for a, b in zip(q, key, strict=True)) for key in k.tolist()
        ]
        raised = [ball(s - max(scores)).exp() if ok else flint.arb(0) for s, ok in zip(scores, allowed, strict=True)]
        total = sum(raised, flint.arb(0))
        weights = [r / total if any(allowed) else flint.arb(0) for r in raised]
        output = [sum((w * ball(Fraction(x)) for w, x in zip(weights, column, strict=True)), flint.arb(0))
                  for column in v.T.tolist()]  # fmt: skip
        logs = [ball(s - max(scores)) - total.log() if ok else None for s, ok in zip(scores, allowed, strict=True)]
        return weights, logs, output


def ball(x: Fraction):
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


class flint_bits:  # noqa: N801
    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __enter__(self) -> None:
        self.before, flint.ctx.prec = flint.ctx.prec, self.bits

    def __exit__(self, *_: object) -> None:
        flint.ctx.prec = self.before


def error(computed: np.ndarray, exact: list) -> float:
    """The sum of absolute differences, taken in high precision."""
    with flint_bits(300):
        return float(sum((abs(flint.arb(float(c)) - e) for c, e in zip(computed, exact, strict=True)), flint.arb(0)))


# Against the oracle


@pytest.mark.parametrize("scale", [1.0, 1 / math.sqrt(D), -2.0])
@pytest.mark.parametrize("masked", [False, True])
def test_many_batched_queries_equal_the_oracle(scale: float, masked: bool) -> None:
    q, k, v = normal(11, 1, M, D), normal(13, N, D, seed=1), normal(1, N, V, seed=2)
    allowed = np.random.default_rng(3).random((11, 13, M, N)) < (0.4 if masked else 2)
    a = attend(q, k, v, allowed=allowed, scale=scale)
    assert a.weights.shape == a.log_weights.shape == a.scores.shape == (11, 13, M, N)
    assert a.output.shape == (11, 13, M, V)
    assert masked == (not allowed.any(axis=-1).all())  # rows with nothing allowed are among the cases
    for b, c, m in itertools.product(range(11), range(0, 13, 3), range(M)):
        weights, logs, output = oracle(q[b, 0, m], k[c], v[0], allowed[b, c, m], scale)
        assert error(a.weights[b, c, m], weights) < 1e-14
        assert error(a.output[b, c, m], output) < 1e-14
        for got, exact in zip(a.log_weights[b, c, m], logs, strict=True):
            assert (exact is None and got == -np.inf) or abs(got - float(exact)) < 2e-14


def test_one_query_is_one_row_of_many() -> None:
    q, k, v = normal(D), normal(2, N, D, seed=1), normal(N, V, seed=2)
    allowed = np.array([True, False, True, True, False])
    one = attend(q, k, v, allowed=allowed, scale=0.5)
    many = attend(q[None], k, v, allowed=allowed, scale=0.5)
    for name in ("weights", "log_weights", "output", "scores"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name)[..., 0, :])
    assert one.output.shape == (2, V)


def test_log_weights_where_weights_have_no_digits_left() -> None:
    a = attend([1.0], [[50.0], [0.0], [-900.0]], [[1.0], [2.0], [3.0]])
    assert a.weights[0] == 1.0
    assert a.log_weights[0] == pytest.approx(-math.exp(-50), rel=1e-15)
    assert a.weights[2] == 0.0
    assert a.log_weights[2] == pytest.approx(-950, rel=1e-15)


floats = st.floats(-1e150, 1e150)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(floats, min_size=2, max_size=2),
    st.lists(st.lists(floats, min_size=2, max_size=2), min_size=1, max_size=5),
    st.data(),
)
def test_never_nan_whatever_the_numbers(q: list[float], k: list[list[float]], data: st.DataObject) -> None:
    extreme = st.floats(allow_nan=False, allow_infinity=False)
    v = [[data.draw(extreme)] for _ in k]
    allowed = data.draw(st.lists(st.booleans(), min_size=len(k), max_size=len(k)))
    a = attend(q, k, v, allowed=allowed)
    some = any(allowed)
    assert np.isfinite(a.weights).all()
    assert np.isfinite(a.output).all()
    assert not np.isnan(a.log_weights).any()
    assert (a.weights[~np.array(allowed)] == 0).all()
    assert a.weights.sum() == pytest.approx(float(some), abs=1e-15 * len(k))
    chosen = [x for (x,), ok in zip(v, allowed, strict=True) if ok] or [0.0]
    slack = 1e-14 * max(map(abs, chosen))
    assert min(chosen) - slack <= a.output[0] <= max(chosen) + slack


def test_largest_values_saturate_instead_of_overflowing() -> None:
    biggest = np.finfo(float).max
    output = attend([0.0], np.zeros((7, 1)), np.full((7, 1), biggest)).output
    assert output[0] == pytest.approx(biggest, rel=1e-14)


def test_forbidden_keys_may_overflow() -> None:
    a = attend([1e200], [[1e200], [1e-200], [0.0]], [[1.0], [2.0], [3.0]], allowed=[False, True, True])
    assert a.output[0] == pytest.approx((2 * math.e + 3) / (math.e + 1), rel=1e-15)


# The rounding bound: valid, and nearly attained


def worst_case(seed: int, n: int, d: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """A query and nearly tied keys whose absolute products sum to `size`: weights spread, scores large."""
    rng = np.random.default_rng(seed)
    q, k = rng.standard_normal(d), rng.standard_normal(d) + rng.standard_normal((n, d)) / size
    return q * size / (np.abs(k) @ np.abs(q)).max(), k


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 7), st.integers(1, 11), st.floats(-3, 16), st.sampled_from([1.0, 0.3]))
def test_rounding_bound_is_valid(seed: int, n: int, d: int, exponent: float, scale: float) -> None:
    q, k = worst_case(seed, n, d, 10.0**exponent)
    v = np.sign(normal(n, V, seed=seed))
    a, bound = attend(q, k, v, scale=scale), float(rounding_bound(q, k, scale=scale))
    weights, _, output = oracle(q, k, v, [True] * n, scale)
    assert error(a.weights, weights) <= bound
    for got, exact in zip(a.output, output, strict=True):
        assert error([got], [exact]) <= bound + (n + 2) * UNIT


def test_rounding_bound_is_tight() -> None:
    """Among random two-key cases some come within a factor 10: nothing much better can be stated."""
    ratios = []
    for seed in range(300):
        q, k = worst_case(seed, 2, 2, 1e9)
        weights, _, _ = oracle(q, k, np.ones((2, 1)), [True, True], 1.0)
        ratios.append(error(attend(q, k, np.ones((2, 1))).weights, weights) / float(rounding_bound(q, k)))
    assert 0.1 < max(ratios) <= 1


def test_rounding_bound_at_the_edges() -> None:
    assert rounding_bound([1e300], [[1e300], [0.0]]) == pytest.approx(2)  # says nothing, says so
    only_small = rounding_bound([1e300], [[1e300], [0.0]], allowed=[False, True])
    assert only_small < 1e-14
    assert rounding_bound(normal(M, D), normal(2, N, D)).shape == (2, M)
    # Products that underflow and are scaled back up: 2^-1080 * 2^1020 is lost.
    q, k, scale = [2.0**-540], np.array([[2.0**-540], [0.0]]), 2.0**1020
    weights, _, _ = oracle(q, k, np.ones((2, 1)), [True, True], scale)
    lost = error(attend(q, k, np.ones((2, 1)), scale=scale).weights, weights)
    assert lost <= rounding_bound(q, k, scale=scale)


# Against torch


def sdpa(q: np.ndarray, k: np.ndarray, v: np.ndarray, **options: object) -> np.ndarray:
    return torch.nn.functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), **options).numpy()


@needs_torch
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("width", [V, D])  # torch takes another path when values are as wide as keys
def test_equals_sdpa_on_random_keys(size: float, width: int) -> None:
    q, k, v = normal(2, 11, M, D), normal(2, 11, N, D, seed=1), normal(2, 11, N, width, seed=2)
    q *= size / np.abs(q @ np.swapaxes(k, -1, -2)).max()
    allowed = np.random.default_rng(4).random((2, 11, M, N)) < 0.3
    assert not allowed.any(axis=-1).all()  # fully masked rows are among them: SDPA gives zeros there, as we do
    for mask in (None, allowed):
        torch_mask = None if mask is None else torch.from_numpy(mask)
        for scale in (1.0, 1 / math.sqrt(D)):
            theirs = sdpa(q / scale, k, v, attn_mask=torch_mask, scale=scale)
            np.testing.assert_allclose(
                attend(q / scale, k, v, allowed=mask, scale=scale).output, theirs, rtol=0, atol=1e-12
            )


@needs_torch
@pytest.mark.parametrize("size", [1e2, 1e3, 1e4, 1e6, 1e9, 1e12])
def test_equals_sdpa_on_nearly_tied_keys_within_the_bound(size: float) -> None:
    """Ties are the hardest case: one unit in the last place of a score moves the weights. To 1e-12 while the score's
    own spacing allows it (1e3), within twice the bound throughout."""
    for seed, (n, d) in enumerate(itertools.product([2, 3, 101], [1, 3, 17, 64])):
        q, k = worst_case(seed, n, d, size)
        v = np.sign(normal(n, d, seed=seed))
        apart = np.abs(attend(q, k, v).output - sdpa(q[None], k, v, scale=1.0)[0]).max()
        assert apart <= 2 * (float(rounding_bound(q, k)) + (n + 2) * UNIT)
        assert size > 1e3 or apart <= 1e-12


@needs_torch
def test_sdpa_gives_zeros_where_nothing_is_allowed() -> None:
    q, k, v = normal(M, D), normal(N, D), normal(N, V)
    allowed = np.ones((M, N), bool)
    allowed[1] = False
    theirs = sdpa(q, k, v, attn_mask=torch.from_numpy(allowed))
    ours = attend(q, k, v, allowed=allowed, scale=1 / math.sqrt(D))
    assert (theirs[1] == 0).all()
    assert (ours.output[1] == 0).all()
    assert (ours.weights[1] == 0).all()
    assert (ours.log_weights[1] == -np.inf).all()
    np.testing.assert_allclose(ours.output, theirs, atol=1e-15)


@needs_torch
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_multi_head_equals_torch(bias: bool, masked: bool) -> None:
    heads, width = 3, 15
    torch.manual_seed(5)
    layer = torch.nn.MultiheadAttention(width, heads, bias=bias, batch_first=True, dtype=torch.float64)
    if bias:
        torch.nn.init.normal_(layer.in_proj_bias)
        torch.nn.init.normal_(layer.out_proj.bias)
    x, y = normal(2, M, width), normal(2, N, width, seed=1)
    allowed = np.random.default_rng(6).random((M, N)) < 0.6 if masked else np.ones((M, N), bool)
    assert allowed.any(axis=1).all()
    with torch.no_grad():
        theirs, weights = layer(
            *map(torch.from_numpy, (x, y, y)), attn_mask=torch.from_numpy(~allowed), average_attn_weights=False
        )
        matrices = [w.numpy().T for w in (*layer.in_proj_weight.chunk(3), layer.out_proj.weight)]
        biases = (*(b.numpy() for b in layer.in_proj_bias.chunk(3)), layer.out_proj.bias.numpy()) if bias else None
    ours = multi_head(x, y, y, *matrices, heads=heads, biases=biases, allowed=allowed)
    np.testing.assert_allclose(ours.output, theirs.numpy(), atol=1e-14)
    np.testing.assert_allclose(ours.heads.weights, weights.numpy(), atol=1e-15)


def test_multi_head_gives_only_the_bias_where_nothing_is_allowed() -> None:
    """nn.MultiheadAttention gives NaN there when it is asked for its weights, which is its default."""
    x, matrices = normal(M, 4), [normal(4, 4, seed=s) for s in range(4)]
    allowed = np.ones((M, M), bool)
    allowed[2] = False
    biases = [normal(4, seed=s) for s in range(4)]
    ours = multi_head(x, x, x, *matrices, heads=2, biases=tuple(biases), allowed=allowed)
    np.testing.assert_array_equal(ours.output[2], biases[3])
    assert np.isfinite(ours.output).all()


# Heads and layers, by hand


def test_averaged_heads_is_the_mean_of_separate_heads() -> None:
    q, k, v = normal(11, M, D), normal(N, D, seed=1), normal(N, V, seed=2)
    ours = averaged_heads(q, k, v, scale=0.5)
    separate = [attend(q[:, h], k, v, scale=0.5).output for h in range(M)]
    np.testing.assert_allclose(ours.output, np.mean(separate, axis=0), atol=1e-15)
    assert ours.heads.weights.shape == (11, M, N)


def weights_of_a_block(width: int = 5, inner: int = 7) -> list[np.ndarray]:
    shapes = [(width, 3), (width, 3), (width, 2), (2, inner), (inner,), (inner, 11), (11,)]
    return [normal(*shape, seed=s) for s, shape in enumerate(shapes)]


def test_block_is_the_formula_of_the_coursework() -> None:
    X = normal(13, 5)
    W_Q, W_K, W_V, W_1, b_1, W_2, b_2 = weights_of_a_block()
    scores = (X @ W_Q) @ (X @ W_K).T / math.sqrt(3)
    A = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    H = A @ (X @ W_V)
    Z = np.maximum(H @ W_1 + np.outer(np.ones(13), b_1), 0) @ W_2 + np.outer(np.ones(13), b_2)
    ours = block(X, W_Q, W_K, W_V, W_1, b_1, W_2, b_2)
    np.testing.assert_allclose(ours.attention.output, H, atol=1e-14)
    np.testing.assert_allclose(ours.output, Z, atol=1e-13)
    assert (ours.output < 0).any()  # the ReLU is inside, not outside


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(6)))
def test_block_is_blind_to_order(order: list[int]) -> None:
    X, weights = normal(6, 5), weights_of_a_block()
    np.testing.assert_allclose(block(X[order], *weights).output, block(X, *weights).output[order], atol=1e-12)


def test_causal_block_does_not_see_the_future() -> None:
    X, weights, causal = normal(6, 5), weights_of_a_block(), np.tri(6, dtype=bool)
    changed = X.copy()
    changed[4:] += 1
    before, after = block(X, *weights, allowed=causal).output, block(changed, *weights, allowed=causal).output
    np.testing.assert_array_equal(before[:4], after[:4])
    assert (before[4:] != after[4:]).any(axis=1).all()


def test_self_attention_is_batched() -> None:
    X, (W_Q, W_K, W_V, *_) = normal(2, 13, 5), weights_of_a_block()
    both = self_attention(X, W_Q, W_K, W_V).output
    for b in range(2):
        np.testing.assert_allclose(both[b], self_attention(X[b], W_Q, W_K, W_V).output, atol=1e-15)


# What it says


def test_paragraphs_and_json() -> None:
    one = attend([0.0], [[1.0], [2.0]], [[1.0], [3.0]])
    assert str(one) == (
        "One query over 2 keys. "
        "Most attention: key 0 gets 0.5, key 1 gets 0.5. Output: [2.]."
    )  # fmt: skip
    assert "3 queries over 5 keys" in str(attend(normal(M, D), normal(N, D), normal(N, V)))
    masked = attend(normal(M, D), normal(N, D), normal(N, V), allowed=np.eye(M, N, 3, dtype=bool))
    assert "Nothing is allowed for 1 of them" in str(masked)
    assert json.loads(masked.to_json())["log_weights"][2][0] == "-inf"
    assert str(averaged_heads([[0.0]], [[1.0]], [[3.0]])).startswith("Several heads together give [3.].")
    assert "Output of shape (6, 11)" in str(block(normal(6, 5), *weights_of_a_block()))


Q, K, VALUES = np.ones((M, D)), np.ones((N, D)), np.ones((N, V))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attend(Q[:, :3], K, VALUES), "Queries have width 3 but keys have width 7; they must be equal."),
        (lambda: attend(Q, K, VALUES[:2]), "There are 5 keys but 2 values; give one value per key."),
        (lambda: attend(Q, K, VALUES[:, 0]), "queries need at least 1 axis, keys and values at least 2"),
        (lambda: attend(1.0, K, VALUES), "queries need at least 1 axis"),
        (lambda: attend(np.ones((2, M, D)), np.ones((3, N, D)), VALUES), "do not broadcast; make them equal or 1."),
        (lambda: attend(Q * np.nan, K, VALUES), "queries: row 0, column 0 (counted from 0) is nan"),
        (lambda: attend(Q, K - np.inf, VALUES), "keys: row 0, column 0 (counted from 0) is -inf"),
        (lambda: attend(Q, K, VALUES, scale=math.inf), "scale: it is inf; every number must be finite"),
        (lambda: attend(Q, K, VALUES, allowed=np.ones((M, N))), "allowed must be boolean (True = may attend)"),
        (lambda: attend(Q, K, VALUES, allowed=np.ones(4, bool)), "allowed has shape (4,), which does not broadcast"),
        (lambda: attend(Q[0], K, VALUES, allowed=np.ones((M, N), bool)), "does not broadcast to the scores' (5,)"),
        (lambda: attend([[1.0], [1e200]], [[0.0], [1e200]], [[1.0], [1.0]]), "score of query 1 and key 1 overflows"),
        (lambda: averaged_heads(Q[0], K, VALUES), "queries must have one row per head;"),
        (lambda: multi_head(Q, K, K, *[np.eye(D)] * 4, heads=2), "W_Q gives 7 columns, which 2 heads cannot share"),
        (lambda: multi_head(Q, K, K, *[np.eye(D)] * 4, heads=0), "which 0 heads cannot share equally; change heads."),
        (lambda: multi_head(Q, K, K, *[np.eye(D)] * 4, heads=1, biases=(b_1, b_1)), "biases must be four"),
        (lambda: self_attention(Q, np.eye(3), np.eye(D), np.eye(D)), "W_Q has 3 rows, so its input must be"),
        (lambda: feed_forward(Q, np.eye(D), [1.0], np.eye(D), [1.0]), "The bias of W_1 must have 7 entries, one per"),
        (lambda: feed_forward(Q, 1e308 * np.ones((D, 2)), b_1, np.eye(2), b_1), "product with W_1 overflows float64"),
    ],
)  # fmt: skip
def test_bad_input(call, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        call()


b_1 = np.zeros(2)

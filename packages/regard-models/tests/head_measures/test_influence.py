"""Influence, ||alpha v W_O||, and rollout, against loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

from regard.errors import InputError
from regard_models.capturing.records import AttentionRecord
from regard_models.head_measures.weight_patterns import influence, rollout, value_lengths


def drawn_record(batch=2, heads=3, queries=5, keys=7, width=4, model=11):
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.ones(keys), (batch, heads, queries)).astype(np.float32)
    return AttentionRecord(
        index=4, module="m", kernel="k", weights=weights, heads=tuple(range(heads)),
        v=random.normal(size=(batch, heads, keys, width)).astype(np.float32),
        w_o=random.normal(size=(heads, width, model)).astype(np.float32),
    )  # fmt: skip


def test_every_number_by_hand():
    record = drawn_record()
    found = influence(record, example=1)
    assert found.shape == (3, 5, 7)
    for h, i, j in np.ndindex(*found.shape):
        added = record.weights[1, h, i, j].astype(float) * (record.v[1, h, j].astype(float) @ record.w_o[h])
        assert found[h, i, j] == pytest.approx(np.linalg.norm(added), rel=1e-5)


def test_the_head_is_the_sum_of_what_it_adds():
    """In one direction the lengths add up to the head's output: all values along one vector."""
    record = drawn_record(width=1)
    output = np.abs(record.weights[0]) @ np.abs(record.v[0]) @ np.abs(record.w_o)
    ours = influence(record).sum(axis=2)
    np.testing.assert_allclose(ours, np.linalg.norm(output, axis=2), rtol=1e-5)


def test_what_is_missing_is_named():
    weights = np.full((1, 1, 2, 2), 0.5, np.float32)
    bare = AttentionRecord(index=3, module="", kernel="", weights=weights, heads=(0,))
    said = "Layer 3 has no v and no w_o, which influence needs; capture it with keep=('v', 'w_o')."
    with pytest.raises(InputError, match="^" + re.escape(said) + "$"):
        influence(bare)
    with pytest.raises(InputError, match=r"^There is no example 2; the batch has 2, counted from 0\.$"):
        influence(drawn_record(), example=2)


def test_a_model_adds_what_influence_says():
    """Switching a head's one key off changes the output by exactly its influence."""
    torch = pytest.importorskip("torch", reason="models need torch")
    from regard_models import capture
    from regard_models.editing.head_edits import edit

    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(20, 4, batch_first=True).eval().double()
    words = torch.randn(1, 7, 20, dtype=torch.float64)
    call = (words, words, words)
    with torch.no_grad():
        found = capture(attention, call, keep=("v", "w_o"))
        usual = attention(*call)[0]
    expected = influence(found.records[0])
    for head, key in [(0, 0), (3, 5), (2, 6)]:

        def without(weights, key=key):
            weights = weights.clone()
            weights[..., key] = 0
            return weights

        with torch.no_grad(), edit(attention, layer=0, head=head, pattern=without):
            moved = (attention(*call)[0] - usual)[0].norm(dim=1)
        np.testing.assert_allclose(expected[head, :, key], moved.numpy(), rtol=1e-5)


def test_rollout_is_the_product_of_its_steps():
    random = np.random.default_rng(1)
    layers = [random.dirichlet(np.ones(6), (h, 6)) for h in (2, 3, 1)]
    steps = [0.5 * np.eye(6) + 0.5 * layer.mean(axis=0) for layer in layers]
    np.testing.assert_allclose(rollout(layers), steps[2] @ steps[1] @ steps[0], rtol=1e-12)
    np.testing.assert_allclose(rollout(layers).sum(axis=1), 1.0, rtol=1e-12)
    assert rollout([np.zeros((1, 3, 3))]).tolist() == np.eye(3).tolist()  # rows that read nothing keep themselves


def test_rollout_refuses_what_it_cannot_multiply():
    with pytest.raises(InputError, match=r"^Rollout needs at least one layer\.$"):
        rollout([])
    with pytest.raises(InputError, match=r"^Rollout needs self-attention layers of one length, each heads x T x T\.$"):
        rollout([np.ones((2, 3, 5))])


def test_lengths_of_values():
    random = np.random.default_rng(2)
    v, w = random.normal(size=(3, 7, 4)), random.normal(size=(3, 4, 11))
    np.testing.assert_allclose(value_lengths(v, w), np.linalg.norm(v @ w, axis=2), rtol=1e-12)

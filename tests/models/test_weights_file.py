"""Weights from files: .npy, .npz and .safetensors, and what is wrong with them in one sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest

from regard.errors import InputError
from regard.models.weights_file import is_weights_file, read_weights


@pytest.fixture
def weights():
    return np.random.default_rng(0).dirichlet(np.ones(5), (12, 3, 5)).astype(np.float32)


def raises(message):
    return pytest.raises(InputError, match="^" + re.escape(message))


def same(found, weights):
    assert [record.index for record in found.records] == list(range(len(weights)))
    for record, layer in zip(found.records, weights, strict=True):
        np.testing.assert_array_equal(record.weights[0], layer)


def test_one_array(weights, tmp_path):
    np.save(tmp_path / "w.npy", weights)
    np.savez(tmp_path / "w.npz", anything=weights, tokens=list("abcde"))
    same(read_weights(tmp_path / "w.npy"), weights)
    found = read_weights(tmp_path / "w.npz")
    same(found, weights)
    assert found.tokens == [list("abcde")]
    assert read_weights(tmp_path / "w.npz", tokens=list("vwxyz")).tokens == [list("vwxyz")]


def test_layers_in_the_order_of_their_numbers(weights, tmp_path):
    """layer2 comes before layer10."""
    np.savez(tmp_path / "w.npz", **{f"layer{n}": weights[n] for n in reversed(range(12))})
    same(read_weights(tmp_path / "w.npz"), weights)
    safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is missing")
    safetensors.save_file({f"layer{n}": weights[n] for n in range(12)}, tmp_path / "w.safetensors")
    same(read_weights(tmp_path / "w.safetensors"), weights)


def test_a_cache_by_its_names(weights, tmp_path):
    names = {f"blocks.{n}.attn.hook_pattern": weights[n][None] for n in range(12)}
    values = {f"blocks.{n}.attn.hook_v": np.full((1, 5, 3, 2), n, np.float32) for n in range(12)}
    np.savez(tmp_path / "w.npz", other=np.zeros(3), **names, **values)
    found = read_weights(tmp_path / "w.npz")
    same(found, weights)
    assert found.records[7].v.shape == (1, 3, 5, 2)
    assert (found.records[7].v == 7).all()


def test_our_own_captures(weights, tmp_path):
    from regard.models import Capture

    Capture.from_arrays(weights, name="mine").to_safetensors(tmp_path / "c.safetensors")
    found = read_weights(tmp_path / "c.safetensors")
    same(found, weights)
    assert found.name == "mine"


def test_what_counts_as_a_file_of_weights(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    assert is_weights_file("w.npy")
    assert is_weights_file("W.SAFETENSORS")
    assert not is_weights_file("my.py:build")
    assert not is_weights_file(str(tmp_path / "folder.npz"))


def test_refusals(weights, tmp_path):
    with raises(f"'{tmp_path / 'no.npy'}': there is no such file; give one that ends in .npy, .npz, .safetensors."):
        read_weights(tmp_path / "no.npy")
    (tmp_path / "bad.npz").write_bytes(b"nothing of the kind")
    with raises(f"{tmp_path / 'bad.npz'} is not a readable .npz file: "):
        read_weights(tmp_path / "bad.npz")
    np.savez(tmp_path / "words.npz", a=np.array(["x", "y"]))
    with raises(f"a in {tmp_path / 'words.npz'} must hold real numbers, not <U1; tokens must be words."):
        read_weights(tmp_path / "words.npz")
    np.savez(tmp_path / "empty.npz")
    with raises(f"{tmp_path / 'empty.npz'} holds no arrays; give attention weights, a layer each."):
        read_weights(tmp_path / "empty.npz")
    np.savez(tmp_path / "objects.npz", a=np.array([{}], dtype=object))
    with raises(f"{tmp_path / 'objects.npz'} is not a readable .npz file: Object arrays cannot be loaded"):
        read_weights(tmp_path / "objects.npz")
    (tmp_path / "bad.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"bad\.safetensors"):
        read_weights(tmp_path / "bad.safetensors")
    np.save(tmp_path / "flat.npy", weights[0, 0])
    with pytest.raises(InputError, match="weights"):
        read_weights(tmp_path / "flat.npy")

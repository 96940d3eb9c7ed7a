"""Patterns from files, arrays and outputs: what is read, in which order, with which words, and what is refused."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from regard.errors import InputError
from regard_models.capturing.records import Capture
from regard_models.head_measures.pattern_reader import is_pattern_file, read_patterns

LAYERS, BATCH, HEADS, T = 3, 1, 2, 5


@pytest.fixture
def weights():
    logits = np.random.default_rng(0).normal(size=(LAYERS, HEADS, T, T))
    return (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype(np.float32)


@pytest.fixture
def words():
    return ["the", "dog", "bit", "the", "man"]


def same(found: Capture, weights) -> bool:
    return all(np.array_equal(record.weights[0], layer) for record, layer in zip(found.records, weights, strict=True))


def test_a_capture_is_itself_and_its_file_too(weights, words, tmp_path):
    found = Capture.from_arrays(weights, tokens=words)
    assert read_patterns(found) is found
    found.to_safetensors(tmp_path / "c.safetensors")
    again = read_patterns(tmp_path / "c.safetensors")
    assert same(again, weights)
    assert again.tokens == [words]
    assert read_patterns(tmp_path / "c.safetensors", tokens=list("abcde")).tokens == [list("abcde")]


def test_npy(weights, words, tmp_path):
    np.save(tmp_path / "w.npy", weights)
    found = read_patterns(tmp_path / "w.npy", tokens=words)
    assert same(found, weights)
    assert found.name == "w.npy"
    assert found.tokens == [words]


def test_npz_with_its_words(weights, words, tmp_path):
    np.savez(tmp_path / "w.npz", weights=weights, tokens=np.array(words), other=np.arange(3))
    found = read_patterns(str(tmp_path / "w.npz"))
    assert same(found, weights)
    assert found.tokens == [words]
    assert same(read_patterns(f"{tmp_path / 'w.npz'}:weights"), weights)


def test_layers_one_by_one_in_the_order_that_people_count(weights, tmp_path):
    many = {f"layer.{n}": weights[n % LAYERS][None] * (n + 1) / 12 for n in range(12)}
    save_file(many, tmp_path / "w.safetensors", metadata={"tokens": json.dumps(list("abcde"))})
    found = read_patterns(tmp_path / "w.safetensors")
    assert same(found, [many[f"layer.{n}"][0] for n in range(12)])  # 10 after 9, not after 1
    assert found.tokens == [list("abcde")]


def test_a_cache_of_transformer_lens_in_a_file(weights, tmp_path):
    cache = {f"blocks.{n}.attn.hook_pattern": weights[n][None] for n in range(LAYERS)}
    save_file(cache | {"blocks.0.hook_resid_pre": weights[0, 0]}, tmp_path / "w.safetensors")
    assert same(read_patterns(tmp_path / "w.safetensors"), weights)


def test_an_output_with_encoder_decoder_and_cross_attention(weights):
    cross = np.full((BATCH, HEADS, T, 7), 1 / 7, np.float32)
    encoder = np.full((BATCH, HEADS, 7, 7), 1 / 7, np.float32)
    output = SimpleNamespace(
        encoder_attentions=(encoder,), decoder_attentions=(weights[:1],), cross_attentions=(cross,), attentions=None
    )
    found = read_patterns(output, tokens=list("qwertyu"), target_tokens=list("abcde"), name="T5")
    assert [record.module for record in found.records] == ["encoder layer 0", "decoder layer 0", "cross layer 0"]
    assert [record.index for record in found.records] == [0, 1, 2]
    labels = [found.labels(record) for record in found.records]
    assert labels[0] == (list("qwertyu"), list("qwertyu"))
    assert labels[1] == (list("abcde"), list("abcde"))
    assert labels[2] == (list("abcde"), list("qwertyu"))


def test_the_heads_of_textbooks_do_what_they_say():
    found = read_patterns("example:textbook")
    words = found.tokens[0]
    for layer in (0, 1):
        heads = found.record(layer).weights[0]
        assert np.allclose(heads.sum(-1), 1, atol=1e-6)
        assert heads[0, 5, 4] == heads[2, 5, 0] == heads[3, 5, 5] == 1
        same, induction = heads[4], heads[5]
        for query, key in np.argwhere(same > 0):
            assert (words[key] == words[query] and key < query) or (key == 0 and words[query] not in words[:query])
        for query, key in np.argwhere(induction > 0):
            assert key == 0 or (words[key - 1] == words[query] and key <= query)
    assert not np.triu(found.record(1).weights[0].max(0), 1).any()
    assert np.allclose(found.record(0).weights[0, 7], 1 / len(words))
    with pytest.raises(InputError, match="There is no 'example:other'; there is example:textbook"):
        read_patterns("example:other")


def test_what_names_a_file_of_patterns(tmp_path):
    (tmp_path / "folder.npz").mkdir()
    assert is_pattern_file("w.npy")
    assert is_pattern_file("a/W.SafeTensors:name")
    assert not is_pattern_file(str(tmp_path / "folder.npz"))
    assert not is_pattern_file("my.py:build")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p / "none.npy", "there is no such file"),
        (lambda p: p / "none.csv", r"must end in \.npy, \.npz or \.safetensors"),
        (lambda p: save(p / "flat.npy", np.ones((2, 3))), r"must have 4 or 5 dimensions but has shape \(2, 3\)"),
        (lambda p: save(p / "nan.npy", np.full((1, 1, 2, 2), np.nan)), "is nan; every number must be finite"),
        (lambda p: archive(p, a=np.ones((1, 1, 2, 2)), b=np.ones(2)), r"holds 2 arrays, and 'b' has shape \(2,\)"),
        (lambda p: archive(p, weights=np.ones((1, 1, 2, 2)), tokens=np.arange(2)), "must be an array of strings"),
        (lambda p: archive(p, weights=np.ones((1, 1, 2, 2)), tokens=np.array(list("abc"))), "a list of 3 came"),
        (lambda p: written(p / "bad.npz", b"PK nonsense"), r"not a readable \.npz archive"),
        (
            lambda p: zeros(p / "bomb.npz"),
            r"at most [\d,]+ are read; if you trust it, write it again with numpy\.savez",
        ),
        (lambda p: written(p / "bad.safetensors", b"nonsense" * 9), r"not a readable \.safetensors file"),
        (lambda p: worded(p, "7"), "must be a JSON list of words"),
        (lambda p: worded(p, "[" * 9), "must be a JSON list of words"),
    ],
)
def test_what_is_refused(make, said, tmp_path):
    with pytest.raises(InputError, match=said):
        read_patterns(make(tmp_path))


def test_words_that_fit_nothing_are_refused(weights):
    with pytest.raises(InputError, match="one word for every place, 5 of them, but 2 came"):
        read_patterns(Capture.from_arrays(weights), tokens=["a", "b"])
    with pytest.raises(InputError, match="holds no attentions; run the model with output_attentions=True"):
        read_patterns(SimpleNamespace(attentions=()))


def save(path, array):
    np.save(path, array)
    return path


def zeros(path):
    """Seventy million numbers in seventy thousand bytes."""
    np.savez_compressed(path, weights=np.zeros((1, 70, 1000, 1000), dtype=np.int8))
    return path


def archive(folder, **arrays):
    np.savez(folder / "a.npz", **arrays)
    return folder / "a.npz"


def written(path, data):
    path.write_bytes(data)
    return path


def worded(folder, text):
    save_file({"w": np.full((1, 1, 2, 2), 0.5, np.float32)}, folder / "w.safetensors", metadata={"tokens": text})
    return folder / "w.safetensors"


def test_a_cache_in_a_file_keeps_its_queries_keys_and_values(tmp_path):
    weights = np.random.default_rng(0).dirichlet(np.ones(5), (12, 3, 5)).astype(np.float32)
    names = {f"blocks.{n}.attn.hook_pattern": weights[n][None] for n in range(12)}
    values = {f"blocks.{n}.attn.hook_v": np.full((1, 5, 3, 2), n, np.float32) for n in range(12)}
    np.savez(tmp_path / "w.npz", other=np.zeros(3), **names, **values)
    found = read_patterns(tmp_path / "w.npz")
    assert [record.index for record in found.records] == list(range(12))
    np.testing.assert_array_equal(found.records[7].weights[0], weights[7])
    assert found.records[7].v.shape == (1, 3, 5, 2)
    assert (found.records[7].v == 7).all()

"""Patterns with known scores, and scores against loops that read the definition aloud."""

from __future__ import annotations

import numpy as np
import pytest

from regard_models.head_measures.weight_patterns import PATTERNS, pattern_scores

WORDS = ["[CLS]", "a", "b", ",", "a", "b", "c", "[SEP]"]
COUNT = len(WORDS)
CAUSAL = np.tril(np.ones((COUNT, COUNT), dtype=bool))


def scores(weights, allowed=None, words=WORDS, **options):
    weights = np.asarray(weights, dtype=float)
    weights = weights[None] if weights.ndim == 2 else weights
    allowed = np.ones_like(weights, dtype=bool) if allowed is None else np.broadcast_to(allowed, weights.shape)
    return pattern_scores(weights, allowed, words=words, key_words=words, **{"cross": False, **options})


def one_hot(reads):
    """A head whose query i puts all its weight on key reads[i]."""
    return np.eye(COUNT)[reads]


@pytest.mark.parametrize(
    ("pattern", "reads"),
    [
        ("previous", [0, 0, 1, 2, 3, 4, 5, 6]),
        ("same", list(range(COUNT))),
        ("next", [1, 2, 3, 4, 5, 6, 7, 7]),
        ("first", [0] * COUNT),
        ("separator", [7, 3, 3, 7, 7, 7, 7, 7]),
        ("duplicate", [0, 4, 5, 3, 1, 2, 6, 7]),
        ("induction", [0, 0, 0, 0, 2, 3, 0, 0]),
    ],
)
def test_a_pure_head_has_score_one_and_its_name(pattern, reads):
    found = scores(one_hot(reads))
    assert found.scores[pattern][0] == 1.0
    assert found.name(0, broadness=1 / COUNT) == pattern


def test_equal_weights_score_as_chance():
    found = scores(np.full((COUNT, COUNT), 1 / COUNT))
    for pattern in PATTERNS:
        assert found.scores[pattern][0] == pytest.approx(found.chance[pattern])
    assert found.name(0, broadness=1.0) == "broad"
    assert found.name(0, broadness=0.3) == "mixed"


def test_equal_weights_under_a_causal_mask_score_as_chance_too():
    found = scores(CAUSAL / CAUSAL.sum(axis=1, keepdims=True), CAUSAL)
    for pattern, values in found.scores.items():
        assert np.isnan(found.chance[pattern]) or values[0] == pytest.approx(found.chance[pattern])
    assert np.isnan(found.chance["next"])  # nobody may look ahead


def wanted_keys(pattern, i):
    """The keys that query i should read, straight from the table in the module."""
    after = [j + 1 for j in range(i) if WORDS[j] == WORDS[i] and j + 1 < i]
    keys = {
        "previous": [i - 1], "same": [i], "next": [i + 1], "first": [0] if i > 0 else [],
        "separator": [j for j in range(1, COUNT) if WORDS[j] in (",", "[SEP]")],
        "duplicate": [j for j in range(COUNT) if WORDS[j] == WORDS[i] and j != i], "induction": after,
    }  # fmt: skip
    return [j for j in keys[pattern] if 0 <= j < COUNT]


@pytest.mark.parametrize("causal", [False, True])
def test_random_weights_against_loops(causal):
    random = np.random.default_rng(0)
    may = CAUSAL if causal else np.ones_like(CAUSAL)
    weights = random.random((3, COUNT, COUNT)) * may
    weights /= weights.sum(axis=2, keepdims=True)
    found = scores(weights, may)
    for pattern in PATTERNS:
        rows = [(i, keys) for i in range(COUNT) if (keys := [j for j in wanted_keys(pattern, i) if may[i, j]])]
        if not rows:
            assert np.isnan(found.scores[pattern]).all()
            continue
        for h in range(3):
            assert found.scores[pattern][h] == pytest.approx(np.mean([weights[h, i, k].sum() for i, k in rows]))
        assert found.chance[pattern] == pytest.approx(np.mean([len(k) / may[i].sum() for i, k in rows]))


def test_without_tokens_only_places_are_left():
    found = scores(np.eye(COUNT), words=None)
    assert set(found.scores) == {"previous", "same", "next", "first"}


def test_cross_attention_has_no_neighbours():
    weights = np.full((1, 3, COUNT), 1 / COUNT)
    found = pattern_scores(weights, weights > 0, words=["x", "y", "z"], key_words=WORDS, cross=True)
    assert set(found.scores) == {"first", "separator"}
    assert found.chance["first"] == pytest.approx(1 / COUNT)


def test_a_pattern_must_be_clear():
    """A fifth of the weight above chance is not enough to be called after it."""
    weights = 0.8 * np.full((COUNT, COUNT), 1 / COUNT) + 0.2 * np.eye(COUNT)
    assert scores(weights).name(0, broadness=0.9) == "broad"
    weights = 0.6 * np.full((COUNT, COUNT), 1 / COUNT) + 0.4 * np.eye(COUNT)
    assert scores(weights).name(0, broadness=0.9) == "same"

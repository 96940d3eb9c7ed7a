"""Heads as textbooks draw them, on one sentence: to look at when no model is at hand, and to know real ones by.

| layer 0 | head | reads |
|---|---|---|
| | 0 | the word before |
| | 1 | the word after |
| | 2 | the first word: where heads rest |
| | 3 | itself |
| | 4 | earlier words that are the same |
| | 5 | what followed the same word the last time (induction) |
| | 6 | its neighbours, the nearer the more |
| | 7 | everything alike |

Layer 1 has the same heads in a causal model: later words are not read, and what cannot be read is shared by the rest.
"""

from __future__ import annotations

import numpy as np

from regard.array_types import Float
from regard_models.capturing.records import AttentionRecord, Capture

WORDS = ["the", "cat", "saw", "the", "dog", "and", "then", "the", "cat", "ran", "after", "the", "dog"]


def textbook_heads() -> Capture:
    """Two layers of eight heads.

    >>> heads = textbook_heads()
    >>> heads.record(0).head(0)[3].argmax(), heads.tokens[0][2]
    (np.int64(2), 'saw')
    """
    weights = np.stack([_rows(scores) for scores in _scores()])
    causal = np.stack([_rows(np.where(np.tri(len(WORDS), dtype=bool), scores, 0)) for scores in _scores()])
    records = tuple(
        AttentionRecord(
            index=number, module=name, kernel="by hand", heads=tuple(range(len(some))), weights=some[None].astype("f")
        )
        for number, (name, some) in enumerate((("both directions", weights), ("causal", causal)))
    )
    notes = ("drawn by hand, from no model",)
    return Capture(records=records, tokens=[list(WORDS)], name="textbook heads", notes=notes)


def _scores() -> list[Float]:
    """How much each query likes each key, before the rows are made to sum to 1."""
    count = len(WORDS)
    query, key = np.arange(count)[:, None], np.arange(count)[None, :]
    same = np.array([[one == other for other in WORDS] for one in WORDS])
    earlier = same & (key < query)
    followed = np.roll(earlier, 1, axis=1) & (key <= query) & (key > 0)
    near = np.exp(-np.abs(query - key))
    patterns = (key == query - 1, key == query + 1, key == 0, key == query, earlier, followed, near, near > 0)
    return [np.asarray(pattern, dtype=np.float64) + np.zeros((count, count)) for pattern in patterns]


def _rows(scores: Float) -> Float:
    """Rows that sum to 1; one that likes nothing rests on the first word."""
    rest = np.zeros_like(scores)
    rest[:, 0] = scores.sum(axis=1) == 0
    whole = scores + rest
    rows: Float = whole / whole.sum(axis=1, keepdims=True)
    return rows

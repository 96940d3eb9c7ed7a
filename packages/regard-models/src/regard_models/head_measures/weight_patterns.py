"""What can be read off a head's weights: how it spreads them, which pattern they follow, and what they add.

**How a head spreads its weights**: entropy, copying and its margin, sharing; and how alike two heads are.

With p a row of weights, scaled to sum to 1:

    entropy            H = - sum p ln p, in nats;  the effective number of tokens is e^H
    copying            a row copies if its largest weight is 1/(1 + eps) or more, that is, if
                       ln(p_1 / (1 - p_1)) >= ln(1/eps): the same eps as in ``regard design copy``
    margin             ln(p_1 / (1 - p_1)) - ln(1/eps), in nats: how much of the scores' lead is spare, or missing
    sharing            2 p_2, twice the second largest weight: 1 where two tokens have a half each, 0 where one has all

Rows with a single key to read say nothing about a head and are left out, but for the entropy.

**Patterns** that heads are known for, each with a score: the mean weight on the keys that the pattern names.

| pattern | the keys that query i should read |
|---|---|
| previous, same, next | i - 1, i, i + 1 |
| first | place 0 (asked of all other places) |
| separator | marks like [SEP] and </s> after place 0, and full stops, commas and the like |
| duplicate | other places with the same token |
| induction | the place after an earlier occurrence of the same token |

A score is compared with chance: what equal weights on all keys that a query may read would give. A mean over rows for
which the pattern names a key that may be read; NaN where there is none. See clark2019 and olsson2022.

**Influence** and not only weight: how much of a token's value a head really adds, ||alpha_ij v_j W_O||. A head may put
all its weight on a token whose value is nearly nothing: that is how heads rest. The weight alone does not show it; the
length of what is added to the stream of vectors does (kobayashi2020). It is still no explanation: later layers may
cancel or ignore it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from regard.array_types import Flags, Float, Single
from regard.errors import InputError
from regard_models.capturing.records import AttentionRecord

EPS = 0.1  # a head copies from a weight of 1/(1 + EPS) = 0.909 on
_ROWS = 64  # rows on which pairs of heads are compared; more change the second digit, and cost


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """One number for every head of a layer."""

    entropy: Float
    effective: Float
    largest: Float
    copying: Float
    margin: Float
    sharing: Float


def spread(weights: npt.ArrayLike, allowed: Flags, *, eps: float = EPS) -> Spread:
    """Means over the rows of every head: weights (heads, queries, keys), allowed of the same shape.

    >>> rows = np.array([[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]])
    >>> measured = spread(rows, np.ones_like(rows, dtype=bool))
    >>> measured.effective.tolist(), measured.copying.tolist(), measured.sharing.tolist()
    ([1.5], [0.5], [0.5])
    """
    p = normalise_rows(weights)
    there = p.sum(axis=2) > 0
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    entropy = -(p * logs).sum(axis=2)
    choice = there & (allowed.sum(axis=2) > 1)
    ordered = np.sort(p, axis=2)[:, :, ::-1]
    first, others = ordered[:, :, 0], ordered[:, :, 1:].sum(axis=2)
    lead = np.log(first, out=np.zeros_like(first), where=first > 0)  # a row of nothing is left out below
    lead = lead - np.log(others, out=np.full_like(others, -np.inf), where=others > 0)
    second = ordered[:, :, 1] if p.shape[2] > 1 else np.zeros_like(first)
    return Spread(
        entropy=_mean(entropy, there),
        effective=_mean(np.exp(entropy), there),
        largest=_mean(first, choice),
        copying=_mean(lead >= math.log(1 / eps), choice),
        margin=_median(lead - math.log(1 / eps), choice),
        sharing=_mean(2 * second, choice),
    )


def normalise_rows(weights: npt.ArrayLike) -> Float:
    """Rows scaled to sum to 1; a row of nothing stays nothing, and negative weights count by their size."""
    w = np.abs(np.asarray(weights, dtype=np.float64))
    sums = w.sum(axis=-1, keepdims=True)
    scaled: Float = np.divide(w, sums, out=np.zeros_like(w), where=sums > 0)
    return scaled


def overlap(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """How alike two heads are: the mean over rows of sum min(p, p'), 1 if equal, 0 if they share no token.

    >>> overlap([[0.5, 0.5]], [[1.0, 0.0]])
    0.5
    """
    p, r = normalise_rows(one), normalise_rows(other)
    there = (p.sum(axis=1) > 0) & (r.sum(axis=1) > 0)
    return float(np.minimum(p, r).sum(axis=1)[there].mean()) if there.any() else math.nan


def agreement(heads: npt.ArrayLike) -> Float:
    """The overlap of every pair of heads (heads, queries, keys), on at most 64 evenly spaced rows."""
    given = np.asarray(heads)
    p = normalise_rows(given[:, sample_rows(given.shape[1])]).astype(
        np.float32
    )  # half the traffic, and six digits are plenty
    there = p.sum(axis=2) > 0
    overlaps = np.eye(len(p))
    for a in range(len(p)):
        both = there[a] & there[a + 1 :]
        shared = np.minimum(p[a], p[a + 1 :]).sum(axis=2)
        overlaps[a, a + 1 :] = overlaps[a + 1 :, a] = _mean(shared, both)
    return overlaps


def sample_rows(count: int) -> npt.NDArray[np.intp]:
    """All rows, or 64 evenly spaced ones.

    >>> sample_rows(3).tolist(), len(sample_rows(500))
    ([0, 1, 2], 64)
    """
    return np.unique(np.linspace(0, count - 1, min(count, _ROWS)).astype(np.intp))


def mean_total_variation(one: npt.ArrayLike, other: npt.ArrayLike) -> Float:
    """Mean total variation between the rows of two (heads, queries, keys): 0 the same picture, 1 another one."""
    p, r = normalise_rows(one), normalise_rows(other)
    there = (p.sum(axis=2) > 0) & (r.sum(axis=2) > 0)
    return _mean(np.abs(p - r).sum(axis=2) / 2, there)


def _mean(values: npt.ArrayLike, where: Flags) -> Float:
    """Mean along the last axis over the rows that count, NaN where there is none."""
    v = np.where(where, np.asarray(values, dtype=np.float64), 0.0)
    count = where.sum(axis=-1)
    mean: Float = np.divide(v.sum(axis=-1), count, out=np.full(v.shape[:-1], np.nan), where=count > 0)
    return mean


def _median(values: Float, where: Flags) -> Float:
    return np.array([np.median(v[w]) if w.any() else np.nan for v, w in zip(values, where, strict=True)])


PATTERNS = ("previous", "same", "next", "first", "separator", "duplicate", "induction")
CLEAR = 0.3  # of the way from chance to 1, from which on a head is called after a pattern
BROAD = 0.6  # of the keys that may be read: from so many effective tokens on, a head without a pattern is broad
_PUNCTUATION = frozenset(".,;:!?")
_BLANKS = "Ġ▁ "  # how tokenizers write the blank before a word


@dataclass(frozen=True, kw_only=True, eq=False)
class PatternScores:
    """``scores`` and ``chance`` by the pattern's name: one number for every head, and one for all."""

    scores: dict[str, Float]
    chance: dict[str, float]

    def name(self, head: int, *, broadness: float) -> str:
        """What to call a head: the pattern furthest above chance if that is clear, else broad or mixed."""
        best, by = "", 0.0
        for pattern, scores in self.scores.items():
            room = 1 - self.chance[pattern]
            lift = (float(scores[head]) - self.chance[pattern]) / room if room > 0 else 0.0
            if lift > by:
                best, by = pattern, lift
        if by >= CLEAR:
            return best
        return "broad" if broadness >= BROAD else "mixed"


def pattern_scores(
    weights: npt.ArrayLike, allowed: Flags, *, words: Sequence[str] | None, key_words: Sequence[str] | None, cross: bool
) -> PatternScores:
    """The scores of all heads of a layer: weights (heads, queries, keys); ``words`` None where tokens are not known.

    >>> rows = np.array([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> made = pattern_scores(rows, rows >= 0, words=["a", "b", "a"], key_words=["a", "b", "a"], cross=False)
    >>> made.scores["previous"].tolist(), made.scores["induction"].tolist(), round(made.chance["previous"], 3)
    ([1.0], [1.0], 0.333)
    """
    p = normalise_rows(weights)
    queries, keys = p.shape[1:]
    named = {} if cross else places(queries, keys)
    named["first"] = _first(queries, keys, cross)
    if key_words is not None:
        named["separator"] = np.broadcast_to([place > 0 and _is_separator(w) for place, w in enumerate(key_words)],
                                             (queries, keys))  # fmt: skip
    if words is not None and key_words is not None and not cross:
        named |= repeats(words)
    scores, chance = {}, {}
    for pattern in PATTERNS:
        if pattern in named:
            scores[pattern], chance[pattern] = _score(p, allowed, named[pattern])
    return PatternScores(scores=scores, chance=chance)


def places(queries: int, keys: int) -> dict[str, Flags]:
    """The patterns that only look at places."""
    return {
        name: np.eye(queries, keys, offset, dtype=bool) for name, offset in (("previous", -1), ("same", 0), ("next", 1))
    }


def repeats(words: Sequence[str]) -> dict[str, Flags]:
    """The patterns that look for the same token elsewhere.

    >>> repeats(["a", "b", "a"])["induction"].astype(int).tolist()
    [[0, 0, 0], [0, 0, 0], [0, 1, 0]]
    """
    count = len(words)
    numbers = {word: number for number, word in enumerate(dict.fromkeys(words))}
    ids = np.array([numbers[word] for word in words])
    same = ids[:, None] == ids
    after = np.zeros((count, count), dtype=bool)
    after[:, 1:] = same[:, :-1] & (np.arange(1, count) < np.arange(count)[:, None])
    return {"duplicate": same & ~np.eye(count, dtype=bool), "induction": after}


def _first(queries: int, keys: int, cross: bool) -> Flags:
    named = np.zeros((queries, keys), dtype=bool)
    named[0 if cross else 1 :, 0] = True
    return named


def _is_separator(word: str) -> bool:
    """
    >>> [_is_separator(word) for word in ("[SEP]", "</s>", "Ġ,", "<", "dog")]
    [True, True, True, False, False]
    """
    bare = word.strip(_BLANKS)
    special = len(bare) > 2 and (bare[0] + bare[-1]) in ("[]", "<>")
    return special or (bare != "" and set(bare) <= _PUNCTUATION)


def _score(p: Float, allowed: Flags, named: Flags) -> tuple[Float, float]:
    may = allowed.all(axis=0)  # of the keys that every head of the layer may read
    rows = (named & may).any(axis=1)
    if not rows.any():
        return np.full(len(p), np.nan), np.nan
    scores = (p * named).sum(axis=2)[:, rows].mean(axis=1)
    chance = ((named & may).sum(axis=1)[rows] / may.sum(axis=1)[rows]).mean()
    return scores, float(chance)


NEEDS = ("v", "w_o")  # what a capture must keep for it


def influence(record: AttentionRecord, *, example: int = 0) -> Single:
    """||alpha_ij v_j W_O|| of every head, query and key: heads x queries x keys, in the order of ``record.heads``.

    The record must hold the values and the output projection: ``capture(model, inputs, keep=("v", "w_o"))``. The bias
    of the output projection belongs to no key and is left out. After dropout, the weights that were used count.

    >>> weights = np.array([[[[0.5, 0.5]]]], np.float32)
    >>> values, project = np.array([[[[3.0, 4.0], [0.0, 0.0]]]], np.float32), 2 * np.eye(2, dtype=np.float32)[None]
    >>> record = AttentionRecord(index=0, module="", kernel="", heads=(0,), weights=weights, v=values, w_o=project)
    >>> influence(record).tolist()
    [[[5.0, 0.0]]]
    """
    values, project = _values_and_projection(record)
    used = record.weights if record.used is None else record.used
    if not 0 <= example < used.shape[0]:
        raise InputError(f"There is no example {example}; the batch has {used.shape[0]}, counted from 0.")
    lengths = value_lengths(values[example], project)
    return np.asarray(np.abs(used[example]) * lengths[:, None, :], dtype=np.float32)


def has_influence(record: AttentionRecord) -> bool:
    """Whether a record holds what :func:`influence` needs."""
    return record.v is not None and record.w_o is not None


def value_lengths(values: npt.ArrayLike, project: npt.ArrayLike) -> Float:
    """||v_j W_O|| of every head and key: (heads, keys, width) and (heads, width, model's width) to (heads, keys)."""
    v, w = np.asarray(values, dtype=np.float64), np.asarray(project, dtype=np.float64)
    inner = w @ w.transpose(0, 2, 1)  # ||v W||^2 = v W W^T v^T: the model's width is gone
    squares: Float = np.einsum("hkd,hde,hke->hk", v, inner, v, optimize=True)
    return np.sqrt(np.maximum(squares, 0.0))


def rollout(layers: Sequence[npt.ArrayLike], *, kept: float = 0.5) -> Float:
    """Attention rollout (abnar2020): how the places of the input reach those of the output.

    R = A_L ... A_2 A_1 with A_l = ``kept`` I + (1 - ``kept``) mean over heads of the weights, rows summing to 1. It
    takes values and everything but attention for the identity: a rough picture. ``layers``: (heads, T, T) each.

    >>> rollout([np.array([[[1.0, 0.0], [1.0, 0.0]]])]).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    whole: Float | None = None
    for weights in layers:
        mean = np.asarray(weights, dtype=np.float64).mean(axis=0)
        if mean.ndim != 2 or mean.shape[0] != mean.shape[1] or (whole is not None and mean.shape != whole.shape):
            raise InputError("Rollout needs self-attention layers of one length, each heads x T x T.")
        sums = mean.sum(axis=1, keepdims=True)
        step = kept * np.eye(len(mean)) + (1 - kept) * np.divide(mean, sums, out=np.eye(len(mean)), where=sums > 0)
        whole = step if whole is None else step @ whole
    if whole is None:
        raise InputError("Rollout needs at least one layer.")
    return whole


def _values_and_projection(record: AttentionRecord) -> tuple[Single, Single]:
    if record.v is None or record.w_o is None:
        missing = [name for name in NEEDS if getattr(record, name) is None]
        raise InputError(
            f"Layer {record.index} has no {' and no '.join(missing)}, which influence needs; capture it with "
            "keep=('v', 'w_o')."
        )
    return record.v, record.w_o

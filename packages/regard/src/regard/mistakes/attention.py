"""Attention, softmax(Q K^T / sqrt(d)) V in every head, and the known ways to get it wrong.

Written in words that NumPy and torch share: with ``import torch as np`` the same lines run on tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from regard.array_types import Array
from regard.mistakes.mistake import Steps, Weight, wrong_versions


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What people divide scores by: a head's width is right."""

    width: int
    heads: int = 1
    states: int
    batch: int
    length: int
    asked_heads: int = 1  # what a constructor was given


def multi_head_attention(
    q: Array, k: Array, v: Array, sizes: Sizes, allowed: Array | None, low: float, step: Steps
) -> Array:
    """Queries, keys and values (N, T, heads x d), already projected, to the heads' results side by side."""
    n, t = q.shape[:2]
    v = step["values"](q, k, v)
    q, k, v = (step[f"split {name}"](x, sizes.heads) for name, x in (("queries", q), ("keys", k), ("values", v)))
    q, k, v = (step["heads"](x) for x in (q, k, v))
    merged: Array = step["merge"](attend(q, k, v, sizes, allowed, low, step), n, t)
    return merged


def attend(q: Array, k: Array, v: Array, sizes: Sizes, allowed: Array | None, low: float, step: Steps) -> Array:
    """softmax(Q K^T / sqrt(d)) V; forbidden scores are filled with ``low`` before the softmax."""
    scores = step["scores"](q, k) * step["scale"](sizes)
    if allowed is None or not fits(allowed, scores):
        allowed = np.ones((1, 1, 1, k.shape[-2]), dtype=np.bool)
    weights = step["softmax"](step["mask"](scores, allowed, low))
    weights = step["late scale"](step["late mask"](weights, allowed), sizes)
    context: Array = step["context"](weights, v, q)
    return context


def fits(allowed: Array, scores: Array) -> bool:
    """Whether the axes of a mask are those of the scores; a split gone wrong has others."""
    pairs = zip(reversed(allowed.shape), reversed(scores.shape), strict=False)
    return all(m in (1, s) for m, s in pairs)


# what queries, keys, values and the first sum read


def whole_state(x: Array, words: Array) -> Array:
    """The sum of word and place."""
    return x


def words_alone(x: Array, words: Array) -> Array:
    """The word without its place."""
    return words


READS = wrong_versions(
    "attention", "keys read", "scores", "queries, keys and values are all made of x = E[s] + P[t]",
    [(f"{'-and-'.join(sides)}-without-places", f"{' and '.join(sides)} of the words without their places",
      {f"{side} read": words_alone for side in sides})
     for sides in (["queries"], ["keys"], ["values"], ["queries", "keys"], ["keys", "values"],
                   ["queries", "keys", "values"])],
) + wrong_versions(
    "first sum and norm", "first adds", "sum 1", "norm(x + attention), x = E[s] + P[t]",
    [("first-sum-without-places", "the words without their places added to attention's output", words_alone)],
)  # fmt: skip


# scores and their scale


def scores(q: Array, k: Array) -> Array:
    """Q K^T."""
    return q @ np.swapaxes(k, -1, -2)


def scale(sizes: Sizes) -> float:
    """1 / sqrt(d), d the width of one head."""
    return float(sizes.width**-0.5)


def no_scale(sizes: Sizes) -> float:
    """For those that scale elsewhere."""
    return 1.0


def fixed_scale(sizes: Sizes, number: float = 0.3) -> float:
    """A number, whatever the width."""
    return number


def late_scale(weights: Array, sizes: Sizes) -> Array:
    """Nothing: the scale stands before the softmax."""
    return weights


SCALE = wrong_versions(
    "attention", "scale", "scale, scores", "divide the scores by the root of one head's width before the softmax",
    [
        ("scale-missing", "no division by sqrt(d)", no_scale),
        ("scale-by-width", "a division by d instead of sqrt(d)", lambda n: 1 / n.width),
        ("scale-by-all-heads", "a division by the root of all heads' width instead of one head's",
         lambda n: (n.heads * n.width) ** -0.5),
        ("scale-by-all-heads-linear", "a division by all heads' width", lambda n: 1 / (n.heads * n.width)),
        ("scale-by-states", "a division by the root of the states' width instead of a head's",
         lambda n: n.states**-0.5),
        ("scale-by-states-linear", "a division by the states' width", lambda n: 1 / n.states),
        ("scale-by-batch", "a division by the root of the number of sentences", lambda n: n.batch**-0.5),
        ("scale-by-length", "a division by the root of the length", lambda n: n.length**-0.5),
        ("scale-by-heads", "a division by the root of the number of heads", lambda n: n.heads**-0.5),
        ("scale-inverted", "a multiplication by sqrt(d) instead of a division", lambda n: n.width**0.5),
        ("scale-floored", "a division by sqrt(d) rounded down", lambda n: 1 / max(n.width**0.5 // 1, 1)),
        ("scale-floored-all-heads", "a division by the rounded root of all heads' width",
         lambda n: 1 / max((n.heads * n.width) ** 0.5 // 1, 1)),
        ("scale-fourth-root", "a division by the fourth root of d", lambda n: n.width**-0.25),
        ("scale-by-split-head", "a division by the root of d divided by the heads once more",
         lambda n: max(n.width // n.asked_heads, 1) ** -0.5),
        ("scale-after-softmax", "the division by sqrt(d) after the softmax instead of before",
         {"scale": no_scale, "late scale": lambda weights, n: weights / n.width**0.5}),
        ("scale-by-another-number", "a number that is not sqrt(d), as one that fits another width", fixed_scale),
    ],
)  # fmt: skip


# the softmax


def softmax(scores: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """exp(s) / sum exp(s) along an axis, or over several at once."""
    raised = np.exp(scores - np.amax(scores, axis=axis, keepdims=True))
    shares: Array = raised / np.sum(raised, axis=axis, keepdims=True)
    return shares


def softmax_or_zero(softmax: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A softmax that gives 0 where everything is forbidden, as torch's own attention does."""

    def shares(scores: Array) -> Array:
        nothing = np.amax(scores, axis=-1, keepdims=True) == -np.inf
        return np.where(nothing, 0.0, softmax(scores))

    return shares


SOFTMAX = wrong_versions(
    "attention", "softmax", "softmax, scores",
    "each query's weights over the keys sum to 1: softmax along the last axis of (N, heads, queries, keys)",
    [
        ("softmax-over-queries", "the softmax over the queries (dim=-2) instead of the keys", lambda s: softmax(s, -2)),
        ("softmax-over-heads", "the softmax over the heads instead of the keys", lambda s: softmax(s, 1)),
        ("softmax-over-batch", "the softmax over the batch (dim=0) instead of the keys", lambda s: softmax(s, 0)),
        ("softmax-over-pairs", "one softmax over all pairs of places", lambda s: softmax(s, (-2, -1))),
        ("softmax-missing", "no softmax", lambda s: s),
        ("softmax-sigmoid", "a sigmoid instead of the softmax", lambda s: 1 / (1 + np.exp(-s))),
        ("softmax-twice", "the softmax taken twice in the attention", lambda s: softmax(softmax(s))),
        ("softmax-not-divided", "exponentials that are not divided by their sum", lambda s: np.exp(s)),
        ("softmax-log", "the logarithm of the softmax", lambda s: np.log(softmax(s))),
        ("softmax-no-exponential", "scores divided by their sum, without exponentials",
         lambda s: s / np.sum(s, axis=-1, keepdims=True)),
    ],
)  # fmt: skip


# weights meet values


def context(weights: Array, v: Array, q: Array) -> Array:
    """Row q of the weights belongs to query q."""
    return weights @ v


def own_values(q: Array, k: Array, v: Array) -> Array:
    """The values are the values."""
    return v


CONTEXT = (
    *wrong_versions(
        "attention", "context", "context", "row q of the weights belongs to query q",
        [("weights-turned", "the weights transposed before they meet the values",
          lambda weights, v, q: np.swapaxes(weights, -1, -2) @ v)],
    ),
    *wrong_versions(
        "attention", "values", "context", "weights times x W_V",
        [("values-are-keys", "the keys in the place of the values", lambda q, k, v: k),
         ("values-are-queries", "the queries in the place of the values", lambda q, k, v: q)],
    ),
)  # fmt: skip


# heads


def split_heads(x: Array, heads: int) -> Array:
    """(N, T, heads x d) to (N, heads, T, d)."""
    return np.swapaxes(x.reshape(*x.shape[:2], heads, -1), 1, 2)


def merge_heads(context: Array, n: int, t: int) -> Array:
    """(N, heads, T, d) back to (N, T, heads x d)."""
    return np.swapaxes(context, 1, 2).reshape(n, t, -1)


def all_heads(x: Array) -> Array:
    """Each head reads its own columns."""
    return x


def between_heads(x: Array, heads: int) -> Array:
    """(N, T, heads, d): the transpose forgotten."""
    return x.reshape(*x.shape[:2], heads, -1)


def split_without_transpose(x: Array, heads: int) -> Array:
    """A reshape cuts a sentence into heads, not its columns."""
    return x.reshape(x.shape[0], heads, x.shape[1], -1)


def split_all(split: Callable[[Array, int], Array], **more: object) -> dict[str, object]:
    """One way to split for queries, keys and values."""
    return {**{f"split {name}": split for name in ("queries", "keys", "values")}, **more}


SPLIT = (
    *wrong_versions(
        "attention", "split queries", "scores", "(N, T, heads, d), then a transpose to (N, heads, T, d)",
        [
            ("heads-not-transposed", "heads made by a reshape without a transpose", split_all(split_without_transpose)),
            *((f"{side}-not-transposed", f"the {side}' heads made without a transpose",
               {f"split {side}": split_without_transpose}) for side in ("queries", "keys", "values")),
            ("heads-overlap", "heads that begin one column after another: they overlap, and most columns are not read",
             split_all(lambda x, h: np.stack([x[..., i : i + x.shape[-1] // h] for i in range(h)], 1))),
            ("keys-viewed-as-turned", "the keys brought to (N, heads, d, T) by a view, which shuffles their numbers",
             {"split keys": lambda x, h: np.swapaxes(x.reshape(x.shape[0], h, -1, x.shape[1]), -1, -2)}),
            *((f"{side}-of-another-head", f"each head reads the {side} of another head",
               {f"split {side}": lambda x, h: np.roll(split_heads(x, h), 1, (1,))}) for side in ("keys", "values")),
            ("attention-between-heads", "attention between the heads of one place",
             split_all(between_heads, merge=lambda c, n, t: c.reshape(n, t, -1))),
            ("attention-between-heads", "attention between the heads of one place", split_all(between_heads)),
            ("attention-between-sentences", "attention between sentences, not places",
             split_all(lambda x, h: np.moveaxis(x.reshape(*x.shape[:2], h, -1), 0, 2),
                       merge=lambda c, n, t: np.moveaxis(c, 2, 0).reshape(n, t, -1))),
            ("attention-over-all-sentences", "one attention over all sentences' places",
             split_all(lambda x, h: split_heads(x.reshape(1, x.shape[0] * x.shape[1], -1), h))),
        ],
    ),
    *wrong_versions(
        "attention", "split queries", "scores", "",
        [("heads-interleaved", "heads that take every h-th column",
          split_all(lambda x, h: np.moveaxis(x.reshape(*x.shape[:2], -1, h), 3, 1)))],
        Weight.VARIATION,
    ),
    *wrong_versions(
        "attention", "heads", "scores", "each head reads its own columns",
        [("one-head-twice", "the first head used for all heads", lambda x: np.broadcast_to(x[:, :1], x.shape))],
    ),
)  # fmt: skip

MERGE = (
    *wrong_versions(
        "attention", "merge", "mixing, context",
        "transpose (N, heads, T, d) back to (N, T, heads, d), then flatten the last two",
        [
            ("heads-merged-without-transpose", "heads merged without transposing back",
             lambda c, n, t: c.reshape(n, t, -1)),
            ("heads-summed", "the heads summed instead of side by side", lambda c, n, t: np.sum(c, axis=1)),
            ("heads-averaged", "the heads averaged instead of side by side", lambda c, n, t: np.mean(c, axis=1)),
            ("first-head-only", "the first head's output alone", lambda c, n, t: c[:, 0]),
            ("last-head-only", "the last head's output alone", lambda c, n, t: c[:, -1]),
            ("merge-wrong-axes", "heads merged with places and widths exchanged",
             lambda c, n, t: np.moveaxis(c, 3, 1).reshape(n, t, -1)),
        ],
    ),
    *wrong_versions(
        "attention", "merge", "mixing, context", "",
        [("merge-interleaved", "heads merged column by column",
          lambda c, n, t: np.moveaxis(c, 1, 3).reshape(n, t, -1)),
         ("merge-other-order", "heads in the other order", lambda c, n, t: merge_heads(np.flip(c, (1,)), n, t))],
        Weight.VARIATION,
    ),
)  # fmt: skip


# the mask: allowed is True where a key may be read, of shape (N, 1, 1, T) for padding


def no_mask(scores: Array, allowed: Array, low: float) -> Array:
    """Everything is read."""
    return scores


def hide(scores: Array, allowed: Array, low: float) -> Array:
    """Scores of forbidden keys get a number far below all others, or -inf."""
    return np.where(allowed, scores, low)


def late_mask(weights: Array, allowed: Array) -> Array:
    """Nothing: the mask stands before the softmax."""
    return weights


def on_queries(allowed: Array) -> Array:
    """The same mask on the axis of the queries."""
    return np.swapaxes(allowed, -1, -2)


def future(scores: Array) -> Array:
    """True at keys that stand after the query."""
    return np.triu(np.ones(tuple(scores.shape[-2:]), dtype=np.bool), 1)


def _hide_in_wrong_order(scores: Array, allowed: Array, low: float) -> Array:
    """The mask repeated head after head where the scores go sentence after sentence."""
    n, heads = scores.shape[:2]
    if allowed.shape[0] != n:
        return scores
    order = np.arange(n * heads).reshape(-1, heads) % n
    return hide(scores, allowed[:, 0][order], low)


MASK = (
    *wrong_versions(
        "attention", "mask", "mask, softmax, scores",
        "fill the scores of padded keys with -inf before the softmax: a mask of shape (N, 1, 1, T)",
        [
            ("mask-on-queries", "the padding mask on the query axis instead of the keys",
             lambda s, allowed, low: hide(s, on_queries(allowed), low)),
            ("mask-inverted", "the padding mask inverted: only padding is read",
             lambda s, allowed, low: hide(s, ~allowed, low)),
            ("mask-fill-near-0", "a mask that fills with 0 or 1e-9 where -inf is meant: padding is still read",
             lambda s, allowed, low: hide(s, allowed, 0.0)),
            ("mask-fill-positive", "a mask that fills with +1e9: only padding is read",
             lambda s, allowed, low: hide(s, allowed, 1e9)),
            ("mask-added-as-numbers", "a mask of 0 and 1 added to the scores", lambda s, allowed, low: s + allowed),
            ("mask-added-inverted", "a mask of 0 and 1 added to the scores, 1 at padding",
             lambda s, allowed, low: s + ~allowed),
            ("mask-added-positive", "a mask that adds +1e9 at padding: only padding is read",
             lambda s, allowed, low: s + 1e9 * ~allowed),
            ("mask-after-softmax", "the mask after the softmax: the weights no longer sum to 1",
             {"mask": no_mask, "late mask": lambda weights, allowed: weights * allowed}),
            ("mask-heads-mixed", "a mask repeated in another order than heads and sentences are in",
             _hide_in_wrong_order),
            ("mask-hides-past", "a mask that hides the past and the word itself",
             lambda s, allowed, low: hide(s, future(s), low)),
            ("mask-hides-itself", "a mask that hides each word from itself",
             lambda s, allowed, low: hide(s, ~np.eye(*s.shape[-2:], dtype=np.bool), low)),
            ("mask-hides-future-and-itself", "a mask that hides the future and the word itself",
             lambda s, allowed, low: hide(s, np.swapaxes(future(s), -1, -2), low)),
            ("mask-fill-too-high", "a mask that fills with a number not far below the scores: padding is still read",
             lambda s, allowed, low, number=-3.0: hide(s, allowed, number)),
        ],
    ),
    *wrong_versions(
        "attention", "mask", "mask, softmax, scores", "an encoder reads the whole sentence",
        [("mask-hides-future", "a mask that hides the future", lambda s, allowed, low: hide(s, ~future(s), low)),
         ("mask-hides-future-and-padding", "a mask that hides the future and the padding",
          lambda s, allowed, low: hide(s, allowed & ~future(s), low))],
        Weight.DEPARTURE,
    ),
    *wrong_versions(
        "attention", "mask", "mask", "",
        [("mask-padding", "padding hidden", hide),
         ("mask-padding-both", "padding hidden, as key and as query",
          lambda s, allowed, low: hide(s, allowed & on_queries(allowed), low))],
        Weight.VARIATION,
    ),
)  # fmt: skip

MISTAKES = (*SCALE, *SOFTMAX, *SPLIT, *MERGE, *CONTEXT, *MASK, *READS)
RIGHT = {
    **dict.fromkeys(("queries read", "keys read", "values read", "first adds"), whole_state),
    "values": own_values,
    **split_all(split_heads),
    "heads": all_heads,
    "scores": scores,
    "scale": scale,
    "mask": no_mask,
    "softmax": softmax,
    "late mask": late_mask,
    "late scale": late_scale,
    "context": context,
    "merge": merge_heads,
}

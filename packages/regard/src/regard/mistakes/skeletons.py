"""Stages of a Transformer as plain functions whose lines call ``step["name"](...)``: what stands there, right or wrong,
is put in by :mod:`regard.mistakes.smallest`.

``sizes``, ``known`` and the sizes that look unused are read by what is put in: ``sizes.width`` becomes ``width``, and
``known["y"]`` becomes ``y``.
"""
# ruff: noqa: F821, F841, RUF059
# mypy: disable-error-code="name-defined,no-any-return"

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.mistakes import attention as heads
from regard.mistakes import embedding as rows
from regard.mistakes import grouped_and_causal as calls
from regard.mistakes import layer
from regard.mistakes.mistake import Steps

RIGHT: dict[str, Any] = {
    **layer.RIGHT,
    **calls.RIGHT,
    **calls.GROUPED,
    "mask": heads.hide,
    "formula": rows.sinusoids,
    "before": lambda x, norm: x,
}
NORM_FIRST = {"before": lambda x, norm: norm(x)}  # what the layout "norm first" means in the skeleton


def attend(q: Array, k: Array, v: Array, allowed: Array, step: Steps) -> Array:
    """softmax(Q K^T / sqrt(d)) V: q (N, heads, T, d), k and v (N, groups, S, d)."""
    batch, heads, length, width = q.shape
    asked_heads, states = heads, heads * width
    k = step["share keys"](k, q)
    v = step["share values"](v, q)
    v = step["values"](q, k, v)
    scores = step["scores"](q, k) * step["scale"](sizes)
    allowed = step["causal"](allowed, scores)
    scores = step["mask"](scores, allowed, -np.inf)
    weights = step["softmax"](scores)
    weights = step["late mask"](weights, allowed)
    weights = step["late scale"](weights, sizes)
    answer: Array = step["context"](weights, v, q)
    return step["answer"](answer, q)


def multi_head(q: Array, k: Array, v: Array, heads: int, allowed: Array, step: Steps) -> Array:
    """Attention in heads: q (N, T, heads x d), k and v (N, S, groups x d), already projected."""
    batch, length, states = q.shape
    asked_heads, groups, width = heads, heads * k.shape[2] // states, states // heads
    v = step["values"](q, k, v)
    q = step["split queries"](q, heads)
    k = step["split keys"](k, groups)
    v = step["split values"](v, groups)
    q = step["heads"](q)
    k = step["heads"](k)
    v = step["heads"](v)
    k = step["share keys"](k, q)
    v = step["share values"](v, q)
    scores = step["scores"](q, k) * step["scale"](sizes)
    allowed = step["causal"](allowed, scores)
    scores = step["mask"](scores, allowed, -np.inf)
    weights = step["softmax"](scores)
    weights = step["late mask"](weights, allowed)
    weights = step["late scale"](weights, sizes)
    context: Array = step["context"](weights, v, q)
    return step["merge"](context, batch, length)


def answer(out: Array, states: Array, step: Steps) -> Array:
    """What a module returns: ``out`` is behind the output projection, ``states`` what the queries were made of."""
    return step["answer"](out, states)


def embed(ids: Array, tokens: Array, table: Array, step: Steps) -> Array:
    """E[s] + P[t] for words ids (N, T), with the tables E and P."""
    table = step["formula"](len(table), table.shape[1])
    x = step["tokens"](tokens[ids])
    x = step["join"](x, step["rows"](table, ids))
    x = step["sum of rows"](x)
    return x


def place(ids: Array, tokens: Array, table: Array, step: Steps) -> Array:
    """Words and places on their way to the feed-forward part; a norm stands for attention and its sum."""
    x = step["join"](tokens[ids], step["rows"](table, ids))
    y = step["late rows"](norm(x), table[: ids.shape[1]])
    return y


def project(words: Array, places: Array, wq: Array, wk: Array, wv: Array, step: Steps) -> Array:
    """Queries, keys and values of words and places (N, T, width), and what the sum behind attention adds."""
    x = words + places
    q = step["queries read"](x, words) @ wq
    k = step["keys read"](x, words) @ wk
    v = step["values read"](x, words) @ wv
    added = step["first adds"](x, words)
    return np.concatenate([q, k, v, added], axis=-1)


def normalise(x: Array, gain: Array, shift: Array, step: Steps) -> Array:
    """The norm of every place of x (N, T, width), with its learned gain and shift."""
    made = step["norm"](x, 1e-5)
    made = step["gain"](made, gain, shift)
    return made


def transform(x: Array, mix: Array, inner: Array, outer: Array, output: Array, step: Steps) -> Array:
    """One layer and its output: x (N, T, width), the matrix ``mix`` in the place of attention."""
    m = step["mixed"](step["before"](x, norm) @ mix)
    y = step["first sum"](x, m, norm, step["before"](x, norm))
    read = step["reads"](known)
    hidden = step["activation"](step["before"](read, norm) @ inner)
    f = step["after outer"](hidden @ outer)
    base = step["second adds"](known)
    z = step["second sum"](base, f, norm, step["before"](base, norm))
    last = step["output reads"](known)
    scores = step["output"](last @ output)
    return scores


def norm(x: Array) -> Array:
    """Each place alone: mean 0, variance 1; then a gain, here 1, 2, 3, ..."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    made: Array = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
    return made * np.arange(1, x.shape[-1] + 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Skeleton:
    """A stage, the lines that only some mistakes need, and inputs to show a mistake on, the plainest first."""

    function: Callable[..., Any]
    inputs: tuple[str, ...]
    optional: tuple[str, ...] = ()

    @property
    def steps(self) -> set[str]:
        return set(re.findall(r'step\["([\w ]+)"\]', inspect.getsource(self.function)))


_OPTIONAL = ("share keys", "share values", "causal", "mask")
_PLAIN = "q, k, v = random(size=(3, 2, 3, 5, 7))"
SKELETONS = {
    "attend": Skeleton(
        function=attend,
        optional=_OPTIONAL,
        inputs=(
            f"{_PLAIN}\nallowed = np.ones((2, 1, 1, 5), dtype=bool)\nallowed[1, :, :, 3:] = False",
            f"{_PLAIN}\nallowed = np.ones((2, 1, 5, 5), dtype=bool)",
            "q, (k, v) = random(size=(2, 3, 4, 7)), random(size=(2, 2, 3, 5, 7))\n"
            "allowed = np.ones((2, 1, 4, 5), dtype=bool)",
            "q, (k, v) = random(size=(2, 4, 5, 7)), random(size=(2, 2, 2, 5, 7))\n"
            "allowed = np.ones((2, 1, 5, 5), dtype=bool)",
        ),
    ),
    "multi_head": Skeleton(
        function=multi_head,
        optional=_OPTIONAL,
        inputs=("heads = 3\nq, k, v = random(size=(3, 2, 5, 21))\nallowed = np.ones((2, 1, 5, 5), dtype=bool)",),
    ),
    "embed": Skeleton(
        function=embed,
        optional=("formula",),
        inputs=(
            "ids = np.arange(3, 13).reshape(2, 5) * 7 % 13\ntokens, table = random(size=(13, 6)), random(size=(11, 6))",
        ),
    ),
    "place": Skeleton(
        function=place,
        inputs=(
            "ids = np.arange(3, 13).reshape(2, 5) * 7 % 13\ntokens, table = random(size=(13, 6)), random(size=(11, 6))",
        ),
    ),
    "project": Skeleton(
        function=project,
        inputs=("words, places = random(size=(2, 2, 5, 7))\nwq, wk, wv = random(size=(3, 7, 7))",),
    ),
    "normalise": Skeleton(
        function=normalise,
        inputs=("x, gain, shift = random(size=(2, 5, 7)), random(size=(7,)), random(size=(7,))",),
    ),
    "transform": Skeleton(
        function=transform,
        inputs=(
            "x, mix, output = random(size=(2, 5, 7)), random(size=(7, 7)), random(size=(7, 13))\n"
            "inner, outer = random(size=(7, 11)), random(size=(11, 7))",
        ),
    ),
}

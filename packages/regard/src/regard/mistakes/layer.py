"""A one-layer Transformer in NumPy float64, stage by stage; any step of it can be replaced by a known mistake.

    x = E[s] + P[t]                                   "embedding"
    c = softmax(Q K^T / sqrt(d)) V, heads side by side     "attention"
    m = c W_O + b_O                                   "mixing"
    y = norm(x + m)                                   "first sum and norm"
    f = ReLU(y W_1 + b_1) W_2 + b_2                   "feed-forward"
    z = norm(y + f)                                   "second sum and norm"
    scores = z W + b                                  "output"

A stage is a function of the weights, of the values so far and of its steps; RIGHT has the step that belongs there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.mistakes import attention as heads
from regard.mistakes import embedding as rows
from regard.mistakes import feed_forward as rest
from regard.mistakes.mistake import Mistake, Steps
from regard.tracing.parameter_roles import Roles

RIGHT: dict[str, Any] = {
    "rows": rows.rows_in_order,
    "tokens": rows.scale_tokens,
    "join": rows.add_rows,
    "sum of rows": rows.scale_sum,
    "late rows": rows.words_and_places,
    "embedding norm": rest.as_it_is,
    "formula": None,  # the table that is learned
    "table": 0,
    **heads.RIGHT,
    **rest.RIGHT,
}
# What a search through a person's model tries, stage by stage; norms are beside them, in NORM_MISTAKES.
LIBRARY: tuple[Mistake, ...] = (*rows.MISTAKES, *heads.MISTAKES, *rest.MISTAKES)


@dataclass(frozen=True, kw_only=True, eq=False)
class Values:
    """The values so far for one input: ids and padding, or states; then x, c, m, y, f, z, scores as they come."""

    pad: Array | None = None  # (N, T), True where there is padding
    ids: Array | None = None
    known: dict[str, Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Array:
        return self.known[name]

    def with_value(self, name: str, value: Array) -> Values:
        return Values(pad=self.pad, ids=self.ids, known={**self.known, name: value})


def embedding(roles: Roles, values: Values, step: Steps) -> Array:
    """E[s] + P[t]."""
    if values.ids is None or roles.tokens is None:
        raise LookupError("no table of tokens")
    x = step["tokens"](roles.tokens[values.ids])
    x = step["join"](x, step["rows"](positions_table(roles, values.ids, roles.tokens.shape[1], step), values.ids))
    return np.asarray(step["embedding norm"](step["sum of rows"](x)))


def positions_table(roles: Roles, ids: Array, width: int, step: Steps) -> Array:
    """The person's learned table, or the formula of the sinusoidal one."""
    if step["formula"] is not None:
        longest = max(len(roles.tables[0]) if roles.tables else 0, ids.shape[1] + 1, ids.shape[0])
        return np.asarray(step["formula"](longest, width))
    if not roles.tables and step["rows"] is not rows.no_rows:
        raise LookupError("no table of positions")
    return roles.tables[min(step["table"], len(roles.tables) - 1)] if roles.tables else np.zeros(0)


def attention(roles: Roles, values: Values, step: Steps) -> Array:
    """softmax(Q K^T / sqrt(d)) V in every head; the heads side by side (N, T, width)."""
    if not roles.attends:
        raise LookupError("no attention")
    norm = step["first norm"] if norms_before(step, 1) else rest.as_it_is
    read = [values.known[name if name in values.known else "x"] for name in ("query", "key", "value")]
    sides = zip(("queries", "keys", "values"), (roles.queries, roles.keys, roles.values), read, strict=True)
    q, k, v = (project(norm(step[f"{side} read"](x, _words(roles, values, x)))) for side, project, x in sides)
    shape = next(value.shape for value in values.known.values() if value.ndim == 3)
    sizes = heads.Sizes(
        width=q.shape[-1] // roles.heads, heads=roles.heads, states=shape[-1], batch=shape[0], length=shape[1],
        asked_heads=roles.asked_heads,
    )  # fmt: skip
    allowed = None if values.pad is None else ~values.pad[:, None, None, :]
    if roles.safe:
        step = {**step, "softmax": heads.softmax_or_zero(step["softmax"])}
    with np.errstate(invalid="ignore"):
        return heads.multi_head_attention(q, k, v, sizes, allowed, roles.hidden, step)


def _words(roles: Roles, values: Values, x: Array) -> Array:
    """The words without their places; states where there are no words."""
    return x if values.ids is None or roles.tokens is None else roles.tokens[values.ids]


def norms_before(step: Steps, number: int) -> bool:
    """Whether the first or the second norm stands before its part instead of after its sum."""
    return step["layout"] in ("norm first", f"norm {number} first")


def mixing(roles: Roles, values: Values, step: Steps) -> Array:
    """c W_O + b_O; without W_O, c itself."""
    return np.asarray(step["mixed"](values["c"] if roles.mixing is None else roles.mixing(values["c"])))


def first_sum(roles: Roles, values: Values, step: Steps) -> Array:
    """norm(x + m)."""
    x = values.known.get("query", values.known.get("x", values["m"]))
    x = step["first adds"](x, _words(roles, values, x))
    read = step["first norm"](x) if norms_before(step, 1) else x
    y = np.asarray(step["first sum"](x, values["m"], step["first norm"], read))
    places = y if values.ids is None or not roles.tables else rows.rows_in_order(roles.tables[0], values.ids)
    return np.asarray(step["late rows"](y, places))


def feed_forward(roles: Roles, values: Values, step: Steps) -> Array:
    """ReLU(y W_1 + b_1) W_2 + b_2."""
    y = step["reads"](values)
    y = step["second norm"](y) if norms_before(step, 2) else y
    if roles.inner is None:
        return np.asarray(y)
    hidden = step["activation"](roles.inner(y))
    return np.asarray(step["after outer"](hidden if roles.outer is None else roles.outer(hidden)))


def second_sum(roles: Roles, values: Values, step: Steps) -> Array:
    """norm(y + f)."""
    y = step["second adds"](values)
    read = step["second norm"](y) if norms_before(step, 2) else y
    return np.asarray(step["second sum"](y, values["f"], step["second norm"], read))


def output(roles: Roles, values: Values, step: Steps) -> Array:
    """z W + b."""
    z = step["last norm"](step["output reads"](values))
    return np.asarray(step["output"](z if roles.output is None else roles.output(z)))


STAGES: dict[str, tuple[str, Callable[[Roles, Values, Steps], Array]]] = {
    "embedding": ("x", embedding),
    "attention": ("c", attention),
    "mixing": ("m", mixing),
    "first sum and norm": ("y", first_sum),
    "feed-forward": ("f", feed_forward),
    "second sum and norm": ("z", second_sum),
    "output": ("scores", output),
}


def run(roles: Roles, values: Values, replaced: Mapping[str, Any], stages: tuple[str, ...]) -> Values:
    """All these stages in order, with some steps replaced."""
    for stage in stages:
        name, function = STAGES[stage]
        values = values.with_value(name, function(roles, values, {**RIGHT, **replaced}))
    return values


def mistakes_of_stage(stage: str, numbers: Iterable[float] = ()) -> list[Mistake]:
    """The mistakes of one stage, with the numbers of a person's model; layout and formula are chosen apart."""
    listed = [one for one in LIBRARY if one.stage == stage and one.step not in ("layout", "formula")]
    return [one for each in listed for one in each.with_numbers(numbers)]

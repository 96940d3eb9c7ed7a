"""A one-layer Transformer in NumPy float64, whose switches are the known mistakes; with all at rest it is right.

    x = E[s] + P[t]                                   "embedding"
    c = softmax(Q K^T / sqrt(d)) V, heads side by side     "attention"
    m = c W_O + b_O                                   "mixing"
    y = norm(x + m)                                   "first sum and norm"
    f = ReLU(y W_1 + b_1) W_2 + b_2                   "feed-forward"
    z = norm(y + f)                                   "second sum and norm"
    scores = z W + b                                  "output"

Every stage is a function of the roles, of the values so far and of its switches. A switch at rest is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.tracing.dataflow import Norm
from regard.tracing.parameter_roles import Roles

Switches = Mapping[str, Any]


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


# embedding


def embedding(roles: Roles, values: Values, switches: Switches) -> Array:
    """E[s] + P[t]."""
    ids, table = values.ids, roles.tokens
    if ids is None or table is None:
        raise LookupError("no table of tokens")
    width = table.shape[1]
    x = table[ids]
    rows = ROWS[switches.get("rows", "in order")]
    scale = switches.get("tokens", "as they are")
    if scale in TOKEN_SCALES:
        x = x * TOKEN_SCALES[scale](width)
    elif scale == "fixed":
        x = x * _unnamed_factor(roles.fixed_tokens, [1.0, *(known(width) for known in TOKEN_SCALES.values())])
    p = rows(positions_table(roles, switches, ids, width), ids)
    x = x * p if switches.get("join") == "multiplied" else x + p
    if scale == "sum scaled":
        x = x * np.sqrt(width)
    return normalise(x, switches["embedding norm"]) if switches.get("embedding norm") else x


def _unnamed_factor(factor: float | None, named: Iterable[float]) -> float:
    """A fixed number in the place of a formula; NaN, which equals nothing, where it has a name of its own."""
    if factor is None or any(np.isclose(factor, one, rtol=1e-9) for one in named):
        return float("nan")
    return factor


TOKEN_SCALES: dict[str, Callable[[int], float]] = {
    "times sqrt(width)": np.sqrt,
    "divided by sqrt(width)": lambda width: width**-0.5,
    "times width": float,
}
ROWS: dict[str, Callable[[Array, Array], Any]] = {
    "in order": lambda p, ids: p[: ids.shape[1]],
    "none": lambda p, ids: 0.0,
    "twice": lambda p, ids: 2 * p[: ids.shape[1]],
    "from the end": lambda p, ids: p[: ids.shape[1]][::-1],
    "last rows": lambda p, ids: p[len(p) - ids.shape[1] :],
    "last row first": lambda p, ids: p[::-1][: ids.shape[1]],
    "from 1": lambda p, ids: p[1 : ids.shape[1] + 1],
    "by sentence": lambda p, ids: p[: ids.shape[0], None],
    "always the first": lambda p, ids: p[0],
    "always the last": lambda p, ids: p[ids.shape[1] - 1],
    "by length": lambda p, ids: p[ids.shape[1]],
    "by word": lambda p, ids: p[ids % len(p)] if ids.max() >= len(p) else p[ids],
}


def positions_table(roles: Roles, switches: Switches, ids: Array, width: int) -> Array:
    """The person's learned table, or the formula of the sinusoidal one."""
    formula = switches.get("formula")
    if formula is not None:
        longest = max(len(roles.tables[0]) if roles.tables else 0, ids.shape[1] + 1, ids.shape[0])
        return sinusoids(formula, longest, width)
    if not roles.tables and switches.get("rows") != "none":
        raise LookupError("no table of positions")
    if not roles.tables:
        return np.zeros((max(ids.shape) + 1, width))
    table: Array = roles.tables[min(switches.get("table", 0), len(roles.tables) - 1)]
    return table


def sinusoids(formula: str, length: int, width: int) -> Array:
    """A table of sines and cosines, right ("interleaved", "halves") or with a known slip."""
    t = np.arange(length, dtype=np.float64)[:, None]
    pair = np.arange((width + 1) // 2, dtype=np.float64)  # i of the columns 2i and 2i+1
    exponents = SINE_EXPONENTS.get(formula, _right_exponents)(pair, width)
    base = 1000.0 if formula == "base 1000" else 100000.0 if formula == "base 100000" else 10000.0
    sines, cosines = (np.sin(t * base ** -exponents[0]), np.cos(t * base ** -exponents[1]))
    if formula == "inverted":
        sines, cosines = np.sin(t * base ** exponents[0]), np.cos(t * base ** exponents[1])
    if formula == "cosines first":
        sines, cosines = cosines, sines
    if formula == "sines only":
        cosines = sines
    if formula in ("halves", "halves, d - 1"):
        return np.concatenate([sines, cosines], axis=1)[:, :width]
    return np.stack([sines, cosines], axis=2).reshape(length, -1)[:, :width]


def _right_exponents(i: Array, d: int) -> tuple[Array, Array]:
    return 2 * i / d, 2 * i / d


Exponents = Callable[[Array, int], tuple[Array, Array]]
SINE_EXPONENTS: dict[str, Exponents] = {
    "doubled": lambda i, d: (4 * i / d, 4 * i / d),  # 2j/d with j = 0, 2, 4, ...
    "doubled, odd on": lambda i, d: (4 * i / d, 2 * (2 * i + 1) / d),  # 2j/d with j = 0, 1, 2, ...
    "doubled, cosine one pair on": lambda i, d: (4 * i / d, 4 * (i + 0.5) / d),
    "i/d": lambda i, d: (i / d, i / d),
    "column/d": lambda i, d: (2 * i / d, (2 * i + 1) / d),
    "cosine one on": lambda i, d: (2 * i / d, 2 * (i + 1) / d),
    "i/(d/2 - 1)": lambda i, d: (i / max(d / 2 - 1, 1), i / max(d / 2 - 1, 1)),
    "halves, d - 1": lambda i, d: (i / max(d / 2 - 1, 1), i / max(d / 2 - 1, 1)),
    "whole exponents": lambda i, d: (2 * i // d, 2 * i // d),
    "no exponent": lambda i, d: (0 * i + 1, 0 * i + 1),
    "half": lambda i, d: (i / 2 / d, i / 2 / d),
}


# attention


def attention(roles: Roles, values: Values, switches: Switches) -> Array:
    """softmax(Q K^T / sqrt(d)) V in every head; the heads side by side (N, T, width)."""
    if not roles.attends:
        raise LookupError("no attention")
    sources = _sources(values, switches)
    q, k, v = _heads_of(roles, sources, switches)
    scores = q @ k.swapaxes(-1, -2) * scale(switches, q.shape[-1], roles, values)
    forbidden = MASKS[switches.get("mask", "none")]
    real = None if values.pad is None else ~values.pad
    scores, after = forbidden(scores, real, roles.heads, roles.hidden)
    weights = SOFTMAXES[switches.get("softmax", "keys")](scores)
    if roles.safe:
        weights = np.where(np.isneginf(scores).all(axis=-1, keepdims=True), 0.0, weights)
    if after is not None:
        weights = weights * after
    if switches.get("scale") == "after the softmax":
        weights = weights / np.sqrt(q.shape[-1])
    if switches.get("weights") == "turned":
        weights = weights.swapaxes(-1, -2)
    made = merge_heads(weights @ v, switches)
    return (
        made.reshape(*sources[0].shape[:2], -1) if switches.get("split") == ("all sentences at once", "all") else made
    )


def _sources(values: Values, switches: Switches) -> tuple[Array, Array, Array]:
    """What queries, keys and values are made of: x, or x normalised first; for a module alone its three inputs."""
    norm = switches.get("first norm") if switches.get("layout") == "norm first" else None
    states = [values.known.get(name, values.known.get("x", np.zeros(0))) for name in ("query", "key", "value")]
    made = [states[switches.get("order", (0, 1, 2))[side]] for side in range(3)]
    q, k, v = (one if norm is None else normalise(one, norm) for one in made)
    return q, k, v


def _heads_of(roles: Roles, sources: tuple[Array, Array, Array], switches: Switches) -> tuple[Array, Array, Array]:
    """Queries, keys and values split into heads: (N, heads, T, width of a head) each."""
    parts = [roles.queries(sources[0]), roles.keys(sources[1]), roles.values(sources[2])]
    use = switches.get("values", "own")
    if use in ("keys", "queries"):
        parts[2] = parts[1 if use == "keys" else 0]
    kind, only = switches.get("split", ("heads", "all"))
    split = []
    for name, part in zip(("queries", "keys", "values"), parts, strict=True):
        split.append(SPLITS[kind if only in ("all", name) else "heads"](part, roles.heads))
    if switches.get("used head") == "first":
        split = [np.repeat(one[:, :1], roles.heads, axis=1) for one in split]
    return split[0], split[1], split[2]


Split = Callable[[Array, int], Array]
SPLITS: dict[str, Split] = {
    "heads": lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(0, 2, 1, 3),
    "no transpose": lambda x, h: x.reshape(x.shape[0], h, x.shape[1], -1),
    "interleaved": lambda x, h: x.reshape(*x.shape[:2], -1, h).transpose(0, 3, 1, 2),
    "between heads": lambda x, h: x.reshape(*x.shape[:2], h, -1),
    "between sentences": lambda x, h: x.reshape(*x.shape[:2], h, -1).transpose(1, 2, 0, 3),
    "all sentences at once": lambda x, h: x.reshape(1, x.shape[0] * x.shape[1], h, -1).transpose(0, 2, 1, 3),
}


def scale(switches: Switches, width: int, roles: Roles, values: Values) -> float:
    """1/sqrt(d), or what stands in its place."""
    kind = switches.get("scale", "sqrt")
    if kind == "sqrt":
        return float(width**-0.5)
    shape = next(v.shape for v in values.known.values() if v.ndim == 3)
    whole = roles.heads * width
    states = shape[-1]
    known = {
        "none": 1.0,
        "after the softmax": 1.0,
        "width": 1 / width,
        "sqrt of all heads": whole**-0.5,
        "all heads": 1 / whole,
        "sqrt of the states": states**-0.5,
        "states": 1 / states,
        "sqrt of the batch": shape[0] ** -0.5,
        "sqrt of the length": shape[1] ** -0.5,
        "sqrt of the heads": roles.heads**-0.5,
        "inverted": width**0.5,
        "floored": 1 / max(width**0.5 // 1, 1),
        "twice": 1 / width,
        "fourth root": width**-0.25,
        "per head again": max(width // roles.asked_heads, 1) ** -0.5,
        "floored, all heads": 1 / max(whole**0.5 // 1, 1),
    }
    if kind != "fixed":
        return float(known[kind])
    return _unnamed_factor(roles.fixed_scale, [width**-0.5, *known.values()])


Masked = tuple[Array, Array | None]


def _fill_scores(scores: Array, hide: Array, fill: float) -> Masked:
    return np.where(hide, fill, scores), None


def _broadcast(real: Array | None, scores: Array) -> Array:
    """(N, 1, 1, T): True at keys that are words; all True where there is no padding or the axes do not fit."""
    if real is None or scores.shape[0] != real.shape[0] or scores.shape[-1] != real.shape[1]:
        return np.ones((1, 1, 1, scores.shape[-1]), dtype=bool)
    return real[:, None, None, :]


def _rows_of(real: Array | None, scores: Array) -> Array:
    """(N, 1, T, 1): True at queries that are words."""
    if real is None or scores.shape[0] != real.shape[0] or scores.shape[-2] != real.shape[1]:
        return np.ones((1, 1, scores.shape[-2], 1), dtype=bool)
    return real[:, None, :, None]


def _mask_in_wrong_order(real: Array | None, scores: Array, heads: int, fill: float) -> Masked:
    """The mask repeated head after head where the scores go sentence after sentence."""
    if real is None or scores.shape[:2] != (real.shape[0], heads):
        return scores, None
    order = np.arange(real.shape[0] * heads).reshape(-1, heads) % real.shape[0]
    return _fill_scores(scores, ~real[order][:, :, None, :], fill)


def _future(scores: Array) -> Array:
    return np.triu(np.ones(scores.shape[-2:], dtype=bool), 1)


MASKS: dict[str, Callable[[Array, Array | None, int, float], Masked]] = {
    "none": lambda s, real, h, low: (s, None),
    "keys": lambda s, real, h, low: _fill_scores(s, ~_broadcast(real, s), low),
    "keys and queries": lambda s, real, h, low: _fill_scores(s, ~(_broadcast(real, s) & _rows_of(real, s)), low),
    "queries": lambda s, real, h, low: _fill_scores(s, ~_rows_of(real, s), low),
    "inverted": lambda s, real, h, low: _fill_scores(s, _broadcast(real, s), low),
    "fill 0": lambda s, real, h, low: _fill_scores(s, ~_broadcast(real, s), 0.0),
    "fill +1e9": lambda s, real, h, low: _fill_scores(s, ~_broadcast(real, s), 1e9),
    "added 1 at words": lambda s, real, h, low: (s + _broadcast(real, s), None),
    "added 1 at padding": lambda s, real, h, low: (s + ~_broadcast(real, s), None),
    "after the softmax": lambda s, real, h, low: (s, _broadcast(real, s).astype(np.float64)),
    "heads and sentences mixed up": lambda s, real, h, low: _mask_in_wrong_order(real, s, h, low),
    "future": lambda s, real, h, low: _fill_scores(s, _future(s), low),
    "future and padding": lambda s, real, h, low: _fill_scores(s, _future(s) | ~_broadcast(real, s), low),
    "past": lambda s, real, h, low: _fill_scores(s, ~_future(s), low),
    "not itself": lambda s, real, h, low: _fill_scores(s, np.eye(*s.shape[-2:], dtype=bool), low),
}


def softmax(scores: Array, axis: int | tuple[int, ...] = -1) -> Array:
    """exp(s) / sum exp(s) along an axis, or over several at once."""
    with np.errstate(invalid="ignore"):
        raised = np.exp(scores - scores.max(axis=axis, keepdims=True))
        shares: Array = raised / raised.sum(axis=axis, keepdims=True)
    return shares


SOFTMAXES: dict[str, Callable[[Array], Array]] = {
    "keys": softmax,
    "queries": lambda s: softmax(s, -2),
    "heads": lambda s: softmax(s, 1),
    "batch": lambda s: softmax(s, 0),
    "all pairs": lambda s: softmax(s, (-2, -1)),
    "none": lambda s: s,
    "sigmoid": lambda s: 1 / (1 + np.exp(-s)),
    "twice": lambda s: softmax(softmax(s)),
    "not divided": np.exp,
    "log": lambda s: np.log(softmax(s)),
    "no exponential": lambda s: s / s.sum(axis=-1, keepdims=True),
}


def merge_heads(context: Array, switches: Switches) -> Array:
    """The heads' outputs side by side, (N, T, width)."""
    kind, _ = switches.get("split", ("heads", "all"))
    if kind == "between heads":  # (N, T, heads, width)
        n, t, h, d = context.shape
        return MERGES[switches.get("merge", "plain")](context).reshape(n, t, h * d)
    if kind == "between sentences":  # (T, heads, N, width)
        t, h, n, d = context.shape
        return context.transpose(2, 0, 1, 3).reshape(n, t, h * d)
    return MERGES[switches.get("merge", "side by side")](context)


MERGES: dict[str, Callable[[Array], Array]] = {
    "side by side": lambda c: c.transpose(0, 2, 1, 3).reshape(c.shape[0], c.shape[2], -1),
    "no transpose back": lambda c: c.reshape(c.shape[0], c.shape[2], -1),
    "interleaved": lambda c: c.transpose(0, 2, 3, 1).reshape(c.shape[0], c.shape[2], -1),
    "other order": lambda c: c[:, ::-1].transpose(0, 2, 1, 3).reshape(c.shape[0], c.shape[2], -1),
    "sum": lambda c: c.sum(axis=1),
    "mean": lambda c: c.mean(axis=1),
    "first head": lambda c: c[:, 0],
    "last head": lambda c: c[:, -1],
    "places and widths exchanged": lambda c: c.transpose(0, 3, 1, 2).reshape(c.shape[0], c.shape[2], -1),
    "plain": lambda c: c,
    "as if transposed": lambda c: c.transpose(0, 2, 1, 3),
}


def mixing(roles: Roles, values: Values, switches: Switches) -> Array:
    """c W_O + b_O; without W_O, c itself."""
    m = values["c"] if roles.mixing is None else roles.mixing(values["c"])
    return np.maximum(m, 0) if switches.get("mixed") == "ReLU" else m


# sums and norms


@dataclass(frozen=True, kw_only=True, eq=False)
class NormChoice:
    """A normalisation: its learned vectors, where the small number stands, and over which axes it goes."""

    norm: Norm | None
    eps: float
    kind: str = "layer"
    index: int = -1


def normalise(x: Array, choice: NormChoice) -> Array:
    """(x - mean) / sqrt(variance + eps), times the gain, plus the shift."""
    axis, unbiased, outside = NORM_KINDS[choice.kind]
    mean = x.mean(axis=axis, keepdims=True)
    if choice.kind == "mean not subtracted":
        mean = mean * 0
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = ((x - mean) ** 2).mean(axis=axis, keepdims=True)
        if unbiased:
            count = np.prod([x.shape[a] for a in (axis if isinstance(axis, tuple) else (axis,))])
            variance = variance * count / max(count - 1, 1)
        size = np.sqrt(variance) + choice.eps if outside else np.sqrt(variance + choice.eps)
        if choice.kind == "variance for deviation":
            size = variance + choice.eps
        made = (x - mean) / size
    if choice.kind == "only the mean":
        made = x - mean
    if choice.kind == "running":  # a batch norm that has seen nothing yet: mean 0, variance 1
        made = x / np.sqrt(1 + choice.eps)
    if choice.norm is not None and choice.norm.gain is not None:
        made = made * choice.norm.gain
    if choice.norm is not None and choice.norm.shift is not None:
        made = made + choice.norm.shift
    return np.asarray(made)


NORM_KINDS: dict[str, tuple[Any, bool, bool]] = {  # axes, n - 1 in the variance, the small number outside the root
    "layer": (-1, False, False),
    "layer, eps outside": (-1, False, True),
    "n - 1": (-1, True, False),
    "n - 1, eps outside": (-1, True, True),
    "places": (1, False, False),
    "batch": (0, False, False),
    "sentence": ((1, 2), False, False),
    "batch and places": ((0, 1), False, False),
    "everything": ((0, 1, 2), False, False),
    "mean not subtracted": (-1, False, False),
    "running": (-1, False, False),
    "only the mean": (-1, False, False),
    "variance for deviation": (-1, False, False),
    "places, n - 1": (1, True, False),
    "sentence, n - 1": ((1, 2), True, False),
}


def add_and_norm(x: Array, part: Array, norm: NormChoice, kind: str, read: Array) -> Array:
    """The sum with what came in, and its norm, in one of the orders that people write."""
    orders: dict[str, Callable[[], Array]] = {
        "norm of the sum": lambda: normalise(x + part, norm),
        "no residual": lambda: normalise(part, norm),
        "no norm": lambda: x + part,
        "neither": lambda: part,
        "norm, then sum": lambda: x + normalise(part, norm),
        "norm of the input only": lambda: normalise(x, norm) + part,
        "residual twice": lambda: normalise(2 * x + part, norm),
        "residual again after the norm": lambda: normalise(x + part, norm) + x,
        "norm twice": lambda: normalise(normalise(x + part, norm), norm),
        "part ignored": lambda: normalise(x, norm),
        "subtracted": lambda: normalise(x - part, norm),
        "part twice": lambda: normalise(part + part, norm),
        "multiplied": lambda: normalise(x * part, norm),
        "adds what was normalised": lambda: read + part,
    }
    return orders[kind]()


def first_sum(roles: Roles, values: Values, switches: Switches) -> Array:
    """norm(x + m)."""
    first = switches["layout"] == "norm first"
    x = values.known.get("query", values.known.get("x", values["m"]))
    read = normalise(x, switches["first norm"]) if first else x
    return add_and_norm(x, values["m"], switches["first norm"], switches.get("first sum", _default_sum(switches)), read)


def _default_sum(switches: Switches) -> str:
    return "no norm" if switches["layout"] == "norm first" else "norm of the sum"


def feed_forward(roles: Roles, values: Values, switches: Switches) -> Array:
    """ReLU(y W_1 + b_1) W_2 + b_2."""
    y = values[{"y": "y", "x": "x", "m": "m", "c": "c"}[switches.get("reads", "y")]]
    if switches["layout"] == "norm first":
        y = normalise(y, switches["second norm"])
    if roles.inner is None:
        return y
    hidden = ACTIVATIONS[switches.get("activation", "ReLU")](roles.inner(y))
    f = hidden if roles.outer is None else roles.outer(hidden)
    return np.maximum(f, 0) if switches.get("after outer") == "ReLU" else f


def _erf(x: Array) -> Array:
    from scipy.special import erf

    return np.asarray(erf(x))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "ReLU": lambda x: np.maximum(x, 0),
    "none": lambda x: x,
    "GELU": lambda x: x * 0.5 * (1 + _erf(x / np.sqrt(2))),
    "GELU by tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "leaky ReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "SiLU": lambda x: x / (1 + np.exp(-x)),
    "softmax": softmax,
    "absolute value": np.abs,
    "ReLU of the negative": lambda x: np.maximum(-x, 0),
}


def second_sum(roles: Roles, values: Values, switches: Switches) -> Array:
    """norm(y + f)."""
    y = values[{"y": "y", "x": "x", "m": "m"}[switches.get("second adds", "y")]]
    first = switches["layout"] == "norm first"
    norm = switches["second norm"]
    read = normalise(y, norm) if first else y
    return add_and_norm(y, values["f"], norm, switches.get("second sum", _default_sum(switches)), read)


def output(roles: Roles, values: Values, switches: Switches) -> Array:
    """z W + b."""
    z = values[switches.get("output reads", "z")]
    last = switches.get("last norm")
    if last is not None:
        z = normalise(z, last)
    scores = z if roles.output is None else roles.output(z)
    return OUTPUTS[switches.get("output", "scores")](scores)


OUTPUTS: dict[str, Callable[[Array], Array]] = {
    "scores": lambda s: s,
    "softmax": softmax,
    "log softmax": lambda s: np.log(softmax(s)),
    "softmax over places": lambda s: softmax(s, 1),
    "softmax over the batch": lambda s: softmax(s, 0),
    "log softmax over places": lambda s: np.log(softmax(s, 1)),
    "softmax twice": lambda s: softmax(softmax(s)),
    "sigmoid": lambda s: 1 / (1 + np.exp(-s)),
    "ReLU": lambda s: np.maximum(s, 0),
    "tanh": np.tanh,
}

STAGES: dict[str, tuple[str, Callable[[Roles, Values, Switches], Array]]] = {
    "embedding": ("x", embedding),
    "attention": ("c", attention),
    "mixing": ("m", mixing),
    "first sum and norm": ("y", first_sum),
    "feed-forward": ("f", feed_forward),
    "second sum and norm": ("z", second_sum),
    "output": ("scores", output),
}


def run(roles: Roles, values: Values, switches: Switches, stages: tuple[str, ...]) -> Values:
    """All these stages in order, with these switches."""
    for stage in stages:
        name, function = STAGES[stage]
        values = values.with_value(name, function(roles, values, switches))
    return values

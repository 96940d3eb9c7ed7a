"""Which parameters play which role, read off the dataflow: no weight is taken by its name.

Scores are the meetings whose two sides come from linears; the meetings fed by scores multiply weights with values.
So the linears behind the left side of the scores are the queries' (or the keys': the two cannot be told apart, and the
search tries both), those behind the values the values', and what follows is mixing, inner, outer and output, in order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.array_types import Array
from regard.tracing.dataflow import Anchor, Anchors, AppliedArray, Dataflow, Norm, ends_in_ones
from regard.tracing.embedding_tables import find_positions, find_tokens, is_subset, states_width
from regard.tracing.recording import Place, Recording

MOST_NUMBERS = 50_000_000  # of a matrix that is made here from one that was sent
USUAL_EPS = (1e-5, 1e-6, 1e-12, 1e-8, 0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Projection:
    """x W + b; ``weight`` None is the identity, ``bias`` None is none."""

    weight: Array | None = None
    bias: Array | None = None
    parameters: tuple[str, ...] = ()
    anchors: tuple[int, ...] = ()

    @property
    def width(self) -> int | None:
        return None if self.weight is None else int(self.weight.shape[1])

    def __call__(self, x: Array) -> Array:
        if self.weight is None:
            return x
        y: Array = x @ self.weight
        return y if self.bias is None else y + self.bias

    def tile(self, times: int) -> Projection:
        """The same columns several times, for a head that is used several times."""
        if self.weight is None or times <= 1 or times * self.weight.size > MOST_NUMBERS:
            return self
        bias = None if self.bias is None else np.tile(self.bias, times)
        return dataclasses.replace(self, weight=np.tile(self.weight, (1, times)), bias=bias)


@dataclass(frozen=True, kw_only=True, eq=False)
class Roles:
    """The parts of a one-layer model, as far as they were found."""

    tokens: Array | None = None
    token_parameters: tuple[str, ...] = ()
    tables: tuple[Array, ...] = ()  # of positions: learned or constant, (places, width) each
    learned_positions: bool = False
    position_parameters: tuple[str, ...] = ()
    queries: Projection = Projection()
    keys: Projection = Projection()
    values: Projection = Projection()
    heads: int = 1
    mixing: Projection | None = None
    inner: Projection | None = None
    outer: Projection | None = None
    output: Projection | None = None
    norms: tuple[Norm, ...] = ()
    eps: tuple[float, ...] = USUAL_EPS
    places: dict[str, Place] = field(default_factory=dict)
    hidden: float = -1e9  # what forbidden scores are filled with: far below every score, or -inf
    numbers: tuple[float, ...] = ()  # that live values are multiplied by or compared with, or filled with
    safe: bool = False  # a softmax that gives 0 where everything is forbidden, as torch's own attention does
    attends: bool = True
    sliced: bool = False  # each head reads a slice of the states, through a matrix that all share
    asked_heads: int = 1  # what the constructor was given

    def swap_queries_and_keys(self) -> Roles:
        """Keys for queries and queries for keys."""
        return dataclasses.replace(self, queries=self.keys, keys=self.queries)


def find_roles(recording: Recording, *, whole: bool = True) -> Roles:
    """The roles in the first run; ``whole``: ids to scores, so that the last linear is the output."""
    run = recording.runs[0]
    flow = Dataflow(run)
    _assign_late_biases(flow)
    scores, contexts = meetings(flow)
    triples = head_triples(flow, scores, contexts)
    used = {anchor for triple in triples for side in triple for anchor in side}
    first = scores[0] if scores else None
    width = flow.anchors[first].inner if first is not None else 1
    states = states_width(flow, run)
    narrow = [_side_projection(flow, triples, side, scores, contexts) for side in range(3)]
    queries, keys, values = (_block_diagonal(one, states) for one in narrow)
    heads = max(1, (queries.width or keys.width or states_width(flow, run)) // max(width, 1)) if scores else 1
    after = [
        (index, anchor)
        for index, anchor in enumerate(flow.anchors)
        if anchor.kind == "linear"
        and index not in used
        and (not scores or anchor.order > flow.anchors[scores[0]].order)
    ]
    mixing, inner, outer, output = _after_attention(flow, after, scores + contexts, whole=whole and run.raised is None)
    sliced = any(one is not wide for one, wide in zip(narrow, (queries, keys, values), strict=True))
    queries, keys, values, heads = _repeat_heads(queries, keys, values, heads, mixing)
    tables, learned, names = find_positions(flow, recording)
    tokens = find_tokens(flow, run)
    return Roles(
        tokens=None if tokens is None else tokens.weight,
        token_parameters=() if tokens is None else tokens.parameters,
        tables=tables,
        learned_positions=learned,
        position_parameters=names,
        queries=queries,
        keys=keys,
        values=values,
        heads=heads,
        mixing=mixing,
        inner=inner,
        outer=outer,
        output=output,
        norms=_norms(flow),
        eps=_eps(flow),
        places=_places(flow, scores, contexts, mixing, inner, outer, output),
        hidden=_mask_value(flow),
        numbers=_numbers(flow),
        safe=any(event.op == "_safe_softmax" for event in run.events),
        attends=bool(contexts) or recording.kind == "attention",  # a function is one, however it adds up
        sliced=sliced,
        asked_heads=int(recording.sizes.get("heads", heads)),
    )


def meetings(flow: Dataflow) -> tuple[list[int], list[int]]:
    """The scores, and the products of weights and values that they lead to, of the first layer."""
    scores: list[int] = []
    contexts: list[int] = []
    for index, anchor in enumerate(flow.anchors):
        if anchor.kind != "meeting":
            continue
        (contexts if anchor.reads & frozenset(scores) else scores).append(index)
    first = [i for i in scores if not _ancestors(flow, i) & frozenset(contexts)]
    return first, [i for i in contexts if flow.anchors[i].reads & frozenset(first)]


def _ancestors(flow: Dataflow, index: int) -> Anchors:
    """All anchors that an anchor depends on."""
    above: set[int] = set()
    waiting = list(flow.anchors[index].reads)
    while waiting:
        one = waiting.pop()
        if one not in above:
            above.add(one)
            waiting += flow.anchors[one].reads
    return frozenset(above)


def head_triples(flow: Dataflow, scores: list[int], contexts: list[int]) -> list[tuple[Anchors, Anchors, Anchors]]:
    """(queries, keys, values) anchors, one triple per differently made head; loops over a batch give the same again."""
    triples: dict[tuple[Anchors, Anchors, Anchors], None] = {}
    for index in scores:
        one = flow.anchors[index]
        values: Anchors = frozenset()
        for after in contexts:
            sides = (
                flow.recent_anchors(flow.anchors[after].left[0]),
                flow.recent_anchors(flow.anchors[after].right[0]),
            )
            if index in sides[0] | sides[1]:
                values |= sides[1] if index in sides[0] else sides[0]
        left, right = one.left[0], one.right[0]
        if len(flow.nodes[left].shape) > len(flow.nodes[right].shape):
            left, right = right, left  # a matrix times a vector: the vector is the query
        triples[(flow.recent_anchors(left), flow.recent_anchors(right), values)] = None
    return list(triples)


def _side_projection(
    flow: Dataflow, triples: list[tuple[Anchors, Anchors, Anchors]], side: int, scores: list[int], contexts: list[int]
) -> Projection:
    """The projection behind one side of all heads, head after head."""
    parts: list[Projection] = []
    for triple in triples:
        linears = [
            i for i in sorted(triple[side], key=lambda i: flow.anchors[i].order) if flow.anchors[i].kind == "linear"
        ]
        for index in linears:
            columns = _columns(flow, index, side, scores, contexts, sharing=sum(index in other for other in triple))
            parts.append(_projection(flow.anchors[index], index, columns))
    return join_projections(parts)


def _block_diagonal(one: Projection, states: int) -> Projection:
    """A matrix that is applied to each slice of the states: the same as a matrix with it along the diagonal."""
    if one.weight is None or one.weight.shape[0] >= states or states % one.weight.shape[0]:
        return one
    times = states // one.weight.shape[0]
    if times**2 * one.weight.size > MOST_NUMBERS:
        return one
    bias = None if one.bias is None else np.tile(one.bias, times)
    return dataclasses.replace(one, weight=np.kron(np.eye(times), one.weight), bias=bias)


def join_projections(parts: Sequence[Projection]) -> Projection:
    """Projections side by side; where some have a bias and some have none, those have 0."""
    kept = [part for part in parts if part.weight is not None]
    if len({len(p.weight) for p in kept if p.weight is not None}) != 1:  # none, or what reads different states
        return Projection()
    biases = [np.zeros(p.width or 0) if p.bias is None else p.bias for p in kept]
    return Projection(
        weight=np.concatenate([p.weight for p in kept if p.weight is not None], axis=1),
        bias=None if all(p.bias is None for p in kept) else np.concatenate(biases),
        parameters=tuple(dict.fromkeys(name for p in kept for name in p.parameters)),
        anchors=tuple(a for p in kept for a in p.anchors),
    )


def _projection(anchor: Anchor, index: int, columns: Array | None = None) -> Projection:
    weight, bias = anchor.weight, anchor.bias
    if columns is not None and weight is not None:
        weight, bias = weight[:, columns], None if bias is None else bias[columns]
    return Projection(weight=weight, bias=bias, parameters=anchor.parameters + anchor.bias_parameters, anchors=(index,))


def _columns(
    flow: Dataflow, index: int, side: int, scores: list[int], contexts: list[int], *, sharing: int
) -> Array | None:
    """Which columns of a packed linear are the queries', keys' or values': those whose numbers are found there."""
    anchor = flow.anchors[index]
    source = flow.value(anchor.left[0])
    if anchor.weight is None or source.ndim < 2:
        return None
    if ends_in_ones(source, len(anchor.weight) + 1, axis=-1):
        source = source[..., :-1]
    if source.shape[-1] != len(anchor.weight):
        return None
    made = source.reshape(-1, source.shape[-1]) @ anchor.weight
    made = made if anchor.bias is None else made + anchor.bias
    width = flow.anchors[scores[0]].inner
    factors = [1.0] if side == 2 else [1.0, width**-0.5, width**-0.25, made.shape[1] ** -0.5, width**0.5]
    nodes = [flow.anchors[i].left[0] if side == 0 else flow.anchors[i].right[0] for i in scores]
    if side == 2:
        nodes = [_values_node(flow, i, scores) for i in contexts]
    there = np.sort(np.concatenate([flow.value(n).ravel() for n in nodes]))
    for factor in factors:
        present = np.array([is_subset(made[:, j] * factor, there) for j in range(made.shape[1])])
        if present.sum() > 0:
            return np.flatnonzero(present)
    part = made.shape[1] // max(sharing, 1)
    first = side if sharing == 3 else max(side - 1, 0)
    return np.arange(first * part, (first + 1) * part) if sharing > 1 else None


def _values_node(flow: Dataflow, context: int, scores: list[int]) -> int:
    anchor = flow.anchors[context]
    return anchor.right[0] if flow.recent_anchors(anchor.left[0]) & frozenset(scores) else anchor.left[0]


def _repeat_heads(
    queries: Projection, keys: Projection, values: Projection, heads: int, mixing: Projection | None
) -> tuple[Projection, Projection, Projection, int]:
    """A head that is used several times: the mixing matrix reads more columns than the values have."""
    if mixing is None or mixing.weight is None or values.width is None or queries.width is None:
        return queries, keys, values, heads
    times = mixing.weight.shape[0] // values.width
    if times < 2 or mixing.weight.shape[0] % values.width:
        return queries, keys, values, heads
    return queries.tile(times), keys.tile(times), values.tile(times), heads * times


def _after_attention(
    flow: Dataflow, after: list[tuple[int, Anchor]], attention: list[int], *, whole: bool
) -> tuple[Projection | None, Projection | None, Projection | None, Projection | None]:
    """Mixing, inner, outer and output, in the order they come."""
    parts = [_projection(anchor, index) for index, anchor in after]
    reads = [anchor.reads for _, anchor in after]
    mixing: Projection | None = None
    if after and reads[0] and reads[0] <= frozenset(attention) and not _is_inner(flow, after, whole=whole):
        mixing, parts = parts[0], parts[1:]
    output = parts.pop() if whole and parts else None
    inner = parts[0] if parts else None
    outer = parts[1] if len(parts) > 1 else None
    return mixing, inner, outer, output if whole else (parts[2] if len(parts) > 2 else None)


def _is_inner(flow: Dataflow, after: list[tuple[int, Anchor]], *, whole: bool) -> bool:
    """Whether the first linear after attention is already the feed-forward part's: too few are left for both."""
    if len(after) >= (4 if whole else 3) or len(after) < 2:
        return False
    (first, _), (_, second) = after[:2]
    return second.reads == frozenset({first}) and bool((flow.value(second.left[0]) >= 0).all())


def _norms(flow: Dataflow) -> tuple[Norm, ...]:
    """Normalisations in the order they come: torch's own, and gains and shifts that are applied by hand."""
    norms = list(flow.norms)
    for one, after in _gains_and_shifts(flow):
        norms.append(
            Norm(
                order=one.order,
                place=one.place,
                gain=one.value.reshape(-1),
                shift=None if after is None else after.value.reshape(-1),
                parameters=one.parameters + (() if after is None else after.parameters),
            )
        )
    return tuple(sorted(norms, key=lambda norm: norm.order))


def _gains_and_shifts(flow: Dataflow) -> list[tuple[AppliedArray, AppliedArray | None]]:
    """Vectors that multiply, each with the vector that is added next."""
    vectors = [a for a in flow.applied if a.parameters and _is_vector(a.value)]
    after = [*vectors[1:], None]
    pairs = [(a, b) for a, b in zip(vectors, after, strict=False) if a.op == "mul"]
    return [(a, b if b is not None and b.op == "add" and b.to == a.to else None) for a, b in pairs]


def _assign_late_biases(flow: Dataflow) -> None:
    """A bias that is added after the residual, as in x + c @ W + b: it belongs to the last linear that has none."""
    shifts = {id(shift) for _, shift in _gains_and_shifts(flow)}
    for one in flow.applied:
        if one.op != "add" or not one.parameters or not _is_vector(one.value) or id(one) in shifts:
            continue
        bare = [flow.anchors[i] for i in one.to if flow.anchors[i].kind == "linear" and flow.anchors[i].bias is None]
        fitting = [a for a in bare if a.weight is not None and a.weight.shape[1] == one.value.size]
        if fitting:
            last = max(fitting, key=lambda anchor: anchor.order)
            last.bias, last.bias_parameters = one.value.reshape(-1), one.parameters


def _is_vector(value: Array) -> bool:
    return bool(value.ndim > 0 and value.size == max(value.shape))


def _eps(flow: Dataflow) -> tuple[float, ...]:
    """Small numbers that are added somewhere, and the usual ones."""
    small = [
        float(p)
        for event in flow.run.events
        if event.op in ("add", "add_", "native_layer_norm", "clamp", "clamp_min")
        for p in event.plain
        if isinstance(p, float) and 0 < p <= 0.1
    ]
    return tuple(dict.fromkeys([*small, *USUAL_EPS]))


def _mask_value(flow: Dataflow) -> float:
    """-inf where the model uses it: a row with everything forbidden is NaN then, and uniform otherwise."""
    constants = [
        node.value for node in flow.nodes if not node.live and node.value is not None and node.value.dtype.kind == "f"
    ]
    plain = [p for event in flow.run.events for p in event.plain if isinstance(p, float)]
    infinite = -np.inf in plain or any(np.isneginf(value).any() for value in constants)
    return -np.inf if infinite else -1e9


NUMBERED = {"mul", "div", "add", "sub", "rsub", "lerp", "masked_fill", "where", "maximum", "clamp", "clamp_min",
            "leaky_relu", "threshold", "mean"}  # fmt: skip
MOST_PLAIN = 5


def _numbers(flow: Dataflow) -> tuple[float, ...]:
    """The plain numbers, of a usual size, that live values meet; a quotient's also inverted."""
    met: list[float] = []
    for event in flow.run.events:
        live = [i for i in event.inputs if flow.nodes[i].live]
        if (op := event.op.rstrip("_")) not in NUMBERED or not live or not event.outputs:
            continue
        fixed = [i for i in event.inputs if i not in live and not flow.nodes[i].parameters]
        single = [flow.value(i).item() for i in fixed if flow.nodes[i].shape in ((), (1,))]
        plain = [float(p) for p in (*event.plain, *single) if isinstance(p, (int, float))]
        if op in ("add", "sub", "rsub") and len(event.inputs) < 2:
            continue  # a number that is added, as in a norm; times another tensor it is a factor
        if op == "mean":  # of two things that were put side by side, not of a place's numbers
            sizes = [math.prod(flow.nodes[i].shape) for i in (live[0], event.outputs[0])]
            plain = [0.5] if sizes[0] == 2 * sizes[1] else []
        met += [1 / p if op == "div" else p for p in plain if 1e-3 < abs(p) < 1e3 and abs(p) != 1]
    return tuple(dict.fromkeys(met))[:MOST_PLAIN]


def _places(
    flow: Dataflow, scores: list[int], contexts: list[int], *projections: Projection | None
) -> dict[str, Place]:
    """The line of every part, for the report."""
    places: dict[str, Place] = {}
    named = {
        "tokens": [i for i, a in enumerate(flow.anchors) if a.kind == "tokens"],
        "scores": scores,
        "context": contexts,
    }
    named |= {
        name: list(one.anchors) if one is not None else []
        for name, one in zip(("mixing", "inner", "outer", "output"), projections, strict=True)
    }
    for name, anchors in named.items():
        if anchors:
            places[name] = flow.anchors[anchors[0]].place
    for one in flow.applied:
        if one.op == "add" and one.value.ndim >= 2 and "positions" not in places:
            places["positions"] = one.place
    return places | _places_between(flow, scores, contexts) | _places_after(flow, contexts)


def _places_between(flow: Dataflow, scores: list[int], contexts: list[int]) -> dict[str, Place]:
    """Scale, mask and softmax: the first of each between scores and context, or before it for the scale."""
    if not scores or not contexts:
        return {}
    places: dict[str, Place] = {}
    inside = frozenset(scores)
    sides = frozenset[int]().union(*(flow.anchors[i].reads for i in scores))
    for event in flow.run.events[: flow.anchors[contexts[0]].order]:
        live = [i for i in event.inputs if flow.nodes[i].live]
        near = any(flow.recent_anchors(i) & inside for i in live)
        place = event.place
        if "softmax" in event.op or (event.op in ("exp", "sum") and near):
            places.setdefault("softmax", place)
        elif event.op in ("masked_fill", "masked_fill_", "where") and near:
            places.setdefault("mask", place)
        elif event.op in ("div", "mul", "div_", "mul_") and (
            near or (event.plain and any(flow.recent_anchors(i) & sides for i in live))
        ):
            places.setdefault("scale", place)
    return places


def _places_after(flow: Dataflow, contexts: list[int]) -> dict[str, Place]:
    """The norms and the residual sums, first and second; the activation."""
    places: dict[str, Place] = {}
    start = flow.anchors[contexts[0]].order if contexts else 0
    for number, norm in enumerate(_norms(flow)):
        places[f"norm {number + 1}"] = norm.place
    sums = 0
    for event in flow.run.events[start:]:
        live = [i for i in event.inputs if flow.nodes[i].live]
        if (
            event.op in ("add", "add_")
            and len(live) == 2
            and flow.recent_anchors(live[0]) != flow.recent_anchors(live[1])
        ):
            sums += 1
            places.setdefault(f"sum {sums}", event.place)
        if event.op in ("relu", "relu_", "clamp_min", "gelu", "maximum", "threshold"):
            places.setdefault("activation", event.place)
    return places

"""The skeleton of a run: where the input meets parameters, where it meets itself, and which of these feed which.

An *anchor* is a place where numbers are mixed: a table that is read by the ids, a matrix of parameters that is applied
(a linear), or a product of two tensors that both depend on the input (a meeting: scores, or weights times values).
Everything between anchors moves numbers or changes them one by one. Each node knows its ``recent`` anchors: those whose
output it is made of without another anchor in between. Nothing here looks at a name or trusts a softmax to be there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.tracing.recording import Event, ForwardPass, Node, Place

PRODUCTS = {"mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv", "matmul", "linear"}
WITH_ADDEND = {"addmm", "baddbmm", "addmv"}
Anchors = frozenset[int]


@dataclass(eq=False)
class Anchor:
    """One place where numbers are mixed. ``reads`` are the recent anchors of what it is applied to."""

    kind: str  # "tokens", "linear", "meeting"
    order: int
    place: Place
    reads: Anchors = frozenset()
    parameters: tuple[str, ...] = ()
    weight: Array | None = None  # (in, out) of a linear, the table of tokens
    bias: Array | None = None
    bias_parameters: tuple[str, ...] = ()
    left: list[int] = field(default_factory=list)  # nodes: of a meeting its two sides, of a linear its inputs
    right: list[int] = field(default_factory=list)
    inner: int = 0  # the length that a meeting sums over
    outputs: list[int] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class AppliedArray:
    """A vector of parameters (or a table of constants) that is multiplied or added to something live."""

    op: str
    order: int
    place: Place
    parameters: tuple[str, ...]
    value: Array
    to: Anchors
    source: int  # the live node
    output: int


@dataclass(frozen=True, kw_only=True)
class Norm:
    """What looks like a normalisation's gain and shift, either of which may be missing."""

    order: int
    place: Place
    gain: Array | None
    shift: Array | None
    parameters: tuple[str, ...]
    eps: float | None = None

    def same(self, other: Norm) -> bool:
        """Whether gain and shift are the same numbers of the same parameters; one parameter may hold several."""
        return self.parameters == other.parameters and all(
            np.array_equal(mine, theirs) if mine is not None and theirs is not None else mine is theirs
            for mine, theirs in ((self.gain, other.gain), (self.shift, other.shift))
        )


class Dataflow:
    """The anchors of one run, and what is applied between them."""

    def __init__(self, run: ForwardPass) -> None:
        self.run, self.nodes = run, run.nodes
        self.anchors: list[Anchor] = []
        self.recent: dict[int, Anchors] = {}
        self.origin: dict[int, int] = {}  # node -> the anchor whose output it is, moved at most
        self.pending: dict[int, tuple[int, int]] = {}  # node -> the factors of an elementwise product not yet summed
        self.applied: list[AppliedArray] = []
        self.norms: list[Norm] = []
        self.consumed: set[int] = {node for event in run.events for node in event.inputs}
        self._by_key: dict[Any, int] = {}
        for order, event in enumerate(run.events):
            self._read(order, event)

    def recent_anchors(self, node: int) -> Anchors:
        """The recent anchors of a node."""
        return self.recent.get(node, frozenset())

    def value(self, node: int) -> Array:
        """A node's numbers."""
        return self.value_of(self.nodes[node])

    # one event

    def _read(self, order: int, event: Event) -> None:
        if not event.outputs or not any(self.nodes[o].live for o in event.outputs):
            return
        if event.op in PRODUCTS and len(event.inputs) >= 2:
            return self._product(order, event)
        if event.op == "convolution":
            return self._convolution(order, event)
        if self._is_lookup(event):
            return self._lookup(order, event)
        if event.op == "sum" and event.inputs[0] in self.pending:
            return self._product_sum(order, event)
        self._pass(event)
        if event.op == "native_layer_norm" or "batch_norm" in event.op:
            self._norm(order, event)
        elif event.op in ("add", "add_", "mul", "mul_", "sub", "addcmul", "div"):
            self._elementwise(order, event)

    def _pass(self, event: Event) -> None:
        """Anchors are handed on; so is the origin, where numbers are only moved."""
        live = [i for i in event.inputs if self.nodes[i].live]
        recent = frozenset().union(*(self.recent_anchors(i) for i in live))
        for out in event.outputs:
            self.recent[out] = recent
            if event.moves and len(live) == 1 and live[0] in self.origin:
                self.origin[out] = self.origin[live[0]]
            if event.moves and len(live) == 1 and live[0] in self.pending:
                self.pending[out] = self.pending[live[0]]

    def _product(self, order: int, event: Event) -> None:
        addend = event.inputs[0] if event.op in WITH_ADDEND else None
        left, right = event.inputs[1:3] if addend is not None else event.inputs[:2]
        if self.nodes[left].live and self.nodes[right].live:
            self._meeting(order, event, left, right, self.nodes[left].shape[-1])
        elif self.nodes[left].live:
            self._linear(order, event, left, self.nodes[right], addend, turned=event.op == "linear")
        elif self.nodes[right].live:
            self._linear(order, event, right, self.nodes[left], addend, turned=True)
        else:
            self._pass(event)

    def _linear(
        self, order: int, event: Event, source: int, matrix: Node, addend: int | None, *, turned: bool = False
    ) -> None:
        if not matrix.parameters and not _is_constant_matrix(matrix):
            return self._pass(event)  # a constant matrix, such as a mean over the past
        weight = distinct_matrices(self.value_of(matrix), turned=turned)
        index = self._anchor(("linear", matrix.parameters, weight.tobytes()), "linear", order, event)
        anchor = self.anchors[index]
        anchor.weight, anchor.parameters = weight, matrix.parameters
        if ends_in_ones(self.value(source), len(weight), axis=-2 if turned and event.op != "linear" else -1):
            anchor.weight, anchor.bias, anchor.bias_parameters = weight[:-1], weight[-1], matrix.parameters
        anchor.reads |= self.recent_anchors(source)
        anchor.left.append(source)
        self._mark_outputs(index, event)
        if addend is not None and not self.nodes[addend].live and self.nodes[addend].parameters:
            anchor.bias, anchor.bias_parameters = self.value(addend).reshape(-1), self.nodes[addend].parameters

    def value_of(self, node: Node) -> Array:
        return np.zeros(node.shape) if node.value is None else node.value

    def _convolution(self, order: int, event: Event) -> None:
        """A convolution over one place is a linear."""
        matrix = self.nodes[event.inputs[1]]
        if self.nodes[event.inputs[1]].live or int(np.prod(matrix.shape[2:])) != 1:
            return self._pass(event)
        flat = replace(matrix, shape=matrix.shape[:2], value=self.value_of(matrix).reshape(matrix.shape[:2]))
        addend = event.inputs[2] if len(event.inputs) > 2 else None
        self._linear(order, event, event.inputs[0], flat, addend, turned=True)

    def _meeting(self, order: int, event: Event, left: int, right: int, inner: int) -> None:
        index = len(self.anchors)
        reads = self.recent_anchors(left) | self.recent_anchors(right)
        self.anchors.append(Anchor("meeting", order, event.place, reads, inner=inner))
        self.anchors[index].left.append(left)
        self.anchors[index].right.append(right)
        self._mark_outputs(index, event)

    def _product_sum(self, order: int, event: Event) -> None:
        """(a * b).sum(dim) by hand: a meeting of two live factors, a linear of one."""
        left, right = self.pending[event.inputs[0]]
        axis = int(event.plain[0]) if event.plain else -1
        shape = self.nodes[event.inputs[0]].shape
        if self.nodes[left].live and self.nodes[right].live:
            return self._meeting(order, event, left, right, shape[axis])
        live, other = (left, right) if self.nodes[left].live else (right, left)
        value = self.value(other)
        value = value.reshape((1,) * (len(shape) - value.ndim) + value.shape)
        value = np.moveaxis(value, axis, -2) if value.ndim >= 2 else value
        square = value.reshape(-1, *value.shape[-2:])
        node = Node(live=False, parameters=self.nodes[other].parameters, shape=square.shape, value=square)
        self._linear(order, event, live, node, None)

    def _is_lookup(self, event: Event) -> bool:
        if event.op not in ("embedding", "index", "index_select") or len(event.inputs) < 2:
            return False
        table, index = self.nodes[event.inputs[0]], self.nodes[event.inputs[1]]
        return not table.live and index.live and bool(table.parameters or table.value is not None)

    def _lookup(self, order: int, event: Event) -> None:
        table = self.nodes[event.inputs[0]]
        index = self._anchor(("tokens", table.parameters), "tokens", order, event)
        rows = self.value_of(table)
        if rows.ndim == 2 and self.nodes[event.outputs[0]].shape == (len(rows), *self.nodes[event.inputs[1]].shape):
            rows = rows.T  # table[:, ids]: a word is a column
        self.anchors[index].weight, self.anchors[index].parameters = rows, table.parameters
        self.anchors[index].left.append(event.inputs[1])
        self._mark_outputs(index, event)

    def _norm(self, order: int, event: Event) -> None:
        """A norm of torch's own: what it has learned, and the small number of a layer norm."""
        batch = "batch_norm" in event.op  # its running mean and variance are neither live nor learned
        learned = [i for i in event.inputs[1:] if (self.nodes[i].parameters if batch else not self.nodes[i].live)][:2]
        gain, shift = ([self.value(i).reshape(-1) for i in learned] + [None, None])[:2]
        names = tuple(p for i in learned for p in self.nodes[i].parameters)
        eps = None if batch else float(event.plain[-1])
        self.norms.append(Norm(order=order, place=event.place, gain=gain, shift=shift, parameters=names, eps=eps))

    def _elementwise(self, order: int, event: Event) -> None:
        if len(event.inputs) < 2:
            return
        left, right = event.inputs[:2]
        if event.op in ("mul", "mul_"):
            self.pending[event.outputs[0]] = (left, right)
        if self.nodes[left].live == self.nodes[right].live:
            return
        live, other = (left, right) if self.nodes[left].live else (right, left)
        value, output = one_of_equal_rows(self.value(other)), event.outputs[0]
        if value.size < 2 and not self.nodes[other].parameters:
            return
        if event.op in ("add", "add_") and self._is_bias(live, value):
            anchor = self.anchors[self.origin[live]]
            anchor.bias, anchor.bias_parameters = value.reshape(-1), self.nodes[other].parameters
            self.origin[output] = self.origin[live]
            return
        self.applied.append(
            AppliedArray(
                op=event.op.rstrip("_"),
                order=order,
                place=event.place,
                parameters=self.nodes[other].parameters,
                value=value,
                to=self.recent_anchors(live),
                source=live,
                output=output,
            )
        )

    def _is_bias(self, live: int, value: Array) -> bool:
        if live not in self.origin or self.anchors[self.origin[live]].kind != "linear":
            return False
        weight = self.anchors[self.origin[live]].weight
        return weight is not None and value.size == weight.shape[1] and self.anchors[self.origin[live]].bias is None

    def _anchor(self, key: Any, kind: str, order: int, event: Event) -> int:
        if key not in self._by_key:
            self._by_key[key] = len(self.anchors)
            self.anchors.append(Anchor(kind, order, event.place))
        return self._by_key[key]

    def _mark_outputs(self, index: int, event: Event) -> None:
        self.anchors[index].outputs.append(event.outputs[0])
        for out in event.outputs:
            self.recent[out], self.origin[out] = frozenset({index}), index


def distinct_matrices(value: Array, *, turned: bool) -> Array:
    """A stack of matrices as one (in, out): each different one once, side by side in the order they come."""
    if value.ndim == 1:
        value = value[:, None]
        turned = False
    stack = value.reshape(-1, *value.shape[-2:])
    stack = stack.swapaxes(1, 2) if turned else stack
    kept: dict[bytes, Array] = {}
    for matrix in stack:
        kept.setdefault(np.ascontiguousarray(matrix).tobytes(), matrix)
    return np.concatenate(list(kept.values()), axis=1)


def ends_in_ones(value: Array, size: int, *, axis: int) -> bool:
    """Whether a last coordinate 1 was put behind the states, so that the last row of a matrix is its bias."""
    axis = -1 if value.ndim < 2 else axis
    return size > 1 and value.ndim > 0 and value.shape[axis] == size and bool((value.take(-1, axis) == 1).all())


def one_of_equal_rows(value: Array) -> Array:
    """ones((T, 1)) @ b is b in every row: one of them."""
    rows = value.reshape(-1, value.shape[-1]) if value.ndim > 1 else value[None]
    return rows[0] if value.ndim > 1 and len(rows) > 1 and bool((rows == rows[0]).all()) else value


def _is_constant_matrix(node: Node) -> bool:
    """Fixed real numbers that play a matrix (weights that were never made parameters), unlike a mask or an average."""
    value = node.value
    return value is not None and value.dtype.kind == "f" and value.ndim >= 2 and np.unique(value).size > value.size // 2

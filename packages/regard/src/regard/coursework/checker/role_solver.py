"""Roles found by solving: which of the model's own parameters give the values that its run is made of.

Dataflow reads roles off the way a computation is written, and there are more ways than it knows. Here nothing is asked
of the spelling. A role is tried with every array of parameters that has its shape (as it is, turned, or its heads side
by side), and what makes the reference's next value occur among the run's numbers gets it. A wrong guess does no harm: a
class is right only if its whole output equals the reference on inputs that were not used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, islice, pairwise, permutations

import numpy as np

from regard.array_types import Array
from regard.mistakes.attention import MASK
from regard.mistakes.feed_forward import NormChoice
from regard.mistakes.layer import RIGHT, Values, attention
from regard.mistakes.mistake import Weight
from regard.tracing.dataflow import Norm
from regard.tracing.parameter_roles import Projection, Roles, is_subset
from regard.tracing.recording import Recording

MOST_ARRAYS, MOST_TRIES = 60, 400
AFTER: dict[str, str] = {"layout": "norm after"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """An array made of parameters alone, and their names."""

    value: Array
    parameters: tuple[str, ...]


class Solver:
    """The arrays of one recording, and the numbers of its first run."""

    def __init__(self, recording: Recording, roles: Roles, there: Array, start: Values) -> None:
        self.roles, self.there, self.start = roles, there, start
        self.output = recording.runs[0].output
        self.pieces = list(islice(_pieces(recording), MOST_ARRAYS))
        self.source_words = int(recording.sizes.get("source_words", 0))

    def solve(self) -> Roles:
        """The roles, repaired part by part as far as the run's numbers confirm them."""
        for step in (self._embedding, self._attention, self._feed_forward, self._output):
            if not step():
                break
        return replace(self.roles, norms=self._all_norms())

    def _occurs(self, value: Array) -> bool:
        return bool(np.isfinite(value).all()) and is_subset(value, self.there, tolerance=2e-9)

    def _embedding(self) -> bool:
        ids, width = self.start.ids, self._width()
        if ids is None:
            self.states = self.start.known.get("x", self.start.known.get("query", np.zeros(0)))
            return self.states.ndim == 3
        tables = [piece for piece in self._matrices(width) if len(piece.value) > 1]
        own = (
            Piece(value=self.roles.tokens, parameters=self.roles.token_parameters)
            if self.roles.tokens is not None
            else None
        )
        for words in [*([own] if own else []), *(one for one in tables if len(one.value) > ids.max())]:
            for places in [
                *(Piece(value=t, parameters=self.roles.position_parameters) for t in self.roles.tables),
                *tables,
            ]:
                if places.value is words.value or len(places.value) < ids.shape[1] or places.value.shape[-1] != width:
                    continue
                x = words.value[ids] + places.value[: ids.shape[1]]
                if self._occurs(x):
                    known = {"tokens": words.value, "token_parameters": words.parameters, "tables": (places.value,)}
                    learned = {"learned_positions": bool(places.parameters), "position_parameters": places.parameters}
                    self.roles, self.states = replace(self.roles, **known, **learned), x  # type: ignore[arg-type]
                    return True
        return False

    def _attention(self) -> bool:
        """Queries, keys, values, mixing and the first norm together: one of them alone may never stand there."""
        x, width = self.states, self.states.shape[-1]
        for roles in islice(self._heads(width), MOST_TRIES):
            for mask in ({}, *(one.replaces for one in MASK if one.weight is not Weight.MISTAKE)):
                values = replace(self.start, known={**self.start.known, "x": x})
                try:
                    c = attention(roles, values, {**RIGHT, **AFTER, **mask})
                except (ValueError, LookupError):
                    continue
                if self._mixing(roles, x, c):
                    return True
        return False

    def _heads(self, width: int) -> Iterator[Roles]:
        """The roles as they were read, then every choice of three matrices; queries and keys cannot be told apart."""
        yield self.roles
        found = [one for one in self._projections(width) if one.width and one.width % self.roles.asked_heads == 0]
        for heads in {self.roles.heads, self.roles.asked_heads}:
            for queries, keys in combinations(found, 2):
                for values in found:
                    if queries.width == keys.width and (values is not queries and values is not keys):
                        yield replace(
                            self.roles,
                            queries=queries,
                            keys=keys,
                            values=values,
                            heads=heads,
                            attends=True,
                            sliced=False,
                        )

    def _mixing(self, roles: Roles, x: Array, c: Array) -> bool:
        known = [roles.mixing] if roles.mixing is not None and roles.mixing.weight is not None else []
        free = [Projection(weight=one.value, parameters=one.parameters) for one in self._matrices(x.shape[-1])]
        for mixing in [*known, *free]:
            if mixing.weight is None or mixing.weight.shape != (c.shape[-1], x.shape[-1]):
                continue
            plain = c @ mixing.weight
            for bias, norm, y in self._sums(x, plain, mixing):
                done = replace(mixing, bias=bias.value, parameters=_names(mixing, bias))
                self.roles = replace(roles, mixing=done, norms=(norm, *roles.norms[1:]))
                self.states = y
                return True
        return False

    def _sums(self, x: Array, plain: Array, part: Projection) -> Iterator[tuple[Piece, Norm, Array]]:
        """norm(x + part + b) with any bias and any norm that give values of the run."""
        vectors = self._vectors(x.shape[-1])
        none = Piece(value=np.zeros(x.shape[-1]), parameters=())
        own = [] if part.bias is None else [Piece(value=part.bias, parameters=())]
        for bias in [*own, *vectors, none]:
            total = x + plain + bias.value
            if not (self._occurs(total) or self._occurs(plain + bias.value)):
                continue
            for norm in self._norms_of(total, vectors):
                y = NormChoice(norm=norm, eps=norm.eps or 0.0)(total)
                if self._occurs(y):
                    yield replace(bias, value=bias.value), norm, y

    def _norms_of(self, total: Array, vectors: list[Piece]) -> Iterator[Norm]:
        pairs = list(permutations(vectors, 2))
        for norm in self.roles.norms:
            for eps in [norm.eps] if norm.eps is not None else self.roles.eps:
                yield replace(norm, eps=eps)
        for eps in self.roles.eps[:3]:
            for gain, shift in pairs:
                yield _norm(gain, shift, eps)

    def _feed_forward(self) -> bool:
        y, width = self.states, self.states.shape[-1]
        known = [one for one in (self.roles.inner,) if one is not None]
        for inner in [*known, *self._projections(width)]:
            if inner.weight is None or inner.weight.shape[0] != width or not self._occurs(inner(y)):
                continue
            hidden = np.maximum(inner(y), 0)
            outers = [one for one in (self.roles.outer,) if one is not None and one.weight is not None]
            outers += [Projection(weight=one.value, parameters=one.parameters) for one in self._matrices(width)]
            for outer in outers:
                if outer.weight is None or outer.weight.shape != (hidden.shape[-1], width):
                    continue
                for bias, norm, z in self._sums(y, hidden @ outer.weight, outer):
                    done = replace(outer, bias=bias.value, parameters=_names(outer, bias))
                    norms = (*self.roles.norms[:1], norm)
                    self.roles, self.states = replace(self.roles, inner=inner, outer=done, norms=norms), z
                    return True
        return False

    def _output(self) -> bool:
        known = [one for one in (self.roles.output,) if one is not None]
        for output in [*known, *self._projections(self.states.shape[-1])]:
            fits = output.weight is not None and output.weight.shape[0] == self.states.shape[-1]
            if fits and self.output is not None and is_near(output(self.states), self.output):
                self.roles = replace(self.roles, output=output)
                return True
        return False

    # what there is to choose from

    def _width(self) -> int:
        if self.roles.tokens is not None:
            return int(self.roles.tokens.shape[1])
        return next(
            (p.value.shape[1] for p in self.pieces if p.value.ndim == 2 and len(p.value) == self.source_words), 0
        )

    def _vectors(self, size: int) -> list[Piece]:
        return [
            replace(p, value=p.value.reshape(-1)) for p in self.pieces if p.value.size == size == max(p.value.shape)
        ]

    def _matrices(self, columns: int) -> list[Piece]:
        """Every array as a matrix with so many columns."""
        shaped = [replace(p, value=m) for p in self.pieces for m in _as_matrices(p.value)]
        return [one for one in shaped if one.value.shape[1] == columns and len(one.value) > 1]

    def _projections(self, rows: int) -> list[Projection]:
        """Every matrix with so many rows, with the bias of its own module, with each that fits, and with none."""
        made = []
        for piece in self.pieces:
            for matrix in _as_matrices(piece.value):
                if matrix.shape[0] == rows and matrix.shape[1] > 1:
                    fitting = sorted(self._vectors(matrix.shape[1]), key=lambda v: not _same_module(v, piece))
                    made += [
                        Projection(weight=matrix, bias=v.value, parameters=piece.parameters + v.parameters)
                        for v in fitting
                        if self._occurs(self.states @ matrix + v.value)
                    ][:1] or [Projection(weight=matrix, parameters=piece.parameters)]
        return made

    def _all_norms(self) -> tuple[Norm, ...]:
        """The norms that were read, and every neighbouring pair of vectors that could be one by hand."""
        if len(self.roles.norms) >= 2 or (not self.roles.norms and self.roles.tokens is None):
            return self.roles.norms
        vectors = self._vectors(self._width())
        pairs = [pair for a, b in pairwise(vectors) for pair in ((a, b), (b, a))]
        return (*self.roles.norms, *(_norm(gain, shift, None) for gain, shift in pairs))


def _pieces(recording: Recording) -> Iterator[Piece]:
    """The parameters, then whatever the run made of parameters alone: slices, sums, products; each once."""
    seen = set()
    raw = [Piece(value=value, parameters=(name,)) for name, value in recording.parameters.items()]
    raw += _heads_together(raw)
    made = [
        Piece(value=node.value, parameters=node.parameters)
        for node in recording.runs[0].nodes
        if not node.live and node.parameters and node.value is not None
    ]
    for piece in (*raw, *made):
        key = (piece.value.shape, piece.value.tobytes())
        if piece.value.dtype.kind == "f" and piece.value.ndim > 0 and key not in seen:
            seen.add(key)
            yield piece


def _heads_together(raw: list[Piece]) -> list[Piece]:
    """Parameters whose names differ in a number, side by side: keys.0.weight and keys.1.weight, or k1 and k2."""
    groups: dict[tuple[str, tuple[int, ...]], list[Piece]] = {}
    for piece in raw:
        groups.setdefault((re.sub(r"\d+", "#", piece.parameters[0]), piece.value.shape), []).append(piece)
    together = []
    for (name, shape), group in groups.items():
        if len(group) > 1 and "#" in name and len(shape) in (1, 2):
            names = tuple(one.parameters[0] for one in group)
            for axis in range(len(shape)):
                joined = np.concatenate([one.value for one in group], axis=axis)
                together.append(Piece(value=joined, parameters=names))
    return together


def is_near(value: Array, output: Array) -> bool:
    """Equal up to the rounding of float64."""
    return value.shape == output.shape and bool(np.allclose(value, output, rtol=2e-9, atol=2e-9, equal_nan=True))


def _as_matrices(value: Array) -> list[Array]:
    """A matrix and the same turned; a stack of matrices side by side and one below the other."""
    if value.ndim == 2:
        return [value, value.T]
    if value.ndim == 3:
        return [np.concatenate(list(value), axis=1), value.reshape(-1, value.shape[2])]
    return []


def _same_module(one: Piece, other: Piece) -> bool:
    return [n.rpartition(".")[0] for n in one.parameters] == [n.rpartition(".")[0] for n in other.parameters]


def _names(part: Projection, bias: Piece) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.parameters + bias.parameters))


def _norm(gain: Piece, shift: Piece, eps: float | None) -> Norm:
    names = gain.parameters + shift.parameters
    return Norm(order=0, line=None, method="", gain=gain.value, shift=shift.value, parameters=names, eps=eps)

"""Roles found by solving: which of the model's own parameters give the values that its run is made of.

Dataflow reads roles off the way a computation is written, and there are more ways than it knows. Here nothing is asked
of the spelling. Linear maps are found by probing: the states times each matrix of parameters that fits (as it is,
turned, its heads side by side, a third of a packed one), and those whose numbers occur in the run are applied. What
the numbers leave open is filled in by shape. A wrong guess does no harm: whatever is said of a class, the whole output
of the reference with these weights must equal the class's own, on inputs that were not used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise, permutations, product

import numpy as np

from regard.array_types import Array
from regard.mistakes.attention import MASK
from regard.mistakes.feed_forward import NormChoice
from regard.mistakes.layer import RIGHT, Values, attention, embedding, mistakes_of_stage
from regard.mistakes.mistake import Mistake, Weight
from regard.tracing.dataflow import Norm
from regard.tracing.embedding_tables import is_subset
from regard.tracing.parameter_roles import Projection, Roles
from regard.tracing.recording import NOWHERE, Recording

MOST_ARRAYS, MOST_TRIPLES, MOST_ALIKE = 60, 240, 24
AFTER: dict[str, str] = {"layout": "norm after"}
MASKS = [one for one in MASK if one.weight is not Weight.MISTAKE]
PART, HEAD, WIDTH = range(3)
PACKED = (  # how columns of a packed matrix can lie, slowest first
    (PART, HEAD, WIDTH), (HEAD, PART, WIDTH), (HEAD, WIDTH, PART), (PART, WIDTH, HEAD), (WIDTH, HEAD, PART),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """An array made of parameters alone, and their names."""

    value: Array
    parameters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class AttentionGuess:
    """Roles up to the attention, its input, and its result where the run's numbers confirm it."""

    roles: Roles
    x: Array
    c: Array | None = None


class Solver:
    """The arrays of one recording, and the numbers of its first run."""

    def __init__(self, recording: Recording, roles: Roles, there: Array, start: Values) -> None:
        self.roles, self.there, self.start = roles, there, start
        self.pieces = list(islice(_pieces(recording), MOST_ARRAYS))
        self.source_words, self.inner = (int(recording.sizes.get(size, 0)) for size in ("source_words", "inner"))
        output = recording.runs[0].output
        self.target_words = None if output is None or recording.kind != "translator" else output.shape[-1]
        self.width = self._find_width()

    def candidates(self) -> Iterator[Roles]:
        """Roles that may be the model's, those that its numbers confirm first."""
        seen = set()
        for start, x in self._embeddings():
            for attended in self._attentions(start, x):
                for roles in self._with_the_rest(attended):
                    if (key := _key(roles)) not in seen:
                        seen.add(key)
                        yield roles

    def _occurs(self, value: Array) -> bool:
        return bool(np.isfinite(value).all()) and is_subset(value, self.there, tolerance=2e-9)

    # words and places

    def _embeddings(self) -> Iterator[tuple[Roles, Array]]:
        """Tables whose rows are added, as they should be or with one mistake."""
        if self.start.ids is None:
            x = self.start.known.get("x", self.start.known.get("query", np.zeros(0)))
            return iter([(self.roles, x)] if x.ndim == 3 else [])
        tried = [
            (roles, wrong.replaces if wrong else {})
            for wrong in (None, *mistakes_of_stage("embedding"))
            for roles in self._tables()
        ]
        found = []
        for roles, steps in tried:
            try:
                x = embedding(roles, self.start, {**RIGHT, **steps})
            except (ValueError, LookupError):
                continue
            if self._occurs(x):
                found.append((roles, x))
                if len(found) == 2:
                    break
        return iter(found)

    def _tables(self) -> list[Roles]:
        ids, own = self.start.ids, self.roles
        tables, end = self._matrices(self.width), self.source_words
        joint = [one for one in tables if len(one.value) > end > 0]  # words, then places
        tables += [replace(one, value=half) for one in joint for half in np.split(one.value, [end])]
        words = [] if own.tokens is None else [Piece(value=own.tokens, parameters=own.token_parameters)]
        places = [Piece(value=table, parameters=own.position_parameters) for table in own.tables]
        if ids is None:
            return []
        return [
            replace(
                own, tokens=word.value, token_parameters=word.parameters, tables=(place.value,),
                learned_positions=bool(place.parameters), position_parameters=place.parameters,
            )
            for word in [*words, *(one for one in tables if len(one.value) > ids.max())]
            for place in [*places, *tables]
            if place.value is not word.value and place.value.shape[-1] == self.width
            if len(place.value) >= ids.shape[1]
        ]  # fmt: skip

    # queries, keys, values

    def _attentions(self, roles: Roles, x: Array) -> Iterator[AttentionGuess]:
        """Three maps of the states: first those whose heads stand in the run, if need be with one mistake."""
        found = list(islice(self._triples(roles, x), MOST_TRIPLES))
        for mistakes in ([None, *MASKS], [m for m in mistakes_of_stage("attention") if m not in MASKS]):
            for one in found:
                for mistake in mistakes:
                    c = self._heads(one, x, mistake)
                    if c is not None and self._occurs(c):
                        yield AttentionGuess(roles=one, x=x, c=c if mistake is None or mistake in MASKS else None)
                        break
        for one in found:  # products of W_V and W_O: the heads never stand there
            yield AttentionGuess(roles=one, x=x, c=self._heads(one, x, None))

    def _heads(self, roles: Roles, x: Array, mistake: Mistake | None) -> Array | None:
        values = replace(self.start, known={**self.start.known, "x": x})
        try:
            with np.errstate(all="ignore"):
                return attention(roles, values, {**RIGHT, **AFTER, **(mistake.replaces if mistake else {})})
        except (ValueError, LookupError, IndexError, np.exceptions.AxisError):
            return None

    def _triples(self, roles: Roles, x: Array) -> Iterator[Roles]:
        """The roles as they were read, then every choice of three maps, different ones first."""
        counts = dict.fromkeys((roles.asked_heads, roles.heads))
        for heads in counts:
            if not any((getattr(roles, side).width or heads) % heads for side in ("queries", "keys", "values")):
                yield replace(roles, heads=heads)
        for heads in counts:
            yield from _interleave_heads(roles, heads)
        maps = self._maps(x)
        ready = replace(roles, attends=True, sliced=False)
        for heads in counts:
            raw = [one for one in maps if one.width and one.width % heads == 0 and _is_one_parameter(one)]
            alike = (triple for triple in permutations(raw, 3) if len({one.width for one in triple}) == 1)
            for q, k, v in islice(alike, MOST_ALIKE):
                yield replace(ready, queries=q, keys=k, values=v, heads=heads)
            for q, k, v in self._packed_triples(maps, heads):
                yield replace(ready, queries=q, keys=k, values=v, heads=heads)
            fitting = [one for one in maps if one.width and one.width % heads == 0]
            for q, k, v in [*permutations(fitting, 3), *(t for t in product(fitting, repeat=3) if len(set(t)) == 2)]:
                if q.width == k.width:
                    yield replace(ready, queries=q, keys=k, values=v, heads=heads)

    def _maps(self, x: Array) -> list[Projection]:
        """Matrices that are applied to x, with the bias that is added, then those that could be."""
        seen: dict[bytes, Projection] = {}
        unseen: dict[bytes, Projection] = {}
        for piece in self.pieces:
            for matrix in _as_matrices(piece.value):
                key = np.ascontiguousarray(matrix).tobytes()
                if matrix.shape[0] != x.shape[-1] or matrix.shape[1] < 2 or key in seen or key in unseen:
                    continue
                own = self._bias_of(piece, matrix.shape[1])
                plain = Projection(weight=matrix, parameters=piece.parameters)
                named = [plain if own is None else _with_bias(plain, own)]
                biases = [_with_bias(plain, v) for v in self._vectors(matrix.shape[1]) if v is not own]
                applied = next((one for one in [*named, *biases, plain] if self._occurs(one(x))), None)
                (unseen if applied is None else seen)[key] = named[0] if applied is None else applied
                if applied is None and own is None and not _module(piece):
                    free = [v for v in self._vectors(matrix.shape[1]) if not _module(v)]
                    unseen |= {key + bytes([n]): _with_bias(plain, v) for n, v in enumerate(free[:3])}
        return [*seen.values(), *unseen.values()]

    def _packed_triples(
        self, maps: list[Projection], heads: int
    ) -> Iterator[tuple[Projection, Projection, Projection]]:
        """One matrix for all three, or one for two of them beside a third."""
        for one in maps:
            for order in PACKED:
                if one.width and one.width % (3 * heads) == 0:
                    yield from permutations(_unpack(one, 3, heads, order), 3)
                if one.width and one.width % (2 * heads) == 0:
                    for other in maps:
                        if other is not one and other.width == one.width // 2:
                            yield from permutations([other, *_unpack(one, 2, heads, order)], 3)

    # what comes after

    def _with_the_rest(self, attended: AttentionGuess) -> Iterator[Roles]:
        """Mixing, norms, feed-forward part and output: by the numbers as far as they go, then by shape."""
        filled = self._fill_by_shape(attended.roles)
        if attended.c is not None:
            for mixed, y in islice(self._mixings(filled, attended), 3):
                yield from islice(self._feed_forwards(mixed, y), 2)
                yield mixed
        yield filled
        if attended.c is not None:
            yield from (replace(filled, mixing=one) for one in self._mixing_by_shape(filled)[1:4])

    def _mixings(self, roles: Roles, attended: AttentionGuess) -> Iterator[tuple[Roles, Array]]:
        x, c = attended.x, attended.c
        known = [] if roles.mixing is None else [roles.mixing]
        for mixing in [*known, *self._mixing_by_shape(roles)]:
            if c is None or mixing.weight is None or mixing.weight.shape != (c.shape[-1], x.shape[-1]):
                continue
            for bias, norm, y in self._sums(x, c @ mixing.weight, mixing):
                done = replace(mixing, bias=bias.value, parameters=_names(mixing, bias))
                yield replace(roles, mixing=done, norms=(norm, *(n for n in roles.norms if not n.same(norm)))), y

    def _feed_forwards(self, roles: Roles, y: Array) -> Iterator[Roles]:
        if roles.inner is None or roles.outer is None or roles.outer.weight is None:
            return
        hidden = np.maximum(roles.inner(y), 0)
        if hidden.shape[-1] != len(roles.outer.weight):
            return
        for bias, norm, _ in self._sums(y, hidden @ roles.outer.weight, roles.outer):
            outer = replace(roles.outer, bias=bias.value, parameters=_names(roles.outer, bias))
            yield replace(roles, outer=outer, norms=(roles.norms[0], norm))

    def _sums(self, x: Array, plain: Array, part: Projection) -> Iterator[tuple[Piece, Norm, Array]]:
        """norm(x + part + b) with any bias and any norm that give values of the run; whole norms first."""
        vectors = self._vectors(x.shape[-1])
        none = Piece(value=np.zeros(x.shape[-1]), parameters=())
        own = [] if part.bias is None else [Piece(value=part.bias, parameters=())]
        for bias in [*own, *vectors, none]:
            total = x + plain + bias.value
            if not (self._occurs(total) or self._occurs(plain + bias.value)):
                continue
            for norm in self._norms(vectors):
                y = NormChoice(norm=norm, eps=norm.eps or 0.0)(total)
                if self._occurs(y):
                    yield bias, norm, y

    def _norms(self, vectors: list[Piece]) -> Iterator[Norm]:
        read = [replace(n, eps=e) for n in self.roles.norms for e in ([n.eps] if n.eps is not None else self.roles.eps)]
        yield from (one for one in read if one.shift is not None)
        for eps in self.roles.eps[:3]:
            yield from (_norm(gain, shift, eps) for gain, shift in permutations(vectors, 2))
        yield from (one for one in read if one.shift is None)

    def _fill_by_shape(self, roles: Roles) -> Roles:
        """What dataflow gave a role that its shape does not fit gets the parameters that do."""
        width, used = self.width, {*roles.queries.parameters, *roles.keys.parameters, *roles.values.parameters}
        context = roles.values.width or width
        mixing, inner, outer, output = roles.mixing, roles.inner, roles.outer, roles.output
        if mixing is None or not _has_shape(mixing, context, width) or used & set(mixing.parameters):
            mixing = next(iter(self._mixing_by_shape(roles)), None)
        if self.target_words and not _has_shape(output, width, self.target_words):
            output = self._first_of_shape(width, self.target_words, used)
        fit = inner is not None and _has_shape(outer, inner.width or 0, width) and inner is not mixing
        if not fit or any(one is not None and used & set(one.parameters) for one in (inner, outer)):
            taken = used | set(mixing.parameters if mixing else ()) | set(output.parameters if output else ())
            inner, outer = self._two_layers(width, taken) or (inner, outer)
        norms = roles.norms
        whole = tuple(n for n in norms if n.gain is not None and n.shift is not None)
        if len(whole) < 2 and all(n.eps is None for n in norms):  # torch's own norms are read as they are
            norms = (*whole, *self._norms_by_name(), *norms)
        return replace(roles, mixing=mixing, inner=inner, outer=outer, output=output, norms=norms)

    def _mixing_by_shape(self, roles: Roles) -> list[Projection]:
        rows = roles.values.width or self.width
        used = {*roles.queries.parameters, *roles.keys.parameters, *roles.values.parameters}
        whole = [p for p in self._projections(rows, self.width) if not used & set(p.parameters)]
        return whole or [p for p in self._projections(rows, self.width) if not set(p.parameters) <= used]

    def _first_of_shape(self, rows: int, columns: int, used: set[str]) -> Projection | None:
        return next((p for p in self._projections(rows, columns) if not used & set(p.parameters)), None)

    def _two_layers(self, width: int, used: set[str]) -> tuple[Projection, Projection] | None:
        free = [m for p in self.pieces if not used & set(p.parameters) for m in _as_matrices(p.value)]
        sizes = dict.fromkeys(m.shape[1] for m in free if len(m) == width)
        for inner in sorted(sizes, key=lambda size: size != self.inner):  # what the constructor was given comes first
            if inner not in (width, self.target_words, 1):
                first = self._first_of_shape(width, inner, used)
                second = first and self._first_of_shape(inner, width, used | set(first.parameters))
                if first and second:
                    return first, second
        return None

    # what there is to choose from

    def _find_width(self) -> int:
        if self.roles.tokens is not None:
            return int(self.roles.tokens.shape[1])
        states = next((v.shape[-1] for v in self.start.known.values() if v.ndim == 3), 0)
        tables = (p.value.shape[1] for p in self.pieces if p.value.ndim == 2 and len(p.value) >= self.source_words > 0)
        return states or next(tables, 0)

    def _vectors(self, size: int) -> list[Piece]:
        return [replace(p, value=p.value.reshape(-1)) for p in self.pieces if p.value.size == size]

    def _matrices(self, columns: int) -> list[Piece]:
        """Every array as a matrix with so many columns."""
        shaped = [replace(p, value=m) for p in self.pieces for m in _as_matrices(p.value)]
        return [one for one in shaped if one.value.shape[1] == columns and len(one.value) > 1]

    def _projections(self, rows: int, columns: int) -> list[Projection]:
        """Every matrix of this shape, with the bias of its own module."""
        made = []
        for one in self._matrices(columns):
            if len(one.value) == rows:
                plain, own = Projection(weight=one.value, parameters=one.parameters), self._bias_of(one, columns)
                made.append(plain if own is None else _with_bias(plain, own))
        return made

    def _bias_of(self, piece: Piece, size: int) -> Piece | None:
        """The vector of the same module, or the only one of its size."""
        fitting = self._vectors(size)
        own = next((v for v in fitting if _module(v) == _module(piece) and _module(v)), None)
        return own or (fitting[0] if len(fitting) == 1 else None)

    def _norms_by_name(self) -> list[Norm]:
        """Every neighbouring pair of vectors that could be a norm by hand; gains lie around 1."""
        pairs = [pair for a, b in pairwise(self._vectors(self.width)) for pair in ((a, b), (b, a))]
        likely = [(g, s) for g, s in pairs if abs(g.value.mean() - 1) < 0.5 and _module(g) == _module(s)]
        return [_norm(gain, shift, None) for gain, shift in likely or pairs]


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
            if len(shape) == 1:  # every head adds a bias of its own
                together.append(Piece(value=np.sum([one.value for one in group], axis=0), parameters=names))
    return together


def _as_matrices(value: Array) -> list[Array]:
    """A matrix and the same turned; a stack of matrices side by side and one below the other."""
    value = value.squeeze() if value.ndim > 2 and 1 in value.shape else value  # a convolution over one place
    if value.ndim == 2:
        return [value, value.T]
    if value.ndim == 3:
        turned = value.swapaxes(1, 2)
        return [
            np.concatenate(list(value), axis=1), value.reshape(-1, value.shape[2]),
            np.concatenate(list(turned), axis=1), turned.reshape(-1, value.shape[1]),
            value.reshape(value.shape[0], -1),
        ]  # fmt: skip
    return []


def _unpack(one: Projection, parts: int, heads: int, order: tuple[int, ...]) -> list[Projection]:
    """The parts of a packed matrix, each with its heads side by side."""
    if one.weight is None:
        return []
    sizes = (parts, heads, one.weight.shape[1] // (parts * heads))

    def cut(array: Array) -> list[Array]:
        free = array.shape[:-1]
        apart = array.reshape(*free, *(sizes[axis] for axis in order))
        apart = apart.transpose(*range(len(free)), *(len(free) + order.index(axis) for axis in (PART, HEAD, WIDTH)))
        return [part.reshape(*free, -1) for part in np.moveaxis(apart, len(free), 0)]

    biases = cut(one.bias) if one.bias is not None else [None] * parts
    return [replace(one, weight=w, bias=b) for w, b in zip(cut(one.weight), biases, strict=True)]


def _interleave_heads(roles: Roles, heads: int) -> Iterator[Roles]:
    """The sides whose heads take every so-many-th column: all of them, or the values alone, or the others."""
    read = (roles.queries, roles.keys, roles.values)
    if not all(one.width and one.width % heads == 0 for one in read):
        return
    turned = [_unpack(one, 1, heads, (PART, WIDTH, HEAD))[0] for one in read]
    for which in ((True, True, True), (False, False, True), (True, True, False)):
        q, k, v = (new if turn else old for new, old, turn in zip(turned, read, which, strict=True))
        yield replace(roles, queries=q, keys=k, values=v, heads=heads)


def _is_one_parameter(one: Projection) -> bool:
    return len(one.parameters) == 1 + (one.bias is not None)


def _key(roles: Roles) -> tuple[object, ...]:
    """What tells two choices of roles apart."""
    parts = (roles.queries, roles.keys, roles.values, roles.mixing, roles.inner, roles.outer, roles.output)
    numbers = [None if p is None else (hash_of(p.weight), hash_of(p.bias)) for p in parts]
    norms = [(hash_of(n.gain), hash_of(n.shift), n.eps) for n in roles.norms[:2]]
    return (*numbers, *norms, roles.heads, hash_of(roles.tokens), *(hash_of(table) for table in roles.tables))


def hash_of(array: Array | None) -> int:
    """Equal for equal numbers."""
    return 0 if array is None else hash(np.ascontiguousarray(array).tobytes())


def _has_shape(one: Projection | None, rows: int, columns: int) -> bool:
    return one is not None and one.weight is not None and one.weight.shape == (rows, columns)


def _with_bias(plain: Projection, bias: Piece) -> Projection:
    return replace(plain, bias=bias.value, parameters=plain.parameters + bias.parameters)


def _module(piece: Piece) -> list[str]:
    return [path for name in piece.parameters if (path := name.rpartition(".")[0])]


def _names(part: Projection, bias: Piece) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.parameters + bias.parameters))


def _norm(gain: Piece, shift: Piece, eps: float | None) -> Norm:
    names = gain.parameters + shift.parameters
    return Norm(order=0, place=NOWHERE, gain=gain.value, shift=shift.value, parameters=names, eps=eps)

"""What is asked of which keys: the checks on the way in, and the geometry that the solvers work on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.array_types import Float
from regard.arrays import check_array, refuse_rounded
from regard.design.certificate import Certificate, Digest, Request, Statement, Verb
from regard.design.shortest import ShiftedKeys, entropy
from regard.design.textbook import ClosedForms
from regard.errors import InputError
from regard.rigor import check_arithmetic, largest, row_blocks

Rows = NDArray[np.intp]

FEW_NUMBERS = 1 << 14  # of keys: up to here a copy costs next to nothing
LOOKED_AT = 64  # keys that tell how large the others are and how far apart


@dataclass(frozen=True, eq=False)
class Question:
    """Keys, which of them may be attended to, what is wanted of which, and the factor on all scores."""

    verb: Verb
    keys: Float  # n x d
    rows: Rows  # the allowed keys
    chosen: tuple[int, ...]  # the keys to copy or share, counted from 0
    target: Float | None  # one share per key
    scale: float
    eps: float | None = None
    kl: float | None = None
    max_norm: float | None = None
    top: float | None = None  # the largest absolute value among the keys, where it is known
    digest: Digest | None = None  # of the keys, where several questions are about the same
    forms: ClosedForms | None = None  # of the allowed keys, likewise

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", self.digest or Digest(self.keys))

    def request(self) -> Request:
        """The question as a certificate states it."""
        return Request(
            verb=self.verb, keys=self.chosen, target=self.target, eps=self.eps, kl=self.kl, max_norm=self.max_norm
        )

    def certificate(self, claim: Statement, **proof: Any) -> Certificate:
        """A certificate about this question; `proof`: the fields that the claim uses."""
        everything = len(self.rows) == len(self.keys)
        return Certificate(
            question=self.request(),
            claim=claim,
            scale=self.scale,
            allowed=None if everything else tuple(self.rows.tolist()),
            shape=(self.keys.shape[0], self.keys.shape[1]),
            sha256=self.digest.text if self.digest is not None else "",
            **proof,
        )

    @cached_property
    def competing(self) -> Rows:
        """The keys that compete: all allowed ones, for copying without the chosen one."""
        return self.rows[self.rows != self.chosen[0]] if self.verb is Verb.COPY else self.rows

    @cached_property
    def copies(self) -> NDArray[np.bool_]:
        """Which competing keys equal the key to be copied, number for number; none where no single key is."""
        if self.verb is not Verb.COPY:
            return np.zeros(len(self.competing), dtype=bool)
        own = self.keys[self.chosen[0]]
        alike = (self.keys[:, 0] == own[0])[self.competing]  # few pass this, and only they are read whole
        alike[alike] = (self.keys[self.competing[alike]] == own).all(axis=1)
        return np.asarray(alike)

    def centred_points(self) -> Float:
        """The competing points and under them the anchors, moved so that the anchors' mean is the origin.

        It is the only copy of the keys that a question makes, in a fresh array: whoever asks may write to it.
        """
        count = len(self.competing)
        if self.target is None:
            anchors = self.keys[list(self.chosen)]
            origin = anchors.mean(axis=0)
            both = self._subtract_origin(origin, len(anchors))
            both[count:] = anchors - origin
        else:
            # relative to a key first: the target's mean key would lose what a common offset covers up
            both = self._subtract_origin(self.keys[int(np.argmax(self.target))], 1)
            shares = self.target[self.rows]
            both[:count] -= (shares / shares.sum()) @ both[:count]
            both[count:] = 0.0
        return both

    def _subtract_origin(self, origin: Float, more: int) -> Float:
        """The competing keys less an origin, and room for some more rows; in blocks, so that no second copy is made."""
        rows, width = self.competing, self.keys.shape[1]
        moved = np.empty((len(rows) + more, width))
        for some, block in row_blocks(self.keys, rows):
            np.subtract(block, origin, out=moved[some])
        return moved

    def limit(self) -> float:
        """The F that is asked for, in nats: ln eps, ln(s + eps), or KL + H(p)."""
        if self.verb is Verb.MATCH and self.kl is not None:
            return self.kl + self.target_entropy()
        if self.eps is None:
            return 0.0
        return math.log(self.eps) if self.verb is Verb.COPY else math.log(len(self.chosen) + self.eps)

    def target_entropy(self) -> float:
        return 0.0 if self.target is None else entropy(self.target)

    def value_at_zero(self) -> float:
        """F(0), where all scores are alike: ln of the number of keys that compete."""
        return math.log(len(self.competing)) if len(self.competing) else -math.inf


@dataclass(frozen=True, eq=False)
class Geometry:
    """Points and anchors moved to the anchors' mean, scaled to size 1, and in as few dimensions as they span."""

    points: Float  # competing keys x dimensions
    anchors: Float  # chosen keys (for match: the target's mean key) x dimensions
    unit: float  # what the points were divided by
    frame: Float | None  # columns: the coordinates' directions in the original space

    def query(self, solution: Float, scale: float) -> Float:
        """A query of the solver's in the original space."""
        direction = solution if self.frame is None else self.frame @ solution
        return np.asarray(direction / (self.unit * scale))

    def radius(self, max_norm: float, scale: float) -> float:
        return max_norm * self.unit * abs(scale)


def geometry(question: Question) -> Geometry:
    """The geometry of a question; unit is 0 where all keys involved are the same."""
    both, count = question.centred_points(), len(question.competing)
    points, anchors = both[:count], both[count:]
    unit = math.sqrt(float(np.einsum("nd,nd->n", both, both).max()))
    if unit == 0:
        return Geometry(points, anchors, 0.0, None)
    both /= unit  # and with it the points and the anchors, which lie in it
    if both.shape[1] <= len(both):
        return Geometry(points, anchors, unit, None)
    # fewer keys than dimensions: an optimal query lies in their span, so the solver may work in that
    frame, coordinates = np.linalg.qr(both.T)
    return Geometry(coordinates.T[: len(points)], coordinates.T[len(points) :], unit, frame)


@dataclass(frozen=True, eq=False)
class UncopiedGeometry:
    """Points and anchors for a solver, from the keys as they lie in memory: neither copied nor scaled."""

    points: Float | ShiftedKeys
    anchors: Float

    def query(self, solution: Float, scale: float) -> Float:
        return np.asarray(solution / scale)


def uncopied_geometry(question: Question) -> UncopiedGeometry | None:
    """None where it would cost digits, or a copy costs nothing.

    That is: a mask, few numbers, fewer keys than dimensions, keys whose distances are not near 1, or small beside their
    lengths. A sample of the keys tells.
    """
    keys = question.keys
    if len(question.rows) < len(keys) or len(keys) <= keys.shape[1] or keys.size <= FEW_NUMBERS:
        return None
    anchors = keys[list(question.chosen)] if question.target is None else _mean_key(question.target, keys)
    middle = anchors.mean(axis=0)
    if not near_one(keys, middle):
        return None
    if len(anchors) > 1:  # attention does not see where the origin is
        return UncopiedGeometry(keys, anchors)
    left_out = question.chosen if question.verb is Verb.COPY else ()
    return UncopiedGeometry(ShiftedKeys(keys, middle, left_out), np.zeros((1, keys.shape[1])))


def near_one(keys: Float, middle: Float) -> bool:
    """Are the keys' distances from here near 1, and not small beside their lengths? A sample of them tells."""
    # every so many-th row, the division rounded up
    sample = keys[:: -(-len(keys) // LOOKED_AT)]
    apart, size = (math.sqrt(float(np.einsum("nd,nd->n", x, x).max())) for x in (sample - middle, sample))
    # a solver wants rows near size 1, and k.v - a.v loses the digits by which keys are longer than far apart
    return 2.0**-10 < apart < 2.0**10 and apart > size / 100


def _mean_key(target: Float, keys: Float) -> Float:
    return np.asarray((target / target.sum()) @ keys)[None, :]


def checked_keys(keys: ArrayLike, allowed: ArrayLike | None, scale: float) -> tuple[Float, Rows, float]:
    """Keys as float64, the rows that may be attended to, and the largest absolute value."""
    check_arithmetic()  # first of all: a search in such arithmetic would only take long
    array, top = _checked_array(keys)
    if not _is_finite(scale, "scale") or scale <= 0:
        raise InputError(f"The scale multiplies every score and must be a positive number; it is {scale!r}.")
    if allowed is None:
        return array, np.arange(len(array)), top
    mask = np.asarray(allowed)
    if mask.shape != (len(array),) or mask.dtype != np.bool_:
        raise InputError(
            f"allowed must be one True or False per key, {len(array)} in all; it is {mask.dtype} of shape {mask.shape}."
        )
    if not mask.any():
        raise InputError("allowed forbids every key, so there is nothing to attend to; allow at least one.")
    return array, np.flatnonzero(mask), top


def _checked_array(keys: ArrayLike) -> tuple[Float, float]:
    """Keys as float64, finite and of a range that squares can take; what is good already is read once."""
    good = type(keys) in (np.ndarray, np.memmap) and keys.dtype == np.float64 and keys.ndim == 2 and keys.size  # type: ignore[union-attr]
    array = np.ascontiguousarray(keys) if good else check_array(keys, what="keys", ndim=2)
    top = largest(array)
    if not math.isfinite(top):
        check_array(array, what="keys", ndim=2)  # says which number it is
    first = array[:LOOKED_AT]
    if not (top < 1e139 and float(np.ptp(first, axis=0).max()) > 1e-139):  # nearly always this settles it
        _refuse_range(array)
    return array, top


def _refuse_range(array: Float) -> None:
    """Squares of differences between keys must neither overflow nor vanish."""
    # halved first: the difference itself may overflow
    apart = 2 * float((array.max(axis=0) / 2 - array.min(axis=0) / 2).max())
    if apart > 1e140:
        raise InputError(f"The keys are too far apart ({apart:.1e}): their squares overflow float64; scale them down.")
    if 0 < apart < 1e-140:
        raise InputError(f"The keys are too close ({apart:.1e} apart): their squares vanish in float64; scale them up.")


def checked_index(index: int, count: int, rows: Rows) -> int:
    """One key number, counted from 0, and allowed."""
    return checked_indices([index], count, rows)[0]


def checked_indices(indices: Sequence[int], count: int, rows: Rows) -> tuple[int, ...]:
    """Key numbers, counted from 0, distinct, and allowed."""
    given = list(indices) if isinstance(indices, Iterable) else [indices]
    if not given:
        raise InputError("No key was chosen: name at least one, counted from 0.")
    for index in given:
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise InputError(f"A key is named by a whole number counted from 0; {index!r} is not one.")
        if not 0 <= index < count:
            raise InputError(
                f"Key {index} does not exist: there are {count} keys, counted from 0, so the last is {count - 1}."
            )
        if len(rows) < count and index not in rows:
            raise InputError(f"Key {index} is forbidden by the mask, so it cannot get attention; allow it.")
    if len(set(given)) < len(given):
        raise InputError(f"A key is named twice in {[int(i) for i in given]}; name each once.")
    return tuple(int(i) for i in given)


def checked_positive(value: float | None, name: str, meaning: str) -> float | None:
    """A positive finite number, or None where it was not given."""
    if value is None:
        return None
    if not _is_finite(value, name) or value <= 0:
        raise InputError(f"{name} must be a positive finite number ({meaning}); it is {value!r}.")
    return float(value)


def _is_finite(value: object, name: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
        return False
    refuse_rounded(np.array(value, dtype=object), name)
    return math.isfinite(value)


def checked_target(target: ArrayLike, count: int, rows: Rows) -> Float:
    """A distribution over the keys: non-negative, summing to 1 within 1e-6, nothing on forbidden keys."""
    p = check_array(target, what="target", ndim=1)
    if len(p) != count:
        raise InputError(f"The target must give each of the {count} keys its share; it has {len(p)} numbers.")
    if p.min() < 0:
        place = int(np.argmin(p))
        raise InputError(f"The target's shares must not be negative; key {place} has {p[place]:g}.")
    if abs(p.sum() - 1) > 1e-6:
        fix = "give some key a share" if p.sum() == 0 else "divide them by that"
        raise InputError(f"The target's shares must sum to 1; they sum to {p.sum():.9g}: {fix}.")
    if len(rows) < count and np.delete(p, rows).any():
        raise InputError("The target gives attention to a key that the mask forbids; set that share to 0.")
    return p

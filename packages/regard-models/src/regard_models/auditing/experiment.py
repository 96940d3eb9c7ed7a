"""An experiment: one question asked twice with a change that must not matter, and what moved all the same.

The protected part of an answer is what the change must leave alone. Rounding is measured on it: the same question
again with every rounding disturbed (:mod:`regard.torch_arithmetic`), and a movement counts only when it is
:data:`~regard.torch_arithmetic.FACTOR` times larger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.torch_arithmetic import FACTOR
from regard.written_numbers import at_most
from regard_models.auditing.finding import Finding, Status
from regard_models.auditing.question import Output, Question
from regard_models.auditing.subject import Subject

_PADDED = 8  # places that a convolution may add before it cuts them off again
_AT_ONCE = 16  # places of an answer that are compared at once
_ULPS = 8.0  # a movement below this many units of the last place of the largest number is rounding, whatever was seen


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """The protected part of any tensor of a run, found by the sizes of its axes.

    rows: the examples (None: all). places: for each length that an axis may have, the protected places (None: all).
    """

    batch: int
    rows: Tensor | None = None
    places: Mapping[int, Tensor | None] = field(default_factory=dict)

    def of(self, x: Tensor) -> Tensor:
        """The protected part; an axis of batch times length, as mixtures of experts make, is parted first."""
        merged = self._merged_axis(x)
        x = x if merged is None else x.reshape(*x.shape[:merged], self.batch, -1, *x.shape[merged + 1 :])
        batch_seen = False
        for axis, size in enumerate(x.shape):
            if size in self.places:
                chosen = self.places[size]
                x = x if chosen is None else _select(x, axis, chosen)
            elif size == self.batch and not batch_seen:
                batch_seen = True
                x = x if self.rows is None else _select(x, axis, self.rows)
        return x

    def has_places(self, x: Tensor) -> bool:
        """Whether an axis of a tensor counts places: a state, or the last tokens that are kept, has none to protect."""
        sizes = [n for n, chosen in self.places.items() if chosen is not None]
        longest = _PADDED if x.ndim > 2 else 0
        merged = self._merged_axis(x) is not None
        return merged or not sizes or any(n <= size <= n + longest for n in sizes for size in x.shape)

    def _merged_axis(self, x: Tensor) -> int | None:
        """The axis of batch times length: the first, or the second of a router's scores (experts x tokens)."""
        sizes = {self.batch * n for n in self.places} - self.places.keys()
        if x.ndim and x.shape[0] in sizes:
            return 0
        scores = x.ndim == 2 and x.shape[1] in sizes and x.shape[0] not in {self.batch, *self.places}
        return 1 if scores else None

    def of_inner(self, x: Tensor) -> Tensor:
        """The same of what submodules hand on, where rows may be padded for a while."""
        protected = self.of(x)
        return protected if x.ndim < 3 or set(x.shape) & self.places.keys() else self._of_padded(protected)

    def _of_padded(self, x: Tensor) -> Tensor:
        """Of a row that is a little longer than the tokens are: a causal convolution pads, and cuts its end afterwards.

        Place t of it reads tokens up to t, so that the protected places are the same ones.
        """
        for axis in range(1, x.ndim):
            fitting = [c for n, c in self.places.items() if n < x.shape[axis] <= n + _PADDED and c is not None]
            x = _select(x, axis, fitting[0]) if fitting else x
        return x


def _select(x: Tensor, axis: int, chosen: Tensor) -> Tensor:
    """Some entries along an axis; a view where they follow one another, since answers are large."""
    first, count = int(chosen[0]) if len(chosen) else 0, len(chosen)
    if first + count <= x.shape[axis] and torch.equal(chosen, torch.arange(first, first + count)):
        return x.narrow(axis, first, count)
    return x.index_select(axis, chosen.to(x.device))


@dataclass(frozen=True, kw_only=True, eq=False)
class Experiment:
    """Two questions whose protected answers must agree; ``stream`` restricts to outputs that follow its tokens."""

    base: Question
    base_view: View
    other: Question
    other_view: View
    stream: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Gap:
    """How far the protected answers are apart, at the output where that exceeds rounding most."""

    name: str
    size: float
    rounding: float  # what rounding explains, FACTOR included
    scale: float  # the largest number there
    where: tuple[int, ...] = ()  # index into the protected part

    @property
    def excess(self) -> float:
        if math.isnan(self.size):
            return math.inf
        return self.size / self.rounding if self.rounding else (math.inf if self.size else 0.0)

    @property
    def is_above_rounding(self) -> bool:
        return self.excess > 1

    def finding(self, name: str, check: str, status: Status, sentence: str, **more: Any) -> Finding:
        """A finding about a property that carries these numbers."""
        return Finding(
            property=name, check=check, status=status, sentence=sentence, size=self.size, rounding=self.rounding, **more
        )

    def words(self) -> str:
        """Size against rounding."""
        if math.isnan(self.size):
            return f"{self.name} became NaN"
        return f"{self.name} moved by {self.size:.2g}, where rounding makes {at_most(self.rounding, 1)} at most"


def view(question: Question, *, rows: list[int] | None = None, places: dict[int, Tensor] | None = None) -> View:
    """The view of a question that protects some examples, and some places of some streams."""
    chosen = places or {}
    lengths = {r.length: chosen.get(i) for i, r in enumerate(question.rows)}
    return View(batch=question.batch, rows=None if rows is None else torch.tensor(rows), places=lengths)


def measure(subject: Subject, experiment: Experiment) -> Gap:
    """Ask both questions and compare."""
    base = protected_parts(subject.ask(experiment.base), experiment.base_view, experiment.stream)
    other = protected_parts(subject.ask(experiment.other), experiment.other_view, experiment.stream)
    return worst_gap(base, other, subject.rounding_noise(), subject)


def worst_gap(base: dict[str, Tensor], other: dict[str, Tensor], noise: dict[str, float], subject: Subject) -> Gap:
    """The gap with the largest excess over rounding."""
    eps = torch.finfo(torch.float64 if subject.wide else subject.dtype).eps
    gaps = []
    for name, values in base.items():
        if name not in other or other[name].shape != values.shape or not values.numel():
            continue
        size, where = _largest_difference(values, other[name])
        scale = max(largest(part.abs()) for _, part in _parts(values))
        rounding = FACTOR * noise.get(name, 0.0) + _ULPS * eps * scale
        gaps.append(Gap(name=name, size=size, rounding=rounding, scale=scale, where=where))
    if not gaps:
        return Gap(name="nothing", size=0.0, rounding=0.0, scale=0.0)
    return max(gaps, key=lambda gap: gap.excess)


def _largest_difference(a: Tensor, b: Tensor) -> tuple[float, tuple[int, ...]]:
    """How far two answers are apart at most (NaN before all), and where."""
    found = []
    for ((example, start), mine), (_, theirs) in zip(_parts(a), _parts(b), strict=True):
        apart = difference(mine, theirs)
        place = int(apart.nan_to_num(nan=math.inf).argmax())
        where = [int(i) for i in torch.unravel_index(torch.tensor(place), apart.shape)]
        where = [where[0] + start, *where[1:]] if where else []
        found.append((float(apart.flatten()[place]), (example, *where)))
    return max(found, key=lambda one: math.inf if math.isnan(one[0]) else one[0])


def _parts(values: Tensor) -> Iterator[tuple[tuple[int, int], Tensor]]:
    """A few places of one example at a time, with their example and the first of them: answers are large."""
    for example, row in enumerate(values):
        for start in range(0, len(row), _AT_ONCE) if row.ndim > 1 else [0]:
            yield (example, start), row[start : start + _AT_ONCE] if row.ndim > 1 else row


def protected_parts(outputs: list[Output], seen: View, stream: int | None = None) -> dict[str, Tensor]:
    """The protected part of every output, by name."""
    return {o.name: seen.of(o.values) for o in outputs if stream is None or o.stream == stream}


def difference(a: Tensor, b: Tensor) -> Tensor:
    """|a - b|, where two NaN and two equal infinities agree."""
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    return torch.where(same, torch.zeros((), dtype=a.dtype, device=a.device), (a - b).abs())


def largest(values: Tensor) -> float:
    """The largest finite number, 0 for none."""
    return float(values.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).max()) if values.numel() else 0.0

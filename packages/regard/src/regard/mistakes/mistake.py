"""One known mistake: the steps of a Transformer that it replaces, its name, its sentence and the cure.

``said`` completes "exactly ours, but with ..."; ``instead`` says what is right. A *variation* is no mistake (heads laid
out otherwise, a mask of padding): it costs nothing and is at most mentioned. A *departure* is right in some other model
(norm first, GELU): it is named, and counts as a mistake only against the model asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from inspect import signature
from typing import Any

Steps = Mapping[str, Any]  # the function that stands at each step of the layer


class Weight(StrEnum):
    """How much a difference matters."""

    MISTAKE = "mistake"
    DEPARTURE = "departure"
    VARIATION = "variation"


@dataclass(frozen=True, kw_only=True, eq=False)
class Mistake:
    """One way of being different: which functions stand at which steps, and the sentence."""

    name: str
    stage: str
    said: str
    replaces: Steps = field(default_factory=dict)
    instead: str = ""
    at: tuple[str, ...] = ()  # places in a person's file, the best first
    weight: Weight = Weight.MISTAKE
    echo: bool = False  # the same mistake once more, which costs nothing further

    @property
    def cost(self) -> int:
        return 0 if self.echo or self.weight is Weight.VARIATION else 1

    @property
    def step(self) -> str:
        """The step that it is about: the first that it replaces."""
        return next(iter(self.replaces), "")

    @property
    def function(self) -> Callable[..., Any]:
        """What stands there instead."""
        wrong: Callable[..., Any] = self.replaces[self.step]
        return wrong

    def with_numbers(self, numbers: Iterable[float]) -> list[Mistake]:
        """Itself; or where it has a ``number``, itself with each of those that were seen in a person's model.

        >>> half = Mistake(name="", stage="", said="", replaces={"sum": lambda x, number=0.3: number * x})
        >>> [one.function(2) for one in half.with_numbers([0.5, 3])]
        [1.0, 6]
        """
        if not callable(wrong := self.replaces.get(self.step)) or "number" not in signature(wrong).parameters:
            return [self]
        return [replace(self, replaces={self.step: partial(wrong, number=number)}) for number in numbers]


def wrong_versions(
    stage: str, step: str, at: str, instead: str, rows: Iterable[tuple[str, str, Any]], weight: Weight = Weight.MISTAKE
) -> tuple[Mistake, ...]:
    """The mistakes of one step: (name, sentence, function), or a dictionary of functions where it takes several."""
    return tuple(
        Mistake(
            name=name,
            stage=stage,
            said=said,
            replaces=wrong if isinstance(wrong, dict) else {step: wrong},
            instead=instead,
            at=tuple(at.split(", ")),
            weight=weight,
        )
        for name, said, wrong in rows
    )


def are_compatible(mistakes: Iterable[Mistake]) -> bool:
    """Whether no two of them replace the same step.

    >>> one, other = (Mistake(name=n, stage="", said="", replaces={n[0]: max}) for n in ("a1", "a2"))
    >>> are_compatible([one]), are_compatible([one, other])
    (True, False)
    """
    steps = [step for one in mistakes for step in one.replaces]
    return len(set(steps)) == len(steps)

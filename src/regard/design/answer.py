"""What the design verbs answer: the query with its certificate, or the proof that there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.design.certificate import Verification
from regard.design.textbook import Textbook
from regard.results import Result

Array = NDArray[np.float64]

MOST_DRAWN = 2000  # numbers: 1000 keys in the plane


@dataclass(frozen=True, kw_only=True, eq=False)
class Design(Result):
    """The best query for a demand or under a norm budget, or the proof that no query meets the demand.

    `attention` is what the query reaches: the key's weight, the least weight of the shared keys, or the divergence;
    `bound` is what no query can get past (at all, or within the budget).
    """

    verb: str
    chosen: tuple[int, ...]
    reachable: bool
    eps: float | None
    kl: float | None
    max_norm: float | None
    query: Array | None
    weights: Array | None
    norm: float | None
    lower_bound: float | None
    gap: float | None
    attention: float | None
    bound: float | None
    textbook: Textbook | None
    certificate: dict[str, Any]
    verification: Verification
    _keys: Array | None = field(default=None, repr=False)  # for the picture

    @property
    def answer(self) -> bool:
        return self.reachable

    def to_dict(self) -> dict[str, Any]:
        said = super().to_dict()
        if self.textbook is not None:
            said["textbook"] = {
                "name": self.textbook.name,
                "norm": self.textbook.norm,
                "promised_norm": self.textbook.promised_norm,
            }
        return said

    def __str__(self) -> str:
        if not self.reachable:
            return "\n".join([_demand(self), self._never(), _checked(self.verification)])
        lines = [_demand(self), self._what_it_does(), self._how_good(), *self._beside()]
        return "\n".join([*lines, f"query: {_short(self.query)}", _checked(self.verification)])

    def figure(self) -> Any:
        """Keys in the plane with the hull and the query's direction, and the weights; None for very many keys."""
        from regard.design.pictures import sketch

        return None if self._keys is None else sketch(self, self._keys)

    def _never(self) -> str:
        reach = _measure(self.verb, self.bound)
        return f"No query does: the most that any query can ever get is {reach}. The proof is in the certificate."

    def _what_it_does(self) -> str:
        which = "This query does it" if self.max_norm is None else "The best query there is"
        return f"{which}: norm {self.norm:.6g}, {_measure(self.verb, self.attention)}."

    def _how_good(self) -> str:
        if self.max_norm is not None:
            return (
                f"No query of norm {self.max_norm:.6g} or less gets past {_measure(self.verb, self.bound)} "
                f"(proved, to {self.gap:.0e} nats)."
            )
        if self.norm == 0:
            return "No query at all is needed: the zero query, which spreads attention evenly, is enough (exact)."
        return f"No shorter query does: proved down to norm {self.lower_bound:.6g} (relative gap {self.gap:.0e})."

    def _beside(self) -> list[str]:
        if self.textbook is None or self.norm is None:
            return []
        return [
            f"The textbook query, {self.textbook.name}, has norm {self.textbook.norm:.4g}; "
            f"the shortest has {self.norm:.4g}."
        ]


@dataclass(frozen=True, kw_only=True, eq=False)
class Designs(Result):
    """Several designs on the same keys, in the order they were asked for; `unanswered` says why one is missing."""

    designs: tuple[Design, ...]
    unanswered: dict[int, str]

    @property
    def answer(self) -> bool:
        return all(design.reachable for design in self.designs)

    def __iter__(self) -> Iterator[Design]:
        return iter(self.designs)

    def __len__(self) -> int:
        return len(self.designs)

    def __getitem__(self, place: int) -> Design:
        return self.designs[place]

    def __str__(self) -> str:
        lines = [f"{'key':>6}  {'norm':>12}  {'proved from':>12}  {'attention':>11}"]
        for found in self.designs:
            if found.reachable:
                row = f"{found.norm:>12.6g}  {found.lower_bound:>12.6g}  {found.attention:>11.6f}"
            else:
                row = f"{'never':>12}  {'':>12}  {found.bound:>11.6f} at most"
            lines.append(f"{found.chosen[0]:>6}  {row}")
        lines += [f"{key:>6}  could not find out: {reason}" for key, reason in self.unanswered.items()]
        return "\n".join([*lines, "Keys are counted from 0. Every row carries a certificate that was rechecked."])


@dataclass(frozen=True, kw_only=True, eq=False)
class Ceiling(Result):
    """The most attention a key can ever get, the query that comes near it, and what a norm budget allows."""

    key: int
    copies: int
    inside: bool
    ceiling: float
    reached: float
    query: Array | None
    norm: float | None
    support: tuple[int, ...]
    budget_norm: float | None
    budget_ceiling: float | None
    certificate: dict[str, Any]
    verification: Verification
    _keys: Array | None = field(default=None, repr=False)  # for the picture

    def __str__(self) -> str:
        lines = [f"Key {self.key} (keys are counted from 0) can get at most {self.ceiling:.9g} of the attention."]
        if self.copies:
            lines.append(f"There {_are(self.copies)} of it among the others, and equal keys always get equal weight.")
        if self.inside:
            few = f" (keys {', '.join(map(str, self.support))})" if 0 < len(self.support) <= 12 else ""
            lines.append(
                "It lies in the convex hull of the other keys"
                f"{few}: whatever the query, some of them score at least as high."
            )
        elif not self.copies:
            lines.append("It is a corner of the keys' convex hull: some direction puts it strictly first.")
        if self.query is not None and self.norm is not None:
            lines.append(f"A query of norm {self.norm:.6g} reaches {self.reached:.9g}.")
        else:
            lines.append(
                "The direction that does it is exact (whole numbers in the certificate): floats are too coarse for it."
            )
        if self.budget_norm is not None and self.budget_ceiling is not None:
            most = f"{self.budget_ceiling:.9g}"
            digits = " to nine digits" if most == "1" else ""
            lines.append(f"With queries of norm up to {self.budget_norm:.6g} the most is {most}{digits}.")
        return "\n".join([*lines, _checked(self.verification)])

    def figure(self) -> Any:
        """Keys in the plane with the hull, and the weights under the ceiling; None for very many keys."""
        from regard.design.pictures import sketch

        return None if self._keys is None else sketch(self, self._keys)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ceilings(Result):
    """The ceilings of several keys, as a table."""

    rows: tuple[Ceiling, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"ceilings": [row.to_dict() for row in self.rows]}

    def __str__(self) -> str:
        head = f"{'key':>6}  {'ceiling':>11}  {'in hull':>7}  {'copies':>6}  {'within norm':>11}  {'at most':>11}"
        lines = [head]
        for row in self.rows:
            budget = f"{row.budget_norm:>11.4g}  {row.budget_ceiling:>11.6f}" if row.budget_norm is not None else ""
            lines.append(
                f"{row.key:>6}  {row.ceiling:>11.6f}  {'yes' if row.inside else 'no':>7}  {row.copies:>6}  {budget}"
            )
        return "\n".join([*lines, "Keys are counted from 0. Every row carries a certificate that was rechecked."])


def drawable(keys: Array) -> Array | None:
    """A copy of the keys for an answer's picture; None where they are so many that answers should not hold them."""
    return keys.copy() if keys.size <= MOST_DRAWN else None


def _demand(design: Design) -> str:
    keys = ", ".join(map(str, design.chosen))
    who = {
        "copy": f"Copy key {keys}",
        "share": f"Share attention between keys {keys}",
        "match": "Match the target distribution",
    }[design.verb]
    if design.max_norm is not None:
        want = f"as well as a query of norm {design.max_norm:g} can"
    elif design.verb == "match":
        want = f"within KL {design.kl:g}"
    elif design.verb == "copy":
        want = f"with attention at least 1/(1+{design.eps:g})"
    else:
        want = f"with at least 1/({len(design.chosen)}+{design.eps:g}) each"
    return f"{who} {want} (keys are counted from 0)."


def _measure(verb: str, value: float | None) -> str:
    number = math.nan if value is None else value
    return {
        "copy": f"attention {number:.9g} on that key",
        "share": f"attention {number:.9g} on the least of them",
        "match": f"KL divergence {number:.6g}",
    }[verb]


def _checked(verification: Verification) -> str:
    return f"Certificate {'rechecked' if verification.holds else 'NOT confirmed'} in {verification.arithmetic}."


def _are(count: int) -> str:
    return "is one copy" if count == 1 else f"are {count} copies"


def _short(query: Array | None) -> str:
    if query is None:
        return "none"
    shown = ", ".join(f"{x:.6g}" for x in query[:8])
    return f"[{shown}{', ...' if len(query) > 8 else ''}] ({len(query)} numbers; --json has them all)"

"""What the design verbs answer: the query with its certificate, or the proof that there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from regard.array_types import Float
from regard.design.certificate import Certificate
from regard.design.textbook import Textbook
from regard.design.verification import Verification
from regard.results import Result
from regard.written_numbers import DIGITS, at_least, at_most, fraction, in_full

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROOF = "The proof is in the certificate."
CHECKED = "Proved, and rechecked by separate code (details() shows how)."
CERTIFIED = "Each row is proved: its certificate was rechecked by separate code."
SHOWN = 4  # digits of an answer in plain words; the rest is in the details
LOWEST = 10  # rows of a table of ceilings that are shown unasked
MOST_DRAWN = 2000  # numbers: 1000 keys in the plane


@dataclass(frozen=True, kw_only=True, eq=False)
class Design(Result):
    """The best query for a demand or under a norm budget, or the proof that no query meets the demand.

    `attention` is what the query reaches: the key's weight, the least weight of the shared keys, or the divergence;
    `bound` is what no query can get past (at all, or within the budget). Where float64 is too coarse for the query that
    does it, `query` (d numbers) is rounded, and the certificate has it as rationals. weights: one per key.
    """

    verb: str
    chosen: tuple[int, ...]
    reachable: bool
    eps: float | None
    kl: float | None
    max_norm: float | None
    query: Float | None
    weights: Float | None
    norm: float | None
    lower_bound: float | None
    gap: float | None
    attention: float | None
    bound: float | None
    textbook: Textbook | None
    certificate: Certificate
    verification: Verification
    _keys: Float | None = field(default=None, repr=False)  # for the picture

    @property
    def answer(self) -> bool:
        return self.reachable

    def to_dict(self) -> dict[str, Any]:
        said = super().to_dict() | {"certificate": self.certificate.to_dict()}
        if self.textbook is not None:
            said["textbook"] = {
                "name": self.textbook.name,
                "norm": self.textbook.norm,
                "promised_norm": self.textbook.promised_norm,
            }
        return said

    def __str__(self) -> str:
        said = summary_sentence(self)
        if not self.reachable:
            return "\n".join([said, CHECKED])
        query = f"The query: {_query_text(self.query, exact=_is_rounded(self), digits=4)}"
        return "\n".join([said, *self._textbook_lines(), query, CHECKED])

    def details(self) -> str:
        """Every digit, the gap, and in which arithmetic the certificate was rechecked."""
        if not self.reachable:
            return "\n".join([_demand(self), self._unreachable_sentence(), _recheck_sentence(self.verification)])
        lines = [_demand(self), self._what_it_does(), self._how_good()]
        return "\n".join(
            [*lines, f"query: {_query_text(self.query, exact=_is_rounded(self))}", _recheck_sentence(self.verification)]
        )

    def figure(self) -> Figure | None:
        """Keys in the plane with the hull and the query's direction, and the weights; None for very many keys."""
        from regard.design.pictures import sketch

        return None if self._keys is None else sketch(self, self._keys)

    def _unreachable_sentence(self) -> str:
        if self.verb == "match":
            return (
                f"No query does: the divergence is at least {at_least(self.bound or 0.0)} whatever the query. {PROOF}"
            )
        if (most := _approached_share(self)) is not None:
            return f"No query does: {most} {_place_text(self)} is approached and never reached. {PROOF}"
        return f"No query does: none gets more than {self._bound_text()} {_place_text(self)}, however long. {PROOF}"

    def _bound_text(self, digits: int = DIGITS) -> str:
        """The bound on the attention, rounded up; exactly where it is known exactly."""
        return _upper_text(self.bound or 0.0, self.verification, digits)

    def _what_it_does(self) -> str:
        which = "This query does it" if self.max_norm is None else "The best query there is"
        norm = at_most(self.norm or 0.0, 6)
        if self.verb == "match":
            return f"{which}: norm {norm}, KL divergence at most {_divergence(self, 6)}."
        return f"{which}: norm {norm}, attention {at_least(_proved_attention(self))} {_place_text(self)}."

    def _how_good(self) -> str:
        if self.max_norm is not None:
            past = f"below KL divergence {at_least(self.bound or 0.0, 6)}" if self.verb == "match" else None
            past = past or f"past attention {self._bound_text()} {_place_text(self)}"
            gap = at_most(self.gap or 0.0, 1)
            return f"No query of norm {in_full(self.max_norm)} or less gets {past} (proved, to {gap} nats)."
        if self.norm == 0:
            return "No query at all is needed: the zero query, which spreads attention evenly, is enough (exact)."
        least = at_least(self.lower_bound or 0.0, 6)
        return f"No shorter query does: proved down to norm {least} (relative gap {at_most(self.gap or 0.0, 1)})."

    def _textbook_lines(self) -> list[str]:
        if self.textbook is None or self.norm is None:
            return []
        return [
            f"The textbook query, {self.textbook.name}, has norm {self.textbook.norm:.4g}; "
            f"the shortest has {at_most(self.norm, SHOWN)}."
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
        got = sum(design.reachable for design in self.designs)
        lines = [
            f"{got} of {len(self.designs) + len(self.unanswered)} keys can be copied{_open_text(self.unanswered)}.",
            f"{'key':>6}  {'norm':>12}  {'proved from':>12}  {'attention':>11}",
        ]
        for design in self.designs:
            if design.reachable:
                norm, least = at_most(design.norm or 0.0, 6), at_least(design.lower_bound or 0.0, 6)
                row = f"{norm:>12}  {least:>12}  {at_least(_proved_attention(design), 6):>11}"
            else:
                row = f"{'never':>12}  {'':>12}  {design._bound_text():>11} at most"
            lines.append(f"{design.chosen[0]:>6}  {row}")
        lines += [f"{key:>6}  could not find out: {reason}" for key, reason in self.unanswered.items()]
        return "\n".join([*lines, CERTIFIED])


@dataclass(frozen=True, kw_only=True, eq=False)
class Ceiling(Result):
    """The most attention a key can ever get, the query that comes near it, and what a norm budget allows.

    `support`: a few keys whose hull holds the key, where that is known. `budget_norm` and `budget_ceiling`: only where
    a budget was asked for; its share was rechecked when it was found, and `copy` with that `max_norm` certifies it.
    """

    key: int
    copies: int
    inside: bool
    ceiling: float
    reached: float
    query: Float | None
    norm: float | None
    support: tuple[int, ...]
    budget_norm: float | None
    budget_ceiling: float | None
    certificate: Certificate
    verification: Verification
    _keys: Float | None = field(default=None, repr=False)  # for the picture

    def __str__(self) -> str:
        said = [f"Key {self.key} can get at most {self._bound_text(SHOWN)} of the attention."]
        return "\n".join([*said, *self._why(), *self._how_near(SHOWN), CHECKED])

    def details(self) -> str:
        """Every digit, and in which arithmetic the certificate was rechecked."""
        lines = [f"Key {self.key} can get at most {self._bound_text()} of the attention (keys are counted from 0)."]
        return "\n".join([*lines, *self._how_near(DIGITS), _recheck_sentence(self.verification)])

    def _why(self) -> list[str]:
        lines = []
        if self.copies:
            lines.append(
                f"There {_copies_text(self.copies)} of it among the others, and equal keys always get equal weight."
            )
        if self.inside:
            few = f" (keys {', '.join(map(str, self.support))})" if 0 < len(self.support) <= 12 else ""
            lines.append(
                "It lies in the convex hull of the other keys"
                f"{few}: whatever the query, some of them score at least as high."
            )
        elif not self.copies:
            lines.append("It is a corner of the keys' convex hull: some direction puts it strictly first.")
        return lines

    def _how_near(self, digits: int) -> list[str]:
        lines = []
        if self.norm == 0:
            lines.append("The zero query, which spreads attention evenly, reaches it.")
        elif self.query is not None and self.norm is not None:
            norm = at_most(self.norm, min(digits, 6))
            lines.append(f"A query of norm {norm} reaches {at_least(self.reached, digits)}.")
            if _is_rounded(self):
                lines.append("Floats are too coarse for it: the certificate has it as exact rationals.")
        else:
            lines.append("A query reaches it that floats are too coarse for: the certificate has it as whole numbers.")
        if self.budget_norm is not None and self.budget_ceiling is not None:
            most = at_most(self.budget_ceiling, digits)
            lines.append(f"With queries of norm up to {in_full(self.budget_norm)} the most is {most}.")
        return lines

    def _bound_text(self, digits: int = DIGITS) -> str:
        """The ceiling, rounded up; exactly where it is known exactly."""
        return _upper_text(self.ceiling, self.verification, digits)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"certificate": self.certificate.to_dict()}

    def figure(self) -> Figure | None:
        """Keys in the plane with the hull, and the weights under the ceiling; None for very many keys."""
        from regard.design.pictures import sketch

        return None if self._keys is None else sketch(self, self._keys)


@dataclass(frozen=True, kw_only=True, eq=False)
class Ceilings(Result):
    """The ceilings of several keys, as a table; `unanswered` says why one is missing."""

    rows: tuple[Ceiling, ...]
    unanswered: dict[int, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        unanswered = {str(key): reason for key, reason in self.unanswered.items()}
        return {"ceilings": [row.to_dict() for row in self.rows], "unanswered": unanswered}

    def __str__(self) -> str:
        lowest = sorted(self.rows, key=lambda row: (row.ceiling, row.key))[:LOWEST]
        left = len(self.rows) - len(lowest)
        more = [f"... and {left} more keys with ceilings as high or higher: details() shows them."] if left else []
        return "\n".join([self._verdict(), *self._table(lowest, SHOWN), *more, *self._closing_lines()])

    def details(self) -> str:
        """Every key, in the order of the keys."""
        return "\n".join([self._verdict(), *self._table(self.rows, DIGITS), *self._closing_lines()])

    def _verdict(self) -> str:
        below = [row for row in self.rows if row.ceiling < 1]
        if not below:
            return f"No key has a ceiling below 1, of {len(self.rows):,}{_open_text(self.unanswered)}."
        lowest = min(below, key=lambda row: (row.ceiling, row.key))
        return (
            f"{len(below):,} of {len(self.rows):,} keys have a ceiling below 1; the lowest is "
            f"{lowest._bound_text(SHOWN)}, of key {lowest.key}{_open_text(self.unanswered)}."
        )

    def _table(self, rows: Sequence[Ceiling], digits: int) -> list[str]:
        lines = [f"{'key':>6}  {'ceiling':>11}  {'in hull':>7}  {'copies':>6}"]
        if any(row.budget_norm is not None for row in rows):
            lines[0] += f"  {'within norm':>11}  {'at most':>11}"
        for row in rows:
            shown = f"{row.key:>6}  {row._bound_text(digits):>11}  {'yes' if row.inside else 'no':>7}  {row.copies:>6}"
            if row.budget_norm is not None and row.budget_ceiling is not None:
                shown += f"  {in_full(row.budget_norm):>11}  {at_most(row.budget_ceiling, min(digits, 6)):>11}"
            lines.append(shown)
        return lines

    def _closing_lines(self) -> list[str]:
        lines = [f"{key:>6}  could not find out: {reason}" for key, reason in self.unanswered.items()]
        return [*lines, CERTIFIED]


def _open_text(unanswered: dict[int, str]) -> str:
    return f"; {len(unanswered):,} could not be decided" if unanswered else ""


def summary_sentence(design: Design) -> str:
    """The answer in a sentence or two, four digits each, rounded to the side on which it stays true."""
    whom, asked = _chosen_text(design), _demand_figure(design)
    if not design.reachable:
        return _unreachable_summary(design, whom, asked)
    if design.verb == "match":
        got = f"comes within KL {_divergence(design, SHOWN)} of the target"
    else:
        got = f"gives {whom} at least {at_least(_proved_attention(design), SHOWN)} of the attention"
    if design.max_norm is not None:
        most = f"no query of that norm gives more than {design._bound_text(SHOWN)}"
        if design.verb == "match":
            most = (
                f"no query of that norm comes nearer than KL {at_least(design.bound or 0.0, SHOWN)}, lower being better"
            )
        return f"The best query of norm at most {in_full(design.max_norm)} {got}; {most} (proved)."
    if design.norm == 0:
        return f"The zero query, which spreads attention evenly, {got}; asked: {asked}."
    least = at_least(design.lower_bound or 0.0, SHOWN)
    norm = at_most(design.norm or 0.0, SHOWN)
    return f"A query of norm {norm} {got} (asked: {asked}). No shorter query does: proved down to norm {least}."


def _unreachable_summary(design: Design, whom: str, asked: str) -> str:
    if design.verb == "match":
        least = at_least(design.bound or 0.0, SHOWN)
        return f"No query does: none comes nearer to the target than KL {least} (asked: {asked})."
    if (most := _approached_share(design)) is not None:
        return f"No query does: for {whom} {most} is approached and never reached."
    return f"No query does: none gives {whom} more than {design._bound_text(SHOWN)}, however long (asked: {asked})."


def _approached_share(design: Design) -> str | None:
    """The share asked for, where it is the very ceiling: queries come as near as one likes, and none has it."""
    one_in = design.verification.one_in
    if one_in is None or design.eps is None:
        return None
    asked = Fraction(design.eps) + (1 if design.verb == "copy" else len(design.chosen))  # 1 in so many
    return fraction(Fraction(1, one_in)) if asked == one_in else None


def _proved_attention(design: Design) -> float | Fraction:
    """The attention that the query is proved to give: what the check found, what was asked for, or at norm 0 1/n.

    `design.attention` is the same number worked out in float64, which may lie on the other side of the truth.
    """
    certificate = design.certificate
    if design.norm == 0 and design.verb != "match":
        return Fraction(1, certificate.shape[0] if certificate.allowed is None else len(certificate.allowed))
    if design.max_norm is not None:
        return certificate.reached or 0.0
    return 1 / (len(design.chosen) + Fraction(design.eps or 0.0))


def _divergence(design: Design, digits: int) -> str:
    """The divergence that the query is proved to keep within."""
    return in_full(design.kl or 0.0) if design.max_norm is None else at_most(design.certificate.reached or 0.0, digits)


def _is_rounded(answer: Design | Ceiling) -> bool:
    """Is the query that is shown another than the certificate's, whose numbers float64 cannot hold?"""
    exact = answer.certificate.query
    if not isinstance(exact, tuple) or answer.query is None:
        return False
    return any(Fraction(x) != Fraction(int(y.p), int(y.q)) for x, y in zip(answer.query.tolist(), exact, strict=True))


def _chosen_text(design: Design) -> str:
    if len(design.chosen) == 1:
        return f"key {design.chosen[0]}"
    return f"each of the keys {', '.join(map(str, design.chosen))}"


def _demand_figure(design: Design) -> str:
    if design.verb == "match":
        return f"KL {in_full(design.kl or 0.0)}, lower is better"
    return f"1/({1 if design.verb == 'copy' else len(design.chosen)}+{in_full(design.eps or 0.0)})"


def drawable_keys(keys: Float) -> Float | None:
    """A copy of the keys for an answer's picture; None where they are so many that answers should not hold them."""
    return keys.copy() if keys.size <= MOST_DRAWN else None


def _demand(design: Design) -> str:
    keys = ", ".join(map(str, design.chosen))
    who = {
        "copy": f"Copy key {keys}",
        "share": f"Share attention between keys {keys}" if len(design.chosen) > 1 else f"Give key {keys} attention",
        "match": "Match the target distribution",
    }[design.verb]
    if design.max_norm is not None:
        want = f"as well as a query of norm {in_full(design.max_norm)} can"
    elif design.verb == "match":
        want = f"within KL {in_full(design.kl or 0.0)}"
    elif design.verb == "copy":
        want = f"with attention at least 1/(1+{in_full(design.eps or 0.0)})"
    else:
        each = " each" * (len(design.chosen) > 1)
        want = f"with at least 1/({len(design.chosen)}+{in_full(design.eps or 0.0)}){each}"
    return f"{who} {want} (keys are counted from 0)."


def _upper_text(bound: float, verification: Verification, digits: int = DIGITS) -> str:
    one_in = verification.one_in
    return at_most(bound, digits) if one_in is None else fraction(Fraction(1, one_in))


def _place_text(design: Design) -> str:
    return "on that key" if len(design.chosen) == 1 else "on the least of them"


def _recheck_sentence(verification: Verification) -> str:
    return f"Certificate {'rechecked' if verification.holds else 'NOT confirmed'} in {verification.arithmetic}."


def _copies_text(count: int) -> str:
    return "is one copy" if count == 1 else f"are {count} copies"


def _query_text(query: Float | None, *, exact: bool, digits: int = 6) -> str:
    if query is None:
        return "none"
    shown = "[" + ", ".join(f"{x:.{digits}g}" for x in query[:8]) + ", ..." * (len(query) > 8) + "]"
    if exact:
        return f"{shown}, rounded: only its exact digits do it, which to_json() has"
    return f"{shown} (to_json() has every digit)"

"""The diagnosis: part by part right or not, the mistakes with their lines, and what was only noticed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

import numpy as np

from regard.coursework.checker.comparison import (
    EXACT,
    SINGLE,
    WHOLE,
    Match,
    has_places_for,
    numbers_in,
    output_difference,
    start_values,
)
from regard.coursework.checker.findings import Finding, find, find_findings, has_few_digits
from regard.coursework.checker.role_solver import Solver
from regard.coursework.checker.search import TRIES, find_match, match_whole
from regard.mistakes.feed_forward import NormChoice
from regard.mistakes.mistake import Weight
from regard.results import Result
from regard.tracing.parameter_roles import Roles, find_roles
from regard.tracing.recording import NOWHERE, Failure, Place, Recording

CANDIDATES = 150  # of roles that are tried where dataflow does not tell them


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedMistake:
    """One mistake, as it is told: what it is, what is right, and where it stands."""

    name: str
    said: str
    instead: str
    stage: str
    line: int | None
    method: str
    weight: str

    @property
    def place(self) -> Place:
        return Place(line=self.line, method=self.method)

    @property
    def where(self) -> str:
        """The part, the method and the line, as far as they are known."""
        return ": ".join(part for part in (self.stage, str(self.place)) if part) or "the model as a whole"

    def __str__(self) -> str:
        place = str(self.place)
        right = f". Right: {self.instead}" if self.instead else ""
        return f"{self.said}{f' ({place})' if place else ''}{right}."


@dataclass(frozen=True, kw_only=True, eq=False)
class Diagnosis(Result):
    """What is right and what is not. ``explained``: the mistakes found reproduce the model's numbers exactly."""

    name: str
    parts: dict[str, str]  # stage -> "right", "mistake", "differs", "not reached"
    explained: bool
    mistakes: tuple[ReportedMistake, ...]
    notes: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()  # small ones from the reference, told as notes and no mistakes
    raised: Failure | None = None
    difference: float | None = None  # on the smallest input that shows one, where nothing explains it
    smallest: tuple[int, ...] | None = None
    not_observable: tuple[str, ...] = field(default=())
    unread: str = ""  # what could not be followed, and how to write it; then nothing is said about right or wrong

    @property
    def answer(self) -> bool:
        return self.explained and not self.mistakes and self.raised is None

    @property
    def first_difference(self) -> str | None:
        """The first part that nothing explains."""
        return next((stage for stage, verdict in self.parts.items() if verdict == "differs"), None)

    def __str__(self) -> str:
        lines = [self.name, *(f"{stage}: {verdict}" for stage, verdict in self.parts.items())]
        lines += [self.unread, self.difference_sentence(), *map(str, self.mistakes), *self.notes]
        return "\n".join(line for line in lines if line)

    def difference_sentence(self) -> str:
        """Where the numbers part from everything known, and by how much."""
        if self.first_difference is None or self.raised is not None or self.unread:
            return ""
        much = ""
        if self.difference is not None and self.smallest is not None:
            n, t = self.smallest[:2]
            shape = f"{n} sentence{'s' * (n != 1)} of {t} place{'s' * (t != 1)}"
            much = f" On {shape} the result differs by {self.difference:.3g}."
        return (
            f"No mistake we know gives the numbers of: {self.first_difference}.{much} It is a mistake, or a way "
            "to write it, that we do not know."
        )

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "answer": self.answer}


HIDES_FUTURE = frozenset({"mask-hides-future", "mask-hides-future-and-padding"})
HIDES_PADDING = ("mask-padding", "mask-padding-both", "mask-hides-future-and-padding")
TWINS = {  # the same with queries and keys exchanged, which nobody can see from outside
    "weights-turned": "the softmax over the queries instead of the keys",
    "softmax-over-queries": "the weights transposed before they meet the values",
}


def diagnose(
    recording: Recording,
    *,
    stages: tuple[str, ...] = WHOLE,
    padding: str = "either",
    accepted: frozenset[str] = frozenset(),
    tries: int = TRIES,
) -> Diagnosis:
    """Judge a recording. ``padding``: "masked", "read" or "either"; ``accepted`` departures are no mistakes."""
    roles = find_roles(recording, whole="output" in stages)
    if (
        "output" not in stages
    ):  # a part of somebody's decoder: exactly the triangular mask, which nobody writes by mistake
        accepted |= HIDES_FUTURE
    hidden = recording.runs[0].raised is None and "attention" in stages
    match = find_match(roles, recording, stages, tries=tries // 10 if hidden else tries)
    if not match.complete and hidden:
        candidates = [roles, *islice(solver(recording, roles).candidates(), CANDIDATES)]
        match = match_whole(candidates, recording, stages) or find_match(roles, recording, stages, tries=tries)
        if not match.complete and len(candidates) > 1:
            again = find_match(candidates[1], recording, stages, tries=tries)
            match = again if again.complete else match
        roles = match.roles
    reached = {"", *(stages if match.complete else stages[: match.reached])}
    findings = [one for one in find_findings(recording, match, stages=stages) if one.mistake.stage in reached]
    guessed = not match.complete and recording.runs[0].raised is None and "attention" in stages
    if guessed:  # half an explanation is none: only what needs no role is said
        match, findings = replace(match, mistakes=()), [one for one in findings if one.mistake.name in CERTAIN]
    every = [*(Finding(mistake=one) for one in match.mistakes), *findings, *_padding(match, recording, padding)]
    named = [
        report(one, match.roles)
        for one in every
        if one.mistake.weight is not Weight.VARIATION and one.mistake.name not in accepted
    ]
    named = _join_time_first(_without_echoes(named))
    # a tensor that does not follow the model, or another mistake, often fails in float32 as well: told once
    named = [one for one in named if one.name != "only-in-float64"] or named
    raised = recording.runs[0].raised
    unread = unread_sentence(match, stages) if guessed and not named and recording.parameters else ""
    measured = not match.complete and not recording.parameters  # with roles to assign, a number would be a guess
    departures = tuple(_departures(match, recording)) if match.complete else ()
    difference, smallest = _difference(match, recording, stages) if measured else (None, None)
    return Diagnosis(
        name=recording.name,
        parts=_parts(match, named, stages, raised=raised),
        explained=match.complete,
        mistakes=tuple(named),
        notes=(*departures, *_notes(match, findings, recording)),
        departures=departures,
        raised=raised,
        difference=difference,
        smallest=smallest,
        unread=unread,
        not_observable=("which of the two is called queries and which keys", "the order of the heads"),
    )


CERTAIN = {  # findings that rest on no role
    "unregistered", "dropout-in-eval", "random-in-forward", "unsteady", "fails-on-a-shape", "nan", "mask-thrown-away",
    "sentences-mixed", "positions-missing", "mask-hides-future", "only-in-eval", "only-without-gradients",
    "only-in-float64", "only-outside-training", "changes-with-calls", "half-precision",
    "reads-itself-only",
}  # fmt: skip
READABLE = {  # a way to write each part that is always understood, and where to look for it
    "embedding": ("x = tokens(ids) + positions(torch.arange(T))", ("tokens", "positions")),
    "attention": ("softmax(q @ k.transpose(-2, -1) / sqrt(d), dim=-1) @ v", ("softmax", "scores", "context")),
    "mixing": ("W_O of the heads side by side", ("mixing", "context")),
    "first sum and norm": ("nn.LayerNorm of x + mixed", ("norm 1", "sum 1")),
    "feed-forward": ("W_2(relu(W_1(y)))", ("inner", "outer")),
    "second sum and norm": ("nn.LayerNorm of y + f", ("norm 2", "sum 2")),
    "output": ("a linear layer of z, and nothing after it", ("output",)),
}


def unread_sentence(match: Match, stages: tuple[str, ...]) -> str:
    """Which line was not understood, and how it can be written so that it is."""
    stage = stages[min(match.reached, len(stages) - 1)]
    form, keys = READABLE[stage]
    place = str(next((match.roles.places[key] for key in keys if key in match.roles.places), NOWHERE))
    return (
        f"could not be read: what is done in the part {stage!r}{f' ({place})' if place else ''} is none of the ways to "
        f"write it that we can follow, so it may be right or wrong. Written as {form}, it can be checked."
    )


def solver(recording: Recording, roles: Roles) -> Solver:
    """Looks for roles by the numbers of the first run, where the way it is written did not tell them."""
    run = recording.runs[0]
    return Solver(recording, roles, numbers_in(run), start_values(run, recording.pad))


def report(finding: Finding, roles: Roles) -> ReportedMistake:
    """A finding as it is told, where it stands or where its role does."""
    one, place = finding.mistake, finding.place
    if place.line is None:
        place = next((roles.places[key] for key in one.at if key in roles.places), place)
    told = {"name": one.name, "said": one.said, "instead": one.instead, "stage": one.stage, "weight": one.weight.value}
    return ReportedMistake(**told, line=place.line, method=place.method)


def _padding(match: Match, recording: Recording, padding: str) -> list[Finding]:
    """Padding that is read where it should be hidden, or hidden where it should be read."""
    mask = match.mistake_at("mask")
    if not match.complete or padding == "either" or mask not in ("", "mask-padding", "mask-padding-both"):
        return []
    if (not mask) == (padding == "read"):
        return []
    return [find("padding-hidden" if mask else "padding-read")]


def _join_time_first(named: list[ReportedMistake]) -> list[ReportedMistake]:
    """Places and attention along the first axis, both: not two mistakes, but another order of axes."""
    both = [one for one in named if one.name in ("positions-by-sentence", "attention-between-sentences")]
    if len(both) < 2:
        return named
    turned = replace(
        both[0],
        name="time-first",
        said="the first axis is taken for time: ids (T, N) where (N, T) is given",
        instead="ids (N, T) and scores (N, T, words); ids.T at the beginning and a transpose at the end do it",
        weight=Weight.DEPARTURE.value,
    )
    return [turned, *(one for one in named if one not in both)]


def _without_echoes(named: list[ReportedMistake]) -> list[ReportedMistake]:
    """One entry for one thing: a mask that NaN betrays, a head that two looks have seen."""
    hidden = {"nan"} if any(one.name.startswith(("mask-", "softmax-")) for one in named) else set()
    kept: dict[str, ReportedMistake] = {}
    for one in named:
        if one.name not in hidden:
            kept.setdefault(f"{one.name} {one.line}" if one.name.startswith("norm") else one.name, one)
    return list(kept.values())


def _parts(
    match: Match, named: list[ReportedMistake], stages: tuple[str, ...], *, raised: Failure | None
) -> dict[str, str]:
    wrong = {one.stage for one in named}
    verdicts = {}
    for place, stage in enumerate(stages):
        if place < match.reached:
            verdicts[stage] = "mistake" if stage in wrong else "right"
        elif raised is not None:
            verdicts[stage] = "not finished" if place == match.reached else "not reached"
        else:
            verdicts[stage] = "differs" if place == match.reached else "not reached"
    return verdicts


def _notes(match: Match, findings: list[Finding], recording: Recording) -> list[str]:
    notes = [
        one.said
        for one in match.mistakes
        if one.weight is Weight.VARIATION and one.name.startswith(("positions", "norm"))
    ]
    notes += [one.mistake.said for one in findings if one.mistake.weight is Weight.VARIATION]
    mask = match.mistake_at("mask")
    if mask in HIDES_FUTURE:
        meant = "" if recording.future == "hidden" or recording.kind != "translator" else "; if that is meant, say so "
        meant += 'in the file: REGARD = {"future": "hidden"}' * bool(meant)
        notes.append(f"the future is hidden, by a triangular mask{meant}")
    if match.complete and not all(has_places_for(match.roles, one) for one in recording.fresh):
        notes.append("more than 200 places were not compared: the whole table of positions could not be found")
    if match.complete and recording.pad is not None and mask in ("", "mask-hides-future", *HIDES_PADDING):
        notes.append(f"padding (id {recording.pad}) is {'hidden' if mask in HIDES_PADDING else 'read like words'}")
    for one in match.mistakes:
        if one.name in TWINS and recording.kind != "attention" and not match.mistake_at("mask"):
            notes.append(f"{TWINS[one.name]} would give the same numbers, if what we call queries are your keys")
    return notes


def _departures(match: Match, recording: Recording) -> Iterator[str]:
    """Where a complete match is the reference but for a small thing that some write on purpose."""
    if match.tolerance == SINGLE:
        yield _reason_for_few_digits(match, recording)
    chosen = list(_chosen_norms(match).values())
    if any(one.kind == "layer, eps outside" for one in chosen):
        yield "a norm adds its small number outside the root: sqrt(variance) + eps, where sqrt(variance + eps) is asked"
    large = [one for one in chosen if one.eps > 1e-4]
    if large:
        to = "deviation" if large[0].kind.endswith("eps outside") else "variance"
        yield f"a norm adds {large[0].eps:g} to the {to}, where 1e-05 is usual"


def _chosen_norms(match: Match) -> dict[str, NormChoice]:
    return {name: one for name, one in match.switches.items() if isinstance(one, NormChoice)}


def _reason_for_few_digits(match: Match, recording: Recording) -> str:
    """Why the numbers agree to float32's digits: it is used; or a norm hides that its sum is doubled; or neither."""
    if any(has_few_digits(node.value, bits=24) for node in recording.runs[0].nodes):
        return "the numbers agree to float32 only: something inside is computed or stored in float32"
    norms = _chosen_norms(match)
    for factors in product((1, 2, 0.5, 2**0.5, 0.5**0.5), repeat=len(norms)):
        # norm(k u) is norm(u), but that k leaves the small number of the norm as it is
        scaled = {n: replace(norms[n], eps=norms[n].eps / k**2) for n, k in zip(norms, factors, strict=True)}
        exact = replace(match, switches={**match.switches, **scaled}, tolerance=EXACT)
        if not any(output_difference(exact, one, recording.pad) for one in (*recording.runs, *recording.fresh)):
            names = [f"{k:.3g} times the sum enters the {n}" for n, k in zip(norms, factors, strict=True) if k != 1]
            return f"{' and '.join(names)}, which takes the factor out again, but for the small number under its root"
    return "the numbers agree to 5 digits only: a constant is rounded, or a small number is another one"


def _difference(
    match: Match, recording: Recording, stages: tuple[str, ...]
) -> tuple[float | None, tuple[int, ...] | None]:
    """How far the right reference is from the model, on the smallest input where they differ."""
    switches = {"layout": "norm after", **_norms(match.roles), **match.switches}
    plain = Match(complete=False, mistakes=(), switches=switches, reached=0, roles=match.roles)
    runs = [one for one in (*recording.fresh, *recording.runs) if one.output is not None]
    for run in sorted(runs, key=lambda one: next(iter(one.inputs.values())).size):
        off = output_difference(plain, run, recording.pad, stages)
        if off and np.isfinite(off):
            return off, tuple(next(iter(run.inputs.values())).shape[:2])
    return None, None


def _norms(roles: Roles) -> dict[str, Any]:
    norms = [NormChoice(norm=n, eps=n.eps if n.eps is not None else roles.eps[0]) for n in roles.norms]
    norms += [NormChoice(norm=None, eps=1e-5)] * (2 - len(norms))
    return {"first norm": norms[0], "second norm": norms[1]}

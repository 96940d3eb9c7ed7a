"""The smallest explanation: which steps, replaced, make the reference give the model's own numbers.

Trying all pairs of mistakes would be slow, and more than pairs hopeless. So the search goes stage by stage, depth
first: a choice of steps survives a stage only if *its value occurs in the model's own trace* (as numbers, wherever
they lie: a layout-free test that loops, transposes and packed matrices do not disturb). Up to two mistakes are allowed
in a stage and four in all, fewest first. What reaches the end must equal the output on two inputs of different shape.

The limit counts tries, not seconds, so that what is found does not depend on how fast or busy the machine is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np

from regard.array_types import Array
from regard.coursework.checker.comparison import (
    EXACT,
    SINGLE,
    WHOLE,
    Match,
    is_close,
    is_crowded,
    masks_in,
    numbers_in,
    output_difference,
    start_values,
)
from regard.coursework.checker.role_solver import MASKS
from regard.mistakes.embedding import FORMULAS
from regard.mistakes.feed_forward import LAYOUTS, NORM_FIRST, NORM_KINDS, NormChoice
from regard.mistakes.layer import RIGHT, STAGES, Values, mistakes_of_stage
from regard.mistakes.mistake import Mistake, Weight, are_compatible
from regard.tracing.dataflow import Norm
from regard.tracing.embedding_tables import is_subset
from regard.tracing.parameter_roles import Roles
from regard.tracing.recording import Recording

IN_A_STAGE, IN_ALL = 2, 4
TRIES = 30_000  # five times what the hardest known pairs of mistakes took; about six seconds of a laptop
WORK = 6e9  # tries times numbers of a run: a small model is searched in full, a huge one not for hours
MOST_SINGLE = 12  # candidates that are tried with every single mistake: some seconds
# A stage's value can look right where only its layout is wrong; at the end of a segment that has shown.
SEGMENTS = (
    ("embedding", "attention", "mixing"),
    ("first sum and norm", "feed-forward"),
    ("second sum and norm", "output"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """Steps of one stage that are replaced, and the mistakes that they are."""

    switches: dict[str, Any] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()

    @property
    def cost(self) -> int:
        return sum(one.cost for one in self.mistakes)


@dataclass(eq=False)
class Branch:
    """A way through the first stages: the values for each input, what was chosen, and what can follow by cost."""

    roles: Roles
    values: list[Values]
    choice: Choice
    stage: int
    following: dict[int, list[Branch]] = field(default_factory=dict)


class Search:
    """One search over the stages of one recording."""

    def __init__(
        self, roles: Roles, recording: Recording, stages: Sequence[str] = WHOLE, *, tolerance: float, tries: int
    ) -> None:
        self.roles, self.stages, self.tolerance, self.left = roles, tuple(stages), tolerance, tries
        self.runs = [one for one in recording.runs if one.output is not None] or list(recording.runs[:1])
        self.there = [numbers_in(one) for one in self.runs]
        self.broken = [one.output is not None and not np.isfinite(one.output).all() for one in self.runs]
        self.masks, self.causal = masks_in(self.runs[0])
        started = [start_values(one, recording.pad) for one in self.runs]
        self.roots = [
            Branch(roles, started, choice, 0)
            for roles in (roles, roles.swap_queries_and_keys())
            for choice in self._layouts()
        ]

    def _layouts(self) -> list[Choice]:
        """The norm after the sums, which is right, or before the parts."""
        after = Choice(switches={"layout": "norm after"})
        first = Choice(switches=dict(NORM_FIRST.replaces), mistakes=(NORM_FIRST,))
        return [after, first] if "first sum and norm" in self.stages and self.roles.norms else [after]

    def best_branch(self) -> Branch | None:
        """The way to the end with the fewest mistakes, segment by segment."""
        return self._solve(self.roots, 0, IN_ALL)

    def furthest_branch(self, *, written: bool) -> Branch:
        """How far a model can be explained that stops half-way (or, if ``written``, that nothing explains to its end).

        As far as it is right, or to the end of a segment with mistakes: inside a segment a left-out step looks like a
        step that is not written yet or not known, so mistakes count at its end only.
        """
        plain = [root for root in self.roots if not root.choice.cost]
        ends = [max((self.stages.index(s) + 1 for s in seg if s in self.stages), default=0) for seg in SEGMENTS[:2]]
        there = {"attention": self.roles.attends, "mixing": self.roles.mixing, "feed-forward": self.roles.outer}
        missing = [i for i, s in enumerate(self.stages) if s in there and not there[s] and not written]
        furthest = min(missing, default=len(self.stages))
        best, right = plain[0], 0
        for cost in range(IN_A_STAGE + 1):
            stops = [stop for stop in (range(1, len(self.stages)) if cost == 0 else ends) if stop <= furthest]
            for stop in stops:
                through = [end for root in plain for end in self._branches_to(root, stop, cost)]
                through = [end for end in through if self._are_needed(end.choice.mistakes, right)]
                best = through[0] if through and through[0].stage > best.stage else best
            right = best.stage if cost == 0 else right
        for stop in range(best.stage + 1, min(furthest, len(self.stages) - 1) + 1):  # right after mistakes, too
            best = next(iter(self._branches_to(best, stop, 0)), best)
        return best

    def _are_needed(self, mistakes: tuple[Mistake, ...], right: int) -> bool:
        """Whether no mistake is in a stage that is explained without it: where the end is not, that would be a guess.

        Attention is another matter, since its numbers can be right and lie in the wrong places.
        """
        explained = [stage for stage in self.stages[:right] if stage not in SEGMENTS[0]]
        return not any(one.cost and one.stage in explained for one in mistakes)

    def _solve(self, branches: list[Branch], place: int, left: int) -> Branch | None:
        """Fewest mistakes first within a segment; the next segment decides between those that get through it."""
        if place == len(SEGMENTS):
            return branches[0]
        stop = max((self.stages.index(s) + 1 for s in SEGMENTS[place] if s in self.stages), default=0)
        for cost in range(left + 1):
            through: list[Branch] = []
            for branch in branches:
                own = branch.choice.cost if place == 0 else 0  # norms first count as a mistake of the first segment
                through += self._branches_to(branch, stop, cost - own)
            if through and (done := self._solve(through, place + 1, left - cost)) is not None:
                return done
            if self.left <= 0:
                return None
        return None

    def _branches_to(self, branch: Branch, stop: int, cost: int) -> list[Branch]:
        """All ways from here to the end of a segment that cost exactly this much."""
        if cost < 0 or self.left <= 0:
            return []
        if branch.stage >= stop:
            return [branch] if cost == 0 else []
        return [
            end
            for spent in range(min(cost, IN_A_STAGE) + 1)
            for child in self._children(branch, spent)
            for end in self._branches_to(child, stop, cost - spent)
        ]

    def _children(self, branch: Branch, cost: int) -> list[Branch]:
        if cost not in branch.following:
            branch.following[cost] = list(self._surviving_branches(branch, cost))
        return branch.following[cost]

    def _surviving_branches(self, branch: Branch, cost: int) -> Iterator[Branch]:
        stage = self.stages[branch.stage]
        name, function = STAGES[stage]
        last = branch.stage == len(self.stages) - 1
        seen: set[bytes] = set()  # switches that make no difference would multiply the branches
        for choice in self.choices(stage, branch, cost):
            if self.left <= 0:
                return
            self.left -= 1
            switches = {**branch.choice.switches, **choice.switches}
            made: list[Values] = []
            for place, values in enumerate(branch.values):
                try:
                    with np.errstate(all="ignore"):
                        value = function(branch.roles, values, {**RIGHT, **switches})
                except (ValueError, IndexError, LookupError, np.exceptions.AxisError):
                    break  # these switches do not fit these shapes
                if place == 0 and value.tobytes() in seen:
                    break
                if not self._occurs(value, place, last=last) and not self._occurs_without_bias(stage, value, place):
                    break
                made.append(values.with_value(name, value))
            if len(made) == len(branch.values):
                seen.add(made[0][name].tobytes())
                together = Choice(switches=switches, mistakes=branch.choice.mistakes + choice.mistakes)
                yield Branch(branch.roles, made, together, branch.stage + 1)

    def _occurs(self, value: Array, place: int, *, last: bool) -> bool:
        if last:
            return is_close(value, self.runs[place].output, self.tolerance)
        finite = value[np.isfinite(value)]
        if finite.size < value.size and not self.broken[place]:
            return False
        if not (np.abs(finite) > 1e-12).any() and not self.broken[place]:
            return False  # zeros occur everywhere
        # that all of 400 numbers occur is no chance, and more would only take time
        return is_subset(finite[:: max(1, finite.size // 400)], self.there[place], tolerance=self.tolerance)

    def _occurs_without_bias(self, stage: str, value: Array, place: int) -> bool:
        """In x + c @ W + b the part c @ W + b never stands alone."""
        part = {"mixing": self.roles.mixing, "feed-forward": self.roles.outer}.get(stage)
        return part is not None and part.bias is not None and self._occurs(value - part.bias, place, last=False)

    # what can be chosen

    def choices(self, stage: str, branch: Branch, cost: int) -> Iterator[Choice]:
        """The switches of a stage that cost exactly this much."""
        extras = self._extra_choices(stage, branch, first=branch.choice.switches["layout"] == "norm first")
        for listed in combine_mistakes(self._stage_mistakes(stage), cost):
            for extra in extras:
                if listed.cost + extra.cost == cost:
                    yield Choice(
                        switches={**extra.switches, **listed.switches}, mistakes=listed.mistakes + extra.mistakes
                    )

    def _stage_mistakes(self, stage: str) -> list[Mistake]:
        return [one for one in mistakes_of_stage(stage, self.roles.numbers) if self._is_possible(one)]

    def _is_possible(self, one: Mistake) -> bool:
        if one.step == "mask":
            return self.causal if one.name in CAUSAL_MASKS else self.masks
        return bool(self.roles.tables) or one.step != "rows" or one.name == "positions-missing"

    def _extra_choices(self, stage: str, branch: Branch, *, first: bool) -> list[Choice]:
        """Choices that depend on what the model has: tables of positions, and norms."""
        if stage == "embedding":
            return [
                _merge_choices(a, b)
                for a in self._tables()
                for b in self._norm_or_none(stage, branch, "embedding norm", 0)
            ]
        if stage == "attention" and first:
            return self._norms("first norm", branch, "x", 1, stage)
        if stage == "first sum and norm" and not first:
            return self._norms("first norm", None, "", 1, stage)
        if stage == "feed-forward" and first:
            return _mark_echoes(self._norms("second norm", branch, "y", 2, stage), branch)
        if stage == "second sum and norm" and not first:
            return _mark_echoes(self._norms("second norm", None, "", 2, stage), branch)
        if stage == "output":
            return self._norm_or_none(stage, branch, "last norm", 3, free=first)
        return [Choice()]

    def _tables(self) -> list[Choice]:
        roles = self.roles
        if roles.learned_positions or not roles.tables:
            return [Choice(switches={"table": place}) for place in range(max(1, len(roles.tables)))]
        formulas = [Choice(switches=dict(one.replaces), mistakes=(one,)) for one in FORMULAS]
        own = [
            Choice(switches={"table": i}, mistakes=(one,))
            for i, table in enumerate(roles.tables)
            for one in [one for one in FORMULAS if _is_about(table, one.function(*table.shape))] or [UNKNOWN_TABLE]
        ]
        return [*formulas, *own]

    def _norm_or_none(
        self, stage: str, branch: Branch, switch: str, number: int, *, free: bool = False
    ) -> list[Choice]:
        """A further norm where the model asked for has none: free after a stack that norms first, else a departure."""
        none = [Choice()]
        if len(self.roles.norms) < 3 and not (free or switch == "embedding norm"):
            return none
        further = Mistake(
            name=switch.replace(" ", "-"),
            stage=stage,
            said="a norm on the embedding" if number == 0 else "a further norm before the output",
            instead="the model asked for has two norms, one after each sum",
            at=(f"norm {max(number, 1)}",),
            weight=Weight.VARIATION if free else Weight.DEPARTURE,
        )
        kinds = [one for one in self._norms(switch, None, "", max(number, 1), stage) if not one.mistakes]
        return none + [Choice(switches=one.switches, mistakes=(further,)) for one in kinds]

    def _norms(self, switch: str, branch: Branch | None, of: str, number: int, stage: str) -> list[Choice]:
        """The norms that the model has, each with the ways of taking it; those that occur in the trace, if asked."""
        choices = [
            Choice(switches={switch: one}, mistakes=one.mistakes(stage, number)) for one in norm_choices(self.roles)
        ]
        if branch is None or not of:
            return choices
        kept = []
        for one in choices:
            made = [one.switches[switch](values[of]) for values in branch.values]
            if all(self._occurs(value, place, last=False) for place, value in enumerate(made)):
                kept.append(one)
        return kept


CAUSAL_MASKS = ("mask-hides-future", "mask-hides-past", "mask-hides-itself", "mask-hides-future-and-itself")
UNKNOWN_TABLE = Mistake(
    name="positions-unknown-table",
    stage="embedding",
    said="constants in the place of learned positions that are no sinusoidal table we know",
    instead="a learned table, or columns 2i and 2i+1 with sin and cos of t / 10000^(2i/d)",
    at=("positions",),
)


def _is_about(table: Array, exact: Array) -> bool:
    """Whether a table of sines is that of a formula but for angles in float32, whose error grows with the place."""
    return bool((np.abs(table - exact) <= 1e-6 * (1 + np.arange(len(table)))[:, None]).all())


def norm_choices(roles: Roles) -> list[NormChoice]:
    """Every learned pair of gain and shift with every way of normalising; torch's own way where torch does it."""
    choices: list[NormChoice] = []
    for index, norm in enumerate(roles.norms):
        # the same norm twice would double the search at each place for one
        if any(norm.same(other) and norm.eps == other.eps for other in roles.norms[:index]):
            continue
        if norm.eps is not None:
            kinds = ("layer",) if norm.gain is None or norm.gain.ndim == 1 else tuple(NORM_KINDS)
            choices += [NormChoice(norm=norm, eps=norm.eps, kind=kind, index=index) for kind in (*kinds, "sentence")]
        else:
            choices += [NormChoice(norm=norm, eps=e, kind=k, index=index) for k in NORM_KINDS for e in roles.eps]
    if not roles.norms or all(norm.eps is None for norm in roles.norms):
        choices += [NormChoice(norm=None, eps=e, kind=k) for k in NORM_KINDS for e in roles.eps]
    return choices


def combine_mistakes(known: list[Mistake], cost: int) -> Iterator[Choice]:
    """At most one mistake for each step, of this cost or less; plain ones first, few variations beside mistakes."""
    free, real = [one for one in known if one.cost == 0], [one for one in known if one.cost]
    for count in range(cost + 1):
        for wrong in filter(are_compatible, combinations(real, count)):
            for extra in range(3 - count + 1):
                for varied in combinations(free, extra):
                    if are_compatible(both := (*wrong, *varied)):
                        steps = {step: function for one in both for step, function in one.replaces.items()}
                        yield Choice(switches=steps, mistakes=both)


def _mark_echoes(choices: list[Choice], branch: Branch) -> list[Choice]:
    """The second norm taken in the same wrong way as the first is the same mistake, not another one."""
    before = {mistake.name for mistake in branch.choice.mistakes}
    return [
        Choice(
            switches=one.switches,
            mistakes=tuple(replace(m, echo=True) if m.name in before else m for m in one.mistakes),
        )
        for one in choices
    ]


def _merge_choices(one: Choice, other: Choice) -> Choice:
    return Choice(switches={**one.switches, **other.switches}, mistakes=one.mistakes + other.mistakes)


def affordable_tries(recording: Recording) -> int:
    """How many tries a recording of its size gets: work is bounded, whatever somebody sends."""
    numbers = max(sum(node.value.size for node in run.nodes if node.value is not None) for run in recording.runs)
    return int(min(TRIES, max(50, WORK / max(numbers, 1))))


def find_match(roles: Roles, recording: Recording, stages: Sequence[str] = WHOLE, *, tries: int = TRIES) -> Match:
    """Search with the roles as they are and with queries and keys exchanged; then again for float32 inside."""
    best: Match | None = None
    for tolerance in (EXACT, SINGLE):
        search = Search(roles, recording, stages, tolerance=tolerance, tries=tries)
        # to float32's digits nearly any number would be found in such a trace
        if best is not None and is_crowded(search.there[0], tolerance):
            break
        if recording.runs[0].raised is not None:
            return _match(search, search.furthest_branch(written=False), complete=False)
        end = search.best_branch()
        search.left = tries // 5  # the first search may have used up all of them
        branch = end if end is not None else search.furthest_branch(written=True)
        one = _match(search, branch, complete=end is not None)
        if one.complete:
            return one
        best = one if best is None or one.reached > best.reached else best
    if best is None:
        raise LookupError("nothing was searched")
    return best


def match_whole(candidates: Sequence[Roles], recording: Recording, stages: Sequence[str] = WHOLE) -> Match | None:
    """The first roles with which the reference, at rest or with one mistake, gives every output: no value in between
    is looked at."""
    runs = [one for one in (*recording.runs[1:], recording.runs[0], *recording.fresh) if one.output is not None]
    for single in (False, True):
        for roles in candidates[:MOST_SINGLE] if single else candidates:
            for choice in _whole_choices(roles, recording, stages, single=single):
                match = Match(
                    complete=True, mistakes=choice.mistakes, switches=choice.switches, reached=len(stages), roles=roles
                )
                if runs and not any(output_difference(match, one, recording.pad, stages) for one in runs):
                    return match
    return None


def _whole_choices(roles: Roles, recording: Recording, stages: Sequence[str], *, single: bool) -> Iterator[Choice]:
    """At rest: every mask that is no mistake, both norms in either order. Single: one mistake beside such a mask."""
    padding, causal = masks_in(recording.runs[0])
    # a mask of plain numbers, made by ids.tolist(), leaves no trace
    masks = [Choice()] + [
        Choice(switches=dict(one.replaces), mistakes=(one,)) for one in MASKS if padding or not single
    ]
    norms = list(_norm_pairs(roles))
    if not single:
        for pair in norms:
            yield from (_merge_choices(pair, mask) for mask in masks)
        return
    wrong = [one for stage in stages for one in mistakes_of_stage(stage, roles.numbers) if one.cost]
    wrong += LAYOUTS if "first sum and norm" in stages else []
    wrong = [one for one in wrong if one.step != "mask" or (causal if one.name in CAUSAL_MASKS else padding)]
    ways = [Choice(switches=dict(one.replaces), mistakes=(one,)) for one in wrong]
    for pair in [one for one in norms if one.switches["first norm"] is not one.switches["second norm"]][::2] or norms:
        yield from (_merge_choices(pair, _merge_choices(mask, way)) for way in ways for mask in masks)
        yield from (_merge_choices(way, mask) for way in _wrong_norms(pair) for mask in masks)


def _norm_pairs(roles: Roles) -> Iterator[Choice]:
    """The first norm and the second, each with its small number; then one of them twice, and the other order."""
    known: list[Norm | None] = [*roles.norms[:2]] or [None]
    for eps in dict.fromkeys([*(n.eps for n in known if n is not None and n.eps is not None), *roles.eps[:3]]):
        made = [NormChoice(norm=n, eps=eps if n is None or n.eps is None else n.eps) for n in known]
        for pair in [*combinations(made, 2), *((one, one) for one in made), *combinations(made[::-1], 2)]:
            yield _both_norms({"layout": "norm after", "first norm": pair[0], "second norm": pair[1]})
        if all(n is not None and n.eps is not None for n in known):
            return


def _wrong_norms(pair: Choice) -> Iterator[Choice]:
    """One norm, or both in the same way, over other axes or with another denominator."""
    for kind in NORM_KINDS:
        for which in (("first", "second"), ("first",), ("second",)):
            taken = {f"{word} norm": replace(pair.switches[f"{word} norm"], kind=kind) for word in which}
            yield _both_norms({**pair.switches, **taken})


def _both_norms(switches: dict[str, Any]) -> Choice:
    """Two norms and what is wrong with them; the same mistake in the second counts no further."""
    first = switches["first norm"].mistakes("first sum and norm", 1)
    second = switches["second norm"].mistakes("second sum and norm", 2)
    known = {one.name for one in first}
    return Choice(switches=switches, mistakes=(*first, *(replace(one, echo=one.name in known) for one in second)))


def _match(search: Search, branch: Branch, *, complete: bool) -> Match:
    return Match(
        complete=complete,
        mistakes=branch.choice.mistakes,
        switches=branch.choice.switches,
        reached=branch.stage,
        roles=branch.roles,
        tolerance=search.tolerance,
    )

"""What an assignment is: questions with points, a rule for part of the points, a deadline, and what students are shown.

What decides a verdict (the claim, its sizes, the limits) has a digest, so that an answer is run again only when that
has changed; points, hints and the late policy can be changed at any time, and the marks follow.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.coursework.answers.answer_check import Stage
from regard.coursework.question import Question
from regard.declared_tables import entry
from regard.errors import InputError
from regard.written_numbers import in_full

STEPS = 2  # the rule of the steps; with another one an answer is run again
ORDER = (Stage.PLAIN, Stage.TRAPS, Stage.ENDS, Stage.RANDOM, Stage.ADVERSARY)
LADDER = {Stage.PLAIN: 0.2, Stage.TRAPS: 0.1, Stage.ENDS: 0.2, Stage.RANDOM: 0.3, Stage.ADVERSARY: 0.2}
STAGES = {
    Stage.PLAIN: "the smallest and plainest instances",
    Stage.RANDOM: "random instances",
    Stage.TRAPS: "instances that are hard on purpose",
    Stage.ENDS: "the smallest or largest inputs",
    Stage.ADVERSARY: "an adversary that looks for a failure",
}
NOT_BLANK: dict[str, Any] = {"test": str.strip, "form": "text that is not blank"}


class Kind(StrEnum):
    """How a question is decided."""

    CLAIM = "claim"  # a function, by the claim's own judge
    OWN = "own"  # a function, by the teacher's judge
    STATEMENTS = "statements"  # true or false, other statements for each student
    PERPLEXITY = "perplexity"  # a translator's, on sentences that nobody has seen
    TRANSFORMER = "transformer"  # a class, part by part
    AUDIT = "audit"  # a torch model, by what must hold for any of its kind
    WRITTEN = "written"  # by a person, with a checklist
    DERIVATION = "derivation"  # a proof in words and formulas, line by line


DERIVATION_SHARES = (0.5, 0.4, 0.1)  # lines, goal, lemmas; without lemmas, theirs go to the goal


class Reveal(StrEnum):
    """What a student is told of a lost point, besides the hint."""

    MARK = "mark"  # only how many points
    REASON = "reason"  # and at which stage, and why
    COUNTEREXAMPLE = "counterexample"  # and the smallest instance found at which it fails


@dataclass(frozen=True, kw_only=True)
class LatePolicy:
    """What a late submission loses: a share of its points for each day begun, and all of them after some days."""

    per_day: float = entry(0.0, "the share of the points that each day costs", least=0, most=1)
    most_days: int = entry(0, "after so many days nothing is left; 0: no end", least=0, most=365)
    grace_minutes: float = entry(0.0, "minutes that are not counted", least=0, most=10_000)

    def kept_share(self, late: timedelta) -> float:
        """The share of the points that stays.

        >>> late = timedelta(hours=30)
        >>> LatePolicy(per_day=0.25).kept_share(late), LatePolicy(per_day=0.25, most_days=1).kept_share(late)
        (0.5, 0.0)
        """
        if late <= timedelta(minutes=self.grace_minutes):
            return 1.0
        days = math.ceil(late / timedelta(days=1))
        return 0.0 if self.most_days and days > self.most_days else max(0.0, 1 - self.per_day * days)

    def __str__(self) -> str:
        if not self.per_day and not self.most_days:
            return "A late submission loses nothing."
        lost = f"A late submission loses {self.per_day:.0%} of its points for each day begun"
        end = f", and after {self.most_days} day{'s' * (self.most_days != 1)} all of them" if self.most_days else ""
        grace = f"; {self.grace_minutes:g} minutes are not counted" if self.grace_minutes else ""
        return f"{lost}{end}{grace}."


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much each answer is tried: work, the same on every machine; and seconds, which only stop what hangs."""

    instances: int = entry(60, "instances that an answer is tried with", least=10, most=10_000)
    moves: int = entry(40, "of the adversary, from each of the three tightest instances", least=0, most=10_000)
    seconds: float = entry(60.0, "after which an answer that hangs is stopped", least=1, most=3600)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a checklist: what must be there, what it should come to (for who marks), and its weight."""

    text: str = entry(about="each line is a sentence, or {text = '...', points = 1, key = '...'}", **NOT_BLANK)
    key: str = entry("", "what it should come to, for who marks")
    points: float = entry(1.0, "its weight among the lines", least=0.01, most=1000)


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """One question of an assignment."""

    id: str
    kind: Kind
    points: float
    function: str = ""  # what the student writes
    claim: str = ""
    sizes: Mapping[str, float] = field(default_factory=dict)
    text: str = ""  # instead of the claim's
    hint: str = ""
    reveal: Reveal = Reveal.COUNTEREXAMPLE
    ladder: Mapping[Stage, float] = field(default_factory=lambda: LADDER)
    file: Path | None = None  # of the teacher
    within: float = 0.0  # times the best possible that an answer may be; 0: any right answer
    checklist: tuple[Line, ...] = ()
    count: int = 4  # of statements
    good: float = 0.0  # perplexity: up to here all points,
    bad: float = 0.0  # from here on none
    weights: str = ""  # the file of weights that is handed in beside the code; then there is torch

    @cached_property
    def question(self) -> Question:
        """What the runner asks, under the name of the student's function; only for tasks that a function answers."""
        return replace(_question_by_kind(self), function=self.function)

    @property
    def asks_for_words(self) -> bool:
        return self.kind in (Kind.WRITTEN, Kind.DERIVATION)

    @property
    def asks_for_function(self) -> bool:
        return self.kind in (Kind.CLAIM, Kind.OWN, Kind.STATEMENTS, Kind.PERPLEXITY)

    def checklist_share(self, ticks: list[bool]) -> float:
        """The share of the points that these lines of the checklist are."""
        total = sum(line.points for line in self.checklist)
        return sum(line.points for line, tick in zip(self.checklist, ticks, strict=True) if tick) / total

    def outcome_inputs(self, limits: Limits) -> dict[str, Any]:
        """Everything that the outcome of running an answer hangs on."""
        own = hashlib.sha256(self.file.read_bytes()).hexdigest() if self.file is not None else ""
        return {
            "kind": self.kind.value,
            "steps": STEPS,
            "claim": self.claim,
            "sizes": dict(self.sizes),
            "file": own,
            "count": self.count if self.kind is Kind.STATEMENTS else 0,
            "function": self.function,
            "within": self.within,
            "weights": self.weights,
            "limits": [limits.instances, limits.moves],
        }

    def digest(self, limits: Limits) -> str:
        """A short name for what decides this question."""
        return hashlib.sha256(json.dumps(self.outcome_inputs(limits), sort_keys=True).encode()).hexdigest()[:16]

    def rule(self) -> str:
        """How points are given, in one sentence."""
        if self.kind is Kind.WRITTEN:
            return f"A person marks it, with a checklist of {len(self.checklist)} lines."
        if self.kind is Kind.DERIVATION:
            lines, goal, lemmas = (f"{share:.0%}" for share in DERIVATION_SHARES)
            return (
                f"{lines} for lines that follow, {goal} for reaching the goal, {lemmas} for the lemmas that it needs; "
                "after a false line nothing counts, and a line that is true but not proved waits for a person."
            )
        if self.kind is Kind.STATEMENTS:
            return "Right answers minus wrong ones, as a share of all; what is left out (-1) counts nothing."
        if self.kind is Kind.PERPLEXITY:
            none = f"none from {in_full(self.bad)} on"
            return f"All points up to a perplexity of {in_full(self.good)}, {none}, by its logarithm between."
        if self.kind in (Kind.TRANSFORMER, Kind.AUDIT):
            return "The share of the parts that are right." if self.kind is Kind.TRANSFORMER else "All or nothing."
        best = f", and at most {in_full(self.within)} times the best possible" if self.within else ""
        if len(self.ladder) == 1:
            return f"All points if no failure is found{best}, else none."
        steps, sum_ = [], 0.0
        for stage in (stage for stage in ORDER[:3] if self.ladder.get(stage)):
            sum_ += self.ladder[stage]
            steps.append(f"{sum_:.0%} with {STAGES[stage]}")
        if sum_ < 1 - 1e-9:
            steps.append("all with random instances and an adversary that looks for a failure")
        return f"Step by step, as far as no instance fails: {', '.join(steps)}{best}."


@dataclass(frozen=True, kw_only=True, eq=False)
class Assignment:
    """A problem set to be handed in."""

    name: str
    title: str
    tasks: tuple[Task, ...]
    path: Path
    deadline: datetime | None = None
    late: LatePolicy = LatePolicy()
    limits: Limits = Limits()

    @property
    def points(self) -> float:
        return sum(task.points for task in self.tasks)

    def task(self, id: str) -> Task:
        return next(task for task in self.tasks if task.id == id)


def _question_by_kind(task: Task) -> Question:
    if task.kind is Kind.CLAIM:
        from regard.coursework.catalogue import claims

        question = claims[task.claim].question
        if question is None:
            raise InputError(f"{task.claim} asks for words, not for something to construct; use kind = 'written'.")
        return question
    if task.kind is Kind.OWN and task.file is not None:
        from regard.grading.questions.own_question import question_of

        return question_of(task.file)
    if task.kind is Kind.PERPLEXITY and task.file is not None:
        from regard.grading.questions.perplexity import question_of as next_word

        return next_word(task.file, weights=bool(task.weights))
    if task.kind is Kind.STATEMENTS:
        from regard.grading.questions.statements import statements_question

        return statements_question(task.count)
    raise InputError(f"Question {task.id!r} of kind {task.kind.value} is not answered by a function.")

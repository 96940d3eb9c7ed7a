"""Reading an assignment's TOML file: every key known, every number in its range, and all mistakes at once."""

from __future__ import annotations

import keyword
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from regard.coursework.answers.answer_check import Stage
from regard.coursework.catalogue import claims
from regard.coursework.derivations.problem import problem_names, read_problem
from regard.declared_tables import Mistakes, entry, read_table
from regard.errors import InputError
from regard.grading.questions.assignment import LADDER, Assignment, Kind, LatePolicy, Limits, Line, Reveal, Task
from regard.grading.questions.own_question import JudgeError, question_of
from regard.grading.questions.perplexity import read_hidden_sentences
from regard.grading.submissions.archives import WEIGHTS
from regard.toml import read_toml

LIKE = "what regard assignment new cse151b-hw4 writes"
MOST_QUESTIONS = 100
KINDS_WITH_A_CLAIM = (Kind.CLAIM, Kind.TRANSFORMER)
PARTIAL: dict[str, Any] = {
    "test": lambda given: isinstance(given, dict) or given in ("steps", "all or nothing"),
    "form": "'steps', 'all or nothing', or a table of shares",
}


def printable(most: int) -> dict[str, Any]:
    """The rule of a short name."""
    return {
        "test": lambda text: text.strip() and len(text) <= most and text.isprintable(),
        "form": f"1 to {most} printable characters",
    }


@dataclass(frozen=True, kw_only=True)
class _AssignmentTable:
    name: str = entry("", "a short name", **printable(80))
    title: str = entry("", "the headline")
    deadline: datetime | None = entry(
        None,
        "until when it may be handed in",
        test=lambda given: given.tzinfo is not None,
        form="a date with time and zone, as in 2026-11-20T23:59:00+01:00",
    )
    reveal: Reveal = entry(Reveal.COUNTEREXAMPLE, "what students are told of a lost point")
    partial: str | dict[str, Any] = entry("steps", "which share of the points each step is", **PARTIAL)
    late: dict[str, Any] = entry({}, "what a late submission loses", form="a table, as in [late]")
    limits: dict[str, Any] = entry({}, "how much each answer is tried", form="a table, as in [limits]")
    question: list[Any] = entry(
        [],
        "what is asked",
        test=lambda given: given and all(isinstance(one, dict) for one in given),
        form="one table or more, each written [[question]] with an id and a claim",
    )


@dataclass(frozen=True, kw_only=True)
class _TaskTable:
    id: str = entry("", "its name on the marks", **printable(40))
    kind: Kind | None = entry(None, "how it is decided; without it, as its claim is")
    claim: str = entry("", "the claim that it asks for")
    points: int | float = entry(1, "what it is worth", least=0, most=1000)
    function: str = entry(
        "",
        "the function that students write",
        test=lambda name: name.isidentifier() and not keyword.iskeyword(name) and name.isascii(),
        form="a name that Python takes, as in query_3b",
    )
    hint: str = entry("", "what is told beside a lost point")
    text: str = entry("", "what is asked, instead of the claim's text")
    reveal: Reveal | None = entry(None, "as for the assignment, for this question")
    partial: str | dict[str, Any] = entry("", "as for the assignment, for this question", **PARTIAL)
    set: dict[str, Any] = entry({}, "sizes of the claim's instances", form="a table, as in {n = 7}")
    file: str = entry("", "the teacher's own file, beside the assignment")
    checklist: list[Any] = entry(
        [], "by which a person marks", test=lambda lines: len(lines) <= 30, form="a list of at most 30 lines"
    )
    count: int = entry(4, "how many statements each student gets", least=1, most=20)
    good: int | float = entry(10.0, "the perplexity up to which all points are given", least=1, most=1e9)
    bad: int | float = entry(100.0, "the perplexity from which on none are", least=1, most=1e9)
    within: int | float = entry(0.0, "times the best possible that an answer may be", least=0, most=1e9)
    weights: str = entry(
        "",
        "the file of weights that is handed in beside the code",
        test=lambda name: not name or (name.endswith(WEIGHTS) and "/" not in name and "\\" not in name),
        form=f"the name of a {WEIGHTS} file that students hand in",
    )


def read_assignment(path: str | os.PathLike[str]) -> Assignment:
    """The assignment of a TOML file; InputError with every mistake of it, one line each."""
    place = Path(path)
    try:
        table = read_toml(place, like=LIKE)
    except FileNotFoundError:
        raise InputError(f"{place}: there is no such file; regard assignment new writes one.") from None
    mistakes = Mistakes(str(place))
    assignment = _assignment(table, place, mistakes)
    mistakes.raise_if_any()
    return assignment


def _assignment(raw: dict[str, Any], place: Path, mistakes: Mistakes) -> Assignment:
    table = read_table(_AssignmentTable, {"name": place.stem, "question": [], **raw}, mistakes) or _AssignmentTable()
    ladder = _ladder("", table.partial, LADDER, mistakes)
    if len(table.question) > MOST_QUESTIONS:
        mistakes.add(f"there are {len(table.question)} questions, and at most {MOST_QUESTIONS} are taken.")
    tasks = tuple(
        _Reader(n, one, place, mistakes).task(table.reveal, ladder)
        for n, one in enumerate(table.question[:MOST_QUESTIONS], 1)
    )
    _refuse_twins(tasks, mistakes)
    return Assignment(
        name=table.name,
        title=table.title if "title" in raw else table.name,
        tasks=tasks,
        path=place,
        deadline=table.deadline,
        late=read_table(LatePolicy, table.late, mistakes, where="[late]: ") or LatePolicy(),
        limits=read_table(Limits, table.limits, mistakes, where="[limits]: ") or Limits(),
    )


def _ladder(
    where: str, partial: str | dict[str, Any], default: Mapping[Stage, float], mistakes: Mistakes
) -> Mapping[Stage, float]:
    """Shares of the points by stage; ``partial = "all or nothing"`` is one step."""
    if not isinstance(partial, dict):
        return {Stage.ADVERSARY: 1.0} if partial == "all or nothing" else default
    shares = vars(read_table(_Shares, partial, mistakes, where=f"{where}partial: ") or _Shares())
    if not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-9):  # shares like 0.1 + 0.2 + 0.7 sum to 1 up to rounding
        mistakes.add(f"{where}the shares of partial must sum to 1; they sum to {sum(shares.values()):g}.")
        return default
    return {stage: shares[stage] for stage in Stage if stage in partial}


_Shares: Any = make_dataclass("_Shares", [(stage, float, entry(0.0, least=0, most=1)) for stage in Stage])


class _Reader:
    """One question: its table, and where it stands, for the sentences about it."""

    def __init__(self, number: int, raw: dict[str, Any], place: Path, mistakes: Mistakes) -> None:
        self.raw, self.place, self.mistakes = raw, place, mistakes
        id = raw.get("id")
        self.where = (
            f"question {number} ({id}): " if isinstance(id, str) and id != str(number) else f"question {number}: "
        )
        self.table = read_table(_TaskTable, {"id": str(number), **raw}, mistakes, where=self.where) or _TaskTable()
        self.claim = self._claim()
        self.kind = self._kind()

    def add(self, sentence: str) -> None:
        self.mistakes.add(f"{self.where}{sentence}")

    def task(self, reveal: Reveal, ladder: Mapping[Stage, float]) -> Task:
        table, perplexity = self.table, self.kind is Kind.PERPLEXITY
        if perplexity and not table.good < table.bad:
            self.add(f"good, {table.good:g}, must be below bad, {table.bad:g}: a smaller perplexity is better.")
        return Task(
            id=table.id,
            kind=self.kind,
            points=table.points,
            function=self._function(),
            claim=self.claim,
            sizes=self._sizes(),
            text=table.text,
            hint=table.hint,
            reveal=table.reveal or reveal,
            ladder=_ladder(self.where, table.partial, ladder, self.mistakes),
            file=self._file(),
            checklist=self._checklist(),
            within=self._within(),
            count=table.count,
            good=table.good if perplexity else 0.0,
            bad=table.bad if perplexity else 0.0,
            weights=table.weights if perplexity else "",
        )

    def _claim(self) -> str:
        try:
            return claims[self.table.claim].name if self.table.claim else ""
        except InputError as error:
            self.add(str(error))
            return ""

    def _kind(self) -> Kind:
        """As it is said; else what the claim asks for."""
        natural = Kind.OWN if "file" in self.raw else Kind.WRITTEN
        if self.claim:
            one = claims[self.claim]
            asks_for_function = one.question is not None
            natural = Kind.TRANSFORMER if one.asks_for_code else Kind.CLAIM if asks_for_function else Kind.WRITTEN
        kind = self.table.kind or (Kind.WRITTEN if "kind" in self.raw else natural)
        if kind in KINDS_WITH_A_CLAIM and natural is not kind and (self.claim or not self.table.claim):
            asks = f"{self.claim} asks for something of kind {natural.value}" if self.claim else "it names no claim"
            self.add(f"kind = {kind.value!r} does not fit: {asks}.")
        return kind

    def _function(self) -> str:
        if self.kind in (Kind.WRITTEN, Kind.DERIVATION):
            return ""
        default = "TransformerTranslator" if self.kind is Kind.TRANSFORMER else self.claim.replace("-", "_")
        if not default and "function" not in self.raw:
            self.add("function is missing: the function that students write.")
        return self.table.function or default

    def _sizes(self) -> dict[str, float]:
        given = self.table.set
        if not given:
            return {}
        question = claims[self.claim].question if self.claim else None
        if self.kind is not Kind.CLAIM or question is None:
            self.add("set fixes sizes of a claim's instances; this question has none.")
            return {}
        try:
            chosen = question.chosen_sizes(given, self.claim)
        except InputError as error:
            self.add(str(error))
            return {}
        return {size.name: size.ladder[0] for size in chosen if size.name in given}

    def _file(self) -> Path | None:
        if self.kind is Kind.DERIVATION and not self.table.file:
            self._require_problem()
            return None
        needs = self.kind in (Kind.OWN, Kind.PERPLEXITY, Kind.DERIVATION)
        if needs and not self.table.file:
            self.add(f"a question of kind {self.kind.value} needs file = '...', beside the assignment.")
        elif self.table.file and not needs:
            self.add(f"file is for questions of kind own, perplexity and derivation; this one is {self.kind.value}.")
        elif needs:
            path = self.place.parent / self.table.file
            try:
                _try_file(path, self.kind)
            except (InputError, OSError) as error:
                self.add(str(error))
                return None
            return path
        return None

    def _require_problem(self) -> None:
        """A derivation needs a claim whose derivations are checked, or a problem's file."""
        if self.claim not in problem_names():
            listed = ", ".join(problem_names())
            self.add(f"a derivation needs file = 'problem.toml', or a claim whose derivations are checked: {listed}.")

    def _checklist(self) -> tuple[Line, ...]:
        given = self.table.checklist
        if self.kind is Kind.WRITTEN and not given and "claim" not in self.raw:
            self.add("a written question needs a checklist, by which a person marks it.")
        where = f"{self.where}checklist: "
        tables = [{"text": one} if isinstance(one, str) else one if isinstance(one, dict) else {} for one in given]
        lines = [read_table(Line, one, self.mistakes, where=where) for one in tables]
        return tuple(replace(line, text=line.text.strip()) for line in lines if line is not None)

    def _within(self) -> float:
        question = claims[self.claim].question if self.claim and self.kind is Kind.CLAIM else None
        # the students' build cannot measure it
        if "within" in self.raw and (question is None or not question.measure):
            self.add("within compares with the best possible answer, and this question knows none.")
            return 0.0
        return self.table.within


def _try_file(path: Path, kind: Kind) -> None:
    """Load the file and make its first instance: a mistake in it is found here, not among the submissions."""
    if kind is Kind.DERIVATION:
        read_problem(path)
    elif kind is Kind.OWN:
        try:
            question = question_of(path)
            question.shape(question.make(np.eye(8), level=1).given)
        except JudgeError as error:
            raise InputError(str(error)) from None
    else:
        read_hidden_sentences(path)


def _refuse_twins(tasks: tuple[Task, ...], mistakes: Mistakes) -> None:
    for what in ("id", "function"):
        seen: set[str] = set()
        for task in tasks:
            value = getattr(task, what)
            if value and value.casefold() in seen:
                mistakes.add(f"two questions have the {what} {value!r}; each needs its own.")
            seen.add(value.casefold())

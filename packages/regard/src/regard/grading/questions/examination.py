"""One answer examined: stage by stage, from the plainest instances to the adversary, until a stage fails.

What is found is an :class:`Outcome`, plain data: it goes into the journal, and points are computed from it later.
Work is counted, not time: the same answer gives the same outcome on every machine. What the clock has stopped is
CUT_SHORT, and what this machine could not run is NOT_RUN; neither is a zero.

Answers that are models: a student's Transformer, checked part by part, and kinds that plugins add (audits).

They run in the jail like every answer, with torch and a tool of ours beside them. The Transformer is judged here: its
inputs and parameters are drawn here, and the tool's recording must belong to them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from regard.coursework.adversary import Attempt
from regard.coursework.answers.answer_check import Check, Stage
from regard.coursework.derivations.problem import Problem, read_problem
from regard.coursework.derivations.report import DerivationReport, check_derivation, require_problem
from regard.coursework.derivations.report import reason as line_reason
from regard.coursework.derivations.verdicts import Mark
from regard.coursework.question import Instance, format_distinctly
from regard.errors import CouldNotFindOut, InputError
from regard.extras import NOT_INSTALLED, QUESTION_KINDS, load_plugin
from regard.grading.questions.assignment import DERIVATION_SHARES, ORDER, Kind, Limits, Task
from regard.grading.submissions.notebooks import Code
from regard.sandbox.clock import Clock
from regard.sandbox.jail import Tier
from regard.sandbox.runner import Runner, SandboxStartError, TimeLimitError
from regard.sandbox.tool import NO_TORCH, Tool
from regard.written_numbers import at_least


class Status(StrEnum):
    """How an examination ended."""

    PASSED = "passed"  # nothing was found against it
    FAILED = "failed"
    CUT_SHORT = "cut short"  # by the clock: for a person to look at
    NOT_RUN = "not run"  # this machine could not: grade again
    BY_HAND = "by hand"  # a person marks it
    DOUBTED = "doubted"  # it seems right, and could not be checked again from outside: a person looks at it


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What running one answer has shown; ``share`` is of the points, where that is not by stages."""

    status: Status
    passed: tuple[str, ...] = ()  # stages
    at: str = ""  # the stage that failed
    share: float | None = None
    reason: str = ""
    counterexample: Mapping[str, Any] | None = None  # said, setting, code
    mistakes: tuple[str, ...] = ()  # names of what is wrong, for counting
    instances: int = 0
    moves: int = 0
    tier: str = ""
    confined: str = ""
    printed: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0  # the limit that cut it short: with a higher one it is tried again

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Outcome:
        lists = {name: tuple(said[name]) for name in ("passed", "mistakes", "notes")}
        return cls(**{**said, **lists, "status": Status(said["status"])})


@dataclass(frozen=True, kw_only=True, eq=False)
class StudentAnswer:
    """What is to be examined: the name of a file, its text, the notebook behind it, and the seed of the instances."""

    name: str
    source: bytes
    seed: int
    notebook: Code | None = None
    weights: bytes | None = None  # of a model, where the question asks for them


class WorkClock(Clock):
    """Looking for a smaller counterexample is bounded by work; the wall's clock ends only what would take for ever."""

    def is_late(self) -> bool:
        return time.monotonic() - self.start > 20 * self.limit


def examine(task: Task, given: StudentAnswer, *, limits: Limits, jail: Tier) -> Outcome:
    """Run one answer in a process of its own, and judge it here."""
    if not task.asks_for_function:
        return examine_model(task, given, limits=limits, jail=jail)
    clock = WorkClock(limits.seconds)
    arguments = tuple(task.question.arguments)
    runner = Runner(
        f"{given.name}:{task.function}",
        function=task.function,
        arguments=arguments,
        clock=clock,
        jail=jail,
        code=given.source,
        tool=tool_of(task),
    )
    try:
        with runner:
            outcome = _judge_answer(task, given, runner, clock, limits)
    except SandboxStartError as error:
        return Outcome(status=Status.NOT_RUN, reason=str(error))
    except TimeLimitError as error:
        outcome = Outcome(status=Status.CUT_SHORT, reason=without_author_advice(str(error)))
    except CouldNotFindOut as error:  # the judge's own, or the teacher's
        outcome = Outcome(status=Status.NOT_RUN, reason=str(error))
    except InputError as error:  # whatever is wrong before the first instance
        if NO_TORCH in str(error):
            return Outcome(status=Status.NOT_RUN, reason=str(error))
        outcome = failed_outcome(str(error), at=Stage.PLAIN)
    return _add_run_details(_as_handed_in(outcome, given), runner)


def tool_of(task: Task) -> Tool | None:
    """What goes in beside the code: torch and the weights, where the question asks for a model with weights."""
    if not task.weights:
        return None
    from regard.grading.questions.perplexity import SCORER

    return SCORER


def failed_outcome(reason: str, *, at: str = "", **more: Any) -> Outcome:
    """It fails, for this reason."""
    return Outcome(status=Status.FAILED, reason=reason, at=at, mistakes=(pattern(reason),), **more)


NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"


def pattern(reason: str) -> str:
    """What reasons have in common that differ in their numbers only.

    >>> pattern("alpha_0 = 0.333333 is below 1/(2+eps) = 0.4"), pattern("hw.py:query failed: line 3: KeyError: 'a'")
    ('alpha_i is below 1/(2+eps)', "KeyError: 'a'")
    >>> pattern("the weights sum to 1.36788, not to 1")
    'the weights sum to ..., not to 1'
    """
    kept = re.sub(r"^\S+?\.(py|ipynb)(:\w+)?:? ", "", reason).partition(" (for ")[0]
    kept = re.sub(r"^(failed|cannot be imported): ((cell \d+, )?line \d+: )?", "", kept)
    kept = re.sub(r"^with [^,;]*, | for \w+ of shape .*?(?=, not |; )", "", kept)
    kept = kept.removesuffix("; fix it first.")
    kept = re.sub(r"np\.array\(.*?\)(?= |$|;)", "...", kept)
    kept = re.sub(rf" = {NUMBER}(?![\w/(])", "", kept)  # a value; its name and the bound's formula stay
    kept = re.sub(r"_\d+\b", "_i", kept)
    return re.sub(rf"(?<![\w/(+.])(?!(?<=not to )[01]$){NUMBER}(?![\w/(+])", "...", kept)[:160]


def failure_in_words(reason: str, code: str = "") -> str:
    """A bound that is missed, as a person says it; an index has the name that the counterexample's code gives it.

    >>> failure_in_words("alpha_0 = 0.333333 is below 1/(2+eps) = 0.4", "a = 0")
    'alpha_a is 0.333, needed 0.4'
    """
    found = re.search(rf"(\w+?)(?:_(\d+))? = ({NUMBER}) is (below|above) \S+ = ({NUMBER})$", reason)
    if found is None:
        return reason
    name, index, value, side, bound = found.groups()
    letters = re.findall(rf"(?m)^([abij]) = {index}$", code) if index else []
    name += f"_{letters[0] if len(letters) == 1 else index}" if index else ""
    is_, needed = format_distinctly(float(value), float(bound), digits=3)
    return f"{reason[: found.start()]}{name} is {is_}, {'needed' if side == 'below' else 'allowed'} {needed}"


def _as_handed_in(outcome: Outcome, given: StudentAnswer) -> Outcome:
    """In the words of the file that was handed in: of a notebook, cells and not the lines that were made of them."""
    reason = outcome.reason.replace(".ipynb.py", ".ipynb").removesuffix("; fix it first.")
    if given.notebook is None:
        return replace(outcome, reason=reason)
    reason = given.notebook.with_cell_numbers(reason)
    return replace(outcome, reason=reason, notes=(*outcome.notes, *given.notebook.notes))


def _add_run_details(outcome: Outcome, runner: Runner) -> Outcome:
    """With what kept it in, and what it printed."""
    return replace(
        outcome,
        tier=runner.tier.value,
        seconds=runner.clock.limit if outcome.status is Status.CUT_SHORT else 0.0,
        confined=hide_user(runner.jail_description),
        printed=(runner.printed_text if hasattr(runner, "lines") else "")[:500],
    )


def without_author_advice(reason: str) -> str:
    """Without the advice to the author of a single check."""
    return reason.partition("; end the loop")[0] + "; that is no verdict: a person has to look at it."


def _judge_answer(task: Task, given: StudentAnswer, runner: Runner, clock: Clock, limits: Limits) -> Outcome:
    if task.kind is Kind.STATEMENTS:
        from regard.grading.questions.statements import judge_statements

        return judge_statements(task, runner, given.seed)
    if task.kind is Kind.PERPLEXITY:
        from regard.grading.questions.perplexity import judge_perplexity

        return judge_perplexity(task, runner, given.weights)
    question = task.question
    sizes = question.chosen_sizes(dict(task.sizes), task.claim or task.id)
    check = Check(task.claim or task.id, question, runner.name, runner.call, sizes, clock, given.seed)
    return Stages(check, limits, within=task.within).examine()


@dataclass(eq=False)
class Stages:
    """The stages of one examination, and how far it has come.

    Random instances and the adversary are passed together or not at all: which of the two meets a failure is luck.
    """

    check: Check
    limits: Limits
    within: float = 0.0
    fresh: int = 0
    passed: list[str] = field(default_factory=list)
    tried: list[Attempt] = field(default_factory=list)

    def examine(self) -> Outcome:
        """Stage by stage; the first failure ends it."""
        groups = self.check.steps(self.limits.instances)
        self.fresh = sum(map(len, groups.values()))
        empty: list[str] = []  # a question without traps: their share goes with the next step
        for stage in ORDER:
            try:
                outcome = self._adversary() if stage is Stage.ADVERSARY else self._stage(stage, groups[stage])
            except TimeLimitError as error:
                return self._outcome(Status.CUT_SHORT, reason=without_author_advice(str(error)), at=stage)
            except SandboxStartError:
                raise
            except InputError as error:  # it raised, or returned something that is no answer, or ended the process
                return self._outcome(Status.FAILED, reason=str(error), at=stage, mistakes=(pattern(str(error)),))
            if outcome is not None:
                return outcome
            empty.append(stage.value)
            if groups.get(stage) or stage is Stage.ADVERSARY:
                self.passed += empty
                empty = []
        return self._outcome(Status.PASSED, notes=self._unsteady_notes())

    def _stage(self, stage: Stage, instances: list[Instance]) -> Outcome | None:
        for instance in instances:
            one = self.check.judge(instance)
            if one.ruling.fails:
                return self._failure(one, stage)
            self.tried.append(one)
        return None

    def _adversary(self) -> Outcome | None:
        failure = self.check.adversary_failure(self.tried, moves=self.limits.moves)
        if failure is not None:
            return self._failure(failure, Stage.ADVERSARY)
        again = self.check.judge(self.tried[0].instance)  # whoever counts calls, or looks at the clock, shows here
        if again.ruling.fails:
            return self._failure(again, Stage.ADVERSARY, shrink=False)
        if (far := self._too_far()) is not None:
            return far
        if self.check.clock.stopped:
            most = at_least(0.9 * self.limits.seconds, 3)
            reason = f"it took more than {most} s before all moves of the adversary were made"
            return self._outcome(Status.CUT_SHORT, reason=reason, at=Stage.ADVERSARY)
        return None

    def _too_far(self) -> Outcome | None:
        """Right, but much larger than it need be, where the assignment bounds that."""
        distance = self.check.distance(self.tried) if self.within else None
        if distance is None or distance.most <= self.within * (1 + 1e-9):
            return None
        times, most = format_distinctly(distance.most, self.within, digits=4)
        said = f"it is right, but {distance.measure.format(f'{times} times')}, and {most} are allowed"
        mistakes = ("right, but too far from the best",)
        return self._outcome(Status.FAILED, reason=said, at=Stage.ADVERSARY, mistakes=mistakes)

    def _failure(self, one: Attempt, stage: Stage, *, shrink: bool = True) -> Outcome:
        asked = self.check.asked  # before anything smaller is looked for
        smallest = self.check.counterexample(self.check.shrink(one) if shrink else one)
        code = smallest.code.replace("numbers: to_json() has them", "numbers, too many to be shown")
        shown = {"said": smallest.said, "setting": dict(smallest.setting), "code": code}
        self.check.asked = asked
        notes = () if shrink else ("for the same arguments it gave a right answer first, and a wrong one later",)
        return self._outcome(
            Status.FAILED,
            reason=smallest.said,
            at=stage,
            counterexample=shown,
            mistakes=(pattern(smallest.said),),
            notes=notes,
        )

    def _unsteady_notes(self) -> tuple[str, ...]:
        first = self.tried[0]
        answer = self.check.judge(first.instance).answer
        same = np.array_equal(np.asarray(answer, dtype=object), np.asarray(first.answer, dtype=object))
        return () if same else ("its answers change from call to call",)

    def _outcome(self, status: Status, **more: Any) -> Outcome:
        fresh = min(self.check.asked, self.fresh)
        lucky = () if status is Status.PASSED else (Stage.RANDOM,)
        passed = tuple(stage for stage in self.passed if stage not in lucky)
        return Outcome(status=status, passed=passed, instances=fresh, moves=max(self.check.asked - fresh, 0), **more)


Judge = Callable[[Task, StudentAnswer, Limits, Tier], Outcome]


def examine_model(task: Task, given: StudentAnswer, *, limits: Limits, jail: Tier) -> Outcome:
    """What a model is worth: the share of its parts that are right, or whether its audit found nothing."""
    try:
        outcome = _judge_of(task.kind)(task, given, limits, jail)
    except SandboxStartError as error:
        return Outcome(status=Status.NOT_RUN, reason=str(error))
    except TimeLimitError as error:
        outcome = Outcome(status=Status.CUT_SHORT, reason=without_author_advice(str(error)), seconds=limits.seconds)
    except CouldNotFindOut as error:  # silent, never false: a person looks, and nobody is accused
        outcome = Outcome(status=Status.DOUBTED, share=0.0, reason=f"a person has to look: {error}")
    except InputError as error:
        if NO_TORCH in str(error) or NOT_INSTALLED in str(error):
            return Outcome(status=Status.NOT_RUN, reason=str(error))
        outcome = failed_outcome(str(error), share=0.0)
    except Exception as error:  # of the judge, on what came back: no reason to stop the others, and no zero
        reason = f"what came back could not be judged ({type(error).__name__}); a person has to look at it"
        outcome = Outcome(status=Status.DOUBTED, share=0.0, reason=reason)
    return replace(_as_handed_in(outcome, given), tier=jail.value)


def _judge_of(kind: Kind) -> Judge:
    if kind is Kind.TRANSFORMER:
        return _transformer_outcome
    judge: Judge = load_plugin(QUESTION_KINDS, kind.value, what=f"A question of kind {kind.value}")
    return judge


def _transformer_outcome(task: Task, given: StudentAnswer, limits: Limits, jail: Tier) -> Outcome:
    from regard.coursework.checker import recorded_run
    from regard.coursework.checker.check import check_recording

    seed, spec = given.seed % 2**31, f"{given.name}:{task.function}"
    ran = recorded_run.record_in_sandbox(
        spec, default=task.function, seed=seed, limit=limits.seconds, jail=jail, code=given.source
    )
    report = check_recording(ran, name=spec, seed=seed, hints=1, several_heads=True)
    parts = report.diagnosis.parts
    right = sum(verdict == "right" for verdict in parts.values())
    # a mistake of the model as a whole costs as much as one in a part
    share = 1.0 if report.answer else min(right, len(parts) - 1) / len(parts) if parts else 0.0
    kept: dict[str, Any] = {"instances": len(parts), "confined": hide_user(ran.confined), "printed": ran.printed[:500]}
    if report.doubts and right:
        reason = f"{right} of {len(parts)} parts equal the reference, but a person has to look: {report.doubts[0]}"
        return Outcome(status=Status.DOUBTED, share=share, reason=reason, notes=report.doubts[1:], **kept)
    if report.answer:
        return Outcome(status=Status.PASSED, share=share, notes=report.diagnosis.departures, **kept)
    where = "; ".join(f"look at {one.where}" for one in report.diagnosis.mistakes)
    said = f"{right} of {len(parts)} parts equal the reference" + (f"; {where}" if where else "")
    names = tuple(one.said for one in report.diagnosis.mistakes) or ("differs from the reference",)
    return Outcome(status=Status.FAILED, share=share, reason=said, mistakes=names, **kept)


def hide_user(confined: str) -> str:
    return re.sub(r"user \d+", "another user", confined)  # else two runs would differ


# derivations: nothing is run. What is true, but not proved, and what is not read goes to a person, with our remark


def problem_of(task: Task) -> Problem:
    """The problem that a task names: the teacher's own file, or its claim's."""
    return read_problem(task.file) if task.file is not None else require_problem(task.claim)


def examine_derivation(task: Task, text: str) -> Outcome:
    """What a derivation is worth."""
    if not text.strip():
        return failed_outcome(f"there is no text for {task.id}", share=0.0)
    try:
        report = check_derivation(task.claim, text, problem=problem_of(task))
    except InputError as error:
        return failed_outcome(str(error), share=0.0)
    notes = tuple(f"line {one.line}: {one.text}: {one.mark.value}; {line_reason(one)}" for one in report.lines)
    share = points_share(report, problem_of(task))
    if report.first_false is not None:
        wrong = report.first_false
        said = f"line {wrong.line} is false: {wrong.text}; {line_reason(wrong)}"
        return failed_outcome(said, share=share, notes=notes)
    if any(one.mark in (Mark.TRUE, Mark.NOT_READ) for one in report.lines):
        return Outcome(
            status=Status.DOUBTED, share=share, reason=f"a person has to look: {report.summary()}", notes=notes
        )
    if not report.complete:
        missing = "; ".join(report.missing) or "a line that can be read"
        return failed_outcome(f"it does not reach {missing}", share=share, notes=notes)
    return Outcome(status=Status.PASSED, share=share, notes=notes)


def points_share(report: DerivationReport, problem: Problem) -> float:
    """The share of the points, as the rule says."""
    before = report.lines
    if report.first_false is not None:
        before = before[: before.index(report.first_false)]
    follow = sum(one.mark in (Mark.FOLLOWS, Mark.DEFINES) for one in before)
    lines = follow / len(report.lines) if report.lines else 0.0
    whole = report.first_false is None
    goal = whole * (1 - len(report.missing) / len(report.goals))
    lemmas = [one.name for one in problem.lemmas]
    used = whole * (1 - sum(one in report.unused for one in lemmas) / len(lemmas)) if lemmas else goal
    return sum(share * part for share, part in zip(DERIVATION_SHARES, (lines, goal, used), strict=True))
